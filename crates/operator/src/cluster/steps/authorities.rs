//! The authorities of the cluster, and the operator's own certificate.

use crate::cluster::error::PassError;
use crate::cluster::pass::{Step, Work};

/// What the steps after this one need of the authorities.
#[derive(Debug)]
pub(crate) struct Authorities {
    /// What nodes trust, in PEM.
    pub(crate) trusted: String,
    /// What clients should trust, in PEM, one text for each certificate.
    pub(crate) published: Vec<String>,
    pub(crate) operator_certificate: Vec<u8>,
    pub(crate) operator_key: Vec<u8>,
}

pub(crate) async fn run(_work: &mut Work) -> Result<Step, PassError> {
    Ok(Step::Done)
}
