//! A Cruise Control that is already there, asked over its REST API. Gregor neither deploys nor restarts one.
//!
//! 1. Its tasks are remembered by their ids. One that it does not know of any more, because it was restarted or has
//!    forgotten it, is lost: another plan is asked for, and nothing is carried out twice.
//! 2. That moves are asked for is recorded before they are, as it gives them an id only then. If the answer is not
//!    heard, they are taken for begun as long as it moves something, and for lost after that.
//! 3. It computes a plan anew when it carries one out. What it executes is therefore its own answer to the same
//!    question, not what was shown.
//! 4. The password is read and sent only if [`cruise_control`] admits the address, over verified TLS.

use std::sync::Arc;
use std::time::Duration;

use api::Kafka;
use api::names::Names;
use control::rebalance::cruise_control::{self, Owner, Refusal, URL_ANNOTATION};
use control::rebalance::execution::Progress;
use control::rebalance::request::{self, Duty, Execution, Failure, Proposal};
use k8s_openapi::api::core::v1::{Secret, Service};
use kafka_admin::Resolve;
use kube::{Api, Client as Kubernetes, ResourceExt as _};
use serde_json::{Value, json};

use super::{Seen, Told, native};
use crate::context::Context;
use crate::cruise_control::{Answer, Client, ClientError, Endpoint, ExecutorState, Summary, Task};
use crate::rebalance::RebalanceError;
use crate::rebalance::request::Work;
use crate::rebalance::store::{ProposalRecord, Session};
use crate::words::chain;

/// The user that it is asked as.
const USER: &str = "rebalance-operator";
/// It answers within ten seconds, done or not.
const DEADLINE: Duration = Duration::from_secs(11);

/// A Cruise Control, or why it cannot be asked.
pub(crate) struct CruiseControl {
    client: Result<Client, Unusable>,
}

/// Why Cruise Control cannot be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Unusable {
    /// It must not be contacted before the user changes something.
    Refused(Refusal),
    /// Something that it takes is missing.
    Missing(String),
}

impl CruiseControl {
    /// That of a cluster.
    pub(crate) async fn of(ctx: &Context, kafka: &Kafka) -> Result<Self, RebalanceError> {
        let (domain, names) = (&ctx.settings.cluster_domain, ctx.admins.names());
        Ok(Self { client: find(&ctx.client, kafka, (domain, names)).await? })
    }

