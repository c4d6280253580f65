//! The scenario tables of one request, and what holds for any facts.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

/// What is recorded, in words: the phase, then `+command`, `<phase` for one that is paused, `!passing`,
/// `!final` or `!hindered` for a failure.
fn recorded(text: &str) -> Recorded {
    let mut words = text.split_whitespace();
    let phase = Phase::from_name(words.next().unwrap()).unwrap();
    let mut recorded = Recorded { phase, attempt: 1, generation: 1, ..Recorded::default() };
    for word in words {
        match word {
            "+approve" => recorded.command = Some(Command::Approve),
            "+stop" => recorded.command = Some(Command::Stop),
            "+refresh" => recorded.command = Some(Command::Refresh),
            "!passing" => {
                recorded.failure = Some(Failure::Passing("no route".to_owned()));
                recorded.failures = 1;
            }
            "!final" => recorded.failure = Some(Failure::Final("missing hard goals".to_owned())),
            "!hindered" => recorded.failure = Some(Failure::Hindered(Hindrance::KafkaNotReady)),
            other => recorded.paused_in = Phase::from_name(&other[1..]),
        }
    }
    recorded
}

/// Facts in words. Without words nothing is in the way, nothing else runs, and the engine was not
/// heard: `p…` is what it says of the plan, `x…` of the moves.
fn facts(text: &str) -> Facts {
    let mut facts = Facts {
        annotation: Annotation::Absent,
        auto_approval: false,
        template: false,
        paused: false,
        deleting: false,
        generation: 1,
        hindrance: Some(None),
        proposal: None,
        execution: None,
        others_running: Some(false),
        now_ms: 1_000,
    };
    for word in text.split_whitespace() {
        let passing = Failure::Passing("no route".to_owned());
        let last = Failure::Final("does not exist".to_owned());
        match word {
            "auto" => facts.auto_approval = true,
            "template" => facts.template = true,
            "paused" => facts.paused = true,
            "deleting" => facts.deleting = true,
            "changed" => facts.generation = 2,
            "later" => facts.now_ms = 1_000_000,
            "hindrance?" => facts.hindrance = None,
            "no-label" => facts.hindrance = Some(Some(Hindrance::NoClusterLabel)),
            "no-kafka" => facts.hindrance = Some(Some(Hindrance::NoKafka)),
            "kafka-down" => facts.hindrance = Some(Some(Hindrance::KafkaNotReady)),
            "no-cc" => facts.hindrance = Some(Some(Hindrance::NoCruiseControl)),
            "bad-url" => {
                let refusal = crate::rebalance::cruise_control::Refusal::Scheme;
                facts.hindrance = Some(Some(Hindrance::CruiseControlUrl(refusal)));
            }
            "bad-spec" => {
                facts.hindrance = Some(Some(Hindrance::InvalidSpec("goals".to_owned())));
            }
            "busy" => facts.others_running = Some(true),
            "busy?" => facts.others_running = None,
            "p-unasked" => facts.proposal = Some(Proposal::Unasked),
            "p-computing" => facts.proposal = Some(Proposal::Computing),
            "p-little" => {
                facts.proposal = Some(Proposal::TooLittleKnown("no window".to_owned()));
            }
            "p-ready" => facts.proposal = Some(Proposal::Ready),
            "p-failed" => facts.proposal = Some(Proposal::Failed(last)),
            "p-unreached" => facts.proposal = Some(Proposal::Failed(passing)),
            "x-unstarted" => facts.execution = Some(Execution::Unstarted),
            "x-running" => facts.execution = Some(Execution::Running),
            "x-finished" => facts.execution = Some(Execution::Finished),
            "x-stopped" => facts.execution = Some(Execution::Stopped),
            "x-failed" => facts.execution = Some(Execution::Failed(last)),
            "x-unreached" => facts.execution = Some(Execution::Failed(passing)),
            "x-lost" => facts.execution = Some(Execution::Lost),
            value => facts.annotation = Annotation::read(Some(value)),
        }
    }
    facts
}

/// A step in words: the phase, `+command`, what the engine is asked, `consume`, `ignored`, warnings.
fn show(step: &Step) -> String {
    let mut words = vec![step.recorded.phase.name().to_owned()];
    words.extend(step.recorded.command.map(|command| format!("+{}", command.name())));
    words.push(format!("{:?}", step.duty).to_lowercase());
    words.extend(step.consume.then(|| "consume".to_owned()));
    words.extend(step.ignored.then(|| "ignored".to_owned()));
    words.extend(step.warnings.iter().map(|warning| warning.reason().name().to_owned()));
    words.join(" ")
}

