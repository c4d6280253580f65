//! A report as it comes in, and what of it cannot be used.

use control::cluster::quantity;
use fleet_control::{AgentReady, Capacity, NodeInfo, Report, ResizeInfo, Unsuitable};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The report of an agent about its data plane.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
#[schema(as = DataPlaneClusterUpdateStatusRequest)]
pub struct AgentReport {
    /// Sequence number of the report; a report with an older number is ignored.
    #[schema(minimum = 0)]
    pub sequence: Option<i64>,
    /// `Ready` reports whether the agent works; `NodesSuitable` is `False` if Kafkas cannot be placed on the
    /// nodes, whatever their number.
    pub conditions: Option<Vec<Condition>>,
    /// The total capacity.
    #[schema(required)]
    pub total: Option<Amounts>,
    /// The capacity that is left.
    #[schema(required)]
    pub remaining: Option<Amounts>,
    /// The nodes.
    #[schema(required)]
    pub node_info: Option<Nodes>,
    /// One scaling step.
    #[schema(required)]
    pub resize_info: Option<Resize>,
}

/// One condition.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    /// Type of the condition.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// `True`, `False` or `Unknown`.
    pub status: Option<String>,
    /// A reason in one word.
    pub reason: Option<String>,
    /// A message for people.
    pub message: Option<String>,
}

/// Amounts of capacity.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Amounts {
    /// Bytes per second, inbound and outbound, as a quantity such as `40Gi`.
    #[schema(required)]
    pub ingress_egress_throughput_per_sec: Option<String>,
    /// Client connections.
    #[schema(required, minimum = 0)]
    pub connections: Option<i64>,
    /// Bytes of storage, as a quantity.
    #[schema(required)]
    pub data_retention_size: Option<String>,
    /// Partitions.
    #[schema(required, minimum = 0)]
    pub partitions: Option<i64>,
}

/// Numbers of nodes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Nodes {
    /// The largest number.
    #[schema(required, minimum = 0)]
    pub ceiling: Option<i64>,
    /// The smallest number.
    #[schema(required, minimum = 0)]
    pub floor: Option<i64>,
    /// The current number.
    #[schema(required, minimum = 0)]
    pub current: Option<i64>,
    /// The smallest number that the current workload needs.
    #[schema(required, minimum = 0)]
    pub current_work_load_minimum: Option<i64>,
}

/// One scaling step.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Resize {
    /// The number of nodes of one scaling step.
    #[schema(required, minimum = 0)]
    pub node_delta: Option<i64>,
    /// The capacity of these nodes.
    #[schema(required)]
    pub delta: Option<Amounts>,
}

/// The condition that is `False` if Kafkas cannot be placed on the nodes, whatever their number.
pub(crate) const NODES_SUITABLE: &str = "NodesSuitable";

/// Invalid values, each with the path of its field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldErrors(pub Vec<String>);

/// Collects all problems, so that the author of an agent sees them at once.
#[derive(Default)]
struct Reader {
    errors: Vec<String>,
}

impl Reader {
    fn set<T: Copy>(&mut self, path: &str, value: Option<T>) -> Option<T> {
        if value.is_none() {
            self.errors.push(format!("{path} must be set"));
        }
        value
    }

    fn number(&mut self, path: &str, value: Option<i64>) -> u64 {
        match self.set(path, value).map(u64::try_from) {
            None => 0,
            Some(Ok(value)) => value,
            Some(Err(_)) => {
                self.errors.push(format!("{path} must not be negative"));
                0
            }
        }
    }

    fn nodes(&mut self, path: &str, value: Option<i64>) -> u32 {
        let value = self.number(path, value);
        u32::try_from(value).unwrap_or_else(|_| {
            self.errors.push(format!("{path} is not a number of nodes"));
            0
        })
    }

    fn bytes(&mut self, path: &str, value: Option<&str>) -> u64 {
        let Some(text) = self.set(path, value) else { return 0 };
        quantity::bytes(text).unwrap_or_else(|_| {
            self.errors.push(format!("{path} must be a quantity that is not negative"));
            0
        })
    }

