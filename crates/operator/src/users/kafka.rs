//! What Kafka has of users, and how that is changed: many users with one request.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;

use control::topics::batch::{RECORDS_MAX, cut};
use control::users::{
    Access, KafkaPlan, Operation, Pattern, Permission, Problem, ResourceKind, Rule, Settings, View,
};
use kafka_admin::{
    Acl, AclOperation, AclPattern, AclPermission, AclResource, Admin, AlterScramCredentialsError,
    CallError, Code, KnownAcls, Outcome, Refusal, ScramChange, Secret,
};

use super::error::PassError;
use crate::context::Context;
use crate::liveness;
use crate::metrics::{KafkaEffect, Metrics};
use crate::words::chain;
use crate::write::KafkaWriteError;

/// How principals of users begin.
const USER: &str = "User:";

/// Passwords in a request. Salting each takes some milliseconds, and the request has to be sent in time.
const PASSWORDS_MAX: usize = 200;

/// Names in a line of the log.
const NAMED_MAX: usize = 5;

/// Answers after which the same request may succeed soon: the controller changes, or takes fewer requests for a while.
const PASSING: [Code; 4] = [
    Code::REQUEST_TIMED_OUT,
    Code::NOT_CONTROLLER,
    Code::NETWORK_EXCEPTION,
    Code::THROTTLING_QUOTA_EXCEEDED,
];

/// Reads what Kafka has of all users. Whatever fails fails the whole read: what was not shown must not look like nothing.
pub(super) async fn view(
    admin: &Admin,
    metrics: &Metrics,
    settings: &Settings,
) -> Result<View, PassError> {
    let mut acls = None;
    if settings.has_access_rules {
        metrics.kafka_call("describe ACLs", KafkaEffect::Read);
        acls = Some(admin.describe_known_acls().await?);
        liveness::progress();
    }
    metrics.kafka_call("describe client quotas", KafkaEffect::Read);
    let quotas = admin.describe_user_quotas().await?;
    liveness::progress();
    metrics.kafka_call("describe SCRAM credentials", KafkaEffect::Read);
    let users = admin.describe_scram_users().await?;
    let scram = users.into_iter().filter(|user| user.sha_512_iterations.is_some());
    let scram = scram.map(|user| user.name).collect();
    Ok(View { access: acls.map(access).unwrap_or_default(), quotas, scram })
}

/// The rules of users, by name. Those of other principals are none of ours.
fn access(all: KnownAcls) -> BTreeMap<String, Access> {
    let mut users: BTreeMap<String, Access> = BTreeMap::new();
    for acl in all.acls {
        let Some(of) = acl.principal.strip_prefix(USER) else { continue };
        let access = users.entry(of.to_owned()).or_default();
        match rule(&acl) {
            Some(rule) => drop(access.rules.insert(rule)),
            None => access.others += 1,
        }
    }
    for (principal, count) in all.others {
        let Some(of) = principal.strip_prefix(USER) else { continue };
        users.entry(of.to_owned()).or_default().others += count;
    }
    users
}

/// What is done in Kafka for one user.
pub(super) struct Item<'a> {
    pub(super) user: &'a str,
    pub(super) plan: &'a KafkaPlan,
    /// The password, if one is set.
    pub(super) password: Option<Secret>,
}

/// The results, by user.
#[derive(Debug, Default)]
pub(super) struct Outcomes {
    /// The first problem of each user that has one.
    pub(super) problems: BTreeMap<String, Problem>,
    /// Users whose credential was not set.
    pub(super) without_password: BTreeSet<String>,
    /// Users that are tried again soon.
    pub(super) retry: BTreeSet<String>,
}

/// Changes Kafka: credentials, new rules, quotas, old rules, in this order.
pub(super) async fn change(ctx: &Context, admin: &Admin, items: Vec<Item<'_>>) -> Outcomes {
    let mut changes = Changes { ctx, admin, outcomes: Outcomes::default() };
    changes.credentials(&items).await;
    changes.create(&items).await;
    changes.quotas(&items).await;
    changes.delete(&items).await;
    changes.outcomes
}

struct Changes<'a> {
    ctx: &'a Context,
    admin: &'a Admin,
    outcomes: Outcomes,
}

/// Why a change failed, with the code if Kafka answered.
type Failure = (Problem, Option<Code>);

