//! What goes into the Secrets of users: passwords, keys and certificates. It is made for one pass and forgotten with it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use control::certificates::authority::Kind;
use control::users::{
    Authority, Credential, Login, PasswordEntry, PasswordFound, PasswordReference, Problem,
};
use futures::stream::{self, StreamExt as _};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use objects::{hash, secrets};

use super::cache::Entry;
use super::error::PassError;
use super::stored::{login, print};
use super::{JAAS_CONFIG, PASSWORD};
use crate::context::Context;
use crate::pki::{SecretContent, Signer, names, user};
use crate::words::chain;

/// Reads of Secrets at a time.
const READERS: usize = 16;

/// The clients CA, with its key.
pub(super) struct ClientsCa {
    /// What decisions know of it.
    pub(super) facts: Authority,
    /// The entry `ca.crt`, which goes into Secrets of users as it is.
    certificate: Vec<u8>,
    signer: Option<Signer>,
}

impl ClientsCa {
    /// It is not needed.
    pub(super) const fn not_read() -> Self {
        Self { facts: Authority::NotRead, certificate: Vec::new(), signer: None }
    }

    /// Reads its Secrets.
    pub(super) async fn read(
        client: &Client,
        namespace: &str,
        cluster: &str,
    ) -> Result<Self, PassError> {
        let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
        let missing = |what: String| Self { facts: Authority::Missing(what), ..Self::not_read() };
        let mut contents = Vec::new();
        for (name, entry) in [
            (names::cert_secret(cluster, Kind::Clients), names::CA_CRT),
            (names::key_secret(cluster, Kind::Clients), names::CA_KEY),
        ] {
            let found = api.get_opt(&name).await;
            let found = found.map_err(|error| PassError::Authority(Box::new(error)))?;
            let Some(found) = found else {
                return Ok(missing(format!("Secret {name} in namespace {namespace} not found")));
            };
            let content = secrets::content(&found);
            if content.data.get(entry).is_none_or(Vec::is_empty) {
                return Ok(missing(format!("Secret {name} is missing the entry {entry}")));
            }
            contents.push(content);
        }
        let [certificates, keys] = contents.as_slice() else { return Ok(Self::not_read()) };
        let certificate = certificates.data.get(names::CA_CRT).cloned().unwrap_or_default();
        let signer = Signer::load(Kind::Clients, keys, certificates);
        let print = hash::long(&certificate);
        let facts = Authority::Found { print, can_sign: signer.is_some() };
        Ok(Self { facts, certificate, signer })
    }

    fn issue(&self, wanted: &user::Order<'_>) -> Result<SecretContent, Problem> {
        let signer = self.signer.as_ref();
        let signer = signer.ok_or_else(|| Problem::not_issued("the clients CA cannot sign"))?;
        let mut content = user::issue(signer, wanted).map_err(|error| not_made(&error))?;
        content.data.insert(user::CA_CRT.to_owned(), self.certificate.clone());
        Ok(content)
    }
}

/// The passwords that users bring.
#[derive(Default)]
pub(super) struct Passwords {
    /// What decisions know of them.
    pub(super) facts: BTreeMap<(String, PasswordReference), PasswordFound>,
    /// Users whose Secret could not be read.
    pub(super) unread: BTreeSet<String>,
    texts: BTreeMap<PasswordEntry, String>,
}

