//! The tables of the report.

use super::chart::Series;
use super::page::table;
use super::svg::escape;
use crate::frontier;
use crate::measured::Measured;
use crate::stats::Ratio;
use crate::summary::Row;
use crate::table::shown_measures;
use crate::text::{nanos, si, times};

/// The figures of all cells.
pub(super) fn figures(page: &Measured, series: &[Series]) -> String {
    let rows = &page.rows;
    let has_latency = rows.iter().any(|row| row.latency.is_some());
    let front = frontier::of_rows(rows);
    let measures = shown_measures(rows, has_latency);
    let has_peers = rows.iter().any(|row| row.over_best_peer.is_some());
    let has_policies = rows.iter().any(|row| row.over_best_policy.is_some());
    let has_policy_p99 = has_latency && rows.iter().any(|row| row.p99_over_best_policy.is_some());
    let mut headings = ["contestant", "workers"].map(String::from).to_vec();
    headings.push(format!("{}/s", page.job.chosen.unit));
    let policy_p99 = if has_policies { "× its p99" } else { "× best p99" };
    for (is_shown, names) in [
        (true, &["quartiles"][..]),
        (has_peers, &["× best peer"]),
        (
            has_latency,
            &["p50", "p99", "× best peer", "p99.9", "p99.99", "max"],
        ),
        (has_policies, &["× best policy"]),
        (has_policy_p99, &[policy_p99]),
    ] {
        let names = names.iter().filter(|_| is_shown);
        headings.extend(names.map(ToString::to_string));
    }
    headings.extend(measures.iter().map(|measure| measure.replace('_', " ")));
    headings.extend(["runs", "remarks"].map(String::from));
    let lines = rows.iter().enumerate().map(|(at, row)| {
        let star = if has_latency && front.contains(&at) {
            " <span class=\"star\" title=\"on the frontier\">◆</span>"
        } else {
            ""
        };
        let mut cells = vec![keyed(row, series) + star, row.workers.to_string()];
        match row.throughput {
            Some(spread) => cells.extend([
                si(spread.median),
                format!("{} – {}", si(spread.low), si(spread.high)),
            ]),
            None => cells.extend(["–", ""].map(String::from)),
        }
        if has_peers {
            cells.push(ratio(row.over_best_peer));
        }
        if has_latency {
            let times = row
                .latency
                .map(|latency| latency.map(|spread| nanos(spread.median)));
            let [p50, p99, rest @ ..] = times.unwrap_or_default();
            let over_peer = row.latency.and(row.p99_over_best_peer);
            cells.extend([p50, p99, ratio(over_peer)]);
            cells.extend(rest);
        }
        if has_policies {
            cells.push(ratio(row.over_best_policy));
        }
        if has_policy_p99 {
            cells.push(ratio(row.p99_over_best_policy));
        }
        let of = |measure: &String| row.measure(measure).map_or_else(String::new, si);
        cells.extend(measures.iter().map(of));
        cells.extend([row.runs.to_string(), escape(&remarks(row))]);
        (row.workers, cells)
    });
    table(&headings, &["remarks"], lines)
}

/// The contestant of a row, with the colour that it has in the charts.
fn keyed(row: &Row, series: &[Series]) -> String {
    let class = Series::class_of(series, &row.contestant);
    format!("<i class=\"key {class}\"></i>{}", escape(&row.contestant))
}

/// Everything a reader must know about a row.
fn remarks(row: &Row) -> String {
    let mut remarks = Vec::new();
    remarks.extend(row.remark.clone());
    if row.set_aside > 0 {
        remarks.push(format!("{} set aside", row.set_aside));
    }
    remarks.extend(
        row.failure
            .as_ref()
            .map(|reason| format!("did not complete: {reason}")),
    );
    remarks.join("; ")
}

/// A ratio, with a tilde if the pairs do not show that it is not 1.
fn ratio(ratio: Option<Ratio>) -> String {
    let Some(ratio) = ratio else { return String::new() };
    let interval = ratio.interval.map_or_else(
        || format!("{} pairs: too few for an interval", ratio.pairs),
        |(low, high)| {
            format!(
                "95 % interval {} – {}, {} pairs",
                times(low),
                times(high),
                ratio.pairs
            )
        },
    );
    let mark = if ratio.is_shown() { "" } else { "~" };
    format!("<span title=\"{interval}\">{mark}{}</span>", times(ratio.median))
}

/// The counters of the policies per thousand operations; nothing if no contestant has any.
pub(super) fn counters(page: &Measured, series: &[Series]) -> Option<String> {
    let counted = page.rows.iter().filter(|row| !row.counters.is_empty());
    let rows: Vec<_> = counted
        .map(|row| {
            let cells = vec![keyed(row, series), row.workers.to_string()];
            let per_thousand = 1000.0 / row.median_operations.max(1.0);
            (row.workers, cells, row.counters.as_slice(), per_thousand)
        })
        .collect();
    counter_table(&["policy", "workers"], &rows)
}

/// A row of a table of counters: its group, its first cells, its counters, and what they are multiplied by.
type CounterRow<'a> = (usize, Vec<String>, &'a [(String, f64)], f64);

/// A table of counters. One that is 0 in all rows has no column. Nothing if none is left.
pub(super) fn counter_table(headings: &[&str], rows: &[CounterRow<'_>]) -> Option<String> {
    let mut names: Vec<&str> = Vec::new();
    for (name, value) in rows.iter().flat_map(|(_, _, counters, _)| *counters) {
        if *value > 0.0 && !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    if names.is_empty() {
        return None;
    }
    let counters = names.iter().map(|name| name.replace('_', " "));
    let headings: Vec<String> = headings.iter().map(ToString::to_string).chain(counters).collect();
    let rows = rows.iter().map(|(group, first, counters, factor)| {
        let cells = names.iter().map(|name| {
            let found = counters.iter().find(|(other, _)| other == name);
            match found {
                Some((_, value)) if *value != 0.0 => si(value * factor),
                _ => String::from("·"),
            }
        });
        (*group, first.iter().cloned().chain(cells).collect())
    });
    Some(table(&headings, &[], rows))
}
