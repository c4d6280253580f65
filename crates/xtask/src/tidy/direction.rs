//! Dependencies: which of our crates may depend on which, and which external crates pure crates may use.

use std::collections::BTreeSet;

use toml::{Table, Value};

use super::Finding;
use super::repository::Repository;
use super::table::{self, Crate, Kind};

/// Whether a dependency is for the crate or only for its tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Code,
    Tests,
}

/// The dependency tables of a manifest. Build dependencies count as code.
const TABLES: &[(&str, Purpose)] = &[
    ("dependencies", Purpose::Code),
    ("build-dependencies", Purpose::Code),
    ("dev-dependencies", Purpose::Tests),
];

pub(super) fn check(repository: &Repository) -> Vec<Finding> {
    let workspace = repository.text("Cargo.toml").and_then(|text| toml::from_str(text).ok());
    let workspace: Table = workspace.unwrap_or_default();
    let folders: BTreeSet<&str> = repository.paths().filter_map(crate_folder).collect();
    folders.iter().flat_map(|folder| check_crate(repository, &workspace, folder)).collect()
}

/// The directory in `crates/` that contains a file.
fn crate_folder(path: &str) -> Option<&str> {
    path.strip_prefix("crates/")?.split_once('/').map(|(folder, _)| folder)
}

fn check_crate(repository: &Repository, workspace: &Table, folder: &str) -> Vec<Finding> {
    let path = format!("crates/{folder}/Cargo.toml");
    let found = |message: String| vec![Finding::new(&path, 0, message)];
    let Some(text) = repository.text(&path) else {
        return found("every directory in crates/ is a crate, and this one has no manifest".into());
    };
    let manifest: Table = match toml::from_str(text) {
        Ok(manifest) => manifest,
        Err(error) => return found(format!("cannot parse the manifest: {}", error.message())),
    };
    let Some(row) = table::find(folder) else {
        return found(format!(
            "`{folder}` is not in the crate table; add a row to crates/xtask/src/tidy/table.rs"
        ));
    };
    let mut messages = Vec::new();
    if at(&manifest, &["package", "name"]).and_then(Value::as_str) != Some(folder) {
        messages.push(format!("the crate in the directory {folder} must have its name"));
    }
    if at(&manifest, &["lints", "workspace"]).and_then(Value::as_bool) != Some(true) {
        messages.push("the crate must inherit the lints of the workspace".into());
    }
    for (name, purpose) in dependencies(&manifest, workspace) {
        messages.extend(complaint(row, &name, purpose));
    }
    messages.into_iter().map(|message| Finding::new(&path, 0, message)).collect()
}

fn at<'a>(table: &'a Table, path: &[&str]) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    rest.iter().try_fold(table.get(*first)?, |value, key| value.get(key))
}

/// All dependencies by their real name, including target-specific ones.
fn dependencies(manifest: &Table, workspace: &Table) -> Vec<(String, Purpose)> {
    let for_targets = manifest.get("target").and_then(Value::as_table);
    let for_targets = for_targets.into_iter().flat_map(Table::values).filter_map(Value::as_table);
    let mut all = Vec::new();
    for scope in std::iter::once(manifest).chain(for_targets) {
        for (name, purpose) in TABLES {
            let named = scope.get(*name).and_then(Value::as_table).into_iter().flatten();
            all.extend(named.map(|(key, spec)| (real_name(key, spec, workspace), *purpose)));
        }
    }
    all
}

/// A dependency can be renamed, here or in the workspace; the ban is on the crate itself.
fn real_name(key: &str, spec: &Value, workspace: &Table) -> String {
    let inherited = at(workspace, &["workspace", "dependencies", key]);
    let renamed = spec.get("package").or_else(|| inherited?.get("package"));
    renamed.and_then(Value::as_str).unwrap_or(key).to_owned()
}

