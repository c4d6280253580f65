//! From names to addresses. Local mode brings its own table, since its names are in no DNS.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;

/// A look-up under way.
pub type Resolving<'a> = Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send + 'a>>;

/// Finds the addresses of a name.
pub trait Resolve: fmt::Debug + Send + Sync {
    /// All addresses to try, in order. None is an error.
    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> Resolving<'a>;
}

/// The names that the operating system knows.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemNames;

impl Resolve for SystemNames {
    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> Resolving<'a> {
        Box::pin(async move { Ok(tokio::net::lookup_host((host, port)).await?.collect()) })
    }
}

/// A table of names, with the operating system behind it for those that are not in it.
#[derive(Debug, Clone, Default)]
pub struct HostTable {
    addresses: BTreeMap<String, IpAddr>,
}

impl HostTable {
    /// The table with these names.
    pub fn new(entries: impl IntoIterator<Item = (String, IpAddr)>) -> Self {
        Self { addresses: entries.into_iter().collect() }
    }
}

impl Resolve for HostTable {
    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> Resolving<'a> {
        match self.addresses.get(host) {
            Some(address) => {
                let address = SocketAddr::new(*address, port);
                Box::pin(async move { Ok(vec![address]) })
            }
            None => SystemNames.resolve(host, port),
        }
    }
}
