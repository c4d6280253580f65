//! Load on any cluster, with an account of every record, by Kafka's own verifiable producer and consumer.
//!
//! The producer numbers its records and waits for each acknowledgement (`acks=all`, idempotent, retried for
//! two minutes); the consumer reads along. At the end every acknowledged record must have been read.
//!
//! ```no_run
//! # async fn example(kafka: artifacts::kafka::KafkaHome) -> anyhow::Result<()> {
//! use testkit::{Load, LoadOptions};
//! let load = Load::start(LoadOptions::new(kafka, "127.0.0.1:9092", "topic")).await?;
//! load.wait_acknowledged(1_000).await?;
//! // … restart, scale, move …
//! let report = load.stop().await?;
//! report.check()?;
//! # Ok(()) }
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use artifacts::Environment;
use artifacts::java::{self, Java};
use artifacts::kafka::KafkaHome;
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use crate::Reaper;
use crate::process::Process;

const JVM_OPTIONS: [&str; 3] = ["-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"];
/// Settings that make an acknowledgement meaningful. They take precedence over the user's.
const PRODUCER: &str = "acks=all\nenable.idempotence=true\nretries=2147483647\n\
                        delivery.timeout.ms=120000\nrequest.timeout.ms=15000\nlinger.ms=5\n";
/// Finds moved partitions quickly and reads only committed records.
const CONSUMER: &str = "metadata.max.age.ms=5000\nisolation.level=read_committed\n";
/// Records flow once both JVMs are up, also on a very busy machine.
const BEGIN_TIMEOUT: Duration = Duration::from_secs(120);
/// A producer that is stopping first delivers its buffered records.
const STOP_TIMEOUT: Duration = Duration::from_secs(150);
/// A consumer that has read nothing for this long will not read more.
const QUIET: Duration = Duration::from_secs(45);
const POLL: Duration = Duration::from_millis(100);
/// Distinct errors in a report.
const ERRORS_MAX: usize = 5;

/// Options of a load.
#[derive(Debug, Clone)]
pub struct LoadOptions {
    /// The Kafka whose clients are used.
    pub kafka: KafkaHome,
    /// `host:port,…`.
    pub bootstrap: String,
    /// An existing topic without other records.
    pub topic: String,
    /// A file with client properties, such as for TLS.
    pub properties: Option<PathBuf>,
    /// A hosts file (`-Djdk.net.hosts.file`); no other host name can be resolved then.
    pub hosts: Option<PathBuf>,
    /// Records per second.
    pub rate: u32,
}

impl LoadOptions {
    /// 500 small records per second, without TLS.
    #[must_use]
    pub fn new(kafka: KafkaHome, bootstrap: &str, topic: &str) -> Self {
        Self {
            kafka,
            bootstrap: bootstrap.to_owned(),
            topic: topic.to_owned(),
            properties: None,
            hosts: None,
            rate: 500,
        }
    }

    /// Sets the client properties file.
    #[must_use]
    pub fn properties(mut self, file: impl Into<PathBuf>) -> Self {
        self.properties = Some(file.into());
        self
    }

    /// Sets the hosts file.
    #[must_use]
    pub fn hosts(mut self, file: impl Into<PathBuf>) -> Self {
        self.hosts = Some(file.into());
        self
    }

    /// Sets the records per second.
    #[must_use]
    pub fn rate(mut self, rate: u32) -> Self {
        self.rate = rate;
        self
    }

    fn command(&self, java: &Java, class: &str, rest: &[String]) -> Vec<String> {
        let log4j = self.kafka.log4j_config().display();
        let options =
            ["-Dgregor.log.level=WARN".to_owned(), format!("-Dlog4j2.configurationFile={log4j}")];
        let hosts = self.hosts.as_ref();
        let hosts = hosts.map(|hosts| format!("-Djdk.net.hosts.file={}", hosts.display()));
        let start = [java.program.display().to_string()];
        start
            .into_iter()
            .chain(JVM_OPTIONS.map(str::to_owned))
            .chain(options)
            .chain(hosts)
            .chain(["-cp".to_owned(), self.kafka.class_path(), class.to_owned()])
            .chain(["--bootstrap-server".to_owned(), self.bootstrap.clone()])
            .chain(["--topic".to_owned(), self.topic.clone()])
            .chain(rest.iter().cloned())
            .collect()
    }

