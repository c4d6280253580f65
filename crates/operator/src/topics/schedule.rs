//! When the topics or the users of a cluster are due, and which.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Changes that belong together begin one pass.
const DEBOUNCE: Duration = Duration::from_millis(50);

/// The pause before a resource is tried again whose pass was broken off, or whose topic Kafka did not show yet.
const RETRY: Duration = Duration::from_secs(2);

/// The pause after which a cluster is asked again that did not answer.
const RETRY_CLUSTER: Duration = Duration::from_secs(5);

/// The most changed resources of one pass, so that the first of many are done soon.
const CHANGED_MAX: usize = 500;

/// Which resources a pass is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Scope {
    All,
    These(BTreeSet<String>),
}

/// How a pass ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    /// The cluster could not be worked on at all.
    NotBegun,
    /// It is through; these resources are tried again.
    Through(BTreeSet<String>),
}

/// When the topics or the users of a cluster are due.
#[derive(Debug)]
pub(crate) struct Schedule {
    changed: BTreeSet<String>,
    changed_since: Option<Instant>,
    retry: BTreeSet<String>,
    retry_at: Option<Instant>,
    /// When moves that run are looked at again.
    moves_at: Option<Instant>,
    all_at: Instant,
    /// Whether everything became due again during the pass that runs.
    all_again: bool,
    running: Option<Scope>,
}

impl Schedule {
    /// All are due at once.
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            changed: BTreeSet::new(),
            changed_since: None,
            retry: BTreeSet::new(),
            retry_at: None,
            moves_at: None,
            all_at: now,
            all_again: false,
            running: None,
        }
    }

    /// A resource has changed.
    pub(crate) fn touch(&mut self, name: &str, now: Instant) {
        self.changed.insert(name.to_owned());
        self.changed_since.get_or_insert(now);
    }

    /// Everything is due, because what holds for all has changed.
    pub(crate) fn touch_all(&mut self, now: Instant) {
        self.all_at = now;
        self.all_again = self.running.is_some();
    }

    /// Moves run, and are looked at again soon.
    pub(super) fn touch_moves(&mut self, now: Instant) {
        self.moves_at = Some(now + RETRY);
    }

    /// When a pass is due; `None` while one runs.
    pub(crate) fn next(&self) -> Option<Instant> {
        if self.running.is_some() {
            return None;
        }
        let changed = self.changed_since.map(|since| since + DEBOUNCE);
        [changed, self.retry_at, self.moves_at].into_iter().flatten().chain([self.all_at]).min()
    }

    /// Begins a pass, if one is due.
    pub(crate) fn begin(&mut self, now: Instant) -> Option<Scope> {
        if self.next().is_none_or(|next| next > now) {
            return None;
        }
        self.moves_at = None;
        let scope = if self.all_at <= now {
            (self.changed, self.changed_since) = (BTreeSet::new(), None);
            (self.retry, self.retry_at) = (BTreeSet::new(), None);
            Scope::All
        } else {
            let mut these = std::mem::take(&mut self.changed);
            if self.retry_at.is_some_and(|at| at <= now) {
                these.append(&mut self.retry);
                self.retry_at = None;
            }
            // Those that are left are due at once when this pass has ended.
            self.changed = split_off(&mut these, CHANGED_MAX);
            self.changed_since = (!self.changed.is_empty()).then_some(now);
            Scope::These(these)
        };
        self.all_again = false;
        self.running = Some(scope.clone());
        Some(scope)
    }

    /// Ends the pass.
    pub(crate) fn end(&mut self, now: Instant, end: End, interval: Duration) {
        let Some(scope) = self.running.take() else { return };
        match (scope, end) {
            (Scope::All, End::NotBegun) => self.all_at = now + RETRY_CLUSTER,
            (Scope::These(these), End::NotBegun) => {
                self.retry.extend(these);
                self.retry_at = Some(now + RETRY_CLUSTER);
            }
            (scope, End::Through(retry)) => {
                if scope == Scope::All && !self.all_again {
                    self.all_at = now + interval;
                }
                if !retry.is_empty() {
                    self.retry.extend(retry);
                    self.retry_at.get_or_insert(now + RETRY);
                }
            }
        }
    }
}

