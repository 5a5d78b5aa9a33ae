//! The reports of an exploration and of a comparison: one HTML file that needs nothing else, not even a
//! script.
//!
//! ```text
//!  mod.rs     the page            svg.rs       scales, ticks, marks, labels
//!  tables.rs  figures, counters   plane.rs     throughput against p99
//!  style.css  light and dark      lines.rs     latency by percentile, throughput over workers
//!                                 speed_up.rs  speed-up beside the ideal, over workers and latency
//!                                 places.rs    what charts over workers, or latencies, have in common
//!  compare.rs the other page
//! ```

use crate::explore::table;
use crate::measured::Measured;
use crate::session::Session;
use crate::summary::Row;
use crate::text::workers;

pub(crate) mod compare;
mod lines;
mod places;
mod plane;
mod speed_up;
mod svg;
mod tables;

use svg::{escape, put};

/// How the pages look.
const STYLE: &str = include_str!("style.css");
/// Width of a chart.
const WIDTH: f64 = 960.0;
/// Height of a chart that stands alone.
const HEIGHT: f64 = 470.0;
/// The room around the plot.
const MARGIN: Margin = Margin {
    left: 84.0,
    right: 36.0,
    top: 14.0,
    bottom: 56.0,
};

/// Room on each side, in pixels.
struct Margin {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

/// A contestant with its colour.
struct Series {
    name: String,
    class: String,
    is_peer: bool,
}

impl Series {
    /// The contestants in order. Policies have colours, peers are grey.
    fn of<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Vec<Self> {
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
    fn class_of<'a>(series: &'a [Self], name: &str) -> &'a str {
        series
            .iter()
            .find(|one| one.name == name)
            .map_or("", |one| one.class.as_str())
    }
}

/// The worker counts that occur, rising.
fn worker_counts<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Vec<usize> {
    let counts: std::collections::BTreeSet<usize> = rows.into_iter().map(|row| row.workers).collect();
    counts.into_iter().collect()
}

