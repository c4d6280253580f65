//! Kubernetes quantities (`500m`, `1Gi`, `1e3`), in thousandths.

/// A quantity in thousandths, rounded up; `None` if it is not valid.
pub(crate) fn parse_milli(text: &str) -> Option<i128> {
    let text = text.trim();
    let split = text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '+' | '-')));
    let (number, suffix) = text.split_at(split.unwrap_or(text.len()));
    let (numerator, denominator) = decimal(number)?;
    let (times, over) = scale(suffix)?;
    let dividend = numerator.checked_mul(times)?.checked_mul(1000)?;
    let divisor = denominator.checked_mul(over)?;
    Some(div_ceil(dividend, divisor))
}

/// `value / divisor`, rounded up, as in the downward API.
pub(crate) fn in_units_of(value_milli: i128, divisor: &str) -> Option<i128> {
    let divisor = if divisor.is_empty() || divisor == "0" { "1" } else { divisor };
    let divisor_milli = parse_milli(divisor).filter(|divisor| *divisor > 0)?;
    Some(div_ceil(value_milli, divisor_milli))
}

fn div_ceil(dividend: i128, divisor: i128) -> i128 {
    let down = dividend.div_euclid(divisor);
    if dividend.rem_euclid(divisor) == 0 { down } else { down + 1 }
}

/// A decimal number as a fraction.
fn decimal(text: &str) -> Option<(i128, i128)> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = format!("{whole}{fraction}");
    let denominator = 10i128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    Some((digits.parse().ok()?, denominator))
}

/// A suffix as a fraction.
fn scale(suffix: &str) -> Option<(i128, i128)> {
    let binary = |power| Some((1024i128.pow(power), 1));
    match suffix {
        "" => Some((1, 1)),
        "n" => Some((1, 1_000_000_000)),
        "u" => Some((1, 1_000_000)),
        "m" => Some((1, 1000)),
        "k" => Some((1000, 1)),
        "M" => Some((1_000_000, 1)),
        "G" => Some((1_000_000_000, 1)),
        "T" => Some((1_000_000_000_000, 1)),
        "P" => Some((1_000_000_000_000_000, 1)),
        "E" => Some((1_000_000_000_000_000_000, 1)),
        "Ki" => binary(1),
        "Mi" => binary(2),
        "Gi" => binary(3),
        "Ti" => binary(4),
        "Pi" => binary(5),
        "Ei" => binary(6),
        _ => {
            let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            let power = 10i128.checked_pow(exponent.unsigned_abs())?;
            Some(if exponent < 0 { (1, power) } else { (power, 1) })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_in_all_ways_of_writing_them() {
        #[rustfmt::skip]
        let table = [
            ("1", Some(1000)), ("500m", Some(500)), ("0.5", Some(500)), ("1.5Gi", Some(1_610_612_736_000)),
            ("1Ki", Some(1_024_000)), ("2k", Some(2_000_000)), ("1e3", Some(1_000_000)), ("100n", Some(1)),
            ("1E", Some(1_000_000_000_000_000_000_000)), ("1e-3", Some(1)), (".5", Some(500)),
            ("", None), ("x", None), ("1x", None), ("1.2.3", None), ("1e99", None), ("-", None),
            ("99999999999999999999999999999999999999999", None),
        ];
        for (text, expected) in table {
            assert_eq!(parse_milli(text), expected, "{text}");
        }
    }

    #[test]
    fn units_round_up() {
        let check = |value, divisor, expected| {
            assert_eq!(
                in_units_of(parse_milli(value).unwrap(), divisor),
                expected,
                "{value}/{divisor}"
            );
        };
        check("1500m", "1", Some(2));
        check("1500m", "1m", Some(1500));
        check("1500m", "0", Some(2));
        check("1Gi", "1Mi", Some(1024));
        check("1", "x", None);
    }
}