/// Takes all but the first `keep` out of a set.
fn split_off(from: &mut BTreeSet<String>, keep: usize) -> BTreeSet<String> {
    match from.iter().nth(keep).cloned() {
        Some(first) => from.split_off(&first),
        None => BTreeSet::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_secs(120);

    fn these(names: &[&str]) -> Scope {
        Scope::These(names.iter().map(|name| (*name).to_owned()).collect())
    }

    fn through(retry: &[&str]) -> End {
        End::Through(retry.iter().map(|name| (*name).to_owned()).collect())
    }

    #[test]
    fn all_are_due_at_first_and_at_the_interval_and_changes_soon() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut schedule = Schedule::new(start);
        assert_eq!(schedule.begin(at(0)), Some(Scope::All));
        assert_eq!(
            (schedule.begin(at(1)), schedule.next()),
            (None, None),
            "U4.6: one pass at a time"
        );
        schedule.touch("a", at(10));
        schedule.end(at(20), through(&[]), INTERVAL);
        assert_eq!(schedule.next(), Some(at(60)), "changed during the pass");
        assert_eq!(schedule.begin(at(59)), None);
        schedule.touch("b", at(59));
        assert_eq!(schedule.begin(at(60)), Some(these(&["a", "b"])));
        schedule.end(at(70), through(&["b"]), INTERVAL);
        assert_eq!(schedule.begin(at(2069)), None);
        assert_eq!(schedule.begin(at(2070)), Some(these(&["b"])));
        schedule.end(at(2080), through(&[]), INTERVAL);
        assert_eq!(schedule.next(), Some(at(120_020)));
    }

    #[test]
    fn moves_that_run_are_looked_at_although_no_resource_has_changed() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut schedule = Schedule::new(start);
        schedule.begin(start);
        schedule.end(start, through(&[]), INTERVAL);
        schedule.touch_moves(at(0));
        assert_eq!(schedule.begin(at(1999)), None);
        assert_eq!(schedule.begin(at(2000)), Some(these(&[])));
        schedule.end(at(2000), through(&[]), INTERVAL);
        assert_eq!(schedule.next(), Some(start + INTERVAL), "until they have ended");
    }

    #[test]
    fn a_cluster_that_does_not_answer_is_asked_again_and_nothing_is_forgotten() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut schedule = Schedule::new(start);
        schedule.begin(at(0));
        schedule.end(at(0), End::NotBegun, INTERVAL);
        assert_eq!(schedule.next(), Some(at(5000)));
        assert_eq!(schedule.begin(at(5000)), Some(Scope::All));
        schedule.end(at(5000), through(&[]), INTERVAL);
        schedule.touch("a", at(6000));
        assert_eq!(schedule.begin(at(6050)), Some(these(&["a"])));
        schedule.touch_all(at(6051));
        schedule.end(at(6060), End::NotBegun, INTERVAL);
        assert_eq!(
            schedule.begin(at(6060)),
            Some(Scope::All),
            "T3.7, U12.3, U12.4: and it has the one that failed"
        );
        schedule.touch_all(at(6061));
        schedule.end(at(6070), through(&[]), INTERVAL);
        assert_eq!(
            schedule.begin(at(6070)),
            Some(Scope::All),
            "what holds for all changed meanwhile"
        );
    }

    #[test]
    fn of_many_changes_the_first_are_not_kept_waiting_for_the_last() {
        let start = Instant::now();
        let mut schedule = Schedule::new(start);
        schedule.begin(start);
        schedule.end(start, through(&[]), INTERVAL);
        (0..CHANGED_MAX + 3).for_each(|number| schedule.touch(&format!("t{number:04}"), start));
        let soon = start + DEBOUNCE;
        let count = |scope| match scope {
            Some(Scope::These(these)) => these.len(),
            Some(Scope::All) | None => 0,
        };
        assert_eq!(count(schedule.begin(soon)), CHANGED_MAX, "T3.2, U12.2");
        schedule.end(soon, through(&[]), INTERVAL);
        assert_eq!(count(schedule.begin(soon + DEBOUNCE)), 3, "T3.2, U12.2: none is lost");
    }
}
