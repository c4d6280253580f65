//! What pods see: environments and volumes.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolume, PersistentVolumeClaim, Secret};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::*;

pub(crate) async fn environment_and_volumes(world: World) -> anyhow::Result<()> {
    world
        .create::<ConfigMap>(
            json!({ "metadata": { "name": "cm" }, "data": { "k": "v", "l": "w" } }),
        )
        .await?;
    world
        .create::<Secret>(json!({ "metadata": { "name": "s" }, "stringData": { "p": "q" } }))
        .await?;
    let script = "echo $A $B $NAME $CPU $K $P $X_l; pwd; cat /etc/gregor-test/cm/k; echo; \
        cat /opt/gregor-test/deep/er/p; echo; grep -v topology /etc/gregor-test/labels; \
        stat -L -c %a /opt/gregor-test/deep/er/p; ls /etc/passwd; \
        touch /etc/gregor-test/cm/new 2>/dev/null || echo read-only; cat /one/file; echo; \
        echo kept > /data/x; ls /data; hostname; env | grep -c CARGO; test $IP = $(hostname -i) && echo same; \
        echo $(cat /s/in-sub)";
    let more = json!({
        "args": [], "workingDir": "/data",
        "env": [
            { "name": "A", "value": "a" }, { "name": "B", "value": "$(A)b$$(A)" },
            { "name": "NAME", "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } },
            { "name": "IP", "valueFrom": { "fieldRef": { "fieldPath": "status.podIP" } } },
            { "name": "CPU", "valueFrom": { "resourceFieldRef": { "resource": "limits.cpu", "divisor": "1m" } } },
            { "name": "K", "valueFrom": { "configMapKeyRef": { "name": "cm", "key": "k" } } },
            { "name": "P", "valueFrom": { "secretKeyRef": { "name": "s", "key": "p" } } },
        ],
        "envFrom": [{ "prefix": "X_", "configMapRef": { "name": "cm" } }],
        "resources": { "limits": { "cpu": "500m" } },
        "volumeMounts": [
            { "name": "cm", "mountPath": "/etc/gregor-test/cm" }, { "name": "s", "mountPath": "/opt/gregor-test/deep/er" },
            { "name": "d", "mountPath": "/etc/gregor-test/labels", "subPath": "labels" },
            { "name": "cm", "mountPath": "/one/file", "subPath": "l" }, { "name": "e", "mountPath": "/data" },
            { "name": "scratch", "mountPath": "/s", "subPathExpr": "sub-$(NAME)" },
        ],
    });
    std::fs::create_dir_all(world.scratch.join("sub-p"))?;
    std::fs::write(world.scratch.join("sub-p/in-sub"), "yes")?;
    let spec = json!({ "restartPolicy": "Never", "containers": [container(script, more)], "volumes": [
        { "name": "cm", "configMap": { "name": "cm" } },
        { "name": "s", "secret": { "secretName": "s", "defaultMode": 0o400 } },
        { "name": "d", "downwardAPI": { "items": [{ "path": "labels", "fieldRef": { "fieldPath": "metadata.labels" } }] } },
        { "name": "e", "emptyDir": {} }, scratch_volume(&world),
    ] });
    world.create::<Pod>(json!({ "metadata": { "name": "p", "labels": { "a": "1", "b": "2" } }, "spec":
        { "nodeSelector": { "kubernetes.io/hostname": "node-1" }, "restartPolicy": spec["restartPolicy"],
          "containers": spec["containers"], "volumes": spec["volumes"] } })).await?;
    let pod = world.wait_phase("p", "Succeeded").await?;
    let log = world.log(&pod, "c", 0)?;
    let lines: Vec<_> = log.lines().collect();
    #[rustfmt::skip]
    let expected = [
        "a ab$(A) p 500 v q w", "/data", "v", "q", "a=\"1\"", "b=\"2\"", "400", "/etc/passwd", "read-only", "w", "x", "p",
        "0", "same", "yes",
    ];
    ensure!(lines == expected, "{lines:#?}");
    ensure!(!std::path::Path::new("/etc/gregor-test").exists(), "the host was touched");
    Ok(())
}

pub(crate) async fn missing_config_map(world: World) -> anyhow::Result<()> {
    let mounted = json!({ "volumeMounts": [{ "name": "v", "mountPath": "/v" }] });
    let spec = json!({ "containers": [container("cat /v/k; sleep 1000", mounted)],
        "volumes": [{ "name": "v", "configMap": { "name": "late" } }] });
    world.pod("mounted", spec).await?;
    let from = json!({ "env": [{ "name": "K", "valueFrom": { "configMapKeyRef": { "name": "late", "key": "k" } } }] });
    world.script("named", "echo $K; sleep 1000", from).await?;
    let why =
        "FailedMount: MountVolume.SetUp failed for volume \"v\" : configmap \"late\" not found";
    world.wait_event("mounted", why).await?;
    world.wait_reason("mounted", "ContainerCreating").await?;
    world.wait_reason("named", "CreateContainerConfigError").await?;
    world.wait_event("named", "Failed: Error: configmap \"late\" not found").await?;
    world
        .create::<ConfigMap>(json!({ "metadata": { "name": "late" }, "data": { "k": "v" } }))
        .await?;
    for name in ["mounted", "named"] {
        let pod = world.wait_ready(name).await?;
        ensure!(restarts(&pod) == 0);
    }
    Ok(())
}

pub(crate) async fn bad_volumes(world: World) -> anyhow::Result<()> {
    #[rustfmt::skip]
    let table = [
        ("no-dir", json!({ "hostPath": { "path": "/no/such/place", "type": "Directory" } }), "hostPath type check failed"),
        ("no-claim", json!({ "persistentVolumeClaim": { "claimName": "no" } }), ""),
        ("no-secret", json!({ "secret": { "secretName": "no" } }), "secret \"no\" not found"),
        ("no-kind", json!({ "nfs": { "server": "no", "path": "/" } }), "this kubelet does not support volumes of this kind"),
    ];
    for (name, volume, _) in &table {
        let mut volume = volume.clone();
        volume["name"] = json!("v");
        let mounted = json!({ "volumeMounts": [{ "name": "v", "mountPath": "/v" }] });
        world
            .pod(name, json!({ "containers": [container("true", mounted)], "volumes": [volume] }))
            .await?;
    }
    for (name, _, why) in table {
        if name == "no-claim" {
            // The scheduler holds it back.
            ensure!(phase_of(&world.pods().get(name).await?) == "Pending");
        } else {
            let begin = format!("FailedMount: MountVolume.SetUp failed for volume \"v\" : {why}");
            world.wait_event(name, &begin).await?;
            world.wait_reason(name, "ContainerCreating").await?;
        }
        world.delete(name).await?;
        world.wait_gone(name).await?;
    }
    Ok(())
}

/// A Secret is changed under a running pod, which sees the old or the new one and nothing between.
pub(crate) async fn secret_rotated(world: World) -> anyhow::Result<()> {
    let data = |value: &str| json!({ "a": value, "b": value });
    world.create::<Secret>(json!({ "metadata": { "name": "s" }, "stringData": data("1") })).await?;
    let script = "d=/v/..data; while :; do r=$(readlink $d); a=$(cat /v/$r/a) && b=$(cat /v/$r/b) || continue; \
        [ \"$a\" = \"$b\" ] || exit 9; [ \"$a\" = 3 ] && exit 0; done";
    let mounted = json!({ "volumeMounts": [{ "name": "v", "mountPath": "/v" }] });
    let spec = json!({ "restartPolicy": "Never", "containers": [container(script, mounted)],
        "volumes": [{ "name": "v", "secret": { "secretName": "s" } }] });
    world.pod("p", spec).await?;
    world.wait_ready("p").await?;
    let secrets = Api::<Secret>::namespaced(world.client.clone(), &world.namespace);
    for value in ["2", "3"] {
        tokio::time::sleep(Duration::from_millis(300)).await;
        let patch = Patch::Merge(json!({ "stringData": data(value) }));
        secrets.patch("s", &PatchParams::default(), &patch).await?;
    }
    let pod = world.wait("p", "over", |pod| ended(pod).is_some()).await?;
    let (code, ..) = ended(&pod).context("not ended")?;
    ensure!(code == 0, "exit code {code}");
    Ok(())
}

/// What is written to a claim is there for the next pod.
pub(crate) async fn claim_kept_over_pods(world: World) -> anyhow::Result<()> {
    let volume = json!({ "metadata": { "name": "kept" }, "spec": {
        "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"], "storageClassName": "by-hand",
        "local": { "path": world.scratch }, "persistentVolumeReclaimPolicy": "Retain",
        "nodeAffinity": { "required": { "nodeSelectorTerms": [{ "matchExpressions": [
            { "key": "kubernetes.io/hostname", "operator": "In", "values": ["node-1"] }] }] } } } });
    let volumes = Api::<PersistentVolume>::all(world.client.clone());
    volumes.create(&PostParams::default(), &serde_json::from_value(volume)?).await?;
    world
        .create::<PersistentVolumeClaim>(json!({ "metadata": { "name": "claim" }, "spec": {
        "accessModes": ["ReadWriteOnce"], "storageClassName": "by-hand", "volumeName": "kept",
        "resources": { "requests": { "storage": "1Gi" } } } }))
        .await?;
    let spec = |script: &str| {
        let mounted =
            json!({ "volumeMounts": [{ "name": "v", "mountPath": "/var/lib/gregor-test/data" }] });
        json!({ "restartPolicy": "Never", "containers": [container(script, mounted)],
            "volumes": [{ "name": "v", "persistentVolumeClaim": { "claimName": "claim" } }] })
    };
    world.pod("writes", spec("echo kept > /var/lib/gregor-test/data/x")).await?;
    world.wait_phase("writes", "Succeeded").await?;
    world.delete("writes").await?;
    world.wait_gone("writes").await?;
    world.pod("reads", spec("cat /var/lib/gregor-test/data/x")).await?;
    let pod = world.wait_phase("reads", "Succeeded").await?;
    ensure!(world.log(&pod, "c", 0)? == "kept");
    Ok(())
}
