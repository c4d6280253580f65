//! Round robin and client affinity. Pure: the clock is a parameter.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use super::table::Route;

/// Remembered clients before expired ones are removed.
const CLIENTS_MAX: usize = 1024;

/// Chooses backends for one address.
#[derive(Debug)]
pub(crate) struct Picker {
    route: Route,
    turn: usize,
    chosen: HashMap<IpAddr, (SocketAddr, Instant)>,
}

impl Picker {
    pub(crate) fn new(route: Route) -> Self {
        Self { route, turn: 0, chosen: HashMap::new() }
    }

    /// Changes the backends for future connections.
    pub(crate) fn change(&mut self, route: Route) {
        self.route = route;
    }

    pub(crate) fn route(&self) -> &Route {
        &self.route
    }

    /// All backends in the order in which to try them.
    pub(crate) fn order(&mut self, client: IpAddr, now: Instant) -> Vec<SocketAddr> {
        let mut order = self.route.backends.clone();
        if order.is_empty() {
            return order;
        }
        let turn = self.turn % order.len();
        self.turn = self.turn.wrapping_add(1);
        order.rotate_left(turn);
        if let (Some(time), Some((backend, since))) =
            (self.route.affinity, self.chosen.get(&client).copied())
            && now.saturating_duration_since(since) < time
            && let Some(index) = order.iter().position(|one| *one == backend)
        {
            order[..=index].rotate_right(1);
        }
        order
    }

    /// Remembers the backend that accepted a connection, for services with affinity.
    pub(crate) fn taken(&mut self, client: IpAddr, backend: SocketAddr, now: Instant) {
        let Some(time) = self.route.affinity else { return };
        if self.chosen.len() >= CLIENTS_MAX {
            self.chosen.retain(|_, (_, since)| now.saturating_duration_since(*since) < time);
        }
        self.chosen.insert(client, (backend, now));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn route(backends: &[&str], affinity: Option<u64>) -> Route {
        Route {
            service: k8s_openapi::api::core::v1::ObjectReference::default(),
            backends: backends.iter().map(|text| text.parse().unwrap()).collect(),
            affinity: affinity.map(Duration::from_secs),
        }
    }

    const CLIENT: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
    const A: &str = "127.1.0.1:1";
    const B: &str = "127.1.0.2:1";
    const C: &str = "127.1.0.3:1";

    fn first(picker: &mut Picker, now: Instant) -> String {
        picker.order(CLIENT, now)[0].to_string()
    }

    #[test]
    fn backends_take_turns_and_all_are_tried() {
        let (mut picker, now) = (Picker::new(route(&[A, B, C], None)), Instant::now());
        let firsts: Vec<String> = (0..4).map(|_| first(&mut picker, now)).collect();
        assert_eq!(firsts, [A, B, C, A]);
        assert_eq!(picker.order(CLIENT, now).len(), 3);
    }

    #[test]
    fn no_backends_is_an_empty_order() {
        let mut picker = Picker::new(route(&[], None));
        assert!(picker.order(CLIENT, Instant::now()).is_empty());
    }

    #[test]
    fn a_client_stays_with_its_backend_until_time_or_backend_is_gone() {
        let (mut picker, now) = (Picker::new(route(&[A, B, C], Some(10))), Instant::now());
        picker.taken(CLIENT, B.parse().unwrap(), now);
        for _ in 0..4 {
            assert_eq!(first(&mut picker, now + Duration::from_secs(9)), B);
        }
        let after = now + Duration::from_secs(10);
        let firsts: Vec<String> = (0..3).map(|_| first(&mut picker, after)).collect();
        assert!(firsts.contains(&A.to_owned()) && firsts.contains(&C.to_owned()));
        picker.change(route(&[A, C], Some(10)));
        assert_ne!(first(&mut picker, now), B);
    }
}
