//! The charts of latency hiding: speed-up over workers, and over latency, beside the ideal.

use super::chart::{Series, worker_counts};
use super::places::Places;
use super::svg::mark;
use crate::measured::Measured;
use crate::summary::Row;
use crate::text::{si, workers};

/// One place of a chart, with its rows.
struct Group<'a> {
    name: String,
    rows: Vec<&'a Row>,
}

/// Speed-up over the classic with one worker, over workers; `None` if nothing was to be hidden.
pub(super) fn over_workers(rows: &[Row], series: &[Series]) -> Option<String> {
    let counts = worker_counts(rows);
    let places = counts.iter().map(|count| Group {
        name: workers(*count),
        rows: rows.iter().filter(|row| row.workers == *count).collect(),
    });
    chart(&places.collect::<Vec<_>>(), series, "Speed-up over workers")
}

/// The same over what each item waited, for this number of workers. Waits of nothing have no speed-up.
pub(super) fn over_latency(
    pages: &[Measured],
    over: &str,
    series: &[Series],
    count: usize,
) -> Option<String> {
    let mut waits: Vec<(u64, &Measured)> = pages
        .iter()
        .map(|page| (page.job.chosen.params.number(over), page))
        .filter(|(wait, _)| *wait > 0)
        .collect();
    waits.sort_by_key(|(wait, _)| *wait);
    let places = waits.iter().map(|(wait, page)| Group {
        name: format!("{wait} ms"),
        rows: page.rows.iter().filter(|row| row.workers == count).collect(),
    });
    let title = format!("Speed-up over latency, {}", workers(count));
    chart(&places.collect::<Vec<_>>(), series, &title)
}

/// Speed-ups at some places; `None` if there are none. The ideal is that of the contestant for which it is
/// the greatest.
fn chart(places: &[Group<'_>], series: &[Series], title: &str) -> Option<String> {
    let ideals = places.iter().map(|place| {
        let ideals = place.rows.iter().filter_map(|row| row.measure("ideal_speed_up"));
        ideals.max_by(f64::total_cmp)
    });
    let ideals: Vec<Option<f64>> = ideals.collect();
    let all = places.iter().flat_map(|place| &place.rows);
    let tops: Vec<f64> = all
        .filter_map(|row| row.measure("speed_up"))
        .chain(ideals.iter().flatten().copied())
        .collect();
    if tops.is_empty() {
        return None;
    }
    let names: Vec<String> = places.iter().map(|place| place.name.clone()).collect();
    let mut chart = Places::new(&names, &tops, "speed-up", title);
    let ideal: Vec<(f64, f64)> = ideals
        .iter()
        .enumerate()
        .filter_map(|(at, ideal)| Some(chart.at(at, 0.0, (*ideal)?)))
        .collect();
    chart.line("frontier", &ideal, "<title>ideal: nothing to wait for</title>");
    for one in series {
        let speed_up = |place: &Group<'_>| {
            let row = place.rows.iter().find(|row| row.contestant == one.name)?;
            row.measure("speed_up")
        };
        let found: Vec<(usize, f64)> = places
            .iter()
            .enumerate()
            .filter_map(|(at, place)| Some((at, speed_up(place)?)))
            .collect();
        let points: Vec<(f64, f64)> = found
            .iter()
            .map(|(at, value)| chart.at(*at, 0.0, *value))
            .collect();
        chart.line(&format!("line thin {}", one.class), &points, "");
        for ((at, value), (x, y)) in found.iter().zip(points) {
            let title = format!("{}, {}: {}×", one.name, names[*at], si(*value));
            mark(&mut chart.svg, *at, x, y, &one.class, &title);
        }
    }
    Some(chart.end())
}
