//! The documentation, compared with the program: the reference of commands is generated from the command line, and every
//! command in a code block of the documentation must be one that the command line accepts.
//!
//! `GREGOR_UPDATE=1 cargo test --workspace --bin gregor docs` writes the reference anew.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use clap::CommandFactory as _;
use clap::error::ErrorKind;

use crate::Cli;

const UPDATE: &str = "GREGOR_UPDATE";
const REFERENCE: &str = "docs/generated/commands.md";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The program, as if on a terminal of fixed width.
fn program() -> clap::Command {
    let mut program = Cli::command().term_width(100).disable_help_subcommand(true);
    program.build();
    program
}

/// Adds the help of a command and of its subcommands.
fn describe(text: &mut String, command: &clap::Command, path: &str) {
    if command.is_hide_set() {
        return;
    }
    let help = command
        .clone()
        .mut_args(|arg| arg.hide_env_values(true))
        .bin_name(path)
        .term_width(100)
        .render_long_help()
        .to_string();
    let lines: Vec<_> = help.lines().map(str::trim_end).collect();
    let _ = write!(text, "\n## {path}\n\n```text\n{}\n```\n", lines.join("\n").trim_end());
    for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
        describe(text, sub, &format!("{path} {}", sub.get_name()));
    }
}

#[test]
fn docs_list_every_command_and_option() {
    let mut expected = format!(
        "# Commands\n\nGenerated from the command line by `{UPDATE}=1 cargo test --workspace --bin gregor docs`.\n"
    );
    describe(&mut expected, &program(), "gregor");
    let file = root().join(REFERENCE);
    if std::env::var_os(UPDATE).is_some() {
        fs::write(&file, &expected).unwrap();
    }
    let found = fs::read_to_string(&file).unwrap_or_default();
    assert!(
        found == expected,
        "{REFERENCE} is stale: {UPDATE}=1 cargo test --workspace --bin gregor docs"
    );
}

/// All pages that people read.
fn pages() -> Vec<PathBuf> {
    let mut pages = vec![root().join("README.md"), root().join("CONTRIBUTING.md")];
    let mut folders = vec![root().join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let is_decision = path.ends_with("decisions");
            if path.is_dir() && !is_decision {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "md") {
                pages.push(path);
            }
        }
    }
    pages.sort();
    pages
}

/// The commands in the shell blocks of a page, with their line numbers: those after a prompt where a block has prompts,
/// else all of its lines.
fn commands(page: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut block: Option<Vec<(usize, &str)>> = None;
    for (index, line) in page.lines().enumerate() {
        match (&mut block, line.trim_start().strip_prefix("```")) {
            (None, Some("sh" | "console" | "bash")) => block = Some(Vec::new()),
            (None, Some(_)) => block = Some(vec![(0, "not a shell")]),
            (None, None) => {}
            (Some(_), Some(_)) => found.extend(block.take().map(joined).unwrap_or_default()),
            (Some(lines), None) => lines.push((index + 1, line)),
        }
    }
    found
}

/// The commands of one block. A line that ends with a backslash goes on in the next.
fn joined(lines: Vec<(usize, &str)>) -> Vec<(usize, String)> {
    if lines.first().is_some_and(|(line, _)| *line == 0) {
        return Vec::new();
    }
    let has_prompts = lines.iter().any(|(_, text)| text.trim_start().starts_with("$ "));
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut goes_on = false;
    for (number, text) in lines {
        let text = text.trim();
        let command = match text.strip_prefix("$ ") {
            Some(command) => Some(command),
            None if goes_on || !has_prompts => Some(text),
            None => None,
        };
        let Some(command) = command else { continue };
        let (body, more) = match command.strip_suffix('\\') {
            Some(body) => (body, true),
            None => (command, false),
        };
        match found.last_mut().filter(|_| goes_on) {
            Some((_, last)) => last.push_str(body),
            None => found.push((number, body.to_owned())),
        }
        goes_on = more;
    }
    found
}

