//! A cluster that obeys, for the stories of auto-rebalancing.

use super::*;
use crate::rebalance::request::{Failure, Phase as Said};

pub(super) fn brokers(text: &str) -> Brokers {
    let mut all = Brokers::new();
    for part in text.split(',').filter(|part| *part != "-" && !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (i32, i32) = (first.parse().unwrap(), last.parse().unwrap());
        all.extend((first..=last).map(|id| NodeId::new(id).unwrap()));
    }
    all
}

pub(super) fn show_brokers(brokers: &Brokers) -> String {
    brokers.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

pub(super) fn mode(word: &str) -> Mode {
    if word == "add" { AddBrokers } else { RemoveBrokers }
}

/// A cluster that obeys: what the machine does to its requests is done at once, and what the requests
/// say of themselves is what the story says.
pub(super) struct Story {
    pub(super) facts: Facts,
    pub(super) recorded: Option<Recorded>,
}

impl Story {
    /// A cluster of five brokers that has settled.
    pub(super) fn new() -> Self {
        let both =
            PerMode { remove: Setting::Template(Some(true)), add: Setting::Template(Some(true)) };
        let none = PerMode { remove: Some(Partner::Missing), add: Some(Partner::Missing) };
        let facts = Facts {
            brokers: Some(brokers("0-4")),
            leaving: Some(Brokers::new()),
            holding: Some(brokers("0-4")),
            running: Some(brokers("0-4")),
            moving: Some(Brokers::new()),
            waived: false,
            settings: both,
            partners: none,
            now_ms: 0,
        };
        Self { facts, recorded: None }
    }

    /// Something that happens, in words.
    pub(super) fn happen(&mut self, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let facts = &mut self.facts;
        match words[..] {
            ["brokers", list] => {
                facts.brokers = Some(brokers(list));
                facts.running = Some(brokers(list));
            }
            ["running", list] => facts.running = Some(brokers(list)),
            ["leaving", list] => facts.leaving = Some(brokers(list)),
            ["moving", list] => facts.moving = Some(brokers(list)),
            ["holding", list] => facts.holding = Some(brokers(list)),
            ["unknown"] => {
                (facts.brokers, facts.leaving, facts.holding, facts.running) = Default::default();
            }
            ["known", list] => {
                facts.brokers = Some(brokers(list));
                facts.running = Some(brokers(list));
                facts.holding = Some(brokers(list));
                facts.leaving = Some(Brokers::new());
            }
            ["waived"] => facts.waived = true,
            ["unwaived"] => facts.waived = false,
            ["later"] => facts.now_ms += 10 * 60_000,
            [which @ ("add" | "remove"), "set", setting] => {
                *facts.settings.get_mut(mode(which)) = match setting {
                    "off" => Setting::Off,
                    "plain" => Setting::Plain,
                    "unmarked" => Setting::Unmarked,
                    "no-template" => Setting::Template(Some(false)),
                    "template?" => Setting::Template(None),
                    _ => Setting::Template(Some(true)),
                };
            }
            [which, "missing"] => *facts.partners.get_mut(mode(which)) = Some(Partner::Missing),
            [which, "foreign"] => *facts.partners.get_mut(mode(which)) = Some(Partner::Foreign),
            [which, "unread"] => *facts.partners.get_mut(mode(which)) = None,
            [which, word] => {
                let request = request(facts, mode(which));
                match word {
                    "deleting" => request.deleting = true,
                    "unlabelled" => {
                        let recorded = request.recorded.get_or_insert_default();
                        recorded.phase = Said::NotReady;
                        recorded.failure =
                            Some(Failure::Hindered(request::Hindrance::KafkaNotReady));
                    }
                    phase => {
                        let recorded = request.recorded.get_or_insert_default();
                        recorded.phase = Said::from_name(phase).unwrap();
                        recorded.failure = (recorded.phase == Said::NotReady)
                            .then(|| Failure::Final("no goal".to_owned()));
                        request.outdated = false;
                        request.stopping &= recorded.phase == Said::Rebalancing;
                    }
                }
            }
            _ => panic!("nothing changes with {line}"),
        }
    }

    /// One pass: the state, the queues, what is done and what is told.
    pub(super) fn pass(&mut self) -> String {
        let decision = decide(self.recorded.as_ref(), &self.facts);
        let mut words = Vec::new();
        words.push(
            decision
                .recorded
                .as_ref()
                .filter(|_| decision.shown)
                .map_or("none", |new| new.phase.name())
                .to_owned(),
        );
        for (mode, list) in &decision.modes {
            words.push(format!("{}[{}]", short(*mode), show_brokers(list)));
        }
        words.extend(decision.acts.iter().map(show));
        words.extend(decision.notices.iter().map(|notice| notice.reason().name()[13..].to_owned()));
        self.recorded = decision.recorded;
        for act in decision.acts {
            self.act(act);
        }
        words.join(" ")
    }

    pub(super) fn act(&mut self, act: Act) {
        match act {
            Act::Create { mode, brokers, round } => {
                let partner = self.facts.partners.get_mut(mode);
                assert_eq!(*partner, Some(Partner::Missing));
                *partner = Some(Partner::Present(Request {
                    round: Some(round),
                    brokers,
                    deleting: false,
                    stopping: false,
                    outdated: false,
                    recorded: None,
                }));
            }
            Act::Refresh { mode, brokers, .. } => {
                let request = request(&mut self.facts, mode);
                (request.brokers, request.outdated) = (brokers, true);
            }
            Act::Stop(mode) => request(&mut self.facts, mode).stopping = true,
            Act::Delete(mode) => request(&mut self.facts, mode).deleting = true,
            Act::Release(mode) => {
                *self.facts.partners.get_mut(mode) = Some(Partner::Missing);
            }
        }
    }
}

pub(super) fn request(facts: &mut Facts, mode: Mode) -> &mut Request {
    match facts.partners.get_mut(mode) {
        Some(Partner::Present(request)) => request,
        other => panic!("there is no request of {mode:?} but {other:?}"),
    }
}

pub(super) fn short(mode: Mode) -> &'static str {
    match mode {
        RemoveBrokers => "remove",
        AddBrokers => "add",
    }
}

pub(super) fn show(act: &Act) -> String {
    match act {
        Act::Create { mode, brokers, .. } => {
            format!("+create-{}[{}]", short(*mode), show_brokers(brokers))
        }
        Act::Refresh { mode, brokers, .. } => {
            format!("+refresh-{}[{}]", short(*mode), show_brokers(brokers))
        }
        Act::Stop(mode) => format!("+stop-{}", short(*mode)),
        Act::Delete(mode) => format!("+delete-{}", short(*mode)),
        Act::Release(mode) => format!("+release-{}", short(*mode)),
    }
}
