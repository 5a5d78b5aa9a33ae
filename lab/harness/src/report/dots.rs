//! A chart with a line for each name: a mark at the median, and a bar from quartile to quartile.

use super::svg::{Scale, escape, label_width};
use crate::stats::Spread;

/// The width of a chart, and of the column of names in it.
const WIDTH: f64 = 760.0;
const NAMES: f64 = 230.0;
/// The height of a line of it.
const LINE: f64 = 26.0;

/// A line of the chart.
pub(super) struct Dot {
    pub(super) name: String,
    pub(super) spread: Spread,
}

/// The name as it fits into its column.
fn short(name: &str) -> String {
    if label_width(name, 13.0) <= NAMES - 14.0 {
        return name.to_owned();
    }
    let fits = |count: &usize| {
        let text: String = name.chars().take(*count).collect();
        label_width(&text, 13.0) <= NAMES - 30.0
    };
    let count = (0..name.chars().count()).take_while(fits).last().unwrap_or(0);
    name.chars().take(count).chain(['…']).collect()
}

/// The chart, with a dashed line at that value if there is one. `None` if there is nothing to draw.
pub(super) fn chart(dots: &[Dot], at: Option<f64>, text: impl Fn(f64) -> String) -> Option<String> {
    let ends: Vec<f64> = dots
        .iter()
        .flat_map(|dot| [dot.spread.low, dot.spread.high])
        .collect();
    if ends.is_empty() {
        return None;
    }
    let scale = Scale::linear(&ends, true, NAMES, WIDTH - 80.0);
    let height = LINE * (dots.len() as f64 + 1.0);
    let bottom = height - LINE;
    let mut svg = format!("<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\">");
    for tick in scale.ticks(5) {
        let x = scale.at(tick);
        svg += &format!(
            "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"0\" y2=\"{bottom}\"/><text x=\"{x:.1}\" \
                 y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            height - 8.0,
            text(tick)
        );
    }
    if let Some(x) = at.map(|value| scale.at(value)) {
        svg += &format!("<line class=\"frontier\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"0\" y2=\"{bottom}\"/>");
    }
    for (place, Dot { name, spread }) in dots.iter().enumerate() {
        let y = LINE * (place as f64 + 0.5);
        let [low, middle, high] = [spread.low, spread.median, spread.high].map(|value| scale.at(value));
        svg += &format!(
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text><line class=\"whisker s1\" x1=\"{low:.1}\" \
                 x2=\"{high:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/><circle class=\"mark s1\" cx=\"{middle:.1}\" cy=\"{y:.1}\" \
                 r=\"5\"><title>{}: {}</title></circle>",
            NAMES - 10.0,
            y + 4.0,
            escape(&short(name)),
            escape(name),
            text(spread.median)
        );
    }
    Some(svg + "</svg>")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_is_cut_and_whole_beside_the_mark() {
        let long = "warpweft fifo+steal=half+overflow=locked+capacity=16";
        assert_eq!(short("lifo on 2 workers"), "lifo on 2 workers");
        let cut = short(long);
        assert!(cut.ends_with('…') && cut.len() < long.len() && long.starts_with(cut.trim_end_matches('…')));
        let spread = crate::stats::spread(&[1.0, 2.0, 3.0]).unwrap();
        let name = long.to_owned();
        let svg = chart(&[Dot { name, spread }], Some(2.0), |value| value.to_string()).unwrap();
        assert!(svg.contains(&format!("<title>{long}: 2</title>")) && svg.contains("class=\"frontier\""));
        assert!(chart(&[], None, |value| value.to_string()).is_none());
    }
}