/// What is wrong with a dependency, if anything.
fn complaint(row: &Crate, used: &str, purpose: Purpose) -> Option<String> {
    let name = row.name;
    if table::find(used).is_some() {
        let allowed = row.uses.contains(&used)
            || (purpose == Purpose::Tests && row.tests_use.contains(&used));
        let tests = if purpose == Purpose::Tests { "the tests of " } else { "" };
        return (!allowed).then(|| {
            format!("{tests}`{name}` must not depend on `{used}`: see the table in tidy/table.rs")
        });
    }
    let listed = |list: &[(&str, &str)]| list.iter().any(|(allowed, _)| *allowed == used);
    match row.kind {
        Kind::Pure if listed(table::PURE_MAY_USE) => None,
        Kind::Pure if purpose == Purpose::Tests && listed(table::PURE_TESTS_MAY_USE) => None,
        Kind::Pure => Some(format!(
            "`{name}` is pure and `{used}` is not on the list of what pure crates may use"
        )),
        // Tests of an edge crate are unrestricted; its code is not.
        Kind::Edge if purpose == Purpose::Code && table::EDGE_MUST_NOT_USE.contains(&used) => {
            Some(format!("`{name}` only translates and must not depend on `{used}`"))
        }
        Kind::Edge | Kind::Io | Kind::Binary | Kind::Dev => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The findings for a crate with these dependency tables.
    fn messages(folder: &str, dependencies: &str) -> Vec<String> {
        let manifest =
            format!("[package]\nname = '{folder}'\n[lints]\nworkspace = true\n{dependencies}");
        let workspace = "[workspace.dependencies]\nserial = { package = 'serde', version = '1' }\n\
                         clock = { package = 'chrono', version = '1' }";
        let path = format!("crates/{folder}/Cargo.toml");
        let repository = Repository::of(&[("Cargo.toml", workspace), (&path, &manifest)]);
        check(&repository).into_iter().map(|finding| finding.message).collect()
    }

    #[track_caller]
    fn one(folder: &str, dependencies: &str, part: &str) {
        let messages = messages(folder, dependencies);
        assert!(messages.len() == 1 && messages[0].contains(part), "{messages:?}");
    }

    #[track_caller]
    fn none(folder: &str, dependencies: &str) {
        assert_eq!(messages(folder, dependencies), Vec::<String>::new());
    }

    #[test]
    fn our_crates_point_inward() {
        none("operator", "[dependencies]\ncontrol.workspace = true\nmodel.workspace = true");
        one("operator", "[dependencies]\nlocal.workspace = true", "must not depend on `local`");
        one("model", "[dependencies]\ncontrol.workspace = true", "must not depend on `control`");
        one("model", "[target.'cfg(unix)'.dependencies]\napi.workspace = true", "`api`");
    }

    #[test]
    fn the_testkit_is_for_tests() {
        none("kafka-admin", "[dev-dependencies]\ntestkit.workspace = true");
        one("kafka-admin", "[dependencies]\ntestkit.workspace = true", "`testkit`");
        one("kafka-admin", "[build-dependencies]\ntestkit.workspace = true", "`testkit`");
        one("control", "[dev-dependencies]\ntestkit.workspace = true", "the tests of `control`");
    }

    #[test]
    fn pure_crates_use_only_what_is_listed() {
        none("model", "[dependencies]\nserde = '1'\n[dev-dependencies]\nproptest = '1'");
        one("model", "[dependencies]\ntokio.workspace = true", "`tokio`");
        one("model", "[dependencies]\nproptest = '1'", "`proptest`");
        one("model", "[dev-dependencies]\nrand = '1'", "`rand`");
    }

    #[test]
    fn a_new_name_does_not_hide_what_is_used() {
        none("model", "[dependencies]\nserial.workspace = true");
        one("model", "[dependencies]\nclock.workspace = true", "`chrono`");
        one("model", "[dependencies]\nserde = { package = 'rand', version = '1' }", "`rand`");
    }

    #[test]
    fn an_edge_crate_only_translates() {
        none("api", "[dependencies]\nkube = '1'");
        one("api", "[dependencies]\ntokio.workspace = true", "`tokio`");
    }

    #[test]
    fn a_crate_must_be_in_the_table_under_the_name_of_its_folder() {
        one("helpers", "", "not in the crate table");
        let manifest = "[package]\nname = 'modell'\n[lints]\nworkspace = true";
        let repository = Repository::of(&[("crates/model/Cargo.toml", manifest)]);
        assert_eq!(check(&repository).len(), 1);
        let repository = Repository::of(&[("crates/model/src/lib.rs", "")]);
        assert!(check(&repository)[0].message.contains("no manifest"));
    }

    #[test]
    fn no_crate_has_lints_of_its_own() {
        let manifest = "[package]\nname = 'model'\n[lints.rust]\nunsafe_code = 'allow'";
        let repository = Repository::of(&[("crates/model/Cargo.toml", manifest)]);
        assert!(check(&repository)[0].message.contains("lints of the workspace"));
    }
}
