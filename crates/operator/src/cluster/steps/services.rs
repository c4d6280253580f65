//! Services, and the addresses at which clients find the brokers.

use objects::areas::services;

use crate::cluster::apply;
use crate::cluster::error::PassError;
use crate::cluster::pass::{Step, Work};

pub(crate) async fn run(work: &mut Work) -> Result<Step, PassError> {
    let built = services::build(&work.blueprint)?;
    apply::built(work, built).await?;
    // The API server assigns node ports as it stores a Service, so they are in what it returned.
    let (addresses, flow) = services::addresses(&work.blueprint, &work.found);
    work.known.addresses = Some(addresses);
    Ok(flow.into())
}
