//! Restarts nodes that are not as they shall be, and changes settings that need no restart.
//!
//! What to do is decided by [`control::rolling`]; here it is observed, recorded and done.

mod act;
mod contact;
mod observe;
mod settings;

use std::time::Duration;

use control::conditions::{Note, Reason};
use control::rolling::account::Account;
use control::rolling::facts::Facts;
use control::rolling::pass::{self, Decision, Standing};
use control::rolling::why::Hold;

pub(crate) use observe::roles_of;

use crate::cluster::error::PassError;
use crate::cluster::partitions;
use crate::cluster::pass::{Step, Work};
use crate::time::now_ms;

/// The annotation with which people ask for a restart.
pub(crate) const MANUAL: &str = "strimzi.io/manual-rolling-update";

pub(crate) async fn run(work: &mut Work) -> Result<Step, PassError> {
    let settings = settings::of(work);
    let mut facts = Facts {
        nodes: observe::nodes(work).await?,
        quorum: observe::quorum(work),
        quorum_settled: work.known.outputs.quorum_settled,
        partitions: None,
        memory: work.record.roll.clone(),
    };
    let now_ms = now_ms();
    let needs = pass::needs(&facts, &settings, now_ms);
    if needs.partitions {
        let seen = partitions::read(work).await;
        observe::leaderships(&mut facts, seen);
        facts.partitions = seen.map(|seen| seen.facts.clone());
    }
    let decision = pass::decide(&facts, &settings, now_ms);
    let told = tell(work, &decision)?;
    work.record.roll.clone_from(&decision.memory);
    work.save().await?;
    for action in &decision.actions {
        act::act(work, action).await?;
    }
    observe::confirm(work, &facts).await?;
    if let Some(wait_ms) = decision.wait_ms {
        work.known.look_again(Duration::from_millis(wait_ms));
    }
    let standing = decision.standing;
    work.known.roll = Some(Box::new((facts, decision)));
    Ok(match standing {
        Standing::Settled => Step::Done,
        Standing::Rolling | Standing::Waiting => Step::Waiting(Note::new(Reason::Rolling, told)),
        Standing::Failed => Step::Waiting(Note::new(Reason::RollFailed, told)),
        // Nobody else is restarted, but whoever is on the way out may be the one that cannot start.
        Standing::Stopped => Step::Fault(Note::new(Reason::RollStopped, told)),
    })
}

/// Puts what people should know into the record and the warnings; a sentence of it for the condition.
fn tell(work: &mut Work, decision: &Decision) -> Result<String, PassError> {
    let account = Account::of(decision, work.record.roll_account.as_ref());
    work.record.roll_account.clone_from(&account);
    for wait in account.iter().flat_map(|account| &account.waits) {
        if matches!(wait.hold, Hold::SettingsNotTaken { .. }) {
            work.warn(Reason::SettingsNotTaken, wait.to_string());
        }
    }
    Ok(account.map(|account| account.to_string()).unwrap_or_default())
}
