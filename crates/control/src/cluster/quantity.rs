//! Amounts of bytes as Kubernetes writes them.
//!
//! `100Gi`, `1.5G`, `1e9`, `128974848000m`: a decimal number and a suffix. Everything is computed in
//! integers, so that no two texts for the same amount differ and no amount is off by one.
//!
//! 1. A fraction of a byte counts as a whole one, as in Kubernetes.
//! 2. What is negative or larger than Kubernetes can write (2^63 - 1) is no amount.

/// The largest amount that Kubernetes knows.
const MAX: u128 = i64::MAX as u128;

/// Digits before and after the point beyond which nobody means an amount of bytes.
const DIGITS_MAX: usize = 32;

/// What a suffix multiplies by: a power of two or of ten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scale {
    Two(u32),
    Ten(i32),
}

#[rustfmt::skip]
const SUFFIXES: &[(&str, Scale)] = &[
    ("",   Scale::Ten(0)),
    ("n",  Scale::Ten(-9)), ("u",  Scale::Ten(-6)), ("m",  Scale::Ten(-3)),
    ("k",  Scale::Ten(3)),  ("M",  Scale::Ten(6)),  ("G",  Scale::Ten(9)),
    ("T",  Scale::Ten(12)), ("P",  Scale::Ten(15)), ("E",  Scale::Ten(18)),
    ("Ki", Scale::Two(10)), ("Mi", Scale::Two(20)), ("Gi", Scale::Two(30)),
    ("Ti", Scale::Two(40)), ("Pi", Scale::Two(50)), ("Ei", Scale::Two(60)),
];

/// A text that is no amount of bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidQuantity {
    /// Not written as Kubernetes writes amounts.
    #[error("\"{0}\" is not an amount such as 100Gi or 500M")]
    Syntax(String),
    /// Below zero.
    #[error("\"{0}\" is negative")]
    Negative(String),
    /// More than Kubernetes can write.
    #[error("\"{0}\" is larger than the largest amount of Kubernetes")]
    TooLarge(String),
}

/// How many bytes a text says.
///
/// # Errors
/// If it says none.
pub fn bytes(text: &str) -> Result<u64, InvalidQuantity> {
    let syntax = || InvalidQuantity::Syntax(text.to_owned());
    let too_large = || InvalidQuantity::TooLarge(text.to_owned());
    let (negative, rest) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    let (number, suffix) = rest.split_at(end);
    let (digits, decimals) = digits(number).ok_or_else(syntax)?;
    let scale = scale(suffix).ok_or_else(syntax)?;
    if digits.trim_start_matches('0').is_empty() {
        return Ok(0);
    }
    if negative {
        return Err(InvalidQuantity::Negative(text.to_owned()));
    }
    let digits = digits.trim_start_matches('0');
    let value = match scale {
        Scale::Ten(power) => shift(digits, i64::from(power) - decimals),
        Scale::Two(power) => {
            let whole: Option<u128> = digits.parse().ok();
            let scaled = whole.and_then(|whole| whole.checked_mul(1 << power));
            scaled.and_then(|scaled| shift(&scaled.to_string(), -decimals))
        }
    };
    let value = value.filter(|value| *value <= MAX).ok_or_else(too_large)?;
    u64::try_from(value).map_err(|_| too_large())
}

/// The digits of a decimal number, and how many of them come after the point.
fn digits(number: &str) -> Option<(String, i64)> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = format!("{whole}{fraction}");
    let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    let decimals = i64::try_from(fraction.len()).ok()?;
    plain.then_some((digits, decimals))
}

fn scale(suffix: &str) -> Option<Scale> {
    if let Some((_, scale)) = SUFFIXES.iter().find(|(text, _)| *text == suffix) {
        return Some(*scale);
    }
    let power = suffix.strip_prefix(['e', 'E'])?;
    let power = power.strip_prefix('+').unwrap_or(power);
    power.parse().ok().map(Scale::Ten)
}

