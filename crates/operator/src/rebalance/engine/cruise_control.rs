//! A Cruise Control that is already there, asked over its REST API. Gregor neither deploys nor restarts one.
//!
//! 1. Its tasks are remembered by their ids. One that it does not know of any more, because it was restarted or has
//!    forgotten it, is lost: another plan is asked for, and nothing is carried out twice.
//! 2. That moves are asked for is recorded before they are, as it gives them an id only then. If the answer is not
//!    heard, they are taken for begun as long as it moves something, and for lost after that.
//! 3. It computes a plan anew when it carries one out. What it executes is therefore its own answer to the same
//!    question, not what was shown.

use std::time::Duration;

use api::Kafka;
use api::names::Names;
use control::rebalance::execution::Progress;
use control::rebalance::request::{self, Duty, Execution, Failure, Proposal};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client as Kubernetes, ResourceExt as _};
use serde_json::{Value, json};

use super::{Seen, Told, native};
use crate::cruise_control::{Answer, Client, ClientError, Endpoint, ExecutorState, Summary, Task};
use crate::rebalance::RebalanceError;
use crate::rebalance::request::Work;
use crate::rebalance::store::{ProposalRecord, Session};
use crate::words::chain;

/// The annotation of a `Kafka` that says where it is; without it, where Strimzi would have put it.
const URL: &str = "gregor.io/cruise-control-url";
/// Where Strimzi puts it, and as whom it is asked.
const PORT: u16 = 9090;
const USER: &str = "rebalance-operator";
/// It answers within ten seconds, done or not.
const DEADLINE: Duration = Duration::from_secs(11);

/// A Cruise Control, or why it cannot be asked.
pub(crate) struct CruiseControl {
    client: Result<Client, String>,
}

impl CruiseControl {
    /// That of a cluster.
    pub(crate) async fn of(kubernetes: &Kubernetes, kafka: &Kafka) -> Result<Self, RebalanceError> {
        let names = Names::new(&kafka.namespace().unwrap_or_default(), &kafka.name_any());
        let url = kafka.annotations().get(URL);
        let Some((tls, host, port)) = place(&names, url.map(String::as_str)) else {
            let url = url.cloned().unwrap_or_default();
            return Ok(Self { client: Err(format!("{URL}: {url:?} is no address")) });
        };
        let api: Api<Secret> = Api::namespaced(kubernetes.clone(), &names.namespace);
        let entry = async |name: String, entry: &str| {
            let found = api.get_opt(&name).await;
            let found = found.map_err(|error| RebalanceError::Read(Box::new(error)))?;
            let data = found.and_then(|secret| secret.data).unwrap_or_default();
            Ok::<_, RebalanceError>(data.get(entry).map(|bytes| bytes.0.clone()))
        };
        let login = format!("{}-cruise-control-api", names.cluster);
        let password = entry(login, &format!("{USER}.password")).await?;
        let password = password.map(|bytes| String::from_utf8_lossy(&bytes).trim().to_owned());
        let authorities = match tls {
            true => entry(names.authority_cert("cluster"), "ca.crt").await?,
            false => None,
        };
        if tls && authorities.is_none() {
            return Ok(Self { client: Err("there is no authority to trust".to_owned()) });
        }
        let endpoint = Endpoint {
            host,
            port,
            authorities,
            login: password.map(|password| (USER.to_owned(), password)),
            deadline: Some(DEADLINE),
        };
        Ok(Self { client: Client::new(endpoint).map_err(|error| chain(&error)) })
    }

    /// What it says of the request.
    pub(super) async fn look(&self, work: &mut Work) -> Result<Seen, RebalanceError> {
        // Moves of our own, of a time when we were the engine, end first.
        let ours = native::others_running(work).await?;
        if work.moves().is_some_and(|moves| moves.by.uid == work.uid() && !moves.is_over()) {
            return native::look(work).await;
        }
        let Ok(client) = &self.client else {
            return Ok(Seen { proposal: self.unusable(), ..Seen::default() });
        };
        let session = session(work);
        let executor = client.state().await.unwrap_or_default();
        let proposal = self.proposal(client, work, &session).await;
        let execution = execution(client, work, &session, executor.as_ref()).await;
        let busy = executor.as_ref().map(|state| !state.is_idle() && !session.asked);
        let others_running = match (ours, busy) {
            (Some(true), _) | (_, Some(true)) => Some(true),
            (Some(false), Some(false)) => Some(false),
            (None, _) | (_, None) => None,
        };
        Ok(Seen { proposal, execution, others_running })
    }

    fn unusable(&self) -> Option<Proposal> {
        let why = self.client.as_ref().err()?;
        Some(Proposal::Failed(Failure::Final(format!("Cruise Control cannot be asked: {why}"))))
    }

