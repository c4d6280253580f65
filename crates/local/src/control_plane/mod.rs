//! The control plane as processes.
