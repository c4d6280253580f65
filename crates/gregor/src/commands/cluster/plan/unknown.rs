//! What is not known of an edit, and therefore not promised.

use control::cluster::area::Area;
use control::conditions::{Note, Reason};
use operator::cluster::foresee::View;

/// What is not known, and therefore not promised.
pub(super) fn unknown(
    present: Option<&View>,
    edited: &View,
    assumed: Option<&String>,
) -> Vec<String> {
    let mut all = Vec::new();
    if let Some(present) = present {
        let needs = "the voters, the partitions of brokers and the effective settings of nodes";
        match (present.secrets_readable, &present.unreachable) {
            (false, _) => all.push(format!(
                "no permission to read the Secrets of the cluster, which hold the key to its Kafka: {needs} \
                 are not known"
            )),
            (true, Some(why)) if !present.is_kafka_seen() => {
                all.push(format!("{why}: {needs} are unknown"));
            }
            (true, Some(why)) => all.push(format!("{why}: some facts are unknown")),
            (true, None) => {}
        }
        if present.secrets_readable && !edited.secrets_readable {
            all.push(
                "Secrets are not part of a snapshot: certificates that listeners bring along are assumed to be unchanged"
                    .to_owned(),
            );
        }
        if present.refused.is_some() {
            all.push(
                "the current spec is refused: the reasons for restarts are unknown".to_owned(),
            );
        }
    }
    let awaits = edited.notes.iter().filter(|(_, note)| note.reason == Reason::AwaitingAddresses);
    all.extend(awaits.take(1).map(|_| {
        "some addresses have not been assigned yet by Kubernetes or a load balancer: it is \
         unknown whether brokers are restarted for them"
            .to_owned()
    }));
    let is_unread = |area: Area, note: &Note| match area {
        Area::Access => true,
        Area::Configuration => !edited.held && note.reason == Reason::KubernetesUnreadable,
        _ => false,
    };
    let unread = edited.notes.iter().filter(|(area, note)| is_unread(*area, note));
    all.extend(unread.map(|(_, note)| note.message.clone()));
    if !edited.hidden.is_empty() {
        let fields = edited.hidden.join(", ");
        all.push(format!("values hidden in the snapshot are assumed to be unchanged: {fields}"));
    }
    all.extend(assumed.cloned());
    all
}
