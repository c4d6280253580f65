//! How pods live and end.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::{DeleteParams, ListParams};
use kube::runtime::watcher;
use kube::{Api, Client};
use serde_json::json;

use super::*;

/// The phase and the state of the container, in the order in which a watcher sees them. The pod goes on
/// when its state was seen, so that none can be missed.
pub(crate) async fn status_at_each_moment(world: World) -> anyhow::Result<()> {
    let gated = |file: &str| format!("until [ -f /s/{file} ]; do sleep 0.1; done");
    let mounts = json!([{ "name": "scratch", "mountPath": "/s" }]);
    let init = json!({ "name": "i", "image": "busybox", "command": ["sh", "-c", gated("go")],
        "volumeMounts": mounts });
    let spec = json!({ "restartPolicy": "Never", "initContainers": [init],
        "containers": [container(&gated("end"), json!({ "volumeMounts": mounts }))],
        "volumes": [scratch_volume(&world)] });
    let begin = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        world.pod("p", spec).await
    };
    let (seen, pod) = tokio::join!(watch_states(&world), begin);
    pod?;
    let seen = seen?;
    let expected =
        ["Pending unknown", "Pending PodInitializing", "Running ready", "Succeeded Completed"];
    // Between the init container and the others there may be a moment to see.
    let without = seen.iter().filter(|line| *line != "Pending ContainerCreating");
    ensure!(without.eq(expected.iter()), "{seen:#?}");
    let pod = world.wait_phase("p", "Succeeded").await?;
    let status = pod.status.context("no status")?;
    ensure!(status.start_time.is_some() && status.qos_class.as_deref() == Some("BestEffort"));
    ensure!(status.pod_ip.is_some_and(|ip| ip.starts_with("127.101.")), "the address");
    let init = status.init_container_statuses.unwrap_or_default();
    ensure!(init.len() == 1 && init[0].ready, "{init:?}");
    let events = [
        "Pulled: Container image",
        "Created: Created container: i",
        "Started: Started container c",
    ];
    for begin in events {
        world.wait_event("p", begin).await?;
    }
    Ok(())
}

/// Watches the one pod of a world until it has succeeded.
async fn watch_states(world: &World) -> anyhow::Result<Vec<String>> {
    let mut seen: Vec<String> = Vec::new();
    let mut events = std::pin::pin!(watcher(world.pods(), watcher::Config::default()));
    while let Some(event) = events.next().await {
        let watcher::Event::Apply(pod) = event? else { continue };
        let state = first(&pod).and_then(|c| c.state.clone()).unwrap_or_default();
        let state = match (state.waiting, state.running, state.terminated) {
            (Some(waiting), ..) => waiting.reason.unwrap_or_default(),
            (_, Some(_), _) => if is_ready(&pod) { "ready" } else { "running" }.to_owned(),
            (.., Some(end)) => end.reason.unwrap_or_default(),
            _ => "unknown".to_owned(),
        };
        let line = format!("{} {state}", phase_of(&pod));
        match line.as_str() {
            "Pending PodInitializing" => std::fs::write(world.scratch.join("go"), "")?,
            "Running ready" => std::fs::write(world.scratch.join("end"), "")?,
            _ => {}
        }
        if seen.last() != Some(&line) {
            seen.push(line);
        }
        if phase_of(&pod) == "Succeeded" {
            break;
        }
    }
    Ok(seen)
}

