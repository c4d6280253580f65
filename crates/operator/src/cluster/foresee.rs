//! What the operator would do with a cluster, as it is or as an edit would have it, for people who want to know
//! before it happens.
//!
//! 1. The steps are the operator's own. They are gone through with a door through which nothing goes
//!    ([`crate::rehearsal`]) and a client that refuses to write: whatever a step does, nothing changes.
//! 2. What could not be read is told as such. A Kafka that does not answer is asked once, not by every step.
//! 3. What a step would decide after the next change is not told here: one pass is one pass.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::names::{Names, node_of_pod};
use api::{Kafka, KafkaNodePool};
use control::cluster::area::Area;
use control::cluster::areas::kafka;
use control::cluster::record::Record;
use control::conditions::{Note, Outcome};
use control::quorum::format::QuorumMode;
use control::quorum::{QuorumView, plan};
use control::rolling::account::Account;
use control::rolling::availability::PartitionFacts;
use control::rolling::facts::Facts as RollFacts;
use control::rolling::pass::Decision as RollDecision;
use control::scaling::leaving::{self, Leaving, Member};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kafka_admin::{Quorum, Resolve};
use kube::api::DynamicObject;
use kube::core::ApiResource;
use kube::{Api, Config, ResourceExt as _};
use model::NodeId;
use objects::Node;
use objects::areas::configuration::KAFKA_VERSION;
use objects::claims::DELETE_CLAIM;
use objects::found::{Found, FoundPool};
use serde_json::{Value, json};

use super::error::PassError;
use super::facts::KafkaFacts;
use super::pass::{self, Step, Work};
use super::record::Stored;
use super::steps::wishes::{self, Wishes};
use super::{found, observe, partitions};
use crate::client;
use crate::context::{Context, Settings};
use crate::rehearsal::{Script, Written};
use crate::write::Writer;

/// Which areas of a pass are gone through.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    /// Those that say what there is and what it waits for. The others only do what follows from it.
    Present,
    /// Those that say what nodes would be made of.
    Edited,
}

impl Scope {
    fn has(self, area: Area) -> bool {
        match self {
            Self::Present => !matches!(area, Area::Users | Area::Leftovers),
            Self::Edited => area.concerns_edits(),
        }
    }
}

