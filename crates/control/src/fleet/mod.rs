//! Data planes that grow and shrink with demand.
