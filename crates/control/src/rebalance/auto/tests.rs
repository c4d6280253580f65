//! The stories of auto-rebalancing.

use std::collections::BTreeMap;

use super::story::{Story, brokers};
use super::*;

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
    // Ready with the brokers that it had before: it has not begun with the new ones.
    tell(&[
        ("",                               "Idle"),
        ("brokers 0-5",                    "RebalanceOnScaleUp add[5] +create-add[5]"),
        ("add Ready; brokers 0-6",         "RebalanceOnScaleUp add[5,6] +refresh-add[5,6]"),
        ("",                               "RebalanceOnScaleUp add[5,6]"),
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
    // Switched on together with a scale-up.
    tell(&[
        ("remove set off; add set off",    "none"),
        ("add set plain; brokers 0-5",     "RebalanceOnScaleUp add[5] +create-add[5]"),
    ]);
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
    // What is named as the template is a request of somebody.
    tell(&[
        ("",                               "Idle"),
        ("brokers 0-6; add set unmarked",  "Idle Failed"),
    ]);
    tell(&[
        ("",                               "Idle"),
        ("leaving 4; remove set unmarked", "Idle TemplateUnmarked"),
        ("remove set template",            "RebalanceOnScaleDown remove[4] +create-remove[4]"),
        ("remove set unmarked",            "RebalanceOnScaleDown remove[4]"),
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
        ("remove NotReady",                "Idle +delete-remove Failed"),
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
        ("leaving -",                      "Idle"),
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
        ("remove Ready; holding 0-3",      "Idle +delete-remove"),
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
fn a_user_who_waives_the_check_wants_no_drain() {
    // It is not begun.
    tell(&[
        ("",                               "Idle"),
        ("waived; leaving 4",              "Idle"),
        ("brokers 0-3; leaving -",         "Idle"),
    ]);
    // One that runs is cancelled, and the broker is held until nothing moves.
    let mut story = tell(&[
        ("leaving 4",                      "RebalanceOnScaleDown remove[4] +create-remove[4]"),
        ("remove Rebalancing",             "RebalanceOnScaleDown remove[4]"),
        ("waived",                         "Idle +stop-remove"),
        ("",                               "Idle"),
    ]);
    let held = |story: &Story| decide(story.recorded.as_ref(), &story.facts).held;
    assert_eq!(held(&story), Some(brokers("4")));
    tell_on(&mut story, &[
        ("remove Stopped",                 "Idle +delete-remove"),
        ("",                               "Idle +release-remove"),
        ("",                               "Idle"),
    ]);
    assert_eq!(held(&story), Some(Brokers::new()));
    // One that was not made yet is not made, and one that failed is not tried again.
    tell(&[
        ("leaving 4",                      "RebalanceOnScaleDown remove[4] +create-remove[4]"),
        ("remove missing; waived",         "Idle"),
    ]);
    tell(&[
        ("leaving 4",                      "RebalanceOnScaleDown remove[4] +create-remove[4]"),
        ("remove NotReady",                "Idle +delete-remove Failed"),
        ("waived; later",                  "Idle +release-remove"),
        ("later",                          "Idle"),
    ]);
    // Neither a template nor a fill waits for it.
    tell(&[("", "Idle"), ("waived; leaving 4; remove set no-template", "Idle")]);
    tell(&[
        ("",                               "Idle"),
        ("brokers 0-5; leaving 4; waived", "RebalanceOnScaleUp add[5] +create-add[5]"),
    ]);
    // A broker that stays after all is a new one only if it has no partitions.
    tell(&[
        ("",                               "Idle"),
        ("waived; leaving 4",              "Idle"),
        ("leaving -",                      "Idle"),
    ]);
    tell(&[
        ("",                               "Idle"),
        ("waived; holding 0-3; leaving 4", "Idle"),
        ("leaving -",                      "RebalanceOnScaleUp add[4] +create-add[4]"),
    ]);
    // The check is wanted again.
    tell(&[
        ("waived; leaving 4",              "Idle"),
        ("unwaived",                       "RebalanceOnScaleDown remove[4] +create-remove[4]"),
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
        ("brokers 0-5",                    "Idle"),
        ("remove set template",            "RebalanceOnScaleDown remove[4] add[5] +create-remove[4]"),
    ]);
    // A fill waits until its brokers run.
    tell(&[
        ("",                               "Idle"),
        ("brokers 0-6; running 0-5",       "Idle AwaitsBrokers"),
        ("running 0-6",                    "RebalanceOnScaleUp add[5,6] +create-add[5,6]"),
        ("add Rebalancing; brokers 0-7; running 0-6", "RebalanceOnScaleUp add[5,6,7] AwaitsBrokers"),
        ("running 0-7",                    "RebalanceOnScaleUp add[5,6,7] +refresh-add[5,6,7]"),
    ]);
    // A broker that is empty and leaves needs no drain. If it is wanted again it is filled, since it
    // may have been stopped, and comes back empty.
    tell(&[
        ("holding 0-3",                    "Idle"),
        ("leaving 4",                      "Idle"),
        ("leaving -",                      "RebalanceOnScaleUp add[4] +create-add[4]"),
    ]);
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
    // Moves that nobody claims any more.
    let mut story = tell(&[("leaving 4; holding 0-3; moving 4", "Idle")]);
    assert_eq!(held(&story), Some(brokers("4")));
    story.facts.moving = None;
    assert_eq!(held(&story), None);
}

#[test]
#[rustfmt::skip]
fn the_time_of_the_last_transition_is_that_of_the_state() {
    // What happens ten minutes after the line before, the state, and how many lines old it is.
    let rows = [
        ("",                               "Idle", 0),
        ("brokers 0-5",                    "RebalanceOnScaleUp add[5] +create-add[5]", 0),
        ("add Rebalancing; brokers 0-6",   "RebalanceOnScaleUp add[5,6] +refresh-add[5,6]", 1),
        ("add Rebalancing",                "RebalanceOnScaleUp add[5,6]", 2),
        ("add Ready",                      "Idle +delete-add", 0),
        ("",                               "Idle +release-add", 1),
        ("leaving 4",                      "RebalanceOnScaleDown remove[4] +create-remove[4]", 0),
        ("remove Rebalancing; leaving 3,4", "RebalanceOnScaleDown remove[3,4] +refresh-remove[3,4]", 1),
        ("remove NotReady",                "Idle +delete-remove Failed", 0),
    ];
    let mut story = Story::new();
    for (line, expected, age) in rows {
        story.happen("later");
        tell_on(&mut story, &[(line, expected)]);
        let since_ms = story.recorded.as_ref().unwrap().since_ms;
        assert_eq!(story.facts.now_ms - since_ms, age * 600_000, "{line:?}");
    }
}

#[test]
fn a_failed_drain_is_tried_again_less_and_less_often() {
    let brokers = brokers("4");
    let rows = [(1, 1), (2, 2), (3, 4), (6, 32), (7, 60), (40, 60)];
    for (attempts, minutes) in rows {
        let setback = Setback { brokers: brokers.clone(), why: Why::Gone, attempts, at_ms: 5 };
        assert_eq!(retry_at_ms(&setback), 5 + minutes * 60_000, "{attempts}");
    }
    let mut story = Story::new();
    let attempts = |story: &Story| {
        let recorded = story.recorded.as_ref().unwrap();
        recorded.setbacks.remove.as_ref().map(|setback| setback.attempts)
    };
    for expected in 1..=3 {
        for line in ["leaving 4; later", "remove NotReady", ""] {
            for happening in line.split(';').map(str::trim).filter(|part| !part.is_empty()) {
                story.happen(happening);
            }
            story.pass();
        }
        assert_eq!(attempts(&story), Some(expected));
        story.facts.now_ms += RETRY_MS_MAX;
    }
}

#[test]
#[rustfmt::skip]
fn a_fill_begins_and_grows_only_on_what_is_known() {
    // Whether a broker leaves is not known.
    let mut story = tell(&[("", "Idle")]);
    story.facts.leaving = None;
    tell_on(&mut story, &[("brokers 0-5", "Idle")]);
    story.facts.leaving = Some(Brokers::new());
    tell_on(&mut story, &[("", "RebalanceOnScaleUp add[5] +create-add[5]")]);
    // A request that will go on by itself is not refreshed because a broker of it is gone.
    tell(&[
        ("",                               "Idle"),
        ("brokers 0-6",                    "RebalanceOnScaleUp add[5,6] +create-add[5,6]"),
        ("add unlabelled; brokers 0-5",    "RebalanceOnScaleUp add[5]"),
        ("add Ready",                      "Idle +delete-add"),
    ]);
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
         no goal; the operator retries"
    );
    story.happen("leaving -");
    assert!(decide(story.recorded.as_ref(), &story.facts).notices.is_empty());
}

#[test]
fn the_table_has_no_pair_twice() {
    let pairs: BTreeMap<_, _> = TRANSITIONS.iter().map(|(a, b, c)| ((*a, *b), *c)).collect();
    assert_eq!(pairs.len(), TRANSITIONS.len());
}
