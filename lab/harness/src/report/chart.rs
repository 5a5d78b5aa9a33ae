//! What all charts share: their size, their axes, the colours of the contestants and the legend.

use std::collections::BTreeSet;

use super::svg::{escape, mark};
use crate::summary::Row;
use crate::text::workers;

/// Width of a chart.
pub(super) const WIDTH: f64 = 960.0;
/// Height of a chart that is alone in its section.
pub(super) const HEIGHT: f64 = 470.0;
/// The room around the plot.
pub(super) const MARGIN: Margin = Margin {
    left: 84.0,
    right: 36.0,
    top: 14.0,
    bottom: 56.0,
};

/// Room on each side, in pixels.
pub(super) struct Margin {
    pub(super) left: f64,
    pub(super) right: f64,
    pub(super) top: f64,
    pub(super) bottom: f64,
}

/// A contestant with its colour.
pub(super) struct Series {
    pub(super) name: String,
    pub(super) class: String,
    pub(super) is_peer: bool,
}

impl Series {
    /// The contestants in order. Policies have colours, peers are grey.
    pub(super) fn of<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Vec<Self> {
        let mut series: Vec<Self> = Vec::new();
        let (mut policies, mut peers) = (0, 0);
        for row in rows {
            if series.iter().any(|one| one.name == row.contestant) {
                continue;
            }
            let (letter, number) = if row.is_policy {
                ("s", &mut policies)
            } else {
                ("p", &mut peers)
            };
            series.push(Self {
                name: row.contestant.clone(),
                class: format!("{letter}{}", *number % 7),
                is_peer: !row.is_policy,
            });
            *number += 1;
        }
        series
    }

    /// The class of a contestant.
    pub(super) fn class_of<'a>(series: &'a [Self], name: &str) -> &'a str {
        series
            .iter()
            .find(|one| one.name == name)
            .map_or("", |one| one.class.as_str())
    }
}

/// The worker counts that occur, rising.
pub(super) fn worker_counts<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Vec<usize> {
    let counts: BTreeSet<usize> = rows.into_iter().map(|row| row.workers).collect();
    counts.into_iter().collect()
}

/// An SVG element, begun: grid, ticks and the names of the axes. `x` and `y` are places and texts of the
/// ticks.
pub(super) fn frame(
    height: f64,
    x: &[(f64, String)],
    y: &[(f64, String)],
    x_name: &str,
    y_name: &str,
    title: &str,
) -> String {
    let mut svg = String::new();
    let (left, right, top, bottom) = (
        MARGIN.left,
        WIDTH - MARGIN.right,
        MARGIN.top,
        height - MARGIN.bottom,
    );
    svg += &format!(
        r#"<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{}">"#,
        escape(title)
    );
    for (place, text) in y {
        svg += &format!(r#"<path class="grid" d="M{left:.1} {place:.1}H{right:.1}"/>"#);
        svg += &format!(
            r#"<text class="tick" x="{:.1}" y="{:.1}" text-anchor="end">{}</text>"#,
            left - 10.0,
            place + 4.0,
            escape(text)
        );
    }
    for (place, text) in x {
        svg += &format!(r#"<path class="grid" d="M{place:.1} {top:.1}V{bottom:.1}"/>"#);
        svg += &format!(
            r#"<text class="tick" x="{place:.1}" y="{:.1}" text-anchor="middle">{}</text>"#,
            bottom + 20.0,
            escape(text)
        );
    }
    svg += &format!(r#"<path class="axis" d="M{left:.1} {top:.1}V{bottom:.1}H{right:.1}"/>"#);
    svg += &format!(
        r#"<text class="name" x="{:.1}" y="{:.1}" text-anchor="middle">{}</text>"#,
        (left + right) / 2.0,
        height - 12.0,
        escape(x_name)
    );
    svg += &format!(
        r#"<text class="name" transform="translate(16 {:.1}) rotate(-90)" text-anchor="middle">{}</text>"#,
        (top + bottom) / 2.0,
        escape(y_name)
    );
    svg
}

/// Colours, and shapes if worker counts are given.
pub(super) fn legend(series: &[Series], counts: &[usize]) -> String {
    let mut html = String::from("<ul class=\"legend\">");
    for one in series {
        let kind = if one.is_peer {
            " <span class=\"kind\">peer</span>"
        } else {
            ""
        };
        html += &format!(
            "<li><i class=\"key {}\"></i>{}{kind}</li>",
            one.class,
            escape(&one.name)
        );
    }
    for (shape, count) in counts.iter().enumerate() {
        let mut drawn = String::new();
        mark(&mut drawn, shape, 9.0, 9.0, "shape", "");
        html += &format!(
            "<li><svg class=\"shape\" viewBox=\"0 0 18 18\">{drawn}</svg>{}</li>",
            workers(*count)
        );
    }
    html.push_str("</ul>");
    html
}