    /// The plan of this attempt, as it is recorded or as it tells.
    async fn proposal(
        &self,
        client: &Client,
        work: &mut Work,
        session: &Session,
    ) -> Option<Proposal> {
        let attempt = work.record.request.attempt;
        let known = work.record.proposal.as_ref().filter(|one| one.attempt == attempt);
        if let Some(known) = known {
            return Some(match &known.failure {
                Some(failure) => Proposal::Failed(failure.clone()),
                None => Proposal::Ready,
            });
        }
        let Some(id) = &session.proposal else { return Some(Proposal::Unasked) };
        match client.task(id).await {
            Ok(task) => {
                if let Task::InExecution(Some(summary)) | Task::Completed(Some(summary)) = &task {
                    work.record.proposal = Some(proposed(work, summary.clone()));
                }
                let proposal = task.proposal();
                if let Some(Proposal::Unasked) = proposal {
                    // It has forgotten it, and is asked anew.
                    work.record.session = None;
                }
                proposal
            }
            Err(error) => {
                tracing::info!("Cruise Control of {}: {}", work.of(), chain(&error));
                None
            }
        }
    }

    /// Does what is asked of it.
    pub(super) async fn act(&self, work: &mut Work, duty: Duty) -> Result<Told, RebalanceError> {
        let Ok(client) = &self.client else { return Ok(Told::default()) };
        let mut told = match duty {
            Duty::Propose => propose(client, work).await?,
            Duty::Execute => execute(client, work).await?,
            Duty::Stop => stop(client, work).await?,
            // It cannot be told to begin nothing new: what it has begun it ends.
            Duty::Rest | Duty::Hold => Told::default(),
        };
        let session = session(work);
        told.session = session.execution.or(session.proposal);
        Ok(told)
    }
}

/// Where it is: whether with TLS, the host and the port.
fn place(names: &Names, url: Option<&str>) -> Option<(bool, String, u16)> {
    let Some(url) = url else {
        let host = format!("{}-cruise-control.{}.svc", names.cluster, names.namespace);
        return Some((true, host, PORT));
    };
    let (tls, rest) = match (url.strip_prefix("https://"), url.strip_prefix("http://")) {
        (Some(rest), _) => (true, rest),
        (None, Some(rest)) => (false, rest),
        (None, None) => return None,
    };
    let rest = rest.trim_end_matches('/');
    let (host, port) = match rest.rsplit_once(':') {
        Some((host, port)) => (host, port.parse().ok()?),
        None => (rest, PORT),
    };
    (!host.is_empty() && !host.contains('/')).then(|| (tls, host.to_owned(), port))
}

/// The tasks of this attempt.
fn session(work: &Work) -> Session {
    let attempt = work.record.request.attempt;
    let known = work.record.session.clone().filter(|session| session.attempt == attempt);
    known.unwrap_or(Session { attempt, ..Session::default() })
}

fn proposed(work: &Work, summary: Summary) -> ProposalRecord {
    let brokers = work.kr.spec.brokers.iter().flatten();
    ProposalRecord {
        attempt: work.record.request.attempt,
        failure: None,
        summary,
        broker_load: json!({}),
        brokers: brokers.filter_map(|id| model::NodeId::new(i32::try_from(*id).ok()?)).collect(),
        unknown: Vec::new(),
    }
}

/// The moves of this attempt; `None` is not known.
async fn execution(
    client: &Client,
    work: &Work,
    session: &Session,
    executor: Option<&ExecutorState>,
) -> Option<Execution> {
    if let Some(failure) = &session.failure {
        return Some(Execution::Failed(failure.clone()));
    }
    if !session.asked {
        return Some(Execution::Unstarted);
    }
    let Some(id) = &session.execution else {
        // Asked for, and the answer was not heard.
        return Some(if executor?.is_idle() { Execution::Lost } else { Execution::Running });
    };
    match client.task(id).await {
        Ok(task) => task.execution(executor, session.stopping),
        Err(error) => {
            tracing::info!("Cruise Control of {}: {}", work.of(), chain(&error));
            None
        }
    }
}

