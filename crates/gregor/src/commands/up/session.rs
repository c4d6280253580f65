//! One life of a control plane in this process: start, apply, wait, stop.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use artifacts::kubernetes::Program;
use local::control_plane::{ControlPlane, Event, Options};
use local::manifests::{self, Manifest};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::nodes::{self, Nodes};
use super::{Plan, console, kafka, words};
use crate::machine::{self, Operator, audit_log, end_leftovers};
use crate::output::{Format, Out, note};

/// What the process in the background prints, alone in a line, when all is ready.
pub(super) const READY: &str = "gregor-is-ready";

/// What stands before the address of the console, in a line before that.
pub(super) const CONSOLE: &str = "gregor-console ";

/// Runs until Ctrl-C, SIGTERM or the end of the terminal.
pub(super) async fn foreground(plan: Plan) -> anyhow::Result<()> {
    let mut stop = StopSignals::new()?;
    let begun = Instant::now();
    let Some((plane, nodes)) = stop.or(start(&plan, |event| note(&words::sentence(&event)))).await
    else {
        // Whatever was started has ended with the attempt.
        return Ok(());
    };
    let (plane, nodes) = (plane?, nodes);
    let applied = stop.or(apply(&plane.client(), &plan)).await;
    if let Some(Ok(())) = &applied {
        let kubeconfig = plane.kubeconfig_path();
        let mut served = console::serve(&kubeconfig).await;
        let url = served.as_ref().map(|one| one.url.as_str());
        print_summary(&plan, &kubeconfig, (begun.elapsed(), url))?;
        served.as_mut().filter(|_| plan.opens).into_iter().for_each(console::Served::open);
        note("Ctrl-C stops it; what is stored stays");
        if let Some(waited) = stop.or(wait_for_kafka(&plane.client(), &plan)).await {
            // Whatever is not ready may become so, and can be looked at meanwhile.
            waited.unwrap_or_else(|error| note(&format!("{error:#}")));
            stop.wait().await;
        }
    }
    // A second signal means now; dropping ends everything at once.
    match stop.or(end(plane, nodes)).await {
        Some(result) => result?,
        // What runs in pods is no part of us, and only a node can end it.
        None => note("the control plane was killed; gregor down ends what is left of the pods"),
    }
    applied.unwrap_or(Ok(()))
}

/// The same in the background, for another process that waits for the word and then leaves.
pub(super) async fn supervise(plan: Plan) -> anyhow::Result<()> {
    // The end of the terminal is not for us. That we are a group's leader already would be no harm.
    let _ = rustix::process::setsid();
    let mut stop = StopSignals::new()?;
    // The first lines go to the waiting process, the others to a log, where their time matters.
    let in_log = Arc::new(AtomicBool::new(false));
    let with_time = Arc::clone(&in_log);
    let report = move |event: Event| {
        let sentence = words::sentence(&event);
        note(&if with_time.load(Ordering::Relaxed) { timed(&sentence) } else { sentence });
    };
    let Some((plane, nodes)) = stop.or(start(&plan, report)).await else {
        return Ok(());
    };
    let plane = plane?;
    let log = plane.state_dir().logs().join("gregor.log");
    let served = console::serve(&plane.kubeconfig_path()).await;
    let line = served.as_ref().map(|one| format!("{CONSOLE}{}\n", one.url)).unwrap_or_default();
    Out::new(Format::Table).text(&format!("{line}{READY}\n"))?;
    redirect_output(&log)?;
    in_log.store(true, Ordering::Relaxed);
    note(&timed(&format!("all is ready in {}", plan.state_dir.display())));
    stop.wait().await;
    end(plane, nodes).await
}

/// With the time before it.
fn timed(sentence: &str) -> String {
    let now = OffsetDateTime::now_utc();
    // Fractions of a second do not matter here.
    let now = now.replace_nanosecond(0).unwrap_or(now);
    format!("{} {sentence}", now.format(&Rfc3339).unwrap_or_default())
}

