//! Access control lists.

use std::collections::BTreeMap;

use kafka_protocol::messages::create_acls_request::AclCreation;
use kafka_protocol::messages::delete_acls_request::DeleteAclsFilter;
use kafka_protocol::messages::delete_acls_response::DeleteAclsFilterResult;
use kafka_protocol::messages::describe_acls_response::{AclDescription, DescribeAclsResource};
use kafka_protocol::messages::{CreateAclsRequest, DeleteAclsRequest, DescribeAclsRequest};
use kafka_protocol::protocol::StrBytes;

use super::{Admin, plain_error, wire};
use crate::code::{Code, Refusal};
use crate::net::{CallError, Effect, Route};
use crate::proto::{Api, ApiId};

/// An enum whose values are numbers on the wire; others than those listed are an error.
macro_rules! wire_enum {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $number:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name {
            $($(#[$vdoc])* $variant,)*
        }
        impl $name {
            fn to_wire(self) -> i8 {
                match self { $($name::$variant => $number,)* }
            }
            fn from_wire(api: ApiId, number: i8) -> Result<Self, CallError> {
                match number {
                    $($number => Ok($name::$variant),)*
                    _ => Err(wire::nonsense(api, format!("{} {number}", stringify!($name)))),
                }
            }
        }
    };
}

wire_enum! {
    /// What a rule is about.
    AclResource {
        /// A topic.
        Topic = 2,
        /// A consumer group.
        Group = 3,
        /// The cluster itself; its name is `kafka-cluster`.
        Cluster = 4,
        /// A transactional id.
        TransactionalId = 5,
        /// A delegation token.
        DelegationToken = 6,
        /// A user, as the owner of delegation tokens.
        User = 7,
    }
}

wire_enum! {
    /// How the name of a rule is meant.
    AclPattern {
        /// The name itself; `*` is all.
        Literal = 3,
        /// All that begins with it.
        Prefixed = 4,
    }
}

wire_enum! {
    /// What a rule allows or denies.
    AclOperation {
        /// Everything.
        All = 2,
        /// Reading.
        Read = 3,
        /// Writing.
        Write = 4,
        /// Creating.
        Create = 5,
        /// Deleting.
        Delete = 6,
        /// Changing.
        Alter = 7,
        /// Seeing.
        Describe = 8,
        /// What nodes do among themselves.
        ClusterAction = 9,
        /// Seeing the configuration.
        DescribeConfigs = 10,
        /// Changing the configuration.
        AlterConfigs = 11,
        /// Writing without duplicates.
        IdempotentWrite = 12,
        /// Making delegation tokens.
        CreateTokens = 13,
        /// Seeing delegation tokens.
        DescribeTokens = 14,
        /// Taking part in transactions across two systems.
        TwoPhaseCommit = 15,
    }
}

wire_enum! {
    /// Whether a rule allows or denies.
    AclPermission {
        /// Denies, whatever else allows.
        Deny = 2,
        /// Allows.
        Allow = 3,
    }
}

/// A rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Acl {
    /// What it is about.
    pub resource: AclResource,
    /// The name of that.
    pub name: String,
    /// How the name is meant.
    pub pattern: AclPattern,
    /// Whom it concerns, such as `User:alice`.
    pub principal: String,
    /// From which address; `*` is all.
    pub host: String,
    /// What it allows or denies.
    pub operation: AclOperation,
    /// Which of the two.
    pub permission: AclPermission,
}

/// The rules of a cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KnownAcls {
    /// Those of a known kind, in order.
    pub acls: Vec<Acl>,
    /// How many others there are, by whom they concern.
    pub others: BTreeMap<String, usize>,
}

/// Some rules: those that agree in all that is given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AclFilter {
    /// What they are about.
    pub resource: Option<AclResource>,
    /// The name in the rule.
    pub name: Option<String>,
    /// How the name is meant.
    pub pattern: Option<AclPattern>,
    /// Whom they concern.
    pub principal: Option<String>,
    /// From which address.
    pub host: Option<String>,
    /// What they allow or deny.
    pub operation: Option<AclOperation>,
    /// Which of the two.
    pub permission: Option<AclPermission>,
}

impl From<Acl> for AclFilter {
    /// The filter that matches just this rule.
    fn from(acl: Acl) -> Self {
        Self {
            resource: Some(acl.resource),
            name: Some(acl.name),
            pattern: Some(acl.pattern),
            principal: Some(acl.principal),
            host: Some(acl.host),
            operation: Some(acl.operation),
            permission: Some(acl.permission),
        }
    }
}

