//! Errors in one line.

use std::error::Error;

/// An error with all its causes, in one line.
#[must_use]
pub fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        // The message of some errors ends with the message of their cause.
        if !text.ends_with(&next) {
            text.push_str(": ");
            text.push_str(&next);
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use std::fmt;

    use super::*;

    #[derive(Debug)]
    struct Failure(&'static str, Option<Box<Failure>>);

    impl fmt::Display for Failure {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
    }

    impl Error for Failure {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            self.1.as_deref().map(|cause| cause as &(dyn Error + 'static))
        }
    }

    #[test]
    fn every_cause_is_named_once() {
        let cause = |text, below| Some(Box::new(Failure(text, below)));
        let alone = Failure("cannot connect", None);
        assert_eq!(chain(&alone), "cannot connect");
        let nested = Failure("cannot connect", cause("TLS failed", cause("no certificate", None)));
        assert_eq!(chain(&nested), "cannot connect: TLS failed: no certificate");
        let repeated = Failure(
            "cannot connect: TLS failed",
            cause("TLS failed", cause("no certificate", None)),
        );
        assert_eq!(chain(&repeated), "cannot connect: TLS failed: no certificate");
    }
}
