//! Client quotas of users.

use std::collections::BTreeMap;

use kafka_protocol::messages::alter_client_quotas_request::{EntityData, EntryData, OpData};
use kafka_protocol::messages::describe_client_quotas_request::ComponentData;
use kafka_protocol::messages::describe_client_quotas_response::EntryData as DescribedEntry;
use kafka_protocol::messages::{AlterClientQuotasRequest, DescribeClientQuotasRequest};

use super::{Admin, plain_error, wire};
use crate::code::{Code, Refusal};
use crate::net::{CallError, Effect, Route};
use crate::proto::Api;

const USER: &str = "user";

/// Any entity that has a name, but not the default one.
const MATCH_SPECIFIED: i8 = 2;

plain_error!(
    /// Why the quotas could not be described.
    DescribeQuotasError,
    "describe the client quotas"
);

/// Changes to the quotas of a user: by key, the new value, or nothing to remove it.
pub type QuotaChanges = BTreeMap<String, Option<f64>>;

impl Admin {
    /// The quotas of all users, by key. Quotas of clients, of a user together with a client, and of the default user are
    /// left out.
    pub async fn describe_user_quotas(
        &self,
    ) -> Result<BTreeMap<String, BTreeMap<String, f64>>, DescribeQuotasError> {
        let users = ComponentData::default()
            .with_entity_type(wire::text(USER))
            .with_match_type(MATCH_SPECIFIED)
            .with_match(None);
        let request =
            DescribeClientQuotasRequest::default().with_components(vec![users]).with_strict(true);
        let code = |answer: &<DescribeClientQuotasRequest as Api>::Answer| Code(answer.error_code);
        let answer = self.client.call(Route::Any, Effect::Reads, &request, code).await?;
        Refusal::check(answer.error_code, answer.error_message)?;
        Ok(of_users(answer.entries.unwrap_or_default()))
    }

    /// Changes quotas of users in one request; a result for each user.
    pub async fn alter_user_quotas(
        &self,
        changes: &BTreeMap<String, QuotaChanges>,
    ) -> Result<BTreeMap<String, Result<(), Refusal>>, CallError> {
        if changes.is_empty() {
            return Ok(BTreeMap::new());
        }
        let op = |(key, value): (&String, &Option<f64>)| {
            OpData::default()
                .with_key(wire::text(key))
                .with_value(value.unwrap_or_default())
                .with_remove(value.is_none())
        };
        let entry = |(user, changes): (&String, &QuotaChanges)| {
            let entity = EntityData::default()
                .with_entity_type(wire::text(USER))
                .with_entity_name(Some(wire::text(user)));
            EntryData::default()
                .with_entity(vec![entity])
                .with_ops(changes.iter().map(op).collect())
        };
        let request = AlterClientQuotasRequest::default()
            .with_entries(changes.iter().map(entry).collect())
            .with_validate_only(false);
        let code = |answer: &<AlterClientQuotasRequest as Api>::Answer| {
            Code(answer.entries.first().map_or(0, |entry| entry.error_code))
        };
        let answer = self.client.call(Route::Controller, Effect::Changes, &request, code).await?;
        let mut results = BTreeMap::new();
        for entry in answer.entries {
            let user = entry.entity.into_iter().find_map(|entity| entity.entity_name);
            let Some(user) = user else {
                let api = AlterClientQuotasRequest::ID;
                return Err(wire::nonsense(api, "a result without a user"));
            };
            results.insert(user.to_string(), Refusal::check(entry.error_code, entry.error_message));
        }
        Ok(results)
    }
}

/// The quotas of entities that are a user with a name, and nothing besides.
fn of_users(entries: Vec<DescribedEntry>) -> BTreeMap<String, BTreeMap<String, f64>> {
    let mut quotas: BTreeMap<_, BTreeMap<_, _>> = BTreeMap::new();
    for entry in entries {
        let [entity] = entry.entity.as_slice() else { continue };
        let (USER, Some(name)) = (entity.entity_type.as_str(), &entity.entity_name) else {
            continue;
        };
        let values = entry.values.into_iter().map(|one| (one.key.to_string(), one.value));
        quotas.entry(name.to_string()).or_default().extend(values);
    }
    quotas
}

#[cfg(test)]
mod tests {
    use kafka_protocol::messages::describe_client_quotas_response::{EntityData, ValueData};

    use super::*;

    #[test]
    fn only_quotas_of_users_alone_are_quotas_of_users() {
        let entity = |(kind, name): &(&str, Option<&str>)| {
            EntityData::default()
                .with_entity_type(wire::text(kind))
                .with_entity_name(name.map(wire::text))
        };
        let entry = |of: &[(&str, Option<&str>)], value| {
            let value =
                ValueData::default().with_key(wire::text("producer_byte_rate")).with_value(value);
            DescribedEntry::default()
                .with_entity(of.iter().map(entity).collect())
                .with_values(vec![value])
        };
        let found = of_users(vec![
            entry(&[("user", Some("a"))], 1.0),
            entry(&[("user", Some("a")), ("client-id", Some("x"))], 2.0),
            entry(&[("user", None)], 3.0),
            entry(&[("client-id", Some("x"))], 4.0),
            entry(&[("ip", Some("::1"))], 5.0),
        ]);
        let quotas = [("producer_byte_rate".to_owned(), 1.0)].into();
        assert_eq!(found, [("a".to_owned(), quotas)].into(), "U9.2, U9.7, U9.8");
    }
}
