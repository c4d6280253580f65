//! How much an organisation and each of its users may have.
//!
//! 1. What is on its way out counts until it is gone: it still takes room.
//! 2. A limit of the organisation holds besides that of the user.

use std::fmt;

use super::report::Capacity;

/// The most that somebody may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// Kafkas.
    pub kafkas: u64,
    /// Connections of all of them.
    pub connections: u64,
    /// Partitions of all of them.
    pub partitions: u64,
}

/// Whose quota it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Holder {
    /// An organisation.
    Organisation(String),
    /// A user of an organisation.
    User(String),
}

/// A quota, and what its holder has already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allowance {
    /// Whose it is.
    pub holder: Holder,
    /// The most.
    pub quota: Quota,
    /// How much there is.
    pub used: Quota,
}

/// A limit that another Kafka would exceed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{holder} may have at most {limit} {what}, has {used}, and {asked} more are asked for")]
pub struct OverQuota {
    /// Whose limit it is.
    pub holder: Holder,
    /// Of what.
    pub what: &'static str,
    /// The most.
    pub limit: u64,
    /// How much there is.
    pub used: u64,
    /// How much is asked for.
    pub asked: u64,
}

/// Whether another Kafka that takes this much is permitted.
///
/// # Errors
/// The first limit that it would exceed.
pub fn admit(allowances: &[Allowance], need: Capacity) -> Result<(), OverQuota> {
    for Allowance { holder, quota, used } in allowances {
        let rows = [
            ("Kafkas", quota.kafkas, used.kafkas, 1),
            ("connections", quota.connections, used.connections, need.connections),
            ("partitions", quota.partitions, used.partitions, need.partitions),
        ];
        for (what, limit, used, asked) in rows {
            if used.saturating_add(asked) > limit {
                return Err(OverQuota { holder: holder.clone(), what, limit, used, asked });
            }
        }
    }
    Ok(())
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Holder::Organisation(name) => write!(f, "organisation {name}"),
            Holder::User(name) => write!(f, "user {name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quota(kafkas: u64, connections: u64, partitions: u64) -> Quota {
        Quota { kafkas, connections, partitions }
    }

    #[test]
    fn every_limit_is_held_to_the_number_and_named() {
        let organisation = Holder::Organisation("org".to_owned());
        let user = Holder::User("ann".to_owned());
        let need = Capacity { connections: 100, partitions: 10, ..Capacity::default() };
        let wide = quota(1000, 1_000_000, 1_000_000);
        // (quota, used) of the organisation and of the user
        let rows = [
            ((quota(3, 1000, 100), quota(2, 900, 90)), (wide, wide_used()), None),
            (
                (quota(3, 1000, 100), quota(3, 0, 0)),
                (wide, wide_used()),
                Some("organisation org may have at most 3 Kafkas, has 3, and 1 more are asked for"),
            ),
            (
                (quota(3, 1000, 100), quota(2, 901, 0)),
                (wide, wide_used()),
                Some(
                    "organisation org may have at most 1000 connections, has 901, and 100 more are asked for",
                ),
            ),
            (
                (quota(3, 1000, 100), quota(2, 0, 91)),
                (wide, wide_used()),
                Some(
                    "organisation org may have at most 100 partitions, has 91, and 10 more are asked for",
                ),
            ),
            (
                (wide, wide_used()),
                (quota(0, 1000, 100), quota(0, 0, 0)),
                Some("user ann may have at most 0 Kafkas, has 0, and 1 more are asked for"),
            ),
            // More than was allowed before the limit was lowered.
            (
                (quota(1, u64::MAX, u64::MAX), quota(5, u64::MAX, 0)),
                (wide, wide_used()),
                Some("organisation org may have at most 1 Kafkas, has 5, and 1 more are asked for"),
            ),
        ];
        for (of_organisation, of_user, expected) in rows {
            let allowance =
                |holder: &Holder, (quota, used)| Allowance { holder: holder.clone(), quota, used };
            let all = [allowance(&organisation, of_organisation), allowance(&user, of_user)];
            let told = admit(&all, need).map_err(|over| over.to_string());
            assert_eq!(told.err().as_deref(), expected);
        }
    }

    fn wide_used() -> Quota {
        quota(500, 500_000, 500_000)
    }
}