    fn capacity(&mut self, path: &str, amounts: Option<&Amounts>) -> Capacity {
        let Some(amounts) = self.set(path, amounts) else { return Capacity::default() };
        let throughput = amounts.ingress_egress_throughput_per_sec.as_deref();
        Capacity {
            connections: self.number(&format!("{path}.connections"), amounts.connections),
            retention_bytes: self.bytes(
                &format!("{path}.dataRetentionSize"),
                amounts.data_retention_size.as_deref(),
            ),
            throughput_bytes: self
                .bytes(&format!("{path}.ingressEgressThroughputPerSec"), throughput),
            partitions: self.number(&format!("{path}.partitions"), amounts.partitions),
        }
    }
}

impl AgentReport {
    /// The report, if it is valid.
    ///
    /// # Errors
    /// All fields that are missing, negative or not valid.
    pub fn read(&self) -> Result<Report, FieldErrors> {
        let mut reader = Reader::default();
        let mut nodes = NodeInfo::default();
        if let Some(info) = reader.set("nodeInfo", self.node_info.as_ref()) {
            nodes = NodeInfo {
                ceiling: reader.nodes("nodeInfo.ceiling", info.ceiling),
                current: reader.nodes("nodeInfo.current", info.current),
                current_work_load_minimum: reader
                    .nodes("nodeInfo.currentWorkLoadMinimum", info.current_work_load_minimum),
                floor: reader.nodes("nodeInfo.floor", info.floor),
            };
        }
        let total = reader.capacity("total", self.total.as_ref());
        let remaining = reader.capacity("remaining", self.remaining.as_ref());
        let mut resize = ResizeInfo::default();
        if let Some(info) = reader.set("resizeInfo", self.resize_info.as_ref()) {
            resize = ResizeInfo {
                node_delta: reader.nodes("resizeInfo.nodeDelta", info.node_delta),
                delta: reader.capacity("resizeInfo.delta", info.delta.as_ref()),
            };
        }
        let ready = self.ready(&mut reader);
        match reader.errors.is_empty() {
            true => {
                let unsuitable = self
                    .unsuitable()
                    .map(|one| Unsuitable::from_name(one.reason.as_deref().unwrap_or_default()));
                Ok(Report { ready, unsuitable, total, remaining, nodes, resize })
            }
            false => Err(FieldErrors(reader.errors)),
        }
    }

    fn unsuitable(&self) -> Option<&Condition> {
        let conditions = self.conditions.as_deref().unwrap_or_default();
        conditions.iter().find(|one| {
            one.kind.as_deref() == Some(NODES_SUITABLE) && one.status.as_deref() == Some("False")
        })
    }

    /// The agent's message about unsuitable nodes.
    #[must_use]
    pub fn message(&self) -> String {
        self.unsuitable().and_then(|one| one.message.clone()).unwrap_or_default()
    }