fn check(rows: &[(&str, &str, &str)]) {
    for (before, seen, expected) in rows {
        let step = step(&recorded(before), &facts(seen));
        assert_eq!(show(&step), *expected, "{before} | {seen}");
    }
}

#[test]
#[rustfmt::skip]
fn the_transitions_of_strimzi() {
    check(&[
        // New: a plan is asked for, at once.
        ("New",                       "p-unasked",             "PendingProposal propose"),
        // PendingProposal.
        ("PendingProposal",           "p-unasked",             "PendingProposal propose"),
        ("PendingProposal",           "p-computing",           "PendingProposal propose"),
        ("PendingProposal",           "p-little",              "PendingProposal propose TooLittleKnown"),
        ("PendingProposal",           "p-ready",               "ProposalReady rest"),
        ("PendingProposal",           "p-failed",              "NotReady stop"),
        ("PendingProposal",           "p-unreached",           "NotReady stop"),
        ("PendingProposal",           "p-computing refresh",   "PendingProposal +refresh propose consume"),
        ("PendingProposal +refresh",  "p-computing",           "PendingProposal propose"),
        ("PendingProposal",           "p-computing stop",      "PendingProposal +stop propose consume"),
        ("PendingProposal +stop",     "p-computing",           "Stopped stop"),
        ("PendingProposal",           "p-computing approve",   "PendingProposal propose InvalidAnnotation"),
        // ProposalReady.
        ("ProposalReady",             "p-ready",               "ProposalReady rest"),
        ("ProposalReady",             "p-ready auto",          "Rebalancing execute"),
        ("ProposalReady",             "p-ready approve",       "ProposalReady +approve rest consume"),
        ("ProposalReady +approve",    "p-ready",               "Rebalancing execute"),
        ("ProposalReady",             "p-ready refresh",       "ProposalReady +refresh rest consume"),
        ("ProposalReady +refresh",    "p-ready",               "PendingProposal propose"),
        ("ProposalReady",             "p-ready stop",          "ProposalReady rest InvalidAnnotation"),
        ("ProposalReady",             "p-ready none",          "ProposalReady rest InvalidAnnotation"),
        // Rebalancing.
        ("Rebalancing",               "x-unstarted",           "Rebalancing execute"),
        ("Rebalancing",               "x-running",             "Rebalancing execute"),
        ("Rebalancing",               "x-finished",            "Ready rest"),
        ("Rebalancing",               "x-failed",              "NotReady stop"),
        ("Rebalancing",               "x-stopped",             "Stopped stop"),
        ("Rebalancing",               "x-lost",                "PendingProposal propose"),
        ("Rebalancing",               "x-running stop",        "Rebalancing +stop stop consume"),
        ("Rebalancing +stop",         "x-running",             "Rebalancing +stop stop"),
        ("Rebalancing +stop",         "x-stopped",             "Stopped stop"),
        ("Rebalancing",               "x-running refresh",     "Rebalancing +refresh stop consume"),
        ("Rebalancing +refresh",      "x-running",             "Rebalancing +refresh stop"),
        ("Rebalancing +refresh",      "x-stopped",             "PendingProposal propose"),
        ("Rebalancing",               "x-running approve",     "Rebalancing execute InvalidAnnotation"),
        // Stopped and Ready.
        ("Stopped",                   "",                      "Stopped stop"),
        ("Stopped",                   "refresh",               "Stopped +refresh stop consume"),
        ("Stopped +refresh",          "",                      "PendingProposal propose"),
        ("Stopped",                   "approve",               "Stopped stop InvalidAnnotation"),
        ("Ready",                     "x-finished",            "Ready rest"),
        ("Ready",                     "refresh",               "Ready +refresh rest consume"),
        ("Ready +refresh",            "",                      "PendingProposal propose"),
        ("Ready",                     "approve",               "Ready rest InvalidAnnotation"),
        // NotReady.
        ("NotReady !final",           "later",                 "NotReady stop"),
        ("NotReady !final",           "refresh",               "NotReady +refresh stop consume"),
        ("NotReady !final +refresh",  "",                      "PendingProposal propose"),
        ("NotReady !hindered",        "",                      "PendingProposal propose"),
        ("NotReady !passing",         "",                      "NotReady stop"),
        ("NotReady !passing",         "later",                 "PendingProposal propose"),
        // Paused.
        ("ProposalReady",             "paused p-ready",        "ReconciliationPaused hold"),
        ("ReconciliationPaused <ProposalReady", "paused",      "ReconciliationPaused hold"),
        ("ReconciliationPaused <ProposalReady", "",            "New rest"),
        ("ReconciliationPaused",      "",                      "New rest"),
    ]);
}

