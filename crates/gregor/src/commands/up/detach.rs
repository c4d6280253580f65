//! `gregor up --detach`: starts a second `gregor` that looks after everything, and waits for its word.

use std::process::Stdio;
use std::time::Instant;

use anyhow::Context as _;
use local::control_plane::StateDir;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};
use tokio::process::Command;

use super::Plan;
use super::session::{CONSOLE, READY, apply, print_summary, wait_for_kafka};
use crate::output::note;

/// Starts the other process, waits until all is ready, applies the files, and leaves it running.
pub(super) async fn run(plan: Plan) -> anyhow::Result<()> {
    let begun = Instant::now();
    let own = std::env::current_exe().context("cannot find this program")?;
    let mut child = Command::new(own)
        .args(["up", "--supervise", "--nodes", &plan.nodes.to_string(), "--state"])
        .arg(&plan.state_dir)
        .args(plan.images.iter().map(|image| format!("--image={image}")))
        .args(operator_arguments(&plan))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot start a process in the background")?;
    let stdout = child.stdout.take().context("the process has no output")?;
    let stderr = child.stderr.take().context("the process has no output")?;
    let waited = tokio::select! {
        (ready, last) = async { tokio::join!(find_word(stdout), pass_on(stderr)) } => {
            Some((ready, last))
        }
        _ = tokio::signal::ctrl_c() => None,
    };
    let console = match waited {
        Some((Some(console), last)) => {
            note(&last);
            console
        }
        Some((None, last)) => {
            let status = child.wait().await.context("cannot wait for the process")?;
            // Its last words are the reason, and are told once.
            let last = if last.is_empty() { status.to_string() } else { last };
            anyhow::bail!("{last}");
        }
        None => {
            stop(&child).await;
            let _ = child.wait().await;
            return Ok(());
        }
    };
    let dir = StateDir::open(&plan.state_dir)?;
    if let Err(error) = apply_files(&dir, &plan).await {
        stop(&child).await;
        let _ = child.wait().await;
        return Err(error);
    }
    print_summary(&plan, &dir.kubeconfig(), (begun.elapsed(), console.as_deref()))?;
    note("gregor down stops it");
    wait_for_kafka(&client(&dir).await?, &plan).await
}

/// What the other process must know of the operator: it has the programs, we apply the objects.
fn operator_arguments(plan: &Plan) -> Vec<String> {
    match &plan.operator {
        None => vec!["--no-operator".to_owned()],
        Some(operator) => {
            operator.versions().map(|version| format!("--kafka-version={version}")).collect()
        }
    }
}

async fn apply_files(dir: &StateDir, plan: &Plan) -> anyhow::Result<()> {
    if plan.manifests.is_empty() && plan.operator.is_none() {
        return Ok(());
    }
    apply(&client(dir).await?, plan).await
}

async fn client(dir: &StateDir) -> anyhow::Result<kube::Client> {
    let kubeconfig = kube::config::Kubeconfig::read_from(dir.kubeconfig())?;
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &Default::default()).await?;
    Ok(kube::Client::try_from(config)?)
}

/// Whether the word came, before or with the end of the output, and the address of the console if there is one.
async fn find_word(stream: impl AsyncRead + Unpin) -> Option<Option<String>> {
    let mut lines = BufReader::new(stream).lines();
    let (mut ready, mut console) = (false, None);
    while let Ok(Some(line)) = lines.next_line().await {
        ready |= line == READY;
        console = line.strip_prefix(CONSOLE).map(str::to_owned).or(console);
    }
    ready.then_some(console)
}

/// The other process says what happens in the same form as we do. Returns the last line, which is not
/// passed on.
async fn pass_on(stream: impl AsyncRead + Unpin) -> String {
    let mut lines = BufReader::new(stream).lines();
    let mut last = None;
    while let Ok(Some(line)) = lines.next_line().await {
        let line = line.strip_prefix("gregor: ").unwrap_or(&line).to_owned();
        if let Some(before) = last.replace(line) {
            note(&before);
        }
    }
    last.unwrap_or_default()
}

async fn stop(child: &tokio::process::Child) {
    let pid = child.id().and_then(|id| i32::try_from(id).ok());
    if let Some(pid) = pid.and_then(rustix::process::Pid::from_raw) {
        // One that has ended already gets none.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
    }
}
