//! The same API and the same scenarios on a real PostgreSQL.

mod scenarios;
mod support;

use support::postgres::Postgres;

macro_rules! on_postgres {
    ($postgres:ident: $($name:ident)*) => {
        $(
            println!("{}", stringify!($name));
            scenarios::$name(&$postgres.database(stringify!($name))).await;
        )*
    };
}

/// One after the other, on one server, which takes longer to start than all of them need.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_scenario_on_postgresql() {
    let postgres = Postgres::start();
    on_postgres! { postgres:
        agents_are_known_by_their_tokens
        reports_change_the_state
        a_kafka_lives_and_goes
        a_kafka_that_is_rejected_gets_another_place
        kafkas_are_listed
        a_fleet_grows_and_shrinks
        administrators_do_things_by_hand
        reports_outside_the_bounds_are_refused
        a_dry_run_decides_and_does_nothing
        silence_is_noticed
        limits_are_kept
    }
}
