//! A node agent that runs pods as processes. It talks to the API server only.

mod files;
mod pod;
mod process;
pub mod shim;