pub(crate) async fn exit_codes_and_messages(world: World) -> anyhow::Result<()> {
    let fallback = || json!({ "terminationMessagePolicy": "FallbackToLogsOnError" });
    let own_path = json!({ "terminationMessagePath": "/var/lib/why/message" });
    #[rustfmt::skip]
    let table = [
        ("ok", "echo fine", json!({}), "Succeeded", 0, "Completed", ""),
        ("code", "exit 42", json!({}), "Failed", 42, "Error", ""),
        ("signal", "kill -9 $$", json!({}), "Failed", 137, "Error", ""),
        ("said", "echo -n because > /dev/termination-log; exit 1", json!({}), "Failed", 1, "Error", "because"),
        ("path", "echo -n here > /var/lib/why/message", own_path, "Succeeded", 0, "Completed", "here"),
        ("tail", "echo one; echo two >&2; exit 1", fallback(), "Failed", 1, "Error", "one\ntwo\n"),
        ("no-tail", "echo one", fallback(), "Succeeded", 0, "Completed", ""),
    ];
    for (name, script, more, ..) in &table {
        let containers = json!([container(script, more.clone())]);
        world.pod(name, json!({ "restartPolicy": "Never", "containers": containers })).await?;
    }
    let missing = json!([{ "name": "c", "image": "busybox", "command": ["/no/such/program"] }]);
    world.pod("missing", json!({ "restartPolicy": "Never", "containers": missing })).await?;
    // A program hears every signal, also one that does not clear its mask itself as shells do.
    let words = ["grep", "-q", "^SigBlk:.0*$", "/proc/self/status"];
    let hears = json!([{ "name": "c", "image": "busybox", "command": words }]);
    world.pod("hears", json!({ "restartPolicy": "Never", "containers": hears })).await?;
    world.wait_phase("hears", "Succeeded").await?;
    for (name, _, _, phase, code, reason, message) in table {
        let pod = world.wait_phase(name, phase).await?;
        let found = ended(&pod).context("not ended")?;
        ensure!(found == (code, reason.into(), message.into()), "{name}: {found:?}");
    }
    let pod = world.wait_phase("missing", "Failed").await?;
    let (code, reason, message) = ended(&pod).context("not ended")?;
    ensure!((code, reason.as_str()) == (128, "StartError"), "{code} {reason}");
    ensure!(message.contains("/no/such/program"), "{message}");
    Ok(())
}

pub(crate) async fn crash_loop(world: World) -> anyhow::Result<()> {
    let fallback = json!({ "terminationMessagePolicy": "FallbackToLogsOnError" });
    world.script("p", "echo oops; exit 3", fallback).await?;
    let pod = world
        .wait("p", "crashing", |pod| {
            restarts(pod) >= 2 && waiting_reason(pod) == "CrashLoopBackOff"
        })
        .await?;
    ensure!(phase_of(&pod) == "Running" && !is_ready(&pod));
    ensure!(ended(&pod) == Some((3, "Error".into(), "oops\n".into())), "{:?}", ended(&pod));
    world.wait_event("p", "BackOff: Back-off restarting failed container c in pod p_").await?;
    let ip = pod.status.clone().context("no status")?.pod_ip;
    let again = world.wait("p", "crashing on", |pod| restarts(pod) >= 3).await?;
    ensure!(again.status.context("no status")?.pod_ip == ip, "the address has changed");
    let number = u32::try_from(restarts(&world.pods().get("p").await?))?;
    ensure!(world.log(&pod, "c", number - 1)? == "oops", "the log of the run before");
    Ok(())
}

pub(crate) async fn init_failure(world: World) -> anyhow::Result<()> {
    let init = || json!([{ "name": "i", "image": "busybox", "command": ["false"] }]);
    let spec = |policy: &str| {
        json!({ "restartPolicy": policy, "initContainers": init(),
            "containers": [container("sleep 1000", json!({}))] })
    };
    world.pod("never", spec("Never")).await?;
    world.pod("always", spec("Always")).await?;
    let pod = world.wait_phase("never", "Failed").await?;
    ensure!(waiting_reason(&pod) == "PodInitializing");
    let crashing = |pod: &Pod| {
        let statuses = pod.status.as_ref().and_then(|s| s.init_container_statuses.as_ref());
        let init = statuses.and_then(|statuses| statuses.first());
        init.is_some_and(|init| {
            let state = init.state.as_ref().and_then(|state| state.waiting.as_ref());
            let reason = state.and_then(|waiting| waiting.reason.as_deref());
            init.restart_count >= 2 && reason == Some("CrashLoopBackOff")
        })
    };
    let pod = world.wait("always", "crashing", crashing).await?;
    ensure!(phase_of(&pod) == "Pending" && waiting_reason(&pod) == "PodInitializing");
    Ok(())
}