/// A control plane with its nodes. The nodes are nothing when there is no control plane.
async fn start(
    plan: &Plan,
    report: impl Fn(Event) + Send + Sync + 'static,
) -> (anyhow::Result<ControlPlane>, Option<Nodes>) {
    let options = Options::new(&plan.state_dir, plan.binaries.clone());
    let options = Options { audit_log: audit_log(&plan.state_dir), ..options };
    let plane = match ControlPlane::start(options, report).await {
        Ok(plane) => plane,
        Err(error) => return (Err(error.into()), None),
    };
    match nodes::start(&plane, plan).await {
        Ok(nodes) => (Ok(plane), Some(nodes)),
        Err(error) => {
            // The error that is told is the first one. Nodes that were started leave their pods running.
            let _ = end_leftovers(&plan.state_dir).await;
            let _ = plane.stop().await;
            (Err(error), None)
        }
    }
}

async fn end(plane: ControlPlane, nodes: Option<Nodes>) -> anyhow::Result<()> {
    let result = match nodes {
        Some(nodes) => nodes.stop().await,
        None => Ok(()),
    };
    plane.stop().await?;
    result
}

/// Applies the operator and the files, with a line for each object of the files.
pub(super) async fn apply(client: &kube::Client, plan: &Plan) -> anyhow::Result<()> {
    let installed = plan.operator.as_ref().map(Operator::manifests).transpose()?;
    let mut all = installed.unwrap_or_default();
    all.extend(plan.manifests.iter().cloned());
    manifests::sort(&mut all);
    let done = |manifest: &Manifest| match machine::operator::is_ours(manifest) {
        true if manifest.is("apps", "Deployment") => note("the operator is installed"),
        true => {}
        false => note(&format!("{} was applied", manifest.what())),
    };
    Ok(manifests::apply(client, &all, done).await?)
}

/// Waits for the clusters in the files and says where they are.
pub(super) async fn wait_for_kafka(client: &kube::Client, plan: &Plan) -> anyhow::Result<()> {
    if plan.operator.is_none() {
        return Ok(());
    }
    let clusters = kafka::wait(client, &plan.manifests).await?;
    let kubectl = plan.binaries.program(Program::Kubectl);
    let text = kafka::summary(&clusters, &plan.state_dir.join("hosts"), &kubectl);
    Out::new(Format::Table).text(&text)
}

/// Where things are.
pub(super) fn print_summary(
    plan: &Plan,
    kubeconfig: &Path,
    (after, console): (Duration, Option<&str>),
) -> anyhow::Result<()> {
    let version = &plan.binaries.version;
    let kubectl = plan.binaries.program(Program::Kubectl);
    let text = format!(
        "Kubernetes {version} is ready after {:.1} s.\n\n  state       {}\n  kubeconfig  {}\n  \
         kubectl     {}\n{}\nTo use it:\n\n  export KUBECONFIG={}\n  {} get namespaces\n\n",
        after.as_secs_f64(),
        plan.state_dir.display(),
        kubeconfig.display(),
        kubectl.display(),
        console::line(console),
        kubeconfig.display(),
        kubectl.display(),
    );
    Out::new(Format::Table).text(&text)
}

/// From now on what we print goes to a log, as there is no terminal.
fn redirect_output(log: &Path) -> anyhow::Result<()> {
    let file = File::options().create(true).append(true).open(log);
    let file = file.with_context(|| format!("cannot write {log:?}"))?;
    rustix::stdio::dup2_stdout(&file).context("cannot redirect the output")?;
    rustix::stdio::dup2_stderr(&file).context("cannot redirect the output")
}

/// The signals that mean: stop in order.
struct StopSignals([Signal; 3]);

impl StopSignals {
    fn new() -> anyhow::Result<Self> {
        let open = |kind| signal(kind).context("cannot wait for signals");
        Ok(Self([
            open(SignalKind::interrupt())?,
            open(SignalKind::terminate())?,
            open(SignalKind::hangup())?,
        ]))
    }

    async fn wait(&mut self) {
        let [interrupt, terminate, hangup] = &mut self.0;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    }

    /// What comes of the work, or `None` if a signal came first; the work is dropped then.
    async fn or<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            result = work => Some(result),
            () = self.wait() => None,
        }
    }
}
