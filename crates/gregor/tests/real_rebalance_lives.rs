//! A drain of which the operator dies after everything that it does: it is finished, once, and nothing is left of it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod kafka;
mod rebalance;
mod up;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use kafka::Ground;
use rebalance::{Pace, Scene};
use rustix::process::Signal;
use up::{World, signal};

/// Starts the operator again, at once, whenever it was killed; from when there is a file on it kills itself after each act.
const AGAIN: &str = "#!/bin/sh
while :; do
  [ -e FILE ] && export GREGOR_ONE_ACT_PER_LIFE=true
  GREGOR operator \"$@\"
  [ $? -eq 137 ] || exit 1
done
";

#[test]
fn a_drain_is_lived_one_act_per_life() {
    let world = World::with_operator();
    let file = world.temp().join("one-act-per-life");
    let script = AGAIN
        .replace("FILE", file.to_str().unwrap())
        .replace("GREGOR operator", &format!("{} operator", env!("CARGO_BIN_EXE_gregor")));
    let script = world.file("operator", &script);
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let image = format!("gregor-operator:{}={script}", env!("CARGO_PKG_VERSION"));
    let ground = Ground::start_in(world, &["--image", &image]);
    let scene = Scene::start(&ground, "lives", false);
    scene.template(Pace::Quick);
    scene.scale("b", 2);
    scene.has("b", 2);
    scene.does("RebalanceOnScaleUp");
    scene.settles();
    fs::write(&file, "").unwrap();
    let operators = ground.world.processes().into_iter().filter(|process| {
        process.is("gregor") && process.words.get(1).is_some_and(|word| word == "operator")
    });
    operators.for_each(|operator| signal(operator.pid, Signal::KILL));
    scene.scale("b", 1);
    scene.has("b", 1);
    scene.settles();
    let log = ground.operator_log();
    let lives: Vec<_> =
        log.lines().filter_map(|line| line.strip_prefix("one act per life: ")).collect();
    println!("{} lives:\n{}", lives.len(), lives.join("\n"));
    // A request, its record and its plan, moves with a throttle, and a broker that goes.
    assert!(lives.len() > 25, "{} lives only", lives.len());
    let reassigned = lives.iter().any(|life| life.starts_with("move "));
    assert!(reassigned, "no life was for moves");
}
