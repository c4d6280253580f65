//! Feeds with a source whose answers are set by the test.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::page::{Overview, Replica, Subject, Summary};
use crate::source::{Acting, Edit, Observing, Resources, Trouble};
use serde_json::Value;

/// Long enough for any number of observations on a paused clock.
const LONG: Duration = Duration::from_secs(3_600);

#[derive(Default)]
struct World {
    observed: AtomicUsize,
    background: Option<Duration>,
    cluster: Mutex<Option<Result<Cluster, Trouble>>>,
}

impl World {
    fn is_now(&self, cluster: Result<Cluster, Trouble>) {
        *self.cluster.lock().unwrap() = Some(cluster);
    }

    fn observed(&self) -> usize {
        self.observed.load(Ordering::Relaxed)
    }
}

struct Watched(Arc<World>);

impl Source for Watched {
    fn overview(&self) -> Observing<'_, Overview> {
        Box::pin(async { Ok(Overview::default()) })
    }

    fn cluster<'a>(&'a self, _: &'a ClusterId) -> Observing<'a, Option<Cluster>> {
        self.0.observed.fetch_add(1, Ordering::Relaxed);
        Box::pin(async { self.0.cluster.lock().unwrap().clone().transpose() })
    }

    fn interval(&self) -> Option<Duration> {
        Some(Duration::from_secs(2))
    }

    fn background(&self) -> Option<Duration> {
        self.0.background
    }

    fn origin(&self) -> String {
        "a test".to_owned()
    }

    fn resources<'a>(&'a self, _: &'a ClusterId) -> Acting<'a, Resources> {
        Box::pin(async { Ok(Resources::default()) })
    }

    fn plan<'a>(&'a self, _: &'a ClusterId, _: &'a Edit) -> Acting<'a, Value> {
        Box::pin(async { Ok(Value::Null) })
    }

    fn apply<'a>(&'a self, _: &'a ClusterId, _: &'a Edit) -> Acting<'a, Vec<String>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn command<'a>(&'a self, _: &'a ClusterId, _: &'a str, _: &'a str) -> Acting<'a, ()> {
        Box::pin(async { Ok(()) })
    }
}

fn topic() -> Topic {
    Topic::Cluster(ClusterId { namespace: "n".to_owned(), name: "c".to_owned() })
}

fn cluster(name: &str, lag: u64) -> Cluster {
    let voters = vec![Replica { id: 1, lag: Some(lag), ..Replica::default() }];
    let quorum = Quorum { leader: 1, epoch: 3, voters, ..Quorum::default() };
    let summary = Summary { name: name.to_owned(), ..Summary::default() };
    Cluster { summary, quorum: Some(quorum), ..Cluster::default() }
}

fn world() -> (Arc<World>, Arc<Feeds>) {
    let world = Arc::new(World::default());
    (Arc::clone(&world), Feeds::new(Arc::new(Watched(world))))
}

async fn next(page: &mut watch::Receiver<Arc<Content>>, sent: &mut Sent) -> Vec<&'static str> {
    page.changed().await.unwrap();
    let content = page.borrow_and_update().clone();
    sent.update(&content).into_iter().map(|(name, _)| name).collect()
}

#[tokio::test(start_paused = true)]
async fn only_what_changed_is_sent() {
    let (world, feeds) = world();
    world.is_now(Ok(cluster("a", 0)));
    let (mut page, mut sent) = (feeds.open(&topic()), Sent::default());
    let first = [
        "failing",
        "machines",
        "nodes",
        "quorum",
        "rebalance",
        "rights",
        "roll",
        "summary",
        "why",
        "lag",
    ];
    assert_eq!(next(&mut page, &mut sent).await, first);
    // The same for an hour: nothing is sent.
    assert!(tokio::time::timeout(LONG, page.changed()).await.is_err());
    assert!(world.observed() > 1_000);
    world.is_now(Ok(cluster("b", 0)));
    assert_eq!(next(&mut page, &mut sent).await, ["summary"]);
    world.is_now(Ok(cluster("b", 7)));
    assert_eq!(next(&mut page, &mut sent).await, ["quorum", "lag"]);
}

#[tokio::test(start_paused = true)]
async fn all_pages_share_one_observation_and_without_a_page_there_is_none() {
    let (world, feeds) = world();
    world.is_now(Ok(cluster("a", 0)));
    let pages: Vec<_> = (0..100).map(|_| feeds.open(&topic())).collect();
    tokio::time::sleep(Duration::from_secs(21)).await;
    assert_eq!(world.observed(), 11);
    drop(pages);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = world.observed();
    tokio::time::sleep(LONG).await;
    assert_eq!(world.observed(), before);
    // A page that is opened later has the history.
    let mut page = feeds.open(&topic());
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(world.observed(), before + 1);
    let content = page.borrow_and_update().clone();
    assert!(Sent::default().update(&content).iter().any(|(name, _)| *name == "lag"));
}