/// A request that selects rules, with the filter in it. Describing and deleting take the same fields in
/// types of their own.
macro_rules! filtered {
    ($request:expr, $filter:expr) => {
        $request
            .with_resource_type_filter($filter.resource.map_or(ANY, AclResource::to_wire))
            .with_resource_name_filter(optional(&$filter.name))
            .with_pattern_type_filter($filter.pattern.map_or(ANY, AclPattern::to_wire))
            .with_principal_filter(optional(&$filter.principal))
            .with_host_filter(optional(&$filter.host))
            .with_operation($filter.operation.map_or(ANY, AclOperation::to_wire))
            .with_permission_type($filter.permission.map_or(ANY, AclPermission::to_wire))
    };
}

/// A rule out of an answer: what it is about (type, name, pattern), and the rest of it.
macro_rules! read_acl {
    ($api:expr, ($resource:expr, $name:expr, $pattern:expr), $rest:expr) => {
        Acl {
            resource: AclResource::from_wire($api, $resource)?,
            name: $name.to_string(),
            pattern: AclPattern::from_wire($api, $pattern)?,
            principal: $rest.principal.to_string(),
            host: $rest.host.to_string(),
            operation: AclOperation::from_wire($api, $rest.operation)?,
            permission: AclPermission::from_wire($api, $rest.permission_type)?,
        }
    };
}

/// "Any" in a filter.
const ANY: i8 = 1;

plain_error!(
    /// Why the rules could not be described.
    DescribeAclsError,
    "describe the access control lists"
);

