//! The tables of the report.

use super::chart::Series;
use super::svg::{escape, put};
use crate::frontier;
use crate::measured::Measured;
use crate::stats::Ratio;
use crate::summary::Row;
use crate::table::shown_measures;
use crate::text::{nanos, si, times};

/// The place of p99 among a row's latencies.
const P99: usize = 1;

/// The figures of all cells.
pub(super) fn figures(page: &Measured, series: &[Series]) -> String {
    let rows = &page.rows;
    let has_latency = rows.iter().any(|row| row.latency.is_some());
    let front = frontier::of_rows(rows);
    let measures = shown_measures(rows, has_latency);
    let mut html = String::from("<div class=\"wide\"><table><thead><tr><th>contestant<th>workers");
    let has_peers = rows.iter().any(|row| row.over_best_peer.is_some());
    put(
        &mut html,
        format_args!(
            "<th>{}/s<th>quartiles{}",
            escape(page.job.chosen.unit),
            if has_peers { "<th>× best peer" } else { "" }
        ),
    );
    if has_latency {
        html.push_str("<th>p50<th>p99<th>× best peer<th>p99.9<th>p99.99<th>max");
    }
    let has_policies = rows.iter().any(|row| row.over_best_policy.is_some());
    let has_policy_p99 = has_latency && rows.iter().any(|row| row.p99_over_best_policy.is_some());
    if has_policies {
        html.push_str("<th>× best policy");
    }
    if has_policy_p99 {
        html.push_str(if has_policies {
            "<th>× its p99"
        } else {
            "<th>× best p99"
        });
    }
    for measure in &measures {
        put(
            &mut html,
            format_args!("<th>{}", escape(&measure.replace('_', " "))),
        );
    }
    html.push_str("<th>runs<th class=\"text\">remarks</thead><tbody>");
    let mut workers = rows.first().map_or(0, |row| row.workers);
    for (at, row) in rows.iter().enumerate() {
        let gap = if row.workers == workers {
            ""
        } else {
            " class=\"gap\""
        };
        workers = row.workers;
        let star = if has_latency && front.contains(&at) {
            " <span class=\"star\" title=\"on the frontier\">◆</span>"
        } else {
            ""
        };
        put(
            &mut html,
            format_args!(
                "<tr{gap}><th><i class=\"key {}\"></i>{}{star}<td>{}",
                Series::class_of(series, &row.contestant),
                escape(&row.contestant),
                row.workers
            ),
        );
        match row.throughput {
            Some(spread) => put(
                &mut html,
                format_args!(
                    "<td>{}<td>{} – {}",
                    si(spread.median),
                    si(spread.low),
                    si(spread.high)
                ),
            ),
            None => html.push_str("<td>–<td>"),
        }
        if has_peers {
            put(&mut html, format_args!("<td>{}", ratio(row.over_best_peer)));
        }
        if has_latency {
            match row.latency {
                Some(latency) => {
                    for (at, spread) in latency.iter().enumerate() {
                        put(&mut html, format_args!("<td>{}", nanos(spread.median)));
                        if at == P99 {
                            put(&mut html, format_args!("<td>{}", ratio(row.p99_over_best_peer)));
                        }
                    }
                }
                None => html.push_str("<td><td><td><td><td><td>"),
            }
        }
        if has_policies {
            put(&mut html, format_args!("<td>{}", ratio(row.over_best_policy)));
        }
        if has_policy_p99 {
            put(&mut html, format_args!("<td>{}", ratio(row.p99_over_best_policy)));
        }
        for measure in &measures {
            let value = row.measure(measure).map_or_else(String::new, si);
            put(&mut html, format_args!("<td>{value}"));
        }
        put(
            &mut html,
            format_args!("<td>{}<td class=\"text\">{}", row.runs, escape(&remarks(row))),
        );
    }
    html.push_str("</tbody></table></div>");
    html
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
    let counted: Vec<&Row> = page.rows.iter().filter(|row| !row.counters.is_empty()).collect();
    // A counter that is 0 in all rows has no column.
    let mut names: Vec<&str> = Vec::new();
    for (name, value) in counted.iter().flat_map(|row| &row.counters) {
        if *value > 0.0 && !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    if names.is_empty() {
        return None;
    }
    let mut html = String::from("<div class=\"wide\"><table><thead><tr><th>policy<th>workers");
    for name in &names {
        put(&mut html, format_args!("<th>{}", escape(&name.replace('_', " "))));
    }
    html.push_str("</thead><tbody>");
    let mut workers = counted.first().map_or(0, |row| row.workers);
    for row in counted {
        let gap = if row.workers == workers {
            ""
        } else {
            " class=\"gap\""
        };
        workers = row.workers;
        put(
            &mut html,
            format_args!(
                "<tr{gap}><th><i class=\"key {}\"></i>{}<td>{}",
                Series::class_of(series, &row.contestant),
                escape(&row.contestant),
                row.workers
            ),
        );
        let operations = row.median_operations.max(1.0);
        for name in &names {
            let value = row
                .counters
                .iter()
                .find(|(other, _)| other == name)
                .map_or(0.0, |(_, value)| *value);
            let cell = if value == 0.0 {
                String::from("·")
            } else {
                si(value * 1000.0 / operations)
            };
            put(&mut html, format_args!("<td>{cell}"));
        }
    }
    html.push_str("</tbody></table></div>");
    Some(html)
}
