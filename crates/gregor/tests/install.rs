//! What is deployed: the manifest of `gregor install`, the files of the Helm chart that are written from it,
//! and the Dockerfiles. What needs Helm or a Kubernetes is in `real_install.rs`.
//!
//! `GREGOR_UPDATE=1 cargo test -p gregor --test install` writes the generated files anew.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

const UPDATE: &str = "GREGOR_UPDATE";

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn gregor(words: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_gregor")).args(words).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Compares a file of the repository with what it should hold, or writes it.
#[track_caller]
fn fresh(path: &str, expected: &str) {
    let file = repository().join(path);
    if std::env::var_os(UPDATE).is_some() {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, expected).unwrap();
    }
    let found = fs::read_to_string(&file).unwrap_or_default();
    assert!(found == expected, "{path} is stale: {UPDATE}=1 cargo test -p gregor --test install");
}

#[test]
fn yaml_and_json_are_the_same_manifest() {
    let yaml: Vec<Value> = serde_saphyr::from_multiple(&gregor(&["install"])).unwrap();
    let json: Value = serde_json::from_str(&gregor(&["install", "-o", "json"])).unwrap();
    assert_eq!(json["items"].as_array().unwrap(), &yaml);
    assert!(yaml.len() > 10);
}

#[test]
fn the_generated_files_of_the_chart_are_fresh() {
    for name in ["kafkas", "kafkanodepools", "kafkarebalances", "kafkatopics", "kafkausers"] {
        let name = format!("{name}.kafka.strimzi.io");
        let path = format!("deploy/helm/gregor/crds/{name}.yaml");
        fresh(&path, &gregor(&["crds", "--only", &name]));
    }
    let name = "strimzipodsets.core.strimzi.io";
    let path = format!("deploy/helm/gregor/crds/{name}.yaml");
    fresh(&path, &gregor(&["crds", "--only", name]));
    let manifest = gregor(&["install"]);
    let roles: String = manifest
        .split_inclusive("---\n")
        .filter(|document| document.lines().any(|line| line == "kind: ClusterRole"))
        .map(|document| format!("---\n{}", document.trim_end_matches("---\n")))
        .collect();
    let head = "# What the operator may do. Written from crates/operator/src/install/rbac.rs.\n";
    fresh("deploy/helm/gregor/templates/roles.yaml", &format!("{head}{roles}"));
}

#[test]
fn the_chart_has_the_version_of_the_program() {
    let file = repository().join("deploy/helm/gregor/Chart.yaml");
    let chart: Value = serde_saphyr::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    for field in ["version", "appVersion"] {
        assert_eq!(chart[field], env!("CARGO_PKG_VERSION"));
    }
}

/// The instructions of a Dockerfile: the word, and what follows it.
fn instructions(text: &str) -> Vec<(String, String)> {
    let mut instructions = Vec::new();
    let mut open = String::new();
    for line in text.lines().filter(|line| !line.trim_start().starts_with('#')) {
        match line.strip_suffix('\\') {
            Some(begin) => open.push_str(begin),
            None => {
                let whole = std::mem::take(&mut open) + line;
                if let Some((word, rest)) = whole.trim().split_once(' ') {
                    instructions.push((word.to_owned(), rest.trim().to_owned()));
                }
            }
        }
    }
    assert!(open.is_empty(), "the last line is continued");
    instructions
}

fn dockerfiles() -> Vec<(String, Vec<(String, String)>)> {
    let folder = repository().join("deploy/docker");
    let mut files: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let read = |path: PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        (name, instructions(&fs::read_to_string(&path).unwrap()))
    };
    files.into_iter().map(read).collect()
}

#[test]
fn dockerfiles_are_well_formed_and_pinned_and_do_not_run_as_root() {
    const WORDS: &[&str] =
        &["ARG", "COPY", "ENTRYPOINT", "ENV", "EXPOSE", "FROM", "LABEL", "RUN", "USER", "WORKDIR"];
    let files = dockerfiles();
    assert_eq!(files.len(), 3);
    for (name, instructions) in files {
        let mut stages = BTreeSet::new();
        let arguments = arguments(&instructions);
        for (word, rest) in &instructions {
            // ADD fetches and unpacks without being asked, and is not in the list for that.
            assert!(WORDS.contains(&word.as_str()), "{name}: {word}");
            match word.as_str() {
                "FROM" => check_base(&name, rest, &arguments, &mut stages),
                "COPY" => check_copy(&name, rest, &stages),
                "RUN" => {
                    assert!(!rest.contains("curl") && !rest.contains("wget"), "{name}: {rest}")
                }
                _ => {}
            }
        }
        let last = |wanted: &str| {
            let mut all = instructions.iter().filter(|(word, _)| word == wanted);
            all.next_back().map(|(_, rest)| rest.as_str()).unwrap_or_default()
        };
        assert_eq!(last("USER"), "1001", "{name}");
        let entry: Vec<String> = serde_json::from_str(last("ENTRYPOINT")).unwrap();
        assert_eq!(entry[0], "/usr/local/bin/gregor", "{name}");
        // After the user was chosen nothing is run or copied as root.
        let position = |wanted: &str| instructions.iter().rposition(|(word, _)| word == wanted);
        assert!(
            position("USER") > position("RUN") && position("USER") > position("COPY"),
            "{name}"
        );
    }
}

