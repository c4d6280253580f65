//! Properties as a text that Java reads.
//!
//! Kafka reads its file as ISO-8859-1, so everything that is not ASCII is written as an escape.

/// The text of a file with these properties, one in a line.
#[must_use]
pub fn render(properties: &[(String, String)]) -> String {
    let mut text = String::new();
    for (key, value) in properties {
        for c in key.chars() {
            match c {
                ' ' | '=' | ':' | '#' | '!' => text.extend(['\\', c]),
                _ => escape(c, &mut text),
            }
        }
        text.push('=');
        // White space before a value is not part of it unless it is escaped.
        let rest = value.trim_start_matches(' ');
        for _ in 0..value.len() - rest.len() {
            text.push_str("\\ ");
        }
        rest.chars().for_each(|c| escape(c, &mut text));
        text.push('\n');
    }
    text
}

fn escape(c: char, text: &mut String) {
    match c {
        '\\' => text.push_str("\\\\"),
        '\n' => text.push_str("\\n"),
        '\r' => text.push_str("\\r"),
        '\t' => text.push_str("\\t"),
        '\u{c}' => text.push_str("\\f"),
        ' '..='~' => text.push(c),
        _ => {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                text.push_str(&format!("\\u{unit:04X}"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::properties::java;
    use proptest::prelude::*;

    fn pairs(rows: &[(&str, &str)]) -> Vec<(String, String)> {
        rows.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn texts_are_as_java_wants_them() {
        let rows = [
            (("a.b", "c"), "a.b=c\n"),
            (("a", ""), "a=\n"),
            (("a", "x=y:z #!"), "a=x=y:z #!\n"),
            (("a b=c:d#e!f", "1"), "a\\ b\\=c\\:d\\#e\\!f=1\n"),
            (("a", "  b  "), "a=\\ \\ b  \n"),
            (("a", "c:\\dir"), "a=c:\\\\dir\n"),
            (("a", "1\n2\r3\t4\u{c}"), "a=1\\n2\\r3\\t4\\f\n"),
            (("é", "€😀\u{7f}\0"), "\\u00E9=\\u20AC\\uD83D\\uDE00\\u007F\\u0000\n"),
            (("a", "${gregordir:/x:y.crt}"), "a=${gregordir:/x:y.crt}\n"),
        ];
        for (pair, expected) in rows {
            assert_eq!(render(&pairs(&[pair])), expected);
        }
        assert_eq!(render(&pairs(&[("a", "1"), ("b", "2")])), "a=1\nb=2\n");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(
            rows in proptest::collection::vec(("[\\PC\\s\\\\=:#! ]{1,8}", "[\\PC\\s\\\\=:#! ]{0,12}"), 0..5),
        ) {
            let text = render(&rows);
            prop_assert!(text.is_ascii());
            prop_assert_eq!(text.lines().count(), rows.len());
            prop_assert_eq!(java::read(&text), rows);
        }
    }
}