pub(crate) async fn sidecar(world: World) -> anyhow::Result<()> {
    let side = json!({ "name": "side", "image": "busybox", "restartPolicy": "Always",
        "command": ["sh", "-c", "trap 'exit 0' TERM; touch /shared/up; while :; do sleep 0.1; done"],
        "startupProbe": { "exec": { "command": ["test", "-f", "/shared/up"] }, "periodSeconds": 1 },
        "volumeMounts": [{ "name": "v", "mountPath": "/shared" }] });
    let main = container(
        "test -f /shared/up",
        json!({ "volumeMounts": [{ "name": "v", "mountPath": "/shared" }] }),
    );
    let spec = json!({ "restartPolicy": "Never", "initContainers": [side], "containers": [main],
        "volumes": [{ "name": "v", "emptyDir": { "medium": "Memory" } }] });
    world.pod("p", spec).await?;
    world.wait_phase("p", "Succeeded").await?;
    let ended = |pod: &Pod| {
        let statuses = pod.status.as_ref().and_then(|s| s.init_container_statuses.as_ref());
        let state = statuses.and_then(|all| all.first()).and_then(|side| side.state.as_ref());
        state.is_some_and(|state| state.terminated.is_some())
    };
    world.wait("p", "without its sidecar", ended).await.map(drop)
}

pub(crate) async fn unknown_image(world: World) -> anyhow::Result<()> {
    world.pod("p", json!({ "containers": [{ "name": "c", "image": "no/such:1" }] })).await?;
    world.wait_reason("p", "ErrImagePull").await?;
    let pod = world.wait_reason("p", "ImagePullBackOff").await?;
    ensure!(phase_of(&pod) == "Pending");
    world.wait_event("p", "Failed: Failed to pull image \"no/such:1\"").await?;
    world.wait_event("p", "BackOff: Back-off pulling image \"no/such:1\"").await?;
    world.delete("p").await?;
    world.wait_gone("p").await.map(drop)
}

/// A container that does not listen is killed when its time is over, with all its processes.
pub(crate) async fn grace_period_overrun(world: World) -> anyhow::Result<()> {
    let script = "trap '' TERM; (setsid sleep 987 & echo $! > /s/child); echo $$ > /s/pid; \
                  while :; do sleep 0.1; done";
    let main =
        container(script, json!({ "volumeMounts": [{ "name": "scratch", "mountPath": "/s" }] }));
    let spec = json!({ "terminationGracePeriodSeconds": 2, "containers": [main],
        "volumes": [scratch_volume(&world)] });
    world.pod("p", spec).await?;
    world.wait_ready("p").await?;
    let (pid, child) = (world.wait_file("pid").await?, world.wait_file("child").await?);
    ensure!(is_alive(&pid) && is_alive(&child));
    world.delete("p").await?;
    let took = world.wait_gone("p").await?;
    ensure!(took > Duration::from_millis(1500), "killed before its time: {took:?}");
    ensure!(!is_alive(&pid) && !is_alive(&child), "processes are left");
    world.wait_event("p", "Killing: Stopping container c").await
}

/// A container that listens ends at once, after its hook.
pub(crate) async fn graceful_end(world: World) -> anyhow::Result<()> {
    let script = "trap 'cat /s/hook > /s/end; echo term >> /s/end; exit 0' TERM; \
                  while :; do sleep 0.1; done";
    let more = json!({ "volumeMounts": [{ "name": "scratch", "mountPath": "/s" }],
        "lifecycle": { "preStop": { "exec": { "command": ["sh", "-c", "echo hook > /s/hook"] } } } });
    let spec = json!({ "terminationGracePeriodSeconds": 60, "containers": [container(script, more)],
        "volumes": [scratch_volume(&world)] });
    world.pod("p", spec).await?;
    world.wait_ready("p").await?;
    // The trap is set in the first moments of the script.
    tokio::time::sleep(Duration::from_millis(500)).await;
    world.delete("p").await?;
    let took = world.wait_gone("p").await?;
    ensure!(took < Duration::from_secs(20), "{took:?}");
    let text = std::fs::read_to_string(world.scratch.join("end"))?;
    ensure!(text == "hook\nterm\n", "{text:?}");
    Ok(())
}

