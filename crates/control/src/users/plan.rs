//! What is done for one user, in Kafka and with its Secret, and the result.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::access::{self, Access, Rule};
use super::credentials::{self, Authority, Credential, PasswordFound};
use super::quotas::{self, QuotaChanges};
use super::report::{Problem, Report};
use super::resource::{KeyKind, Login, PasswordReference, Resource, Spec, by_certificate};
use super::settings::{Exclusion, Settings};
use super::stored::{self, Stored};
use crate::annotations::Annotation;

/// What Kafka has of all users, by the names by which it knows them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct View {
    /// The access rules.
    pub access: BTreeMap<String, Access>,
    /// The quotas.
    pub quotas: BTreeMap<String, BTreeMap<String, f64>>,
    /// Who has a SCRAM-SHA-512 credential.
    pub scram: BTreeSet<String>,
}

/// What else decisions about the users of a cluster depend on.
#[derive(Debug, Clone, PartialEq)]
pub struct Facts {
    /// How users are managed.
    pub settings: Settings,
    /// The id of the cluster.
    pub cluster_id: String,
    /// What Kafka has.
    pub view: View,
    /// The clients CA.
    pub authority: Authority,
    /// What was found for references to passwords, with fingerprints for the user of the name.
    pub passwords: BTreeMap<(String, PasswordReference), PasswordFound>,
    /// The time, in seconds since 1970.
    pub now: i64,
    /// Whether certificates may be renewed now.
    pub window_is_open: bool,
}

/// In which forms a user is managed in Kafka. It is recorded before Kafka is changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Claims {
    /// With a SCRAM credential.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub scram: bool,
    /// With access rules and quotas of its name.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub plain: bool,
    /// With access rules and quotas of the subject of its certificate.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub certificate: bool,
}

/// What is changed in Kafka, in this order: credentials, new rules, quotas, old rules.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct KafkaPlan {
    /// The credential of the user is set.
    pub sets_password: bool,
    /// It is deleted.
    pub deletes_password: bool,
    /// Rules that are created, with whom they concern; what denies comes first.
    pub creates: Vec<(String, Rule)>,
    /// Rules that are deleted; what denies comes last.
    pub deletes: Vec<(String, Rule)>,
    /// Quotas, by whom they concern.
    pub quotas: BTreeMap<String, QuotaChanges>,
}

/// What is done with the Secret of a user.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum SecretAct {
    /// Nothing.
    #[default]
    Nothing,
    /// It is deleted.
    Delete,
    /// It is created or replaced.
    Write(SecretPlan),
}

/// A Secret as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretPlan {
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// Its entries.
    pub credential: Credential,
    /// Whether the password in it is noted as given to Kafka.
    pub notes_password: bool,
}

/// What is done for one user. Its claims are recorded first.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    /// What is recorded before anything else is done.
    pub claims_before: Claims,
    /// What is recorded when everything is done.
    pub claims_after: Claims,
    /// What is changed in Kafka.
    pub kafka: KafkaPlan,
    /// What is done with the Secret, when Kafka has the password.
    pub secret: SecretAct,
    /// What the resource gets as its status whatever comes of the rest; nothing else is done then.
    pub only: Option<Report>,
    login: Login,
    secret_name: Option<String>,
    warnings: Vec<Problem>,
}

/// What Kafka and Kubernetes answered: the first problem.
pub type Answers = Option<Problem>;

/// Decides what is done for a resource. `None` if nothing is, not even a status.
#[must_use]
pub fn plan(
    resource: &Resource,
    stored: Option<&Stored>,
    recorded: Claims,
    facts: &Facts,
) -> Option<Plan> {
    let spec = resource.spec.as_ref()?;
    if resource.is_deleting {
        // Its Secret goes with it. That Kafka forgets the user is decided as for one that is gone.
        return None;
    }
    let only = |report| Plan {
        claims_before: recorded,
        claims_after: recorded,
        only: Some(report),
        ..Plan::default()
    };
    if resource.is_paused {
        return Some(only(Report::paused(resource)));
    }
    let planned = planned(resource, spec, (stored, recorded), facts);
    Some(planned.unwrap_or_else(|problem| only(Report::failed(resource, problem))))
}

