//! Every public function of `control` is called by production code: a decision that only tests call decides
//! nothing.
//!
//! The compiler does not see this, because tests and other crates may call public functions. Names are not
//! resolved, so a use is what looks like one:
//!
//! 1. of a method, `.name(` anywhere: the type before the dot is unknown;
//! 2. of an associated function, `Type::name`, or `Self::name` in its own file;
//! 3. of a free function, `module::name` after its own module or one above it, or `name` alone in its own file or in
//!    one that imports it.
//!
//! A dead method with a common name is not found; a live function is never reported. Simulations and tests
//! are not production code.

use std::collections::BTreeSet;

use super::Finding;
use super::repository::Repository;
use super::rust;

/// Where decisions are made.
const DECISIONS: &str = "crates/control/src/";

pub(super) fn check(repository: &Repository) -> Vec<Finding> {
    let sources: Vec<Source<'_>> =
        repository.production().map(|(path, text)| Source::new(path, text)).collect();
    let mut findings = Vec::new();
    for source in sources.iter().filter(|source| source.path.starts_with(DECISIONS)) {
        for function in functions(source) {
            if !sources.iter().any(|other| is_used_in(&function, source, other)) {
                let message = format!("no production code calls `{}`", function.name);
                let line = rust::line_of(&source.code, function.at);
                findings.push(Finding::new(source.path, line, message));
            }
        }
    }
    findings
}

/// A file of production code.
struct Source<'a> {
    path: &'a str,
    /// Its code, without the imports.
    code: String,
    /// The names that it imports.
    imports: BTreeSet<String>,
    /// The names that it gives to what it imports.
    aliases: BTreeSet<String>,
}

impl<'a> Source<'a> {
    fn new(path: &'a str, text: &str) -> Self {
        let mut code = rust::code(text);
        let (mut imports, mut aliases) = (BTreeSet::new(), BTreeSet::new());
        let trees: Vec<_> = rust::words(&code, "use").collect();
        for at in trees {
            let end = at + code[at..].find(';').unwrap_or(code.len() - at);
            let words = code[at..end].split(|c| !rust::is_word(c)).filter(|word| !word.is_empty());
            let words: Vec<String> = words.map(str::to_owned).collect();
            let renamed = words.windows(2).filter(|pair| pair[0] == "as").map(|pair| &pair[1]);
            aliases.extend(renamed.cloned());
            let blank: String =
                code[at..end].chars().map(|c| if c == '\n' { c } else { ' ' }).collect();
            // Blanks are as long as what they replace: names are ASCII.
            code.replace_range(at..end, &blank);
            imports.extend(words);
        }
        Self { path, code, imports, aliases }
    }
}

/// A public function of `control`.
struct Function {
    name: String,
    at: usize,
    /// The type that it is a function of.
    of: Option<String>,
    is_method: bool,
    /// Its module and those above it.
    modules: BTreeSet<String>,
}

fn functions(source: &Source<'_>) -> Vec<Function> {
    let code = &source.code;
    let public = rust::words(code, "fn")
        .filter(|at| code[..*at].trim_end().trim_end_matches("const").trim_end().ends_with("pub"));
    let function = |at: usize| {
        let rest = code[at + 2..].trim_start();
        let end = rest.find(|c| !rust::is_word(c)).unwrap_or(rest.len());
        let parameters = &rest[rest.find('(').unwrap_or(rest.len())..];
        let first = &parameters[..parameters.find([',', ')']).unwrap_or(parameters.len())];
        Function {
            name: rest[..end].to_owned(),
            at,
            of: type_at(code, at),
            is_method: rust::words(first, "self").next().is_some(),
            modules: modules(source.path),
        }
    };
    public.map(function).collect()
}

/// The type whose `impl` this place is in. Such blocks begin and end in the first column.
fn type_at(code: &str, at: usize) -> Option<String> {
    let before = &code[..at];
    let begin = before.rfind("\nimpl").map(|at| at + 1)?;
    if before[begin..].contains("\n}") {
        return None;
    }
    let head = &before[begin + 4..begin + before[begin..].find('{')?];
    let head = head.rsplit(" for ").next().unwrap_or(head);
    // `<A: Enter> Journal<A>` is one of `Journal`.
    let head = match head.starts_with('<') {
        true => &head[head.find("> ")? + 1..],
        false => head,
    };
    let name = head.trim_start();
    let end = name.find(|c| !rust::is_word(c) && c != ':').unwrap_or(name.len());
    Some(name[..end].rsplit("::").next().unwrap_or_default().to_owned())
}

