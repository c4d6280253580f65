//! The users of a simulated cluster: they edit its resources, create topics, and act where a condition asks them to.

use std::collections::BTreeSet;

use control::annotations::Annotation;
use control::cluster::journal::Entered;
use control::conditions::Reason;
use kube::ResourceExt as _;
use model::NodeId;
use serde_json::{Value, json};

use super::kubernetes::Kubernetes;
use super::script::{Edit, Shape};
use super::world::World;

/// The annotation with which users pause the reconciliation.
pub(crate) const PAUSE: &str = Annotation::PauseReconciliation.name();
/// The versions of Kafka that users ask for.
pub(crate) const VERSIONS: [&str; 3] = ["4.1.2", "4.2.0", "4.3.1"];
/// The names of the pools that users make.
const POOLS: [&str; 4] = ["broker", "controller", "mixed", "extra"];

/// The `Kafka` that a user writes.
#[must_use]
pub(crate) fn kafka(shape: &Shape) -> Value {
    let mut spec = json!({ "kafka": {
        "version": VERSIONS.get(shape.version),
        "listeners": [{ "name": "plain", "port": 9092, "type": "internal", "tls": false }],
        "config": { "log.retention.hours": "24" },
    } });
    if shape.rebalances {
        spec["cruiseControl"] = auto_rebalance();
    }
    json!({
        "apiVersion": "kafka.strimzi.io/v1",
        "kind": "Kafka",
        "metadata": { "name": "c", "namespace": "n", "uid": "kafka", "resourceVersion": "1", "annotations": {} },
        "spec": spec,
    })
}

fn auto_rebalance() -> Value {
    json!({ "autoRebalance": [{ "mode": "add-brokers" }, { "mode": "remove-brokers" }] })
}

/// The pools that a user writes.
#[must_use]
pub(crate) fn pools(shape: &Shape) -> Vec<Value> {
    let rows = [
        ("broker", &["broker"][..], shape.brokers),
        ("controller", &["controller"], shape.controllers),
        ("mixed", &["controller", "broker"], shape.combined),
    ];
    let rows = rows.into_iter().filter(|(_, _, replicas)| *replicas > 0);
    rows.map(|(name, roles, replicas)| pool(name, roles, replicas)).collect()
}

fn pool(name: &str, roles: &[&str], replicas: u32) -> Value {
    json!({
        "apiVersion": "kafka.strimzi.io/v1",
        "kind": "KafkaNodePool",
        "metadata": {
            "name": name, "namespace": "n", "uid": format!("pool-{name}"), "labels": { "strimzi.io/cluster": "c" },
        },
        "spec": {
            "replicas": replicas,
            "roles": roles,
            "storage": { "type": "persistent-claim", "size": "10Gi", "deleteClaim": true },
        },
    })
}

/// How many controllers and brokers the pools ask for.
#[must_use]
pub(crate) fn counts(pools: &[Value]) -> (u64, u64) {
    let of = |role: &str| {
        let stays = pools.iter().filter(|pool| pool["metadata"]["deletionTimestamp"].is_null());
        let has = stays.filter(|pool| {
            pool["spec"]["roles"].as_array().is_some_and(|all| all.contains(&json!(role)))
        });
        has.map(|pool| pool["spec"]["replicas"].as_u64().unwrap_or_default()).sum()
    };
    (of("controller"), of("broker"))
}

impl World {
    fn written_pools(&self) -> Vec<Value> {
        self.kubernetes.found.pools.iter().map(|one| one.written.clone()).collect()
    }

    /// Writes a pool, if a cluster is left that can live: with controllers and brokers, and not too many of them.
    fn try_pool(&mut self, changed: Value) {
        let mut pools = self.written_pools();
        let name = changed["metadata"]["name"].clone();
        match pools.iter_mut().find(|pool| pool["metadata"]["name"] == name) {
            Some(pool) => *pool = changed.clone(),
            None => pools.push(changed.clone()),
        }
        let (controllers, brokers) = counts(&pools);
        if (1..=5).contains(&controllers) && (1..=6).contains(&brokers) {
            self.kubernetes.write_pool(changed);
        }
    }