impl Changes<'_> {
    async fn credentials(&mut self, items: &[Item<'_>]) {
        let change = |item: &Item<'_>| {
            let user = item.user.to_owned();
            match (&item.password, item.plan.deletes_password) {
                (Some(password), _) => Some(ScramChange::Set { user, password: password.clone() }),
                (None, true) => Some(ScramChange::Delete { user }),
                (None, false) => None,
            }
        };
        let all: Vec<_> = items.iter().filter_map(change).collect();
        for some in all.chunks(PASSWORDS_MAX) {
            let what = listed("change the SCRAM credential of", some.iter().map(ScramChange::user));
            let call = self.admin.alter_scram_credentials(some.to_vec());
            let outcome = AlterScramCredentialsError::outcome;
            let results = self.send("alter SCRAM credentials", &what, call, outcome).await;
            for change in some {
                let answer = answer(&results, change.user());
                let is_set = matches!(change, ScramChange::Set { .. });
                match answer {
                    Ok(()) => {}
                    Err((_, Some(Code::RESOURCE_NOT_FOUND))) if !is_set => {}
                    Err(failure) => {
                        if is_set {
                            self.outcomes.without_password.insert(change.user().to_owned());
                        }
                        self.outcomes.fail(change.user(), failure);
                    }
                }
            }
        }
    }

    async fn create(&mut self, items: &[Item<'_>]) {
        let rules = items.iter().flat_map(|item| {
            item.plan.creates.iter().map(move |(principal, rule)| (item.user, acl(principal, rule)))
        });
        for some in cut(rules.map(|one| (one, 1)), RECORDS_MAX) {
            let what = listed("create access rules of", some.iter().map(|(user, _)| *user));
            let acls: Vec<_> = some.iter().map(|(_, acl)| acl.clone()).collect();
            let call = self.admin.create_acls(&acls);
            let results = self.send("create ACLs", &what, call, |_| Outcome::Unknown).await;
            self.outcomes.take(some.iter().map(|(user, _)| *user), &results);
        }
    }

    async fn quotas(&mut self, items: &[Item<'_>]) {
        let all = items.iter().flat_map(|item| {
            item.plan
                .quotas
                .iter()
                .map(move |(of, changes)| ((item.user, of, changes), changes.len()))
        });
        for some in cut(all, RECORDS_MAX) {
            let what = listed("change the quotas of", some.iter().map(|(user, _, _)| *user));
            let request = some.iter().map(|(_, of, changes)| {
                let changes = changes.iter().map(|(key, value)| ((*key).to_owned(), *value));
                ((*of).clone(), changes.collect())
            });
            let request = request.collect();
            let call = self.admin.alter_user_quotas(&request);
            let results = self.send("alter client quotas", &what, call, CallError::outcome).await;
            for (user, of, _) in some {
                if let Err(failure) = answer(&results, of) {
                    self.outcomes.fail(user, failure);
                }
            }
        }
    }

    async fn delete(&mut self, items: &[Item<'_>]) {
        // Of a user whose new rules were not created the old ones stay.
        let failed = self.outcomes.problems.clone();
        let rules = items.iter().filter(|item| !failed.contains_key(item.user)).flat_map(|item| {
            item.plan.deletes.iter().map(move |(principal, rule)| (item.user, acl(principal, rule)))
        });
        for some in cut(rules.map(|one| (one, 1)), RECORDS_MAX) {
            let what = listed("delete access rules of", some.iter().map(|(user, _)| *user));
            let filters: Vec<_> = some.iter().map(|(_, acl)| acl.clone().into()).collect();
            let call = self.admin.delete_acls_of(&filters);
            let results = self.send("delete ACLs", &what, call, CallError::outcome).await;
            let results = results.map(|all| all.into_iter().map(|one| one.map(drop)).collect());
            self.outcomes.take(some.iter().map(|(user, _)| *user), &results);
        }
    }

    /// Sends a change to Kafka.
    async fn send<T, E: std::error::Error + 'static>(
        &self,
        kind: &str,
        what: &str,
        call: impl Future<Output = Result<T, E>>,
        outcome: impl FnOnce(&E) -> Outcome,
    ) -> Result<T, Problem> {
        let done = self.ctx.writer.kafka(kind, what, call, outcome).await;
        done.map_err(|error: KafkaWriteError<E>| {
            let why = chain(&error);
            tracing::debug!("{why}");
            Problem::no_answer(&why)
        })
    }
}

impl Outcomes {
    /// Keeps the first problem of a user.
    fn fail(&mut self, user: &str, (problem, code): Failure) {
        if code.is_none_or(|code| PASSING.contains(&code)) {
            self.retry.insert(user.to_owned());
        }
        self.problems.entry(user.to_owned()).or_insert(problem);
    }

    /// Takes the answers for several users, in their order.
    fn take<'a>(
        &mut self,
        users: impl Iterator<Item = &'a str>,
        results: &Result<Vec<Result<(), Refusal>>, Problem>,
    ) {
        for (index, user) in users.enumerate() {
            let result = match results {
                Ok(results) => results.get(index).map_or_else(others_only, refused),
                Err(problem) => Err((problem.clone(), None)),
            };
            if let Err(failure) = result {
                self.fail(user, failure);
            }
        }
    }
}

