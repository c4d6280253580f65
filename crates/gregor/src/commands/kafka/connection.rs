//! How to reach the cluster: the flags that all commands share, checked before anything is connected.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use kafka_admin::{Admin, Bootstrap, ClientOptions, Credentials, Endpoint, Secret, Tls};

use super::Usage;
use crate::commands::hosts::Hosts;

const BOOTSTRAP_VARIABLE: &str = "GREGOR_BOOTSTRAP";
const PASSWORD_VARIABLE: &str = "GREGOR_PASSWORD";

/// Share of the total time for one attempt, so that there can be a second one.
const ATTEMPT_PARTS: u32 = 2;

/// A node that does not accept a connection within this time is considered unreachable.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// A longer timeout is most likely a mistake.
const TIMEOUT_SECONDS_MAX: u64 = 3600;

/// Connection options.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct Connection {
    /// Bootstrap brokers, separated by commas [env: GREGOR_BOOTSTRAP]
    #[arg(long, global = true, value_name = "HOST:PORT", value_delimiter = ',')]
    bootstrap: Vec<Endpoint>,
    /// Bootstrap controllers instead of brokers. They respond when no broker does, but not about topics
    #[arg(long, global = true, value_name = "HOST:PORT", value_delimiter = ',')]
    controllers: Vec<Endpoint>,
    /// Use TLS, and trust the certificate authorities in this PEM file
    #[arg(long, global = true, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Client certificate (PEM, with its chain); needs --key
    #[arg(long, global = true, value_name = "FILE")]
    cert: Option<PathBuf>,
    /// Private key of --cert (PEM)
    #[arg(long, global = true, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Name to expect in the servers' certificates instead of the host name
    #[arg(long, global = true, value_name = "NAME")]
    server_name: Option<String>,
    /// SASL mechanism; needs --user and a password
    #[arg(long, global = true, value_name = "MECHANISM")]
    sasl: Option<Mechanism>,
    /// User name
    #[arg(long, global = true, value_name = "NAME")]
    user: Option<String>,
    /// File with the password [env: GREGOR_PASSWORD has the password itself]
    #[arg(long, global = true, value_name = "FILE")]
    password_file: Option<PathBuf>,
    #[command(flatten)]
    hosts: Hosts,
    /// Time limit of a request, including retries
    #[arg(long, global = true, value_name = "SECONDS", default_value_t = 15)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=TIMEOUT_SECONDS_MAX))]
    timeout: u64,
}

/// SASL mechanism.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Mechanism {
    /// PLAIN: sends the password, so it needs TLS
    Plain,
    /// SCRAM-SHA-512: sends a proof of the password
    #[value(name = "scram-sha-512")]
    ScramSha512,
}

/// A client and its bootstrap nodes.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) admin: Admin,
    /// Whether these are brokers.
    pub(super) asks_brokers: bool,
}

impl Session {
    /// Fails if these are controllers, which do not know about `what`.
    pub(crate) fn require_brokers(&self, what: &str) -> anyhow::Result<()> {
        match self.asks_brokers {
            true => Ok(()),
            false => Err(Usage::error(format!(
                "controllers do not serve {what}: name brokers with --bootstrap instead"
            ))),
        }
    }
}

/// Looks up an environment variable.
type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

impl Connection {
    /// The client for these options. Reads files, does not connect.
    pub(crate) fn session(&self, environment: Environment<'_>) -> anyhow::Result<Session> {
        let bootstrap = self.bootstrap(environment)?;
        let asks_brokers = matches!(bootstrap, Bootstrap::Brokers(_));
        let timeout = Duration::from_secs(self.timeout);
        let options = ClientOptions {
            tls: self.tls()?,
            credentials: self.credentials(environment)?,
            names: self.hosts.names(None)?,
            call_timeout: timeout,
            attempt_timeout: timeout / ATTEMPT_PARTS,
            connect_timeout: CONNECT_MAX.min(timeout / ATTEMPT_PARTS),
            wait_for_nodes: false,
            ..ClientOptions::default()
        };
        Ok(Session { admin: Admin::new(bootstrap, options)?, asks_brokers })
    }

    /// Options take precedence over the environment.
    fn bootstrap(&self, environment: Environment<'_>) -> anyhow::Result<Bootstrap> {
        match (self.bootstrap.is_empty(), self.controllers.is_empty()) {
            (false, false) => Err(Usage::error(
                "--bootstrap and --controllers exclude each other: ask brokers or controllers",
            )),
            (false, true) => Ok(Bootstrap::Brokers(self.bootstrap.clone())),
            (true, false) => Ok(Bootstrap::Controllers(self.controllers.clone())),
            (true, true) => {
                let value = environment(BOOTSTRAP_VARIABLE).filter(|value| !value.is_empty());
                let value = value.ok_or_else(|| {
                    Usage::error(format!(
                        "no cluster given: name brokers with --bootstrap HOST:PORT (or in \
                         {BOOTSTRAP_VARIABLE}), or controllers with --controllers HOST:PORT"
                    ))
                })?;
                let endpoints: Result<_, _> = value.split(',').map(str::parse).collect();
                let wrong = |error| Usage::error(format!("{BOOTSTRAP_VARIABLE}: {error}"));
                Ok(Bootstrap::Brokers(endpoints.map_err(wrong)?))
            }
        }
    }

