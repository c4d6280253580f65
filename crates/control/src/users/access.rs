//! Access rules.

use std::collections::BTreeSet;

use super::report::Problem;
use super::resource::RuleSpec;

/// The name of the cluster as a resource of rules.
const CLUSTER: &str = "kafka-cluster";

/// Declares an enum whose values have names.
macro_rules! named {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name {
            $($(#[$vdoc])* $variant,)*
        }
        impl $name {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// As it is written in a spec.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }
    };
}

named! {
    /// Whether a rule allows or denies. What denies comes first.
    Permission {
        /// It denies.
        Deny = "deny",
        /// It allows.
        Allow = "allow",
    }
}

named! {
    /// The kind of what a rule is about.
    ResourceKind {
        /// A topic.
        Topic = "topic",
        /// A consumer group.
        Group = "group",
        /// The cluster itself.
        Cluster = "cluster",
        /// A transactional id.
        TransactionalId = "transactionalId",
    }
}

named! {
    /// How the name in a rule is meant.
    Pattern {
        /// The name itself; `*` is all.
        Literal = "literal",
        /// How names begin.
        Prefix = "prefix",
    }
}

named! {
    /// What a rule allows or denies.
    Operation {
        /// Reading.
        Read = "Read",
        /// Writing.
        Write = "Write",
        /// Creating.
        Create = "Create",
        /// Deleting.
        Delete = "Delete",
        /// Changing.
        Alter = "Alter",
        /// Describing.
        Describe = "Describe",
        /// Acting as a node of the cluster.
        ClusterAction = "ClusterAction",
        /// Changing the configuration.
        AlterConfigs = "AlterConfigs",
        /// Describing the configuration.
        DescribeConfigs = "DescribeConfigs",
        /// Writing without duplicates.
        IdempotentWrite = "IdempotentWrite",
        /// Everything.
        All = "All",
    }
}

/// A rule for one operation, as Kafka keeps it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rule {
    /// Whether it allows or denies.
    pub permission: Permission,
    /// The kind of what it is about.
    pub kind: ResourceKind,
    /// The name of that.
    pub name: String,
    /// How the name is meant.
    pub pattern: Pattern,
    /// The address of the client.
    pub host: String,
    /// What it allows or denies.
    pub operation: Operation,
}

/// The rules that Kafka has for a principal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Access {
    /// Those that a `KafkaUser` can have.
    pub rules: BTreeSet<Rule>,
    /// How many others there are, such as for delegation tokens. They are left unchanged.
    pub others: usize,
}

/// The rules of a spec, one for each operation.
///
/// # Errors
/// A rule about something other than the cluster does not name it.
pub(super) fn rules(specs: &[RuleSpec]) -> Result<BTreeSet<Rule>, Problem> {
    let mut rules = BTreeSet::new();
    for spec in specs {
        let (name, pattern) = match (spec.kind, &spec.name) {
            (ResourceKind::Cluster, _) => (CLUSTER.to_owned(), Pattern::Literal),
            (_, Some(name)) if !name.is_empty() => (name.clone(), spec.pattern),
            (kind, _) => return Err(Problem::rule_without_name(kind)),
        };
        rules.extend(spec.operations.iter().map(|operation| Rule {
            permission: spec.permission,
            kind: spec.kind,
            name: name.clone(),
            pattern,
            host: spec.host.clone(),
            operation: *operation,
        }));
    }
    Ok(rules)
}
