//! What a broker has to know of the machine that it runs on: its rack, and where it is reached.
//!
//! The files and keys are those that the server properties refer to, and the same as in the operators
//! that people come from:
//!
//! | file | what |
//! |---|---|
//! | [`RACK_FILE`] | the value of the machine's rack label |
//! | [`ADDRESS_FILE`] | `nodeport.default.address=…`, and one `nodeport.KIND.address=…` for each kind |
//!
//! 1. A kind of address that the machine has not is answered with the best one that it has.
//! 2. A rack that was asked for and is not known is never left out: a broker without its rack would
//!    get replicas that belong elsewhere, and keep them.

use std::collections::BTreeMap;
use std::fmt;

pub use crate::cluster::properties::{ADDRESS_FILE, RACK_FILE};
use crate::cluster::properties::{is_host, render};

/// The kinds of addresses as Kubernetes writes them, the best for clients from outside first.
pub const ADDRESS_KINDS: [&str; 5] =
    ["ExternalDNS", "ExternalIP", "InternalDNS", "InternalIP", "Hostname"];

/// A machine, as Kubernetes describes it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Machine {
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its addresses, each with its kind.
    pub addresses: Vec<(String, String)>,
}

/// Why a machine cannot be described.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Missing {
    /// It has no such label, or an empty one.
    Rack(String),
    /// It has no address of a kind that is known.
    Address,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rack(label) => write!(
                f,
                "it has no label {label}, which names the rack of the broker: add the label, or \
                 change spec.kafka.rack"
            ),
            Self::Address => f.write_str("it has no address yet"),
        }
    }
}

/// The files that describe a machine, with what goes in each. `rack_label` is the label that names the
/// rack, if there are racks.
///
/// # Errors
/// If the machine does not say what is needed. It may later.
pub fn describe(
    machine: &Machine,
    rack_label: Option<&str>,
) -> Result<Vec<(&'static str, String)>, Missing> {
    let mut files = Vec::new();
    if let Some(label) = rack_label {
        let rack = machine.labels.get(label).filter(|rack| !rack.is_empty());
        // Without an end of line: the file as it is becomes the value of `broker.rack`.
        files.push((RACK_FILE, rack.ok_or_else(|| Missing::Rack(label.to_owned()))?.clone()));
    }
    let default = best_address(machine, None).ok_or(Missing::Address)?;
    let mut lines = vec![("nodeport.default.address".to_owned(), default.to_owned())];
    lines.extend(ADDRESS_KINDS.iter().map(|kind| {
        let address = best_address(machine, Some(kind)).unwrap_or(default);
        (format!("nodeport.{}.address", kind.to_ascii_lowercase()), address.to_owned())
    }));
    files.push((ADDRESS_FILE, render(&lines)));
    Ok(files)
}

/// Where a machine is best reached: at its first address of the preferred kind, else of the first kind
/// of [`ADDRESS_KINDS`] that it has.
#[must_use]
pub fn best_address<'a>(machine: &'a Machine, preferred: Option<&str>) -> Option<&'a str> {
    let first = |wanted: &str| {
        let mut addresses = machine.addresses.iter();
        // One that is no host would become more than one entry of Kafka's list of listeners.
        let found = addresses.find(|(kind, address)| kind == wanted && is_host(address));
        found.map(|(_, address)| address.as_str())
    };
    preferred.into_iter().chain(ADDRESS_KINDS).find_map(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ZONE: &str = "topology.kubernetes.io/zone";

    fn machine(labels: &[(&str, &str)], addresses: &[(&str, &str)]) -> Machine {
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        Machine {
            labels: labels.iter().map(owned).collect(),
            addresses: addresses.iter().map(owned).collect(),
        }
    }

    #[test]
    fn a_machine_with_everything() {
        let all = [
            ("InternalIP", "10.0.0.1"),
            ("Hostname", "m"),
            ("ExternalIP", "192.0.2.1"),
            ("ExternalIP", "192.0.2.2"),
            ("InternalDNS", "m.inside"),
            ("ExternalDNS", "m.outside"),
        ];
        let files = describe(&machine(&[(ZONE, "a")], &all), Some(ZONE)).unwrap();
        let addresses = "nodeport.default.address=m.outside\n\
                         nodeport.externaldns.address=m.outside\n\
                         nodeport.externalip.address=192.0.2.1\n\
                         nodeport.internaldns.address=m.inside\n\
                         nodeport.internalip.address=10.0.0.1\n\
                         nodeport.hostname.address=m\n";
        assert_eq!(files, [(RACK_FILE, "a".to_owned()), (ADDRESS_FILE, addresses.to_owned())]);
    }

    #[test]
    fn a_kind_that_is_not_there_is_answered_with_the_best_that_is() {
        let check = |addresses: &[(&str, &str)],
                     preferred: Option<&str>,
                     expected: Option<&str>| {
            let machine = machine(&[], addresses);
            assert_eq!(best_address(&machine, preferred), expected, "{addresses:?} {preferred:?}");
        };
        let inside = [("Hostname", "m"), ("InternalIP", "10.0.0.1")];
        check(&inside, None, Some("10.0.0.1"));
        check(&inside, Some("ExternalIP"), Some("10.0.0.1"));
        check(&inside, Some("Hostname"), Some("m"));
        check(&[("InternalIP", ""), ("Hostname", "m")], None, Some("m"));
        check(&[("Unheard", "x")], None, None);
        check(&[], Some("Hostname"), None);
    }

    #[test]
    fn an_address_that_is_no_host_is_ignored() {
        let rows = ["", "a,PLAIN://b", "a\nnodeport.x=y", "${gregordir:/x:y}", "a b", "a\\"];
        for odd in rows {
            let machine = machine(&[], &[("ExternalIP", odd), ("InternalIP", "fd00::1")]);
            assert_eq!(best_address(&machine, Some("ExternalIP")), Some("fd00::1"), "{odd:?}");
            let files = describe(&machine, None).unwrap();
            // A colon in a value needs no escape.
            assert!(files[0].1.lines().all(|line| line.ends_with(".address=fd00::1")), "{files:?}");
        }
    }

    #[test]
    fn what_is_missing_is_said_and_nothing_is_made_up() {
        let check = |labels: &[(&str, &str)], addresses: &[(&str, &str)], expected: Missing| {
            let error = describe(&machine(labels, addresses), Some(ZONE)).unwrap_err();
            assert_eq!(error, expected);
        };
        let here = [("InternalIP", "10.0.0.1")];
        check(&[], &here, Missing::Rack(ZONE.to_owned()));
        check(&[(ZONE, "")], &here, Missing::Rack(ZONE.to_owned()));
        check(&[(ZONE, "a")], &[], Missing::Address);
        let without_racks = describe(&machine(&[], &here), None).unwrap();
        assert_eq!(without_racks.len(), 1);
    }
}
