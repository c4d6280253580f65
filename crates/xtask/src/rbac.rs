//! `rbac`: compares installed permissions with the requests that the tests made.
//!
//! Tests with a local Kubernetes leave the audit log of its API server in `target/rbac-use`
//! (`crates/gregor/tests/up/audit.rs`). After all tests, a permission that no request needed fails, and so
//! does a request that RBAC denied.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use crate::root;
use crate::run::{Line, target};

/// Permissions that no test of `make test` uses: account, group, resource, verb, and what uses it.
#[rustfmt::skip]
const UNSEEN: &[(Who, &str, &str, &str, &str)] = &[
    (Who::Operator, "kafka.strimzi.io", "kafkas/finalizers", "update",
        "no request: the admission plugin OwnerReferencesPermissionEnforcement, which is on in every scenario, \
         asks for it when an object blocks the deletion of its Kafka"),
    (Who::Operator, "kafka.strimzi.io", "kafkas", "patch",
        "soak_migration: the annotation that asked for a dynamic quorum is removed"),
];

/// Directory of the audit logs, in the target directory.
const USE: &str = "rbac-use";

/// Removes the logs of earlier runs: a permission that was used then may be unused now.
pub(crate) fn clear() -> Result<()> {
    match fs::remove_dir_all(target()?.join(USE)) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

/// The account that has a permission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Who {
    Operator,
    Agent,
    KafkaNode,
}

impl Who {
    /// By the name of a service account; other accounts are ignored.
    fn of_user(user: &str) -> Option<Self> {
        let (_, account) = user.strip_prefix("system:serviceaccount:")?.split_once(':')?;
        match account {
            "gregor-operator" => Some(Self::Operator),
            "gregor-agent" => Some(Self::Agent),
            _ => account.ends_with("-kafka").then_some(Self::KafkaNode),
        }
    }

    /// By the name of a role.
    fn of_role(role: &str) -> Option<Self> {
        match role {
            "gregor-kafka-node" => Some(Self::KafkaNode),
            "gregor-agent" => Some(Self::Agent),
            _ => role.starts_with("gregor-operator").then_some(Self::Operator),
        }
    }
}

/// A permission, or its use.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Right {
    who: Who,
    group: String,
    resource: String,
    verb: String,
}

impl Right {
    fn new(who: Who, group: &str, resource: &str, verb: &str) -> Self {
        let (group, resource, verb) = (group.to_owned(), resource.to_owned(), verb.to_owned());
        Self { who, group, resource, verb }
    }

    /// Such as `Operator: patch kafkas.kafka.strimzi.io`.
    fn text(&self) -> String {
        let Self { who, group, resource, verb } = self;
        let group = if group.is_empty() { String::new() } else { format!(".{group}") };
        format!("{who:?}: {verb} {resource}{group}")
    }
}

/// The requests of a run.
#[derive(Debug, Default, PartialEq, Eq)]
struct Uses {
    allowed: BTreeSet<Right>,
    forbidden: BTreeSet<Right>,
}

/// Compares, and prints the differences.
pub(crate) fn run() -> Result<()> {
    let dir = target()?.join(USE);
    let mut uses = Uses::default();
    let mut files = 0;
    for entry in fs::read_dir(&dir).with_context(|| {
        format!("{} is missing: run the tests with real clusters first", dir.display())
    })? {
        let path = entry?.path();
        uses.read(&fs::read_to_string(&path)?).with_context(|| path.display().to_string())?;
        files += 1;
    }
    ensure!(!uses.allowed.is_empty(), "{} has no requests", dir.display());
    let rights = installed()?;
    let findings = compare(&rights, &uses, UNSEEN);
    if !findings.is_empty() {
        bail!("permissions and their use differ:\n  {}", findings.join("\n  "));
    }
    println!("{} permissions, all used, in {files} logs", rights.len());
    Ok(())
}

