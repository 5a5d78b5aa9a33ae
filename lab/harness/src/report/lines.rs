//! The charts of lines: latency by percentile, and throughput over workers.

use super::chart::{MARGIN, Series, WIDTH, frame, worker_counts};
use super::places::Places;
use super::svg::{Scale, escape, mark};
use crate::summary::Row;
use crate::text::{nanos, si, workers};

/// Charts of which there are several are less high.
const LOW: f64 = 340.0;
/// The last percentile that is drawn.
const LAST: f64 = 0.9999;

/// Percentiles that have a tick.
const PERCENTILES: [(f64, &str); 6] = [
    (0.0, "0"),
    (0.5, "50 %"),
    (0.9, "90 %"),
    (0.99, "99 %"),
    (0.999, "99.9 %"),
    (LAST, "99.99 %"),
];

/// The place of a share: each nine has the same width.
fn nines(share: f64) -> f64 {
    -(1.0 - share).max(1e-12).log10()
}

/// Latency by percentile, for the rows with this many workers; `None` if there are no latencies.
pub(super) fn percentiles(rows: &[Row], series: &[Series], count: usize) -> Option<String> {
    let drawn = |row: &&Row| row.workers == count && !row.curve.is_empty();
    let visible = |row: &Row| {
        row.curve
            .iter()
            .copied()
            .filter(|(share, _)| *share <= LAST)
            .collect::<Vec<_>>()
    };
    // All charts share one scale: they are there to be compared.
    let values: Vec<f64> = rows.iter().flat_map(visible).map(|(_, value)| value).collect();
    rows.iter().find(drawn)?;
    let x = Scale::exact(0.0, nines(LAST), MARGIN.left, WIDTH - MARGIN.right);
    let y = Scale::log(&values, LOW - MARGIN.bottom, MARGIN.top);
    let mut svg = frame(
        LOW,
        &PERCENTILES.map(|(share, name)| (x.at(nines(share)), name.to_owned())),
        &y.ticks(7)
            .into_iter()
            .map(|tick| (y.at(tick), nanos(tick)))
            .collect::<Vec<_>>(),
        &format!("share of the packets that were no slower, {}", workers(count)),
        "latency",
        &format!("Latency by percentile, {}", workers(count)),
    );
    for row in rows.iter().filter(drawn) {
        let points: Vec<String> = visible(row)
            .into_iter()
            .map(|(share, value)| format!("{:.1},{:.1}", x.at(nines(share)), y.at(value)))
            .collect();
        svg += &format!(
            r#"<polyline class="line {}" points="{}"><title>{}</title></polyline>"#,
            Series::class_of(series, &row.contestant),
            points.join(" "),
            escape(&format!("{}{}", row.contestant, longest(row)))
        );
    }
    svg.push_str("</svg>");
    Some(svg)
}

/// The longest wait of a row, for what a pointer shows; nothing if it has no latencies.
pub(super) fn longest(row: &Row) -> String {
    row.latency
        .map_or_else(String::new, |[.., max]| format!(", max {}", nanos(max.median)))
}

/// Throughput over workers, with quartiles.
pub(super) fn over_workers(rows: &[Row], series: &[Series], unit: &str) -> String {
    let counts = worker_counts(rows);
    let tops: Vec<f64> = rows
        .iter()
        .filter_map(|row| row.throughput)
        .map(|spread| spread.high)
        .collect();
    let names: Vec<String> = counts.iter().map(|count| workers(*count)).collect();
    let mut chart = Places::new(
        &names,
        &tops,
        &format!("throughput, {unit}/s"),
        "Throughput over workers",
    );
    // Contestants are drawn side by side within a worker count, so that their quartiles do not hide each
    // other.
    let step = 0.6 / series.len().max(1) as f64;
    for (number, one) in series.iter().enumerate() {
        let shift = (number as f64 - (series.len() as f64 - 1.0) / 2.0) * step;
        let mut points = Vec::new();
        let mut marks = String::new();
        for (at, count) in counts.iter().enumerate() {
            let row = rows
                .iter()
                .find(|row| row.contestant == one.name && row.workers == *count);
            let Some(spread) = row.and_then(|row| row.throughput) else {
                continue;
            };
            let (left, middle) = chart.at(at, shift, spread.median);
            points.push((left, middle));
            marks += &format!(
                r#"<path class="whisker {}" d="M{left:.1} {:.1}V{:.1}"/>"#,
                one.class,
                chart.y.at(spread.low),
                chart.y.at(spread.high)
            );
            let title = format!(
                "{}, {}: {} {unit}/s (quartiles {} – {})",
                one.name,
                names[at],
                si(spread.median),
                si(spread.low),
                si(spread.high)
            );
            mark(&mut marks, at, left, middle, &one.class, &title);
        }
        chart.line(&format!("line thin {}", one.class), &points, "");
        chart.svg.push_str(&marks);
    }
    chart.end()
}