impl Passwords {
    /// Reads the Secrets that the users name, each once.
    pub(super) async fn read(
        ctx: &Context,
        namespace: &str,
        prefix: &str,
        entries: &[Arc<Entry>],
    ) -> Self {
        let reference = |entry: &Arc<Entry>| match &entry.resource.spec.as_ref()?.login {
            Login::Scram(Some(reference)) => Some((entry.resource.name.clone(), reference.clone())),
            Login::Scram(None) | Login::None | Login::Tls(_) | Login::TlsExternal => None,
        };
        let wanted: Vec<_> = entries.iter().filter_map(reference).collect();
        let named = wanted.iter().filter_map(|(_, reference)| PasswordEntry::of(reference));
        let named: BTreeSet<_> = named.map(|entry| entry.secret).collect();
        let api: Api<Secret> = Api::namespaced(ctx.client.clone(), namespace);
        let read = stream::iter(named).map(|name| {
            let api = &api;
            async move {
                let found = api.get_opt(&name).await;
                (name, found)
            }
        });
        let found: BTreeMap<_, _> = read.buffer_unordered(READERS).collect().await;
        let mut all = Self::default();
        for (user, reference) in wanted {
            let Some(entry) = PasswordEntry::of(&reference) else { continue };
            let found = match found.get(&entry.secret) {
                Some(Ok(None)) => PasswordFound::NoSecret,
                Some(Ok(Some(secret))) => all.take(&entry, secret, |text| {
                    print(namespace, &format!("{prefix}{user}"), text)
                }),
                Some(Err(error)) => {
                    tracing::debug!(
                        secret = entry.secret,
                        "cannot read a password: {}",
                        chain(error)
                    );
                    all.unread.insert(user);
                    continue;
                }
                // Each of them was asked for; this is for the compiler.
                None => continue,
            };
            all.facts.insert((user, reference), found);
        }
        all
    }

    fn take(
        &mut self,
        entry: &PasswordEntry,
        secret: &Secret,
        print: impl FnOnce(&str) -> String,
    ) -> PasswordFound {
        let bytes = secret.data.as_ref().and_then(|data| data.get(&entry.key));
        let Some(ByteString(bytes)) = bytes else { return PasswordFound::NoEntry };
        match std::str::from_utf8(bytes).ok().filter(|text| !text.is_empty()) {
            Some(text) => {
                self.texts.insert(entry.clone(), text.to_owned());
                PasswordFound::Print(print(text))
            }
            None => PasswordFound::Empty,
        }
    }
}

/// What is needed to carry out the plan for one user.
pub(super) struct Material {
    /// The password, if Kafka is given one.
    pub(super) password: Option<kafka_admin::Secret>,
    /// The entries of the Secret.
    pub(super) data: BTreeMap<String, ByteString>,
    /// The fingerprint of a password that was made just now.
    pub(super) new_print: Option<String>,
    /// The Secret as it is now.
    pub(super) before: Option<Secret>,
}

/// For whom material is made, and what.
pub(super) struct Order {
    pub(super) user: String,
    pub(super) namespace: String,
    /// The name of the Secret.
    pub(super) secret: String,
    pub(super) credential: Credential,
    /// Whether Kafka is given the password.
    pub(super) sets_password: bool,
    /// The Secret as it is now.
    pub(super) before: Option<Secret>,
    /// The time, in seconds since 1970.
    pub(super) now: i64,
}

/// Makes what one user needs. That takes milliseconds, or more for an RSA key.
///
/// # Errors
/// What there should be is not there any more, or could not be made.
pub(super) fn make(
    order: Order,
    authority: &ClientsCa,
    passwords: &Passwords,
) -> Result<Material, Problem> {
    let stored = order.before.as_ref().map(secrets::content).unwrap_or_default();
    let user = order.user.as_str();
    let content = match &order.credential {
        Credential::Kept => stored,
        Credential::Same if stored.data.contains_key(PASSWORD) && !is_certificate(&stored) => {
            with_password(user, &text(&stored)?)
        }
        Credential::Same => only_certificate(stored),
        Credential::Given(entry) => match passwords.texts.get(entry) {
            Some(password) => with_password(user, password),
            None => return Err(Problem::kubernetes("the password is missing")),
        },
        Credential::Generated { letters } => {
            let password = user::password(*letters).map_err(|error| not_made(&error))?;
            with_password(user, &password)
        }
        Credential::Issued { days, is_rsa } => {
            let wanted = user::Order { user, days: *days, now: order.now, is_rsa: *is_rsa };
            authority.issue(&wanted)?
        }
        Credential::KeyStore => {
            let store = user::key_store(user, &stored.data).map_err(|error| not_made(&error))?;
            let store = store.ok_or_else(|| Problem::not_issued("its key cannot be read"))?;
            let mut content = only_certificate(stored);
            content.data.extend(store.data);
            content
        }
    };
    let is_new = matches!(order.credential, Credential::Generated { .. });
    let new_print = match is_new {
        true => Some(print(&order.namespace, &order.secret, &text(&content)?)),
        false => None,
    };
    let password = match order.sets_password {
        true => Some(kafka_admin::Secret::new(text(&content)?)),
        false => None,
    };
    let data = content.data.into_iter().map(|(entry, bytes)| (entry, ByteString(bytes)));
    Ok(Material { password, data: data.collect(), new_print, before: order.before })
}