/// The permissions in everything that Gregor installs.
fn installed() -> Result<BTreeSet<Right>> {
    let gregor = target()?.join("debug/gregor");
    ensure!(gregor.exists(), "gregor is not built: cargo build --workspace --bins");
    let agent = "agent --manager https://fleet.example.org --cluster-id x --manifests";
    let mut rights = BTreeSet::new();
    for words in ["install", agent] {
        let mut line = Line::program(gregor.display().to_string());
        for word in words.split(' ') {
            line = line.arg(word);
        }
        let output = line.command().current_dir(root()).output().context("running gregor")?;
        ensure!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        rights.extend(rights_of(&String::from_utf8(output.stdout)?)?);
    }
    Ok(rights)
}

/// The fields of interest. Only roles have rules.
#[derive(Debug, Deserialize)]
struct Object {
    kind: String,
    metadata: Metadata,
    #[serde(default)]
    rules: Vec<Rule>,
}

#[derive(Debug, Deserialize)]
struct Metadata {
    name: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Rule {
    api_groups: Vec<String>,
    resources: Vec<String>,
    verbs: Vec<String>,
}

/// The permissions in the roles of a manifest.
fn rights_of(manifest: &str) -> Result<BTreeSet<Right>> {
    let objects: Vec<Object> = serde_saphyr::from_multiple(manifest)?;
    let mut rights = BTreeSet::new();
    for role in objects.iter().filter(|one| one.kind == "ClusterRole" || one.kind == "Role") {
        let name = &role.metadata.name;
        let who =
            Who::of_role(name).with_context(|| format!("role {name} has no known account"))?;
        for rule in &role.rules {
            for (group, resource) in rule.pairs() {
                let verbs = rule.verbs.iter();
                rights.extend(verbs.map(|verb| Right::new(who, group, resource, verb)));
            }
        }
    }
    Ok(rights)
}

impl Rule {
    /// Every group with every resource.
    fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        let resources = || self.resources.iter().map(String::as_str);
        self.api_groups.iter().flat_map(move |group| resources().map(|one| (group.as_str(), one)))
    }
}

impl Uses {
    /// Parses one log: user, verb, group, resource, scope, status code, decision.
    fn read(&mut self, text: &str) -> Result<()> {
        for line in text.lines() {
            let fields: Vec<_> = line.split('\t').collect();
            let [user, verb, group, resource, _, code, decision] = fields.as_slice() else {
                bail!("not a line of an audit log: {line}");
            };
            let Some(who) = Who::of_user(user) else { continue };
            // Every account may ask for its own permissions.
            if ["authorization.k8s.io", "authentication.k8s.io"].contains(group) {
                continue;
            }
            let right = Right::new(who, group, resource, verb);
            if *decision == "forbid" {
                self.forbidden.insert(right);
                continue;
            }
            // Server-side apply that creates an object also needs the permission to create.
            if (*verb, *code) == ("patch", "201") {
                self.allowed.insert(Right::new(who, group, resource, "create"));
            }
            self.allowed.insert(right);
        }
        Ok(())
    }
}