/// The answer for one of several users.
fn answer(
    results: &Result<BTreeMap<String, Result<(), Refusal>>, Problem>,
    user: &str,
) -> Result<(), Failure> {
    match results {
        Ok(results) => results.get(user).map_or_else(others_only, refused),
        Err(problem) => Err((problem.clone(), None)),
    }
}

fn others_only() -> Result<(), Failure> {
    Err((Problem::no_answer("the answer of Kafka lacks the users that were asked for"), None))
}

fn refused(result: &Result<(), Refusal>) -> Result<(), Failure> {
    result.as_ref().copied().map_err(|refusal| {
        let name = refusal.code.to_string();
        let problem = Problem::refused(refusal.code.0, &name, refusal.message.as_deref());
        (problem, Some(refusal.code))
    })
}

/// What is done with users, for the log.
fn listed<'a>(verb: &str, users: impl Iterator<Item = &'a str>) -> String {
    let names: BTreeSet<_> = users.collect();
    let first = names.iter().take(NAMED_MAX).copied().collect::<Vec<_>>().join(", ");
    match names.len() {
        count if count <= NAMED_MAX => format!("{verb} {first}"),
        count => format!("{verb} {count} users: {first}, ..."),
    }
}

/// A rule of Kafka, if a `KafkaUser` can have it.
fn rule(acl: &Acl) -> Option<Rule> {
    let (_, kind) = KINDS.iter().find(|(wire, _)| *wire == acl.resource)?;
    let (_, operation) = OPERATIONS.iter().find(|(wire, _)| *wire == acl.operation)?;
    Some(Rule {
        permission: match acl.permission {
            AclPermission::Deny => Permission::Deny,
            AclPermission::Allow => Permission::Allow,
        },
        kind: *kind,
        name: acl.name.clone(),
        pattern: match acl.pattern {
            AclPattern::Literal => Pattern::Literal,
            AclPattern::Prefixed => Pattern::Prefix,
        },
        host: acl.host.clone(),
        operation: *operation,
    })
}

/// A rule as Kafka has it.
fn acl(principal: &str, rule: &Rule) -> Acl {
    let wire = |kind: ResourceKind| match kind {
        ResourceKind::Topic => AclResource::Topic,
        ResourceKind::Group => AclResource::Group,
        ResourceKind::Cluster => AclResource::Cluster,
        ResourceKind::TransactionalId => AclResource::TransactionalId,
    };
    Acl {
        resource: wire(rule.kind),
        name: rule.name.clone(),
        pattern: match rule.pattern {
            Pattern::Literal => AclPattern::Literal,
            Pattern::Prefix => AclPattern::Prefixed,
        },
        principal: format!("{USER}{principal}"),
        host: rule.host.clone(),
        operation: operation(rule.operation),
        permission: match rule.permission {
            Permission::Deny => AclPermission::Deny,
            Permission::Allow => AclPermission::Allow,
        },
    }
}

const KINDS: [(AclResource, ResourceKind); 4] = [
    (AclResource::Topic, ResourceKind::Topic),
    (AclResource::Group, ResourceKind::Group),
    (AclResource::Cluster, ResourceKind::Cluster),
    (AclResource::TransactionalId, ResourceKind::TransactionalId),
];

const OPERATIONS: [(AclOperation, Operation); 11] = [
    (AclOperation::Read, Operation::Read),
    (AclOperation::Write, Operation::Write),
    (AclOperation::Create, Operation::Create),
    (AclOperation::Delete, Operation::Delete),
    (AclOperation::Alter, Operation::Alter),
    (AclOperation::Describe, Operation::Describe),
    (AclOperation::ClusterAction, Operation::ClusterAction),
    (AclOperation::AlterConfigs, Operation::AlterConfigs),
    (AclOperation::DescribeConfigs, Operation::DescribeConfigs),
    (AclOperation::IdempotentWrite, Operation::IdempotentWrite),
    (AclOperation::All, Operation::All),
];

