//! All mutants of a file in one text, in which each is switched on by its number.
//!
//! Building a crate once for each mutant is what makes them expensive. Here a mutated place asks which mutant is on:
//! `a < b` becomes an expression that compares as the source does, or as one of its mutants does if its number is on.
//!
//! 1. With no mutant on, the text does what the source does: operands are evaluated once, in the same order, and only if
//!    the source evaluates them.
//! 2. What cannot be written so (in a constant, in a macro, beside a `let` in a condition) is left out, and is built alone.
//!    Nothing is guessed.
//! 3. Every place knows where it is in the new text, so that an error of the compiler names its mutant.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use anyhow::{Context as _, Result};
use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};
use syn::{BinOp, Expr, UnOp};

/// What is called to learn whether a mutant is on. The crate root has it.
pub(super) const SWITCH: &str = "crate::mutant_is_on";

/// A mutant as cargo-mutants describes it: what replaces a part of a file.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    /// Its number in the list of all.
    pub(super) number: usize,
    pub(super) genre: String,
    /// Line and column at which the replaced part begins, both from 1.
    pub(super) start: (usize, usize),
    pub(super) replacement: String,
}

/// A part of the new text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fragment {
    pub(super) range: Range<usize>,
    /// The mutants that are gone if this part does not compile.
    pub(super) mutants: Vec<usize>,
    pub(super) kind: Kind,
}

/// What a part of the new text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// What replaces the source. An error there is the mutant's own; elsewhere it is ours.
    Replacement,
    /// A mutated part of the source, with what was written around it.
    Site,
    /// A `match` of which arms are removed. An arm with a guard does not count as covering anything.
    Match,
}

/// A file with its mutants.
#[derive(Debug)]
pub(super) struct Mutated {
    pub(super) text: String,
    pub(super) fragments: Vec<Fragment>,
    /// The mutants that are in it.
    pub(super) numbers: BTreeSet<usize>,
}

/// Writes the mutants into a file.
///
/// Functions that the compiler evaluates cannot ask what is on, so `const` is removed from those that are not in
/// `constant`, the names of those without which something else does not compile.
pub(super) fn mutate(
    source: &str,
    wanted: &[Wanted],
    constant: &BTreeSet<String>,
) -> Result<Mutated> {
    let file = syn::parse_file(source).context("cannot parse it")?;
    let lines = Lines::new(source);
    let mut at: BTreeMap<usize, Vec<&Wanted>> = BTreeMap::new();
    for one in wanted {
        at.entry(lines.offset(one.start.0, one.start.1 - 1)).or_default().push(one);
    }
    let (edits, count, matches, is_constant) = (Vec::new(), 0, BTreeSet::new(), false);
    let mut sites = Sites { source, lines, at, constant, edits, count, matches, is_constant };
    sites.visit_file(&file);
    Ok(sites.render())
}

/// Where the lines of a text begin.
struct Lines<'a> {
    source: &'a str,
    begins: Vec<usize>,
}

impl<'a> Lines<'a> {
    fn new(source: &'a str) -> Self {
        let after = source.match_indices('\n').map(|(at, _)| at + 1);
        Self { source, begins: std::iter::once(0).chain(after).collect() }
    }

    /// The byte at a line from 1 and a column from 0, which counts characters.
    fn offset(&self, line: usize, column: usize) -> usize {
        let begin = self.begins.get(line - 1).copied().unwrap_or(self.source.len());
        let rest = &self.source[begin..];
        begin + rest.char_indices().nth(column).map_or(rest.len(), |(at, _)| at)
    }

    fn range(&self, span: proc_macro2::Span) -> Range<usize> {
        let (start, end) = (span.start(), span.end());
        self.offset(start.line, start.column)..self.offset(end.line, end.column)
    }
}

/// A part of the text that is replaced, or inserted if the range is empty.
struct Edit {
    range: Range<usize>,
    /// What ends at a byte comes before what begins there.
    opens: bool,
    /// The order in which the sites were found, outer ones first.
    site: usize,
    pieces: Vec<Piece>,
}

/// A text, and the mutant that it is.
type Piece = (String, Option<usize>);

struct Sites<'a> {
    source: &'a str,
    lines: Lines<'a>,
    at: BTreeMap<usize, Vec<&'a Wanted>>,
    constant: &'a BTreeSet<String>,
    edits: Vec<Edit>,
    count: usize,
    matches: BTreeSet<usize>,
    /// Whether this is evaluated by the compiler, which cannot ask what is on.
    is_constant: bool,
}