    /// The user edits something.
    pub(crate) fn edit(&mut self, edit: Edit) {
        self.note(|| format!("user: {edit:?}"));
        let text = format!("{edit:?}");
        let name = text.split('(').next().unwrap_or_default();
        self.coverage.count(format!("edit {name}"));
        let pools = self.written_pools();
        let of = |index: usize| pools.get(index % pools.len().max(1)).cloned();
        let pods: Vec<String> = self.kubernetes.found.pods.keys().cloned().collect();
        let pod = |index: usize| pods.get(index % pods.len().max(1)).cloned();
        match edit {
            Edit::Scale(index, replicas) => {
                if let Some(mut pool) =
                    of(index).filter(|pool| pool["metadata"]["deletionTimestamp"].is_null())
                {
                    pool["spec"]["replicas"] = json!(replicas);
                    self.try_pool(pool);
                }
            }
            Edit::Roles(index, which) => {
                let roles =
                    [json!(["broker"]), json!(["controller"]), json!(["controller", "broker"])];
                if let (Some(mut pool), Some(roles)) = (of(index), roles.get(which % 3)) {
                    pool["spec"]["roles"] = roles.clone();
                    self.try_pool(pool);
                }
            }
            Edit::TogglePool(index) => self.toggle_pool(index),
            Edit::DropPool(index) => self.drop_pool(index),
            Edit::Grow(steps) => {
                for mut pool in pools {
                    pool["spec"]["storage"]["size"] = json!(format!("{}Gi", 10 + steps));
                    self.kubernetes.write_pool(pool);
                }
            }
            Edit::RestartPod(index) => {
                if let Some(pod) = pod(index) {
                    self.kubernetes.change_pod(&pod, |pod| {
                        let restart = Annotation::ManualRollingUpdate.name().to_owned();
                        pod.metadata
                            .annotations
                            .get_or_insert_default()
                            .insert(restart, "true".to_owned());
                    });
                }
            }
            Edit::RestartPool(index) => self.restart_pool(index),
            Edit::DeletePod(index) => {
                if let Some(pod) = pod(index) {
                    self.kubernetes.end_pod(&pod);
                }
            }
            Edit::DeleteRecord => self.delete_record(),
            Edit::Topic(count, factor, min_isr) => {
                let name = format!("t{}", self.kafka.metadata.partitions.len());
                let min_isr = min_isr.min(factor.saturating_sub(1).max(1));
                self.kafka.create_topic((&name, count), (factor, min_isr), self.now_ms);
            }
            Edit::Dynamic(_)
            | Edit::Static(_)
            | Edit::Version(_)
            | Edit::MaxParallel(_)
            | Edit::TogglePause
            | Edit::ToggleInvalid
            | Edit::ToggleRebalance => self.edit_kafka(edit),
        }
    }

    fn edit_kafka(&mut self, edit: Edit) {
        let mut kafka = (*self.kubernetes.kafka).clone();
        let spec = &mut kafka["spec"]["kafka"];
        match edit {
            Edit::Dynamic(value) => spec["config"]["message.max.bytes"] = json!(value * 1_000_000),
            Edit::Static(value) => {
                spec["config"]["num.recovery.threads.per.data.dir"] = json!(value)
            }
            Edit::Version(index) => {
                // Users do not downgrade.
                let now =
                    VERSIONS.iter().position(|one| spec["version"] == json!(one)).unwrap_or(2);
                spec["version"] = json!(VERSIONS.get(now.max(index % 3)));
            }
            Edit::MaxParallel(0) => kafka["metadata"]["annotations"] = json!({}),
            Edit::MaxParallel(count) => {
                kafka["metadata"]["annotations"][Annotation::MaxParallel.name()] =
                    json!(count.to_string());
            }
            Edit::TogglePause => toggle(&mut kafka["metadata"]["annotations"][PAUSE]),
            Edit::ToggleInvalid => {
                let listeners = spec["listeners"].as_array().map_or(0, Vec::len);
                let one =
                    json!({ "name": "plain", "port": 9092, "type": "internal", "tls": false });
                spec["listeners"] = if listeners > 1 { json!([one]) } else { json!([one, one]) };
            }
            Edit::ToggleRebalance => {
                let is_on = !kafka["spec"]["cruiseControl"].is_null();
                kafka["spec"]["cruiseControl"] = if is_on { Value::Null } else { auto_rebalance() };
            }
            Edit::Scale(..)
            | Edit::Roles(..)
            | Edit::TogglePool(_)
            | Edit::DropPool(_)
            | Edit::RestartPod(_)
            | Edit::RestartPool(_)
            | Edit::Grow(_)
            | Edit::Topic(..)
            | Edit::DeletePod(_)
            | Edit::DeleteRecord => {}
        }
        self.kubernetes.write_kafka(kafka);
    }