fn operation(operation: Operation) -> AclOperation {
    match operation {
        Operation::Read => AclOperation::Read,
        Operation::Write => AclOperation::Write,
        Operation::Create => AclOperation::Create,
        Operation::Delete => AclOperation::Delete,
        Operation::Alter => AclOperation::Alter,
        Operation::Describe => AclOperation::Describe,
        Operation::ClusterAction => AclOperation::ClusterAction,
        Operation::AlterConfigs => AclOperation::AlterConfigs,
        Operation::DescribeConfigs => AclOperation::DescribeConfigs,
        Operation::IdempotentWrite => AclOperation::IdempotentWrite,
        Operation::All => AclOperation::All,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_of_a_user_is_the_same_after_kafka_had_it() {
        for operation in Operation::ALL {
            for kind in ResourceKind::ALL {
                let of = Rule {
                    permission: Permission::Deny,
                    kind: *kind,
                    name: "n".to_owned(),
                    pattern: Pattern::Prefix,
                    host: "*".to_owned(),
                    operation: *operation,
                };
                assert_eq!(rule(&acl("CN=u", &of)), Some(of));
            }
        }
    }

    #[test]
    fn rules_that_a_resource_cannot_have_are_none() {
        let known = Rule {
            permission: Permission::Allow,
            kind: ResourceKind::Topic,
            name: "n".to_owned(),
            pattern: Pattern::Literal,
            host: "*".to_owned(),
            operation: Operation::All,
        };
        let known = acl("u", &known);
        assert_eq!(known.principal, "User:u");
        for other in [
            Acl { resource: AclResource::DelegationToken, ..known.clone() },
            Acl { resource: AclResource::User, ..known.clone() },
            Acl { operation: AclOperation::CreateTokens, ..known.clone() },
            Acl { operation: AclOperation::TwoPhaseCommit, ..known },
        ] {
            assert_eq!(rule(&other), None, "U8.8");
        }
    }

    #[test]
    fn rules_that_cannot_be_expressed_hide_no_other_user() {
        let of = |principal: &str, resource, operation| Acl {
            resource,
            name: "n".to_owned(),
            pattern: AclPattern::Literal,
            principal: principal.to_owned(),
            host: "*".to_owned(),
            operation,
            permission: AclPermission::Allow,
        };
        let acls = vec![
            of("User:a", AclResource::Topic, AclOperation::Read),
            of("User:a", AclResource::DelegationToken, AclOperation::Describe),
            of("User:CN=b", AclResource::Group, AclOperation::Read),
            of("Group:c", AclResource::Topic, AclOperation::Read),
        ];
        let count = |name: &str, count| (name.to_owned(), count);
        let others = [count("User:a", 2), count("User:new", 1), count("Group:c", 5)].into();
        let users = access(KnownAcls { acls, others });
        let found: Vec<_> = users
            .iter()
            .map(|(name, access)| (name.as_str(), access.rules.len(), access.others))
            .collect();
        // U8.8: principals of another kind are left unchanged.
        assert_eq!(found, [("CN=b", 1, 0), ("a", 1, 3), ("new", 0, 1)], "U8.9");
    }

    fn refusal(code: Code) -> Result<(), Refusal> {
        Err(Refusal { code, message: Some("why".to_owned()) })
    }

    #[test]
    fn a_refusal_concerns_one_user_and_no_answer_all_of_the_request() {
        let users = ["a", "b", "b", "c"];
        let mut outcomes = Outcomes::default();
        let answers = vec![Ok(()), refusal(Code::INVALID_REQUEST), Ok(()), Ok(())];
        outcomes.take(users.into_iter(), &Ok(answers));
        let failed: Vec<_> = outcomes.problems.keys().cloned().collect();
        assert_eq!((failed, outcomes.retry.len()), (vec!["b".to_owned()], 0), "U8.11");
        // The first problem of a user counts, and what may pass is tried again soon.
        let answers = vec![refusal(Code::NOT_CONTROLLER), refusal(Code::NOT_CONTROLLER), Ok(())];
        outcomes.take(users.into_iter(), &Ok(answers));
        assert!(outcomes.problems["b"].message.contains("InvalidRequestException"), "U8.11, U4.5");
        assert_eq!(outcomes.retry, ["a", "b", "c"].map(str::to_owned).into(), "U8.11, no answer");
        assert!(outcomes.problems["c"].message.contains("the operator tries again"));
        let mut outcomes = Outcomes::default();
        outcomes.take(users.into_iter(), &Err(Problem::no_answer("no answer")));
        assert_eq!(outcomes.problems.len(), 3, "U8.11");
    }

    #[test]
    fn lines_of_the_log_name_a_few_users() {
        assert_eq!(listed("x", ["a", "a", "b"].into_iter()), "x a, b");
        let many: Vec<_> = (0..9).map(|number| format!("u{number}")).collect();
        let line = listed("x", many.iter().map(String::as_str));
        assert_eq!(line, "x 9 users: u0, u1, u2, u3, u4, ...");
    }
}