#[test]
#[rustfmt::skip]
fn what_is_not_the_engines() {
    check(&[
        // In the way of a beginning.
        ("New",                   "no-label",             "NotReady stop"),
        ("New",                   "no-kafka",             "NotReady stop"),
        ("New",                   "kafka-down",           "NotReady stop"),
        ("New",                   "no-cc",                "NotReady stop"),
        ("New",                   "bad-spec",             "NotReady stop"),
        // Cruise Control must not be contacted: what it does is unknown, so what runs goes on and is not forgotten.
        ("New",                   "bad-url",              "NotReady stop"),
        ("PendingProposal",       "bad-url p-computing",  "NotReady stop"),
        ("ProposalReady",         "bad-url p-ready auto", "NotReady stop"),
        ("Rebalancing",           "bad-url",              "Rebalancing execute InvalidCruiseControlUrl"),
        ("NotReady !hindered",    "bad-url",              "NotReady stop"),
        ("New",                   "hindrance?",           "New rest"),
        ("PendingProposal",       "kafka-down p-ready",   "NotReady stop"),
        ("PendingProposal",       "hindrance? p-ready",   "PendingProposal rest"),
        ("ProposalReady",         "kafka-down p-ready auto", "NotReady stop"),
        // It waits, and does not swing to and fro while something is in the way.
        ("NotReady !hindered",    "no-label",             "NotReady stop"),
        ("NotReady !hindered",    "hindrance?",           "NotReady stop"),
        ("NotReady !final +refresh", "kafka-down",        "NotReady +refresh stop"),
        // What is done stays done, what was stopped stays stopped.
        ("Ready",                 "kafka-down",           "Ready rest"),
        ("Stopped",               "kafka-down",           "Stopped stop"),
        // What runs goes on while the cluster is not ready; without an engine it ends.
        ("Rebalancing",           "kafka-down x-running", "Rebalancing execute KafkaNotReady"),
        ("Rebalancing",           "kafka-down",           "Rebalancing execute KafkaNotReady"),
        ("Rebalancing",           "no-cc x-running",      "Rebalancing stop"),
        ("Rebalancing",           "no-cc x-stopped",      "NotReady stop"),
        ("Rebalancing",           "no-kafka",             "NotReady stop"),
        ("Rebalancing",           "no-label x-running",   "Rebalancing stop"),
        ("Rebalancing",           "no-label",             "Rebalancing stop"),
        ("Rebalancing",           "no-label x-stopped",   "NotReady stop"),
        ("Rebalancing",           "no-label x-lost auto", "NotReady stop"),
        // Templates and those that are deleted.
        ("New",                   "template",             "New rest ignored"),
        ("New",                   "deleting",             "New rest"),
        ("PendingProposal",       "deleting p-ready",     "PendingProposal rest"),
        ("ProposalReady",         "deleting p-ready auto", "ProposalReady rest"),
        ("ProposalReady +approve", "template p-ready",    "ProposalReady +approve rest ignored"),
        ("Rebalancing",           "deleting x-running",   "Rebalancing stop"),
        ("Rebalancing",           "deleting x-stopped",   "Stopped stop"),
        ("Rebalancing",           "deleting x-unstarted", "Stopped stop"),
        ("Rebalancing",           "deleting x-lost",      "Stopped stop"),
        ("Rebalancing",           "deleting changed x-stopped", "Stopped stop"),
        ("Rebalancing",           "template x-running",   "Rebalancing stop"),
        ("Ready",                 "deleting refresh",     "Ready rest"),
    ]);
}

