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
        a_step_is_one_until_its_nodes_are_there
        nodes_that_do_not_come_fail_the_step
        machines_that_boot_are_one_step
        a_provider_that_answers_late_does_nothing_twice
        a_provider_that_fails_is_asked_again
        what_the_provider_or_a_person_changes_is_adopted
        with_manual_scaling_the_manager_changes_nothing
        nodes_go_through_the_provider
        one_data_plane_grows_for_a_kafka_that_waits
        nodes_without_zones_are_told_and_make_no_data_planes
        a_region_that_stops_growing_says_so
        a_sibling_is_of_the_same_provider_region_and_zones
        a_removal_is_looked_at_again
        a_cluster_of_somebody_else_is_not_adopted
        quotas_are_kept
        a_change_and_its_audit_are_one
        the_audit_log_is_kept_as_long_as_configured
        owners_get_credentials_once
        local_tokens_are_given_out_and_revoked
    }
}
