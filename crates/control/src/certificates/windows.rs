//! Maintenance windows: when pods may be restarted to renew certificates.
//!
//! A window is a cron expression as Quartz has them, in UTC: seconds, minutes, hours, day of the month, month,
//! day of the week, and perhaps a year. It is open in every second that the expression matches.
//!
//! 1. Without windows it is always open.
//! 2. Several windows are alternatives.
//! 3. One that cannot be read is never open, and is named. Being open by mistake would restart pods when their
//!    users asked not to.

/// Whether now is in a window, and which windows cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opening {
    /// Whether it is.
    pub is_open: bool,
    /// The windows that are none, each with what is wrong.
    pub invalid: Vec<(String, String)>,
}

/// Whether a moment, in seconds since 1970, is in one of the windows.
#[must_use]
pub fn opening(windows: &[String], now: i64) -> Opening {
    let moment = Moment::of(now);
    let mut opening = Opening { is_open: windows.is_empty(), invalid: Vec::new() };
    for window in windows {
        match Cron::parse(window) {
            Ok(cron) => opening.is_open |= cron.matches(&moment),
            Err(why) => opening.invalid.push((window.clone(), why)),
        }
    }
    opening
}

const MONTHS: [&str; 12] =
    ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const DAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

/// A second of the calendar.
struct Moment {
    second: u32,
    minute: u32,
    hour: u32,
    day: u32,
    month: u32,
    year: u32,
    /// From 1, which is Sunday.
    weekday: u32,
    days_in_month: u32,
}

impl Moment {
    fn of(now: i64) -> Self {
        let (days, in_day) = (now.div_euclid(86_400), now.rem_euclid(86_400));
        let (year, month, day) = civil(days);
        let (next_year, next_month) = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
        let days_in_month = days_of(next_year, next_month) - days_of(year, month);
        let small = |value: i64| u32::try_from(value).unwrap_or_default();
        Self {
            second: small(in_day % 60),
            minute: small(in_day / 60 % 60),
            hour: small(in_day / 3_600),
            day: small(day),
            month: small(month),
            year: small(year),
            // The first day of 1970 was a Thursday.
            weekday: small((days + 4).rem_euclid(7) + 1),
            days_in_month: small(days_in_month),
        }
    }

    /// The day of the week of another day of this month.
    fn weekday_of(&self, day: u32) -> u32 {
        (self.weekday + 6 + 35 + day - self.day) % 7 + 1
    }

    fn is_workday(&self, day: u32) -> bool {
        (2..=6).contains(&self.weekday_of(day))
    }

    /// The workday nearest to a day, in this month.
    fn workday_near(&self, day: u32) -> u32 {
        let last = self.days_in_month;
        let day = day.min(last);
        match self.weekday_of(day) {
            // Saturday: the day before, unless that is in another month. Sunday likewise.
            7 if day > 1 => day - 1,
            7 => day + 2,
            1 if day < last => day + 1,
            1 => day - 2,
            _ => day,
        }
    }
}

/// The date so many days after the first of 1970. The year begins in March here, so that the day that leap
/// years have comes last.
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let (era, of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + i64::from(month <= 2), month, day)
}

/// How many days lie between the first of 1970 and the first of a month.
fn days_of(year: i64, month: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let month = if month > 2 { month - 3 } else { month + 9 };
    let of_year = (153 * month + 2) / 5;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// An expression.
struct Cron {
    seconds: Vec<Values>,
    minutes: Vec<Values>,
    hours: Vec<Values>,
    days: Vec<MonthDay>,
    months: Vec<Values>,
    weekdays: Vec<WeekDay>,
    years: Vec<Values>,
}

/// Every `step`th value from `from` to `to`. Where `to` is less, it goes over the end of the field and
/// on from its beginning.
#[derive(Clone, Copy)]
struct Values {
    from: u32,
    to: u32,
    step: u32,
    field: &'static Field,
}

/// Days of a month.
enum MonthDay {
    Values(Values),
    /// So many days before the last.
    BeforeLast(u32),
    /// The workday nearest to a day.
    Workday(u32),
    /// The last workday.
    LastWorkday,
}

/// Days of a week.
enum WeekDay {
    Values(Values),
    /// The last of these in the month.
    Last(u32),
    /// One of them by its number in the month.
    Nth(u32, u32),
}

/// What a field may hold.
struct Field {
    name: &'static str,
    least: u32,
    most: u32,
    /// Words for the values, from the least on.
    words: &'static [&'static str],
}

