//! Maximum length of functions and files. Longer ones are listed with their length, and the list may only
//! shrink.

use super::Finding;
use super::repository::Repository;
use super::rust;

/// Fits on one screen. Blank lines and comments do not count.
const FUNCTION_LINES_MAX: usize = 70;

/// A longer file has more than one subject. Counted up to its unit tests.
const FILE_LINES_MAX: usize = 600;

/// Longer functions: file, name, length. Do not add to it.
const LONG_FUNCTIONS: &[(&str, &str, usize)] = &[];

/// Longer files: path, length. Do not add to it.
const LONG_FILES: &[(&str, usize)] = &[];

pub(super) fn check(repository: &Repository) -> Vec<Finding> {
    let functions: Vec<_> = LONG_FUNCTIONS.iter().map(|(p, f, n)| ((*p, *f), *n)).collect();
    let mut findings = ratchet(long_functions(repository), &functions, FUNCTION_LINES_MAX);
    let files: Vec<_> = LONG_FILES.iter().map(|(path, lines)| ((*path, ""), *lines)).collect();
    findings.extend(ratchet(long_files(repository), &files, FILE_LINES_MAX));
    findings
}

/// A function or file that is too long.
#[derive(Debug, PartialEq, Eq)]
struct Long {
    path: String,
    name: String,
    line: usize,
    length: usize,
}

/// File and function name; the name is empty for a file.
type Key<'a> = (&'a str, &'a str);

/// Reports what is too long and not listed, longer than listed, or listed but shorter now.
fn ratchet(found: Vec<Long>, listed: &[(Key<'_>, usize)], max: usize) -> Vec<Finding> {
    let mut findings = Vec::new();
    for long in &found {
        let key = (long.path.as_str(), long.name.as_str());
        let allowed = listed.iter().find(|(k, _)| *k == key).map_or(max, |(_, length)| *length);
        if long.length > allowed {
            let what = if long.name.is_empty() { "the file" } else { long.name.as_str() };
            let message = format!("{what} has {} lines, {allowed} are allowed", long.length);
            findings.push(Finding::new(&long.path, long.line, message));
        }
    }
    for ((path, name), length) in listed {
        // Not found means within the general limit.
        let now = found.iter().find(|long| (*path, *name) == (&long.path, &long.name));
        if now.is_none_or(|now| now.length < *length) {
            let message = format!(
                "`{name}` is listed with {length} lines in tidy/size.rs and has fewer now: lower \
                 the number or remove the row"
            );
            findings.push(Finding::new(*path, 0, message));
        }
    }
    findings
}

fn long_files(repository: &Repository) -> Vec<Long> {
    let mut long = Vec::new();
    for (path, text) in repository.rust() {
        let length = text.lines().take_while(|line| line.trim() != "#[cfg(test)]").count();
        if length > FILE_LINES_MAX {
            long.push(Long { path: path.to_owned(), name: String::new(), line: 0, length });
        }
    }
    long
}

fn long_functions(repository: &Repository) -> Vec<Long> {
    let mut long = Vec::new();
    for (path, text) in repository.rust() {
        for (name, line, length) in functions(&rust::code(text)) {
            if length > FUNCTION_LINES_MAX {
                long.push(Long { path: path.to_owned(), name, line, length });
            }
        }
    }
    long
}

/// All functions with a body: name, line, and lines of code between the braces.
fn functions(code: &str) -> Vec<(String, usize, usize)> {
    let mut functions = Vec::new();
    for at in rust::words(code, "fn") {
        let rest = code[at + 2..].trim_start();
        let name: String = rest.chars().take_while(|c| rust::is_word(*c)).collect();
        // Without a name it is a function pointer type.
        let Some(open) = body(code, at).filter(|_| !name.is_empty()) else {
            continue;
        };
        let Some(close) = rust::closing(code, open) else {
            continue;
        };
        let length = code[open + 1..close].lines().filter(|line| !line.trim().is_empty()).count();
        functions.push((name, rust::line_of(code, at), length));
    }
    functions
}

/// Where the body of the function at `at` opens; `None` for a trait method without a body.
fn body(code: &str, at: usize) -> Option<usize> {
    let mut depth = 0usize;
    for (at, byte) in code.bytes().enumerate().skip(at) {
        match byte {
            // `;` also stands in the type of an array, which is in brackets.
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth = depth.checked_sub(1)?,
            b'{' if depth == 0 => return Some(at),
            b';' if depth == 0 => return None,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function_of(lines: usize) -> String {
        format!("//! Doc.\nfn long() {{\n{}}}\n", "    work();\n".repeat(lines))
    }

    #[test]
    fn a_long_function_is_found() {
        let check_lines = |lines| check(&Repository::of(&[("a.rs", &function_of(lines))]));
        assert_eq!(check_lines(70), []);
        assert_eq!(check_lines(71), [Finding::new("a.rs", 2, "long has 71 lines, 70 are allowed")]);
    }

    #[test]
    fn comments_and_blank_lines_are_free() {
        let code = rust::code("fn f() {\n    // why\n\n    work(\"a\n\n  b\");\n}\n");
        // The blank line inside the literal is not counted either.
        assert_eq!(functions(&code), [("f".to_owned(), 1, 2)]);
    }

    #[test]
    fn functions_of_all_forms_are_seen() {
        let code = "trait T { fn a(x: [u8; 3]); fn b() { } }\nconst fn c() -> [u8; 2] { x }\n\
                    type F = fn(u8) -> u8;";
        let names: Vec<_> = functions(code).into_iter().map(|(name, ..)| name).collect();
        assert_eq!(names, ["b", "c"]);
    }

    #[test]
    fn a_long_file_is_found_by_its_lines_before_the_tests() {
        let file =
            |code: usize| format!("{}#[cfg(test)]\n{}", "//\n".repeat(code), "//\n".repeat(900));
        assert_eq!(check(&Repository::of(&[("a.rs", &file(600))])), []);
        assert_eq!(check(&Repository::of(&[("a.rs", &file(601))])).len(), 1);
    }

    #[test]
    fn the_ratchet_holds_in_both_directions() {
        let long =
            |length| vec![Long { path: "a.rs".to_owned(), name: "f".to_owned(), line: 1, length }];
        let listed = [(("a.rs", "f"), 90)];
        assert_eq!(ratchet(long(90), &listed, 70), []);
        assert!(ratchet(long(91), &listed, 70)[0].message.contains("90 are allowed"));
        assert!(ratchet(long(89), &listed, 70)[0].message.contains("lower the number"));
        assert!(ratchet(Vec::new(), &listed, 70)[0].message.contains("remove the row"));
    }
}
