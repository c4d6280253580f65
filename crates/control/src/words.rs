//! Lists and counts as people write them.

use std::collections::BTreeSet;
use std::fmt::Display;

use model::NodeId;

/// `1`, `1 and 2`, `1, 2 and 3`.
#[must_use]
pub fn list<T: Display>(items: impl IntoIterator<Item = T>) -> String {
    let mut items: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    match items.pop() {
        None => "none".to_owned(),
        Some(last) if items.is_empty() => last,
        Some(last) => format!("{} and {last}", items.join(", ")),
    }
}

/// `1 partition`, `2 partitions`.
#[must_use]
pub fn count(number: usize, one: &str) -> String {
    match number {
        1 => format!("1 {one}"),
        _ => format!("{number} {one}s"),
    }
}

/// `claim a`, `claims a and b`.
#[must_use]
pub fn claims_named(claims: &[String]) -> String {
    match claims.len() {
        1 => format!("claim {}", list(claims)),
        _ => format!("claims {}", list(claims)),
    }
}

/// `node 1`, `nodes 1 and 2`; without any, what they would be is the cluster.
#[must_use]
pub fn nodes_named(nodes: &BTreeSet<NodeId>) -> String {
    match nodes.len() {
        0 => "the cluster".to_owned(),
        1 => format!("node {}", list(nodes)),
        _ => format!("nodes {}", list(nodes)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_counts_read_well() {
        assert_eq!(list::<i32>([]), "none");
        assert_eq!(list([1]), "1");
        assert_eq!(list([1, 2]), "1 and 2");
        assert_eq!(list([1, 2, 3]), "1, 2 and 3");
        assert_eq!((count(1, "node"), count(0, "node")), ("1 node".into(), "0 nodes".into()));
    }
}
