//! `gregor kafka acls` and `gregor kafka users`: who may do what. Only lists.

use kafka_admin::{
    Acl, AclFilter, AclOperation, AclPattern, AclPermission, AclResource, ScramUser,
};
use serde::Serialize;

use super::connection::Session;
use crate::output::{Grid, Out, View, note, optional};

/// A rule, as it is printed. The words are those that Kafka's own tools take.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct AclView {
    principal: String,
    permission: &'static str,
    operation: &'static str,
    resource: &'static str,
    pattern: &'static str,
    name: String,
    host: String,
}

#[derive(Debug, Serialize)]
#[serde(transparent)]
struct AclsView(Vec<AclView>);

/// A user, as it is printed.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct UserView {
    name: String,
    /// The rounds of the credential for SCRAM-SHA-512; `null` for a user that has only another.
    scram_sha512_iterations: Option<i32>,
}

#[derive(Debug, Serialize)]
#[serde(transparent)]
struct UsersView(Vec<UserView>);

pub(super) async fn acls(session: &Session, out: &mut Out) -> anyhow::Result<()> {
    let rules = session.admin.describe_acls(&AclFilter::default()).await?;
    if rules.is_empty() {
        note("there are no access control rules");
    }
    out.view(&AclsView::new(rules))
}

pub(super) async fn users(session: &Session, out: &mut Out) -> anyhow::Result<()> {
    session.require_brokers("SCRAM users")?;
    let users = session.admin.describe_scram_users().await?;
    if users.is_empty() {
        note("no user has SCRAM credentials");
    }
    out.view(&UsersView::new(users))
}

impl AclsView {
    fn new(rules: Vec<Acl>) -> Self {
        let view = |rule: Acl| AclView {
            principal: rule.principal,
            permission: match rule.permission {
                AclPermission::Allow => "Allow",
                AclPermission::Deny => "Deny",
            },
            operation: operation(rule.operation),
            resource: resource(rule.resource),
            pattern: match rule.pattern {
                AclPattern::Literal => "Literal",
                AclPattern::Prefixed => "Prefixed",
            },
            name: rule.name,
            host: rule.host,
        };
        Self(rules.into_iter().map(view).collect())
    }
}

fn resource(resource: AclResource) -> &'static str {
    match resource {
        AclResource::Topic => "Topic",
        AclResource::Group => "Group",
        AclResource::Cluster => "Cluster",
        AclResource::TransactionalId => "TransactionalId",
        AclResource::DelegationToken => "DelegationToken",
        AclResource::User => "User",
    }
}

fn operation(operation: AclOperation) -> &'static str {
    match operation {
        AclOperation::All => "All",
        AclOperation::Read => "Read",
        AclOperation::Write => "Write",
        AclOperation::Create => "Create",
        AclOperation::Delete => "Delete",
        AclOperation::Alter => "Alter",
        AclOperation::Describe => "Describe",
        AclOperation::ClusterAction => "ClusterAction",
        AclOperation::DescribeConfigs => "DescribeConfigs",
        AclOperation::AlterConfigs => "AlterConfigs",
        AclOperation::IdempotentWrite => "IdempotentWrite",
        AclOperation::CreateTokens => "CreateTokens",
        AclOperation::DescribeTokens => "DescribeTokens",
        AclOperation::TwoPhaseCommit => "TwoPhaseCommit",
    }
}

impl View for AclsView {
    fn table(&self, width: Option<u16>) -> String {
        if self.0.is_empty() {
            return String::new();
        }
        let titles =
            ["PRINCIPAL", "PERMISSION", "OPERATION", "RESOURCE", "PATTERN", "NAME", "HOST"];
        let mut grid = Grid::new(&titles);
        for rule in &self.0 {
            grid.row([
                rule.principal.clone(),
                rule.permission.to_owned(),
                rule.operation.to_owned(),
                rule.resource.to_owned(),
                rule.pattern.to_owned(),
                rule.name.clone(),
                rule.host.clone(),
            ]);
        }
        grid.take(width)
    }
}

impl UsersView {
    fn new(users: Vec<ScramUser>) -> Self {
        let view = |user: ScramUser| UserView {
            name: user.name,
            scram_sha512_iterations: user.sha_512_iterations,
        };
        Self(users.into_iter().map(view).collect())
    }
}

impl View for UsersView {
    fn table(&self, width: Option<u16>) -> String {
        if self.0.is_empty() {
            return String::new();
        }
        let mut grid = Grid::new(&["USER", "SCRAM-SHA-512 ITERATIONS"]);
        for user in &self.0 {
            grid.row([user.name.clone(), optional(user.scram_sha512_iterations)]);
        }
        grid.take(width)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_and_users_are_listed() {
        let rule = Acl {
            resource: AclResource::Topic,
            name: "orders".to_owned(),
            pattern: AclPattern::Prefixed,
            principal: "User:alice".to_owned(),
            host: "*".to_owned(),
            operation: AclOperation::DescribeConfigs,
            permission: AclPermission::Allow,
        };
        let expected = "\
PRINCIPAL   PERMISSION  OPERATION        RESOURCE  PATTERN   NAME    HOST
User:alice  Allow       DescribeConfigs  Topic     Prefixed  orders  *
";
        assert_eq!(AclsView::new(vec![rule]).table(None), expected);
        let user =
            |name: &str, rounds| ScramUser { name: name.to_owned(), sha_512_iterations: rounds };
        let users = UsersView::new(vec![user("a", Some(8192)), user("b", None)]);
        assert_eq!(users.table(None), "USER  SCRAM-SHA-512 ITERATIONS\na     8192\nb     -\n");
        let json = serde_json::to_value(&users).unwrap();
        assert_eq!(json[0]["scramSha512Iterations"], 8192);
    }
}