    /// Why it must not be contacted, if so.
    pub(super) fn refusal(&self) -> Option<Refusal> {
        match &self.client {
            Err(Unusable::Refused(refusal)) => Some(refusal.clone()),
            Err(Unusable::Missing(_)) | Ok(_) => None,
        }
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
        match self.client.as_ref().err()? {
            // The request is hindered: see `refusal`.
            Unusable::Refused(_) => None,
            Unusable::Missing(what) => Some(Proposal::Failed(Failure::Passing(what.clone()))),
        }
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

/// A client for the Cruise Control of a cluster. The Service is looked at before any Secret is read.
async fn find(
    kubernetes: &Kubernetes,
    kafka: &Kafka,
    (domain, names): (&str, Arc<dyn Resolve>),
) -> Result<Result<Client, Unusable>, RebalanceError> {
    let of = Names::new(&kafka.namespace().unwrap_or_default(), &kafka.name_any());
    let owner = Owner { cluster: &of.cluster, namespace: &of.namespace, domain };
    let url = kafka.annotations().get(URL_ANNOTATION).map(String::as_str);
    let address = match cruise_control::address(url, &owner) {
        Ok(address) => address,
        Err(refusal) => return Ok(Err(Unusable::Refused(refusal))),
    };
    let read = |error| RebalanceError::Read(Box::new(error));
    let missing = |what: String| Ok(Err(Unusable::Missing(what)));
    let services: Api<Service> = Api::namespaced(kubernetes.clone(), &of.namespace);
    let Some(service) = services.get_opt(&address.service).await.map_err(read)? else {
        return missing(format!("Service {} of Cruise Control does not exist", address.service));
    };
    let kind = service.spec.as_ref().and_then(|spec| spec.type_.as_deref());
    if let Err(refusal) = cruise_control::check_service(&address, kind) {
        return Ok(Err(Unusable::Refused(refusal)));
    }
    let secrets: Api<Secret> = Api::namespaced(kubernetes.clone(), &of.namespace);
    let entry = async |name: &str, entry: &str| {
        let data = secrets.get_opt(name).await.map_err(read)?.and_then(|secret| secret.data);
        Ok::<_, RebalanceError>(data.unwrap_or_default().remove(entry).map(|bytes| bytes.0))
    };
    let authority = of.authority_cert("cluster");
    let Some(authorities) = entry(&authority, "ca.crt").await? else {
        return missing(format!(
            "Secret {authority} has no cluster CA to verify Cruise Control with"
        ));
    };
    let login = format!("{}-cruise-control-api", of.cluster);
    let password = entry(&login, &format!("{USER}.password")).await?;
    let password = password.map(|bytes| String::from_utf8_lossy(&bytes).trim().to_owned());
    let endpoint = Endpoint {
        host: address.host(),
        port: address.port,
        authorities,
        login: password.map(|password| (USER.to_owned(), password)),
        deadline: Some(DEADLINE),
        names,
    };
    Ok(Client::new(endpoint).map_err(|error| Unusable::Missing(chain(&error))))
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
    use std::sync::Mutex;

    use axum::http::{Request, Response, StatusCode};
    use kafka_admin::SystemNames;
    use kube::client::Body;

    use super::*;

    /// Finds the Cruise Control of a cluster with this annotation, where all Services have this type. Returns it and
    /// the paths that were read.
    async fn found(url: Option<&str>, service: Option<&str>) -> (Result<Client, Unusable>, String) {
        let paths: Arc<Mutex<Vec<String>>> = Arc::default();
        let (seen, service) = (paths.clone(), service.map(str::to_owned));
        let api = tower::service_fn(move |request: Request<Body>| {
            let path = request.uri().path().to_owned();
            let name = path.rsplit('/').next().unwrap().to_owned();
            let object = match (&service, path.contains("/services/")) {
                (None, true) => None,
                (Some(kind), true) => {
                    Some(json!({ "metadata": { "name": name }, "spec": { "type": kind } }))
                }
                // A certificate in base64; what it holds is of no matter before a connection.
                (_, false) => Some(json!({ "metadata": { "name": name }, "data": {
                    "ca.crt": "", "rebalance-operator.password": "c2VjcmV0",
                } })),
            };
            seen.lock().unwrap().push(format!("{name}@{}", path.split('/').nth(4).unwrap()));
            let status = if object.is_some() { StatusCode::OK } else { StatusCode::NOT_FOUND };
            let body = object.unwrap_or_else(|| {
                json!({ "kind": "Status", "code": 404, "status": "Failure", "reason": "NotFound", "message": "" })
            });
            let body = Body::from(body.to_string().into_bytes());
            let answer = Response::builder().status(status).body(body).unwrap();
            async move { Ok::<_, std::convert::Infallible>(answer) }
        });
        let kafka = serde_json::from_value(json!({
            "apiVersion": "kafka.strimzi.io/v1", "kind": "Kafka",
            "metadata": { "name": "c", "namespace": "ns", "annotations": url.map(|url| json!({ URL_ANNOTATION: url })) },
            "spec": { "kafka": { "listeners": [] } },
        }));
        let client = Kubernetes::new(api, "default");
        let names = Arc::new(SystemNames);
        let found = find(&client, &kafka.unwrap(), ("cluster.local", names)).await.unwrap();
        let paths = paths.lock().unwrap().join(" ");
        (found, paths)
    }

    #[tokio::test]
    #[rustfmt::skip]
    async fn no_secret_is_read_unless_the_address_is_admitted() {
        let all = "cc@ns c-cluster-ca-cert@ns c-cruise-control-api@ns";
        let rows = [
            (Some("https://cc.ns.svc:9090"), Some("ClusterIP"),    Ok(()), all),
            (Some("https://cc.ns"),          Some("ClusterIP"),    Ok(()), all),
            (None,                           Some("ClusterIP"),    Ok(()), "c-cruise-control@ns c-cluster-ca-cert@ns c-cruise-control-api@ns"),
            (Some("http://cc.ns.svc"),       Some("ClusterIP"),    Err("the scheme must be https"), ""),
            (Some("https://cc.other.svc"),   Some("ClusterIP"),    Err("not in other"), ""),
            (Some("https://10.0.0.1"),       Some("ClusterIP"),    Err("must be a Service with its namespace"), ""),
            (Some("https://cc.ns.svc"),      Some("ExternalName"), Err("has type ExternalName"), "cc@ns"),
            (Some("https://cc.ns.svc"),      None,                 Err("Service cc of Cruise Control does not exist"), "cc@ns"),
        ];
        for (url, service, expected, paths) in rows {
            let (found, read) = found(url, service).await;
            assert_eq!(read, paths, "{url:?} {service:?}");
            match (found, expected) {
                (Ok(client), Ok(())) => assert!(client.host().ends_with(".ns.svc"), "{url:?}"),
                (Err(Unusable::Refused(refusal)), Err(why)) => {
                    let said = refusal.to_string();
                    assert!(said.contains(why) && said.contains(URL_ANNOTATION), "{url:?}: {said}");
                }
                (Err(Unusable::Missing(said)), Err(why)) => assert!(said.contains(why), "{said}"),
                (found, _) => panic!("{url:?} {service:?}: {:?}", found.err()),
            }
        }
    }
}
