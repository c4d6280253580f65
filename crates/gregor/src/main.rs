//! The `gregor` program.

fn main() {}
