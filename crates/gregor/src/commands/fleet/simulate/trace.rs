//! Traces of demand: Kafkas that come and go.

use std::collections::BTreeMap;

use anyhow::Context as _;
use fleet_control::{Arrival, Capacity};

/// A Kafka that is not deleted stays longer than any trace.
const FOR_EVER: u64 = u64::MAX / 4;

/// Reads a trace; empty lines and those that begin with # are skipped.
pub(super) fn parse(text: &str) -> anyhow::Result<Vec<Arrival>> {
    let mut arrivals: Vec<Arrival> = Vec::new();
    // Of those that are there: which one it is.
    let mut named = BTreeMap::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let words: Vec<_> = line.split(',').map(str::trim).collect();
        let at = || format!("line {}: {line}", index + 1);
        match words.as_slice() {
            [minute, "create", name, rest @ ..] => {
                let one = arrival(minute, None, rest).with_context(at)?;
                let known = named.insert((*name).to_owned(), arrivals.len());
                anyhow::ensure!(known.is_none(), "{}: {name} exists", at());
                arrivals.push(one);
            }
            [minute, "delete", name] => {
                let which: usize =
                    named.remove(*name).with_context(|| format!("{}: no such Kafka", at()))?;
                let minute = number(minute).with_context(at)?;
                let one = &mut arrivals[which];
                let stays = minute.checked_sub(one.at);
                one.stays = stays.with_context(|| format!("{}: deleted before created", at()))?;
            }
            [minute, stays, rest @ ..] => {
                arrivals.push(arrival(minute, Some(stays), rest).with_context(at)?);
            }
            _ => anyhow::bail!("{}: not a line of a trace", at()),
        }
    }
    let end = arrivals.iter().filter(|one| one.stays < FOR_EVER).map(|one| one.at + one.stays);
    let end = end.chain(arrivals.iter().map(|one| one.at)).max().unwrap_or(0);
    for one in arrivals.iter_mut().filter(|one| one.stays == FOR_EVER) {
        one.stays = (end - one.at).max(1);
    }
    Ok(arrivals)
}

fn arrival(minute: &str, stays: Option<&str>, rest: &[&str]) -> anyhow::Result<Arrival> {
    let (region, connections, partitions, zones) = match rest {
        [region, connections, partitions] => (region, connections, partitions, "3"),
        [region, connections, partitions, zones] => (region, connections, partitions, *zones),
        _ => anyhow::bail!("expected MINUTE,STAYS,REGION,CONNECTIONS,PARTITIONS[,ZONES]"),
    };
    anyhow::ensure!(["1", "3"].contains(&zones), "zones must be 1 or 3");
    Ok(Arrival {
        at: number(minute)?,
        stays: stays.map_or(Ok(FOR_EVER), number)?,
        region: (*region).to_owned(),
        multi_az: zones == "3",
        need: Capacity {
            connections: number(connections)?,
            partitions: number(partitions)?,
            ..Capacity::default()
        },
    })
}

fn number(word: &str) -> anyhow::Result<u64> {
    // Minutes of more than a million years would overflow sums.
    let number: u64 = word.parse().with_context(|| format!("{word:?} is not a number"))?;
    anyhow::ensure!(number < FOR_EVER, "{word} is too large");
    Ok(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_read_line_by_line() {
        let trace = "# demand\n0,60,us, 100,200\n\n5,10,eu,1,2,1\n7,create,a,us,3,4\n9,create,b,us,5,6,1\n19,delete,a\n";
        let read = parse(trace).unwrap();
        let rows: Vec<_> = read
            .iter()
            .map(|one| (one.at, one.stays, one.region.as_str(), one.multi_az, one.need.partitions))
            .collect();
        let expected = [
            (0, 60, "us", true, 200),
            (5, 10, "eu", false, 2),
            (7, 12, "us", true, 4),
            // It is never deleted, so it stays until the end.
            (9, 51, "us", false, 6),
        ];
        assert_eq!(rows, expected);
        for (line, why) in [
            ("0,60,us,100", "expected MINUTE"),
            ("x,60,us,100,100", "\"x\" is not a number"),
            ("0,60,us,100,100,2", "zones must be 1 or 3"),
            ("5,delete,a", "no such Kafka"),
            ("0,create,a,us,1,1\n1,create,a,us,1,1", "line 2"),
            ("5,create,a,us,1,1\n1,delete,a", "deleted before created"),
            ("nonsense", "not a line of a trace"),
        ] {
            let error = format!("{:#}", parse(line).unwrap_err());
            assert!(error.contains(why) && error.contains("line "), "{line}: {error}");
        }
    }
}
