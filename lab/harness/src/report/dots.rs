//! A chart with a line for each name: a mark at the median, and a bar from quartile to quartile.

use super::svg::{Scale, escape, put};
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
        put(
            &mut svg,
            format_args!(
                "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"0\" y2=\"{bottom}\"/><text x=\"{x:.1}\" \
                 y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                height - 8.0,
                text(tick)
            ),
        );
    }
    if let Some(x) = at.map(|value| scale.at(value)) {
        put(
            &mut svg,
            format_args!("<line class=\"frontier\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"0\" y2=\"{bottom}\"/>"),
        );
    }
    for (place, Dot { name, spread }) in dots.iter().enumerate() {
        let y = LINE * (place as f64 + 0.5);
        let [low, middle, high] = [spread.low, spread.median, spread.high].map(|value| scale.at(value));
        put(
            &mut svg,
            format_args!(
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text><line class=\"whisker s1\" x1=\"{low:.1}\" \
                 x2=\"{high:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/><circle class=\"mark s1\" cx=\"{middle:.1}\" cy=\"{y:.1}\" \
                 r=\"5\"><title>{}</title></circle>",
                NAMES - 10.0,
                y + 4.0,
                escape(name),
                text(spread.median)
            ),
        );
    }
    Some(svg + "</svg>")
}