fn plain(text: impl Into<String>) -> Piece {
    (text.into(), None)
}

impl Sites<'_> {
    /// The mutants of a kind that begin here.
    fn wanted(&self, at: usize, genre: &str) -> Vec<Wanted> {
        let here = self.at.get(&at).into_iter().flatten();
        let here = here.filter(|one| one.genre == genre && !self.is_constant);
        here.map(|one| (*one).clone()).collect()
    }

    fn site(&mut self) -> usize {
        self.count += 1;
        self.count
    }

    fn open(&mut self, site: usize, at: usize, text: impl Into<String>) {
        self.edit(site, at..at, true, vec![plain(text)]);
    }

    fn close(&mut self, site: usize, at: usize, pieces: Vec<Piece>) {
        self.edit(site, at..at, false, pieces);
    }

    fn edit(&mut self, site: usize, range: Range<usize>, opens: bool, pieces: Vec<Piece>) {
        self.edits.push(Edit { range, opens, site, pieces });
    }

    /// `if mutant 1 { first } else if mutant 2 { second } else { as it is }`.
    fn choice(wanted: &[Wanted], mutant: impl Fn(&Wanted) -> String, source: &str) -> Vec<Piece> {
        let mut pieces = Vec::new();
        for one in wanted {
            pieces.push(plain(format!("if {SWITCH}({}) {{ ", one.number)));
            pieces.push((mutant(one), Some(one.number)));
            pieces.push(plain(" } else "));
        }
        pieces.push(plain(format!("{{ {source} }}")));
        pieces
    }

    /// A body that is replaced as a whole.
    fn body(&mut self, block: &syn::Block) {
        let Some(first) = block.stmts.first() else { return };
        let at = self.lines.range(first.span()).start;
        let wanted = self.wanted(at, "FnValue");
        if wanted.is_empty() {
            return;
        }
        let site = self.site();
        let mut pieces = Vec::new();
        for one in &wanted {
            pieces.push(plain(format!("if {SWITCH}({}) {{ return ", one.number)));
            pieces.push((one.replacement.clone(), Some(one.number)));
            pieces.push(plain("; } "));
        }
        self.edit(site, at..at, true, pieces);
    }

    fn function(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let before = self.is_constant;
        self.is_constant = self.constant.contains(&signature.ident.to_string());
        if let (Some(constness), false) = (&signature.constness, self.is_constant) {
            let (site, range) = (self.site(), self.lines.range(constness.span()));
            self.edit(site, range, true, Vec::new());
        }
        // The type behind `impl` is that of the body, and a replacement has another.
        let mut has_impl = HasImpl(false);
        has_impl.visit_return_type(&signature.output);
        if !has_impl.0 {
            self.body(block);
        }
        visit::visit_block(self, block);
        self.is_constant = before;
    }

    fn binary(&mut self, binary: &syn::ExprBinary) {
        let op = self.lines.range(binary.op.span());
        let wanted = self.wanted(op.start, "BinaryOperator");
        if wanted.is_empty() || has_let(&binary.left) || has_let(&binary.right) {
            return visit::visit_expr_binary(self, binary);
        }
        let (left, right) =
            (self.lines.range(binary.left.span()), self.lines.range(binary.right.span()));
        let site = self.site();
        let token = &self.source[op.clone()];
        match binary.op {
            BinOp::And(_) | BinOp::Or(_) => {
                let name = format!("__m{site}");
                // Whether the right side is evaluated, if the left one is true.
                let goes_on = matches!(binary.op, BinOp::And(_));
                let switch: Vec<String> =
                    wanted.iter().map(|one| format!("{SWITCH}({})", one.number)).collect();
                let is_other = switch.join(" || ");
                self.open(site, left.start, "(match (");
                let text = format!(") {{ {name} => if {name} == ({goes_on} != ({is_other})) {{ ");
                self.edit(site, op, true, vec![plain(text)]);
                let tail = format!(" }} else {{ {name} }} }})");
                let numbers = wanted.iter().map(|one| (String::new(), Some(one.number)));
                self.close(site, right.end, numbers.chain([plain(tail)]).collect());
                visit::visit_expr_binary(self, binary);
            }
            _ if is_assignment(&binary.op) => {
                let name = format!("__m{site}");
                let target = self.source[left.clone()].to_owned();
                let with = |token: &str| format!("{target} {token} {name}");
                self.edit(site, left.start..op.end, true, vec![plain("(match (")]);
                let mut tail = vec![plain(format!(") {{ {name} => "))];
                tail.extend(Self::choice(&wanted, |one| with(&one.replacement), &with(token)));
                tail.push(plain(" })"));
                self.close(site, right.end, tail);
                // The left side is text now: what is in it is not visited.
                self.visit_expr(&binary.right);
            }
            _ => {
                let compares = is_comparison(&binary.op);
                let (a, b) = (format!("__a{site}"), format!("__b{site}"));
                // A comparison borrows its operands, an arithmetic operator takes them.
                let (borrow, deref) = if compares { ("&", "*") } else { ("", "") };
                let with = |token: &str| format!("{deref}{a} {token} {deref}{b}");
                self.open(site, left.start, format!("(match ({borrow}("));
                self.edit(site, op, true, vec![plain(format!("), {borrow}("))]);
                let mut tail = vec![plain(format!(")) {{ ({a}, {b}) => "))];
                tail.extend(Self::choice(&wanted, |one| with(&one.replacement), &with(token)));
                tail.push(plain(" })"));
                self.close(site, right.end, tail);
                visit::visit_expr_binary(self, binary);
            }
        }
    }

    fn unary(&mut self, unary: &syn::ExprUnary) {
        let op = self.lines.range(unary.op.span());
        let wanted = self.wanted(op.start, "UnaryOperator");
        if let (UnOp::Not(_) | UnOp::Neg(_), false) = (unary.op, wanted.is_empty()) {
            let site = self.site();
            let name = format!("__m{site}");
            let token = &self.source[op.clone()];
            let end = self.lines.range(unary.expr.span()).end;
            let source = format!("{token}{name}");
            self.edit(site, op, true, vec![plain("(match (")]);
            let mut tail = vec![plain(format!(") {{ {name} => "))];
            tail.extend(Self::choice(&wanted, |one| format!("{}{name}", one.replacement), &source));
            tail.push(plain(" })"));
            self.close(site, end, tail);
        }
        visit::visit_expr_unary(self, unary);
    }

    /// The mutants that remove an arm.
    fn removed(&self, arm: &syn::Arm) -> Vec<Wanted> {
        let whole = self.lines.range(arm.span()).start;
        let pattern = self.lines.range(arm.pat.span()).start;
        let mut removed = self.wanted(whole, "MatchArm");
        if whole != pattern {
            removed.extend(self.wanted(pattern, "MatchArm"));
        }
        removed
    }

    fn match_of(&mut self, one: &syn::ExprMatch) {
        let removed = one.arms.iter().flat_map(|arm| self.removed(arm));
        let removed: Vec<Piece> = removed.map(|one| (String::new(), Some(one.number))).collect();
        if !removed.is_empty() {
            let (site, range) = (self.site(), self.lines.range(one.span()));
            self.matches.insert(site);
            self.open(site, range.start, "");
            self.close(site, range.end, removed);
        }
        visit::visit_expr_match(self, one);
    }

    fn arm(&mut self, arm: &syn::Arm) {
        let pattern = self.lines.range(arm.pat.span());
        let removed = self.removed(arm);
        let is_there: String =
            removed.iter().map(|one| format!("!{SWITCH}({}) && ", one.number)).collect();
        let guard = arm.guard.as_ref().map(|(_, guard)| guard);
        match guard.filter(|guard| !has_let(guard)) {
            Some(guard) => {
                let range = self.lines.range(guard.span());
                let guards = self.wanted(range.start, "MatchArmGuard");
                if !guards.is_empty() || !removed.is_empty() {
                    let site = self.site();
                    let mut head = vec![plain(is_there)];
                    for one in &guards {
                        let operator = if one.replacement == "true" { "||" } else { "&&" };
                        let not = if one.replacement == "true" { "" } else { "!" };
                        let text = format!("({not}{SWITCH}({}) {operator} ", one.number);
                        head.push((text, Some(one.number)));
                    }
                    head.push(plain("("));
                    let numbers = removed.iter().map(|one| (String::new(), Some(one.number)));
                    head.extend(numbers);
                    self.edit(site, range.start..range.start, true, head);
                    let tail = ")".repeat(guards.len() + 1);
                    self.close(site, range.end, vec![plain(tail)]);
                }
            }
            None if guard.is_none() && !removed.is_empty() => {
                let site = self.site();
                let text = format!(" if {}", is_there.trim_end_matches(" && "));
                let numbers = removed.iter().map(|one| (String::new(), Some(one.number)));
                self.close(site, pattern.end, [plain(text)].into_iter().chain(numbers).collect());
            }
            None => {}
        }
        visit::visit_arm(self, arm);
    }

    /// A field that is not set has the value of the base.
    fn fields(&mut self, one: &syn::ExprStruct) {
        let Some(base) = &one.rest else { return };
        let base = self.source[self.lines.range(base.span())].to_owned();
        for field in &one.fields {
            let range = self.lines.range(field.span());
            let syn::Member::Named(name) = &field.member else { continue };
            let Some(wanted) = self.wanted(range.start, "StructField").into_iter().next() else {
                continue;
            };
            let site = self.site();
            let choice = format!("if {SWITCH}({}) {{ ", wanted.number);
            let of_base = plain(format!("({base}).{name}"));
            // An error in it is ours: alone, the base stays where it is.
            let mutant = (String::new(), Some(wanted.number));
            if field.colon_token.is_some() {
                let at = self.lines.range(field.expr.span());
                let head = vec![plain(choice), of_base, mutant, plain(" } else { ")];
                self.edit(site, at.start..at.start, true, head);
                self.close(site, at.end, vec![plain(" }")]);
            } else {
                let tail = plain(format!(" }} else {{ {name} }}"));
                let pieces = vec![plain(format!(": {choice}")), of_base, mutant, tail];
                self.close(site, range.end, pieces);
            }
        }
    }

    fn render(mut self) -> Mutated {
        self.edits.sort_by_key(|edit| {
            let order = i64::try_from(edit.site).unwrap_or(i64::MAX);
            (edit.range.start, edit.opens, if edit.opens { order } else { -order })
        });
        let mut text = String::with_capacity(self.source.len() * 2);
        let (mut done, mut numbers) = (0, BTreeSet::new());
        let mut fragments = Vec::new();
        let mut sites: BTreeMap<usize, Fragment> = BTreeMap::new();
        for edit in &self.edits {
            text.push_str(&self.source[done..edit.range.start]);
            done = edit.range.end.max(done);
            let begin = text.len();
            let whole = sites.entry(edit.site).or_insert_with(|| Fragment {
                range: begin..begin,
                mutants: Vec::new(),
                kind: if self.matches.contains(&edit.site) { Kind::Match } else { Kind::Site },
            });
            for (piece, mutant) in &edit.pieces {
                let range = text.len()..text.len() + piece.len();
                text.push_str(piece);
                if let Some(mutant) = mutant {
                    numbers.insert(*mutant);
                    whole.mutants.push(*mutant);
                    if !piece.is_empty() {
                        let mutants = vec![*mutant];
                        fragments.push(Fragment { range, mutants, kind: Kind::Replacement });
                    }
                }
            }
            whole.range.end = text.len();
        }
        text.push_str(&self.source[done..]);
        fragments.extend(sites.into_values());
        Mutated { text, fragments, numbers }
    }
}

