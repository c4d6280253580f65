//! The stories of auto-rebalancing.

use std::collections::BTreeMap;

use super::*;
use crate::rebalance::request::{Failure, Phase as Said};

fn brokers(text: &str) -> Brokers {
    let mut all = Brokers::new();
    for part in text.split(',').filter(|part| *part != "-" && !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (i32, i32) = (first.parse().unwrap(), last.parse().unwrap());
        all.extend((first..=last).map(|id| NodeId::new(id).unwrap()));
    }
    all
}

fn show_brokers(brokers: &Brokers) -> String {
    brokers.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

fn mode(word: &str) -> Mode {
    if word == "add" { AddBrokers } else { RemoveBrokers }
}

/// A cluster that obeys: what the machine does to its requests is done at once, and what the requests
/// say of themselves is what the story says.
struct Story {
    facts: Facts,
    recorded: Option<Recorded>,
}

impl Story {
    /// A cluster of five brokers that has settled.
    fn new() -> Self {
        let both =
            PerMode { remove: Setting::Template(Some(true)), add: Setting::Template(Some(true)) };
        let none = PerMode { remove: Some(Partner::Missing), add: Some(Partner::Missing) };
        let facts = Facts {
            brokers: Some(brokers("0-4")),
            leaving: Some(Brokers::new()),
            holding: Some(brokers("0-4")),
            running: Some(brokers("0-4")),
            settings: both,
            partners: none,
            now_ms: 0,
        };
        Self { facts, recorded: None }
    }

    /// Something that happens, in words.
    fn happen(&mut self, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let facts = &mut self.facts;
        match words[..] {
            ["brokers", list] => {
                facts.brokers = Some(brokers(list));
                facts.running = Some(brokers(list));
            }
            ["running", list] => facts.running = Some(brokers(list)),
            ["leaving", list] => facts.leaving = Some(brokers(list)),
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
            ["later"] => facts.now_ms += 10 * 60_000,
            [which @ ("add" | "remove"), "set", setting] => {
                *facts.settings.get_mut(mode(which)) = match setting {
                    "off" => Setting::Off,
                    "plain" => Setting::Plain,
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
                        request.stopping &= recorded.phase == Said::Rebalancing;
                    }
                }
            }
            _ => panic!("nothing happens with {line}"),
        }
    }

    /// One pass: the state, the queues, what is done and what is told.
    fn pass(&mut self) -> String {
        let decision = decide(self.recorded.as_ref(), &self.facts);
        let mut words = Vec::new();
        words.push(decision.recorded.as_ref().map_or("none", |new| new.phase.name()).to_owned());
        for (mode, list) in &decision.modes {
            words.push(format!("{}[{}]", short(*mode), show_brokers(list)));
        }
        words.extend(decision.acts.iter().map(show));
        words.extend(decision.notices.iter().map(|notice| notice.reason()[13..].to_owned()));
        self.recorded = decision.recorded;
        for act in decision.acts {
            self.act(act);
        }
        words.join(" ")
    }

    fn act(&mut self, act: Act) {
        match act {
            Act::Create { mode, brokers, round } => {
                let partner = self.facts.partners.get_mut(mode);
                assert_eq!(*partner, Some(Partner::Missing));
                *partner = Some(Partner::Present(Request {
                    round: Some(round),
                    brokers,
                    deleting: false,
                    stopping: false,
                    recorded: None,
                }));
            }
            Act::Refresh { mode, brokers, .. } => request(&mut self.facts, mode).brokers = brokers,
            Act::Stop(mode) => request(&mut self.facts, mode).stopping = true,
            Act::Delete(mode) => request(&mut self.facts, mode).deleting = true,
            Act::Release(mode) => {
                *self.facts.partners.get_mut(mode) = Some(Partner::Missing);
            }
        }
    }
}

fn request(facts: &mut Facts, mode: Mode) -> &mut Request {
    match facts.partners.get_mut(mode) {
        Some(Partner::Present(request)) => request,
        other => panic!("there is no request of {mode:?} but {other:?}"),
    }
}

fn short(mode: Mode) -> &'static str {
    match mode {
        RemoveBrokers => "remove",
        AddBrokers => "add",
    }
}

