//! Objects that Strimzi's schemas accept, out of a number.
//!
//! And some more: of a few parts of pods its definitions also say that one of several fields must be
//! set, which the list of paths does not have.

use serde_json::{Map, Value, json};

use super::strimzi::{Node, Row, tree};

/// A text for each pattern that there is; a pattern that is not listed is a new one.
const FITTING: &[(&str, &[&str])] = &[
    ("^[a-z0-9]{1,11}$", &["plain", "a", "external123", "0"]),
    ("^[0-9]+[mMgG]?$", &["512m", "2G", "1073741824"]),
    ("^([0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$", &["5Mi", "1.5Gi", "100", "1e3"]),
    ("^[0-9]+([KMG]i?)?B/s$", &["10000KiB/s", "10MB/s", "7B/s"]),
    ("^[0-9]+([.][0-9]{0,3}|[m]?)$", &["1", "1.", "1.123", "1500m"]),
];

/// Texts of which some are mistaken for something else by careless readers.
const TEXTS: &[&str] = &[
    "", "a", "true", "no", "0", "1.0", "null", "~", "a: b", "# c", "Grüße", "x\ny", " padded ",
    "{}",
];

/// The seed of the object in which every field is written.
pub(crate) const EVERYTHING: u64 = 0;

/// A stream of numbers that a seed decides (SplitMix64).
struct Dice {
    state: u64,
    /// How many of three fields are written.
    likely: usize,
}

impl Dice {
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    /// How many items a list has that must have at least some.
    fn count(&mut self, at_least: usize) -> usize {
        let is_everything = self.likely == 3;
        if is_everything { 1 } else { at_least + self.below(3) }
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }
}

/// An object of a kind that its schema accepts. The same seed gives the same object.
pub(crate) fn object(kind: &str, seed: u64) -> Value {
    let group = if kind == "StrimziPodSet" { "core.strimzi.io" } else { "kafka.strimzi.io" };
    let likely = match seed {
        EVERYTHING => 3,
        // Deep places are seldom reached if fields are seldom written.
        _ if seed.is_multiple_of(5) => 2,
        _ => 1,
    };
    let mut dice = Dice { state: seed, likely };
    let schema = tree(kind);
    let mut object = fields(schema, &mut dice);
    object.insert("apiVersion".into(), format!("{group}/v1").into());
    object.insert("kind".into(), kind.into());
    object.insert("metadata".into(), json!({ "name": format!("random-{seed}") }));
    let mut object = Value::Object(object);
    if object.get("spec").is_none() {
        object["spec"] = Value::Object(fields(&schema.below["spec"], &mut dice));
    }
    obey_rules(&mut object);
    object
}

fn fields(node: &Node, dice: &mut Dice) -> Map<String, Value> {
    let mut fields = Map::new();
    for (name, below) in &node.below {
        let Some(row) = &below.row else { continue };
        let is_written = dice.below(3) < dice.likely;
        if row.required || is_written {
            fields.insert(name.clone(), value(below, row, dice));
        }
    }
    fields
}

fn value(node: &Node, row: &Row, dice: &mut Dice) -> Value {
    match row.of_type.as_str() {
        "object" => match node.below.get("{}") {
            Some(of) => map(of, dice),
            None => Value::Object(fields(node, dice)),
        },
        "object*" => json!({ "any": { "thing": [dice.next() >> 12, null, 1.5] } }),
        "array" => list(node, row, dice),
        "string" => text(row, dice).into(),
        "boolean" => (dice.below(2) == 0).into(),
        "integer" => (limit(row, "minimum").unwrap_or(-5) + dice.below(100) as i64).into(),
        "number" => [json!(0), json!(1), json!(0.25)][dice.below(3)].clone(),
        "int-or-string" => [json!(2), json!("500m"), json!("1.5Gi")][dice.below(3)].clone(),
        other => panic!("{} has the new type {other}", row.path),
    }
}

fn map(of: &Node, dice: &mut Dice) -> Value {
    let row = of.row.as_ref().unwrap();
    let count = dice.count(0);
    (0..count).map(|n| (format!("key.{n}/x"), value(of, row, dice))).collect::<Map<_, _>>().into()
}

fn list(node: &Node, row: &Row, dice: &mut Dice) -> Value {
    let of = &node.below["[]"];
    let count = dice.count(limit(row, "minItems").unwrap_or(0) as usize);
    (0..count).map(|_| value(of, of.row.as_ref().unwrap(), dice)).collect()
}

fn text(row: &Row, dice: &mut Dice) -> String {
    let values: Vec<&str> = row.values.iter().map(String::as_str).collect();
    if !values.is_empty() {
        return dice.pick(&values).to_owned();
    }
    let pattern = row.constraints.iter().find_map(|rule| rule.strip_prefix("pattern="));
    let Some(pattern) = pattern else { return dice.pick(TEXTS).to_owned() };
    let fitting = FITTING.iter().find(|(of, _)| *of == pattern);
    dice.pick(fitting.unwrap_or_else(|| panic!("no text for {pattern}")).1).to_owned()
}

fn limit(row: &Row, name: &str) -> Option<i64> {
    let mut rules = row.constraints.iter().filter_map(|rule| rule.split_once('='));
    rules.find(|(of, _)| *of == name).and_then(|(_, limit)| limit.parse().ok())
}

/// The rules between fields, which the list of paths has only as expressions.
fn obey_rules(object: &mut Value) {
    let Some(spec) = object.get_mut("spec") else { return };
    if let Some(rack) = spec.pointer_mut("/kafka/rack") {
        rack["topologyKey"] = "zone".into();
        rack["envVarName"] = "RACK".into();
    }
    for path in ["/kafka/metricsConfig", "/cruiseControl/metricsConfig"] {
        if let Some(metrics) = spec.pointer_mut(path) {
            metrics["type"] = "jmxPrometheusExporter".into();
            if metrics.get("valueFrom").is_none() {
                metrics["valueFrom"] = json!({});
            }
        }
    }
}
