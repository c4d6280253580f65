//! Security contexts of pods, for the Pod Security profile `restricted`.
//!
//! A template adds to these contexts. `control::cluster::validate` rejects templates that `restricted` does
//! not permit; a field that the template does not set keeps its value.

use serde_json::{Value, json};

/// The security context of a pod, merged with the template.
///
/// No user id: the image defines one that is not root, and distributions that assign a user to each namespace
/// reject pods that specify another. Volumes belong to the root group, as in Strimzi, whose disks are
/// adopted; the image runs in that group.
pub(crate) fn pod(template: Option<&Value>) -> Value {
    let own = json!({
        "fsGroup": 0,
        "runAsNonRoot": true,
        "seccompProfile": { "type": "RuntimeDefault" },
    });
    with(own, template)
}

/// The security context of a container, merged with the template.
pub(crate) fn container(template: Option<&Value>) -> Value {
    let own = json!({
        "allowPrivilegeEscalation": false,
        "capabilities": {},
        "readOnlyRootFilesystem": true,
    });
    let mut context = with(own, template);
    // A list of single capabilities would keep the others.
    context["capabilities"]["drop"] = json!(["ALL"]);
    context
}

/// Merges the fields of the template, which take precedence. Profiles are replaced as a whole, because a
/// mixture of two would be invalid.
fn with(mut own: Value, template: Option<&Value>) -> Value {
    for (name, value) in template.and_then(Value::as_object).into_iter().flatten() {
        own[name] = value.clone();
    }
    own
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_template_contexts_are_those_of_the_restricted_profile() {
        assert_eq!(
            pod(None),
            json!({
                "fsGroup": 0, "runAsNonRoot": true, "seccompProfile": { "type": "RuntimeDefault" },
            })
        );
        assert_eq!(
            container(None),
            json!({
                "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] },
                "readOnlyRootFilesystem": true,
            })
        );
    }

    #[test]
    fn a_template_adds_and_keeps_what_it_does_not_name() {
        let user = json!({
            "runAsUser": 1000, "fsGroup": 2000,
            "seccompProfile": { "type": "Localhost", "localhostProfile": "p.json" },
        });
        assert_eq!(
            pod(Some(&user)),
            json!({
                "fsGroup": 2000, "runAsNonRoot": true, "runAsUser": 1000,
                "seccompProfile": { "type": "Localhost", "localhostProfile": "p.json" },
            })
        );
        let user = json!({
            "capabilities": { "add": ["NET_BIND_SERVICE"], "drop": ["NET_RAW"] },
            "readOnlyRootFilesystem": false,
        });
        assert_eq!(
            container(Some(&user)),
            json!({
                "allowPrivilegeEscalation": false,
                "capabilities": { "add": ["NET_BIND_SERVICE"], "drop": ["ALL"] },
                "readOnlyRootFilesystem": false,
            })
        );
    }
}
