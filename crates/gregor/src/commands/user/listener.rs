//! The listener that a user goes through.

use anyhow::{Context as _, bail};
use api::Kafka;
use api::kafka::listener::{AuthenticationType, Listener};

use super::Login;

/// A listener, and where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entrance {
    pub(super) name: String,
    /// `host:port`, separated by commas.
    pub(super) bootstrap: String,
    /// Whether it is encrypted.
    pub(super) tls: bool,
    /// The certificates that the status names, in PEM.
    pub(super) certificates: Vec<String>,
    /// Whether brokers show a certificate there that the user brought.
    pub(super) own_certificate: bool,
}

/// The listener called so, or the first that takes this login.
pub(super) fn choose(kafka: &Kafka, login: Login, name: Option<&str>) -> anyhow::Result<Entrance> {
    let listeners = &kafka.spec.kafka.listeners;
    let all = || listeners.iter().map(describe).collect::<Vec<_>>().join(", ");
    let found = match name {
        Some(name) => {
            let found = listeners.iter().find(|listener| listener.name == name);
            let Some(found) = found else {
                bail!("there is no listener {name}; there are {}", all());
            };
            if !takes(found, login) {
                bail!("listener {name} does not take {}; there are {}", login.word(), all());
            }
            found
        }
        None => match listeners.iter().find(|listener| takes(listener, login)) {
            Some(found) => found,
            None => bail!(
                "no listener has authentication of type {}; there are {}",
                login.word(),
                all()
            ),
        },
    };
    entrance(kafka, found)
}

/// The names of the listeners that take this login.
pub(super) fn fitting(kafka: &Kafka, login: Login) -> Vec<String> {
    let fitting = kafka.spec.kafka.listeners.iter().filter(|listener| takes(listener, login));
    fitting.map(|listener| listener.name.clone()).collect()
}

fn entrance(kafka: &Kafka, listener: &Listener) -> anyhow::Result<Entrance> {
    let name = listener.name.clone();
    let statuses = kafka.status.as_ref().and_then(|status| status.listeners.as_ref());
    let status =
        statuses.and_then(|all| all.iter().find(|one| one.name.as_deref() == Some(&listener.name)));
    let bootstrap = status.and_then(|status| status.bootstrap_servers.clone());
    let bootstrap = bootstrap.filter(|servers| !servers.is_empty()).with_context(|| {
        format!("listener {name} has no address yet: wait until the cluster is ready")
    })?;
    let configuration = listener.configuration.as_ref();
    Ok(Entrance {
        bootstrap,
        tls: listener.tls,
        certificates: status.and_then(|one| one.certificates.clone()).unwrap_or_default(),
        own_certificate: configuration.is_some_and(|one| one.broker_cert_chain_and_key.is_some()),
        name,
    })
}

fn takes(listener: &Listener, login: Login) -> bool {
    let kind = listener.authentication.as_ref().map(|authentication| authentication.kind);
    match login {
        Login::Tls => listener.tls && kind == Some(AuthenticationType::Tls),
        Login::Scram => kind == Some(AuthenticationType::ScramSha512),
    }
}

/// `tls:9093 (tls)`, for people.
fn describe(listener: &Listener) -> String {
    let kind = match listener.authentication.as_ref().map(|authentication| authentication.kind) {
        Some(AuthenticationType::Tls) => "tls",
        Some(AuthenticationType::ScramSha512) => "scram-sha-512",
        Some(AuthenticationType::Custom) => "custom",
        Some(AuthenticationType::Oauth) => "oauth",
        None => "no authentication",
    };
    format!("{}:{} ({kind})", listener.name, listener.port)
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::{Value, json};

    use super::*;

    pub(in crate::commands::user) fn kafka(listeners: &Value, status: &Value) -> Kafka {
        serde_json::from_value(json!({
            "apiVersion": "kafka.strimzi.io/v1",
            "kind": "Kafka",
            "metadata": { "name": "c" },
            "spec": { "kafka": { "listeners": listeners } },
            "status": { "listeners": status },
        }))
        .unwrap()
    }

    fn listener(name: &str, port: u16, tls: bool, authentication: &str) -> Value {
        let mut listener = json!({ "name": name, "port": port, "type": "internal", "tls": tls });
        if !authentication.is_empty() {
            listener["authentication"] = json!({ "type": authentication });
        }
        listener
    }

    fn cluster() -> Kafka {
        let listeners = json!([
            listener("plain", 9092, false, ""),
            listener("open", 9093, true, ""),
            listener("tls", 9094, true, "tls"),
            listener("sasl", 9095, false, "scram-sha-512"),
            listener("late", 9096, true, "tls"),
        ]);
        let status = json!([
            { "name": "plain", "bootstrapServers": "p:9092" },
            { "name": "tls", "bootstrapServers": "t:9094", "certificates": ["pem"] },
            { "name": "sasl", "bootstrapServers": "s:9095" },
        ]);
        kafka(&listeners, &status)
    }

    #[test]
    fn the_first_listener_that_fits_is_taken_unless_one_is_named() {
        let chosen = |login, name| choose(&cluster(), login, name).map_err(|e| e.to_string());
        let tls = chosen(Login::Tls, None).unwrap();
        assert_eq!((tls.name.as_str(), tls.bootstrap.as_str(), tls.tls), ("tls", "t:9094", true));
        assert_eq!(tls.certificates, ["pem"]);
        let sasl = chosen(Login::Scram, None).unwrap();
        assert_eq!((sasl.bootstrap.as_str(), sasl.tls), ("s:9095", false));
        assert_eq!(chosen(Login::Tls, Some("tls")), Ok(tls));
        let error = chosen(Login::Tls, Some("late")).unwrap_err();
        assert!(error.contains("no address yet"), "{error}");
        let error = chosen(Login::Tls, Some("open")).unwrap_err();
        assert!(error.contains("does not take tls; there are plain:9092 (no auth"), "{error}");
        let error = chosen(Login::Tls, Some("none")).unwrap_err();
        assert!(error.starts_with("there is no listener none"), "{error}");
        assert_eq!(fitting(&cluster(), Login::Tls), ["tls", "late"]);
    }

    #[test]
    fn where_none_fits_all_are_named() {
        let only = kafka(&json!([listener("plain", 9092, false, "")]), &json!([]));
        let error = choose(&only, Login::Scram, None).unwrap_err().to_string();
        let expected = "no listener has authentication of type scram-sha-512; there are plain:9092 \
                        (no authentication)";
        assert_eq!(error, expected);
    }
}
