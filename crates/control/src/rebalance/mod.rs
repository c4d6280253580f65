//! Moving replicas on request and when nodes come and go.
//!
//! - [`request`]: one `KafkaRebalance`, from a request to a plan, to moves and to an end;
//! - [`cruise_control`]: which Cruise Control may be contacted;
//! - [`auto`]: which `KafkaRebalance` a cluster makes for itself when it is scaled;
//! - [`load`]: what a cluster carries, for plans;
//! - [`execution`]: how a plan is carried out, in waves.
//!
//! [`request`] and [`auto`] do not know which engine moves the replicas; [`load`] and [`execution`] are
//! those of the native one. What none of them must do: choose where replicas go.

pub mod auto;
pub mod cruise_control;
pub mod execution;
pub mod load;
pub mod request;

/// Whether a `KafkaRebalance` with these annotations is a template: it is read by others and is no
/// request itself. `strimzi.io/rebalance: template` says so, and `strimzi.io/rebalance-template:
/// "true"` does.
#[must_use]
pub fn is_template(rebalance: Option<&str>, rebalance_template: Option<&str>) -> bool {
    rebalance == Some("template") || rebalance_template == Some("true")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_marks_make_a_template() {
        assert!(is_template(Some("template"), None));
        assert!(is_template(Some("refresh"), Some("true")));
        assert!(!is_template(Some("refresh"), Some("false")));
        assert!(!is_template(None, None));
    }
}
