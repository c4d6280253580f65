//! How much memory a node's JVM takes for its heap.
//!
//! The rule of the operators that people come from, so that a node keeps its heap when it moves:
//!
//! 1. Whoever wrote a heap option knows better: with one given, nothing is added.
//! 2. Without one, and with known memory, the heap is half of it, and never more than 5 GiB: the
//!    rest is the page cache, which a broker needs more.
//! 3. Without one, and with nothing known, it starts at 128 MiB and the JVM decides where it ends.

/// A larger heap only makes collections longer.
const HEAP_BYTES_MAX: u64 = 5 << 30;
/// The JVM does not start with less than a few MiB.
const HEAP_BYTES_MIN: u64 = 8 << 20;
/// What the heap starts at when nothing is known.
const INITIAL_UNKNOWN: &str = "-Xms128M";

/// Beginnings of options that set the upper end of the heap.
const UPPER: [&str; 3] = ["-Xmx", "-XX:MaxRAMPercentage=", "-XX:MaxHeapSize="];
/// Beginnings of options that set where it starts.
const LOWER: [&str; 3] = ["-Xms", "-XX:InitialRAMPercentage=", "-XX:InitialHeapSize="];

/// The heap options to add to those that were given. `memory_bytes` is what the node may use: its
/// limit, or what it asked for.
#[must_use]
pub fn options(given: &[String], memory_bytes: Option<u64>) -> Vec<String> {
    let has = |kinds: &[&str]| given.iter().any(|o| kinds.iter().any(|kind| o.starts_with(kind)));
    match (has(&UPPER), has(&LOWER), memory_bytes) {
        (true, _, _) | (false, true, _) => Vec::new(),
        (false, false, Some(bytes)) => {
            let heap = (bytes / 2).clamp(HEAP_BYTES_MIN, HEAP_BYTES_MAX);
            vec![format!("-Xms{heap}"), format!("-Xmx{heap}")]
        }
        (false, false, None) => vec![INITIAL_UNKNOWN.to_owned()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(given: &[&str], memory_bytes: Option<u64>, expected: &[&str]) {
        let given: Vec<_> = given.iter().map(|&option| option.to_owned()).collect();
        assert_eq!(options(&given, memory_bytes), expected, "{given:?} {memory_bytes:?}");
    }

    #[test]
    fn half_of_the_memory_up_to_five_gibibytes() {
        check(&[], Some(2 << 30), &["-Xms1073741824", "-Xmx1073741824"]);
        check(&[], Some(10 << 30), &["-Xms5368709120", "-Xmx5368709120"]);
        check(&[], Some((10 << 30) - 2), &["-Xms5368709119", "-Xmx5368709119"]);
        check(&[], Some(64 << 30), &["-Xms5368709120", "-Xmx5368709120"]);
        check(&[], Some(u64::MAX), &["-Xms5368709120", "-Xmx5368709120"]);
        check(&[], Some(1), &["-Xms8388608", "-Xmx8388608"]);
    }

    #[test]
    fn a_small_start_when_nothing_is_known() {
        check(&[], None, &["-Xms128M"]);
        check(&["-XX:+UseG1GC", "-Dx=-Xmx1g"], None, &["-Xms128M"]);
    }

    #[test]
    fn what_somebody_wrote_wins() {
        check(&["-Xmx1g"], Some(64 << 30), &[]);
        check(&["-Xmx1g"], None, &[]);
        check(&["-Xms1g"], Some(64 << 30), &[]);
        check(&["-Xms1g"], None, &[]);
        check(&["-XX:MaxRAMPercentage=70"], Some(64 << 30), &[]);
        check(&["-XX:InitialRAMPercentage=70"], None, &[]);
        check(&["-Xms1g", "-Xmx2g"], Some(64 << 30), &[]);
    }
}
