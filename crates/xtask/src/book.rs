//! `doc`: the guide as static pages, from the Markdown files of the repository.
//!
//! Pages link to files of the repository as they do there. The book contains the pages, the examples and the monitoring files;
//! links to anything else, such as source files, become plain text. After the build every internal link must resolve.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::root;
use crate::run::{Line, Run, target};
use crate::tools;

/// What the book contains: files, and folders with all of their files.
const PARTS: [&str; 7] = [
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "docs",
    "examples",
    "deploy/monitoring",
];

/// Not part of the book: lists of strings for reviewers.
const LEFT_OUT: &str = "docs/generated/words";

/// The order of the pages, with paths relative to `docs`.
const SUMMARY: &str = "docs/SUMMARY.md";

const CONFIGURATION: &str = "[book]\ntitle = \"Gregor\"\nlanguage = \"en\"\nsrc = \"src\"\n\n[output.html]\n\
                             default-theme = \"light\"\npreferred-dark-theme = \"navy\"\n\n[output.html.print]\nenable = false\n";

/// Builds the book into `target/book`.
pub(crate) fn build(run: &mut Run) -> Result<()> {
    let folder = target()?.join("guide");
    let output = target()?.join("book");
    run.inline("guide-pages", "cargo xtask doc", || prepare(&folder))?;
    let mdbook = Line::program(tools::program("mdbook", "doc")?).arg("build");
    let line = mdbook
        .arg("--dest-dir")
        .arg(output.display().to_string())
        .arg(folder.display().to_string());
    run.step("guide", &line)?;
    run.inline("guide-links", "cargo xtask doc", || {
        let broken = broken_links(&output)?;
        ensure!(broken.is_empty(), "broken links:\n{}", broken.join("\n"));
        Ok(())
    })?;
    println!("doc: {}", output.join("index.html").display());
    Ok(())
}

/// Writes the sources of the book.
fn prepare(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("cannot remove {folder:?}"))?;
    }
    let files = files()?;
    for file in &files {
        let to = folder.join("src").join(file);
        let parent = to.parent().context("a file has a folder")?;
        fs::create_dir_all(parent).with_context(|| format!("cannot create {parent:?}"))?;
        let bytes = fs::read(root().join(file)).with_context(|| format!("cannot read {file:?}"))?;
        let bytes = match (file.extension(), String::from_utf8(bytes)) {
            (Some(end), Ok(text)) if end == "md" => within(&text, file, &files).into_bytes(),
            (_, Ok(text)) => text.into_bytes(),
            (_, Err(error)) => error.into_bytes(),
        };
        fs::write(&to, bytes).with_context(|| format!("cannot write {to:?}"))?;
    }
    let summary = fs::read_to_string(root().join(SUMMARY)).context(SUMMARY)?;
    fs::write(folder.join("src/SUMMARY.md"), summary_of(&summary))
        .context("cannot write the summary")?;
    fs::write(folder.join("book.toml"), CONFIGURATION).context("cannot write the configuration")
}

/// The summary for the book, whose paths begin at the root of the repository.
fn summary_of(text: &str) -> String {
    text.replace("](", "](docs/").replace("](docs/)", "]()").replace("docs/../", "")
}

/// All files of the book, relative to the root of the repository.
fn files() -> Result<BTreeSet<PathBuf>> {
    let mut files = BTreeSet::new();
    let mut open: Vec<PathBuf> = PARTS.iter().map(PathBuf::from).collect();
    while let Some(path) = open.pop() {
        let full = root().join(&path);
        if path == Path::new(LEFT_OUT) || path == Path::new(SUMMARY) {
            continue;
        }
        if full.is_dir() {
            for entry in fs::read_dir(&full).with_context(|| format!("cannot read {full:?}"))? {
                open.push(path.join(entry.context("cannot read a folder")?.file_name()));
            }
        } else {
            files.insert(path);
        }
    }
    Ok(files)
}

/// A page in which links that leave the book are plain text.
fn within(text: &str, page: &Path, files: &BTreeSet<PathBuf>) -> String {
    let mut result = String::new();
    let mut is_code = false;
    for line in text.split_inclusive('\n') {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        }
        result.push_str(&if is_code { line.to_owned() } else { line_within(line, page, files) });
    }
    result
}

