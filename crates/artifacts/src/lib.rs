//! Gets the programs that Gregor runs but does not contain, into a cache.