/// Why nothing can be foreseen.
#[derive(Debug, thiserror::Error)]
pub enum ForeseeError {
    /// There is no client of the API server.
    #[error("cannot make a client of the API server")]
    Client(#[source] Box<kube::Error>),
    /// The resources could not be read.
    #[error("cannot read the resources of the cluster")]
    Get(#[source] Box<kube::Error>),
    /// What belongs to the cluster could not be read, or makes no sense.
    #[error("cannot go through the cluster")]
    Pass(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A resource is not one.
    #[error("{resource} cannot be read")]
    Unreadable {
        /// Which.
        resource: String,
        /// Why not.
        #[source]
        source: serde_json::Error,
    },
}

impl From<PassError> for ForeseeError {
    fn from(error: PassError) -> Self {
        Self::Pass(Box::new(error))
    }
}

/// What somebody wants to change.
#[derive(Debug, Clone, Default)]
pub struct Edit {
    /// The `Kafka`, as it was written; `None` if it stays as it is.
    pub kafka: Option<Value>,
    /// Pools that come or are changed, by name, as they were written.
    pub pools: BTreeMap<String, Value>,
    /// Pools that are deleted.
    pub deleted_pools: BTreeSet<String>,
}

/// A claim of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimView {
    /// Whose it is.
    pub node: Option<NodeId>,
    /// What it would ask for.
    pub size: Option<String>,
    /// What it asks for now; `None` if it is not there.
    pub size_now: Option<String>,
    /// Whether it would be deleted with its node.
    pub delete: bool,
}

/// A cluster, and what the operator would make of it.
#[derive(Default)]
pub struct View {
    /// Why its wishes would not be acted on.
    pub refused: Option<Note>,
    /// What it waits for, or would, by the area that says so.
    pub notes: Vec<(Area, Note)>,
    /// Whether a step holds up those after it.
    pub held: bool,
    /// Whether its user wants it left alone.
    pub paused: bool,
    /// What its user should know.
    pub warnings: Vec<Note>,
    /// The nodes as they are recorded.
    pub recorded: BTreeMap<NodeId, Member>,
    /// The nodes as they are wished for.
    pub wished: BTreeMap<NodeId, Member>,
    /// The brokers that are on their way out, as it is recorded.
    pub leaving: BTreeMap<NodeId, Leaving>,
    /// How the controllers know each other.
    pub mode: QuorumMode,
    /// The pods as their sets would want them; empty if that is not known.
    pub pods: BTreeMap<NodeId, Value>,
    /// The server properties of each node. Values may be secret.
    pub properties: BTreeMap<NodeId, BTreeMap<String, String>>,
    /// The Kafka that nodes would run.
    pub kafka_version: Option<String>,
    /// The level of `metadata.version` that Kafka is on.
    pub metadata_level: Option<i16>,
    /// The Kafka that each node runs, as its pod says.
    pub running_versions: BTreeMap<NodeId, String>,
    /// The claims of the nodes, by name.
    pub claims: BTreeMap<String, ClaimView>,
    /// What the quorum's next step is decided on.
    pub quorum_facts: Option<plan::Facts>,
    /// The quorum as Kafka describes it.
    pub quorum: Option<Quorum>,
    /// What the roller is told, and what it decides.
    pub roll: Option<Arc<(RollFacts, RollDecision)>>,
    /// What is decided about those that leave.
    pub scale_in: Option<leaving::Pass>,
    /// All partitions; `None` if they could not be read.
    pub partitions: Option<Vec<PartitionFacts>>,
    /// Why Kafka did not tell everything.
    pub unreachable: Option<String>,
    /// Whether the Secrets may be read.
    pub secrets_readable: bool,
    /// The report of the roll in progress, as it is recorded.
    pub roll_account: Option<Account>,
    /// What would be written to Kubernetes.
    pub written: Vec<Written>,
    known: Option<Known>,
}

/// What is read once, for the view of an edit as well.
struct Known {
    kafka: Kafka,
    written: Value,
    found: Found,
    record: Record,
    facts: KafkaFacts,
}

impl View {
    /// The quorum as decisions want it.
    #[must_use]
    pub fn quorum_view(&self) -> Option<&QuorumView> {
        self.quorum_facts.as_ref()?.quorum.as_ref()
    }

    /// To how many partitions each broker is assigned; one that is missing has none.
    #[must_use]
    pub fn assigned(&self) -> Option<BTreeMap<NodeId, usize>> {
        let mut counts = BTreeMap::new();
        for partition in self.partitions.as_ref()? {
            for node in &partition.replicas {
                *counts.entry(*node).or_default() += 1;
            }
        }
        Some(counts)
    }

    /// Whether anything of Kafka answered.
    #[must_use]
    pub fn is_kafka_seen(&self) -> bool {
        self.quorum.is_some() || self.partitions.is_some()
    }
}

/// Where passes are gone through without a change.
pub struct Stage {
    ctx: Context,
    script: Script,
}

impl Stage {
    /// For clusters that this configuration reaches, as an operator with these settings would treat them.
    /// Nodes are found by `names`.
    pub fn new(
        config: Config,
        settings: Settings,
        names: Arc<dyn Resolve>,
    ) -> Result<Self, ForeseeError> {
        let client = client::reading(config).map_err(|e| ForeseeError::Client(Box::new(e)))?;
        let script = Script::default();
        let writer = Writer::rehearsing(client, script.clone());
        Ok(Self { ctx: Context::new(writer, settings, "rehearsal").with_names(names), script })
    }

    /// A cluster as it is; `None` if there is none of that name.
    pub async fn present(&self, names: &Names) -> Result<Option<View>, ForeseeError> {
        let resource = ApiResource::erase::<Kafka>(&());
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.ctx.client.clone(), &names.namespace, &resource);
        let found = api.get_opt(&names.cluster).await;
        let Some(written) = found.map_err(|e| ForeseeError::Get(Box::new(e)))? else {
            return Ok(None);
        };
        let written = serde_json::to_value(&written).map_err(PassError::from)?;
        let kafka: Kafka = typed(&written, &format!("Kafka {}", names.cluster))?;
        let (found, secrets_readable) = self.read(names).await?;
        let start = Start { found, secrets_readable, facts: None, quorum: None };
        let mut view = self.go((kafka, &written), start, Scope::Present).await?;
        view.secrets_readable = secrets_readable;
        Ok(Some(view))
    }

    /// A cluster as an edit would have it. `present` is the cluster as it is, if there is one.
    pub async fn edited(
        &self,
        names: &Names,
        edit: &Edit,
        present: Option<&View>,
    ) -> Result<View, ForeseeError> {
        let known = present.and_then(|view| view.known.as_ref());
        let (mut start, secrets_readable) = match known {
            Some(known) => {
                let readable = present.is_some_and(|view| view.secrets_readable);
                let start = Start {
                    found: known.found.clone(),
                    secrets_readable: readable,
                    facts: Some(known.facts.clone()),
                    quorum: Some(known.record.quorum.clone()),
                };
                (start, readable)
            }
            None => {
                let (found, _) = self.read(names).await?;
                // Keys of a cluster that is not there are nobody's business.
                (Start { found, secrets_readable: false, facts: None, quorum: None }, false)
            }
        };
        edit.change_pools(names, &mut start.found)?;
        let written = edit.kafka_of(names, known.map(|known| &known.written));
        let kafka = typed(&written, &format!("Kafka {}", names.cluster))?;
        let mut view = self.go((kafka, &written), start, Scope::Edited).await?;
        view.secrets_readable = secrets_readable;
        Ok(view)
    }

    async fn read(&self, names: &Names) -> Result<(Found, bool), ForeseeError> {
        match found::read(&self.ctx.client, names).await {
            Ok(found) => Ok((found, true)),
            Err(error) if error.is_secrets_forbidden() => {
                let found = found::read_without_secrets(&self.ctx.client, names).await;
                Ok((found.map_err(PassError::from)?, false))
            }
            Err(error) => Err(PassError::from(error).into()),
        }
    }

    /// Goes through the steps of a pass.
    async fn go(
        &self,
        (kafka, written): (Kafka, &Value),
        start: Start,
        scope: Scope,
    ) -> Result<View, ForeseeError> {
        let names = Names::new(&kafka.namespace().unwrap_or_default(), &kafka.name_any());
        let found = start.found.clone();
        let stored = Stored::of(found.config_maps.get(&names.record()), &names);
        let stored = stored.map_err(PassError::from)?.map(|(record, _)| record);
        let mut view = View { paused: pass::is_paused(&kafka), ..View::default() };
        let wishes = wishes::run(&self.ctx, kafka.clone(), written, start.found).await?;
        let mut work = match wishes {
            Wishes::Good(work) => work,
            Wishes::Refused { note, warnings } => {
                self.script.take();
                let record = stored.unwrap_or_default();
                let (refused, recorded) = (Some(note), members(&record));
                let written = written.clone();
                let facts = start.facts.unwrap_or_default();
                let known = Some(Known { kafka, written, found, record, facts });
                return Ok(View { refused, warnings, recorded, known, ..view });
            }
        };
        work.known.kafka = start.facts.unwrap_or_default();
        if let Some(quorum) = start.quorum {
            work.record.quorum = quorum;
        }
        let record = stored.unwrap_or_else(|| match found.pods.is_empty() {
            true => Record::default(),
            false => work.record.clone(),
        });
        view.recorded = members(&record);
        view.leaving.clone_from(&record.leaving);
        let readable = |area: &Area| start.secrets_readable || !area.reads_keys();
        for area in Area::ALL.into_iter().filter(|area| scope.has(*area) && readable(area)) {
            let came = match pass::step(area)(&mut work).await {
                Ok(came) => came,
                // Somebody who may read less than the operator is told what he may not.
                Err(error) if area == Area::Access => Step::Waiting(error.note()),
                Err(error) => Step::Hold(error.note()),
            };
            if !view.note(area, came) {
                break;
            }
            if area == Area::Kafka {
                view.unreachable = silence(&mut work);
            }
        }
        view.finish(*work, &found).await;
        if !start.secrets_readable {
            // Without the keys every pod looks as if it had old ones.
            view.notes.retain(|(area, _)| *area != Area::Roll);
            view.roll = view.roll.filter(|_| scope == Scope::Edited);
        }
        view.roll_account.clone_from(&record.roll_account);
        view.written = self.script.take();
        if let Some(known) = &mut view.known {
            known.kafka = kafka;
            known.written = written.clone();
            known.found = found;
        }
        Ok(view)
    }
}

/// What a pass begins with.
struct Start {
    found: Found,
    secrets_readable: bool,
    facts: Option<KafkaFacts>,
    quorum: Option<control::quorum::QuorumRecord>,
}

impl View {
    /// Keeps what came of a step. Returns whether to go on.
    fn note(&mut self, area: Area, came: Step) -> bool {
        match came {
            Step::Done => true,
            Step::Waiting(note) => {
                self.notes.push((area, note));
                true
            }
            // A removal of a voter is not carried out here, which looks like one that was not answered;
            // nor is a migration of the quorum; a new Service has no address here, ever; and a certificate that is
            // due is not awaited.
            Step::Stop(note) => {
                self.notes.push((area, note));
                matches!(
                    area,
                    Area::Authorities
                        | Area::Certificates
                        | Area::Migration
                        | Area::Quorum
                        | Area::Services
                )
            }
            Step::Hold(note) => {
                self.notes.push((area, note));
                self.held = true;
                false
            }
            Step::Fault(note) => {
                self.notes.push((area, note));
                self.held = true;
                true
            }
        }
    }

