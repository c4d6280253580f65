//! Texts with placeholders for a broker: hosts with `{nodeId}` and `{nodePodName}`, and ports that are
//! computed from `{nodeId}` with `+ - * ( )`.

use model::NodeId;

/// A text that gives no port.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{text}\" does not give a port from 1 to 65535 for node {node}")]
pub struct InvalidPort {
    text: String,
    node: NodeId,
}

/// A text with the placeholders of a broker filled in.
#[must_use]
pub fn broker_text(text: &str, node: NodeId, pod: &str) -> String {
    text.replace("{nodeId}", &node.to_string()).replace("{nodePodName}", pod)
}

/// Whether a text is a host name or an address, and so one entry of a list of Kafka's and no reference to a
/// config provider.
#[must_use]
pub fn is_host(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-._:[]%".contains(c);
    !text.is_empty() && text.chars().all(fits)
}

/// The port that a text gives for a node.
///
/// # Errors
/// If it gives none.
pub fn port(text: &str, node: NodeId) -> Result<u16, InvalidPort> {
    let filled = text.replace("{nodeId}", &node.to_string());
    let value = Sum { rest: filled.as_bytes(), depth: 0 }.whole();
    let port = value.and_then(|value| u16::try_from(value).ok()).filter(|port| *port != 0);
    port.ok_or_else(|| InvalidPort { text: text.to_owned(), node })
}

/// Brackets within brackets beyond this are a mistake, and no reason to use up the stack.
const DEPTH_MAX: u32 = 32;

/// Reads a sum from left to right; `None` wherever it is not one, or too large.
struct Sum<'a> {
    rest: &'a [u8],
    depth: u32,
}

impl Sum<'_> {
    fn whole(mut self) -> Option<i64> {
        let value = self.sum()?;
        self.peek().is_none().then_some(value)
    }

    fn peek(&mut self) -> Option<u8> {
        self.rest = self.rest.trim_ascii_start();
        self.rest.first().copied()
    }

    fn take(&mut self) {
        self.rest = self.rest.get(1..).unwrap_or_default();
    }

    fn sum(&mut self) -> Option<i64> {
        let mut value = self.product()?;
        loop {
            match self.peek() {
                Some(b'+') => {
                    self.take();
                    value = value.checked_add(self.product()?)?;
                }
                Some(b'-') => {
                    self.take();
                    value = value.checked_sub(self.product()?)?;
                }
                _ => return Some(value),
            }
        }
    }

    fn product(&mut self) -> Option<i64> {
        let mut value = self.factor()?;
        while self.peek() == Some(b'*') {
            self.take();
            value = value.checked_mul(self.factor()?)?;
        }
        Some(value)
    }

    fn factor(&mut self) -> Option<i64> {
        if self.peek()? == b'(' {
            self.take();
            self.depth += 1;
            if self.depth > DEPTH_MAX {
                return None;
            }
            let value = self.sum()?;
            self.depth -= 1;
            let closed = self.peek()? == b')';
            self.take();
            return closed.then_some(value);
        }
        let digits = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (number, rest) = self.rest.split_at(digits);
        self.rest = rest;
        std::str::from_utf8(number).ok()?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn node(id: i32) -> NodeId {
        NodeId::new(id).unwrap()
    }

    #[test]
    fn ports_are_computed() {
        let rows = [
            ("9092", Some(9092)),
            (" 9000 + {nodeId} ", Some(9007)),
            ("9000+{nodeId}*10", Some(9070)),
            ("(9000+{nodeId})*1", Some(9007)),
            ("10000 - {nodeId} - 1", Some(9992)),
            ("2*(3+(4*5))", Some(46)),
            ("{nodeId}000", Some(7000)),
            ("", None),
            ("{nodeId} - 7", None),
            ("{nodeId} - 8", None),
            ("65536", None),
            ("65535", Some(65535)),
            ("9000 +", None),
            ("9000 {nodeId}", None),
            ("(9000", None),
            ("9000)", None),
            ("-1 + 9000", None),
            ("9000 / 2", None),
            ("{nodePodName}", None),
            ("99999999999999999999", None),
            ("9223372036854775807 * 2", None),
        ];
        for (text, expected) in rows {
            assert_eq!(port(text, node(7)).ok(), expected, "{text}");
        }
        let deep = format!("{}1{}", "(".repeat(100_000), ")".repeat(100_000));
        assert_eq!(port(&deep, node(0)).ok(), None);
        let said = port("x", node(3)).unwrap_err().to_string();
        assert_eq!(said, "\"x\" does not give a port from 1 to 65535 for node 3");
    }

    #[test]
    fn placeholders_are_filled_in() {
        let text = broker_text("{nodePodName}.b{nodeId}.example.com/{x}", node(4), "my-pool-4");
        assert_eq!(text, "my-pool-4.b4.example.com/{x}");
    }

    proptest! {
        #[test]
        fn no_text_is_too_odd(text in "[-+*() 0-9{}nodeId]{0,40}") {
            let _ = port(&text, node(1));
        }
    }
}
