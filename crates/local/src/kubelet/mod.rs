//! A node agent that runs pods as processes.
