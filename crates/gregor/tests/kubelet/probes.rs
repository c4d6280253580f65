//! Probes of every kind: passing, failing, slow. The servers they ask are in the test itself, which
//! answers at every loopback address, and so at the pods' too.

use std::time::Duration;

use anyhow::ensure;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;

/// Answers `/ok` with 200, `/slow` after a while, everything else with 500.
async fn http_server() -> anyhow::Result<u16> {
    let listener = TcpListener::bind("0.0.0.0:0").await?;
    let port = listener.local_addr()?.port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut request = [0; 1024];
                let length = stream.read(&mut request).await.unwrap_or(0);
                let request = String::from_utf8_lossy(&request[..length]).into_owned();
                if request.starts_with("GET /slow ") {
                    tokio::time::sleep(Duration::from_secs(10)).await;
                }
                let good = request.starts_with("GET /ok ") && request.contains("X-Test: yes");
                let code = if good { "200 OK" } else { "500 Internal Server Error" };
                let answer = format!("HTTP/1.1 {code}\r\nContent-Length: 0\r\n\r\n");
                let _ = stream.write_all(answer.as_bytes()).await;
            });
        }
    });
    Ok(port)
}

fn http(port: u16, path: &str) -> Value {
    let header = json!([{ "name": "X-Test", "value": "yes" }]);
    json!({ "httpGet": { "port": port, "path": path, "httpHeaders": header }, "periodSeconds": 1 })
}

fn exec(script: &str) -> Value {
    json!({ "exec": { "command": ["sh", "-c", script] }, "periodSeconds": 1 })
}

fn tcp(port: u16) -> Value {
    json!({ "tcpSocket": { "port": port }, "periodSeconds": 1 })
}

pub(crate) async fn readiness(world: World) -> anyhow::Result<()> {
    let open = http_server().await?;
    // Nobody listens at a port that was free a moment ago.
    let closed = TcpListener::bind("0.0.0.0:0").await?.local_addr()?.port();
    #[rustfmt::skip]
    let table = [
        ("exec-pass", exec("test $HOSTNAME = exec-pass"), None),
        ("exec-fail", exec("echo not yet; exit 1"), Some("Readiness probe failed: not yet")),
        ("exec-slow", exec("sleep 10"), Some("Readiness probe failed: command timed out")),
        ("http-pass", http(open, "/ok"), None),
        ("http-fail", http(open, "/no"), Some("Readiness probe failed: HTTP probe failed with statuscode: 500")),
        ("http-slow", http(open, "/slow"), Some("Readiness probe failed: Get \"http://127.101.")),
        ("http-none", http(closed, "/ok"), Some("Readiness probe failed: Get \"http://127.101.")),
        ("tcp-pass", tcp(open), None),
        ("tcp-fail", tcp(closed), Some("Readiness probe failed: dial tcp 127.101.")),
    ];
    for (name, probe, _) in &table {
        world.script(name, "exec sleep 1000", json!({ "readinessProbe": probe })).await?;
    }
    for (name, _, problem) in table {
        match problem {
            None => drop(world.wait_ready(name).await?),
            Some(problem) => {
                world.wait_event(name, &format!("Unhealthy: {problem}")).await?;
                let pod = world.pods().get(name).await?;
                ensure!(
                    phase_of(&pod) == "Running" && !is_ready(&pod) && restarts(&pod) == 0,
                    "{name}"
                );
            }
        }
    }
    Ok(())
}

/// Readiness comes and goes.
pub(crate) async fn readiness_changes(world: World) -> anyhow::Result<()> {
    let probe = json!({ "exec": { "command": ["test", "-f", "/s/ready"] }, "periodSeconds": 1, "failureThreshold": 1 });
    let more = json!({ "readinessProbe": probe, "volumeMounts": [{ "name": "scratch", "mountPath": "/s" }] });
    let spec = json!({ "containers": [container("exec sleep 1000", more)], "volumes": [scratch_volume(&world)] });
    world.pod("p", spec).await?;
    world.wait("p", "running", |pod| phase_of(pod) == "Running" && !is_ready(pod)).await?;
    std::fs::write(world.scratch.join("ready"), "")?;
    world.wait_ready("p").await?;
    std::fs::remove_file(world.scratch.join("ready"))?;
    let pod = world.wait("p", "not ready", |pod| !is_ready(pod)).await?;
    ensure!(restarts(&pod) == 0 && phase_of(&pod) == "Running");
    Ok(())
}

pub(crate) async fn liveness(world: World) -> anyhow::Result<()> {
    let open = http_server().await?;
    let strict = |mut probe: Value| {
        probe["failureThreshold"] = json!(1);
        probe
    };
    let table = [
        ("exec", strict(exec("exit 1")), true),
        ("http", strict(http(open, "/no")), true),
        ("tcp-good", strict(tcp(open)), false),
        ("http-good", strict(http(open, "/ok")), false),
    ];
    for (name, probe, _) in &table {
        let script = "trap 'exit 0' TERM; while :; do sleep 0.1; done";
        world.script(name, script, json!({ "livenessProbe": probe })).await?;
    }
    for (name, _, restarted) in table {
        if restarted {
            world.wait(name, "restarted", |pod| restarts(pod) >= 1).await?;
            world.wait_event(name, "Unhealthy: Liveness probe failed").await?;
            let why = "Killing: Container c failed liveness probe, will be restarted";
            world.wait_event(name, why).await?;
        } else {
            ensure!(restarts(&world.wait_ready(name).await?) == 0, "{name}");
        }
    }
    Ok(())
}

/// A slow start holds the other probes back; one that does not end is ended.
pub(crate) async fn startup(world: World) -> anyhow::Result<()> {
    let slow = json!({ "exec": { "command": ["test", "-f", "/v/up"] }, "periodSeconds": 1, "failureThreshold": 30 });
    let strict = json!({ "exec": { "command": ["test", "-f", "/v/up"] }, "periodSeconds": 1, "failureThreshold": 1 });
    let spec = |startup: Value, script: &str| {
        let more = json!({ "startupProbe": startup, "livenessProbe": strict,
            "volumeMounts": [{ "name": "v", "mountPath": "/v" }] });
        json!({ "containers": [container(script, more)], "volumes": [{ "name": "v", "emptyDir": {} }] })
    };
    world.pod("slow", spec(slow, "sleep 3; touch /v/up; exec sleep 1000")).await?;
    world.pod("never", spec(strict.clone(), "exec sleep 1000")).await?;
    let pod = world.wait("slow", "running", |pod| phase_of(pod) == "Running").await?;
    ensure!(
        first(&pod).and_then(|c| c.started) == Some(false) && !is_ready(&pod),
        "started too soon"
    );
    let pod = world.wait_ready("slow").await?;
    ensure!(restarts(&pod) == 0, "liveness did not wait for the start");
    world.wait("never", "restarted", |pod| restarts(pod) >= 1).await?;
    world.wait_event("never", "Killing: Container c failed startup probe").await
}
