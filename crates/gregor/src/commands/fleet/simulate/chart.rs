//! The nodes over time as a chart, a line for each policy.

use std::fmt::Write as _;

use super::Tried;

const WIDTH: u64 = 900;
const HEIGHT: u64 = 360;
const MARGIN: u64 = 50;
/// Room for the name of each policy.
const LINE: u64 = 18;

const COLOURS: [&str; 10] = [
    "#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf", "#8c564b", "#e377c2",
    "#7f7f7f", "#bcbd22",
];

const DAY: u64 = 24 * 60;

/// As SVG.
pub(super) fn svg(tried: &[Tried]) -> String {
    let points = || tried.iter().flat_map(|one| &one.outcome.nodes);
    let end = points().map(|(minute, _)| *minute).max().unwrap_or(0).max(1);
    let most = points().map(|(_, nodes)| *nodes).max().unwrap_or(0).max(1);
    let (inner, tall) = (WIDTH - 2 * MARGIN, HEIGHT - 2 * MARGIN);
    let x = |minute: u64| MARGIN + minute.min(end) * inner / end;
    let y = |nodes: u64| HEIGHT - MARGIN - nodes.min(most) * tall / most;
    let height = HEIGHT + LINE * tried.len() as u64;
    // Writing to a string does not fail.
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <title>Nodes over time</title>\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"white\"/>\n"
    );
    let bottom = HEIGHT - MARGIN;
    let _ = writeln!(
        text,
        "<path d=\"M{MARGIN} {MARGIN}V{bottom}H{}\" fill=\"none\" stroke=\"black\"/>",
        WIDTH - MARGIN
    );
    let _ = writeln!(text, "<text x=\"4\" y=\"{}\">{most} nodes</text>", y(most) - 6);
    let _ = writeln!(
        text,
        "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{} days</text>",
        WIDTH - MARGIN,
        bottom + 16,
        end.div_ceil(DAY)
    );
    for (index, one) in tried.iter().enumerate() {
        let colour = COLOURS[index % COLOURS.len()];
        let mut path = String::new();
        let mut before = None;
        for (minute, nodes) in &one.outcome.nodes {
            let (at, level) = (x(*minute), y(*nodes));
            match before {
                None => {
                    let _ = write!(path, "M{at} {level}");
                }
                // Changes within a pixel are not seen.
                Some(last) if last == (at, level) => {}
                Some(_) => {
                    let _ = write!(path, "H{at}V{level}");
                }
            }
            before = Some((at, level));
        }
        if before.is_some() {
            let _ = write!(path, "H{}", x(end));
        }
        let _ = writeln!(text, "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\"/>");
        let at = HEIGHT + LINE * index as u64;
        let name = escaped(&one.name);
        let _ = writeln!(
            text,
            "<text x=\"{MARGIN}\" y=\"{at}\" fill=\"{colour}\">{name}: {} node-hours, cost {}</text>",
            one.outcome.node_minutes / 60,
            super::money(one.outcome.cost)
        );
    }
    text + "</svg>\n"
}

/// A text as the content of an element.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::super::tests::{demand, options};
    use super::*;

    #[test]
    fn each_policy_is_a_line_with_its_name() {
        let types = ["--node-type", "a<b,1500,250,100,4"];
        let tried = options(&types).compare(&demand());
        let text = svg(&tried);
        assert_eq!(text.matches("<path ").count(), 1 + tried.len(), "{text}");
        assert!(text.contains("gregor/a&lt;b: ") && !text.contains("a<b"), "{text}");
        assert!(text.ends_with("</svg>\n"));
        assert!(svg(&[]).contains("1 nodes"), "nothing is a chart, too");
    }
}