    /// Without the condition the agent is not ready; a report with another value is refused.
    fn ready(&self, reader: &mut Reader) -> AgentReady {
        let conditions = self.conditions.as_deref().unwrap_or_default();
        let ready = conditions.iter().find(|one| one.kind.as_deref() == Some("Ready"));
        match ready.and_then(|one| one.status.as_deref()) {
            Some("1" | "t" | "T" | "TRUE" | "true" | "True") => AgentReady::Yes,
            None | Some("0" | "f" | "F" | "FALSE" | "false" | "False" | "Unknown") => {
                AgentReady::No
            }
            Some(_) => {
                reader.errors.push("conditions[Ready].status must be True or False".to_owned());
                AgentReady::No
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn whole() -> Value {
        let room = json!({
            "ingressEgressThroughputPerSec": "40Gi", "connections": 10, "dataRetentionSize": "1Ti",
            "partitions": 20,
        });
        json!({
            "conditions": [{ "type": "Ready", "status": "True" }],
            "total": room, "remaining": room,
            "nodeInfo": { "ceiling": 9, "floor": 3, "current": 6, "currentWorkLoadMinimum": 3 },
            "resizeInfo": { "nodeDelta": 3, "delta": room },
        })
    }

    fn read(value: Value) -> Result<Report, FieldErrors> {
        serde_json::from_value::<AgentReport>(value).unwrap().read()
    }

    #[test]
    fn a_whole_report_is_read() {
        let report = read(whole()).unwrap();
        assert_eq!(report.ready, AgentReady::Yes);
        assert_eq!(report.remaining.connections, 10);
        assert_eq!(report.total.retention_bytes, 1 << 40);
        assert_eq!((report.nodes.ceiling, report.resize.node_delta), (9, 3));
    }

    #[test]
    fn every_leaf_that_is_missing_or_negative_is_named() {
        let paths = [
            "/total/connections",
            "/total/partitions",
            "/remaining/connections",
            "/remaining/partitions",
            "/nodeInfo/ceiling",
            "/nodeInfo/floor",
            "/nodeInfo/current",
            "/nodeInfo/currentWorkLoadMinimum",
            "/resizeInfo/nodeDelta",
            "/resizeInfo/delta/connections",
            "/resizeInfo/delta/partitions",
        ];
        for path in paths {
            let name = path[1..].replace('/', ".");
            for (value, words) in
                [(json!(null), "must be set"), (json!(-1), "must not be negative")]
            {
                let mut report = whole();
                *report.pointer_mut(path).unwrap() = value;
                assert_eq!(read(report), Err(FieldErrors(vec![format!("{name} {words}")])));
            }
        }
        let quantities = ["/total", "/remaining", "/resizeInfo/delta"];
        for path in quantities {
            for leaf in ["dataRetentionSize", "ingressEgressThroughputPerSec"] {
                for value in [json!(null), json!("-1"), json!("much")] {
                    let mut report = whole();
                    report.pointer_mut(path).unwrap()[leaf] = value;
                    assert_eq!(read(report).unwrap_err().0.len(), 1);
                }
            }
        }
    }

    #[test]
    fn all_that_is_wrong_is_told_at_once() {
        let expected = ["nodeInfo must be set", "total must be set", "remaining must be set"];
        let errors = read(json!({})).unwrap_err().0;
        assert_eq!(errors[..3], expected.map(str::to_owned));
        assert_eq!(errors.len(), 4);
    }

    #[test]
    fn unsuitable_nodes_are_a_condition() {
        let rows = [
            (json!([]), None),
            (json!([{ "type": "NodesSuitable", "status": "True" }]), None),
            (json!([{ "type": "NodesSuitable", "status": "Unknown" }]), None),
            (
                json!([{ "type": "NodesSuitable", "status": "False", "reason": "ZonesMissing" }]),
                Some(Unsuitable::ZonesMissing),
            ),
            (json!([{ "type": "NodesSuitable", "status": "False" }]), Some(Unsuitable::Other)),
        ];
        for (conditions, expected) in rows {
            let mut report = whole();
            report["conditions"] = conditions.clone();
            assert_eq!(read(report).unwrap().unsuitable, expected, "{conditions}");
        }
    }

    #[test]
    fn an_agent_is_ready_only_if_it_says_so() {
        use AgentReady::{No, Yes};
        let rows = [
            (json!([{ "type": "Ready", "status": "True" }]), Ok(Yes)),
            (json!([{ "type": "Ready", "status": "False" }]), Ok(No)),
            (json!([{ "type": "Ready", "status": "Unknown" }]), Ok(No)),
            (json!([{ "type": "ready", "status": "True" }]), Ok(No)),
            (json!([]), Ok(No)),
            (json!(null), Ok(No)),
            (json!([{ "type": "Ready", "status": "InventedValue" }]), Err(())),
        ];
        for (conditions, expected) in rows {
            let mut report = whole();
            report["conditions"] = conditions.clone();
            let ready = read(report).map(|report| report.ready).map_err(|_| ());
            assert_eq!(ready, expected, "{conditions}");
        }
    }
}
