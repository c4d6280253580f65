//! A drain of which the operator dies after everything that it does: it is finished, once, and nothing is left of it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod kafka;
mod rebalance;
mod up;

use kafka::Ground;
use rebalance::{Pace, Scene};

#[test]
fn a_drain_is_lived_one_act_per_life() {
    let ground = Ground::mortal(&[]);
    let mut scene = Scene::start(&ground, "lives");
    scene.template(Pace::Quick);
    scene.scale("b", 2);
    scene.has("b", 2);
    scene.does("RebalanceOnScaleUp");
    scene.settles();
    ground.begin_one_act_per_life();
    scene.scale("b", 1);
    scene.does("RebalanceOnScaleDown");
    scene.does("Idle");
    scene.has("b", 1);
    scene.settles();
    scene.nothing_is_lost();
    let log = ground.operator_log();
    let lives: Vec<_> =
        log.lines().filter_map(|line| line.strip_prefix("one act per life: ")).collect();
    println!("{} lives:\n{}", lives.len(), lives.join("\n"));
    // A request, its record and its plan, moves with a throttle, and a broker that goes.
    assert!(lives.len() > 25, "{} lives only", lives.len());
    let reassigned = lives.iter().any(|life| life.starts_with("move "));
    assert!(reassigned, "no life was for moves");
}