fn show(act: &Act) -> String {
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

/// Tells a story on a cluster that has settled: what happens before a pass (parted by `;`), and what
/// the pass is.
fn tell(lines: &[(&str, &str)]) -> Story {
    let mut story = Story::new();
    tell_on(&mut story, lines);
    story
}

fn tell_on(story: &mut Story, lines: &[(&str, &str)]) {
    for (line, expected) in lines {
        for happening in line.split(';').map(str::trim).filter(|part| !part.is_empty()) {
            story.happen(happening);
        }
        assert_eq!(story.pass(), *expected, "after {line:?}");
    }
}

#[test]
#[rustfmt::skip]
fn scaling_down_and_up() {
    // 1. Scale down.
    tell(&[
        ("",                               "Idle"),
        ("leaving 3,4",                    "RebalanceOnScaleDown remove[3,4] +create-remove[3,4]"),
        ("remove Rebalancing",             "RebalanceOnScaleDown remove[3,4]"),
        ("remove Ready; holding 0-2",      "Idle +delete-remove"),
        ("",                               "Idle +release-remove"),
        ("brokers 0-2; leaving -",         "Idle"),
    ]);
    // 2. Scale up.
    tell(&[
        ("",                               "Idle"),
        ("brokers 0-6",                    "RebalanceOnScaleUp add[5,6] +create-add[5,6]"),
        ("add Rebalancing",                "RebalanceOnScaleUp add[5,6]"),
        ("add Ready",                      "Idle +delete-add"),
        ("",                               "Idle +release-add"),
        ("",                               "Idle"),
    ]);
    // 3. Twice down.
    tell(&[
        ("",                               "Idle"),
        ("leaving 4",                      "RebalanceOnScaleDown remove[4] +create-remove[4]"),
        ("remove Rebalancing",             "RebalanceOnScaleDown remove[4]"),
        ("leaving 3,4",                    "RebalanceOnScaleDown remove[3,4] +refresh-remove[3,4]"),
        ("remove Rebalancing",             "RebalanceOnScaleDown remove[3,4]"),
        ("remove Ready; holding 0-2",      "Idle +delete-remove"),
    ]);
    // 4. Twice up.
    tell(&[
        ("",                               "Idle"),
        ("brokers 0-6",                    "RebalanceOnScaleUp add[5,6] +create-add[5,6]"),
        ("add Rebalancing; brokers 0-8",   "RebalanceOnScaleUp add[5,6,7,8] +refresh-add[5,6,7,8]"),
        ("add Rebalancing",                "RebalanceOnScaleUp add[5,6,7,8]"),
        ("add Ready",                      "Idle +delete-add"),
    ]);
    // 5. Up, and down again in the middle: the same brokers are not queued.
    tell(&[
        ("",                               "Idle"),
        ("brokers 0-6",                    "RebalanceOnScaleUp add[5,6] +create-add[5,6]"),
        ("add Rebalancing; leaving 5,6; holding 0-6", "RebalanceOnScaleDown remove[5,6] +stop-add"),
        ("",                               "RebalanceOnScaleDown remove[5,6]"),
        ("add Stopped",                    "RebalanceOnScaleDown remove[5,6] +delete-add"),
        ("",                               "RebalanceOnScaleDown remove[5,6] +release-add"),
        ("",                               "RebalanceOnScaleDown remove[5,6] +create-remove[5,6]"),
        ("remove Ready; holding 0-4",      "Idle +delete-remove"),
        ("brokers 0-4; leaving -",         "Idle +release-remove"),
    ]);
}

#[test]
#[rustfmt::skip]
fn what_is_no_scaling() {
    // 6, 7, 18. A new cluster, also with several pools, and one that is not scaled.
    tell(&[("brokers 0-9", "Idle"), ("", "Idle")]);
    // 8, 9. Without rebalancing, or without its modes.
    tell(&[("remove set off; add set off", "none"), ("brokers 0-6", "none"), ("leaving 3", "none")]);
    // 10. Switched off later.
    tell(&[("", "Idle"), ("remove set off; add set off", "none")]);
    // 11. The template is missing: the scale-up itself goes on.
    tell(&[
        ("",                               "Idle"),
        ("brokers 0-6; add set no-template", "Idle Failed"),
        ("",                               "Idle Failed"),
        // It is told as long as somebody is there whom it concerns.
        ("brokers 0-4",                    "Idle"),
    ]);
    // 12. Without a template.
    tell(&[
        ("add set plain",                  "Idle"),
        ("brokers 0-6",                    "RebalanceOnScaleUp add[5,6] +create-add[5,6]"),
    ]);
    // 13. The mode is not set: it is skipped.
    tell(&[
        ("add set off",                    "Idle"),
        ("brokers 0-6",                    "Idle"),
        ("leaving 3",                      "RebalanceOnScaleDown remove[3] +create-remove[3]"),
    ]);
    tell(&[("remove set off", "Idle"), ("leaving 3", "Idle"), ("brokers 0-5", "RebalanceOnScaleUp add[5] +create-add[5]")]);
}

#[test]
#[rustfmt::skip]
fn chosen_nodes_and_both_at_once() {
    // 14. Nodes that were named.
    tell(&[
        ("",                               "Idle"),
        ("leaving 1,2",                    "RebalanceOnScaleDown remove[1,2] +create-remove[1,2]"),
        ("remove Ready; holding 0,3,4",    "Idle +delete-remove"),
    ]);
    // 15. Twice: see 3. 16. Up, then others down: the fill is queued and comes after.
    tell(&[
        ("",                               "Idle"),
        ("brokers 0-6",                    "RebalanceOnScaleUp add[5,6] +create-add[5,6]"),
        ("add Rebalancing; leaving 3,4",   "RebalanceOnScaleDown remove[3,4] add[5,6] +stop-add"),
        ("add Stopped",                    "RebalanceOnScaleDown remove[3,4] add[5,6] +delete-add"),
        ("",                               "RebalanceOnScaleDown remove[3,4] add[5,6] +release-add"),
        ("",                               "RebalanceOnScaleDown remove[3,4] add[5,6] +create-remove[3,4]"),
        ("remove Rebalancing",             "RebalanceOnScaleDown remove[3,4] add[5,6]"),
        ("remove Ready; holding 0-2,5,6",  "RebalanceOnScaleUp add[5,6] +delete-remove"),
        ("",                               "RebalanceOnScaleUp add[5,6] +release-remove"),
        ("brokers 0-2,5,6; leaving -",     "RebalanceOnScaleUp add[5,6] +create-add[5,6]"),
        ("add Ready",                      "Idle +delete-add"),
    ]);
    // 17. A pool is added to a running cluster.
    tell(&[
        ("",                               "Idle"),
        ("brokers 0-4,20,21",              "RebalanceOnScaleUp add[20,21] +create-add[20,21]"),
        ("add Ready",                      "Idle +delete-add"),
    ]);
    // Both in one edit.
    tell(&[
        ("",                               "Idle"),
        ("brokers 0-6; leaving 4",         "RebalanceOnScaleDown remove[4] add[5,6] +create-remove[4]"),
        ("remove Ready; holding 0-3",      "RebalanceOnScaleUp add[5,6] +delete-remove"),
    ]);
    // A scale-up while a drain runs is queued, and not lost.
    tell(&[
        ("leaving 4",                      "RebalanceOnScaleDown remove[4] +create-remove[4]"),
        ("remove Rebalancing; brokers 0-5", "RebalanceOnScaleDown remove[4] add[5]"),
        ("remove Rebalancing",             "RebalanceOnScaleDown remove[4] add[5]"),
        ("remove Ready; holding 0-3",      "RebalanceOnScaleUp add[5] +delete-remove"),
    ]);
}

#[test]
#[rustfmt::skip]
fn failures() {
    // 19. A fill fails: its list is dropped with a warning.
    tell(&[
        ("",                               "Idle"),
        ("brokers 0-6",                    "RebalanceOnScaleUp add[5,6] +create-add[5,6]"),
        ("add NotReady",                   "Idle +delete-add Failed"),
        ("",                               "Idle +release-add Failed"),
        ("",                               "Idle Failed"),
        // The next one is tried as if nothing had been.
        ("brokers 0-7",                    "RebalanceOnScaleUp add[7] +create-add[7] Failed"),
        ("add Ready",                      "Idle +delete-add"),
    ]);
    // One that will be tried again by itself has not failed.
    tell(&[
        ("",                               "Idle"),
        ("brokers 0-6",                    "RebalanceOnScaleUp add[5,6] +create-add[5,6]"),
        ("add unlabelled",                 "RebalanceOnScaleUp add[5,6]"),
        ("add Ready",                      "Idle +delete-add"),
    ]);
    // More are added when it has failed: once more, with all.
    tell(&[
        ("",                               "Idle"),
        ("brokers 0-5",                    "RebalanceOnScaleUp add[5] +create-add[5]"),
        ("add NotReady; brokers 0-6",      "RebalanceOnScaleUp add[5,6] +refresh-add[5,6]"),
        ("add NotReady",                   "Idle +delete-add Failed"),
    ]);
    // A drain fails: the fill stays, and runs; the drain is tried again later, and comes first then.
    tell(&[
        ("",                               "Idle"),
        ("brokers 0-5; leaving 4",         "RebalanceOnScaleDown remove[4] add[5] +create-remove[4]"),
        ("remove NotReady",                "Idle add[5] +delete-remove Failed"),
        ("",                               "RebalanceOnScaleUp add[5] +release-remove Failed"),
        ("",                               "RebalanceOnScaleUp add[5] +create-add[5] Failed"),
        ("add Rebalancing; later",         "RebalanceOnScaleDown remove[4] add[5] +stop-add Failed"),
    ]);
    // Another list is tried at once.
    tell(&[
        ("leaving 4",                      "RebalanceOnScaleDown remove[4] +create-remove[4]"),
        ("remove NotReady",                "Idle +delete-remove Failed"),
        ("",                               "Idle +release-remove Failed"),
        ("",                               "Idle Failed"),
        ("leaving 3",                      "RebalanceOnScaleDown remove[3] +create-remove[3] Failed"),
        ("remove Ready; holding 0-2,4",    "Idle +delete-remove"),
    ]);
}

#[test]
#[rustfmt::skip]
fn what_users_do_to_requests() {
    // Missing: as if it had failed.
    tell(&[
        ("leaving 4",                      "RebalanceOnScaleDown remove[4] +create-remove[4]"),
        ("remove Rebalancing",             "RebalanceOnScaleDown remove[4]"),
        ("remove missing",                 "Idle Failed"),
        ("later",                          "RebalanceOnScaleDown remove[4] +create-remove[4] Failed"),
    ]);
    // Gone before it was seen: it was never made, so it is made.
    tell(&[
        ("leaving 4",                      "RebalanceOnScaleDown remove[4] +create-remove[4]"),
        ("remove missing",                 "RebalanceOnScaleDown remove[4] +create-remove[4]"),
    ]);
    // Without a status, unread, of another.
    tell(&[
        ("leaving 4",                      "RebalanceOnScaleDown remove[4] +create-remove[4]"),
        ("",                               "RebalanceOnScaleDown remove[4]"),
        ("remove unread",                  "RebalanceOnScaleDown remove[4]"),
    ]);
    tell(&[
        ("remove foreign",                 "Idle NameTaken"),
        ("leaving 4",                      "RebalanceOnScaleDown remove[4] NameTaken"),
        ("remove missing",                 "RebalanceOnScaleDown remove[4] +create-remove[4]"),
    ]);
    // Deleted while it runs: it stops, is let go, and counts as failed.
    tell(&[
        ("",                               "Idle"),
        ("brokers 0-5",                    "RebalanceOnScaleUp add[5] +create-add[5]"),
        ("add Rebalancing",                "RebalanceOnScaleUp add[5]"),
        ("add deleting",                   "RebalanceOnScaleUp add[5]"),
        ("add Stopped",                    "RebalanceOnScaleUp add[5] +release-add"),
        ("",                               "Idle Failed"),
    ]);
    // Stopped: a fill is dropped, a drain is not begun again for the same list.
    tell(&[
        ("",                               "Idle"),
        ("brokers 0-5",                    "RebalanceOnScaleUp add[5] +create-add[5]"),
        ("add Stopped",                    "Idle +delete-add Failed"),
    ]);
    tell(&[
        ("leaving 4",                      "RebalanceOnScaleDown remove[4] +create-remove[4]"),
        ("remove Stopped",                 "Idle +delete-remove Failed"),
        ("later",                          "Idle +release-remove Failed"),
        ("later",                          "Idle Failed"),
        ("leaving 3,4",                    "RebalanceOnScaleDown remove[3,4] +create-remove[3,4] Failed"),
    ]);
    // Taken back and asked again, it is begun again.
    tell(&[
        ("leaving 4",                      "RebalanceOnScaleDown remove[4] +create-remove[4]"),
        ("remove Stopped",                 "Idle +delete-remove Failed"),
        ("leaving -",                      "Idle +release-remove"),
        ("leaving 4",                      "RebalanceOnScaleDown remove[4] +create-remove[4]"),
    ]);
    // Paused: all waits, and nothing is lost.
    tell(&[
        ("leaving 4",                      "RebalanceOnScaleDown remove[4] +create-remove[4]"),
        ("remove ReconciliationPaused; brokers 0-5", "RebalanceOnScaleDown remove[4] add[5] Paused"),
        ("leaving 3,4",                    "RebalanceOnScaleDown remove[3,4] add[5] Paused"),
        ("remove Rebalancing",             "RebalanceOnScaleDown remove[3,4] add[5] +refresh-remove[3,4]"),
    ]);
}

#[test]
#[rustfmt::skip]
fn what_is_taken_back_or_goes_away() {
    // A scale-down that is taken back cancels the drain.
    tell(&[
        ("leaving 3,4",                    "RebalanceOnScaleDown remove[3,4] +create-remove[3,4]"),
        ("remove Rebalancing",             "RebalanceOnScaleDown remove[3,4]"),
        ("leaving -",                      "Idle +stop-remove"),
        ("",                               "Idle"),
        ("remove Stopped",                 "Idle +delete-remove"),
        ("",                               "Idle +release-remove"),
        ("",                               "Idle"),
    ]);
    // In part: what stays is not drained any further.
    tell(&[
        ("leaving 3,4",                    "RebalanceOnScaleDown remove[3,4] +create-remove[3,4]"),
        ("remove Rebalancing; leaving 4",  "RebalanceOnScaleDown remove[4] +refresh-remove[4]"),
    ]);
    // What is empty already stays in the list, and a list that only got shorter is no change.
    tell(&[
        ("leaving 3,4",                    "RebalanceOnScaleDown remove[3,4] +create-remove[3,4]"),
        ("remove Rebalancing; holding 0-3", "RebalanceOnScaleDown remove[3,4]"),
        ("brokers 0-3",                    "RebalanceOnScaleDown remove[3]"),
    ]);
    // A fill that was queued behind it goes on.
    tell(&[
        ("",                               "Idle"),
        ("brokers 0-5",                    "RebalanceOnScaleUp add[5] +create-add[5]"),
        ("add Rebalancing; leaving 5; holding 0-5", "RebalanceOnScaleDown remove[5] +stop-add"),
        ("leaving -",                      "Idle add[5]"),
        ("add Stopped",                    "RebalanceOnScaleUp add[5] +delete-add"),
        ("",                               "RebalanceOnScaleUp add[5] +release-add"),
        ("",                               "RebalanceOnScaleUp add[5] +create-add[5]"),
    ]);
    // A fill whose broker is gone again is none.
    tell(&[
        ("",                               "Idle"),
        ("brokers 0-6",                    "RebalanceOnScaleUp add[5,6] +create-add[5,6]"),
        ("add Rebalancing; brokers 0-5",   "RebalanceOnScaleUp add[5] +refresh-add[5]"),
        ("brokers 0-4",                    "Idle +stop-add"),
    ]);
    // The template goes in the middle: what runs goes on, what is queued is dropped when its turn comes.
    tell(&[
        ("",                               "Idle"),
        ("brokers 0-5; leaving 4",         "RebalanceOnScaleDown remove[4] add[5] +create-remove[4]"),
        ("remove Rebalancing; remove set no-template; add set no-template",
                                           "RebalanceOnScaleDown remove[4] add[5]"),
        ("remove Ready; holding 0-3",      "Idle add[5] +delete-remove"),
        ("",                               "Idle +release-remove Failed"),
    ]);
    // Or before the request was made.
    tell(&[
        ("add unread; leaving 4",          "none"),
        ("add missing",                    "RebalanceOnScaleDown remove[4] +create-remove[4]"),
        ("remove missing; remove set no-template", "Idle Failed TemplateMissing"),
        ("remove set template; later",     "RebalanceOnScaleDown remove[4] +create-remove[4] Failed"),
    ]);
    // The mode is switched off in the middle.
    tell(&[
        ("leaving 4",                      "RebalanceOnScaleDown remove[4] +create-remove[4]"),
        ("remove Rebalancing; remove set off", "Idle +stop-remove"),
    ]);
    // All is switched off: requests are put away before it is forgotten.
    tell(&[
        ("leaving 4",                      "RebalanceOnScaleDown remove[4] +create-remove[4]"),
        ("remove Rebalancing; remove set off; add set off", "Idle +stop-remove"),
        ("remove Stopped",                 "Idle +delete-remove"),
        ("",                               "Idle +release-remove"),
        ("",                               "none"),
    ]);
}

#[test]
#[rustfmt::skip]
fn what_is_not_known_and_what_is_not_there_yet() {
    // Unknown facts change nothing, and nothing is begun.
    tell(&[
        ("",                               "Idle"),
        ("brokers 0-5",                    "RebalanceOnScaleUp add[5] +create-add[5]"),
        ("unknown",                        "RebalanceOnScaleUp add[5]"),
        ("add Rebalancing",                "RebalanceOnScaleUp add[5]"),
        ("known 0-5",                      "RebalanceOnScaleUp add[5]"),
    ]);
    tell(&[
        ("",                               "Idle"),
        ("leaving 4; remove set template?", "Idle"),
        ("brokers 0-5",                    "Idle add[5]"),
        ("remove set template",            "RebalanceOnScaleDown remove[4] add[5] +create-remove[4]"),
    ]);
    // A fill waits until its brokers run.
    tell(&[
        ("",                               "Idle"),
        ("brokers 0-6; running 0-5",       "Idle add[5,6] AwaitsBrokers"),
        ("running 0-6",                    "RebalanceOnScaleUp add[5,6] +create-add[5,6]"),
        ("add Rebalancing; brokers 0-7; running 0-6", "RebalanceOnScaleUp add[5,6,7] AwaitsBrokers"),
        ("running 0-7",                    "RebalanceOnScaleUp add[5,6,7] +refresh-add[5,6,7]"),
    ]);
    // A broker that is empty and leaves needs no drain.
    tell(&[("holding 0-3", "Idle"), ("leaving 4", "Idle")]);
}

#[test]
#[rustfmt::skip]
fn a_lost_record_is_made_again_from_what_is_there() {
    let mut story = tell(&[
        ("",                               "Idle"),
        ("brokers 0-5",                    "RebalanceOnScaleUp add[5] +create-add[5]"),
        ("add Rebalancing",                "RebalanceOnScaleUp add[5]"),
    ]);
    story.recorded = None;
    tell_on(&mut story, &[
        ("",                               "RebalanceOnScaleUp add[5] +stop-add"),
        ("add Stopped",                    "RebalanceOnScaleUp add[5] +delete-add"),
        ("",                               "RebalanceOnScaleUp add[5] +release-add"),
        ("",                               "RebalanceOnScaleUp add[5] +create-add[5]"),
    ]);
}

#[test]
fn brokers_are_held_until_their_request_is_done_and_goes() {
    let held = |story: &Story| decide(story.recorded.as_ref(), &story.facts).held;
    let mut story = tell(&[
        ("leaving 3,4", "RebalanceOnScaleDown remove[3,4] +create-remove[3,4]"),
        ("remove Rebalancing; holding 0-2", "RebalanceOnScaleDown remove[3,4]"),
    ]);
    assert_eq!(held(&story), Some(brokers("3,4")));
    tell_on(&mut story, &[("remove Ready", "Idle +delete-remove")]);
    assert_eq!(held(&story), Some(Brokers::new()));
    // A drain that is cancelled gives replicas back.
    let mut story = tell(&[
        ("leaving 4", "RebalanceOnScaleDown remove[4] +create-remove[4]"),
        ("remove Rebalancing; leaving -", "Idle +stop-remove"),
        ("leaving 4; holding 0-3", "Idle"),
    ]);
    assert_eq!(held(&story), Some(brokers("4")));
    story.happen("remove unread");
    assert_eq!(held(&story), None);
}

#[test]
fn warnings_say_what_to_do() {
    let mut story = tell(&[
        ("leaving 3,4", "RebalanceOnScaleDown remove[3,4] +create-remove[3,4]"),
        ("remove NotReady", "Idle +delete-remove Failed"),
    ]);
    let notices = decide(story.recorded.as_ref(), &story.facts).notices;
    assert_eq!(
        notices[0].to_string(),
        "Auto-rebalancing with remove-brokers of brokers [3, 4] ended without success: it failed: \
         no goal; it will be tried again"
    );
    story.happen("leaving -");
    assert!(decide(story.recorded.as_ref(), &story.facts).notices.is_empty());
}

#[test]
fn the_table_has_no_pair_twice() {
    let pairs: BTreeMap<_, _> = TRANSITIONS.iter().map(|(a, b, c)| ((*a, *b), *c)).collect();
    assert_eq!(pairs.len(), TRANSITIONS.len());
}
