//! The API over a real socket, on SQLite.

mod scenarios;
mod support;

macro_rules! on_sqlite {
    ($($name:ident)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                scenarios::$name("sqlite").await;
            }
        )*
    };
}

on_sqlite! {
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

#[test]
fn the_description_is_openapi_3_1_and_has_every_route() {
    let text = fleet::http::description().to_json().unwrap();
    let description: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert!(description["openapi"].as_str().unwrap().starts_with("3.1"));
    let paths = description["paths"].as_object().unwrap();
    for path in ["/agent-clusters/{id}/status", "/kafkas/{id}", "/admin/data_planes/{id}/scale"] {
        let path = format!("{}{path}", fleet::http::BASE);
        assert!(paths.contains_key(&path), "{path}");
    }
}

#[tokio::test]
async fn tokens_that_are_signed_with_rsa_are_good_too() {
    use support::{Manager, Signer, report};
    let rsa = Signer::rsa("rsa");
    let jwk = rsa.jwk();
    let manager = Manager::with("sqlite", |config| {
        let file = config.auth.jwks_file.as_ref().unwrap();
        let mut keys: serde_json::Value =
            serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
        keys["keys"].as_array_mut().unwrap().push(jwk);
        std::fs::write(file, keys.to_string()).unwrap();
    })
    .await;
    manager.plane("p").await;
    let body = Some(report((1000, 1000), (3, 9, 3, 3)));
    let path = "/agent-clusters/p/status";
    assert_eq!(manager.ask("PUT", path, &rsa.agent("p"), body).await.status, 204);
}