impl<'ast> Visit<'ast> for Sites<'_> {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.function(&item.sig, &item.block);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.function(&item.sig, &item.block);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.function(&item.sig, block);
        }
    }

    fn visit_item_const(&mut self, _: &'ast syn::ItemConst) {}

    fn visit_item_static(&mut self, _: &'ast syn::ItemStatic) {}

    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}

    fn visit_trait_item_const(&mut self, _: &'ast syn::TraitItemConst) {}

    fn visit_expr_binary(&mut self, binary: &'ast syn::ExprBinary) {
        self.binary(binary);
    }

    fn visit_expr_unary(&mut self, unary: &'ast syn::ExprUnary) {
        self.unary(unary);
    }

    fn visit_expr_struct(&mut self, one: &'ast syn::ExprStruct) {
        self.fields(one);
        visit::visit_expr_struct(self, one);
    }

    fn visit_expr_match(&mut self, one: &'ast syn::ExprMatch) {
        self.match_of(one);
    }

    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        self.arm(arm);
    }
}

/// Whether there is an `impl` in a type.
struct HasImpl(bool);

impl<'ast> Visit<'ast> for HasImpl {
    fn visit_type_impl_trait(&mut self, _: &'ast syn::TypeImplTrait) {
        self.0 = true;
    }
}

