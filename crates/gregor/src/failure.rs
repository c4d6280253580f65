//! How a command can fail, and the exit code that says so.

use std::process::ExitCode;

/// The exit codes, as `--help` shows them.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  not done: the reason is on stderr
  2  invalid command line
  3  a change was requested and its outcome is unknown: check the cluster before you retry";

/// A command line that makes no sense.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Usage(pub(crate) String);

impl Usage {
    /// The error with this sentence.
    pub(crate) fn error(sentence: impl Into<String>) -> anyhow::Error {
        Self(sentence.into()).into()
    }
}

/// A change that may or may not have happened. Added to the error that left it open.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct OutcomeUnknown(pub(crate) String);

/// Not a failure: the command has said what it has to say, and its exit code says it, too.
#[derive(Debug, thiserror::Error)]
#[error("the exit code is {0}")]
pub(crate) struct Said(pub(crate) u8);

impl Said {
    /// Ends a command with this code; with 0 as ever.
    pub(crate) fn code(code: u8) -> anyhow::Result<()> {
        match code {
            0 => Ok(()),
            code => Err(Self(code).into()),
        }
    }
}

/// The exit code of a command that failed so.
pub(crate) fn exit_code(error: &anyhow::Error) -> ExitCode {
    if error.downcast_ref::<OutcomeUnknown>().is_some() {
        ExitCode::from(3)
    } else if error.downcast_ref::<Usage>().is_some() {
        ExitCode::from(2)
    } else {
        ExitCode::FAILURE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_is_found_below_and_above_other_errors() {
        let cause = || anyhow::anyhow!("no answer");
        let unknown = cause().context(OutcomeUnknown("it may have happened".to_owned()));
        assert_eq!(exit_code(&unknown), ExitCode::from(3));
        assert_eq!(format!("{unknown:#}"), "it may have happened: no answer");
        assert_eq!(exit_code(&Usage::error("no").context("more")), ExitCode::from(2));
        assert_eq!(exit_code(&cause()), ExitCode::from(1));
    }
}