/// An SVG element, begun: grid, ticks and the names of the axes. `x` and `y` are places and texts of the
/// ticks.
fn frame(
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
    put(
        &mut svg,
        format_args!(
            r#"<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{}">"#,
            escape(title)
        ),
    );
    for (place, text) in y {
        put(
            &mut svg,
            format_args!(r#"<path class="grid" d="M{left:.1} {place:.1}H{right:.1}"/>"#),
        );
        put(
            &mut svg,
            format_args!(
                r#"<text class="tick" x="{:.1}" y="{:.1}" text-anchor="end">{}</text>"#,
                left - 10.0,
                place + 4.0,
                escape(text)
            ),
        );
    }
    for (place, text) in x {
        put(
            &mut svg,
            format_args!(r#"<path class="grid" d="M{place:.1} {top:.1}V{bottom:.1}"/>"#),
        );
        put(
            &mut svg,
            format_args!(
                r#"<text class="tick" x="{place:.1}" y="{:.1}" text-anchor="middle">{}</text>"#,
                bottom + 20.0,
                escape(text)
            ),
        );
    }
    put(
        &mut svg,
        format_args!(r#"<path class="axis" d="M{left:.1} {top:.1}V{bottom:.1}H{right:.1}"/>"#),
    );
    put(
        &mut svg,
        format_args!(
            r#"<text class="name" x="{:.1}" y="{:.1}" text-anchor="middle">{}</text>"#,
            (left + right) / 2.0,
            height - 12.0,
            escape(x_name)
        ),
    );
    put(
        &mut svg,
        format_args!(
            r#"<text class="name" transform="translate(16 {:.1}) rotate(-90)" text-anchor="middle">{}</text>"#,
            (top + bottom) / 2.0,
            escape(y_name)
        ),
    );
    svg
}

/// The whole page: a part for each of these, which differ in a setting if there are several.
pub(crate) fn html(pages: &[Measured]) -> String {
    let Some(first) = pages.first() else {
        return String::new();
    };
    let (name, program) = (escape(&first.job.chosen.name), first.session.program);
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <title>{name} · {program} explore</title><style>{}</style></head><body><main>\
         <header><p class=\"over\">{program} explore</p><h1>{name}</h1><p class=\"lead\">{}.</p></header>",
        STYLE,
        escape(&capitalised(first.job.chosen.workload.about().about)),
    );
    over_latency(&mut html, pages);
    for page in pages {
        part(&mut html, page);
    }
    html.push_str("</main></body></html>\n");
    html
}

/// The charts that need more than one part: what is hidden, by how long it takes.
fn over_latency(html: &mut String, pages: &[Measured]) {
    let Some(over) = pages
        .first()
        .and_then(|page| page.job.chosen.workload.about().speed_up_over)
    else {
        return;
    };
    if pages.len() < 2 {
        return;
    }
    let rows = || pages.iter().flat_map(|page| &page.rows);
    let series = Series::of(rows());
    let charts: String = worker_counts(rows())
        .into_iter()
        .filter_map(|count| speed_up::over_latency(pages, over, &series, count))
        .collect();
    if !charts.is_empty() {
        put(
            html,
            format_args!(
                "<section><h2>Speed-up over latency</h2><p>Over one worker that is held by whatever it waits for. The dashed line is \
                 the ideal: the same work with nothing to wait for.</p>{}{charts}</section>",
                legend(&series, &[]),
            ),
        );
    }
}

/// Everything about one session.
fn part(html: &mut String, page: &Measured) {
    let series = Series::of(&page.rows);
    html.push_str("<p class=\"params\">");
    for (key, value) in page.job.chosen.params.iter() {
        put(html, format_args!("<code>{} = {value}</code>", escape(key)));
    }
    for (name, value) in page.job.chosen.workload.facts(&page.job.template) {
        put(html, format_args!("<code>{name} = {}</code>", escape(&value)));
    }
    put(
        html,
        format_args!(
            "</p><section class=\"advice\"><p>{}</p></section>",
            quoted(&page.advice)
        ),
    );
    if page.session.versions.profile != "release" {
        put(
            html,
            format_args!(
                "<p class=\"warning\">This is a {} build: its figures mean nothing.</p>",
                page.session.versions.profile
            ),
        );
    }
    charts(html, page, &series);
    put(
        html,
        format_args!(
            "<section><h2>Figures</h2>{}<p class=\"small\">Medians. ◆ marks the frontier.</p></section>",
            tables::figures(page, &series)
        ),
    );
    if let Some(table) = tables::counters(page, &series) {
        put(
            html,
            format_args!(
                "<section><h2>Scheduler counters</h2><p>Events per thousand {}.</p>{table}</section>",
                escape(page.job.chosen.unit)
            ),
        );
    }
    how(html, page);
}

fn charts(html: &mut String, page: &Measured, series: &[Series]) {
    let unit = page.job.chosen.unit;
    let counts = worker_counts(&page.rows);
    if let Some(plane) = plane::plane(&page.rows, series, unit) {
        put(
            html,
            format_args!(
                "<section><h2>Throughput against p99</h2>\
                 <p>Each mark is a contestant with a number of workers. Nothing measured lies below and to the right of the \
                 dashed frontier: what is on it is the best choice for somebody.</p>{}{plane}</section>",
                legend(series, &counts)
            ),
        );
    }
    let curves: Vec<String> = counts
        .iter()
        .filter_map(|count| lines::percentiles(&page.rows, series, *count))
        .collect();
    if let (Some(what), false) = (page.job.chosen.workload.about().latency, curves.is_empty()) {
        put(
            html,
            format_args!(
                "<section><h2>Latency by percentile</h2><p>Latency is {}. Each step to the right is ten times rarer.</p>{}{}</section>",
                escape(what),
                legend(series, &[]),
                curves.concat()
            ),
        );
    }
    if let Some(chart) = speed_up::over_workers(&page.rows, series) {
        put(
            html,
            format_args!(
                "<section><h2>Speed-up over workers</h2><p>Over one worker that is held by whatever it waits for. The dashed line is \
                 the ideal: the same work with nothing to wait for.</p>{}{chart}</section>",
                legend(series, &[]),
            ),
        );
    }
    put(
        html,
        format_args!(
            "<section><h2>Throughput over workers</h2><p>Medians with quartiles.</p>{}{}</section>",
            legend(series, &[]),
            lines::over_workers(&page.rows, series, unit)
        ),
    );
}

/// Colours, and shapes if worker counts are given.
fn legend(series: &[Series], counts: &[usize]) -> String {
    let mut html = String::from("<ul class=\"legend\">");
    for one in series {
        let kind = if one.is_peer {
            " <span class=\"kind\">peer</span>"
        } else {
            ""
        };
        put(
            &mut html,
            format_args!(
                "<li><i class=\"key {}\"></i>{}{kind}</li>",
                one.class,
                escape(&one.name)
            ),
        );
    }
    for (shape, count) in counts.iter().enumerate() {
        let mut drawn = String::new();
        svg::mark(&mut drawn, shape, 9.0, 9.0, "shape", "");
        put(
            &mut html,
            format_args!(
                "<li><svg class=\"shape\" viewBox=\"0 0 18 18\">{drawn}</svg>{}</li>",
                workers(*count)
            ),
        );
    }
    html.push_str("</ul>");
    html
}

/// Where, with what, and how it was measured.
fn how(html: &mut String, page: &Measured) {
    html.push_str("<section class=\"how\"><h2>How this was measured</h2><ul>");
    for note in table::footnotes(&page.session, &page.rows)
        .iter()
        .chain(&page.notes)
    {
        put(html, format_args!("<li>{}</li>", escape(note)));
    }
    html.push_str(
        "<li>Every run has a process of its own, does up to a tenth of its work beforehand unmeasured, and checks its result.</li>\
         <li>“No difference that this machine can show”: the 95 % interval of the median of the ratios within a round holds 1. \
         “Both”: the smallest loss in the worse of the two, against the best throughput and the best p99 of the policies.</li></ul><dl>",
    );
    machine(html, &page.session);
    put(
        html,
        format_args!(
            "<dt>command<dd><code>{}</code></dl></section>",
            escape(&page.job.command)
        ),
    );
}

/// The machine and the versions, for the list at the end of a page.
fn machine(html: &mut String, session: &Session) {
    let Session {
        machine, versions, ..
    } = session;
    let mut fact = |name: &str, value: &str| put(html, format_args!("<dt>{name}<dd>{}", escape(value)));
    fact(
        "machine",
        &format!(
            "{}, {} CPUs, {} MiB",
            machine.processor, machine.cpus, machine.memory_mib
        ),
    );
    fact("system", &format!("{}, {}", machine.system, machine.architecture));
    fact(
        "compiler",
        &format!("{}, {} build", versions.rustc, versions.profile),
    );
    fact("allocator", &versions.allocator);
    let peers = versions
        .peers
        .iter()
        .map(|(name, version)| format!("{name} {version}"));
    fact("contestants", &peers.collect::<Vec<_>>().join(", "));
}

/// The text with its first letter large.
fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters
        .next()
        .map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// Escaped, with what stands between backticks as code.
fn quoted(text: &str) -> String {
    text.split('`')
        .enumerate()
        .map(|(at, part)| {
            if at % 2 == 1 {
                format!("<code>{}</code>", escape(part))
            } else {
                escape(part)
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Job;
    use crate::session::Pace;
    use crate::summary::{
        rows,
        tests::{Contestant, session},
    };
    use crate::testing::chosen;
    use std::time::Duration;

    fn page(workload: &str, contestants: &[Contestant<'_>], strip: bool) -> String {
        let mut session = session(contestants);
        if strip {
            for record in session.cells.iter_mut().flat_map(|cell| &mut cell.records) {
                record.outcome.latency = None;
            }
        }
        let chosen = chosen(workload, true, &[]).unwrap();
        let template = session.cells[0].request.clone();
        html(&[Measured {
            job: Job {
                chosen,
                template,
                cells: Vec::new(),
                pace: Pace {
                    rounds: 1,
                    budget: None,
                    limit: Duration::MAX,
                    in_process: true,
                },
                command: String::from("lab explore \"x\""),
            },
            rows: rows(&session),
            session,
            advice: String::from("Take `lifo` <now>."),
            notes: vec![String::from("go is left out")],
        }])
    }

    const STEADY: [f64; 6] = [1.0e6; 6];

    #[test]
    fn the_page_is_whole_and_needs_nothing_else() {
        let html = page(
            "packet",
            &[
                ("warpweft", Some("fifo"), 1, &STEADY, 10),
                ("warpweft", Some("lifo"), 2, &STEADY, 20),
                ("rayon", None, 2, &STEADY, 30),
            ],
            false,
        );
        for part in [
            "Throughput against p99",
            "Latency by percentile",
            "Throughput over workers",
            "Figures",
            "frontier",
        ] {
            assert!(html.contains(part), "{part} is missing");
        }
        assert!(
            html.contains("<code>lifo</code> &lt;now&gt;"),
            "advice is quoted and escaped"
        );
        for foreign in ["<script", "http://", "https://", "src=", "@import", "url("] {
            assert!(
                !html.contains(foreign),
                "{foreign} makes the page depend on something"
            );
        }
        assert_eq!(html.matches("<svg").count(), html.matches("</svg>").count());
        assert!(!html.contains("NaN") && !html.contains("inf"));
    }

    #[test]
    fn workloads_without_latencies_have_a_page_too() {
        let html = page("spawn", &[("warpweft", Some("fifo"), 1, &STEADY, 10)], true);
        assert!(!html.contains("Throughput against p99") && html.contains("Throughput over workers"));
        assert!(!html.contains("NaN"));
    }
}
