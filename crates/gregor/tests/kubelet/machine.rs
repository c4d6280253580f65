//! What a broker is told of the machine that it runs on, by an init container with the rights that it
//! has in a cluster.

use anyhow::{Context as _, ensure};
use k8s_openapi::api::core::v1;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::api::{Patch, PatchParams};

use super::*;

/// A label that no node has at first.
const LABEL: &str = "example.com/rack";

/// The pod as the operator makes it, with a container that shows what Kafka would read.
fn spec(rack_label: Option<&str>) -> Value {
    let mut env = vec![
        json!({ "name": "NODE_NAME", "valueFrom": { "fieldRef": { "fieldPath": "spec.nodeName" } } }),
        json!({ "name": "GREGOR_MACHINE_DIR", "value": "/opt/kafka/init" }),
    ];
    env.extend(rack_label.map(|label| json!({ "name": "RACK_TOPOLOGY_KEY", "value": label })));
    let mounts = json!([{ "name": "rack-volume", "mountPath": "/opt/kafka/init" }]);
    let script = "cd /opt/kafka/init && for f in *; do echo \"[$f]\"; cat $f; echo; done; \
                  echo end; sleep 1000";
    json!({
        "initContainers": [{ "name": "kafka-init", "image": "kafka-node:4.3.1",
            "args": ["--describe-machine"], "env": env, "volumeMounts": mounts }],
        "containers": [container(script, json!({ "volumeMounts": mounts }))],
        "volumes": [{ "name": "rack-volume", "emptyDir": { "medium": "Memory" } }],
    })
}

pub(crate) async fn machine_is_described(world: World) -> anyhow::Result<()> {
    world.pod("refused", spec(None)).await?;
    let (code, message) = wait_init_end(&world, "refused").await?;
    ensure!(code == 1 && message.contains("cannot read the Node node-1"), "{code} {message}");
    ensure!(message.contains("forbidden"), "{message}");

    let client = world.client.clone();
    let post = PostParams::default();
    let role = json!({ "metadata": { "name": "machine-reader" },
        "rules": [{ "apiGroups": [""], "resources": ["nodes"], "verbs": ["get"] }] });
    let roles = Api::<ClusterRole>::all(client.clone());
    roles.create(&post, &serde_json::from_value(role)?).await?;
    let binding = json!({ "metadata": { "name": "machine-reader" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
            "name": "machine-reader" },
        "subjects": [{ "kind": "ServiceAccount", "name": "default",
            "namespace": world.namespace }] });
    let bindings = Api::<ClusterRoleBinding>::all(client.clone());
    bindings.create(&post, &serde_json::from_value(binding)?).await?;

    let addresses = "[external.address]\nnodeport.default.address=127.0.0.1\n\
                     nodeport.externaldns.address=127.0.0.1\nnodeport.externalip.address=127.0.0.1\n\
                     nodeport.internaldns.address=127.0.0.1\nnodeport.internalip.address=127.0.0.1\n\
                     nodeport.hostname.address=node-1\n";
    // The one that was refused tries again, and now it may.
    ensure!(shown(&world, "refused").await? == format!("{addresses}\nend"));
    world.pod("zone", spec(Some("topology.kubernetes.io/zone"))).await?;
    ensure!(shown(&world, "zone").await? == format!("{addresses}\n[rack.id]\nzone-1\nend"));

    world.pod("unlabelled", spec(Some(LABEL))).await?;
    let (code, message) = wait_init_end(&world, "unlabelled").await?;
    ensure!(code == 78 && message.contains("it has no label example.com/rack"), "{message}");
    let patch = json!({ "metadata": { "labels": { LABEL: "r7" } } });
    let nodes = Api::<v1::Node>::all(client);
    nodes.patch("node-1", &PatchParams::default(), &Patch::Merge(patch)).await?;
    ensure!(shown(&world, "unlabelled").await?.contains("[rack.id]\nr7\n"));
    Ok(())
}

/// Exit code and message of the init container's first end.
async fn wait_init_end(world: &World, name: &str) -> anyhow::Result<(i32, String)> {
    let end = |pod: &Pod| {
        let status = pod.status.as_ref()?.init_container_statuses.as_ref()?.first()?;
        let states = [status.state.as_ref(), status.last_state.as_ref()];
        states.into_iter().flatten().find_map(|state| state.terminated.clone())
    };
    let pod = world.wait(name, "refused by its init container", |pod| end(pod).is_some()).await?;
    let end = end(&pod).context("it has ended")?;
    Ok((end.exit_code, end.message.unwrap_or_default()))
}

/// What the container of a pod finds in the directory.
async fn shown(world: &World, name: &str) -> anyhow::Result<String> {
    let pod = world.wait_ready(name).await?;
    loop {
        let log = world.log(&pod, "c", 0)?;
        if log.ends_with("end") {
            return Ok(log);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
