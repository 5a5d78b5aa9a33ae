//! The chart of latency hiding: speed-up over workers, beside the ideal.

use super::svg::{Scale, escape, mark, put};
use super::{HEIGHT, MARGIN, Series, WIDTH, frame, worker_counts};
use crate::harness::summary::Row;
use crate::text::{si, workers};

fn measure(row: &Row, wanted: &str) -> Option<f64> {
    let found = row.measures.iter().find(|(name, _)| name == wanted);
    found.map(|(_, value)| *value)
}

/// Speed-up over the classic with one worker, over workers; `None` if nothing was to be hidden.
///
/// The ideal is that of the contestant for which it is the greatest.
pub(super) fn over_workers(rows: &[Row], series: &[Series]) -> Option<String> {
    let counts = worker_counts(rows);
    let of = |count: usize, name: &'static str| {
        let rows = rows.iter().filter(move |row| row.workers == count);
        rows.filter_map(move |row| measure(row, name))
    };
    let ideal: Vec<Option<f64>> = counts
        .iter()
        .map(|count| of(*count, "ideal_speed_up").max_by(f64::total_cmp))
        .collect();
    let tops: Vec<f64> = rows
        .iter()
        .filter_map(|row| measure(row, "speed_up"))
        .chain(ideal.iter().flatten().copied())
        .collect();
    if tops.is_empty() {
        return None;
    }
    let x = Scale::exact(-0.5, counts.len() as f64 - 0.5, MARGIN.left, WIDTH - MARGIN.right);
    let y = Scale::linear(&tops, true, HEIGHT - MARGIN.bottom, MARGIN.top);
    let mut svg = frame(
        HEIGHT,
        &counts
            .iter()
            .enumerate()
            .map(|(at, count)| (x.at(at as f64), workers(*count)))
            .collect::<Vec<_>>(),
        &y.ticks(6)
            .into_iter()
            .map(|tick| (y.at(tick), si(tick)))
            .collect::<Vec<_>>(),
        "",
        "speed-up",
        "Speed-up over workers",
    );
    let line = |values: &mut dyn Iterator<Item = (usize, Option<f64>)>| -> Vec<String> {
        values
            .filter_map(|(at, value)| Some(format!("{:.1},{:.1}", x.at(at as f64), y.at(value?))))
            .collect()
    };
    put(
        &mut svg,
        format_args!(
            r#"<polyline class="frontier" points="{}"><title>ideal: nothing to wait for</title></polyline>"#,
            line(&mut ideal.into_iter().enumerate()).join(" ")
        ),
    );
    for one in series {
        let at_count = |count: usize| {
            let row = rows
                .iter()
                .find(|row| row.contestant == one.name && row.workers == count);
            row.and_then(|row| measure(row, "speed_up"))
        };
        let mut values = counts.iter().map(|count| at_count(*count)).enumerate();
        put(
            &mut svg,
            format_args!(
                r#"<polyline class="line thin {}" points="{}"/>"#,
                one.class,
                line(&mut values).join(" ")
            ),
        );
        for (at, count) in counts.iter().enumerate() {
            if let Some(value) = at_count(*count) {
                let title = format!("{}, {}: {}×", one.name, workers(*count), si(value));
                mark(
                    &mut svg,
                    at,
                    x.at(at as f64),
                    y.at(value),
                    &one.class,
                    &escape(&title),
                );
            }
        }
    }
    svg.push_str("</svg>");
    Some(svg)
}