const fn field(name: &'static str, least: u32, most: u32, words: &'static [&'static str]) -> Field {
    Field { name, least, most, words }
}

static SECONDS: Field = field("seconds", 0, 59, &[]);
static MINUTES: Field = field("minutes", 0, 59, &[]);
static HOURS: Field = field("hours", 0, 23, &[]);
static MONTH_DAYS: Field = field("day of the month", 1, 31, &[]);
static MONTH: Field = field("month", 1, 12, &MONTHS);
static WEEK_DAYS: Field = field("day of the week", 1, 7, &DAYS);
static YEARS: Field = field("year", 1970, 2099, &[]);

impl Cron {
    fn parse(text: &str) -> Result<Self, String> {
        let upper = text.to_ascii_uppercase();
        let fields: Vec<&str> = upper.split_whitespace().collect();
        let (six, years) = match fields.as_slice() {
            [six @ .., years] if six.len() == 6 => (six, *years),
            six if six.len() == 6 => (six, "*"),
            other => return Err(format!("it has {} fields, and not 6 or 7", other.len())),
        };
        // Quartz cannot tell what two rules for the day would mean together.
        if (six[3] == "?") == (six[5] == "?") {
            return Err("one of the two fields for days has to be ?, and not both".to_owned());
        }
        let plain = |text, field| parts(text, |part| values(part, field));
        Ok(Self {
            seconds: plain(six[0], &SECONDS)?,
            minutes: plain(six[1], &MINUTES)?,
            hours: plain(six[2], &HOURS)?,
            days: parts(six[3], month_day)?,
            months: plain(six[4], &MONTH)?,
            weekdays: parts(six[5], week_day)?,
            years: plain(years, &YEARS)?,
        })
    }

    fn matches(&self, at: &Moment) -> bool {
        let any = |all: &[Values], value: u32| all.iter().any(|one| one.has(value));
        any(&self.seconds, at.second)
            && any(&self.minutes, at.minute)
            && any(&self.hours, at.hour)
            && self.days.iter().any(|day| day.matches(at))
            && any(&self.months, at.month)
            && self.weekdays.iter().any(|day| day.matches(at))
            && any(&self.years, at.year)
    }
}

impl Values {
    fn has(&self, value: u32) -> bool {
        let Field { least, most, .. } = *self.field;
        let in_range = match self.from <= self.to {
            true => (self.from..=self.to).contains(&value),
            false => value >= self.from || value <= self.to,
        };
        let size = most - least + 1;
        let distance = (value + size).saturating_sub(self.from) % size;
        in_range && (least..=most).contains(&value) && distance.is_multiple_of(self.step)
    }
}

impl MonthDay {
    fn matches(&self, at: &Moment) -> bool {
        match self {
            Self::Values(values) => values.has(at.day),
            Self::BeforeLast(days) => at.day + days == at.days_in_month,
            Self::Workday(day) => at.day == at.workday_near(*day),
            Self::LastWorkday => {
                let later = at.day + 1..=at.days_in_month;
                at.is_workday(at.day) && !later.into_iter().any(|day| at.is_workday(day))
            }
        }
    }
}

impl WeekDay {
    fn matches(&self, at: &Moment) -> bool {
        match self {
            Self::Values(values) => values.has(at.weekday),
            Self::Last(day) => at.weekday == *day && at.day + 7 > at.days_in_month,
            Self::Nth(day, number) => at.weekday == *day && (at.day - 1) / 7 + 1 == *number,
        }
    }
}

/// The alternatives of a field.
fn parts<T>(text: &str, part: impl Fn(&str) -> Result<T, String>) -> Result<Vec<T>, String> {
    text.split(',').map(part).collect()
}

fn month_day(text: &str) -> Result<MonthDay, String> {
    let number = |text: &str| number(text, &MONTH_DAYS);
    Ok(match (text, text.strip_prefix("L-"), text.strip_suffix('W')) {
        ("L", _, _) => MonthDay::BeforeLast(0),
        ("LW", _, _) => MonthDay::LastWorkday,
        (_, Some(days), _) => MonthDay::BeforeLast(number(days)?),
        (_, None, Some(day)) => MonthDay::Workday(number(day)?),
        (_, None, None) => MonthDay::Values(values(text, &MONTH_DAYS)?),
    })
}

fn week_day(text: &str) -> Result<WeekDay, String> {
    let day = |text: &str| number(text, &WEEK_DAYS);
    if let Some((name, nth)) = text.split_once('#') {
        let nth = nth.parse().ok().filter(|nth| (1..=5).contains(nth));
        let nth = nth.ok_or_else(|| format!("\"{text}\": no month has that many weeks"))?;
        return Ok(WeekDay::Nth(day(name)?, nth));
    }
    Ok(match text.strip_suffix('L') {
        // Alone it is the last day of the week.
        Some("") => WeekDay::Values(values("7", &WEEK_DAYS)?),
        Some(name) => WeekDay::Last(day(name)?),
        None => WeekDay::Values(values(text, &WEEK_DAYS)?),
    })
}

/// `*`, `?`, `5`, `5-10`, `5/15`, `5-10/2`, `*/2` or `/2`; with words instead of numbers where there are any.
fn values(text: &str, field: &'static Field) -> Result<Values, String> {
    let (range, step) = match text.split_once('/') {
        Some((range, step)) => {
            let step = step.parse().ok().filter(|step| (1..=field.most).contains(step));
            (range, Some(step.ok_or_else(|| wrong(text, field))?))
        }
        None => (text, None),
    };
    let (from, to) = match range {
        "*" | "?" => (field.least, field.most),
        "" if step.is_some() => (field.least, field.most),
        range => match (range.split_once('-'), step) {
            (Some((from, to)), _) => (number(from, field)?, number(to, field)?),
            (None, Some(_)) => (number(range, field)?, field.most),
            (None, None) => {
                let only = number(range, field)?;
                (only, only)
            }
        },
    };
    Ok(Values { from, to, step: step.unwrap_or(1), field })
}

fn number(text: &str, field: &Field) -> Result<u32, String> {
    let by_word = field.words.iter().zip(field.least..).find(|(word, _)| **word == text);
    let value = by_word.map(|(_, value)| value).or_else(|| text.parse().ok());
    let value = value.filter(|value| (field.least..=field.most).contains(value));
    value.ok_or_else(|| wrong(text, field))
}

fn wrong(text: &str, field: &Field) -> String {
    format!("\"{text}\" cannot be in its field for {}", field.name)
}

#[cfg(test)]
#[path = "windows_tests.rs"]
mod tests;