#[test]
#[rustfmt::skip]
fn what_changes_while_it_goes_on() {
    check(&[
        // A changed spec is a refresh, also without a word.
        ("PendingProposal",         "changed p-ready",             "PendingProposal propose"),
        ("ProposalReady",           "changed p-ready",             "PendingProposal propose"),
        ("ProposalReady +approve",  "changed p-ready",             "PendingProposal propose"),
        ("ProposalReady",           "changed p-ready auto",        "PendingProposal propose"),
        ("Rebalancing",             "changed x-running",           "Rebalancing stop"),
        ("Rebalancing",             "changed x-stopped",           "PendingProposal propose"),
        ("Rebalancing",             "changed x-finished",          "PendingProposal propose"),
        ("Stopped",                 "changed",                     "PendingProposal propose"),
        ("Ready",                   "changed",                     "PendingProposal propose"),
        ("NotReady !final",         "changed",                     "PendingProposal propose"),
        ("NotReady !hindered",      "changed kafka-down",          "NotReady stop"),
        // A refresh comes before auto-approval.
        ("ProposalReady",           "auto refresh p-ready",        "ProposalReady +refresh rest consume"),
        ("ProposalReady +refresh",  "auto p-ready",                "PendingProposal propose"),
        // One at a time.
        ("ProposalReady",           "auto busy p-ready",           "ProposalReady rest AwaitsOtherRebalance"),
        ("ProposalReady +approve",  "busy p-ready",                "ProposalReady +approve rest AwaitsOtherRebalance"),
        ("ProposalReady",           "auto busy? p-ready",          "ProposalReady rest"),
        // A plan that the engine lost is not carried out.
        ("ProposalReady",           "auto",                        "ProposalReady rest"),
        ("ProposalReady +approve",  "p-unasked",                   "PendingProposal propose"),
        ("ProposalReady",           "auto p-computing",            "PendingProposal propose"),
        // A stop that comes too late, and one that nobody acknowledges.
        ("Rebalancing +stop",       "x-finished",                  "Ready rest"),
        ("Rebalancing +stop",       "x-failed",                    "NotReady stop"),
        ("Rebalancing +stop",       "x-unstarted",                 "Stopped stop"),
        ("Rebalancing +stop",       "x-lost",                      "Stopped stop"),
        ("Rebalancing +stop",       "",                            "Rebalancing +stop stop"),
        ("Rebalancing +stop",       "x-running refresh",           "Rebalancing +refresh stop consume"),
        // The annotation is still there after a crash: the command is not doubled.
        ("Rebalancing +stop",       "x-stopped stop",              "Rebalancing +stop stop consume"),
        ("ProposalReady +approve",  "p-ready approve",             "ProposalReady +approve rest consume"),
        // Pauses.
        ("Rebalancing",             "paused x-running",            "ReconciliationPaused hold"),
        ("Rebalancing +stop",       "paused x-running",            "ReconciliationPaused +stop hold"),
        ("Rebalancing",             "paused stop x-running",       "ReconciliationPaused hold InvalidAnnotation"),
        ("ReconciliationPaused <Rebalancing", "x-running",         "Rebalancing execute"),
        ("ReconciliationPaused <Rebalancing +stop", "x-running",   "Rebalancing +stop stop"),
        ("ReconciliationPaused <Rebalancing", "changed x-running", "Rebalancing stop"),
        ("ReconciliationPaused <Rebalancing", "paused deleting x-running", "Rebalancing stop"),
        ("ReconciliationPaused <Ready", "auto",                    "Ready rest"),
        ("ReconciliationPaused <Stopped", "auto",                  "Stopped stop"),
        ("ReconciliationPaused <NotReady", "",                     "New rest"),
    ]);
}

/// Lives a request through: what is seen in each pass, and the phases that it goes through.
fn live(from: &str, passes: &[&str]) -> (Recorded, String) {
    let mut now = recorded(from);
    let mut phases = vec![now.phase.name()];
    for pass in passes {
        now = step(&now, &facts(pass)).recorded;
        if phases.last() != Some(&now.phase.name()) {
            phases.push(now.phase.name());
        }
    }
    (now, phases.join(" "))
}

