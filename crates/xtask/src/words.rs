//! `words`: lists every string that users read, one file per crate in `docs/generated/words`.
//!
//! The lists exist for reviews: a new or changed help text, error, log message, condition or description shows as a
//! changed line. They are sorted and have no line numbers, so that moving code changes nothing. A string is taken as
//! it is in the source, with its placeholders.
//!
//! Strings are found by form, without compiling: literals of two words or more, literals of messages, and doc comments
//! that clap, schemars or utoipa turn into text. Tests and the crates for development are left out.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::tidy::repository::Repository;
use crate::tidy::rust::{self, Kind};

/// Where the lists are.
const FOLDER: &str = "docs/generated/words";

/// Derives that turn doc comments into help texts, schemas or API descriptions.
const DESCRIBED: [&str; 9] = [
    "Args",
    "CustomResource",
    "IntoParams",
    "JsonSchema",
    "Parser",
    "Subcommand",
    "ToResponse",
    "ToSchema",
    "ValueEnum",
];

/// Calls and attributes whose literals are read even if they are one word.
const MESSAGES: [&str; 17] = [
    "anyhow!(",
    "bail!(",
    "context(",
    "debug!(",
    "ensure!(",
    "eprintln!(",
    "error!(",
    "error(",
    "eprint!(",
    "info!(",
    "print!(",
    "println!(",
    "register(",
    "trace!(",
    "warn!(",
    "with_context(||",
    "help =",
];

/// What precedes a literal that only developers read: the reason why code cannot panic or why a lint is off.
const INTERNAL: [&str; 4] = ["expect(", "reason =", "unreachable!(", "expect_err("];

/// Statements that are sent to a database.
const SQL: [&str; 8] =
    ["ALTER ", "CREATE ", "DELETE ", "DROP ", "INSERT ", "PRAGMA ", "SELECT ", "UPDATE "];

/// Writes the lists.
pub(crate) fn run(root: &Path) -> Result<()> {
    let lists = lists(&Repository::read(root)?);
    let folder = root.join(FOLDER);
    // A list of a crate that is gone must not stay.
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("cannot clear {FOLDER}"))?;
    }
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {FOLDER}"))?;
    for (path, list) in &lists {
        fs::write(root.join(path), list).with_context(|| format!("cannot write {path}"))?;
    }
    println!("{} lists in {FOLDER}", lists.len());
    Ok(())
}

/// The lists, by path.
fn lists(repository: &Repository) -> BTreeMap<String, String> {
    let mut strings: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for (path, text) in repository.production() {
        let name = path.split('/').nth(1).unwrap_or_default();
        strings.entry(name).or_default().extend(literals(text).into_iter().chain(docs(text)));
    }
    let list = |(name, strings): (&str, BTreeSet<String>)| {
        let mut list = String::new();
        strings.iter().for_each(|string| _ = writeln!(list, "{string}"));
        (format!("{FOLDER}/{name}.txt"), list)
    };
    strings.into_iter().filter(|(_, strings)| !strings.is_empty()).map(list).collect()
}

/// The literals that users read.
fn literals(text: &str) -> Vec<String> {
    let mut before = String::new();
    let mut found = Vec::new();
    for (kind, token) in rust::tokens(text) {
        match kind {
            Kind::Code => before.push_str(&token),
            Kind::Comment => {}
            Kind::Literal => {
                let literal = one_line(&token);
                if is_read(before.trim_end(), &literal) {
                    // A space at either end only separates it from another string.
                    found.push(literal.trim().to_owned());
                }
                // What follows a literal is another argument: it has this call before it no longer.
                before.clear();
            }
        }
    }
    found
}

/// Whether users read a literal after this code.
fn is_read(before: &str, literal: &str) -> bool {
    let follows = |calls: &[&str]| {
        calls.iter().any(|call| {
            let rest = before.strip_suffix(call);
            rest.is_some_and(|rest| !rest.ends_with(rust::is_word))
        })
    };
    let is_sql = SQL.iter().any(|verb| literal.starts_with(verb));
    let has_letters = literal.chars().any(char::is_alphabetic);
    !follows(&INTERNAL) && !is_sql && (is_prose(literal) || (has_letters && follows(&MESSAGES)))
}

/// Whether two words stand beside each other.
fn is_prose(literal: &str) -> bool {
    let is_word = |word: &str| {
        let word = word.trim_matches(|c: char| ",.:;()'`".contains(c));
        word.chars().count() > 1
            && word.chars().all(|c| c.is_alphabetic() || c == '-')
            && !word.starts_with('-')
    };
    let text = literal.replace("\\n", " ");
    let words: Vec<_> = text.split(' ').collect();
    words.windows(2).any(|pair| is_word(pair[0]) && is_word(pair[1]))
}

/// The content of a literal, with line ends as `\n` and without continuations of lines.
fn one_line(token: &str) -> String {
    let token = token.trim_start_matches('r').trim_matches('#');
    let content = token.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or("");
    let mut lines = content.split('\n');
    let mut text = lines.next().unwrap_or_default().to_owned();
    for line in lines {
        match text.strip_suffix('\\') {
            Some(continued) => text = format!("{continued}{}", line.trim_start()),
            None => text = format!("{text}\\n{line}"),
        }
    }
    text
}

