//! Users as resources: what Kafka is asked to change for each `KafkaUser`, what goes into its Secret, and what its status
//! says. Users that are only Secrets are in `secrets`.
//!
//! A pass reads the resources and the Secrets of a cluster from a cache, and the access rules, quotas and credentials of
//! all users from Kafka, once for all. [`plan`] compares a resource with them, [`of_vanished`] decides about a user whose
//! resource is gone, and [`Plan::report`] makes a status of the plan and of the answers.
//!
//! 1. A resource never affects another one: whatever is wrong with it is said in its own status.
//! 2. What a user has in Kafka is deleted only if a record says that it was managed for a resource, and the record is
//!    written before Kafka is changed. Users that somebody else created are left unchanged.
//! 3. A password is in Kafka before it is in the Secret, so that no client holds one that Kafka does not know.
//! 4. Rules that deny are created before rules that allow, and deleted after them: at no moment may a user do what
//!    neither its former rules nor its new ones allow.
//! 5. A Secret that was not created for this user is neither changed nor deleted.
//! 6. Nothing is sent when nothing changed: Kafka does not show passwords, so the Secret notes which one Kafka has.
//!
//! What it must not do: read, write, see a password or a key, or know how Kubernetes and Kafka encode any of it.

mod access;
mod credentials;
mod plan;
mod quotas;
mod report;
mod resource;
mod secrets;
mod settings;
mod stored;

#[cfg(test)]
mod row_tests;
#[cfg(test)]
mod samples;
#[cfg(test)]
mod tests;

pub use access::{Access, Operation, Pattern, Permission, ResourceKind, Rule};
pub use credentials::{Authority, Credential, PasswordEntry, PasswordFound};
pub use plan::{
    Answers, Claims, Facts, KafkaPlan, Plan, SecretAct, SecretPlan, View, of_vanished, plan,
};
pub use quotas::{QUOTAS, QuotaChanges};
pub use report::{Condition, Kind, Problem, Reason, Report};
pub use resource::{Days, KeyKind, Login, PasswordReference, Resource, RuleSpec, Spec};
pub use secrets::{Act, Decision, Mark, Note, User, decide};
pub use settings::{Exclusion, Settings};
pub use stored::{Owner, Stored};