    /// Writes a new file with the user's properties, then ours.
    fn write_properties(&self, file: &Path, own: &str) -> anyhow::Result<()> {
        let users = match &self.properties {
            Some(path) => {
                fs::read_to_string(path).with_context(|| format!("cannot read {path:?}"))?
            }
            None => String::new(),
        };
        fs::write(file, format!("{users}\n{own}")).context("cannot write client properties")
    }
}

/// The result of a load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Acknowledged records.
    pub acknowledged: usize,
    /// Distinct records that were read.
    pub read: usize,
    /// Acknowledged records that were never read.
    pub lost: Vec<u64>,
    /// Records that are in the topic more than once. Redelivery after a group rebalance does not count.
    pub duplicates: usize,
    /// Records that the producer gave up on.
    pub failed: usize,
    /// Its distinct errors.
    pub errors: Vec<String>,
    /// The longest time between two acknowledgements.
    pub longest_gap: Duration,
}

impl Report {
    /// Fails unless there was load and every acknowledged record was written exactly once.
    pub fn check(&self) -> anyhow::Result<()> {
        let Self { lost, duplicates, failed, .. } = self;
        ensure!(self.acknowledged > 0, "there was no load: {self:?}");
        ensure!(
            lost.is_empty() && *duplicates == 0 && *failed == 0,
            "not every record is there once: {self:?}"
        );
        Ok(())
    }
}

/// A running producer and consumer, killed on drop.
#[derive(Debug)]
pub struct Load {
    producer: Client,
    consumer: Client,
    account: Mutex<Account>,
    reaper: Arc<Reaper>,
    _dir: TempDir,
}

impl Load {
    /// Starts both, and returns when records flow.
    pub async fn start(options: LoadOptions) -> anyhow::Result<Self> {
        let find = || java::find(&Environment::from_process());
        let java = tokio::task::spawn_blocking(find).await?.context("cannot find Java")?;
        let dir = TempDir::with_prefix("gregor-load-").context("cannot make a directory")?;
        let file = |name: &str| dir.path().join(name);
        options.write_properties(&file("producer.properties"), PRODUCER)?;
        options.write_properties(&file("consumer.properties"), CONSUMER)?;
        let words = |text: String| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        // Later versions have another name for this option, but accept this one.
        let consumer = words(format!(
            "--group-id load-{} --reset-policy earliest --verbose --consumer.config {}",
            dir.path().file_name().unwrap_or_default().to_string_lossy(),
            file("consumer.properties").display()
        ));
        let producer = words(format!(
            "--acks -1 --throughput {} --producer.config {}",
            options.rate,
            file("producer.properties").display()
        ));
        let reaper = Arc::new(Reaper::start(None)?);
        let start = |class: &str, rest: &[String], log: &str| {
            let class = format!("org.apache.kafka.tools.{class}");
            Client::start(&reaper, &options.command(&java, &class, rest), &file(log))
        };
        let load = Self {
            consumer: start("VerifiableConsumer", &consumer, "consumer.log")?,
            producer: start("VerifiableProducer", &producer, "producer.log")?,
            account: Mutex::default(),
            reaper: Arc::clone(&reaper),
            _dir: dir,
        };
        let flows =
            |account: &Account| !account.acknowledged.is_empty() && !account.read.is_empty();
        load.wait("records flow", BEGIN_TIMEOUT, flows).await?;
        Ok(load)
    }

    /// Records acknowledged so far.
    pub fn acknowledged(&self) -> anyhow::Result<usize> {
        Ok(self.look()?.acknowledged.len())
    }

    /// Waits until this many more records were acknowledged, and as many were read.
    pub async fn wait_acknowledged(&self, more: usize) -> anyhow::Result<()> {
        let wanted = self.acknowledged()? + more;
        let enough = |account: &Account| {
            account.acknowledged.len() >= wanted && account.read.len() >= wanted
        };
        self.wait(&format!("{wanted} records are there"), BEGIN_TIMEOUT, enough).await
    }