/// All findings, one sentence each.
fn compare(
    rights: &BTreeSet<Right>,
    uses: &Uses,
    unseen: &[(Who, &str, &str, &str, &str)],
) -> Vec<String> {
    let unseen: BTreeSet<_> = unseen
        .iter()
        .map(|(who, group, resource, verb, _)| Right::new(*who, group, resource, verb))
        .collect();
    let mut findings = Vec::new();
    let mut say = |what: &str, rights: Vec<&Right>| {
        findings.extend(rights.into_iter().map(|right| format!("{} {what}", right.text())));
    };
    let seen = |right: &&Right| uses.allowed.contains(right) || unseen.contains(right);
    say("is not used by any test", rights.iter().filter(|right| !seen(right)).collect());
    say("was allowed by a rule that is not ours", uses.allowed.difference(rights).collect());
    say("was denied", uses.forbidden.iter().collect());
    say("is listed as unseen but not installed", unseen.difference(rights).collect());
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: { name: gregor-operator }
rules:
- { apiGroups: [''], resources: [pods, secrets], verbs: [get] }
- { apiGroups: [policy], resources: [poddisruptionbudgets], verbs: [create, patch] }
---
kind: ClusterRoleBinding
metadata: { name: gregor-operator }
";
    const OPERATOR: &str = "system:serviceaccount:gregor:gregor-operator";

    fn uses(lines: &[&str]) -> Uses {
        let mut uses = Uses::default();
        let text: Vec<_> = lines.iter().map(|line| line.replace(' ', "\t")).collect();
        uses.read(&text.join("\n")).unwrap();
        uses
    }

    fn check(lines: &[&str], unseen: &[(Who, &str, &str, &str, &str)], expected: &[&str]) {
        let lines: Vec<_> = lines.iter().map(|line| line.replace("OPERATOR", OPERATOR)).collect();
        let lines: Vec<_> = lines.iter().map(String::as_str).collect();
        let rights = rights_of(MANIFEST).unwrap();
        assert_eq!(compare(&rights, &uses(&lines), unseen), expected);
    }

    const ALL: [&str; 3] = [
        "OPERATOR get  pods namespaced 200 allow",
        "OPERATOR get  secrets cluster 404 allow",
        "OPERATOR patch policy poddisruptionbudgets namespaced 201 allow",
    ];

    #[test]
    fn rights_that_are_all_used_pass_and_an_apply_that_creates_uses_two() {
        check(&ALL, &[], &[]);
    }

    #[test]
    fn a_right_that_nothing_uses_is_named() {
        check(
            &ALL[..2],
            &[],
            &[
                "Operator: create poddisruptionbudgets.policy is not used by any test",
                "Operator: patch poddisruptionbudgets.policy is not used by any test",
            ],
        );
        let patched = "OPERATOR patch policy poddisruptionbudgets namespaced 200 allow";
        let create = "Operator: create poddisruptionbudgets.policy is not used by any test";
        check(&[ALL[0], ALL[1], patched], &[], &[create]);
        let unseen = (Who::Operator, "policy", "poddisruptionbudgets", "create", "soak_x");
        check(&[ALL[0], ALL[1], patched], &[unseen], &[]);
    }

    #[test]
    fn a_request_that_was_refused_or_that_no_rule_allows_is_named() {
        let refused = "OPERATOR delete  pods namespaced 403 forbid";
        check(&[&ALL[..], &[refused]].concat(), &[], &["Operator: delete pods was denied"]);
        let stray = "OPERATOR list  nodes cluster 200 allow";
        let by_nobody = "Operator: list nodes was allowed by a rule that is not ours";
        check(&[&ALL[..], &[stray]].concat(), &[], &[by_nobody]);
    }

    #[test]
    fn an_exception_for_a_right_that_is_gone_is_named() {
        let stale = (Who::Agent, "", "nodes", "watch", "gone");
        check(&ALL, &[stale], &["Agent: watch nodes is listed as unseen but not installed"]);
    }

    #[test]
    fn another_account_and_questions_about_rights_do_not_count() {
        let other = "system:serviceaccount:team:default get  pods namespaced 200 allow";
        let ask = "OPERATOR create authorization.k8s.io selfsubjectaccessreviews cluster 201 allow";
        check(&[&ALL[..], &[other, ask]].concat(), &[], &[]);
        let node = "system:serviceaccount:team:my-cluster-kafka get  nodes cluster 200 allow";
        assert_eq!(uses(&[node]).allowed.len(), 1);
    }

    #[test]
    fn what_is_no_log_is_an_error() {
        assert!(Uses::default().read("a\tb").is_err());
        assert!(rights_of("kind: Role\nmetadata: { name: other }").is_err());
    }
}
