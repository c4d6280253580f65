//! Amounts of storage as Kubernetes writes them: `10Gi`, `1500M`, `1e9`, `0.5Ti`.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// The number of bytes, rounded up; `None` if the text is not an amount or is negative.
pub(crate) fn bytes(quantity: &Quantity) -> Option<u128> {
    let text = quantity.0.trim();
    let end = text.find(|c: char| !matches!(c, '0'..='9' | '.' | '+')).unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    scaled(number, suffix)
}

fn scaled(number: &str, suffix: &str) -> Option<u128> {
    let (whole, fraction) = number.trim_start_matches('+').split_once('.').unwrap_or((number, ""));
    let digits = format!("{}{fraction}", whole.trim_start_matches('+'));
    // More digits than any disk has bytes; the bound keeps the arithmetic below exact.
    if digits.is_empty() || digits.len() > 20 {
        return None;
    }
    let mantissa: u128 = digits.parse().ok()?;
    let (multiplier, exponent) = unit(suffix)?;
    let exponent = exponent - i32::try_from(fraction.len()).ok()?;
    let product = mantissa.checked_mul(multiplier)?;
    let power = 10u128.checked_pow(exponent.unsigned_abs())?;
    if exponent >= 0 { product.checked_mul(power) } else { Some(product.div_ceil(power)) }
}

/// What a suffix multiplies with, and the power of ten besides.
fn unit(suffix: &str) -> Option<(u128, i32)> {
    if let Some(exponent) = suffix.strip_prefix(['e', 'E']).filter(|rest| !rest.is_empty()) {
        return exponent.parse().ok().filter(|e| (-20..=20).contains(e)).map(|e| (1, e));
    }
    Some(match suffix {
        "n" => (1, -9),
        "u" => (1, -6),
        "m" => (1, -3),
        "" => (1, 0),
        "k" => (1, 3),
        "M" => (1, 6),
        "G" => (1, 9),
        "T" => (1, 12),
        "P" => (1, 15),
        "E" => (1, 18),
        "Ki" => (1 << 10, 0),
        "Mi" => (1 << 20, 0),
        "Gi" => (1 << 30, 0),
        "Ti" => (1 << 40, 0),
        "Pi" => (1 << 50, 0),
        "Ei" => (1 << 60, 0),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_as_kubernetes_reads_them() {
        #[rustfmt::skip]
        let rows: &[(&str, Option<u128>)] = &[
            ("0",       Some(0)),
            ("1024",    Some(1024)),
            ("1Ki",     Some(1024)),
            ("+1Ki",    Some(1024)),
            ("1.5Gi",   Some(1_610_612_736)),
            ("10Gi",    Some(10 << 30)),
            ("1k",      Some(1000)),
            ("1e3",     Some(1000)),
            ("1E3",     Some(1000)),
            ("12e-1",   Some(2)),
            ("1E",      Some(1_000_000_000_000_000_000)),
            ("1500m",   Some(2)),
            (".5Ki",    Some(512)),
            ("1.",      Some(1)),
            ("",        None),
            (".",       None),
            ("-1",      None),
            ("Gi",      None),
            ("1Gb",     None),
            ("1..2",    None),
            ("1e99",    None),
            ("99999999999999999999999Ei", None),
        ];
        for (text, expected) in rows {
            assert_eq!(bytes(&Quantity((*text).to_owned())), *expected, "{text}");
        }
    }
}
