//! Rebalancing: requests of people and of clusters themselves, what clusters carry, and moving it.
//!
//! - [`request`] is the controller of `KafkaRebalance` resources;
//! - [`engine`] makes plans and carries them out: our own, or a Cruise Control that is there;
//! - [`load`] reads what a cluster carries, for `placement` to plan with;
//! - [`execute`] carries out a plan, one pass at a time;
//! - [`store`] is what is remembered of all this.
//!
//! What it must not do: decide where replicas go, or when. That is for `placement` and `control`.

pub(crate) mod engine;
mod error;
pub mod execute;
pub mod load;
pub(crate) mod request;
pub(crate) mod site;
pub(crate) mod store;

pub(crate) use error::RebalanceError;
pub use store::{Executing, executing, is_moving, job};

#[cfg(test)]
mod tests {
    use super::*;

    fn is_send<T: Send>(_: fn() -> T) {}

    /// Passes of controllers are tasks, so that whatever they await goes from thread to thread.
    #[test]
    fn what_passes_await_can_go_from_thread_to_thread() {
        struct Nowhere;
        impl execute::Store for Nowhere {
            type Error = std::convert::Infallible;
            async fn save(
                &mut self,
                _: &control::rebalance::execution::Recorded,
            ) -> Result<(), Self::Error> {
                Ok(())
            }
        }
        is_send(|| {
            let never = || -> Option<(execute::Reach<'static>, Nowhere)> { None };
            async move {
                let (reach, mut store) = never()?;
                let (job, recorded) = Default::default();
                let instructions = execute::Instructions::go_on(0);
                execute::pass(&reach, &job, &recorded, &instructions, &mut store).await.ok()
            }
        });
        is_send(|| {
            let never = || -> Option<load::Source<'static>> { None };
            async move {
                let samples = load::Samples::default();
                let names = api::names::Names::new("n", "c");
                load::collect(&never()?, &samples, &names, &Default::default()).await.ok()
            }
        });
    }
}