fn line_within(line: &str, page: &Path, files: &BTreeSet<PathBuf>) -> String {
    let mut result = String::new();
    let mut rest = line;
    while let Some(middle) = rest.find("](") {
        let (before, after) = rest.split_at(middle);
        let Some(end) = after.find(')') else { break };
        let target = &after[2..end];
        let begin = before.rfind('[');
        match begin.filter(|_| leaves(target, page, files)) {
            Some(begin) => {
                result.push_str(&before[..begin]);
                result.push_str(&before[begin + 1..]);
            }
            None => {
                result.push_str(before);
                result.push_str(&after[..=end]);
            }
        }
        rest = &after[end + 1..];
    }
    result.push_str(rest);
    result
}

/// Whether the target of a link is a path that is no file of the book.
fn leaves(target: &str, page: &Path, files: &BTreeSet<PathBuf>) -> bool {
    let path = target.split('#').next().unwrap_or_default();
    if path.is_empty() || path.contains("://") {
        return false;
    }
    let folder = page.parent().unwrap_or(Path::new(""));
    !files.contains(&normal(&folder.join(path)))
}

/// A path without `.` and `..`.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(normal.pop()),
            Component::CurDir => {}
            Component::Normal(_) | Component::RootDir | Component::Prefix(_) => normal.push(part),
        }
    }
    normal
}

/// Links of the built pages whose file does not exist.
fn broken_links(output: &Path) -> Result<Vec<String>> {
    let mut broken = Vec::new();
    let mut open = vec![output.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).with_context(|| format!("cannot read {folder:?}"))? {
            let path = entry.context("cannot read a folder")?.path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|end| end == "html") {
                let text =
                    fs::read_to_string(&path).with_context(|| format!("cannot read {path:?}"))?;
                let here = path.strip_prefix(output).unwrap_or(&path).display().to_string();
                let targets = targets(&text).into_iter();
                let missing = targets.filter(|target| !normal(&folder.join(target)).exists());
                broken.extend(missing.map(|target| format!("{here}: {target}")));
            }
        }
    }
    broken.sort();
    broken.dedup();
    Ok(broken)
}

/// The relative targets of the links and pictures of a page, without anchors.
fn targets(html: &str) -> Vec<String> {
    let after =
        ["href=\"", "src=\""].into_iter().flat_map(|attribute| html.split(attribute).skip(1));
    let target = |text: &str| {
        let target = text.split(['"', '#', '?']).next().unwrap_or_default();
        let is_relative = !target.is_empty() && !target.contains(':') && !target.starts_with('/');
        is_relative.then(|| target.to_owned())
    };
    after.filter_map(target).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_that_leave_the_book_are_plain_text() {
        let files = ["docs/a.md", "docs/tasks/b.md", "examples/c.yaml"].map(PathBuf::from).into();
        let page = Path::new("docs/tasks/b.md");
        let check = |line: &str, expected: &str| assert_eq!(within(line, page, &files), expected);
        check(
            "[a](../a.md#x), [c](../../examples/c.yaml)\n",
            "[a](../a.md#x), [c](../../examples/c.yaml)\n",
        );
        check(
            "[code](../../crates/x.rs) and [all](https://example.com)\n",
            "code and [all](https://example.com)\n",
        );
        check("[here](#title)\n", "[here](#title)\n");
        check("```\n[x](../no.md)\n```\n", "```\n[x](../no.md)\n```\n");
    }

    #[test]
    fn links_of_pages_are_found() {
        let html =
            "<a href=\"b.html#x\">b</a> <img src=\"c.png\"> <a href=\"#d\"> <a href=\"https://e\">";
        assert_eq!(targets(html), ["b.html", "c.png"]);
    }

    #[test]
    fn every_page_for_readers_is_in_the_summary() {
        let summary = summary_of(&fs::read_to_string(root().join(SUMMARY)).unwrap());
        let pages = files().unwrap().into_iter().filter(|file| {
            let path = file.to_string_lossy();
            path.starts_with("docs/") && path.ends_with(".md")
        });
        let missing: Vec<_> =
            pages.filter(|page| !summary.contains(&format!("]({})", page.display()))).collect();
        assert!(missing.is_empty(), "{SUMMARY} lacks {missing:?}");
    }
}
