//! The cheapest policy within limits: every combination of steps, reserves, cool-downs and types of nodes is tried.

use fleet_control::{Arrival, Outcome, Policy, simulate};

use super::{Name, Simulate, Tried, called};

/// Nodes of one step.
const STEPS: [u32; 3] = [3, 6, 9];

/// The room that is kept free, in Kafkas of Model T.
const RESERVES: [u64; 4] = [1, 2, 4, 8];

/// Minutes after a step up in which no node is removed.
const COOL_DOWNS: [u64; 4] = [10, 30, 60, 240];

/// As many of the cheapest are shown.
const SHOWN: usize = 10;

impl Simulate {
    /// The cheapest policies within the limits, the cheapest first.
    ///
    /// # Errors
    /// If none is.
    pub(super) fn search(&self, arrivals: &[Arrival]) -> anyhow::Result<Vec<Tried>> {
        let mut tried = Vec::new();
        for node in self.node_types() {
            for step in STEPS.into_iter().filter(|step| self.nodes_min + step <= self.nodes_max) {
                for reserve in RESERVES {
                    for cool_down_minutes in COOL_DOWNS {
                        let policy = Policy {
                            headroom: self.model_t().times(reserve),
                            node_delta: step,
                            cool_down_minutes,
                            ..self.policy_of(Name::Gregor, &node)
                        };
                        let name = format!("step{step}-reserve{reserve}-cool{cool_down_minutes}");
                        let outcome = simulate(arrivals, &policy);
                        tried.push(Tried { name: called(&name, &node), policy, outcome });
                    }
                }
            }
        }
        let count = tried.len();
        tried.retain(|one| self.is_within(&one.outcome));
        anyhow::ensure!(
            !tried.is_empty(),
            "none of {count} policies is within the limits; raise --wait-p99-max or --refused-max"
        );
        // Without prices, fewer nodes are cheaper.
        tried.sort_by(|a, b| {
            let key = |one: &Tried| (one.outcome.cost, one.outcome.node_minutes, one.outcome.flaps);
            key(a).cmp(&key(b)).then_with(|| a.name.cmp(&b.name))
        });
        tried.truncate(SHOWN);
        Ok(tried)
    }

    fn is_within(&self, outcome: &Outcome) -> bool {
        outcome.refused <= self.refused_max
            && outcome.flaps <= self.flaps_max
            && outcome.wait(99).is_none_or(|wait| wait <= self.wait_p99_max)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{demand, options};

    #[test]
    fn the_cheapest_within_the_limits_is_first() {
        let arrivals = demand();
        let words = ["--node-type", "m5,1500,250,100,4", "--node-connections", "1"];
        let found = options(&words).search(&arrivals).unwrap();
        let costs: Vec<_> = found.iter().map(|one| one.outcome.cost).collect();
        assert!(costs.is_sorted() && costs.len() == super::SHOWN, "{costs:?}");
        assert!(found.iter().all(|one| one.outcome.refused == 0));
        // A tighter limit costs as much or more, and one that nothing keeps is reported.
        let waits: Vec<_> = found.iter().filter_map(|one| one.outcome.wait(99)).collect();
        let longest = waits.iter().max().unwrap().to_string();
        let same = [&words[..], &["--wait-p99-max", &longest]].concat();
        assert_eq!(options(&same).search(&arrivals).unwrap()[0], found[0]);
        let never = ["--plane-minutes", "300", "--patience-minutes", "10"];
        let none = [&words[..], &never].concat();
        let error = options(&none).search(&arrivals).unwrap_err().to_string();
        assert!(error.starts_with("none of 48 policies"), "{error}");
    }
}