/// The number with these digits times a power of ten, rounded up; `None` if it is far too large.
fn shift(digits: &str, power: i64) -> Option<u128> {
    if power >= 0 {
        let zeros = usize::try_from(power).ok()?;
        if digits.len().saturating_add(zeros) > DIGITS_MAX {
            return None;
        }
        return format!("{digits}{}", "0".repeat(zeros)).parse().ok();
    }
    let cut = usize::try_from(power.unsigned_abs()).ok()?;
    let Some(kept) = digits.len().checked_sub(cut) else { return Some(1) };
    let (whole, fraction) = digits.split_at(kept);
    let whole: u128 = match whole {
        "" => 0,
        _ if whole.len() > DIGITS_MAX => return None,
        _ => whole.parse().ok()?,
    };
    let up = fraction.bytes().any(|digit| digit != b'0');
    Some(whole + u128::from(up))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn amounts_are_read_as_kubernetes_reads_them() {
        let rows: &[(&str, u64)] = &[
            ("0", 0),
            ("-0", 0),
            ("0Gi", 0),
            ("12", 12),
            ("+12", 12),
            ("1k", 1000),
            ("1Ki", 1024),
            ("100Gi", 107_374_182_400),
            ("100G", 100_000_000_000),
            ("1.5Gi", 1_610_612_736),
            ("1.5G", 1_500_000_000),
            (".5Ki", 512),
            ("5.", 5),
            ("0.1Ki", 103), // 102.4, rounded up
            ("1e3", 1000),
            ("1E3", 1000),
            ("12e+6", 12_000_000),
            ("12000e-3", 12),
            ("1E", 1_000_000_000_000_000_000),
            ("1Ei", 1_152_921_504_606_846_976),
            ("7Pi", 7_881_299_347_898_368),
            ("1Ti", 1_099_511_627_776),
            ("128974848000m", 128_974_848),
            ("128974848001m", 128_974_849),
            ("1n", 1),
            ("1u", 1),
            ("1e-99", 1),
            ("9223372036854775807", i64::MAX as u64),
            ("0000000000000000000000000000000000000000000000012", 12),
        ];
        for (text, expected) in rows {
            assert_eq!(bytes(text), Ok(*expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_amount_is_said() {
        use InvalidQuantity::{Negative, Syntax, TooLarge};
        let rows: &[(&str, fn(String) -> InvalidQuantity)] = &[
            ("", Syntax),
            ("Gi", Syntax),
            (".", Syntax),
            ("1.2.3", Syntax),
            ("1GB", Syntax),
            ("1gi", Syntax),
            ("1K", Syntax),
            ("1 Gi", Syntax),
            (" 1", Syntax),
            ("1e", Syntax),
            ("1e1.5", Syntax),
            ("--1", Syntax),
            ("eins", Syntax),
            ("١", Syntax),
            ("-1", Negative),
            ("-1Gi", Negative),
            ("9223372036854775808", TooLarge),
            ("8Ei", TooLarge),
            ("1e30", TooLarge),
            ("1e999999999", TooLarge),
            ("99999999999999999999999999999999999999999999999Ei", TooLarge),
        ];
        for (text, expected) in rows {
            assert_eq!(bytes(text), Err(expected((*text).to_owned())), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_is_too_odd(text in "\\PC{0,12}", number in "[-+]?[0-9.]{0,50}(e-?[0-9]{1,9}|[numkMGTPEi]{0,2})") {
            let _ = (bytes(&text), bytes(&number));
        }

        #[test]
        fn a_whole_number_of_a_unit_is_exact(number in 0u64..8, suffix in 0usize..6) {
            let (text, power) =
                [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)][suffix];
            prop_assert_eq!(bytes(&format!("{number}{text}")).unwrap(), number << power);
            prop_assert_eq!(bytes(&format!("{number}.0{text}")).unwrap(), number << power);
        }
    }
}