    /// The user resumes the reconciliation and corrects the spec.
    pub(crate) fn put_right(&mut self) {
        let mut kafka = (*self.kubernetes.kafka).clone();
        if let Some(annotations) = kafka["metadata"]["annotations"].as_object_mut() {
            annotations.remove(PAUSE);
        }
        if let Some(listeners) = kafka["spec"]["kafka"]["listeners"].as_array_mut() {
            listeners.truncate(1);
        }
        self.kubernetes.write_kafka(kafka);
    }

    fn toggle_pool(&mut self, index: usize) {
        let name = POOLS.get(index % POOLS.len()).copied().unwrap_or("extra");
        let pools = self.written_pools();
        let Some(mut pool_) = pools.iter().find(|pool| pool["metadata"]["name"] == name).cloned()
        else {
            let roles: &[&str] =
                if index.is_multiple_of(2) { &["broker"] } else { &["controller", "broker"] };
            self.try_pool(pool(name, roles, 1));
            return;
        };
        if pool_["metadata"]["deletionTimestamp"].is_null() && pools.len() > 1 {
            pool_["metadata"]["deletionTimestamp"] = json!("2027-01-15T08:00:00Z");
            self.try_pool(pool_);
        }
    }

    fn drop_pool(&mut self, index: usize) {
        let mut pools = self.written_pools();
        let at = index % pools.len().max(1);
        if pools.len() < 2 {
            return;
        }
        let name = pools.remove(at)["metadata"]["name"].clone();
        let (controllers, brokers) = counts(&pools);
        if controllers > 0 && brokers > 0 {
            let is_other =
                |one: &objects::found::FoundPool| one.written["metadata"]["name"] != name;
            self.kubernetes.edit().pools.retain(is_other);
        }
    }

    fn restart_pool(&mut self, index: usize) {
        let names: Vec<String> = self.kubernetes.found.pod_sets.keys().cloned().collect();
        let Some(name) = names.get(index % names.len().max(1)) else { return };
        let version = self.kubernetes.version + 1;
        if let Some(set) = self.kubernetes.edit().pod_sets.get_mut(name) {
            let restart = Annotation::ManualRollingUpdate.name().to_owned();
            set.metadata.annotations.get_or_insert_default().insert(restart, "true".to_owned());
            set.metadata.resource_version = Some(version.to_string());
        }
    }