/// The calls of this program in a shell command, as words: between pipes, and in command substitutions.
fn calls(command: &str) -> Vec<Vec<String>> {
    let mut all = Vec::new();
    let mut words: Vec<String> = Vec::new();
    let mut word = String::new();
    let mut quote: Option<char> = None;
    let mut is_word = false;
    let mut letters = command.chars().peekable();
    let mut end = |words: &mut Vec<String>| all.push(std::mem::take(words));
    while let Some(letter) = letters.next() {
        let closes = quote == Some(letter);
        match letter {
            _ if closes => quote = None,
            '\'' | '"' if quote.is_none() => {
                quote = Some(letter);
                is_word = true;
            }
            '$' if quote != Some('\'') && letters.peek() == Some(&'(') => {
                let inner: String =
                    letters.by_ref().skip(1).take_while(|next| *next != ')').collect();
                let inner: Vec<String> = inner.split_whitespace().map(str::to_owned).collect();
                end(&mut inner.clone());
                word.push_str("value");
                is_word = true;
            }
            _ if quote.is_some() => word.push(letter),
            '#' if !is_word => break,
            ' ' | '\t' | '|' | ';' | '&' | '>' | '<' => {
                if is_word {
                    words.push(std::mem::take(&mut word));
                    is_word = false;
                }
                if matches!(letter, '|' | ';' | '&') {
                    end(&mut words);
                } else if matches!(letter, '>' | '<') {
                    words.push(letter.to_string());
                }
            }
            _ => {
                word.push(letter);
                is_word = true;
            }
        }
    }
    if is_word {
        words.push(word);
    }
    end(&mut words);
    all.into_iter().filter_map(own).collect()
}

/// The words of a call of this program; `None` for other programs.
fn own(words: Vec<String>) -> Option<Vec<String>> {
    let is_setting = |word: &String| {
        word.split_once('=').is_some_and(|(name, _)| {
            !name.is_empty()
                && name.chars().all(|c| c.is_ascii_uppercase() || "_0123456789".contains(c))
        })
    };
    let words: Vec<_> =
        words.into_iter().skip_while(|word| is_setting(word) || *word == "export").collect();
    let words: Vec<_> = words.into_iter().take_while(|word| word != ">" && word != "<").collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["kubectl", "gregor", ..] => Some(words.into_iter().skip(1).collect()),
        ["gregor", ..] => Some(words),
        _ => None,
    }
}

#[test]
fn docs_show_only_commands_that_exist() {
    let mut wrong = Vec::new();
    let mut seen = BTreeSet::new();
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        for (line, command) in commands(&text) {
            for words in calls(&command) {
                seen.extend(words.get(1).cloned());
                let Err(error) = Cli::command().try_get_matches_from(&words) else { continue };
                if !matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
                    let what = error.to_string().lines().next().unwrap_or_default().to_owned();
                    wrong.push(format!("{}:{line}: {}: {what}", page.display(), words.join(" ")));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // Every command that people call is shown somewhere.
    let all = program();
    let missing: Vec<_> = all
        .get_subcommands()
        .filter(|command| !command.is_hide_set())
        .map(clap::Command::get_name)
        .filter(|name| {
            !["help", "node", "operator", "kubelet"].contains(name) && !seen.contains(*name)
        })
        .collect();
    assert_eq!(missing, Vec::<&str>::new(), "these commands are on no page");
}

#[test]
fn docs_commands_are_found_as_a_shell_reads_them() {
    let page = "text\n```console\n$ gregor why a   # a comment\noutput: gregor why\n$ A=b gregor install | kubectl apply -f -\n\
                ```\n```sh\nexport KUBECONFIG=$(gregor kubeconfig)\nkubectl gregor plan \\\n  -f 'my file' > out\n```\n\
                ```yaml\ngregor: no\n```\n";
    let found: Vec<_> = commands(page).iter().flat_map(|(_, command)| calls(command)).collect();
    let found: Vec<_> = found.iter().map(|words| words.join(" ")).collect();
    let expected =
        ["gregor why a", "gregor install", "gregor kubeconfig", "gregor plan -f my file"];
    assert_eq!(found, expected);
}