    /// Stops the producer, lets the consumer read the rest, and returns the report.
    pub async fn stop(self) -> anyhow::Result<Report> {
        self.producer.stop(STOP_TIMEOUT).await.context("the producer")?;
        let (mut read, mut since) = (0, Instant::now());
        loop {
            let (missing, now) = {
                let account = self.look()?;
                (!account.lost().is_empty(), account.read.len())
            };
            if !missing {
                break;
            }
            if now > read {
                (read, since) = (now, Instant::now());
            }
            // Records that were not read by now are lost, unless the consumer died.
            if since.elapsed() > QUIET {
                ensure!(self.consumer.is_running(), "the consumer ended: {}", self.consumer.tail());
                break;
            }
            sleep(POLL).await;
        }
        // A duplicate may arrive a moment after the last missing record.
        sleep(Duration::from_secs(1)).await;
        self.consumer.stop(STOP_TIMEOUT).await.context("the consumer")?;
        Ok(self.look()?.report())
    }

    async fn wait(
        &self,
        what: &str,
        patience: Duration,
        holds: impl Fn(&Account) -> bool,
    ) -> anyhow::Result<()> {
        let until = Instant::now() + patience;
        loop {
            if holds(&*self.look()?) {
                return Ok(());
            }
            for (name, client) in [("producer", &self.producer), ("consumer", &self.consumer)] {
                ensure!(client.is_running(), "the {name} ended before {what}: {}", client.tail());
            }
            if Instant::now() > until {
                let (producer, consumer) = (self.producer.tail(), self.consumer.tail());
                bail!("it takes too long until {what}: {producer}\n{consumer}");
            }
            sleep(POLL).await;
        }
    }

    /// Reads what both programs have printed since the last call.
    fn look(&self) -> anyhow::Result<MutexGuard<'_, Account>> {
        let mut account = self.account.lock().unwrap_or_else(PoisonError::into_inner);
        for client in [&self.producer, &self.consumer] {
            client.new_lines(|line| account.take(line))?;
        }
        Ok(account)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.reaper.close();
    }
}

/// One of the two programs, with its output.
#[derive(Debug)]
struct Client {
    process: Mutex<Process>,
    log: PathBuf,
    unread: Mutex<(File, Vec<u8>)>,
}

impl Client {
    fn start(reaper: &Arc<Reaper>, command: &[String], log: &Path) -> anyhow::Result<Self> {
        let write = File::create(log).with_context(|| format!("cannot create {log:?}"))?;
        let read = File::open(log).with_context(|| format!("cannot open {log:?}"))?;
        let process = Process::spawn(reaper, command, write).context("cannot start Java")?;
        Ok(Self {
            process: Mutex::new(process),
            log: log.to_owned(),
            unread: Mutex::new((read, Vec::new())),
        })
    }

    /// Calls `each` for every complete line that has not been read yet.
    fn new_lines(&self, mut each: impl FnMut(&str)) -> anyhow::Result<()> {
        let mut unread = self.unread.lock().unwrap_or_else(PoisonError::into_inner);
        let (file, bytes) = &mut *unread;
        file.read_to_end(bytes).with_context(|| format!("cannot read {:?}", self.log))?;
        let Some(end) = bytes.iter().rposition(|byte| *byte == b'\n') else { return Ok(()) };
        let rest = bytes.split_off(end + 1);
        String::from_utf8_lossy(bytes).lines().for_each(&mut each);
        *bytes = rest;
        Ok(())
    }

    fn process(&self) -> MutexGuard<'_, Process> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_running(&self) -> bool {
        matches!(self.process().exit_status(), Ok(None))
    }

    async fn stop(&self, patience: Duration) -> anyhow::Result<()> {
        ensure!(self.is_running(), "it ended too early: {}", self.tail());
        self.process().signal(Signal::TERM)?;
        let until = Instant::now() + patience;
        while self.is_running() {
            ensure!(Instant::now() < until, "it does not stop: {}", self.tail());
            sleep(POLL).await;
        }
        Ok(())
    }

    /// The end of its output.
    fn tail(&self) -> String {
        let text = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<_> = text.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }
}

/// The state of all records, from what both programs print.
#[derive(Debug, Default)]
pub struct Account {
    acknowledged: BTreeSet<u64>,
    /// Partition and offset of each occurrence of a record in the topic.
    read: BTreeMap<u64, BTreeSet<(i64, i64)>>,
    failed: usize,
    errors: BTreeSet<String>,
    last_ms: Option<u64>,
    gap_ms: u64,
}