    /// The record is rebuilt from what the resources and the claims say. The operator writes these into statuses.
    fn delete_record(&mut self) {
        let Some(record) = self.record() else { return };
        let mut kafka = (*self.kubernetes.kafka).clone();
        kafka["status"]["clusterId"] = json!(record.cluster_id);
        kafka["status"]["initialControllers"] = json!(record.quorum.initial.to_string());
        if record.was_ready {
            kafka["status"]["operatorLastSuccessfulVersion"] = json!("1");
        }
        for mut pool in self.written_pools() {
            let name = pool["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            let nodes = record.pools.get(&name).cloned().unwrap_or_default();
            let ids: Vec<i32> = nodes.keys().map(|id| id.get()).collect();
            let mut roles = Vec::new();
            if nodes.values().any(|roles| roles.is_controller()) {
                roles.push("controller");
            }
            if nodes.values().any(|roles| roles.is_broker()) {
                roles.push("broker");
            }
            let roles = if ids.is_empty() { pool["spec"]["roles"].clone() } else { json!(roles) };
            pool["status"] =
                json!({ "nodeIds": ids, "clusterId": record.cluster_id, "roles": roles });
            self.kubernetes.write_pool(pool);
        }
        self.kubernetes.write_kafka(kafka);
        let name = self.kubernetes.record_name.clone();
        self.kubernetes.edit().config_maps.remove(&name);
    }

    /// Acts where a condition asks a person to: replicas are moved off brokers that are to leave.
    pub(crate) fn act_as_person(&mut self) {
        if !self.warnings.contains(&Reason::ScaleDownPreventionCheck) {
            return;
        }
        let leaving: BTreeSet<NodeId> = self
            .record()
            .map(|record| record.leaving.keys().copied().collect())
            .unwrap_or_default();
        if self.kafka.moving().is_empty() && self.kafka.move_off(&leaving) {
            self.coverage.count("person moves replicas");
            self.note(|| format!("person moves replicas off {leaving:?}"));
        }
    }

    /// Why the cluster is not as its user asks for; `None` if it is.
    #[must_use]
    pub(crate) fn unmet(&self) -> Option<String> {
        let record = self.record()?;
        let mut nodes = BTreeSet::new();
        for one in &self.kubernetes.found.pools {
            let name = one.pool.name_any();
            let found = record.pools.get(&name).cloned().unwrap_or_default();
            let deleting = one.pool.metadata.deletion_timestamp.is_some();
            let wanted = one.written["spec"]["replicas"].as_u64().unwrap_or_default();
            let has = |role: &str| {
                one.written["spec"]["roles"]
                    .as_array()
                    .is_some_and(|all| all.contains(&json!(role)))
            };
            if deleting || found.len() as u64 != wanted {
                return Some(format!("pool {name} has {} of {wanted} nodes", found.len()));
            }
            for (id, roles) in &found {
                if (roles.is_broker(), roles.is_controller()) != (has("broker"), has("controller"))
                {
                    return Some(format!("node {id} is {roles:?}"));
                }
                nodes.insert((*id, *roles));
            }
        }
        self.unmet_nodes(&nodes).or_else(|| {
            let open = |entry: &Entered| match entry {
                Entered::Uncordon(id) => self.kafka.metadata.brokers.contains_key(id),
                Entered::AddVoter(_) | Entered::RemoveVoter(_) | Entered::RaiseKraftVersion => true,
            };
            let left = record.journal.iter().any(|entry| open(&entry.act));
            (left || !record.leaving.is_empty())
                .then(|| "something is left to do in the record".to_owned())
        })
    }

    fn unmet_nodes(&self, nodes: &BTreeSet<(NodeId, control::node::Roles)>) -> Option<String> {
        let running: BTreeSet<_> =
            self.kafka.processes.iter().map(|(id, one)| (*id, one.roles)).collect();
        if running != *nodes {
            return Some(format!("{running:?} run instead of {nodes:?}"));
        }
        let voters = self.kafka.quorum.voters();
        let controllers = nodes.iter().filter(|(_, roles)| roles.is_controller());
        let directories =
            controllers.filter_map(|(id, _)| Some((*id, self.kafka.processes.get(id)?.directory)));
        if voters != directories.collect() {
            return Some(format!("the voters are {voters:?}"));
        }
        let brokers: BTreeSet<NodeId> =
            nodes.iter().filter(|(_, roles)| roles.is_broker()).map(|(id, _)| *id).collect();
        let registered: BTreeSet<NodeId> = self.kafka.metadata.brokers.keys().copied().collect();
        if registered != brokers || self.kafka.metadata.brokers.values().any(|one| one.fenced) {
            return Some(format!("{:?} are registered", self.kafka.metadata.brokers));
        }
        if let Some(id) = brokers.iter().find(|id| !self.kafka.is_open(**id)) {
            return Some(format!("broker {id} takes no replicas"));
        }
        let found = &self.kubernetes.found;
        if found.claims.len() != nodes.len() {
            return Some(format!("{} claims for {} nodes", found.claims.len(), nodes.len()));
        }
        let revision = objects::pods::REVISION;
        let wanted = found.pod_sets.values().flat_map(|set| &set.spec.pods).filter_map(|pod| {
            let metadata = pod.0.get("metadata")?;
            Some((
                metadata["name"].as_str()?.to_owned(),
                metadata["annotations"][revision].as_str()?.to_owned(),
            ))
        });
        for (name, wanted) in wanted {
            let has =
                found.pods.get(&name).and_then(|pod| pod.annotations().get(revision).cloned());
            if has.as_ref() != Some(&wanted) {
                return Some(format!("{name} has an old revision"));
            }
        }
        None
    }
}

fn toggle(value: &mut Value) {
    *value = if *value == json!("true") { json!("false") } else { json!("true") };
}

impl Kubernetes {
    /// A server with the resources of a new cluster.
    #[must_use]
    pub(crate) fn of(shape: &Shape, now_ms: u64) -> Self {
        let mut server = Self::new(kafka(shape), "c-gregor", now_ms);
        for pool in pools(shape) {
            server.write_pool(pool);
        }
        server
    }
}