    fn tls(&self) -> anyhow::Result<Option<Tls>> {
        let identity = match (&self.cert, &self.key) {
            (None, None) => None,
            (Some(cert), Some(key)) => Some((cert, key)),
            (Some(_), None) => return Err(Usage::error("--cert needs --key")),
            (None, Some(_)) => return Err(Usage::error("--key needs --cert")),
        };
        let Some(ca) = &self.ca else {
            let flag = match (identity, &self.server_name) {
                (Some(_), _) => "--cert",
                (None, Some(_)) => "--server-name",
                (None, None) => return Ok(None),
            };
            let sentence =
                format!("{flag} needs --ca: no certificate authority is trusted by default");
            return Err(Usage::error(sentence));
        };
        let authorities = read(ca, "--ca")?;
        let identity = identity
            .map(|(cert, key)| Ok::<_, anyhow::Error>((read(cert, "--cert")?, read(key, "--key")?)))
            .transpose()?;
        let identity = identity.as_ref().map(|(cert, key)| (cert.as_slice(), key.as_slice()));
        let tls = Tls::new(&authorities, identity);
        let tls = tls.with_context(|| match (&self.cert, &self.key) {
            (Some(cert), Some(key)) => format!(
                "TLS cannot be set up from {}, {} and {}",
                ca.display(),
                cert.display(),
                key.display()
            ),
            _ => format!("TLS cannot be set up from {}", ca.display()),
        })?;
        Ok(Some(match &self.server_name {
            Some(name) => tls.with_server_name(name).context("--server-name")?,
            None => tls,
        }))
    }

    fn credentials(&self, environment: Environment<'_>) -> anyhow::Result<Option<Credentials>> {
        let Some(mechanism) = self.sasl else {
            return match (&self.user, &self.password_file) {
                (None, None) => Ok(None),
                (Some(_), _) => Err(Usage::error("--user needs --sasl")),
                (None, Some(_)) => Err(Usage::error("--password-file needs --sasl")),
            };
        };
        let username = self.user.clone();
        let username = username.ok_or_else(|| Usage::error("--sasl needs --user"))?;
        let password = match &self.password_file {
            Some(file) => {
                let text = String::from_utf8(read(file, "--password-file")?)
                    .map_err(|_| anyhow::anyhow!("{} is not UTF-8 text", file.display()))?;
                // Editors end a file with a line break, which is not part of the password.
                text.trim_end_matches(['\n', '\r']).to_owned()
            }
            None => environment(PASSWORD_VARIABLE).ok_or_else(|| {
                Usage::error(format!(
                    "--sasl needs a password: in {PASSWORD_VARIABLE} or in a --password-file"
                ))
            })?,
        };
        let password = Secret::new(password);
        Ok(Some(match mechanism {
            Mechanism::Plain => Credentials::Plain { username, password },
            Mechanism::ScramSha512 => Credentials::ScramSha512 { username, password },
        }))
    }
}

fn read(file: &Path, flag: &str) -> anyhow::Result<Vec<u8>> {
    fs::read(file).with_context(|| format!("cannot read {} ({flag})", file.display()))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Program {
        #[command(flatten)]
        connection: Connection,
    }

    fn session(flags: &str, environment: &[(&str, &str)]) -> Result<Session, String> {
        let words = std::iter::once("program").chain(flags.split_whitespace());
        let program = Program::try_parse_from(words).map_err(|error| error.to_string())?;
        let get = |name: &str| {
            let found = environment.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        program.connection.session(&get).map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn flags_win_over_the_environment() {
        let environment = [("GREGOR_BOOTSTRAP", "a:1,b:2")];
        assert!(session("", &environment).unwrap().asks_brokers);
        assert!(!session("--controllers c:1,d:2", &environment).unwrap().asks_brokers);
        assert!(session("--bootstrap [::1]:9092", &[]).unwrap().asks_brokers);
    }

    #[test]
    fn what_makes_no_sense_is_said_in_one_sentence() {
        let rows = [
            ("", "no cluster given"),
            ("--bootstrap a:1 --controllers b:1", "exclude each other"),
            ("--bootstrap a", "\"a\" is not HOST:PORT"),
            ("--bootstrap a:1 --cert x", "--cert needs --key"),
            ("--bootstrap a:1 --key x", "--key needs --cert"),
            ("--bootstrap a:1 --cert x --key y", "--cert needs --ca"),
            ("--bootstrap a:1 --server-name y", "--server-name needs --ca"),
            ("--bootstrap a:1 --ca /none", "cannot read /none (--ca): No such file"),
            ("--bootstrap a:1 --user x", "--user needs --sasl"),
            ("--bootstrap a:1 --sasl plain", "--sasl needs --user"),
            ("--bootstrap a:1 --sasl plain --user x", "--sasl needs a password"),
            ("--bootstrap a:1 --sasl scram --user x", "scram-sha-512"),
            ("--bootstrap a:1 --timeout 0", "1..=3600"),
        ];
        for (flags, expected) in rows {
            let error = session(flags, &[]).unwrap_err();
            assert!(error.contains(expected), "{flags}: {error}");
        }
        let error = session("", &[("GREGOR_BOOTSTRAP", "x")]).unwrap_err();
        assert!(error.starts_with("GREGOR_BOOTSTRAP: \"x\" is not HOST:PORT"), "{error}");
    }
}
