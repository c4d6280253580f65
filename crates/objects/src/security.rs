//! The security contexts of pods, so that they run under the Pod Security profile `restricted`.
//!
//! A template adds to these contexts. What it may say is decided by `control::cluster::validate`, which
//! refuses what `restricted` does not permit; a field that the template does not name keeps its value.

use serde_json::{Value, json};

/// The context of a pod, with what the template says.
///
/// No user id: the image names one that is not root, and distributions that choose a user for each namespace
/// refuse pods that name another. Volumes belong to the root group, as in Strimzi, whose disks are taken over;
/// the image runs in that group.
pub(crate) fn pod(template: Option<&Value>) -> Value {
    let own = json!({
        "fsGroup": 0,
        "runAsNonRoot": true,
        "seccompProfile": { "type": "RuntimeDefault" },
    });
    with(own, template)
}

/// The context of a container, with what the template says.
pub(crate) fn container(template: Option<&Value>) -> Value {
    let own = json!({
        "allowPrivilegeEscalation": false,
        "capabilities": {},
        "readOnlyRootFilesystem": true,
    });
    let mut context = with(own, template);
    // A list that names single capabilities would keep the others.
    context["capabilities"]["drop"] = json!(["ALL"]);
    context
}

/// The first with the fields of the second, which win. Maps are merged except for profiles, of which a part
/// of one and a part of the other would be no profile.
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