#[tokio::test(start_paused = true)]
async fn an_observation_that_fails_keeps_what_was_known_and_says_so_once() {
    let (world, feeds) = world();
    world.is_now(Ok(cluster("a", 0)));
    let (mut page, mut sent) = (feeds.open(&topic()), Sent::default());
    next(&mut page, &mut sent).await;
    world.is_now(Err(Trouble("no answer".to_owned())));
    assert_eq!(next(&mut page, &mut sent).await, ["failing"]);
    let content = page.borrow_and_update().clone();
    assert!(content.parts["failing"].contains("no answer"));
    assert!(content.parts["summary"].contains("\"a\""));
    assert!(tokio::time::timeout(LONG, page.changed()).await.is_err());
    world.is_now(Ok(cluster("a", 0)));
    assert_eq!(next(&mut page, &mut sent).await, ["failing"]);
    assert_eq!(&*page.borrow().parts["failing"], "null");
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_is_not_there_is_told_and_not_remembered() {
    let (_, feeds) = world();
    let mut page = feeds.open(&topic());
    page.changed().await.unwrap();
    assert_eq!(&*page.borrow().parts["summary"], "null");
    drop(page);
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(feeds.all.lock().unwrap().is_empty());
}

#[test]
fn a_page_gets_each_change_of_the_lag_once_and_only_so_many_are_kept() {
    let (mut content, mut sent) = (Content::default(), Sent::default());
    for lag in 0..10 {
        content.set_cluster(&cluster("a", lag), lag);
    }
    assert_eq!(sent.update(&content).iter().filter(|event| event.0 == "lag").count(), 10);
    content.set_cluster(&cluster("a", 10), 10);
    let last = sent.update(&content);
    assert_eq!(&*last.last().unwrap().1, r#"{"t":10,"leader":1,"epoch":3,"lag":{"1":10}}"#);
    assert_eq!(last.iter().filter(|event| event.0 == "lag").count(), 1);
    let more = u64::try_from(SAMPLES_MAX).unwrap() + 50;
    (11..more).for_each(|lag| content.set_cluster(&cluster("a", lag), lag));
    assert_eq!(content.samples.len(), SAMPLES_MAX);
    assert_eq!(sent.update(&content).iter().filter(|e| e.0 == "lag").count(), SAMPLES_MAX);
}

fn machine(subjects: &[(&str, &str)]) -> Machine {
    let subject = |(name, state): &(&str, &str)| Subject {
        name: (*name).to_owned(),
        state: (*state).to_owned(),
        since_ms: None,
    };
    Machine { name: "m", subjects: subjects.iter().map(subject).collect(), ..Machine::default() }
}

#[test]
fn transitions_are_dated_and_what_is_there_at_first_has_made_none() {
    let mut content = Content::default();
    let mut at = |t, subjects: &[(&str, &str)]| {
        let machines = vec![machine(subjects)];
        content.set_cluster(&Cluster { machines, ..Cluster::default() }, t);
        let steps = content.samples.iter().filter(|(name, _)| *name == "step");
        steps.map(|(_, text)| text.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(at(10_000, &[("a", "New")]), [""; 0]);
    assert_eq!(at(20_000, &[("a", "New")]), [""; 0]);
    let steps = at(30_000, &[("a", "Ready"), ("b", "New")]);
    let expected = [
        r#"{"t":30000,"machine":"m","subject":"a","from":"New","to":"Ready"}"#,
        r#"{"t":30000,"machine":"m","subject":"b","from":null,"to":"New"}"#,
    ];
    assert_eq!(steps, expected);
    let gone = r#"{"t":40000,"machine":"m","subject":"a","from":"Ready","to":null}"#;
    assert_eq!(at(40_000, &[("b", "New")]).last().unwrap(), gone);
}

#[tokio::test(start_paused = true)]
async fn a_cluster_whose_pages_are_closed_is_observed_seldom_for_its_history() {
    let world = Arc::new(World { background: Some(Duration::from_secs(60)), ..World::default() });
    let feeds = Feeds::new(Arc::new(Watched(Arc::clone(&world))));
    world.is_now(Ok(cluster("a", 0)));
    let (mut page, mut sent) = (feeds.open(&topic()), Sent::default());
    next(&mut page, &mut sent).await;
    drop(page);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = world.observed();
    tokio::time::sleep(LONG).await;
    let hourly = world.observed() - before;
    assert!((55..=61).contains(&hourly), "{hourly}");
    // A page that is opened is up to date at once.
    let before = world.observed();
    let page = feeds.open(&topic());
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(world.observed(), before + 1);
    drop(page);
}

#[tokio::test(start_paused = true)]
async fn what_pages_showed_can_be_looked_up() {
    let (world, feeds) = world();
    world.is_now(Ok(cluster("a", 0)));
    let page = feeds.open(&topic());
    tokio::time::sleep(Duration::from_secs(1)).await;
    let times = feeds.times(&topic());
    let [first] = times.as_slice() else { panic!("{times:?}") };
    let (since, parts) = feeds.at(&topic(), u64::MAX).unwrap();
    assert_eq!(since, *first);
    assert!(parts["summary"].contains("\"a\""));
    assert!(!parts.contains_key("failing"));
    assert!(feeds.at(&topic(), first - 1).is_none());
    drop(page);
}
