//! Where a node listens.

use std::fmt;
use std::str::FromStr;

/// A host (name or address) and a port.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Endpoint {
    /// A name or an IP address, without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl Endpoint {
    /// The endpoint at this host and port.
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        Self { host: host.into(), port }
    }
}

/// A text that is not `HOST:PORT`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not HOST:PORT (an IPv6 address goes in brackets: [::1]:9092)")]
pub struct InvalidEndpoint(String);

impl FromStr for Endpoint {
    type Err = InvalidEndpoint;
    fn from_str(text: &str) -> Result<Self, InvalidEndpoint> {
        let invalid = || InvalidEndpoint(text.to_owned());
        let (host, port) = text.rsplit_once(':').ok_or_else(invalid)?;
        let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let host = bracketed.unwrap_or(host);
        let port: u16 = port.parse().map_err(|_| invalid())?;
        let ambiguous = bracketed.is_none() && host.contains(':');
        if host.is_empty() || port == 0 || ambiguous || host.contains(['/', ' ', '[', ']']) {
            return Err(invalid());
        }
        Ok(Self::new(host, port))
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_read_and_write_alike() {
        for text in ["localhost:9092", "127.0.0.1:1", "[::1]:9092", "a.b.svc:65535"] {
            assert_eq!(text.parse::<Endpoint>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn other_texts_are_refused() {
        let wrong = ["", ":", "a", "a:", ":1", "a:0", "a:65536", "::1:9092", "http://a:1", "a:b"];
        for text in wrong {
            assert!(text.parse::<Endpoint>().is_err(), "{text}");
        }
    }
}
