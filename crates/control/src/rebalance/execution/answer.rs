//! Who is asked for an act on moves, and what a refusal of Kafka means.
//!
//! 1. What a refusal says is gone needs nothing any more, and counts as done: with a topic its throttle and its moves
//!    go, with the registration of a broker its settings.
//! 2. A broker that is away cannot be asked what it has. That Kafka has acknowledged its former throttle must do.
//! 3. Any other refusal is reported, and the next pass asks again.

use super::{Act, Facts, Subject, is_gone};

const NO_REASSIGNMENT_IN_PROGRESS: i16 = 85;
const BROKER_ID_NOT_REGISTERED: i16 = 102;

/// Who is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Door {
    /// The brokers.
    Brokers,
    /// The controllers, for a broker that is away.
    Controllers,
}

impl Act {
    /// Who is asked for it. A broker that runs is asked itself.
    #[must_use]
    pub fn door(&self, facts: &Facts) -> Door {
        match self {
            Self::Configure(Subject::Broker(broker), _)
                if !facts.live.as_ref().is_some_and(|live| live.contains(broker)) =>
            {
                Door::Controllers
            }
            Self::Configure(..)
            | Self::Reassign(..)
            | Self::Cancel(_)
            | Self::Shift(..)
            | Self::Elect(_) => Door::Brokers,
        }
    }

    /// Whether a refusal with this code is as good as done (1).
    #[must_use]
    pub const fn is_done_by(&self, code: i16) -> bool {
        match self {
            Self::Configure(Subject::Topic(_), _) | Self::Reassign(..) => is_gone(code),
            Self::Configure(Subject::Broker(_), _) => code == BROKER_ID_NOT_REGISTERED,
            Self::Cancel(_) => code == NO_REASSIGNMENT_IN_PROGRESS,
            Self::Shift(..) | Self::Elect(_) => false,
        }
    }

    /// Whether the former throttle of a broker needs no more reading after it was set (2). `refused` is the code of a
    /// refusal.
    #[must_use]
    pub fn settles_former(&self, facts: &Facts, refused: Option<i16>) -> bool {
        match (self, refused) {
            (Self::Configure(Subject::Broker(_), _), Some(code)) => self.is_done_by(code),
            (Self::Configure(Subject::Broker(_), _), None) => self.door(facts) == Door::Controllers,
            (_, _) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use model::{NodeId, TopicName, TopicPartition};

    use super::*;
    use crate::rebalance::execution::{Disk, Values};

    #[test]
    #[rustfmt::skip]
    fn who_is_asked_and_what_a_refusal_means() {
        let (live, away) = (NodeId::new(1).unwrap(), NodeId::new(2).unwrap());
        let topic = || TopicName::new("t").unwrap();
        let partition = || TopicPartition::new(topic(), 0);
        let values = Values::default;
        let broker = |id| Act::Configure(Subject::Broker(id), values());
        let facts = Facts { live: Some([live].into()), ..Facts::default() };
        let codes = [3, NO_REASSIGNMENT_IN_PROGRESS, BROKER_ID_NOT_REGISTERED, 7];
        // The act, who is asked, the codes that are as good as done, whether success settles a former throttle.
        let rows: [(Act, Door, &[i16], bool); 7] = [
            (broker(live),                                     Door::Brokers,     &[102], false),
            (broker(away),                                     Door::Controllers, &[102], true),
            (Act::Configure(Subject::Topic(topic()), values()), Door::Brokers,    &[3],   false),
            (Act::Reassign(partition(), vec![away]),           Door::Brokers,     &[3],   false),
            (Act::Cancel(partition()),                         Door::Brokers,     &[85],  false),
            (Act::Shift(Disk { partition: partition(), broker: live }, "/b".to_owned()), Door::Brokers, &[], false),
            (Act::Elect([partition()].into()),                 Door::Brokers,     &[],    false),
        ];
        for (act, door, done, settles) in rows {
            assert_eq!(act.door(&facts), door, "{act:?}");
            let found: Vec<i16> = codes.into_iter().filter(|code| act.is_done_by(*code)).collect();
            assert_eq!(found, done, "{act:?}");
            assert_eq!(act.settles_former(&facts, None), settles, "{act:?}");
            for code in codes {
                let is_broker = matches!(act, Act::Configure(Subject::Broker(_), _));
                let expected = is_broker && code == BROKER_ID_NOT_REGISTERED;
                assert_eq!(act.settles_former(&facts, Some(code)), expected, "{act:?} {code}");
            }
        }
        // Which brokers run is unknown.
        assert_eq!(broker(live).door(&Facts::default()), Door::Controllers);
    }
}
