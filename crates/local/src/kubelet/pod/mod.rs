//! One pod: what is decided for it, what is said of it, and the actor that does it.

pub(crate) mod decide;
pub(crate) mod status;
