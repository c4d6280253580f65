//! Who would lose sight of the quorum when voters go.
//!
//! A node that does not vote finds a new leader by asking the controllers that it was started with
//! (`controller.quorum.bootstrap.servers`), and nobody else, whatever voters it has learned of since. If
//! they are all gone, or are in the same plight, it waits for ever, and a broker is fenced. So:
//!
//! 1. A healthy voter goes only when every node that runs knows a controller that stays. One that does not
//!    is restarted first, and reads the list anew.
//! 2. What a node was started with is asked of the node. If it does not say, nobody goes.
//! 3. A node that does not run need not know: it reads the list when it starts.

use std::collections::{BTreeMap, BTreeSet};

use model::NodeId;

use crate::conditions::{Note, Reason};
use crate::words::list;

/// The setting.
pub const SERVERS: &str = "controller.quorum.bootstrap.servers";

/// The nodes that stand in the way of a removal.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OutdatedBootstrap {
    /// They know none of the controllers that stay, and are to be restarted.
    pub restart: BTreeSet<NodeId>,
    /// They did not say whom they know.
    pub unknown: BTreeSet<NodeId>,
}

impl OutdatedBootstrap {
    /// Whether no node blocks the removal.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.restart.is_empty() && self.unknown.is_empty()
    }

    /// What to tell about them.
    #[must_use]
    pub fn note(&self) -> Option<Note> {
        let restart = (!self.restart.is_empty()).then(|| {
            format!(
                "before voters are removed, nodes whose list of controllers names no remaining voter are restarted: {}",
                list(&self.restart)
            )
        });
        let unknown = (!self.unknown.is_empty()).then(|| {
            format!(
                "before voters are removed, nodes have to report their list of controllers: {}",
                list(&self.unknown)
            )
        });
        let lines: Vec<String> = restart.into_iter().chain(unknown).collect();
        (!lines.is_empty()).then(|| Note::new(Reason::QuorumWaiting, lines.join("; ")))
    }
}

/// Finds them. `stay` is where the voters that stay listen, as `host:port`; `running` is what each node that
/// runs has for [`SERVERS`], `None` if it did not say.
#[must_use]
pub fn outdated_bootstrap(
    stay: &BTreeSet<String>,
    running: &BTreeMap<NodeId, Option<String>>,
) -> OutdatedBootstrap {
    let mut outdated_bootstrap = OutdatedBootstrap::default();
    for (id, servers) in running {
        match servers {
            None => {
                outdated_bootstrap.unknown.insert(*id);
            }
            Some(servers) if !servers.split(',').any(|one| stay.contains(one.trim())) => {
                outdated_bootstrap.restart.insert(*id);
            }
            Some(_) => {}
        }
    }
    outdated_bootstrap
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(ids: &[i32]) -> BTreeSet<NodeId> {
        ids.iter().map(|id| NodeId::new(*id).unwrap()).collect()
    }

    #[test]
    #[rustfmt::skip]
    fn the_rows_hold() {
        // Where those that stay listen, what nodes 0 and 1 know, who is restarted, who has to say.
        let rows: [(&str, &str, [Option<&str>; 2], &[i32], &[i32]); 6] = [
            ("all know those that stay",    "c3:9 c4:9", [Some("c3:9,c4:9"), Some("c4:9,c5:9")], &[],     &[]),
            ("one is enough",               "c3:9 c4:9", [Some("c2:9,c3:9"), Some("c4:9")],      &[],     &[]),
            ("with blanks",                 "c3:9",      [Some("c2:9, c3:9"), Some("c3:9")],     &[],     &[]),
            ("all were replaced",           "c6:9 c7:9", [Some("c3:9,c4:9"), Some("c3:9,c4:9")], &[0, 1], &[]),
            ("one was started since",       "c6:9 c7:9", [Some("c3:9,c6:9"), Some("c3:9,c4:9")], &[1],    &[]),
            ("one does not say",            "c6:9",      [None,              Some("c3:9")],      &[1],    &[0]),
        ];
        for (name, stay, known, restart, unknown) in rows {
            let stay = stay.split_whitespace().map(str::to_owned).collect();
            let known = known.map(|text| text.map(str::to_owned));
            let running = ids(&[0, 1]).into_iter().zip(known).collect();
            let found = outdated_bootstrap(&stay, &running);
            assert_eq!((&found.restart, &found.unknown), (&ids(restart), &ids(unknown)), "{name}");
            assert_eq!(found.note().is_none(), found.is_empty(), "{name}");
        }
    }

    #[test]
    fn people_are_told_who_is_restarted_and_why() {
        let found = OutdatedBootstrap { restart: ids(&[0, 1, 2]), unknown: ids(&[7]) };
        assert_eq!(
            found.note().unwrap().message,
            "before voters are removed, nodes whose list of controllers names no remaining voter \
             are restarted: 0, 1 and 2; before voters are removed, nodes have to report their list \
             of controllers: 7"
        );
    }
}
