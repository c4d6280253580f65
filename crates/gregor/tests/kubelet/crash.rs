//! The node agent is killed, stopped and started again under its pods.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::json;

use super::*;

/// What happened while nobody looked is found out, and what runs goes on.
pub(crate) async fn killed_in_the_middle(world: &World, node: &mut Node) -> anyhow::Result<()> {
    let mounted = || json!({ "volumeMounts": [{ "name": "scratch", "mountPath": "/s" }] });
    let pod = |script: &str, policy: &str| {
        json!({ "restartPolicy": policy, "containers": [container(script, mounted())],
            "volumes": [scratch_volume(world)] })
    };
    let wait = |file: &str| {
        format!("echo $$ > /s/{file}.pid; until [ -f /s/{file} ]; do sleep 0.1; done;")
    };
    world.pod("runs", pod(&format!("{} sleep 1000", wait("runs")), "Always")).await?;
    world.pod("ends", pod(&format!("{} exit 7", wait("ends")), "Never")).await?;
    world
        .pod("crashes", pod(&format!("{} rm /s/crashes; exit 8", wait("crashes")), "Always"))
        .await?;
    world.pod("deleted", pod(&wait("deleted"), "Always")).await?;
    world.pod("forced", pod(&wait("forced"), "Always")).await?;
    let names = ["runs", "ends", "crashes", "deleted", "forced"];
    let mut pids = Vec::new();
    for name in names {
        world.wait_ready(name).await?;
        pids.push(world.wait_file(&format!("{name}.pid")).await?);
    }
    let ip = world.pods().get("runs").await?.status.context("no status")?.pod_ip;
    node.kill();
    std::fs::write(world.scratch.join("ends"), "")?;
    std::fs::remove_file(world.scratch.join("crashes.pid"))?;
    std::fs::write(world.scratch.join("crashes"), "")?;
    world.delete("deleted").await?;
    world.pods().delete("forced", &DeleteParams::default().grace_period(0)).await?;
    tokio::time::sleep(Duration::from_millis(500)).await;
    ensure!(
        is_alive(&pids[0]) && is_alive(&pids[3]) && is_alive(&pids[4]),
        "died with the kubelet"
    );
    node.start();

    let pod = world.wait_phase("ends", "Failed").await?;
    ensure!(ended(&pod).map(|end| end.0) == Some(7), "{:?}", ended(&pod));
    let pod = world.wait("crashes", "started again", |pod| restarts(pod) == 1).await?;
    ensure!(ended(&pod).map(|end| end.0) == Some(8), "{:?}", ended(&pod));
    world.wait_gone("deleted").await?;
    for _ in 0..200 {
        if !is_alive(&pids[3]) && !is_alive(&pids[4]) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    ensure!(!is_alive(&pids[3]) && !is_alive(&pids[4]), "orphans are left");
    let pod = world.wait_ready("runs").await?;
    ensure!(is_alive(&pids[0]) && restarts(&pod) == 0, "was started anew");
    ensure!(pod.status.context("no status")?.pod_ip == ip, "has another address");
    Ok(())
}

/// Killed again and again while pods are started: no container runs twice.
pub(crate) async fn killed_while_starting(world: &World, node: &mut Node) -> anyhow::Result<()> {
    let script = "echo $$ >> /s/$NAME; exec sleep 1000";
    let more = json!({ "volumeMounts": [{ "name": "scratch", "mountPath": "/s" }],
        "env": [{ "name": "NAME", "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } }] });
    for round in 0..5u64 {
        for index in 0..3 {
            let name = format!("p-{round}-{index}");
            let spec = json!({ "containers": [container(script, more.clone())],
                "volumes": [scratch_volume(world)] });
            world.pod(&name, spec).await?;
        }
        tokio::time::sleep(Duration::from_millis(40 + 60 * round)).await;
        node.kill();
        node.start();
    }
    for round in 0..5 {
        for index in 0..3 {
            let name = format!("p-{round}-{index}");
            world.wait_ready(&name).await?;
            let pids = std::fs::read_to_string(world.scratch.join(&name))?;
            let alive = pids.lines().filter(|pid| is_alive(pid)).count();
            ensure!(alive == 1, "{name} runs {alive} times: {pids:?}");
        }
    }
    Ok(())
}

/// The shim is killed: the container ends with it and is started again.
pub(crate) async fn shim_killed(world: &World) -> anyhow::Result<()> {
    let script = "(setsid sleep 876 & echo $!); exec sleep 1000";
    world.script("p", script, json!({})).await?;
    let pod = world.wait_ready("p").await?;
    let child = world.log(&pod, "c", 0)?;
    let uid = pod.metadata.uid.as_deref().context("no uid")?;
    let state = world.dir.join("pods").join(uid).join("containers/c/0/state.json");
    let state: Value = serde_json::from_slice(&std::fs::read(state)?)?;
    let pid = i32::try_from(state["shim"]["pid"].as_i64().context("no shim")?)?;
    let pid = rustix::process::Pid::from_raw(pid).context("no shim")?;
    rustix::process::kill_process(pid, rustix::process::Signal::KILL)?;
    let pod = world.wait("p", "started again", |pod| restarts(pod) == 1 && is_ready(pod)).await?;
    let (code, reason, _) = ended(&pod).context("not ended")?;
    ensure!((code, reason.as_str()) == (137, "ContainerStatusUnknown"), "{code} {reason}");
    ensure!(!is_alive(child.trim()), "a process of the lost container is left");
    Ok(())
}

/// The node is stopped: containers end, and go on at the next start, whatever their policy.
pub(crate) async fn stopped_and_continued(world: &World, node: &mut Node) -> anyhow::Result<()> {
    let script = "trap 'exit 0' TERM; while :; do sleep 0.1; done";
    for policy in ["Always", "Never"] {
        let spec = json!({ "restartPolicy": policy, "containers": [container(script, json!({}))] });
        world.pod(&policy.to_lowercase(), spec).await?;
        world.wait_ready(&policy.to_lowercase()).await?;
    }
    node.interrupt();
    let left = std::fs::read_dir("/proc")?.flatten().filter(|entry| {
        let environ = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        let text = String::from_utf8_lossy(&environ).into_owned();
        text.contains("GREGOR_CONTAINER_ID") && text.contains("HOSTNAME=never")
    });
    ensure!(left.count() == 0, "processes are left");
    node.start();
    for name in ["always", "never"] {
        let pod = world.wait(name, "continued", |pod| restarts(pod) == 1 && is_ready(pod)).await?;
        ensure!(phase_of(&pod) == "Running");
    }
    Ok(())
}

/// The node is killed and not started again: what it has left can be ended, and continued later.
pub(crate) async fn leftovers_ended(world: &World, node: &mut Node) -> anyhow::Result<()> {
    world.script("left", "echo $$; exec sleep 1000", json!({})).await?;
    let pod = world.wait_ready("left").await?;
    let pid = world.log(&pod, "c", 0)?;
    ensure!(local::kubelet::end_leftovers(&world.dir).await.is_err(), "the node still runs");
    node.kill();
    ensure!(is_alive(&pid));
    local::kubelet::end_leftovers(&world.dir).await?;
    ensure!(!is_alive(&pid), "{pid} is left");
    node.start();
    world.wait("left", "continued", |pod| restarts(pod) == 1 && is_ready(pod)).await.map(drop)
}
