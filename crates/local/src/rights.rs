//! RBAC rules of the parts of local mode, so that each runs with minimal permissions.

use k8s_openapi::api::rbac::v1::PolicyRule;

/// A rule for resources of one API group.
pub(crate) fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> PolicyRule {
    let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(owned(resources)),
        verbs: owned(verbs),
        ..PolicyRule::default()
    }
}
