//! A fleet manager as a process of its own: `serve CONFIG DATABASE ADDRESS`, with the configuration in JSON.
//!
//! This is what `gregor fleet serve` does, without the rest of the program, for tests that kill it.

use anyhow::Context as _;
use fleet::provider::Providers;
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [config, database, address] = arguments.as_slice() else {
        anyhow::bail!("usage: serve CONFIG DATABASE ADDRESS");
    };
    let config = serde_json::from_slice(&std::fs::read(config).context("the configuration")?)?;
    let listener = TcpListener::bind(address).await?;
    let forever = std::future::pending();
    fleet::service::run(config, database, listener, Providers::new(), forever).await?;
    Ok(())
}