#[test]
#[rustfmt::skip]
fn the_stories_of_strimzi() {
    let pending = "PendingProposal";
    let rows: &[(&str, &[&str], &str)] = &[
        ("New", &["", "p-ready"], "New PendingProposal ProposalReady"),
        ("New", &["", "p-computing", "p-computing", "p-ready"], "New PendingProposal ProposalReady"),
        ("New", &["", "p-computing stop", "p-computing"], "New PendingProposal Stopped"),
        ("Stopped", &["refresh", "", "p-computing", "p-ready"], "Stopped PendingProposal ProposalReady"),
        ("ProposalReady", &["p-ready approve", "p-ready", "x-running", "x-finished"],
         "ProposalReady Rebalancing Ready"),
        ("ProposalReady", &["p-ready auto", "x-running auto", "x-finished auto"], "ProposalReady Rebalancing Ready"),
        ("Ready", &["refresh", "", "p-ready"], "Ready PendingProposal ProposalReady"),
        ("Rebalancing", &["auto refresh x-running", "auto x-running", "auto x-stopped", "auto p-ready",
                          "auto p-ready", "auto x-running", "auto x-finished"],
         "Rebalancing PendingProposal ProposalReady Rebalancing Ready"),
        ("Rebalancing", &["stop x-running", "x-running", "x-stopped"], "Rebalancing Stopped"),
        // Not enough data for the moves: the engine has begun nothing, and a plan is asked for again.
        ("ProposalReady", &["p-ready approve", "p-ready", "x-lost", "p-little"], "ProposalReady Rebalancing PendingProposal"),
        // A broker that does not exist: it must not hang.
        (pending, &["refresh p-computing", "p-computing", "p-failed"], "PendingProposal NotReady"),
        ("Rebalancing", &["x-lost", "p-failed"], "Rebalancing PendingProposal NotReady"),
        ("Rebalancing", &["refresh x-running", "x-stopped", "p-failed"], "Rebalancing PendingProposal NotReady"),
        // No rebalancing, then there is.
        ("New", &["no-cc", "no-cc", "", "p-ready"], "New NotReady PendingProposal ProposalReady"),
        // Rebalance disks and goals, then the spec is mended.
        ("New", &["bad-spec", "bad-spec", "changed", "changed p-ready"], "New NotReady PendingProposal ProposalReady"),
        // Missing hard goals, then the check is skipped.
        (pending, &["p-failed", "later", "changed", "changed p-ready"], "PendingProposal NotReady PendingProposal ProposalReady"),
        // The engine cannot be reached for a while.
        (pending, &["p-unreached", "p-unreached", "later", "p-ready"], "PendingProposal NotReady PendingProposal ProposalReady"),
        // Deleted while it waits: nothing happens any more.
        (pending, &["deleting", "deleting p-ready auto"], "PendingProposal"),
        ("New", &["template", "template auto p-ready"], "New"),
    ];
    for (from, passes, expected) in rows {
        assert_eq!(live(from, passes).1, *expected, "{passes:?}");
    }
}

#[test]
fn each_new_plan_is_another_attempt() {
    let story = ["", "p-ready", "p-ready refresh", "p-ready", "p-ready", "changed p-ready"];
    assert_eq!(live("New", &story).0.attempt, 4);
    let waits = live("PendingProposal", &["p-computing", "p-little", "p-unasked", ""]).0;
    assert_eq!(waits.attempt, 1);
}

#[test]
fn failures_in_a_row_are_tried_again_less_and_less_often() {
    let mut now = recorded("PendingProposal");
    let mut waits = Vec::new();
    let mut clock = 0;
    for _ in 0..9 {
        let failed = Facts { now_ms: clock, ..facts("p-unreached") };
        now = step(&now, &failed).recorded;
        assert!(now.recovers());
        let wait = retry_at_ms(&now) - clock;
        waits.push(wait / 1_000);
        let early = Facts { now_ms: clock + wait - 1, ..facts("") };
        assert_eq!(step(&now, &early).recorded.phase, NotReady);
        clock += wait;
        now = step(&now, &Facts { now_ms: clock, ..facts("") }).recorded;
        assert_eq!(now.phase, PendingProposal);
    }
    assert_eq!(waits, [30, 60, 120, 240, 480, 960, 1_800, 1_800, 1_800]);
}

#[test]
fn what_is_not_ready_says_why() {
    let hindered = step(&recorded("New"), &facts("no-cc")).recorded;
    let why = hindered.failure.clone().unwrap();
    assert_eq!(why.to_string(), "Kafka resource lacks 'cruiseControl' declaration");
    // Another thing is in the way now.
    let other = step(&hindered, &facts("kafka-down")).recorded;
    assert_eq!(other.failure.unwrap().to_string(), "Kafka cluster is not Ready");
    let failed = step(&recorded("Rebalancing"), &facts("x-failed")).recorded;
    assert_eq!(failed.failure, Some(Failure::Final("does not exist".to_owned())));
    assert!(!failed.recovers());
}

