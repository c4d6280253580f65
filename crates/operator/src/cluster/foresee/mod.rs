//! What the operator would do with a cluster, as it is or as an edit would have it, for people who want to know
//! before it happens.
//!
//! 1. The decision is the operator's own. Nothing is carried out, and the client refuses to write.
//! 2. What could not be read is reported as such. A Kafka that does not answer is asked once.
//! 3. What would be decided after the next change is not told here: one pass is one pass.

mod begin;
mod disks;
mod edit;
mod observed;
mod saved;
mod topics;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::Kafka;
use api::names::{Names, node_of_pod};
use control::cluster::act::What;
use control::cluster::area::Area;
use control::cluster::areas::kafka;
use control::cluster::decide::{Decision, Scope};
use control::cluster::record::Record;
use control::cluster::snapshot::{Needs, NodeView, ObjectKey, ObjectKind, Snapshot};
use control::conditions::{Note, Outcome};
use control::quorum::format::QuorumMode;
use control::quorum::{QuorumView, plan};
use control::rolling::account::Account;
use control::rolling::availability::PartitionFacts;
use control::rolling::facts::Facts as RollFacts;
use control::rolling::pass::Decision as RollDecision;
use control::scaling::leaving::{self, Leaving, Member};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kafka_admin::Resolve;
use kube::api::DynamicObject;
use kube::core::ApiResource;
use kube::{Api, Config, ResourceExt as _};
use model::NodeId;
use objects::Node;
use objects::areas::configuration::KAFKA_VERSION;
use objects::claims::DELETE_CLAIM;
use objects::desired::Refused;
use objects::found::{ByName, Found};
use serde_json::Value;

pub use begin::Beginning;
use edit::typed;
pub use observed::Observed;
use saved::Replay;
pub use saved::{HIDDEN, Saved};

use super::error::PassError;
use super::facts::KafkaFacts;
use super::others::Others;
use super::pass::{self, Work};
use super::record::Stored;
use super::{act, build, found, observe, steps};
use crate::client;
use crate::context::{Context, Settings};
use crate::write::Writer;

/// Which areas of a pass are decided.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Extent {
    /// Those that say what there is and what it waits for. The others only do what follows from it.
    Present,
    /// Those that say what nodes would be made of.
    Edited,
}

impl Extent {
    fn has(self, area: Area) -> bool {
        match self {
            Self::Present => !matches!(area, Area::Users | Area::Leftovers),
            Self::Edited => area.concerns_edits(),
        }
    }

    /// Without the areas that read keys, for a user who may not read Secrets. A new Service has no address here, ever;
    /// and what an operator would wait for a moment for is not waited for.
    fn scope(self, secrets_readable: bool) -> Scope {
        let is_readable = |area: &Area| secrets_readable || !area.reads_keys();
        let areas = Area::ALL.into_iter().filter(|area| self.has(*area));
        Scope::of(areas.filter(is_readable)).passing([
            Area::Authorities,
            Area::Services,
            Area::Certificates,
            Area::Migration,
            Area::Quorum,
        ])
    }
}

/// An object that would be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The kind of object.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Whether there is such an object.
    pub exists: bool,
}