fn planned(
    resource: &Resource,
    spec: &Spec,
    (stored, recorded): (Option<&Stored>, Claims),
    facts: &Facts,
) -> Result<Plan, Problem> {
    let rules = access::rules(spec.rules.as_deref().unwrap_or_default())?;
    if spec.rules.is_some() && !facts.settings.has_access_rules {
        return Err(Problem::no_authorization());
    }
    let secret_name = format!("{}{}", facts.settings.secret_prefix, resource.name);
    let is_certain = spec.login.by_certificate();
    let wanted = Claims {
        scram: matches!(spec.login, Login::Scram(_)),
        plain: !is_certain,
        certificate: is_certain,
    };
    let mut kafka = KafkaPlan::default();
    let secret = secret(resource, spec, (&secret_name, stored), facts, &mut kafka)?;
    let (own, other) = names(&resource.name, is_certain);
    let mut warnings = warnings(resource, spec, facts);
    kafka.compare(&own, &rules, &spec.quotas, facts);
    let has_other = if is_certain { recorded.plain } else { recorded.certificate };
    if has_other {
        kafka.compare(&other, &BTreeSet::new(), &BTreeMap::new(), facts);
    }
    let is_listed = facts.view.scram.contains(&resource.name);
    kafka.deletes_password = recorded.scram && !wanted.scram && is_listed;
    kafka.sort();
    let others = facts.view.access.get(&own).map_or(0, |access| access.others);
    if facts.settings.has_access_rules && others > 0 {
        warnings.push(Problem::rules_kept(others));
    }
    Ok(Plan {
        claims_before: recorded.with(wanted),
        claims_after: wanted,
        kafka,
        secret,
        only: None,
        secret_name: spec.login.has_secret().then_some(secret_name),
        login: spec.login.clone(),
        warnings,
    })
}

/// The name by which Kafka knows a user, and the one by which it would with another kind of authentication.
fn names(name: &str, by_its_certificate: bool) -> (String, String) {
    let (plain, certificate) = (name.to_owned(), by_certificate(name));
    if by_its_certificate { (certificate, plain) } else { (plain, certificate) }
}

fn warnings(resource: &Resource, spec: &Spec, facts: &Facts) -> Vec<Problem> {
    let mut warnings = Vec::new();
    let settings = &facts.settings;
    match &spec.login {
        Login::Tls(_) | Login::TlsExternal if !settings.takes_certificates => {
            warnings.push(Problem::no_listener("tls"));
        }
        Login::Scram(_) if !settings.takes_passwords => {
            warnings.push(Problem::no_listener("scram-sha-512"));
        }
        Login::None | Login::Tls(_) | Login::TlsExternal | Login::Scram(_) => {}
    }
    if let KeyKind::Unknown(text) = &resource.key {
        warnings.push(Problem::unknown_key(text));
    }
    if let Exclusion::Invalid(why) = &settings.not_copied {
        warnings.push(Problem::invalid_exclusion(why));
    }
    warnings
}