    /// Takes over what the steps have found out.
    async fn finish(&mut self, mut work: Work, before: &Found) {
        let roles = work.blueprint.wished.clone();
        let pools = work
            .record
            .pools
            .iter()
            .flat_map(|(pool, nodes)| nodes.keys().map(move |id| (*id, pool.clone())));
        let pools: BTreeMap<NodeId, String> = pools.collect();
        let wished = roles.iter().filter_map(|(id, roles)| {
            Some((*id, Member { pool: pools.get(id)?.clone(), roles: *roles }))
        });
        self.wished = wished.collect();
        self.mode = work.record.quorum.mode;
        let is_configured = !work.known.configuration.properties.is_empty();
        if is_configured {
            self.pods = pods(&work);
        }
        let properties = work.known.configuration.properties.iter();
        self.properties =
            properties.map(|(id, all)| (*id, all.iter().cloned().collect())).collect();
        let version = &work.known.configuration.kafka_version;
        self.kafka_version = (!version.is_empty()).then(|| version.clone());
        self.metadata_level = work.known.kafka.metadata_level();
        self.running_versions = running_versions(&work);
        self.claims = claims(&work.found, before);
        self.partitions = partitions::read(&work).await.map(|seen| seen.facts.clone());
        self.quorum = work.known.kafka.quorum.clone();
        self.quorum_facts = work.known.outputs.quorum.take();
        self.roll = work.known.outputs.roll.take();
        self.scale_in = work.known.outputs.leaving.take();
        self.warnings = work.warnings;
        self.known = Some(Known {
            kafka: work.blueprint.kafka,
            written: Value::Null,
            found: Found::default(),
            record: work.record,
            facts: work.known.kafka,
        });
    }