fn is_certificate(content: &SecretContent) -> bool {
    content.data.contains_key(user::USER_CRT)
}

fn only_certificate(mut content: SecretContent) -> SecretContent {
    let entries =
        [user::CA_CRT, user::USER_CRT, user::USER_KEY, user::USER_P12, user::USER_PASSWORD];
    content.data.retain(|entry, _| entries.contains(&entry.as_str()));
    content
}

fn text(content: &SecretContent) -> Result<String, Problem> {
    let bytes = content.data.get(PASSWORD).cloned().unwrap_or_default();
    let text = String::from_utf8(bytes).ok().filter(|text| !text.is_empty());
    text.ok_or_else(|| Problem::kubernetes("the password is no longer in the Secret"))
}

fn with_password(user: &str, password: &str) -> SecretContent {
    let mut content = SecretContent::default();
    content.data.insert(PASSWORD.to_owned(), password.as_bytes().to_vec());
    content.data.insert(JAAS_CONFIG.to_owned(), login(user, password).into_bytes());
    content
}

fn not_made(error: &user::Error) -> Problem {
    Problem::not_issued(&chain(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(credential: Credential, before: Option<&[(&str, &str)]>) -> Order {
        let secret = |entries: &[(&str, &str)]| {
            let entry = |(name, text): &(&str, &str)| {
                ((*name).to_owned(), ByteString(text.as_bytes().to_vec()))
            };
            Secret { data: Some(entries.iter().map(entry).collect()), ..Secret::default() }
        };
        Order {
            user: "bob".to_owned(),
            namespace: "ns".to_owned(),
            secret: "bob".to_owned(),
            credential,
            sets_password: true,
            before: before.map(secret),
            now: 0,
        }
    }

    fn made(order: Order) -> Result<BTreeMap<String, String>, Problem> {
        let material = make(order, &ClientsCa::not_read(), &Passwords::default())?;
        let text =
            |(name, bytes): (String, ByteString)| (name, String::from_utf8(bytes.0).unwrap());
        Ok(material.data.into_iter().map(text).collect())
    }

    #[test]
    fn a_generated_password_begins_with_a_letter_and_is_in_the_login() {
        for _ in 0..20 {
            let data = made(order(Credential::Generated { letters: 12 }, None)).unwrap();
            let password = &data["password"];
            assert_eq!(password.len(), 12, "U6.2");
            assert!(password.starts_with(|first: char| first.is_ascii_alphabetic()), "U6.2");
            assert!(password.chars().all(|letter| letter.is_ascii_alphanumeric()), "U6.2");
            assert_eq!(data["sasl.jaas.config"], login("bob", password), "U5.7");
            assert_eq!(data.len(), 2, "U5.6");
        }
    }

    #[test]
    fn entries_of_another_kind_of_user_go() {
        let before = [("password", "p"), ("sasl.jaas.config", "x"), ("other", "y")];
        let data = made(order(Credential::Same, Some(&before))).unwrap();
        assert_eq!(data.keys().collect::<Vec<_>>(), ["password", "sasl.jaas.config"], "U5.8");
        assert_eq!(data["password"], "p");
        let before = [("user.crt", "c"), ("user.key", "k"), ("password", "p")];
        let mut certificate = order(Credential::Same, Some(&before));
        certificate.sets_password = false;
        let data = made(certificate).unwrap();
        assert_eq!(data.keys().collect::<Vec<_>>(), ["user.crt", "user.key"], "U5.8");
    }

    #[test]
    fn what_is_gone_meanwhile_is_told() {
        let entry = PasswordEntry { secret: "s".to_owned(), key: "k".to_owned() };
        for credential in [
            Credential::Given(entry),
            Credential::Kept,
            Credential::Issued { days: 1, is_rsa: false },
            Credential::KeyStore,
        ] {
            assert!(made(order(credential.clone(), None)).is_err(), "{credential:?}");
        }
    }
}
