//! What Quartz says of expressions, row by row.

use super::*;

/// Seconds since 1970 of a date and a time.
fn at(text: &str) -> i64 {
    let numbers: Vec<i64> =
        text.split(['-', ' ', ':']).map(|number| number.parse().unwrap()).collect();
    let [year, month, day, hour, minute, second] = numbers[..] else { panic!("{text}") };
    (days_of(year, month) + day - 1) * 86_400 + hour * 3_600 + minute * 60 + second
}

#[test]
fn the_rows_hold() {
    // 2026-11-15 is a Sunday, 2024-02 had 29 days, 2026-08-01 and 2026-02-28 are Saturdays.
    let rows = [
        // Strimzi's own example: from midnight until two, on all nights but those of the weekend.
        ("* * 0-1 ? * SUN,MON,TUE,WED,THU *", "2026-11-15 00:00:00", true),
        ("* * 0-1 ? * SUN,MON,TUE,WED,THU *", "2026-11-15 01:59:59", true),
        ("* * 0-1 ? * SUN,MON,TUE,WED,THU *", "2026-11-15 02:00:00", false),
        ("* * 0-1 ? * SUN,MON,TUE,WED,THU *", "2026-11-14 00:30:00", false),
        ("* * 8-10 * * ?", "2026-11-15 10:59:59", true),
        ("* * 14-15 * * ?", "2026-11-15 13:59:59", false),
        ("0 30 2 * * ?", "2026-11-15 02:30:00", true),
        ("0 30 2 * * ?", "2026-11-15 02:30:01", false),
        // Over midnight, and over the end of the week.
        ("* * 22-3 * * ?", "2026-11-15 23:00:00", true),
        ("* * 22-3 * * ?", "2026-11-15 03:59:59", true),
        ("* * 22-3 * * ?", "2026-11-15 04:00:00", false),
        ("* * * ? * FRI-MON", "2026-11-15 12:00:00", true),
        ("* * * ? * FRI-MON", "2026-11-17 12:00:00", false),
        ("* * * ? * 6-2", "2026-11-13 12:00:00", true),
        // Steps.
        ("* 0/15 * * * ?", "2026-11-15 12:45:10", true),
        ("* 5/15 * * * ?", "2026-11-15 12:50:10", true),
        ("* 5/15 * * * ?", "2026-11-15 12:00:10", false),
        ("* */20 * * * ?", "2026-11-15 12:40:10", true),
        ("* /20 * * * ?", "2026-11-15 12:41:10", false),
        ("* * 22-4/2 * * ?", "2026-11-15 02:00:00", true),
        ("* * 22-4/2 * * ?", "2026-11-15 03:00:00", false),
        // Days of the month.
        ("* * * 15 * ?", "2026-11-15 12:00:00", true),
        ("* * * L * ?", "2026-11-30 12:00:00", true),
        ("* * * L * ?", "2026-11-29 12:00:00", false),
        ("* * * L * ?", "2024-02-29 12:00:00", true),
        ("* * * L-3 * ?", "2026-11-27 12:00:00", true),
        ("* * * 15W * ?", "2026-11-16 12:00:00", true),
        ("* * * 15W * ?", "2026-11-15 12:00:00", false),
        ("* * * 14W * ?", "2026-11-13 12:00:00", true),
        ("* * * 1W * ?", "2026-08-03 12:00:00", true),
        ("* * * LW * ?", "2026-02-27 12:00:00", true),
        ("* * * LW * ?", "2026-02-28 12:00:00", false),
        // Days of the week: 1 is Sunday.
        ("* * * ? * 1", "2026-11-15 12:00:00", true),
        ("* * * ? * mon", "2026-11-16 12:00:00", true),
        ("* * * ? * L", "2026-11-14 12:00:00", true),
        ("* * * ? * 6L", "2026-11-27 12:00:00", true),
        ("* * * ? * FRIL", "2026-11-20 12:00:00", false),
        ("* * * ? * 1#3", "2026-11-15 12:00:00", true),
        ("* * * ? * SUN#2", "2026-11-15 12:00:00", false),
        // Months and years.
        ("* * * * NOV ?", "2026-11-15 12:00:00", true),
        ("* * * * 12-2 ?", "2026-01-15 12:00:00", true),
        ("* * * * 12-2 ?", "2026-11-15 12:00:00", false),
        ("* * * * * ? 2026", "2026-11-15 12:00:00", true),
        ("* * * * * ? 2027-2030", "2026-11-15 12:00:00", false),
    ];
    for (window, moment, expected) in rows {
        let opening = opening(&[window.to_owned()], at(moment));
        assert_eq!((opening.is_open, opening.invalid.len()), (expected, 0), "{window} {moment}");
    }
}

#[test]
fn what_cannot_be_read_is_named_and_never_open() {
    let rows = [
        ("", "0 fields"),
        ("* * * * *", "5 fields"),
        ("* * * * * *", "has to be ?"),
        ("* * * ? * ?", "has to be ?"),
        ("* * 24 * * ?", "\"24\" cannot be in its field for hours"),
        ("60 * * * * ?", "seconds"),
        ("* * * 0 * ?", "day of the month"),
        ("* * * * FOO ?", "month"),
        ("* * * ? * 8", "day of the week"),
        ("* * * ? * 2#6", "that many weeks"),
        ("* 0/0 * * * ?", "minutes"),
        ("* 1- * * * ?", "minutes"),
        ("* , * * * ?", "minutes"),
        ("* * * * * ? 1969", "year"),
    ];
    for (window, expected) in rows {
        let opening = opening(&[window.to_owned()], 0);
        let (name, why) = &opening.invalid[0];
        assert!(
            !opening.is_open && name == window && why.contains(expected),
            "U7.6 {window}: {why}"
        );
    }
}

#[test]
fn windows_are_alternatives_and_without_any_it_is_open() {
    let windows = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    let noon = at("2026-11-15 12:00:00");
    assert!(opening(&[], noon).is_open);
    assert!(opening(&windows(&["* * 1 * * ?", "* * 12 * * ?"]), noon).is_open);
    assert!(!opening(&windows(&["* * 1 * * ?", "* * 2 * * ?"]), noon).is_open);
    let with_nonsense = opening(&windows(&["nonsense", "* * 12 * * ?"]), noon);
    assert_eq!((with_nonsense.is_open, with_nonsense.invalid.len()), (true, 1));
}

#[test]
fn every_day_of_four_hundred_years_is_the_day_after_the_one_before() {
    let (first, days) = (days_of(1970, 1), 146_097);
    assert_eq!(first, 0);
    let mut before = Moment::of(-1);
    for day in 0..days {
        let now = Moment::of(day * 86_400);
        let next = match before.day == before.days_in_month {
            true => now.day == 1 && now.month == before.month % 12 + 1,
            false => now.day == before.day + 1 && now.month == before.month,
        };
        let year = now.year == before.year + u32::from(now.day == 1 && now.month == 1);
        assert!(next && year && now.weekday == before.weekday % 7 + 1, "{day}");
        assert_eq!(now.weekday_of(now.day), now.weekday);
        before = now;
    }
}