    /// The `Kafka` that this is about.
    #[must_use]
    pub fn kafka(&self) -> Option<&Kafka> {
        self.known.as_ref().map(|known| &known.kafka)
    }

    /// What came of it in one word and a sentence, as the status of the cluster would tell.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        match (self.paused, &self.refused, self.notes.as_slice()) {
            (true, _, _) => Outcome::Paused,
            (false, Some(note), _) => Outcome::Held(note.clone()),
            (false, None, []) => Outcome::Done,
            (false, None, [.., (_, last)]) if self.held => Outcome::Held(last.clone()),
            (false, None, [(_, first), ..]) => Outcome::Progressing(first.clone()),
        }
    }
}

/// Where nobody answered, nobody is asked again: why Kafka is not known, if it is not.
fn silence(work: &mut Work) -> Option<String> {
    let facts = &mut work.known.kafka;
    if facts.quorum.is_none() && facts.brokers.is_none() && facts.features.is_none() {
        let asked = facts.access.take().is_some();
        facts.nodes = None;
        let why = if asked { "no node of Kafka answers" } else { "no node of Kafka is ready" };
        return Some(why.to_owned());
    }
    kafka::unreachable(&observe::snapshot(work))
}

fn members(record: &Record) -> BTreeMap<NodeId, Member> {
    let nodes = record.nodes().into_iter();
    nodes.map(|node| (node.id, Member { pool: node.pool, roles: node.roles })).collect()
}

