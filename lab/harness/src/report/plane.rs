//! The throughput/p99 plane with its frontier.

use super::chart::{HEIGHT, MARGIN, Series, WIDTH, frame, worker_counts};
use super::lines::longest;
use super::svg::{Area, Scale, escape, mark, place_label};
use crate::frontier::{frontier, points};
use crate::summary::Row;
use crate::text::{nanos, si, workers};

/// Size of the labels.
const LABEL: f64 = 12.0;

/// The plane as SVG, or `None` if the workload has no latencies.
pub(super) fn plane(rows: &[Row], series: &[Series], unit: &str) -> Option<String> {
    let points = points(rows);
    let known: Vec<(f64, f64)> = points.iter().flatten().copied().collect();
    if known.is_empty() {
        return None;
    }
    let throughputs: Vec<f64> = known.iter().map(|point| point.0).collect();
    let latencies: Vec<f64> = known.iter().map(|point| point.1).collect();
    let x = Scale::linear(&throughputs, false, MARGIN.left, WIDTH - MARGIN.right);
    let y = Scale::log(&latencies, HEIGHT - MARGIN.bottom, MARGIN.top);
    let counts = worker_counts(rows);
    let front = frontier(&points);

    let mut svg = frame(
        HEIGHT,
        &x.ticks(7)
            .into_iter()
            .map(|tick| (x.at(tick), si(tick)))
            .collect::<Vec<_>>(),
        &y.ticks(8)
            .into_iter()
            .map(|tick| (y.at(tick), nanos(tick)))
            .collect::<Vec<_>>(),
        &format!("throughput, {unit}/s   (more is better →)"),
        "p99 latency   (less is better ↓)",
        "Throughput against p99 latency",
    );
    draw_frontier(
        &mut svg,
        &front.iter().filter_map(|at| points[*at]).collect::<Vec<_>>(),
        &x,
        &y,
    );
    let mut taken: Vec<Area> = known
        .iter()
        .map(|point| Area::of_mark(x.at(point.0), y.at(point.1)))
        .collect();
    for (row, point) in rows.iter().zip(&points) {
        let Some((throughput, p99)) = *point else { continue };
        let shape = counts.iter().position(|count| *count == row.workers).unwrap_or(0);
        let title = format!(
            "{}, {}: {} {unit}/s, p99 {}{}",
            row.contestant,
            workers(row.workers),
            si(throughput),
            nanos(p99),
            longest(row)
        );
        mark(
            &mut svg,
            shape,
            x.at(throughput),
            y.at(p99),
            Series::class_of(series, &row.contestant),
            &title,
        );
    }
    let inside = Area {
        sides: [
            MARGIN.left + 2.0,
            MARGIN.top + 2.0,
            WIDTH - MARGIN.right + 24.0,
            HEIGHT - MARGIN.bottom - 2.0,
        ],
    };
    // The frontier's labels first: the others take what room is left.
    let rest = (0..rows.len()).filter(|at| !front.contains(at));
    for at in front.iter().copied().chain(rest) {
        let Some((throughput, p99)) = points[at] else {
            continue;
        };
        let text = format!("{} · {}", rows[at].contestant, rows[at].workers);
        let place = place_label(&mut taken, &inside, (x.at(throughput), y.at(p99)), &text, LABEL);
        if let Some((left, base)) = place {
            let class = if front.contains(&at) {
                "label front"
            } else {
                "label"
            };
            svg += &format!(
                r#"<text class="{class}" x="{left:.1}" y="{base:.1}">{}</text>"#,
                escape(&text)
            );
        }
    }
    svg.push_str("</svg>");
    Some(svg)
}

/// The frontier as steps: nothing measured is below and to the right of it.
fn draw_frontier(svg: &mut String, front: &[(f64, f64)], x: &Scale, y: &Scale) {
    let (Some(first), Some(last)) = (front.first(), front.last()) else {
        return;
    };
    let mut path = format!("M{:.1} {:.1}", MARGIN.left, y.at(first.1));
    for pair in front.windows(2) {
        path += &format!("H{:.1}V{:.1}", x.at(pair[0].0), y.at(pair[1].1));
    }
    path += &format!("H{:.1}V{:.1}", x.at(last.0), MARGIN.top);
    *svg += &format!(r#"<path class="frontier" d="{path}"/>"#);
}