/// Asks for a plan, if it has none and makes none.
async fn propose(client: &Client, work: &mut Work) -> Result<Told, RebalanceError> {
    let mut session = session(work);
    let attempt = work.record.request.attempt;
    let known = work.record.proposal.as_ref().is_some_and(|one| one.attempt == attempt);
    if known || session.proposal.is_some() {
        return Ok(Told::default());
    }
    let asked = match client.propose(&work.kr.spec).await {
        Ok(asked) => asked,
        Err(error) => return Ok(unreachable(work, &error)),
    };
    let mut told = Told { proposal: asked.answer.proposal(), ..Told::default() };
    match asked.answer {
        Answer::Ready(summary) => work.record.proposal = Some(proposed(work, summary)),
        Answer::Computing => {}
        // Asked again in the next pass: it has made no task of it.
        Answer::Busy | Answer::TooLittleKnown(_) => return Ok(told),
        Answer::Failed(failure) => {
            let failed = ProposalRecord { failure: Some(failure), ..proposed(work, Value::Null) };
            work.record.proposal = Some(failed);
        }
    }
    session.proposal = asked.task;
    work.record.session = Some(session);
    work.save().await?;
    told.changed = true;
    Ok(told)
}

/// Lets it move, if it was not asked before.
async fn execute(client: &Client, work: &mut Work) -> Result<Told, RebalanceError> {
    let mut session = session(work);
    if session.asked {
        return progress(client).await;
    }
    // As for changes in Kafka: who may not lead by the time of the answer does not ask.
    if !work.ctx.writer.lead(DEADLINE) {
        return Ok(Told::default());
    }
    session.asked = true;
    work.record.session = Some(session.clone());
    work.save().await?;
    let asked = match client.execute(&work.kr.spec).await {
        Ok(asked) => asked,
        Err(error) => return Ok(unreachable(work, &error)),
    };
    match asked.answer {
        Answer::Ready(summary) => work.record.proposal = Some(proposed(work, summary)),
        Answer::Computing => {}
        Answer::Busy => session.asked = false,
        Answer::TooLittleKnown(what) => {
            // It has lost what it knew; so is the plan.
            tracing::info!("Cruise Control of {}: {what}", work.of());
            work.record.proposal = None;
        }
        Answer::Failed(failure) => {
            tracing::info!("Cruise Control of {} does not move: {failure}", work.of());
            session.failure = Some(failure);
        }
    }
    session.execution = asked.task.filter(|_| session.asked);
    work.record.session = Some(session);
    work.save().await?;
    Ok(Told { changed: true, ..Told::default() })
}

/// Asks it to stop, while it moves for this request.
async fn stop(client: &Client, work: &mut Work) -> Result<Told, RebalanceError> {
    let mut session = session(work);
    if !session.asked || !request::may_run(&work.record.request) {
        return Ok(Told::default());
    }
    if !session.stopping {
        session.stopping = true;
        work.record.session = Some(session);
        work.save().await?;
    }
    if !work.ctx.writer.lead(DEADLINE) {
        return Ok(Told { stopping: true, ..Told::default() });
    }
    if let Err(error) = client.stop().await {
        return Ok(unreachable(work, &error));
    }
    Ok(Told { stopping: true, ..Told::default() })
}

/// How far it is.
async fn progress(client: &Client) -> Result<Told, RebalanceError> {
    const MB: u64 = 1 << 20;
    let skipped = |why: String| Told {
        warnings: vec![(
            "CruiseControlExecutorState",
            format!("Progress update of rebalance skipped due to the following reason: {why}"),
        )],
        ..Told::default()
    };
    Ok(match client.state().await {
        Err(error) => skipped(chain(&error)),
        Ok(None) => skipped("it does not say what it does".to_owned()),
        Ok(Some(state)) => match state.moved_mb {
            Some((done, total)) => Told {
                progress: Some(Progress {
                    bytes_total: total * MB,
                    bytes_done: done * MB,
                    ..Progress::default()
                }),
                executor: Some(json!({
                    "state": state.state, "finishedDataMovement": done, "totalDataToMove": total,
                })),
                ..Told::default()
            },
            None => skipped(format!("executor is in '{}' state", state.state)),
        },
    })
}

fn unreachable(work: &Work, error: &ClientError) -> Told {
    let why = chain(error);
    tracing::info!("Cruise Control of {}: {why}", work.of());
    Told { warnings: vec![("CruiseControlUnreachable", why)], ..Told::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_where_it_is_said_to_be_or_where_strimzi_puts_it() {
        let names = Names::new("ns", "c");
        let at = |url| place(&names, url);
        let host = "c-cruise-control.ns.svc".to_owned();
        assert_eq!(at(None), Some((true, host, 9090)));
        assert_eq!(at(Some("http://cc:80/")), Some((false, "cc".to_owned(), 80)));
        assert_eq!(at(Some("https://cc.x")), Some((true, "cc.x".to_owned(), 9090)));
        for wrong in ["cc:9090", "ftp://cc", "http://", "http://cc:x", "http://a/b"] {
            assert_eq!(at(Some(wrong)), None, "{wrong}");
        }
    }
}