/// The build arguments before the first stage, with their defaults.
fn arguments(instructions: &[(String, String)]) -> BTreeMap<String, String> {
    let head = instructions.iter().take_while(|(word, _)| word != "FROM");
    let arguments = head.filter(|(word, _)| word == "ARG");
    let parts = arguments.filter_map(|(_, rest)| rest.split_once('='));
    parts.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// A base is an argument, so that a release can name it by its digest; the default is an image with a tag that
/// says which one it is.
fn check_base(
    name: &str,
    rest: &str,
    arguments: &BTreeMap<String, String>,
    stages: &mut BTreeSet<String>,
) {
    let words: Vec<_> = rest.split_whitespace().collect();
    let argument = words[0].strip_prefix("${").and_then(|word| word.strip_suffix('}'));
    let argument = argument.unwrap_or_else(|| panic!("{name}: {rest} is no argument"));
    let image = arguments.get(argument).unwrap_or_else(|| panic!("{name}: no ARG {argument}"));
    let (_, tag) = image.rsplit_once(':').unwrap_or_else(|| panic!("{name}: {image} has no tag"));
    assert!(tag.contains('.') && !tag.contains("latest"), "{name}: {image}");
    match words.as_slice() {
        [_] => {}
        [_, "AS", stage] => assert!(stages.insert((*stage).to_owned()), "{name}: {stage} twice"),
        _ => panic!("{name}: {rest}"),
    }
}

/// What `cargo xtask dist` puts into the build context: the program, and Kafka as `gregor fetch` has checked it.
const CONTEXT: [&str; 2] = ["gregor", "kafka-${KAFKA}"];

fn check_copy(name: &str, rest: &str, stages: &BTreeSet<String>) {
    let words: Vec<_> = rest.split_whitespace().collect();
    match words.as_slice() {
        [from, _, _] => {
            let stage = from.strip_prefix("--from=").unwrap_or_else(|| panic!("{name}: {rest}"));
            assert!(stages.contains(stage), "{name}: there is no stage {stage}");
        }
        [file, _] if CONTEXT.contains(file) => {}
        _ => panic!("{name}: {rest}"),
    }
}

#[test]
fn dockerfiles_name_the_versions_that_the_project_has() {
    let files = dockerfiles();
    let text = |wanted: &str| {
        let (_, instructions) = files.iter().find(|(name, _)| name == wanted).unwrap();
        instructions.iter().map(|(word, rest)| format!("{word} {rest}\n")).collect::<String>()
    };
    let pom = fs::read_to_string(repository().join("crates/artifacts/kafka/pom.xml")).unwrap();
    let (_, rest) = pom.split_once("<kafka.version>").unwrap();
    let (kafka, _) = rest.split_once('<').unwrap();
    // Of a stage, too: an argument before the first one is unknown in all.
    let file = text("kafka.Dockerfile");
    let (declared, all) = (format!("ARG KAFKA={kafka}\n"), file.matches("ARG KAFKA=").count());
    assert_eq!(file.matches(&declared).count(), all, "{file}");
    assert_eq!(all, 2, "{file}");
    // One base for all of them.
    let base = |name: &str| {
        let text = text(name);
        text.lines().next().unwrap().to_owned()
    };
    for name in ["agent.Dockerfile", "kafka.Dockerfile"] {
        assert_eq!(base(name), base("operator.Dockerfile"), "{name}");
    }
}

#[test]
fn the_checks_of_dockerfiles_find_what_is_wrong() {
    let wrong = |text: &'static str| {
        std::panic::catch_unwind(|| {
            let all = instructions(text);
            let arguments = arguments(&all);
            for (word, rest) in &all {
                match word.as_str() {
                    "ARG" => {}
                    "FROM" => check_base("x", rest, &arguments, &mut BTreeSet::new()),
                    "COPY" => check_copy("x", rest, &BTreeSet::new()),
                    other => panic!("{other}"),
                }
            }
        })
        .is_err()
    };
    assert!(!wrong("# a\nARG A=debian:12.12\nFROM \\\n  ${A} AS a\nCOPY gregor /a\n"));
    for text in [
        "FROM debian:12.12\n",
        "FROM ${A}\n",
        "ARG A=debian\nFROM ${A}\n",
        "ARG A=debian:latest\nFROM ${A}\n",
        "ARG A=a:1.2\nFROM ${A} as b\n",
        "COPY --from=x /a /b\n",
        "COPY no-such-file /b\n",
        "ARG A=a:1.2\nFROM ${A} \\",
    ] {
        assert!(wrong(text), "{text}");
    }
}
