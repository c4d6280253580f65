//! The record of the users that a cluster manages in Kafka. It is written before Kafka is changed.

use std::collections::BTreeMap;

use api::Kafka;
use control::users::Claims;
use kube::Client;
use serde::{Deserialize, Serialize};

use crate::rebalance::store::{Document, Kept, StoreError};
use crate::write::Writer;

/// Which users are managed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Managed {
    /// The namespace of their resources. Users of another namespace are none of ours.
    pub(super) namespace: String,
    /// By name.
    pub(super) users: BTreeMap<String, Claims>,
}

/// The record, as it is stored.
pub(super) struct Record {
    document: Document,
    kept: Kept<Managed>,
    pub(super) managed: Managed,
}

impl Record {
    /// Reads the record. One that is about another namespace is forgotten: its users stay in Kafka.
    pub(super) async fn read(
        client: &Client,
        kafka: &Kafka,
        namespace: &str,
    ) -> Result<Self, StoreError> {
        let document = Document::of_users(client, kafka)?;
        let kept: Kept<Managed> = document.load().await?;
        let found = kept.value.clone().filter(|found| found.namespace == namespace);
        let managed = found
            .unwrap_or_else(|| Managed { namespace: namespace.to_owned(), users: BTreeMap::new() });
        Ok(Self { document, kept, managed })
    }

    /// What is recorded of a user.
    pub(super) fn of(&self, user: &str) -> Claims {
        self.managed.users.get(user).copied().unwrap_or_default()
    }

    /// Notes what is managed of a user; nothing of one that is `None`.
    pub(super) fn note(&mut self, user: &str, claims: Option<Claims>) {
        match claims.filter(|claims| *claims != Claims::default()) {
            Some(claims) => drop(self.managed.users.insert(user.to_owned(), claims)),
            None => drop(self.managed.users.remove(user)),
        }
    }

    /// Writes the record if it has changed.
    pub(super) async fn save(&mut self, writer: &Writer) -> Result<(), StoreError> {
        if self.kept.value.is_none() && self.managed.users.is_empty() {
            return Ok(());
        }
        self.document.save(writer, &mut self.kept, &self.managed).await
    }
}
