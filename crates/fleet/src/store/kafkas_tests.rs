//! Searches that make sense, and those that do not.

use super::*;

#[test]
fn a_search_is_read_with_its_joins() {
    let terms = parse_search("name LIKE 'it''s %' and region=us-east-1 OR status NOT IN ('a','b')");
    let expected = [
        (false, "name", Compare::Like("it's %".to_owned())),
        (false, "region", Compare::Equal("us-east-1".to_owned())),
        (true, "status", Compare::NotIn(vec!["a".to_owned(), "b".to_owned()])),
    ];
    let expected = expected.map(|(or, column, compare)| Term { or, column, compare });
    assert_eq!(terms.unwrap(), expected);
    assert_eq!(parse_search("cluster_id <> ''").unwrap()[0].column, "plane_id");
    assert_eq!(parse_search("  ").unwrap(), []);
}

#[test]
fn a_search_that_makes_no_sense_is_refused() {
    let rows = [
        ("password = 'x'", SearchError::Field("password".to_owned())),
        ("name", SearchError::Syntax(String::new())),
        ("name =", SearchError::Syntax(String::new())),
        ("name = 'a", SearchError::Syntax("'a".to_owned())),
        ("name = 'a' AND", SearchError::Syntax(String::new())),
        ("name = 'a' name = 'b'", SearchError::Syntax("NAME".to_owned())),
        ("name ~ 'a'", SearchError::Syntax("~".to_owned())),
        ("name = a;drop", SearchError::Syntax("a;drop".to_owned())),
        ("name IN 'a'", SearchError::Syntax("'a".to_owned())),
        ("name IN ('a'", SearchError::Syntax(String::new())),
    ];
    for (text, error) in rows {
        assert_eq!(parse_search(text), Err(error), "{text}");
    }
    let long = ["name = a"; 11].join(" AND ");
    assert_eq!(parse_search(&long), Err(SearchError::TooLong));
}

#[test]
fn an_order_names_columns_and_directions() {
    let order = parse_order("name, region desc ,cluster_id ASC").unwrap();
    assert_eq!(order, [("name", false), ("region", true), ("plane_id", false)]);
    for text in ["size", "name up", "name asc asc"] {
        assert!(parse_order(text).is_err(), "{text}");
    }
}