/// Why nothing can be foreseen.
#[derive(Debug, thiserror::Error)]
pub enum ForeseeError {
    /// There is no client of the API server.
    #[error("cannot create a Kubernetes client")]
    Client(#[source] Box<kube::Error>),
    /// The resources could not be read.
    #[error("cannot read the resources of the cluster")]
    Get(#[source] Box<kube::Error>),
    /// What belongs to the cluster could not be read, or makes no sense.
    #[error("cannot reconcile the cluster")]
    Pass(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// What is in a file is not acted on, although it was when the file was written.
    #[error("the resources in the snapshot are refused: {0}")]
    Refused(String),
    /// A file has objects of another cluster than it says.
    #[error("the objects in the snapshot are not those of its cluster")]
    Mixed,
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

/// What the user wants to change.
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
    /// Why its spec would not be acted on.
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
    /// The nodes as they are desired.
    pub desired: BTreeMap<NodeId, Member>,
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
    /// The quorum as its leader describes it.
    pub quorum: Option<QuorumView>,
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
    /// Fields of an edit that are taken as unchanged, because the file that it is planned on hides their values.
    pub hidden: Vec<String>,
    /// What it is decided on.
    pub observed: Observed,
    known: Option<Known>,
}

/// What is read once, for the view of an edit as well.
struct Known {
    kafka: Kafka,
    written: Value,
    found: Found,
    record: Record,
    facts: KafkaFacts,
    others: Others,
    /// What was observed, if it comes from a file.
    replay: Option<Replay>,
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
    in_full: bool,
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
        let writer = Writer::closed(client);
        let ctx = Context::new(writer, settings, "plan").with_names(names);
        Ok(Self { ctx, in_full: false })
    }

    /// The same, also reading what only an edit may need, for a file.
    #[must_use]
    pub fn in_full(self) -> Self {
        Self { in_full: true, ..self }
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
        let start = Start { secrets_readable, ..Start::of(found) };
        Ok(Some(self.go((kafka, &written), start, Extent::Present).await?))
    }

    /// A cluster as an edit would have it. `present` is the cluster as it is, if there is one.
    pub async fn edited(
        &self,
        names: &Names,
        edit: &Edit,
        present: Option<&View>,
    ) -> Result<View, ForeseeError> {
        let known = present.and_then(|view| view.known.as_ref());
        let mut start = match known {
            Some(known) => Start {
                found: known.found.clone(),
                // There are none in a file.
                secrets_readable: present.is_some_and(|view| view.secrets_readable)
                    && known.replay.is_none(),
                facts: Some(known.facts.clone()),
                quorum: Some(known.record.quorum.clone()),
                replay: known.replay.clone(),
            },
            // A cluster that does not exist has no keys.
            None => Start::of(self.read(names).await?.0),
        };
        let replayed = known.filter(|known| known.replay.is_some());
        let (edit, hidden) = match replayed {
            Some(known) => edit.with_hidden(&known.written, &known.found.pools),
            None => (edit.clone(), Vec::new()),
        };
        edit.change_pools(names, &mut start.found)?;
        let written = edit.kafka_of(names, known.map(|known| &known.written));
        let kafka = typed(&written, &format!("Kafka {}", names.cluster))?;
        let mut view = self.go((kafka, &written), start, Extent::Edited).await?;
        if replayed.is_some() && present.is_some_and(|view| view.refused.is_some()) {
            // Nothing was built of what is refused, and so there is nothing to compare these with.
            view.written.retain(|one| !one.exists || !saved::is_reduced(&one.kind));
        }
        Ok(View { hidden, ..view })
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
        extent: Extent,
    ) -> Result<View, ForeseeError> {
        let names = Names::new(&kafka.namespace().unwrap_or_default(), &kafka.name_any());
        let found = start.found.clone();
        let stored = Stored::of(found.config_maps.get(&names.record()));
        let stored = stored.map_err(PassError::from)?.map(|(record, _)| record);
        let mut observed = Observed {
            paused: pass::is_paused(&kafka),
            secrets_readable: start.secrets_readable,
            ..Observed::default()
        };
        let begun = steps::desired::begin(&self.ctx, kafka.clone(), written, start.found)?;
        let mut work = match begun {
            Ok(work) => work,
            Err(Refused { note, warnings }) => {
                let record = stored.unwrap_or_default();
                observed =
                    Observed { refused: Some(note), warnings, stored: record.clone(), ..observed };
                let (mut view, _) = View::of(observed, extent);
                let facts = start.facts.unwrap_or_default();
                let written = written.clone();
                let (others, replay) = (Others::default(), None);
                view.known = Some(Known { kafka, written, found, record, facts, others, replay });
                return Ok(view);
            }
        };
        work.known.kafka = start.facts.unwrap_or_default();
        if let Some(quorum) = start.quorum {
            work.record.quorum = quorum;
        }
        observed.stored = stored.unwrap_or_else(|| match found.pods.is_empty() {
            true => Record::default(),
            false => work.record.clone(),
        });
        let replay = start.replay.as_ref();
        work.known.others = replay.map(|replay| replay.others.clone()).unwrap_or_default();
        observe(&mut work, (extent, self.in_full), replay, &mut observed).await;
        let (mut view, decision) = View::of(observed, extent);
        view.finish(*work, &found, decision);
        if let Some(known) = &mut view.known {
            known.kafka = kafka;
            known.written = written.clone();
            known.found = found;
        }
        Ok(view)
    }
}

/// Builds objects, asks Kafka, and keeps what decisions use. Where there is a file, it is asked instead.
async fn observe(
    work: &mut Work,
    (extent, in_full): (Extent, bool),
    replay: Option<&Replay>,
    observed: &mut Observed,
) {
    observed.warnings = std::mem::take(&mut work.warnings);
    observed.record = work.record.clone();
    // What could not be built holds up its area, which says so.
    build::all(work, true).await;
    let is_present = extent == Extent::Present;
    if is_present && observed.secrets_readable {
        if let Err(error) = steps::kafka::read(work).await {
            observed.problems.push((Area::Kafka, error.note()));
        }
        observed.unreachable = silence(work);
    }
    let scope = extent.scope(observed.secrets_readable);
    let begun = replay.map_or_else(|| observe::snapshot(work), |replay| replay.snapshot(work));
    let (mut snapshot, unread) = act::complete(work, begun, (&observed.record, &scope)).await;
    observed.problems.extend(unread.map(|error| (Area::Rebalance, error.note())));
    // People are told where replicas are, whatever is decided.
    if snapshot.kafka.partitions.is_unread() {
        let needs = Needs { partitions: true, ..Needs::default() };
        observe::read(work, &mut snapshot, &needs).await;
    }
    if in_full {
        let needs = unread_settings(&snapshot);
        observe::read(work, &mut snapshot, &needs).await;
        work.known.others.read_classes(&work.ctx.client).await;
    }
    observed.snapshot = Some(snapshot);
}

/// The settings of nodes that run: decisions do without those that were seen to be right, and edits do not.
fn unread_settings(snapshot: &Snapshot) -> Needs {
    let is_ready = |node: &NodeView| snapshot.pod(node).is_some_and(|pod| pod.ready);
    let ready = snapshot.nodes.iter().filter(|(_, node)| is_ready(node)).map(|(id, _)| *id);
    let unread = ready.filter(|id| !snapshot.kafka.settings.contains_key(id));
    Needs { settings: unread.collect(), ..Needs::default() }
}

/// What a pass begins with.
struct Start {
    found: Found,
    secrets_readable: bool,
    facts: Option<KafkaFacts>,
    quorum: Option<control::quorum::QuorumRecord>,
    replay: Option<Replay>,
}

impl Start {
    /// A pass on these objects, without Secrets.
    fn of(found: Found) -> Self {
        Self { found, secrets_readable: false, facts: None, quorum: None, replay: None }
    }
}

impl View {
    /// The nodes of an edit, what they would be made of, and what would be written.
    fn finish(&mut self, work: Work, before: &Found, decision: Decision) {
        let pools = work
            .record
            .pools
            .iter()
            .flat_map(|(pool, nodes)| nodes.keys().map(move |id| (*id, pool.clone())));
        let pools: BTreeMap<NodeId, String> = pools.collect();
        let desired = work.blueprint.desired.iter().filter_map(|(id, roles)| {
            Some((*id, Member { pool: pools.get(id)?.clone(), roles: *roles }))
        });
        self.desired = desired.collect();
        let is_configured = !work.known.configuration.properties.is_empty();
        if is_configured {
            self.pods = pods(&work);
        }
        let properties = work.known.configuration.properties.iter();
        self.properties =
            properties.map(|(id, all)| (*id, all.iter().cloned().collect())).collect();
        let version = &work.known.configuration.kafka_version;
        self.kafka_version = (!version.is_empty()).then(|| version.clone());
        self.running_versions = running_versions(&work);
        self.claims = claims(&work.objects.claims, before);
        self.written = written(&decision, before, &work.found.bindings);
        self.known = Some(Known {
            kafka: work.blueprint.kafka,
            written: Value::Null,
            found: Found::default(),
            record: decision.record,
            facts: work.known.kafka,
            others: work.known.others,
            replay: None,
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

/// What did not answer is not asked again: why Kafka is not known, if it is not.
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

/// The pods as their sets want them.
fn pods(work: &Work) -> BTreeMap<NodeId, Value> {
    let wanted: BTreeMap<String, NodeId> =
        work.blueprint.nodes.iter().map(|node| (work.blueprint.pod(node), node.id)).collect();
    let all = work.objects.pod_sets.iter().flat_map(|set| &set.spec.pods);
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

/// The claims as they would be, and those that exist besides.
fn claims(built: &[PersistentVolumeClaim], before: &Found) -> BTreeMap<String, ClaimView> {
    let size = |claim: &PersistentVolumeClaim| {
        let resources = claim.spec.as_ref()?.resources.as_ref()?;
        Some(resources.requests.as_ref()?.get("storage")?.0.clone())
    };
    let view = |claim: &PersistentVolumeClaim| {
        let name = claim.name_any();
        let view = ClaimView {
            node: node_of_pod(&name),
            size: size(claim),
            size_now: before.claims.get(&name).and_then(size),
            delete: claim.annotations().get(DELETE_CLAIM).is_some_and(|value| value == "true"),
        };
        (name, view)
    };
    before.claims.values().chain(built).map(view).collect()
}

/// The objects that would be written.
fn written(
    decision: &Decision,
    before: &Found,
    bindings: &ByName<ClusterRoleBinding>,
) -> Vec<Written> {
    let object = |key: &ObjectKey| {
        let name = &key.name;
        let (kind, exists) = match key.kind {
            ObjectKind::ConfigMap => ("ConfigMap", before.config_maps.contains_key(name)),
            ObjectKind::Secret => ("Secret", before.secrets.contains_key(name)),
            ObjectKind::Service => ("Service", before.services.contains_key(name)),
            ObjectKind::PodSet => ("StrimziPodSet", before.pod_sets.contains_key(name)),
            ObjectKind::ServiceAccount => ("ServiceAccount", before.accounts.contains_key(name)),
            ObjectKind::NetworkPolicy => ("NetworkPolicy", before.policies.contains_key(name)),
            ObjectKind::PodDisruptionBudget => {
                ("PodDisruptionBudget", before.budgets.contains_key(name))
            }
            ObjectKind::ClusterRoleBinding => ("ClusterRoleBinding", bindings.contains_key(name)),
            ObjectKind::PersistentVolumeClaim => {
                ("PersistentVolumeClaim", before.claims.contains_key(name))
            }
        };
        Written { kind: kind.to_owned(), name: name.clone(), exists }
    };
    let applied = decision.acts.iter().filter_map(|(_, act)| match &act.what {
        What::Apply(key) => Some(object(key)),
        _ => None,
    });
    applied.collect()
}