fn secret(
    resource: &Resource,
    spec: &Spec,
    (name, stored): (&str, Option<&Stored>),
    facts: &Facts,
    kafka: &mut KafkaPlan,
) -> Result<SecretAct, Problem> {
    let (credential, mark) = match &spec.login {
        Login::None | Login::TlsExternal => {
            let is_ours = stored.is_some_and(|one| one.is_of(resource) && !one.is_deleting);
            return Ok(if is_ours { SecretAct::Delete } else { SecretAct::Nothing });
        }
        Login::Tls(days) => {
            check_stored(resource, name, stored)?;
            let (authority, settings) = (&facts.authority, &facts.settings);
            let time = (facts.now, facts.window_is_open);
            let made =
                credentials::certificate(resource, *days, stored, (authority, settings), time);
            (made?, None)
        }
        Login::Scram(reference) => {
            check_stored(resource, name, stored)?;
            let key = reference.clone().map(|one| (resource.name.clone(), one));
            let found = key.as_ref().and_then(|key| facts.passwords.get(key));
            let found = found.unwrap_or(&PasswordFound::NoSecret);
            let is_listed = facts.view.scram.contains(&resource.name);
            let settings = (facts.cluster_id.as_str(), &facts.settings);
            let given = reference.as_ref().map(|reference| (reference, found));
            let made = credentials::password(resource, given, (stored, is_listed), settings)?;
            kafka.sets_password = made.is_set;
            (made.credential, Some(made.mark))
        }
    };
    let mut labelled = stored::labelled(resource, stored, &facts.settings.not_copied)?;
    let notes_password = mark.is_some();
    match mark.flatten() {
        Some(mark) => {
            let name = Annotation::ScramCredential.name().to_owned();
            labelled.annotations.insert(name, mark);
        }
        None => drop(labelled.annotations.remove(Annotation::ScramCredential.name())),
    }
    let is_same = stored.is_some_and(|one| {
        one.labels == labelled.labels
            && one.annotations == labelled.annotations
            && one.is_of(resource)
            && !one.is_held
    });
    if is_same && credential == Credential::Kept {
        return Ok(SecretAct::Nothing);
    }
    Ok(SecretAct::Write(SecretPlan {
        labels: labelled.labels,
        annotations: labelled.annotations,
        credential,
        notes_password,
    }))
}

fn check_stored(resource: &Resource, name: &str, stored: Option<&Stored>) -> Result<(), Problem> {
    let Some(stored) = stored else { return Ok(()) };
    stored::check(resource, name, stored)?;
    match stored.is_deleting {
        true => Err(Problem::kubernetes(&format!("the Secret {name} is being deleted"))),
        false => Ok(()),
    }
}

impl KafkaPlan {
    /// Brings what Kafka has of a name to what is desired.
    fn compare(
        &mut self,
        name: &str,
        rules: &BTreeSet<Rule>,
        quotas: &BTreeMap<&'static str, f64>,
        facts: &Facts,
    ) {
        if facts.settings.has_access_rules {
            let none = BTreeSet::new();
            let found = facts.view.access.get(name).map_or(&none, |access| &access.rules);
            let named = |rule: &Rule| (name.to_owned(), rule.clone());
            self.creates.extend(rules.difference(found).map(named));
            self.deletes.extend(found.difference(rules).map(named));
        }
        let changes = quotas::changes(quotas, facts.view.quotas.get(name));
        if !changes.is_empty() {
            self.quotas.insert(name.to_owned(), changes);
        }
    }

    /// Nobody may do more in between than before or after.
    fn sort(&mut self) {
        self.creates.sort_by_key(|(_, rule)| rule.permission);
        self.deletes.sort_by_key(|(_, rule)| std::cmp::Reverse(rule.permission));
    }

    /// Whether nothing is changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Decides what Kafka forgets of a user whose resource is gone, by what is recorded of it. Its Secret goes with its owner.
#[must_use]
pub fn of_vanished(name: &str, recorded: Claims, facts: &Facts) -> KafkaPlan {
    let mut kafka = KafkaPlan {
        deletes_password: recorded.scram && facts.view.scram.contains(name),
        ..KafkaPlan::default()
    };
    let forms = [(recorded.plain, name.to_owned()), (recorded.certificate, by_certificate(name))];
    for (_, known_as) in forms.into_iter().filter(|(is_recorded, _)| *is_recorded) {
        kafka.compare(&known_as, &BTreeSet::new(), &BTreeMap::new(), facts);
    }
    kafka.sort();
    kafka
}

impl Claims {
    /// What either of them has.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self {
            scram: self.scram || other.scram,
            plain: self.plain || other.plain,
            certificate: self.certificate || other.certificate,
        }
    }
}

impl Plan {
    /// The status of the resource after the plan was carried out with these answers.
    #[must_use]
    pub fn report(&self, resource: &Resource, answers: Answers) -> Report {
        match (&self.only, answers) {
            (Some(report), _) => report.clone(),
            (None, Some(problem)) => Report::failed(resource, problem),
            (None, None) => {
                Report::ready(resource, &self.login, self.secret_name.clone(), &self.warnings)
            }
        }
    }
}