/// The pods as their sets want them.
fn pods(work: &Work) -> BTreeMap<NodeId, Value> {
    let wanted: BTreeMap<String, NodeId> =
        work.blueprint.nodes.iter().map(|node| (work.blueprint.pod(node), node.id)).collect();
    let all = work.found.pod_sets.values().flat_map(|set| &set.spec.pods);
    all.filter_map(|pod| {
        let name = pod.0.get("metadata")?.get("name")?.as_str()?;
        Some((*wanted.get(name)?, pod.0.clone().into_iter().collect()))
    })
    .collect()
}

fn running_versions(work: &Work) -> BTreeMap<NodeId, String> {
    let of = |node: &Node| {
        let pod = work.found.pods.get(&work.blueprint.pod(node))?;
        Some((node.id, pod.annotations().get(KAFKA_VERSION)?.clone()))
    };
    work.blueprint.nodes.iter().filter_map(of).collect()
}

fn claims(after: &Found, before: &Found) -> BTreeMap<String, ClaimView> {
    let size = |claim: &PersistentVolumeClaim| {
        let resources = claim.spec.as_ref()?.resources.as_ref()?;
        Some(resources.requests.as_ref()?.get("storage")?.0.clone())
    };
    let view = |(name, claim): (&String, &PersistentVolumeClaim)| {
        let delete = claim.annotations().get(DELETE_CLAIM).is_some_and(|value| value == "true");
        let view = ClaimView {
            node: node_of_pod(name),
            size: size(claim),
            size_now: before.claims.get(name).and_then(size),
            delete,
        };
        (name.clone(), view)
    };
    after.claims.iter().map(view).collect()
}

impl Edit {
    /// The `Kafka` as it would be: what was written replaces the spec, and is added to labels and
    /// annotations.
    fn kafka_of(&self, names: &Names, stored: Option<&Value>) -> Value {
        let written = self.kafka.as_ref();
        merged(stored, written, (&names.cluster, &names.namespace))
    }

    fn change_pools(&self, names: &Names, found: &mut Found) -> Result<(), ForeseeError> {
        for (name, written) in &self.pools {
            let at = found.pools.iter().position(|one| one.pool.name_any() == *name);
            let stored = at.map(|at| found.pools.remove(at).written);
            found.unreadable_pools.retain(|(other, _)| other != name);
            let written = merged(stored.as_ref(), Some(written), (name, &names.namespace));
            let pool: KafkaNodePool = typed(&written, &format!("KafkaNodePool {name}"))?;
            found.pools.push(FoundPool { pool, written });
        }
        // As the API server would list them.
        found.pools.sort_by_key(|one| one.pool.name_any());
        for one in &mut found.pools {
            if self.deleted_pools.contains(&one.pool.name_any()) {
                one.written["metadata"]["deletionTimestamp"] = json!("1970-01-01T00:00:00Z");
                let resource = format!("KafkaNodePool {}", one.pool.name_any());
                one.pool = typed(&one.written, &resource)?;
            }
        }
        Ok(())
    }
}

fn typed<K: serde::de::DeserializeOwned>(
    written: &Value,
    resource: &str,
) -> Result<K, ForeseeError> {
    let unreadable = |source| ForeseeError::Unreadable { resource: resource.to_owned(), source };
    serde_json::from_value(written.clone()).map_err(unreadable)
}

fn merged(
    stored: Option<&Value>,
    written: Option<&Value>,
    (name, namespace): (&str, &str),
) -> Value {
    let mut all = stored.or(written).cloned().unwrap_or_else(|| json!({}));
    if let (Some(_), Some(written)) = (stored, written) {
        all["spec"] = written.get("spec").cloned().unwrap_or(Value::Null);
        for field in ["labels", "annotations"] {
            let new = written.get("metadata").and_then(|metadata| metadata.get(field));
            for (key, value) in new.and_then(Value::as_object).into_iter().flatten() {
                all["metadata"][field][key] = value.clone();
            }
        }
    }
    all["metadata"]["name"] = json!(name);
    all["metadata"]["namespace"] = json!(namespace);
    all
}