impl Account {
    /// Parses a line of either program. Most lines are events in JSON; the others are log lines.
    pub fn take(&mut self, line: &str) {
        let Ok(event) = serde_json::from_str::<Value>(line) else { return };
        let record = event["value"].as_str().and_then(|value| value.parse().ok());
        match (event["name"].as_str(), record) {
            (Some("producer_send_success"), Some(record)) => {
                self.acknowledged.insert(record);
                let now = event["timestamp"].as_u64().unwrap_or_default();
                let last = self.last_ms.replace(now).unwrap_or(now);
                self.gap_ms = self.gap_ms.max(now.saturating_sub(last));
            }
            (Some("producer_send_error"), _) => {
                self.failed += 1;
                let words = [&event["exception"], &event["message"]].map(|word| word.as_str());
                if self.errors.len() < ERRORS_MAX {
                    self.errors.insert(words.map(Option::unwrap_or_default).join(": "));
                }
            }
            (Some("record_data"), Some(record)) => {
                let number = |key: &str| event[key].as_i64().unwrap_or_default();
                let place = (number("partition"), number("offset"));
                self.read.entry(record).or_default().insert(place);
            }
            _ => {}
        }
    }

    fn lost(&self) -> Vec<u64> {
        self.acknowledged.iter().filter(|record| !self.read.contains_key(record)).copied().collect()
    }

    /// The result so far.
    #[must_use]
    pub fn report(&self) -> Report {
        Report {
            acknowledged: self.acknowledged.len(),
            read: self.read.len(),
            lost: self.lost(),
            duplicates: self.read.values().filter(|places| places.len() > 1).count(),
            failed: self.failed,
            errors: self.errors.iter().cloned().collect(),
            longest_gap: Duration::from_millis(self.gap_ms),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(record: u64, ms: u64) -> String {
        format!(
            r#"{{"timestamp":{ms},"name":"producer_send_success","key":null,"value":"{record}","partition":0,"offset":{record},"topic":"t"}}"#
        )
    }

    fn read(record: u64, partition: i64, offset: i64) -> String {
        format!(
            r#"{{"timestamp":1,"name":"record_data","key":null,"value":"{record}","topic":"t","partition":{partition},"offset":{offset}}}"#
        )
    }

    #[test]
    fn every_record_is_accounted_for() {
        let mut account = Account::default();
        let lines = [
            sent(0, 1_000),
            sent(1, 1_010),
            sent(2, 3_510),
            sent(3, 3_520),
            read(0, 0, 0),
            // Redelivered, which is not a duplicate.
            read(0, 0, 0),
            // Written twice.
            read(1, 0, 1),
            read(1, 0, 7),
            read(3, 1, 0),
            // Written but not acknowledged: neither lost nor wrong.
            read(4, 1, 1),
            r#"{"name":"producer_send_error","exception":"class X","message":"no","value":"5"}"#
                .to_owned(),
            r#"{"name":"producer_send_error","exception":"class X","message":"no","value":"6"}"#
                .to_owned(),
            "[2026] WARN not an event".to_owned(),
            r#"{"name":"shutdown_complete","timestamp":9}"#.to_owned(),
        ];
        lines.iter().for_each(|line| account.take(line));
        let expected = Report {
            acknowledged: 4,
            read: 4,
            lost: vec![2],
            duplicates: 1,
            failed: 2,
            errors: vec!["class X: no".to_owned()],
            longest_gap: Duration::from_millis(2_500),
        };
        assert_eq!(account.report(), expected);
        assert!(expected.check().is_err());
        let good = Report { lost: vec![], duplicates: 0, failed: 0, ..expected };
        good.check().unwrap();
        assert!(Report { acknowledged: 0, ..good }.check().is_err());
    }

    #[tokio::test]
    async fn lines_are_read_once_and_only_whole() {
        let dir = tempfile::tempdir().unwrap();
        let reaper = Arc::new(Reaper::start(None).unwrap());
        let words = ["sh", "-c", "printf 'a\\nb'; sleep 0.1; printf 'c\\n'; sleep 100"];
        let client =
            Client::start(&reaper, &words.map(str::to_owned), &dir.path().join("log")).unwrap();
        let mut seen = Vec::new();
        while seen.len() < 2 {
            client.new_lines(|line| seen.push(line.to_owned())).unwrap();
            sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(seen, ["a", "bc"]);
        client.stop(Duration::from_secs(10)).await.unwrap();
        assert!(!client.is_running());
    }
}
