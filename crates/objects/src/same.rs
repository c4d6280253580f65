//! Detects writes that would change nothing.
//!
//! The API server adds defaults and normalizes values, so a stored object never equals the one that was sent.
//! Two conditions must hold instead:
//!
//! 1. The same object was sent last time ([`hash`]; detects fields that are not desired any more).
//! 2. All of it is still there ([`contains`]; detects changes by others).
//!
//! A false negative costs a request without effect. A false positive would leave a difference in place, so
//! values that might differ are treated as different.

use aws_lc_rs::digest::{Context, SHA256};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use control::annotations::Annotation;
use serde_json::{Map, Value, json};

/// Annotation of every applied object: a hash of what was applied.
pub const APPLIED: &str = Annotation::Applied.name();

/// Fields that the API server omits if they are false.
const FALSE_IS_ABSENT: &[&str] = &[
    "hostIPC",
    "hostNetwork",
    "hostPID",
    "publishNotReadyAddresses",
    "readOnly",
    "stdin",
    "stdinOnce",
    "tty",
];

/// Fields with quantities.
const AMOUNTS: &[&str] = &["divisor", "sizeLimit", "storage"];

/// Fields with maps of quantities.
const MAPS_OF_AMOUNTS: &[&str] = &["capacity", "hard", "limits", "overhead", "requests"];

/// Lists to which others may add.
const SHARED_LISTS: &[&str] = &["finalizers", "ownerReferences"];

/// A hash of an object, stable across machines. Nulls and the order of fields are ignored.
#[must_use]
pub fn hash(desired: &Value) -> String {
    let mut context = Context::new(&SHA256);
    feed(&mut context, desired);
    // 64 bits distinguish versions of one object; this is not a security measure.
    context.finish().as_ref()[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

fn feed(context: &mut Context, value: &Value) {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().filter(|(_, value)| !value.is_null()).collect();
            fields.sort_by_key(|(name, _)| *name);
            context.update(b"{");
            for (name, value) in fields {
                context.update(json!(name).to_string().as_bytes());
                feed(context, value);
            }
            context.update(b"}");
        }
        Value::Array(items) => {
            context.update(b"[");
            for item in items {
                feed(context, item);
                context.update(b",");
            }
            context.update(b"]");
        }
        other => context.update(other.to_string().as_bytes()),
    }
}

/// Whether the stored object contains everything desired.
#[must_use]
pub fn contains(stored: &Value, desired: &Value) -> bool {
    let Value::Object(fields) = desired else { return false };
    fields.iter().all(|(name, value)| match name.as_str() {
        "stringData" => strings_in(stored.get("data"), value),
        "metadata" => metadata_in(stored.get(name).unwrap_or(&Value::Null), value),
        _ => is_in(stored.get(name), value, name, false),
    })
}

/// A Secret may be written with plain strings, and is stored as base64.
fn strings_in(stored: Option<&Value>, desired: &Value) -> bool {
    let Value::Object(fields) = desired else { return desired.is_null() };
    fields.iter().all(|(name, value)| {
        let encoded = value.as_str().map(|text| STANDARD.encode(text));
        encoded.as_deref() == stored.and_then(|data| data.get(name)).and_then(Value::as_str)
    })
}

fn metadata_in(stored: &Value, desired: &Value) -> bool {
    let Value::Object(fields) = desired else { return is_nothing(desired) };
    fields.iter().all(|(name, value)| match value {
        Value::Array(items) if SHARED_LISTS.contains(&name.as_str()) => {
            let stored = stored.get(name).and_then(Value::as_array);
            let has = |item| {
                let mut stored = stored.into_iter().flatten();
                stored.any(|found| is_in(Some(found), item, name, false))
            };
            items.iter().all(has)
        }
        _ => is_in(stored.get(name), value, name, false),
    })
}

/// `name` is the field of the value; `amount` is whether values here are quantities.
fn is_in(stored: Option<&Value>, desired: &Value, name: &str, amount: bool) -> bool {
    let Some(stored) = stored else {
        let is_false = desired == &Value::Bool(false) && FALSE_IS_ABSENT.contains(&name);
        return is_nothing(desired) || is_false;
    };
    let amount = amount || AMOUNTS.contains(&name);
    match (stored, desired) {
        (Value::Object(stored), Value::Object(desired)) => desired.iter().all(|(key, value)| {
            is_in(stored.get(key), value, key, MAPS_OF_AMOUNTS.contains(&name))
        }),
        (Value::Array(stored), Value::Array(desired)) => {
            stored.len() == desired.len()
                && stored.iter().zip(desired).all(|(a, b)| is_in(Some(a), b, name, false))
        }
        (Value::Null, desired) => is_nothing(desired),
        (stored, Value::Null) => is_nothing(stored),
        (stored, desired) => stored == desired || (amount && same_amount(stored, desired)),
    }
}

/// A field without a value and a missing field are equivalent.
fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.values().all(is_nothing),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

