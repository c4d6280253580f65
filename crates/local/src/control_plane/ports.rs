//! The ports of a control plane on 127.0.0.1, stable across starts.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::components::Component;
use super::error::Error;

/// Below the ephemeral port range: an outgoing connection could occupy our port when a component is
/// restarted.
const FIRST: u16 = 20_000;
const COUNT: u16 = 10_000;

/// The port of each component.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Ports {
    pub(super) etcd_client: u16,
    pub(super) etcd_peer: u16,
    pub(super) api_server: u16,
    pub(super) controller_manager: u16,
    pub(super) scheduler: u16,
}

impl Ports {
    /// Finds free ports. The search starts at an offset derived from the state directory, so that concurrent
    /// starts do not collide.
    pub(super) fn choose(state: &Path) -> Result<Self, Error> {
        let mut search = Search::new(state);
        Ok(Self {
            etcd_client: search.next()?,
            etcd_peer: search.next()?,
            api_server: search.next()?,
            controller_manager: search.next()?,
            scheduler: search.next()?,
        })
    }

    fn all(&self) -> [u16; 5] {
        let Self { etcd_client, etcd_peer, api_server, controller_manager, scheduler } = *self;
        [etcd_client, etcd_peer, api_server, controller_manager, scheduler]
    }

    /// The client port of a component.
    pub(super) fn of(&self, component: Component) -> u16 {
        match component {
            Component::Etcd => self.etcd_client,
            Component::ApiServer => self.api_server,
            Component::ControllerManager => self.controller_manager,
            Component::Scheduler => self.scheduler,
        }
    }

    /// Replaces the ports of a component that other programs use; returns (before, now). The component must
    /// not be running.
    pub(super) fn replace_taken(
        &mut self,
        component: Component,
        state: &Path,
    ) -> Result<Vec<(u16, u16)>, Error> {
        let all = self.all();
        let mine: Vec<&mut u16> = match component {
            Component::Etcd => vec![&mut self.etcd_client, &mut self.etcd_peer],
            Component::ApiServer => vec![&mut self.api_server],
            Component::ControllerManager => vec![&mut self.controller_manager],
            Component::Scheduler => vec![&mut self.scheduler],
        };
        let mut replaced = Vec::new();
        let mut search = Search::new(state);
        for port in mine.into_iter().filter(|port| !is_free(**port)) {
            // Ports of components that are not running look free.
            let mut new = search.next()?;
            while all.contains(&new) {
                new = search.next()?;
            }
            replaced.push((*port, new));
            *port = new;
        }
        Ok(replaced)
    }
}

struct Search {
    from: u16,
    tried: u16,
}

impl Search {
    fn new(state: &Path) -> Self {
        let mut hasher = DefaultHasher::new();
        state.hash(&mut hasher);
        // The remainder is below COUNT.
        let from = (hasher.finish() % u64::from(COUNT)) as u16;
        Self { from, tried: 0 }
    }

    fn next(&mut self) -> Result<u16, Error> {
        while self.tried < COUNT {
            let port = FIRST + (self.from + self.tried) % COUNT;
            self.tried += 1;
            if is_free(port) {
                return Ok(port);
            }
        }
        Err(Error::NoFreePort)
    }
}

fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_differ_and_one_that_was_taken_is_replaced() {
        let state = Path::new("/srv/a/state");
        let mut ports = Ports::choose(state).unwrap();
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, ports.etcd_peer)).unwrap();
        let before = ports.clone();
        assert_eq!(ports.replace_taken(Component::Scheduler, state).unwrap(), []);
        let replaced = ports.replace_taken(Component::Etcd, state).unwrap();
        assert_eq!(replaced, [(before.etcd_peer, ports.etcd_peer)]);
        assert_ne!(ports.etcd_peer, taken.local_addr().unwrap().port());
        assert!(!before.all().contains(&ports.etcd_peer));
        assert_eq!(ports.etcd_client, before.etcd_client);
    }
}
