//! Bills of materials of images, in CycloneDX: crates in the program, jars of Kafka, packages of the base, Java.
//!
//! Nothing in them depends on when or where they are written, so that those of equal images are equal.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::root;
use crate::run::Line;

/// The platform of the images.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// A bill of this image.
pub(crate) fn bill(name: &str, version: &str, components: Vec<Value>) -> Value {
    json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "component": { "type": "container", "name": name, "version": version } },
        "components": components,
    })
}

/// The crates that are compiled into `gregor`.
pub(crate) fn crates() -> Result<Vec<Value>> {
    let line =
        Line::new("cargo metadata --format-version 1 --locked --filter-platform").arg(TARGET);
    let output = line.command().output().context("cannot run cargo metadata")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata = serde_json::from_slice(&output.stdout).context("cargo metadata")?;
    crates_of(&metadata, "gregor")
}

fn crates_of(metadata: &Value, program: &str) -> Result<Vec<Value>> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let packages: BTreeMap<_, _> = list(&metadata["packages"])
        .into_iter()
        .filter_map(|package| Some((package["id"].as_str()?.to_owned(), package)))
        .collect();
    let nodes: BTreeMap<_, _> = list(&metadata["resolve"]["nodes"])
        .into_iter()
        .filter_map(|node| Some((node["id"].as_str()?.to_owned(), node)))
        .collect();
    let start = packages.iter().find(|(_, package)| package["name"] == program);
    let (start, _) = start.with_context(|| format!("there is no package {program}"))?;
    let (mut seen, mut open) = (BTreeSet::new(), vec![start.clone()]);
    while let Some(id) = open.pop() {
        let Some(node) = nodes.get(&id) else { continue };
        if !seen.insert(id) {
            continue;
        }
        for dependency in list(&node["deps"]) {
            // Neither for tests nor for build scripts.
            let is_normal =
                list(&dependency["dep_kinds"]).iter().any(|kind| kind["kind"].is_null());
            if let (true, Some(id)) = (is_normal, dependency["pkg"].as_str()) {
                open.push(id.to_owned());
            }
        }
    }
    let component = |package: &Value| {
        let (name, version) = (&package["name"], &package["version"]);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mut component = json!({
            "type": "library", "name": name, "version": version,
            "purl": format!("pkg:cargo/{}@{}", text(name), text(version)),
        });
        if let Some(license) = package["license"].as_str() {
            component["licenses"] = json!([{ "expression": license.replace('/', " OR ") }]);
        }
        component
    };
    Ok(seen.iter().filter_map(|id| packages.get(id)).map(component).collect())
}

/// The jars of a version of Kafka, with the hashes that `gregor fetch` has compared.
pub(crate) fn jars(version: &str) -> Result<Vec<Value>> {
    let path = format!("crates/artifacts/kafka/jars-{version}.sha256");
    let text = fs::read_to_string(root().join(&path)).with_context(|| path.clone())?;
    let jars = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let jar = |line: &str| {
        let (hash, file) = line.split_once(char::is_whitespace).context("a line without a file")?;
        let (name, version) = name_and_version(file.trim());
        let hashes = [json!({ "alg": "SHA-256", "content": hash })];
        Ok(json!({ "type": "library", "name": name, "version": version, "hashes": hashes }))
    };
    jars.map(jar).collect::<Result<_>>().with_context(|| path.clone())
}

/// The version begins with the first digit after a hyphen.
fn name_and_version(file: &str) -> (String, String) {
    let stem = Path::new(file).file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let bytes = stem.as_bytes();
    let at = (1..bytes.len()).find(|at| bytes[at - 1] == b'-' && bytes[*at].is_ascii_digit());
    match at {
        Some(at) => (stem[..at - 1].to_owned(), stem[at..].to_owned()),
        None => (stem, String::new()),
    }
}

/// Debian's packages, from lines of `dpkg-query --show`: name and version, separated by a tab.
pub(crate) fn packages(text: &str) -> Vec<Value> {
    let package = |line: &str| {
        let (name, version) = line.split_once('\t')?;
        let name = name.split(':').next().unwrap_or(name);
        let purl = format!("pkg:deb/debian/{name}@{}", version.replace('+', "%2B"));
        Some(json!({ "type": "library", "name": name, "version": version, "purl": purl }))
    };
    text.lines().filter_map(package).collect()
}

/// Java, from the file `release` of its runtime.
pub(crate) fn java(release: &str) -> Vec<Value> {
    let value = |key: &str| {
        let line = release.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        line.map(|value| value.trim_matches('"').to_owned())
    };
    let version = value("JAVA_RUNTIME_VERSION").or_else(|| value("JAVA_VERSION"));
    version
        .map(|version| json!({ "type": "platform", "name": "openjdk", "version": version }))
        .into_iter()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_crates_of_the_program_are_listed() {
        let package = |name: &str| json!({ "id": name, "name": name, "version": "1.0.0", "license": "MIT/Apache-2.0" });
        let dependency =
            |name: &str, kind: Value| json!({ "pkg": name, "dep_kinds": [{ "kind": kind }] });
        let packages = ["gregor", "used", "deep", "tested", "built", "alone"].map(package);
        let metadata = json!({
            "packages": packages,
            "resolve": { "nodes": [
                { "id": "gregor", "deps": [
                    dependency("used", Value::Null), dependency("tested", json!("dev")),
                    dependency("built", json!("build")),
                ] },
                { "id": "used", "deps": [dependency("deep", Value::Null)] },
                { "id": "deep", "deps": [dependency("used", Value::Null)] },
                { "id": "tested", "deps": [] }, { "id": "built", "deps": [] }, { "id": "alone", "deps": [] },
            ] },
        });
        let found = crates_of(&metadata, "gregor").unwrap();
        let names: Vec<_> = found.iter().map(|one| one["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["deep", "gregor", "used"]);
        assert_eq!(found[0]["purl"], "pkg:cargo/deep@1.0.0");
        assert_eq!(found[0]["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert!(crates_of(&metadata, "other").is_err());
    }

    #[test]
    fn jars_are_named_with_their_hashes() {
        let check = |file: &str, name: &str, version: &str| {
            assert_eq!(name_and_version(file), (name.to_owned(), version.to_owned()));
        };
        check("libs/kafka_2.13-4.3.1.jar", "kafka_2.13", "4.3.1");
        check("libs/log4j-1.2-api-2.25.3.jar", "log4j", "1.2-api-2.25.3");
        check("libs/odd.jar", "odd", "");
        let jars = jars("4.3.1").unwrap();
        let clients = jars.iter().find(|jar| jar["name"] == "kafka-clients").unwrap();
        assert_eq!(clients["version"], "4.3.1");
        assert_eq!(clients["hashes"][0]["content"].as_str().unwrap().len(), 64);
    }

    #[test]
    fn packages_and_java_are_listed() {
        let found = packages("libc6:amd64\t2.36-9+deb12u14\nbash\t5.2\n");
        assert_eq!(found[0]["purl"], "pkg:deb/debian/libc6@2.36-9%2Bdeb12u14");
        assert_eq!(found.len(), 2);
        let release = "JAVA_VERSION=\"17.0.15\"\nJAVA_RUNTIME_VERSION=\"17.0.15+6\"\n";
        assert_eq!(java(release)[0]["version"], "17.0.15+6");
        assert!(java("").is_empty());
    }
}