/// The doc comments that become text for users, one string per paragraph.
fn docs(text: &str) -> Vec<String> {
    let code = rust::code(text);
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let mut documented = BTreeSet::new();
    for at in rust::words(&code, "derive").chain(rust::words(&code, "utoipa")) {
        let Some(open) = code[at..].find('(').map(|open| at + open) else { continue };
        let Some(close) = rust::closing(&code, open) else { continue };
        let is_route = code[at..].starts_with("utoipa::path(");
        let names = |name: &&str| rust::words(&code[open..close], name).next().is_some();
        if !is_route && !DESCRIBED.iter().any(names) {
            continue;
        }
        let first = rust::line_of(&code, at);
        let above = lines[..first - 1].iter().rev();
        let above = above.take_while(|line| line.starts_with("///") || line.starts_with("#["));
        documented.extend(first - 1 - above.count()..first);
        let body = code[close..].find(['{', ';']).map(|body| close + body);
        if let (false, Some(end)) = (is_route, body.and_then(|body| rust::closing(&code, body))) {
            documented.extend(first..rust::line_of(&code, end));
        }
    }
    paragraphs(documented.into_iter().map(|index| lines[index].strip_prefix("///")))
}

/// Joins the lines of doc comments; a blank one, and a line that is none, ends a paragraph.
fn paragraphs<'a>(lines: impl Iterator<Item = Option<&'a str>>) -> Vec<String> {
    let mut paragraphs = vec![String::new()];
    for line in lines {
        let line = line.unwrap_or_default().trim();
        match paragraphs.last_mut() {
            Some(last) if !line.is_empty() && last.is_empty() => last.push_str(line),
            Some(last) if !line.is_empty() => *last = format!("{last} {line}"),
            _ => paragraphs.push(String::new()),
        }
    }
    paragraphs.retain(|paragraph| !paragraph.is_empty());
    paragraphs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_are_fresh() {
        let repository = Repository::read(crate::root()).unwrap();
        let committed: BTreeMap<_, _> = repository
            .texts()
            .filter(|(path, _)| path.starts_with(FOLDER))
            .map(|(path, text)| (path.to_owned(), text.to_owned()))
            .collect();
        let stale: Vec<_> = lists(&repository)
            .into_iter()
            .filter(|(path, list)| committed.get(path) != Some(list))
            .map(|(path, _)| path)
            .collect();
        assert!(
            stale.is_empty() && committed.len() == lists(&repository).len(),
            "strings that users read have changed: run `cargo xtask words`, review the difference and commit it \
             ({stale:?})"
        );
    }

    #[test]
    fn literals_that_users_read_are_found() {
        let rows = [
            (r#"let a = "cannot reach broker {id}";"#, vec!["cannot reach broker {id}"]),
            (r#"info!("stopping");"#, vec!["stopping"]),
            (r##"f(r#"a "quoted" long text"#)"##, vec![r#"a "quoted" long text"#]),
            ("f(\"one \\\n     two three\")", vec!["one two three"]),
            ("f(\"first line\nsecond\")", vec!["first line\\nsecond"]),
            (r#"#[error("unreachable")] A"#, vec!["unreachable"]),
            (r#"x.expect("the lock is never poisoned")"#, vec![]),
            (r#"#[expect(dead_code, reason = "read by tests only")]"#, vec![]),
            (r#"sqlx::query("SELECT name FROM clusters")"#, vec![]),
            (r#"f("controller.quorum.voters", "a-b", "{} {}", "-Xmx4g")"#, vec![]),
            ("// a comment with \"a quoted text\"", vec![]),
        ];
        for (source, expected) in rows {
            assert_eq!(literals(source), expected, "{source}");
        }
    }

    #[test]
    fn doc_comments_that_become_text_are_found() {
        let source = "\
/// Manage users.
///
/// Of one
/// cluster.
#[derive(Debug, Args)]
struct User {
    /// Name of the user
    #[arg(long)]
    name: String,
}

/// Not shown.
#[derive(Debug)]
struct Other {
    /// Neither.
    name: String,
}

/// Lists clusters.
#[utoipa::path(get, path = \"/clusters\")]
fn list() {
    /// Not shown.
    fn inner() {}
}
";
        let expected = ["Manage users.", "Of one cluster.", "Name of the user", "Lists clusters."];
        assert_eq!(docs(source), expected);
    }

    #[test]
    fn there_is_one_sorted_list_per_crate_without_tests() {
        let source = "fn f() { g(\"second text\", \"first text\"); g(\"first text\"); }\n\
                      #[cfg(test)]\nmod tests {\n    fn t() { g(\"text of a test\"); }\n}\n";
        let files = [
            ("crates/node/src/a.rs", source),
            ("crates/node/src/b_tests.rs", source),
            ("crates/testkit/src/a.rs", source),
            ("crates/model/src/a.rs", "fn f() {}\n"),
        ];
        let lists = lists(&Repository::of(&files));
        let expected = [(format!("{FOLDER}/node.txt"), "first text\nsecond text\n".to_owned())];
        assert_eq!(lists.into_iter().collect::<Vec<_>>(), expected);
    }
}
