//! A lexer for Rust that separates code from comments and literals.
//!
//! [`code`] blanks comments and the content of literals, so that a text search finds only code; [`tokens`] returns all
//! of them. Neither parses: they know where tokens end, not what they mean.

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Code,
    Comment,
    Literal,
}

impl Kind {
    /// The character that replaces a token in [`code`].
    fn fill(self) -> Option<char> {
        match self {
            Self::Code => None,
            Self::Comment => Some(' '),
            Self::Literal => Some('"'),
        }
    }
}

/// The text with comments as spaces and the content of literals as `"`; lines and columns do not change.
pub(crate) fn code(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    for (kind, token) in tokens(text) {
        code.extend(token.chars().map(|c| match (c, kind.fill()) {
            ('\n', _) => '\n',
            (c, None) => c,
            (_, Some(fill)) => fill,
        }));
    }
    code
}

/// All tokens, in order. Concatenated they are the text.
pub(crate) fn tokens(text: &str) -> Vec<(Kind, String)> {
    let chars: Vec<char> = text.chars().collect();
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < chars.len() {
        let (end, kind) = token(&chars, at);
        // A truncated literal may end behind the text.
        let end = end.min(chars.len());
        tokens.push((kind, chars[at..end].iter().collect()));
        at = end;
    }
    tokens
}

/// Where the token at `at` ends, and what it is.
fn token(chars: &[char], at: usize) -> (usize, Kind) {
    let next = chars.get(at + 1).copied();
    match chars[at] {
        '/' if next == Some('/') => (line_end(chars, at), Kind::Comment),
        '/' if next == Some('*') => (block_comment_end(chars, at), Kind::Comment),
        '"' => (string_end(chars, at + 1), Kind::Literal),
        '\'' => match char_end(chars, at) {
            Some(end) => (end, Kind::Literal),
            // A lifetime or a label.
            None => (at + 1, Kind::Code),
        },
        c if is_word(c) => word(chars, at),
        _ => (at + 1, Kind::Code),
    }
}

/// A word is code, unless it is the prefix of a raw string. `b` and `c` before a plain literal need no special case: the
/// literal is the next token.
fn word(chars: &[char], at: usize) -> (usize, Kind) {
    let end = at + chars[at..].iter().take_while(|c| is_word(**c)).count();
    let prefix: String = chars[at..end].iter().collect();
    let hashes = chars[end..].iter().take_while(|c| **c == '#').count();
    let is_raw = matches!(prefix.as_str(), "r" | "br" | "cr");
    if is_raw && chars.get(end + hashes) == Some(&'"') {
        return (raw_string_end(chars, end + hashes + 1, hashes), Kind::Literal);
    }
    (end, Kind::Code)
}

pub(crate) fn is_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

fn line_end(chars: &[char], at: usize) -> usize {
    chars[at..].iter().position(|c| *c == '\n').map_or(chars.len(), |length| at + length)
}

/// Block comments nest.
fn block_comment_end(chars: &[char], start: usize) -> usize {
    let mut depth = 0;
    let mut at = start;
    while at + 1 < chars.len() {
        match (chars[at], chars[at + 1]) {
            ('/', '*') => depth += 1,
            ('*', '/') => depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
        if depth == 0 {
            return at;
        }
    }
    chars.len()
}

fn string_end(chars: &[char], start: usize) -> usize {
    let mut at = start;
    while at < chars.len() {
        match chars[at] {
            '\\' => at += 2,
            '"' => return at + 1,
            _ => at += 1,
        }
    }
    chars.len()
}

fn raw_string_end(chars: &[char], start: usize, hashes: usize) -> usize {
    let ends = |at: usize| {
        chars[at] == '"'
            && chars[at + 1..].iter().take(hashes).filter(|c| **c == '#').count() == hashes
    };
    (start..chars.len()).find(|at| ends(*at)).map_or(chars.len(), |at| at + 1 + hashes)
}

/// Where a character literal ends; `None` if the quote starts a lifetime.
fn char_end(chars: &[char], at: usize) -> Option<usize> {
    if chars.get(at + 1) == Some(&'\\') {
        // The escaped character itself may be a quote.
        let rest = chars.get(at + 3..)?;
        return rest.iter().position(|c| *c == '\'').map(|length| at + 4 + length);
    }
    (chars.get(at + 2) == Some(&'\'')).then_some(at + 3)
}

/// The line number of a byte, from 1.
pub(crate) fn line_of(text: &str, byte: usize) -> usize {
    text.as_bytes()[..byte].iter().filter(|b| **b == b'\n').count() + 1
}

/// The bracket that closes the one at `open`, in text from [`code`].
pub(crate) fn closing(code: &str, open: usize) -> Option<usize> {
    let mut depth = 0usize;
    for (at, byte) in code.bytes().enumerate().skip(open) {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

/// All occurrences of a whole word, in text from [`code`].
pub(crate) fn words<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    code.match_indices(word).map(|(at, _)| at).filter(move |at| {
        let before = code[..*at].chars().next_back();
        let after = code[at + word.len()..].chars().next();
        !before.is_some_and(is_word) && !after.is_some_and(is_word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn blanked(text: &str, expected: &str) {
        assert_eq!(code(text), expected);
    }

    #[test]
    fn comments_are_blank() {
        blanked("a // b\nc", "a     \nc");
        blanked("a /* b /* c */ d */ e", "a                   e");
        blanked("a /* b\nc */ d", "a     \n     d");
    }

    #[test]
    fn literals_are_filled() {
        blanked(r#"f("a", b"b\"c", 'd', '\'', b'e')"#, r#"f(""", b"""""", """, """", b""")"#);
        blanked("f(r#\"a \" b\"#, r\"c\\\")", "f(\"\"\"\"\"\"\"\"\"\", \"\"\"\"\")");
        blanked("\"a\nb\"", "\"\"\n\"\"");
        blanked(r"'\u{1f600}' x", "\"\"\"\"\"\"\"\"\"\"\" x");
    }

    #[test]
    fn lifetimes_and_raw_names_are_code() {
        blanked(
            "fn f<'a>(x: &'a str) -> &'static r#type",
            "fn f<'a>(x: &'a str) -> &'static r#type",
        );
        blanked("'outer: loop { break 'outer; }", "'outer: loop { break 'outer; }");
    }

    #[test]
    fn text_that_is_cut_off_does_not_fail() {
        for text in ["\"a", "/* a", "r#\"a", "'", "'\\", "'\\n", "\"\\", "r#", "/"] {
            assert_eq!(code(text).chars().count(), text.chars().count(), "{text}");
        }
    }

    #[test]
    fn words_are_whole() {
        assert_eq!(words("todo! my_todo! todos", "todo").collect::<Vec<_>>(), [0]);
    }

    #[test]
    fn a_bracket_closes_where_its_depth_ends() {
        assert_eq!(closing("{ (a[0]) } }", 0), Some(9));
        assert_eq!(closing("{ (", 0), None);
    }
}
