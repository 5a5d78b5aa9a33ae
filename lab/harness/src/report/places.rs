//! What charts over a few places share: worker counts, or latencies, side by side, and heights from 0.

use super::chart::{HEIGHT, MARGIN, WIDTH, frame};
use super::svg::Scale;
use crate::text::si;

/// A chart over places: its scales, and the SVG element, begun.
pub(super) struct Places {
    pub(super) x: Scale,
    pub(super) y: Scale,
    pub(super) svg: String,
}

impl Places {
    /// A chart over the places of these names, which is high enough for all `tops`.
    pub(super) fn new(names: &[String], tops: &[f64], y_name: &str, title: &str) -> Self {
        let x = Scale::exact(-0.5, names.len() as f64 - 0.5, MARGIN.left, WIDTH - MARGIN.right);
        let y = Scale::linear(tops, true, HEIGHT - MARGIN.bottom, MARGIN.top);
        let named = names.iter().enumerate();
        let svg = frame(
            HEIGHT,
            &named
                .map(|(at, name)| (x.at(at as f64), name.clone()))
                .collect::<Vec<_>>(),
            &y.ticks(6)
                .into_iter()
                .map(|tick| (y.at(tick), si(tick)))
                .collect::<Vec<_>>(),
            "",
            y_name,
            title,
        );
        Self { x, y, svg }
    }

    /// The point of a value, `shift` places beside its own place.
    pub(super) fn at(&self, place: usize, shift: f64, value: f64) -> (f64, f64) {
        (self.x.at(place as f64 + shift), self.y.at(value))
    }

    /// A line through such points.
    pub(super) fn line(&mut self, class: &str, points: &[(f64, f64)], inside: &str) {
        let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        self.svg += &format!(
            r#"<polyline class="{class}" points="{}">{inside}</polyline>"#,
            points.join(" ")
        );
    }

    /// The element, ended.
    pub(super) fn end(mut self) -> String {
        self.svg.push_str("</svg>");
        self.svg
    }
}