/// Why rules were not created, or may not have been.
#[derive(Debug, thiserror::Error)]
#[error("cannot create access control rules")]
pub struct CreateAclsError(#[from] CallError);

plain_error!(
    /// Why rules were not deleted, or may not have been.
    DeleteAclsError,
    "delete access control rules"
);

impl Admin {
    /// The rules that the filter matches, in order.
    pub async fn describe_acls(&self, filter: &AclFilter) -> Result<Vec<Acl>, DescribeAclsError> {
        let request = filtered!(DescribeAclsRequest::default(), filter);
        let code = |answer: &<DescribeAclsRequest as Api>::Answer| Code(answer.error_code);
        let answer = self.client.call(Route::Any, Effect::Reads, &request, code).await?;
        Refusal::check(answer.error_code, answer.error_message)?;
        let all: Result<Vec<_>, _> = read_all(answer.resources).map(|(_, acl)| acl).collect();
        let mut acls = all?;
        acls.sort();
        Ok(acls)
    }

    /// All rules. Those of a kind that only newer versions of Kafka have are counted, by whom they concern.
    pub async fn describe_known_acls(&self) -> Result<KnownAcls, DescribeAclsError> {
        let request = filtered!(DescribeAclsRequest::default(), AclFilter::default());
        let code = |answer: &<DescribeAclsRequest as Api>::Answer| Code(answer.error_code);
        let answer = self.client.call(Route::Any, Effect::Reads, &request, code).await?;
        Refusal::check(answer.error_code, answer.error_message)?;
        Ok(KnownAcls::of(answer.resources))
    }

    /// Creates rules; a result for each, in their order. One that is there already is a success.
    pub async fn create_acls(
        &self,
        acls: &[Acl],
    ) -> Result<Vec<Result<(), Refusal>>, CreateAclsError> {
        let creation = |acl: &Acl| {
            AclCreation::default()
                .with_resource_type(acl.resource.to_wire())
                .with_resource_name(wire::text(&acl.name))
                .with_resource_pattern_type(acl.pattern.to_wire())
                .with_principal(wire::text(&acl.principal))
                .with_host(wire::text(&acl.host))
                .with_operation(acl.operation.to_wire())
                .with_permission_type(acl.permission.to_wire())
        };
        let request =
            CreateAclsRequest::default().with_creations(acls.iter().map(creation).collect());
        let code = |answer: &<CreateAclsRequest as Api>::Answer| {
            Code(answer.results.first().map_or(0, |result| result.error_code))
        };
        let answer = self.client.call(Route::Controller, Effect::Changes, &request, code).await?;
        let results = answer.results.into_iter();
        Ok(results.map(|result| Refusal::check(result.error_code, result.error_message)).collect())
    }

    /// Deletes the rules that the filter matches, and says which.
    pub async fn delete_acls(&self, filter: &AclFilter) -> Result<Vec<Acl>, DeleteAclsError> {
        let mut results = self.delete_acls_of(std::slice::from_ref(filter)).await?;
        Ok(results.pop().transpose()?.unwrap_or_default())
    }

    /// Deletes the rules that the filters match, in one request; for each filter, in their order, which.
    pub async fn delete_acls_of(
        &self,
        filters: &[AclFilter],
    ) -> Result<Vec<Result<Vec<Acl>, Refusal>>, CallError> {
        if filters.is_empty() {
            return Ok(Vec::new());
        }
        let wanted = |filter: &AclFilter| filtered!(DeleteAclsFilter::default(), filter);
        let request =
            DeleteAclsRequest::default().with_filters(filters.iter().map(wanted).collect());
        let code = |answer: &<DeleteAclsRequest as Api>::Answer| {
            Code(answer.filter_results.first().map_or(0, |result| result.error_code))
        };
        let answer = self.client.call(Route::Controller, Effect::Changes, &request, code).await?;
        answer.filter_results.into_iter().map(deleted).collect()
    }
}

impl KnownAcls {
    fn of(resources: Vec<DescribeAclsResource>) -> Self {
        let mut known = Self::default();
        for (principal, acl) in read_all(resources) {
            match acl {
                Ok(acl) => known.acls.push(acl),
                Err(_) => *known.others.entry(principal).or_default() += 1,
            }
        }
        known.acls.sort();
        known
    }
}

/// Every rule of an answer, with whom it concerns.
fn read_all(
    resources: Vec<DescribeAclsResource>,
) -> impl Iterator<Item = (String, Result<Acl, CallError>)> {
    let read = |of: &DescribeAclsResource, acl: &AclDescription| -> Result<Acl, CallError> {
        let about = (of.resource_type, &of.resource_name, of.pattern_type);
        Ok(read_acl!(DescribeAclsRequest::ID, (about.0, about.1, about.2), acl))
    };
    resources.into_iter().flat_map(move |of| {
        let acls = of.acls.iter().map(|acl| (acl.principal.to_string(), read(&of, acl)));
        acls.collect::<Vec<_>>()
    })
}

/// What one filter has deleted.
fn deleted(result: DeleteAclsFilterResult) -> Result<Result<Vec<Acl>, Refusal>, CallError> {
    let api = DeleteAclsRequest::ID;
    if let Err(refusal) = Refusal::check(result.error_code, result.error_message) {
        return Ok(Err(refusal));
    }
    let mut deleted = Vec::new();
    for acl in result.matching_acls {
        if let Err(refusal) = Refusal::check(acl.error_code, acl.error_message) {
            return Ok(Err(refusal));
        }
        deleted.push(read_acl!(api, (acl.resource_type, acl.resource_name, acl.pattern_type), acl));
    }
    deleted.sort();
    Ok(Ok(deleted))
}

fn optional(text: &Option<String>) -> Option<StrBytes> {
    text.as_deref().map(wire::text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_of_an_unknown_kind_are_counted_and_hide_no_other() {
        let rule = |principal: &str, operation: i8| {
            AclDescription::default()
                .with_principal(wire::text(principal))
                .with_host(wire::text("*"))
                .with_operation(operation)
                .with_permission_type(AclPermission::Allow.to_wire())
        };
        let about = |kind: i8, acls: Vec<AclDescription>| {
            DescribeAclsResource::default()
                .with_resource_type(kind)
                .with_resource_name(wire::text("t"))
                .with_pattern_type(AclPattern::Literal.to_wire())
                .with_acls(acls)
        };
        let (topic, read) = (AclResource::Topic.to_wire(), AclOperation::Read.to_wire());
        let answer = vec![
            about(topic, vec![rule("User:a", read), rule("User:a", 99), rule("User:b", read)]),
            about(98, vec![rule("User:a", read), rule("User:c", read)]),
        ];
        let strict: Result<Vec<_>, _> = read_all(answer.clone()).map(|(_, acl)| acl).collect();
        assert!(strict.is_err(), "who asks for rules gets all of them, or an error");
        let known = KnownAcls::of(answer);
        let of: Vec<_> = known.acls.iter().map(|acl| acl.principal.as_str()).collect();
        assert_eq!(of, ["User:a", "User:b"]);
        let others = [("User:a".to_owned(), 2), ("User:c".to_owned(), 1)];
        assert_eq!(known.others, others.into());
    }
}