pub(crate) async fn delete_while_starting(world: World) -> anyhow::Result<()> {
    let init = json!([{ "name": "i", "image": "busybox", "command": ["sleep", "0.2"] }]);
    for (index, pause) in [0, 20, 60, 120, 250, 500].into_iter().enumerate() {
        let name = format!("p-{index}");
        let spec = json!({ "initContainers": init, "terminationGracePeriodSeconds": 1,
            "containers": [container("sleep 1000", json!({}))] });
        world.pod(&name, spec).await?;
        tokio::time::sleep(Duration::from_millis(pause)).await;
        world.delete(&name).await?;
    }
    for index in 0..6 {
        world.wait_gone(&format!("p-{index}")).await?;
    }
    // A pod that is not there at all any more, as after a forced deletion.
    world.script("forced", "trap '' TERM; echo $$; sleep 1000", json!({})).await?;
    let pod = world.wait_ready("forced").await?;
    let pid = world.log(&pod, "c", 0)?;
    world.pods().delete("forced", &DeleteParams::default().grace_period(0)).await?;
    for _ in 0..200 {
        if !is_alive(&pid) {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    anyhow::bail!("process {pid} is left of a pod that was deleted by force")
}

pub(crate) async fn thirty_pods_at_once(world: World) -> anyhow::Result<()> {
    let names: Vec<String> = (0..30).map(|index| format!("p-{index}")).collect();
    let spec = json!({ "containers": [{ "name": "c", "image": "sleeper" }] });
    let all = names.iter().map(|name| world.pod(name, spec.clone()));
    futures::future::try_join_all(all).await?;
    let mut addresses = BTreeSet::new();
    for name in &names {
        let pod = world.wait_ready(name).await?;
        addresses.insert(pod.status.context("no status")?.pod_ip.context("no address")?);
    }
    ensure!(addresses.len() == 30, "addresses are used twice");
    world.pods().delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
    for name in &names {
        world.wait_gone(name).await?;
    }
    Ok(())
}

/// A pod's token is that of its service account: what that may not do is refused.
pub(crate) async fn token_has_only_its_own_rights(world: World) -> anyhow::Result<()> {
    world
        .create::<Role>(json!({ "metadata": { "name": "r" },
        "rules": [{ "apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"] }] }))
        .await?;
    world
        .create::<RoleBinding>(json!({ "metadata": { "name": "r" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r" },
        "subjects": [{ "kind": "ServiceAccount", "name": "default" }] }))
        .await?;
    let script = "cat /var/run/secrets/kubernetes.io/serviceaccount/token; echo; \
                  cat /var/run/secrets/kubernetes.io/serviceaccount/namespace; echo; \
                  grep -c BEGIN /var/run/secrets/kubernetes.io/serviceaccount/ca.crt; \
                  echo $KUBERNETES_SERVICE_HOST:$KUBERNETES_SERVICE_PORT; sleep 1000";
    world.script("p", script, json!({})).await?;
    let pod = world.wait_ready("p").await?;
    let lines = loop {
        let log = world.log(&pod, "c", 0)?;
        let lines: Vec<String> = log.lines().map(str::to_owned).collect();
        if lines.len() >= 4 {
            break lines;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    let (url, _) = &*world.api_server;
    ensure!(
        lines[1] == world.namespace && lines[2] != "0" && url.ends_with(&lines[3]),
        "{lines:?}"
    );
    let client = client_with_token(&world, &lines[0])?;
    let own = Api::<ConfigMap>::namespaced(client.clone(), &world.namespace);
    own.list(&ListParams::default()).await.context("what it may do")?;
    let refused = |result: kube::Result<()>| match result {
        Err(kube::Error::Api(status)) => status.code == 403,
        _ => false,
    };
    let pods = Api::<Pod>::namespaced(client.clone(), &world.namespace);
    ensure!(refused(pods.list(&ListParams::default()).await.map(drop)), "another kind");
    let other = Api::<ConfigMap>::namespaced(client, "kube-system");
    ensure!(refused(other.list(&ListParams::default()).await.map(drop)), "another namespace");
    Ok(())
}

fn client_with_token(world: &World, token: &str) -> anyhow::Result<Client> {
    let (url, ca) = &*world.api_server;
    let mut config = kube::Config::new(url.parse()?);
    let pem = ca.as_bytes();
    let der = rustls_pem(pem).context("the authority is no certificate")?;
    config.root_cert = Some(vec![der]);
    config.auth_info.token = Some(token.to_owned().into());
    Ok(Client::try_from(config)?)
}

fn rustls_pem(pem: &[u8]) -> Option<Vec<u8>> {
    use rustls_pki_types::pem::PemObject as _;
    rustls_pki_types::CertificateDer::from_pem_slice(pem).ok().map(|der| der.to_vec())
}