/// Whether there is a `let` in a condition, whose names the rest of the condition uses.
fn has_let(expr: &Expr) -> bool {
    match expr {
        Expr::Let(_) => true,
        Expr::Binary(binary) => has_let(&binary.left) || has_let(&binary.right),
        _ => false,
    }
}

fn is_comparison(op: &BinOp) -> bool {
    matches!(
        op,
        BinOp::Eq(_) | BinOp::Ne(_) | BinOp::Lt(_) | BinOp::Le(_) | BinOp::Gt(_) | BinOp::Ge(_)
    )
}

fn is_assignment(op: &BinOp) -> bool {
    matches!(
        op,
        BinOp::AddAssign(_)
            | BinOp::SubAssign(_)
            | BinOp::MulAssign(_)
            | BinOp::DivAssign(_)
            | BinOp::RemAssign(_)
            | BinOp::BitXorAssign(_)
            | BinOp::BitAndAssign(_)
            | BinOp::BitOrAssign(_)
            | BinOp::ShlAssign(_)
            | BinOp::ShrAssign(_)
    )
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::process::Command;

    use super::super::together;
    use super::*;

    const SOURCE: &str = r#"
#[derive(Default)]
struct Point { x: i32, y: i32 }

const LIMIT: i32 = 2 * 3;
const fn double(n: i32) -> i32 { n + n }
const EIGHT: i32 = four() + four();
const fn four() -> i32 { 1 + 3 }
fn both(a: bool, b: bool) -> bool { a && b }
fn any(a: bool, b: bool, c: bool) -> bool { a || b || c }
fn less(a: &str, b: &str) -> bool { *a < *b }
fn sum(n: i32) -> i32 { let mut all = 1; all += n; all }
fn not(a: bool) -> bool { !a }
fn kind(n: i32) -> &'static str {
    match n { 0 => "none", n if n < 5 => "few", _ => "many" }
}
fn point() -> Point { let y = 8; Point { x: 7, y, ..Point::default() } }
fn some(a: Option<i32>) -> bool { if let Some(n) = a && n > 1 { true } else { false } }
fn small() -> impl Iterator<Item = i32> { [1, 2].into_iter() }
fn main() {
    let Point { x, y } = point();
    let logic = [both(true, false), any(true, false, false), less("a", "b"), not(true), some(Some(2))];
    let numbers = [double(3), sum(4), x, y, LIMIT, EIGHT, small().sum()];
    println!("{logic:?} {numbers:?} {} {}", kind(0), kind(3));
}
"#;

    /// What is mutated, where it begins, how far into that, the kind of change, what replaces it, and what the program
    /// prints then; nothing if the mutant has to be built alone.
    type Row = (&'static str, usize, &'static str, &'static str, Option<&'static str>);

    const PLAIN: &str = "[false, true, true, false, true] [6, 5, 7, 8, 6, 8, 3] none few\n";

    #[rustfmt::skip]
    const ROWS: [Row; 16] = [
        ("a && b",           2, "BinaryOperator", "||",   Some("[true, true, true, false, true] [6, 5, 7, 8, 6, 8, 3] none few\n")),
        ("a || b ||",        2, "BinaryOperator", "&&",   Some("[false, false, true, false, true] [6, 5, 7, 8, 6, 8, 3] none few\n")),
        ("|| c",             0, "BinaryOperator", "&&",   Some("[false, false, true, false, true] [6, 5, 7, 8, 6, 8, 3] none few\n")),
        ("*a < *b",          3, "BinaryOperator", "==",   Some("[false, true, false, false, true] [6, 5, 7, 8, 6, 8, 3] none few\n")),
        ("*a < *b",          3, "BinaryOperator", ">",    Some("[false, true, false, false, true] [6, 5, 7, 8, 6, 8, 3] none few\n")),
        ("n + n",            2, "BinaryOperator", "*",    Some("[false, true, true, false, true] [9, 5, 7, 8, 6, 8, 3] none few\n")),
        ("all += n",         4, "BinaryOperator", "-=",   Some("[false, true, true, false, true] [6, -3, 7, 8, 6, 8, 3] none few\n")),
        ("!a",               0, "UnaryOperator",  "",     Some("[false, true, true, true, true] [6, 5, 7, 8, 6, 8, 3] none few\n")),
        ("0 => \"none\"",    0, "MatchArm",       "",     Some("[false, true, true, false, true] [6, 5, 7, 8, 6, 8, 3] few few\n")),
        ("n < 5",            0, "MatchArmGuard",  "false", Some("[false, true, true, false, true] [6, 5, 7, 8, 6, 8, 3] none many\n")),
        ("x: 7",             0, "StructField",    "",     Some("[false, true, true, false, true] [6, 5, 0, 8, 6, 8, 3] none few\n")),
        ("y, ..",            0, "StructField",    "",     Some("[false, true, true, false, true] [6, 5, 7, 0, 6, 8, 3] none few\n")),
        ("let mut all = 1;", 0, "FnValue",        "-1",   Some("[false, true, true, false, true] [6, -1, 7, 8, 6, 8, 3] none few\n")),
        ("n > 1",            2, "BinaryOperator", "<",    Some("[false, true, true, false, false] [6, 5, 7, 8, 6, 8, 3] none few\n")),
        ("2 * 3",            2, "BinaryOperator", "+",    None),
        ("[1, 2].into_iter", 0, "FnValue",        "::std::iter::empty()", None),
    ];

    fn wanted(number: usize, row: &Row) -> Wanted {
        let (needle, inside, genre, replacement, _) = row;
        let at = SOURCE.find(needle).unwrap() + inside;
        let before = &SOURCE[..at];
        let line = before.matches('\n').count() + 1;
        let column = at - before.rfind('\n').map_or(0, |end| end + 1) + 1;
        let (genre, replacement) = ((*genre).to_owned(), (*replacement).to_owned());
        Wanted { number, genre, start: (line, column), replacement }
    }

    fn run(program: &Path, mutant: Option<usize>) -> String {
        let mut command = Command::new(program);
        command.envs(mutant.map(|number| (together::VARIABLE, number.to_string())));
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    }

    #[test]
    fn each_mutant_changes_what_it_says_and_nothing_else() {
        let all: Vec<Wanted> = ROWS.iter().enumerate().map(|(n, row)| wanted(n, row)).collect();
        // A constant calls it: the compiler says so, and it is left as it is.
        let constant = BTreeSet::from(["four".to_owned()]);
        let mutated = mutate(SOURCE, &all, &constant).unwrap();
        let alone: Vec<usize> =
            (0..ROWS.len()).filter(|number| !mutated.numbers.contains(number)).collect();
        let expected: Vec<usize> = (0..ROWS.len()).filter(|n| ROWS[*n].4.is_none()).collect();
        assert_eq!(alone, expected);
        let folder = std::env::temp_dir().join(format!("gregor-sites-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (file, program) = (folder.join("main.rs"), folder.join("main"));
        fs::write(&file, mutated.text + together::SWITCH).unwrap();
        let mut rustc = Command::new("rustc");
        rustc.args(["--edition=2024", "--cap-lints=allow", "-o"]).arg(&program).arg(&file);
        let built = rustc.status().unwrap();
        let plain = run(&program, None);
        let found: Vec<String> = (0..ROWS.len()).map(|n| run(&program, Some(n))).collect();
        fs::remove_dir_all(&folder).unwrap();
        assert!(built.success());
        assert_eq!(plain, PLAIN);
        for (found, (needle, _, _, replacement, expected)) in found.iter().zip(&ROWS) {
            assert_eq!(found, expected.unwrap_or(PLAIN), "{needle} {replacement}");
        }
    }

    #[test]
    fn a_part_that_does_not_compile_names_its_mutant() {
        let row: Row = ("n + n", 2, "BinaryOperator", "*", None);
        let mutated = mutate(SOURCE, &[wanted(3, &row)], &BTreeSet::new()).unwrap();
        let at = mutated.text.find("__a").unwrap();
        let here: Vec<&Fragment> =
            mutated.fragments.iter().filter(|fragment| fragment.range.contains(&at)).collect();
        assert!(here.iter().all(|fragment| fragment.mutants == [3]), "{here:?}");
        let own: Vec<&str> = mutated
            .fragments
            .iter()
            .filter(|fragment| fragment.kind == Kind::Replacement)
            .map(|fragment| &mutated.text[fragment.range.clone()])
            .collect();
        assert_eq!(own.len(), 1);
        assert!(own[0].contains(" * "), "{own:?}");
    }
}
