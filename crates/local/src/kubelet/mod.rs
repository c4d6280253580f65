//! A node agent that runs pods as processes. It talks to the API server only.

mod env;
mod files;
mod image;
mod pod;
mod probe;
mod process;
mod quantity;
pub mod server;
pub mod shim;
