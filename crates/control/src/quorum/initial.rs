//! The controllers that a dynamic quorum begins with.

use std::collections::BTreeSet;
use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

use model::{DirectoryId, NodeId};
use serde::{Deserialize, Serialize};

/// One voter of a new cluster, written `3@host:9090:r9VGTiw2QUCoDUadCt6q2g`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct InitialController {
    /// The node.
    pub node: NodeId,
    /// A name or an address; an IPv6 address is kept without its brackets.
    pub host: String,
    /// The port of its controller listener.
    pub port: u16,
    /// The id that its metadata log directory is formatted with.
    pub directory: DirectoryId,
}

/// The voters of a new cluster, by id. Every node must be formatted with the same ones.
/// Recorded as the text that `status.initialControllers` has.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct InitialControllers(Vec<InitialController>);

/// What is wrong with a list of initial controllers.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidInitialControllers {
    /// An entry that cannot be read.
    #[error("\"{0}\" is not ID@HOST:PORT:DIRECTORY-ID")]
    Entry(String),
    /// Kafka knows a voter by its id.
    #[error("controller {0} is listed twice")]
    NodeTwice(NodeId),
    /// Two disks cannot be the same.
    #[error("directory id {0} is listed twice")]
    DirectoryTwice(DirectoryId),
}

impl InitialControllers {
    /// The list of these controllers, in the order of their ids.
    ///
    /// # Errors
    /// If a node or a directory is in it twice.
    pub fn new(mut list: Vec<InitialController>) -> Result<Self, InvalidInitialControllers> {
        list.sort();
        let (mut nodes, mut directories) = (BTreeSet::new(), BTreeSet::new());
        for one in &list {
            if !nodes.insert(one.node) {
                return Err(InvalidInitialControllers::NodeTwice(one.node));
            }
            if !directories.insert(one.directory) {
                return Err(InvalidInitialControllers::DirectoryTwice(one.directory));
            }
        }
        Ok(Self(list))
    }

    /// The controller with that id.
    #[must_use]
    pub fn get(&self, node: NodeId) -> Option<&InitialController> {
        self.0.iter().find(|one| one.node == node)
    }

    /// All of them by id.
    pub fn iter(&self) -> impl Iterator<Item = &InitialController> {
        self.0.iter()
    }

    /// Whether there are none, as in a cluster that was not born with a dynamic quorum.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromStr for InitialController {
    type Err = InvalidInitialControllers;
    fn from_str(text: &str) -> Result<Self, InvalidInitialControllers> {
        parse(text).ok_or_else(|| InvalidInitialControllers::Entry(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<InitialController> {
    let (node, rest) = text.split_once('@')?;
    let (host, rest) = match rest.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once("]:")?;
            (host.parse::<Ipv6Addr>().ok()?.to_string(), rest)
        }
        None => {
            let (host, rest) = rest.split_once(':')?;
            (host.to_owned(), rest)
        }
    };
    let (port, directory) = rest.split_once(':')?;
    let fits = |c: char| c.is_ascii_alphanumeric() || ".:-_".contains(c);
    if host.is_empty() || !host.chars().all(fits) {
        return None;
    }
    Some(InitialController {
        node: node.parse().ok()?,
        host,
        port: port.parse().ok().filter(|port| *port != 0)?,
        directory: directory.parse().ok()?,
    })
}

impl fmt::Display for InitialController {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { node, host, port, directory } = self;
        match host.contains(':') {
            true => write!(f, "{node}@[{host}]:{port}:{directory}"),
            false => write!(f, "{node}@{host}:{port}:{directory}"),
        }
    }
}

impl FromStr for InitialControllers {
    type Err = InvalidInitialControllers;
    fn from_str(text: &str) -> Result<Self, InvalidInitialControllers> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let list: Result<_, _> = text.split(',').map(|one| one.trim().parse()).collect();
        Self::new(list?)
    }
}

impl TryFrom<String> for InitialControllers {
    type Error = InvalidInitialControllers;
    fn try_from(text: String) -> Result<Self, InvalidInitialControllers> {
        text.parse()
    }
}

impl From<InitialControllers> for String {
    fn from(list: InitialControllers) -> Self {
        list.to_string()
    }
}

impl fmt::Display for InitialControllers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, one) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{one}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "r9VGTiw2QUCoDUadCt6q2g";
    const B: &str = "Anjr8banTey_LqVZsppzYg";

    fn list(text: &str) -> Result<InitialControllers, InvalidInitialControllers> {
        text.parse()
    }

    #[test]
    fn a_list_is_printed_as_it_is_read_in_the_order_of_the_ids() {
        let rows = [
            (format!("3@a.b.svc:9090:{A}"), format!("3@a.b.svc:9090:{A}")),
            (format!("4@h:1:{A}, 3@[::1]:65535:{B}"), format!("3@[::1]:65535:{B},4@h:1:{A}")),
            (format!("0@[2001:DB8:0::7]:9090:{A}"), format!("0@[2001:db8::7]:9090:{A}")),
            (String::new(), String::new()),
            (" \n".to_owned(), String::new()),
        ];
        for (text, expected) in rows {
            let parsed = list(&text).unwrap();
            assert_eq!(parsed.to_string(), expected);
            assert_eq!(list(&expected), Ok(parsed));
        }
        let parsed = list(&format!("3@[::1]:9090:{B}")).unwrap();
        assert_eq!(parsed.get(NodeId::new(3).unwrap()).unwrap().host, "::1");
        assert_eq!(parsed.get(NodeId::new(4).unwrap()), None);
    }

    #[test]
    fn what_is_no_controller_is_refused_with_its_text() {
        let rows = [
            "3",
            "3@h",
            "3@h:9090",
            "-1@h:9090:",
            "x@h:9090:",
            "3@:9090:",
            "3@h:0:",
            "3@h:70000:",
            "3@::1:9090:",
            "3@[h]:9090:",
            "3@[::1:9090:",
            "3@a b:9090:",
            "3@a\"b:9090:",
        ];
        for row in rows {
            let text = if row.ends_with(':') { format!("{row}{A}") } else { row.to_owned() };
            assert_eq!(list(&text), Err(InvalidInitialControllers::Entry(text.clone())));
        }
        assert!(list(&format!("3@h:9090:{A},")).is_err());
        assert!(list("3@h:9090:AAAAAAAAAAAAAAAAAAAAAA").is_err());
    }

    #[test]
    fn a_node_or_a_directory_is_listed_once() {
        let three = NodeId::new(3).unwrap();
        let twice = list(&format!("3@h:1:{A},3@g:1:{B}"));
        assert_eq!(twice, Err(InvalidInitialControllers::NodeTwice(three)));
        let twice = list(&format!("3@h:1:{A},4@g:1:{A}"));
        assert_eq!(twice, Err(InvalidInitialControllers::DirectoryTwice(A.parse().unwrap())));
    }
}
