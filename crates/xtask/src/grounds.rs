//! The matrix of `docs/generated/grounds.md`: what is tested with processes of local mode, and what with containers.
//!
//! The table is here, and a test compares it with the sources: it names no test that does not exist, and every test with
//! containers is in it. A story without a test has a dash, so that what is missing can be seen.

/// What a cluster goes through, and the tests of it.
struct Story {
    what: &'static str,
    /// Tests with Kafka and Kubernetes as processes.
    processes: &'static [&'static str],
    /// Tests with a kubelet, containerd, kube-proxy and DNS.
    containers: &'static [&'static str],
}

const STORIES: &[Story] = &[
    Story {
        what: "creation with persistent storage, clients by DNS name",
        processes: &["examples_of_controllers_and_brokers_become_clusters"],
        containers: &["a_cluster_serves_clients_in_pods_by_their_names"],
    },
    Story {
        what: "creation with ephemeral storage, several disks, combined nodes",
        processes: &["examples_of_combined_nodes_become_clusters"],
        containers: &[],
    },
    Story {
        what: "Pod Security profile `restricted`",
        processes: &["examples_of_controllers_and_brokers_become_clusters"],
        containers: &["a_cluster_serves_clients_in_pods_by_their_names"],
    },
    Story {
        what: "installation of the chart, images of a private registry",
        processes: &["a_real_server_takes_it_from_kubectl_and_from_helm"],
        containers: &["a_cluster_serves_clients_in_pods_by_their_names"],
    },
    Story {
        what: "restarts one by one under load",
        processes: &["nodes_are_restarted_without_breaking_anything"],
        containers: &["nodes_are_rolled_one_by_one_and_no_record_is_lost"],
    },
    Story {
        what: "restarts in batches",
        processes: &["nodes_are_restarted_without_breaking_anything"],
        containers: &[],
    },
    Story {
        what: "brokers 3 to 4 to 3, with automatic rebalances",
        processes: &["brokers_that_come_are_filled_and_brokers_that_go_are_drained"],
        containers: &["brokers_come_and_go_and_no_record_is_lost"],
    },
    Story {
        what: "controllers come and go",
        processes: &["controllers_come_and_go_and_the_quorum_stays"],
        containers: &[],
    },
    Story {
        what: "a machine is drained with kubectl",
        processes: &["a_node_serves_logs_is_drained_and_leaves"],
        containers: &["a_drained_machine_gives_its_nodes_to_others_and_no_record_is_lost"],
    },
    Story {
        what: "a machine is cut off and comes back",
        processes: &[
            "no_broker_is_restarted_on_the_word_of_one_that_is_cut_off_from_the_controllers",
        ],
        containers: &["a_machine_that_is_cut_off_and_comes_back_takes_no_record_with_it"],
    },
    Story { what: "a machine dies and never comes back", processes: &[], containers: &[] },
    Story {
        what: "a change of settings, an upgrade of Kafka",
        processes: &["what_changes_is_rolled_out_and_what_fails_stops_the_rest"],
        containers: &[],
    },
    Story {
        what: "the operator is uninstalled and installed again, another one takes over",
        processes: &["another_operator_takes_over", "one_leads_and_the_next_one_follows"],
        containers: &[
            "a_cluster_serves_while_there_is_no_operator_and_the_next_one_restarts_nothing",
        ],
    },
    Story {
        what: "adoption of a cluster of Strimzi",
        processes: &["what_strimzi_left_is_adopted_and_migrated_to_a_dynamic_quorum"],
        containers: &[],
    },
    Story { what: "enforced NetworkPolicies", processes: &[], containers: &[] },
    Story {
        what: "fleet: data planes come and go",
        processes: &["nodes_and_data_planes_come_and_go_with_the_kafkas"],
        containers: &[],
    },
];

/// The document.
fn text() -> String {
    let mut text = String::from(
        "# What is tested where\n\nGenerated from `crates/xtask/src/grounds.rs`. *Processes*: Kafka and the programs of \
         Kubernetes are processes of local mode,\nin `make test` and `make soak`. *Containers*: images, chart and operator \
         on nodes with a kubelet, containerd, kube-proxy and\nDNS, in `make soak PART=e2e`. A dash: no test.\n\n\
         | | processes | containers |\n|---|---|---|\n",
    );
    for Story { what, processes, containers } in STORIES {
        let cell = |tests: &[&str]| match tests {
            [] => "-".to_owned(),
            tests => tests.iter().map(|test| format!("`{test}`")).collect::<Vec<_>>().join(", "),
        };
        text.push_str(&format!("| {what} | {} | {} |\n", cell(processes), cell(containers)));
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use super::*;
    use crate::root;

    /// The names of tests in the test programs of `gregor` whose names begin so.
    fn tests_of(prefixes: &[&str]) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        for entry in fs::read_dir(root().join("crates/gregor/tests")).unwrap() {
            let path = entry.unwrap().path();
            let stem = path.file_stem().unwrap().to_str().unwrap().to_owned();
            if !path.is_file() || !prefixes.iter().any(|prefix| stem.starts_with(prefix)) {
                continue;
            }
            let text = fs::read_to_string(path).unwrap();
            let lines: Vec<_> = text.lines().collect();
            for pair in lines.windows(2) {
                let is_test =
                    pair[0].starts_with("#[test]") || pair[0].starts_with("#[tokio::test");
                let name = pair[1].split_once("fn ").and_then(|(_, rest)| rest.split_once('('));
                if let (true, Some((name, _))) = (is_test, name) {
                    names.insert(name.to_owned());
                }
            }
        }
        names
    }

    #[test]
    fn the_matrix_names_tests_that_exist_and_all_with_containers() {
        let processes = tests_of(&["real_", "soak_"]);
        let containers = tests_of(&["e2e_"]);
        for story in STORIES {
            for test in story.processes {
                assert!(processes.contains(*test), "{}: there is no test {test}", story.what);
            }
        }
        let listed: BTreeSet<_> = STORIES
            .iter()
            .flat_map(|story| story.containers)
            .map(|test| (*test).to_owned())
            .collect();
        assert_eq!(listed, containers);
    }

    #[test]
    fn the_matrix_is_fresh() {
        let file = root().join("docs/generated/grounds.md");
        if std::env::var_os("GREGOR_UPDATE").is_some() {
            fs::write(&file, text()).unwrap();
        }
        let found = fs::read_to_string(&file).unwrap_or_default();
        assert!(
            found == text(),
            "docs/generated/grounds.md is stale: GREGOR_UPDATE=1 cargo test -p xtask grounds"
        );
    }
}
