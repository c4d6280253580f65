//! The page that shows people what is honoured.

use crate::rules::{self, Rule};
use crate::strimzi;

const KINDS: [&str; 6] =
    ["Kafka", "KafkaNodePool", "KafkaRebalance", "KafkaTopic", "KafkaUser", "StrimziPodSet"];
const VERDICTS: [&str; 5] = ["honoured", "accepted", "unneeded", "refused", "absent"];

const INTRODUCTION: &str = "\
<!-- Generated from crates/api/compat; `GREGOR_UPDATE=1 cargo test -p api` writes it anew. -->

# What is honoured of Strimzi's resources

Gregor takes the custom resources of Strimzi 1.2.0. Every object that Strimzi accepts is accepted, and
nothing in it is lost; this page says what is done about each part.

- **honoured**: it is acted on.
- **accepted**: it is kept and nothing is done about it; the resource has a condition `Warning` that names it.
- **unneeded**: it is about a pod that Strimzi runs and Gregor does not need; it is kept, and there is nothing to say about it.
- **refused**: the resource is not acted on as long as it is there, because doing the rest without it
  would be harmful; the condition says so, and a running cluster is left as it is.
- **absent**: Gregor does not install the kind, so that the API server refuses its resources (`no matches for kind`).

A field that neither Strimzi nor Gregor knows is kept and named in the `Warning` too. The verdict on each
single field is in [fields.tsv](../../crates/api/compat/fields.tsv).
";

/// The whole page.
pub(crate) fn render() -> String {
    let mut page = String::from(INTRODUCTION);
    page += "\n## In numbers\n\nA field path is counted once for each place where it can be written, so that ";
    page += "the pod templates of components\nthat Gregor does not deploy weigh most.\n\n";
    page += &counts();
    page += "\n## Kinds\n\nStrimzi has ten kinds. These are not installed.\n\n";
    page += "| kind | fields | verdict | |\n|---|---:|---|---|\n";
    for kind in strimzi::absent_kinds() {
        page +=
            &format!("| {} | {} | {} | {} |\n", kind.name, kind.fields, kind.verdict, kind.reason);
    }
    let rows = strimzi::rows();
    for kind in KINDS {
        page += &format!("\n## {kind}\n\n| path | fields | verdict | |\n|---|---:|---|---|\n");
        for rule in rules::rules().iter().filter(|rule| rule.kind == kind) {
            page += &line(rule, &rows);
        }
    }
    page += "\n## Single values\n\nThe field is honoured, but not with this value.\n\n";
    page += "| kind | path | value | verdict | |\n|---|---|---|---|---|\n";
    page += &table(include_str!("../../compat/values.tsv"), &[1, 2]);
    page +=
        "\n## Fields that only `v1beta2` has\n\n| kind | path | verdict | |\n|---|---|---|---|\n";
    page += &table(include_str!("../../compat/removed.tsv"), &[1]);
    page
}

fn line(rule: &Rule, rows: &[strimzi::Row]) -> String {
    let decided = |row: &&strimzi::Row| rules::deciding(&row.kind, &row.path) == Some(rule);
    let fields = rows.iter().filter(decided).count();
    format!("| `{}` | {fields} | {} | {} |\n", rule.path, rule.verdict, rule.reason)
}

fn counts() -> String {
    let table = rules::table();
    let rows: Vec<Vec<&str>> =
        table.lines().skip(1).map(|line| line.split('\t').collect()).collect();
    let count = |part: &dyn Fn(&[&str]) -> bool| {
        let chosen: Vec<_> = rows.iter().filter(|cells| part(cells)).collect();
        let of = |verdict: &str| chosen.iter().filter(|cells| cells[2] == verdict).count();
        (chosen.len(), VERDICTS.map(of))
    };
    let spec = |cells: &[&str]| cells[1].starts_with("spec");
    let mut text = String::from(
        "| | fields | honoured | accepted | unneeded | refused | absent | honoured, share |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    for kind in KINDS {
        text += &numbers(kind, count(&|cells| cells[0] == kind));
    }
    let (installed, [honoured, accepted, unneeded, refused, _]) = count(&|_| true);
    let mut absent = 0;
    for kind in strimzi::absent_kinds() {
        text += &numbers(&kind.name, (kind.fields, [0, 0, 0, 0, kind.fields]));
        absent += kind.fields;
    }
    let all = [honoured, accepted, unneeded, refused, absent];
    text += &numbers("**all ten kinds**", (installed + absent, all));
    text += &numbers("**the six kinds that Gregor installs**", count(&|_| true));
    text += &numbers("what users write (`spec`)", count(&spec));
    text += &numbers(
        "`spec` without components that are not deployed (entity operator, Cruise Control, exporter)",
        count(&|cells| spec(cells) && !of_a_component(cells)),
    );
    text
}

/// Whether a field is about a deployment besides Kafka's own nodes.
fn of_a_component(cells: &[&str]) -> bool {
    let path = cells[1];
    let rebalancing = ["brokerCapacity", "autoRebalance", "config"];
    let Some(part) = path.strip_prefix("spec.cruiseControl.") else {
        return path.starts_with("spec.entityOperator") || path.starts_with("spec.kafkaExporter");
    };
    !rebalancing.iter().any(|name| part.starts_with(name))
}

fn numbers(name: &str, (all, by_verdict): (usize, [usize; 5])) -> String {
    let [honoured, accepted, unneeded, refused, absent] = by_verdict;
    let share = 100.0 * honoured as f64 / all as f64;
    format!(
        "| {name} | {all} | {honoured} | {accepted} | {unneeded} | {refused} | {absent} | {share:.0} % |\n"
    )
}

/// A table of ours as it is, with some columns as code.
fn table(text: &str, code: &[usize]) -> String {
    let mut lines = String::new();
    for line in text.lines().skip(1) {
        for (column, cell) in line.split('\t').enumerate() {
            let mark = if code.contains(&column) { "`" } else { "" };
            lines += &format!("| {mark}{cell}{mark} ");
        }
        lines += "|\n";
    }
    lines
}