fn same_amount(a: &Value, b: &Value) -> bool {
    let amount = |value: &Value| match value {
        Value::String(text) => nanos(text),
        Value::Number(number) => nanos(&number.to_string()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    };
    matches!((amount(a), amount(b)), (Some(a), Some(b)) if a == b)
}

/// A quantity (`1Gi`, `500m`, `1.5`, `1e3`) in billionths; `None` if it is not one, or too large for exact
/// representation.
fn nanos(text: &str) -> Option<i128> {
    let digits_end = text
        .char_indices()
        .find(|(index, char)| {
            !(char.is_ascii_digit() || *char == '.' || (*index == 0 && matches!(char, '+' | '-')))
        })
        .map_or(text.len(), |(index, _)| index);
    let (number, suffix) = text.split_at(digits_end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.trim_start_matches(['+', '-']).is_empty() && fraction.is_empty() {
        return None;
    }
    let mantissa: i128 = format!("{whole}{fraction}").parse().ok()?;
    let (tens, twos) = factors(suffix)?;
    let tens = tens.checked_add(9)?.checked_sub(i32::try_from(fraction.len()).ok()?)?;
    let scaled = mantissa.checked_mul(1i128.checked_shl(twos)?)?;
    let power = 10i128.checked_pow(tens.unsigned_abs())?;
    match tens {
        0.. => scaled.checked_mul(power),
        // The API server rounds values below a billionth; we do not guess how.
        _ => (scaled % power == 0).then(|| scaled / power),
    }
}

/// The factor of a suffix: a power of ten and a power of two.
fn factors(suffix: &str) -> Option<(i32, u32)> {
    let exponent = |text: &str| text.parse().ok().map(|tens: i32| (tens, 0));
    match suffix {
        "" => Some((0, 0)),
        "n" => Some((-9, 0)),
        "u" => Some((-6, 0)),
        "m" => Some((-3, 0)),
        "k" => Some((3, 0)),
        "M" => Some((6, 0)),
        "G" => Some((9, 0)),
        "T" => Some((12, 0)),
        "P" => Some((15, 0)),
        "E" => Some((18, 0)),
        "Ki" => Some((0, 10)),
        "Mi" => Some((0, 20)),
        "Gi" => Some((0, 30)),
        "Ti" => Some((0, 40)),
        "Pi" => Some((0, 50)),
        "Ei" => Some((0, 60)),
        _ => exponent(suffix.strip_prefix(['e', 'E'])?),
    }
}

/// The merge patch to the desired status, which also removes stale fields. `None` if only transition times of
/// unchanged conditions would differ.
#[must_use]
pub fn status_patch(before: Option<&Value>, desired: &Value) -> Option<Value> {
    let empty = Value::Object(Map::new());
    let before = before.filter(|before| before.is_object()).unwrap_or(&empty);
    let mut desired = desired.clone();
    keep_times(before, &mut desired);
    let patch = difference(before, &desired);
    (!patch.is_empty()).then_some(Value::Object(patch))
}

/// An unchanged condition keeps its transition time.
fn keep_times(before: &Value, desired: &mut Value) {
    let list = |value: &Value| value.get("conditions").and_then(Value::as_array).cloned();
    let before = list(before).unwrap_or_default();
    let Some(conditions) = desired.get_mut("conditions").and_then(Value::as_array_mut) else {
        return;
    };
    for condition in conditions {
        let same = |old: &&Value| {
            ["type", "status"].iter().all(|field| old.get(*field) == condition.get(*field))
        };
        // A status may have several warnings; one with the same message is the same.
        let equal = |old: &&Value| same(old) && old.get("message") == condition.get("message");
        let old = before.iter().find(equal).or_else(|| before.iter().find(same));
        let time = old.and_then(|old| old.get("lastTransitionTime"));
        if let (Some(time), Some(fields)) = (time, condition.as_object_mut()) {
            fields.insert("lastTransitionTime".to_owned(), time.clone());
        }
    }
}

fn difference(before: &Value, desired: &Value) -> Map<String, Value> {
    let mut patch = Map::new();
    let (Some(before), Some(desired)) = (before.as_object(), desired.as_object()) else {
        return patch;
    };
    for (name, value) in desired {
        match before.get(name) {
            Some(old) if old == value => {}
            Some(old) if old.is_object() && value.is_object() => {
                let inner = difference(old, value);
                if !inner.is_empty() {
                    patch.insert(name.clone(), Value::Object(inner));
                }
            }
            None if is_nothing(value) => {}
            Some(_) | None => {
                patch.insert(name.clone(), value.clone());
            }
        }
    }
    for (name, old) in before {
        if !desired.contains_key(name) && !old.is_null() {
            patch.insert(name.clone(), Value::Null);
        }
    }
    patch
}

/// Whether a merge patch would change nothing.
#[must_use]
pub fn merges_to_itself(stored: &Value, patch: &Value) -> bool {
    match patch {
        Value::Object(fields) => fields.iter().all(|(name, value)| match stored.get(name) {
            Some(stored) => merges_to_itself(stored, value),
            None => is_nothing(value),
        }),
        other => stored == other,
    }
}

#[cfg(test)]
#[path = "same_tests.rs"]
mod tests;
