//! What a node is now, on its way from what it was to what is desired.
//!
//! 1. A role that is desired is there at once; a node that has none is not there.
//! 2. The broker role goes when the guard says so, the controller role when the quorum has released it.
//! 3. A node that was stopped as a whole stays so until its last trace is gone, whatever is desired
//!    meanwhile: its disk may be gone at any moment, and with it a vote that it got in between. It comes back
//!    as a new node, or because the guard brings the broker back.

use super::guard;
use super::leaving::Leaving;
use crate::node::Roles;

/// What is known of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts<'a> {
    /// What is desired; `None` if it is to go.
    pub desired: Option<Roles>,
    /// What is recorded; `None` if it is new.
    pub recorded: Option<Roles>,
    /// How far it is, if its broker role is leaving.
    pub leaving: Option<&'a Leaving>,
    /// Whether the quorum has released it ([`super::controllers`]).
    pub released: bool,
}

/// The roles that its pod, its configuration and its registration follow, and that are recorded; `None` if it
/// has no pod, and then what was recorded stays.
#[must_use]
pub fn now(facts: &Facts) -> Option<Roles> {
    let is_broker = |roles: Option<Roles>| roles.is_some_and(Roles::is_broker);
    let is_controller = |roles: Option<Roles>| roles.is_some_and(Roles::is_controller);
    let broker = match facts.leaving {
        Some(leaving) => guard::duty(leaving.phase).runs,
        // A broker is never dropped before the guard has taken it up.
        None => is_broker(facts.desired) || is_broker(facts.recorded),
    };
    let stopped = facts.leaving.is_some_and(Leaving::is_stopped);
    // One that goes as a whole is not restarted on the way only to give up its vote.
    let stays = !facts.released || (broker && facts.desired.is_none());
    let controller = is_controller(facts.desired) || (is_controller(facts.recorded) && stays);
    match (broker, controller) {
        _ if stopped => None,
        (true, true) => Some(Roles::Combined),
        (true, false) => Some(Roles::Broker),
        (false, true) => Some(Roles::Controller),
        (false, false) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::guard::Phase;
    use super::super::leaving::Kind;
    use super::*;
    use Roles::{Broker, Combined, Controller};

    #[test]
    #[rustfmt::skip]
    fn the_rows_hold() {
        let node = Kind::Node;
        let role = Kind::Role;
        // desired, recorded, leaving, released, what it is
        let rows = [
            ("a new broker",                Some(Broker),     None,             None,                           false, Some(Broker)),
            ("as it is",                    Some(Combined),   Some(Combined),   None,                           false, Some(Combined)),
            ("a broker gets a vote",        Some(Combined),   Some(Broker),     None,                           false, Some(Combined)),
            ("a controller gets data",      Some(Combined),   Some(Controller), None,                           false, Some(Combined)),
            ("a broker that drains",        None,             Some(Broker),     Some((Phase::Draining, node)),  false, Some(Broker)),
            ("a broker that stops",         None,             Some(Broker),     Some((Phase::Stopping, node)),  false, None),
            ("a broker that returns",       Some(Broker),     Some(Broker),     Some((Phase::Returning, node)), false, Some(Broker)),
            ("desired too late",         Some(Broker),     Some(Broker),     Some((Phase::Cleaning, node)),  false, None),
            ("too late, as a combined one", Some(Combined),   Some(Combined),   Some((Phase::Cleaning, node)),  false, None),
            ("not taken up by the guard",   None,             Some(Broker),     None,                           false, Some(Broker)),
            ("a controller that votes",     None,             Some(Controller), None,                           false, Some(Controller)),
            ("a controller that is free",   None,             Some(Controller), None,                           true,  None),
            ("it loses its vote",           Some(Broker),     Some(Combined),   None,                           false, Some(Combined)),
            ("it has lost it",              Some(Broker),     Some(Combined),   None,                           true,  Some(Broker)),
            ("it loses its data",           Some(Controller), Some(Combined),   Some((Phase::Draining, role)),  false, Some(Combined)),
            ("it has lost them",            Some(Controller), Some(Combined),   Some((Phase::Stopped, role)),   false, Some(Controller)),
            ("and is cleaned up",           Some(Controller), Some(Combined),   Some((Phase::Cleaning, role)),  false, Some(Controller)),
            ("both go, data last",          None,             Some(Combined),   Some((Phase::Draining, node)),  true,  Some(Combined)),
            ("both go, the vote last",      None,             Some(Combined),   Some((Phase::Draining, node)),  false, Some(Combined)),
            ("both are gone",               None,             Some(Combined),   Some((Phase::Stopping, node)),  true,  None),
            ("desired as a controller",  Some(Controller), Some(Combined),   Some((Phase::Stopped, node)),   false, None),
        ];
        for (name, desired, recorded, leaving, released, expected) in rows {
            let leaving = leaving.map(|(phase, kind)| Leaving { phase, kind, pool: String::new() });
            let facts = Facts { desired, recorded, leaving: leaving.as_ref(), released };
            assert_eq!(now(&facts), expected, "{name}");
        }
    }
}