#[test]
fn a_wrong_annotation_is_told_with_those_that_are_right() {
    let step = step(&recorded("ProposalReady"), &facts("p-ready stop"));
    assert_eq!(
        step.warnings[0].to_string(),
        "Wrong annotation value: stop. The rebalance resource supports the following annotations \
         in ProposalReady state: [approve, refresh]"
    );
}

#[test]
fn the_table_has_no_pair_twice_and_every_phase_comes_and_goes() {
    let pairs: BTreeSet<_> = TRANSITIONS.iter().map(|(from, event, _)| (*from, *event)).collect();
    assert_eq!(pairs.len(), TRANSITIONS.len());
    for phase in Phase::ALL {
        assert_eq!(Phase::from_name(phase.name()), Some(phase));
        assert!(TRANSITIONS.iter().any(|(from, ..)| *from == phase), "{phase:?} never ends");
        assert!(TRANSITIONS.iter().any(|(.., to)| *to == phase), "{phase:?} is never reached");
    }
}

fn any_recorded() -> impl Strategy<Value = Recorded> {
    let commands = prop::sample::select(vec!["", "+approve", "+stop", "+refresh"]);
    let failures = prop::sample::select(vec!["", "!passing", "!final", "!hindered"]);
    (
        prop::sample::select(&Phase::ALL[..]),
        commands,
        failures,
        prop::sample::select(&Phase::ALL[..]),
    )
        .prop_map(|(phase, command, failure, paused_in)| {
            let mut recorded = recorded(&format!("{} {command} {failure}", phase.name()));
            recorded.paused_in = (phase == ReconciliationPaused).then_some(paused_in);
            recorded
        })
}

fn any_facts() -> impl Strategy<Value = Facts> {
    let pick = |words: &'static [&'static str]| prop::sample::select(words);
    (
        pick(&["", "approve", "stop", "refresh", "other"]),
        pick(&["", "", "auto"]),
        pick(&["", "", "", "template", "deleting", "paused", "paused deleting"]),
        pick(&["", "", "changed"]),
        pick(&[
            "",
            "",
            "",
            "hindrance?",
            "no-label",
            "no-kafka",
            "kafka-down",
            "no-cc",
            "bad-spec",
            "bad-url",
        ]),
        pick(&["", "p-unasked", "p-computing", "p-little", "p-ready", "p-failed", "p-unreached"]),
        pick(&[
            "",
            "x-unstarted",
            "x-running",
            "x-finished",
            "x-stopped",
            "x-failed",
            "x-unreached",
            "x-lost",
        ]),
        pick(&["", "", "busy", "busy?"]),
    )
        .prop_map(|(a, b, c, d, e, f, g, h)| facts(&[a, b, c, d, e, f, g, h].join(" ")))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 5_000, failure_persistence: None, ..Default::default() })]

    #[test]
    fn no_facts_raise_a_pair_that_is_not_listed(recorded in any_recorded(), facts in any_facts()) {
        let step = step(&recorded, &facts);
        if let Some(event) = step.event {
            let to = next(recorded.phase, event);
            prop_assert_eq!(to, Some(step.recorded.phase), "{:?} {:?}", recorded.phase, event);
        } else {
            prop_assert_eq!(step.recorded.phase, recorded.phase);
        }
    }

    #[test]
    fn nothing_is_begun_that_is_not_wanted(recorded in any_recorded(), facts in any_facts()) {
        let step = step(&recorded, &facts);
        let going = facts.deleting || facts.template;
        prop_assert!(!(going && matches!(step.duty, Duty::Execute | Duty::Propose)));
        if step.event == Some(Approved) {
            prop_assert_eq!(facts.others_running, Some(false));
            prop_assert_eq!(facts.proposal, Some(Proposal::Ready));
            prop_assert_eq!(facts.generation, recorded.generation);
            prop_assert!(facts.auto_approval || recorded.command == Some(Command::Approve));
        }
    }

    #[test]
    fn no_phase_that_says_that_nothing_runs_is_entered_while_something_does(
        recorded in any_recorded(), facts in any_facts(),
    ) {
        let step = step(&recorded, &facts);
        let unknown = matches!(facts.execution, Some(Execution::Running) | None);
        let no_engine = facts.hindrance == Some(Some(Hindrance::NoKafka));
        if recorded.phase == Rebalancing && unknown && !no_engine {
            prop_assert!(step.recorded.may_run(), "{:?}", step.recorded.phase);
        }
    }
}