/// The modules of a file: `a`, `b` and `c` of `src/a/b/c.rs`.
fn modules(path: &str) -> BTreeSet<String> {
    let path = path.trim_start_matches(DECISIONS).trim_end_matches(".rs");
    let names = path.split('/').filter(|name| !matches!(*name, "mod" | "lib"));
    names.chain(["crate", "control", "super", "self"]).map(str::to_owned).collect()
}

fn is_used_in(function: &Function, defined: &Source<'_>, source: &Source<'_>) -> bool {
    let is_own = defined.path == source.path;
    let code = &source.code;
    rust::words(code, &function.name).any(|at| {
        let before = code[..at].trim_end();
        let after = code[at + function.name.len()..].trim_start();
        if before.ends_with("fn") {
            return false;
        }
        let qualifier = before.strip_suffix("::").map(last_word);
        match (&function.of, qualifier) {
            (Some(of), Some("Self")) => type_at(code, at).as_ref() == Some(of),
            (Some(of), Some(word)) => word == of || source.aliases.contains(word),
            (Some(_), None) => {
                let is_member = before.ends_with('.') && !before.ends_with("..");
                let is_called = after.starts_with('(') || after.starts_with("::");
                function.is_method && is_member && is_called
            }
            (None, Some(word)) => function.modules.contains(word) || source.aliases.contains(word),
            (None, None) => {
                let is_known = is_own || source.imports.contains(&function.name);
                is_known && !before.ends_with('.') && !after.starts_with(':')
            }
        }
    })
}

/// The last word of a path, without what stands between angle brackets.
fn last_word(path: &str) -> &str {
    let path = match path.strip_suffix('>') {
        Some(_) => &path[..path.rfind('<').unwrap_or(0)],
        None => path,
    };
    let path = path.strip_suffix("::").unwrap_or(path);
    let start = path.rfind(|c| !rust::is_word(c)).map_or(0, |at| at + 1);
    &path[start..]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        check(&Repository::of(files)).into_iter().map(|found| found.to_string()).collect()
    }

    #[test]
    fn a_function_that_only_tests_and_simulations_call_is_found() {
        let decisions = "pub fn used() {}\npub const fn unused() {}\nfn private() {}\n\
                         #[cfg(test)]\nmod tests {\n    fn t() { unused(); unused(); }\n}\n";
        let files = [
            ("crates/control/src/a.rs", decisions),
            ("crates/operator/src/b.rs", "use control::a::used;\nfn run() { used(); }\n"),
            ("crates/control/tests/c.rs", "fn t() { unused(); }\n"),
            ("crates/sim/src/d.rs", "fn t() { control::a::unused(); }\n"),
        ];
        assert_eq!(found(&files), ["crates/control/src/a.rs:2: no production code calls `unused`"]);
    }

    #[test]
    fn what_only_looks_like_a_call_is_none() {
        // What control has, what another crate does, and whether that calls it.
        let rows = [
            ("pub fn go() {}", "fn f() { control::a::go(); }", true),
            ("pub fn go() {}", "use control::a;\nfn f() { x.map(a::go); }", true),
            ("pub fn go() {}", "use control::a as other;\nfn f() { other::go(); }", true),
            ("pub fn go() {}", "use control::a::{b, go};\nfn f() { go(); }", true),
            ("pub fn go() {}", "use control::a::go;\n", false),
            ("pub fn go() {}", "pub use control::a::{go, b};\n", false),
            ("pub fn go() {}", "fn go() {}\nfn f() { go(); }", false),
            ("pub fn go() {}", "fn f() { x.go(); }", false),
            ("pub fn go() {}", "fn f() { other::go(); }", false),
            ("impl T {\n    pub fn go(&self) {}\n}", "fn f() { x.go(); }", true),
            ("impl T {\n    pub fn go(&self) {}\n}", "fn f() { x.map(T::go); }", true),
            ("impl T {\n    pub fn go(&self) {}\n}", "fn f() { x.go; }", false),
            ("impl T {\n    pub fn go(&self) {}\n}", "fn f() { go(); U::go(); }", false),
            ("impl T {\n    pub fn go() {}\n}", "fn f() { x.go(); }", false),
            ("impl T {\n    pub fn go() {}\n}", "fn f() { control::a::T::go(); }", true),
            ("impl T {\n    pub fn go() {}\n    fn f() { Self::go(); }\n}", "fn f() {}", true),
            ("impl<A: B> T<A> {\n    pub fn go() {}\n}", "fn f() { T::<X>::go(); }", true),
        ];
        for (decisions, other, expected) in rows {
            let decisions = format!("//! Doc.\n{decisions}\n");
            let files = [
                ("crates/control/src/a.rs", decisions.as_str()),
                ("crates/operator/src/b.rs", other),
            ];
            assert_eq!(found(&files).is_empty(), expected, "{decisions} {other}");
        }
    }
}
