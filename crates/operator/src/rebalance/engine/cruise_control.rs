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
use control::cluster::fact::{Fact, Why};
use control::rebalance::cruise_control::{self, Owner, Refusal, URL_ANNOTATION};
use control::rebalance::request::answers::{self, ExecutorState, Heard, Reply};
use control::rebalance::request::snapshot::{self, Answers};
use control::rebalance::request::{Act, Questions, Task};
use k8s_openapi::api::core::v1::{Secret, Service};
use kafka_admin::Resolve;
use kube::{Api, Client as Kubernetes, ResourceExt as _};
use serde_json::{Value, json};

use super::Told;
use crate::cruise_control::{Client, ClientError, Endpoint, Summary};
use crate::rebalance::RebalanceError;
use crate::rebalance::request::Work;
use crate::rebalance::store::ProposalRecord;
use crate::time::now_ms;
use crate::words::chain;

/// The user that it is asked as.
const USER: &str = "rebalance-operator";
/// It answers within ten seconds, done or not.
const DEADLINE: Duration = Duration::from_secs(11);

/// A Cruise Control that may be contacted.
pub(crate) struct CruiseControl(Client);

/// Why Cruise Control cannot be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Unusable {
    /// It must not be contacted before the user changes something.
    Refused(Refusal),
    /// Something that it takes is missing.
    Missing(String),
}

/// Asks the Cruise Control of a request's cluster what a decision needs.
pub(crate) async fn ask(
    work: &mut Work,
    questions: &Questions,
) -> Result<Fact<snapshot::CruiseControl>, RebalanceError> {
    let at_ms = now_ms();
    let Some(kafka) = &work.kafka else { return Ok(Fact::Unknown(Why::Unreachable)) };
    let (domain, names) = (&work.ctx.settings.cluster_domain, work.ctx.admins.names());
    let found = match find(&work.ctx.client, kafka, (domain, names)).await? {
        Ok(client) => {
            let answers = asked(&client, work, questions).await;
            work.cruise_control = Some(CruiseControl(client));
            snapshot::CruiseControl::Asked(answers)
        }
        Err(Unusable::Refused(refusal)) => snapshot::CruiseControl::Refused(refusal),
        Err(Unusable::Missing(what)) => snapshot::CruiseControl::Missing(what),
    };
    Ok(Fact::read(found, at_ms))
}

async fn asked(client: &Client, work: &mut Work, questions: &Questions) -> Answers {
    let mut answers = Answers::default();
    if !questions.state {
        return answers;
    }
    // Before its tasks: one that ends after that was not idle.
    let at_ms = now_ms();
    answers.idle = match client.state().await.unwrap_or_default() {
        Some(state) => Fact::read(state.is_idle(), at_ms),
        None => Fact::Unknown(Why::NoAnswer),
    };
    if let Some(id) = &questions.proposal {
        let (task, summary) = task(client, work, id).await;
        answers.proposal = task;
        if let Some(summary) = summary {
            work.record.proposal = Some(proposed(work, summary));
        }
    }
    if let Some(id) = &questions.execution {
        answers.execution = task(client, work, id).await.0;
    }
    answers
}

async fn task(client: &Client, work: &Work, id: &str) -> (Fact<Task>, Option<Summary>) {
    let at_ms = now_ms();
    match client.task(id).await {
        Ok((task, summary)) => (Fact::read(task, at_ms), summary),
        Err(error) => {
            tracing::info!("Cruise Control of {}: {}", work.of(), chain(&error));
            (Fact::Unknown(Why::NoAnswer), None)
        }
    }
}

/// Asks it for something. What has to be known of that later is recorded before; what the answer changes, after.
pub(super) async fn act(work: &mut Work, act: Act) -> Result<Told, RebalanceError> {
    let Some(CruiseControl(client)) = work.cruise_control.take() else {
        return work.heard(act, Heard::NotAsked, None).await;
    };
    // As for changes in Kafka: who may not lead by the time of the answer does not ask.
    if act.is_fenced() && !work.ctx.writer.lead(DEADLINE) {
        return work.heard(act, Heard::NotAsked, None).await;
    }
    let session = work.record.facts().session();
    let before = answers::before(act, session.clone());
    if before != session {
        work.record.session = Some(before);
        work.save().await?;
    }
    let said = match act {
        Act::AskPlan => replied(client.propose(&work.kr.spec).await),
        Act::AskMoves => replied(client.execute(&work.kr.spec).await),
        Act::AskProgress => client.state().await.map(|state| (Heard::State(state), None)),
        Act::AskStop => client.stop().await.map(|status| (Heard::StopReplied(status), None)),
        Act::Drive(_) | Act::MakePlan | Act::BeginMoves => Ok((Heard::NotAsked, None)),
    };
    let (heard, summary) = said.unwrap_or_else(|error| {
        let why = chain(&error);
        tracing::info!("Cruise Control of {}: {why}", work.of());
        (Heard::Silent(why), None)
    });
    let executor = match &heard {
        Heard::State(Some(state)) => executor(state),
        _ => None,
    };
    let proposal = summary.map(|summary| proposed(work, summary));
    Ok(Told { executor, ..work.heard(act, heard, proposal).await? })
}

fn replied(
    said: Result<(Reply, Option<Summary>), ClientError>,
) -> Result<(Heard, Option<Summary>), ClientError> {
    said.map(|(reply, summary)| (Heard::Replied(reply), summary))
}

/// How far the moves are, in its words.
fn executor(state: &ExecutorState) -> Option<Value> {
    let (done, total) = state.moved_mb?;
    Some(json!({
        "state": state.state, "finishedDataMovement": done, "totalDataToMove": total,
    }))
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
