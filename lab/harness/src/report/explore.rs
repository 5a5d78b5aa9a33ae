//! The page of an exploration: advice, charts, tables, and how it was measured.

use super::chart::{Series, legend, worker_counts};
use super::page::{begin, machine, quoted};
use super::svg::escape;
use super::{lines, plane, speed_up, tables};
use crate::measured::Measured;
use crate::table;

/// The whole page: a part for each of these, which differ in a setting if there are several.
pub(crate) fn html(verb: &str, pages: &[Measured]) -> String {
    let Some(first) = pages.first() else {
        return String::new();
    };
    let (name, program) = (escape(&first.job.chosen.name), first.session.program);
    let command = format!("{program} {verb}");
    let lead = escape(&capitalised(first.job.chosen.workload.about().about));
    let mut html = begin(&command, &format!("{name} · {command}"), &name, &lead);
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
        *html += &format!(
            "<section><h2>Speed-up over latency</h2><p>Over one worker that is held by whatever it waits for. The dashed line is \
                 the ideal: the same work with nothing to wait for.</p>{}{charts}</section>",
            legend(&series, &[]),
        );
    }
}

/// Everything about one session.
fn part(html: &mut String, page: &Measured) {
    let series = Series::of(&page.rows);
    html.push_str("<p class=\"params\">");
    for (key, value) in page.job.chosen.params.iter() {
        *html += &format!("<code>{} = {value}</code>", escape(key));
    }
    for (name, value) in page.job.chosen.workload.facts(&page.job.template) {
        *html += &format!("<code>{name} = {}</code>", escape(&value));
    }
    html.push_str("</p>");
    if let Some(machine) = &page.session.simulated {
        *html += &format!(
            "<p class=\"warning\">Simulated, machine {}: every point of this page is a result of the model.</p>",
            escape(machine)
        );
    }
    if let Some(warning) = table::warning(page.session.others) {
        *html += &format!("<p class=\"warning\">{}</p>", escape(&warning));
    }
    if !page.advice.is_empty() {
        *html += &format!(
            "<section class=\"advice\"><p>{}</p></section>",
            quoted(&page.advice)
        );
    }
    if page.session.versions.profile != "release" {
        *html += &format!(
            "<p class=\"warning\">This is a {} build: its figures mean nothing.</p>",
            page.session.versions.profile
        );
    }
    charts(html, page, &series);
    *html += &format!(
        "<section><h2>Figures</h2>{}<p class=\"small\">Medians. ◆ marks the frontier.</p></section>",
        tables::figures(page, &series)
    );
    if let Some(table) = tables::counters(page, &series) {
        *html += &format!(
            "<section><h2>Scheduler counters</h2><p>Events per thousand {}.</p>{table}</section>",
            escape(page.job.chosen.unit)
        );
    }
    how(html, page);
}

fn charts(html: &mut String, page: &Measured, series: &[Series]) {
    let unit = page.job.chosen.unit;
    let counts = worker_counts(&page.rows);
    if let Some(plane) = plane::plane(&page.rows, series, unit) {
        *html += &format!(
            "<section><h2>Throughput against p99</h2>\
                 <p>Each mark is a contestant with a number of workers. Nothing measured lies below and to the right of the \
                 dashed frontier: what is on it is the best choice for some purpose.</p>{}{plane}</section>",
            legend(series, &counts)
        );
    }
    let curves: Vec<String> = counts
        .iter()
        .filter_map(|count| lines::percentiles(&page.rows, series, *count))
        .collect();
    if let (Some(what), false) = (page.job.chosen.workload.about().latency, curves.is_empty()) {
        *html += &format!(
            "<section><h2>Latency by percentile</h2><p>Latency is {}. Each step to the right is ten times rarer.</p>{}{}</section>",
            escape(what),
            legend(series, &[]),
            curves.concat()
        );
    }
    if let Some(chart) = speed_up::over_workers(&page.rows, series) {
        *html += &format!(
            "<section><h2>Speed-up over workers</h2><p>Over one worker that is held by whatever it waits for. The dashed line is \
                 the ideal: the same work with nothing to wait for.</p>{}{chart}</section>",
            legend(series, &[]),
        );
    }
    *html += &format!(
        "<section><h2>Throughput over workers</h2><p>Medians with quartiles.</p>{}{}</section>",
        legend(series, &[]),
        lines::over_workers(&page.rows, series, unit)
    );
}

/// The section on the method, the machine and the versions.
fn how(html: &mut String, page: &Measured) {
    html.push_str("<section class=\"how\"><h2>How this was measured</h2><ul>");
    for note in table::footnotes(&page.session, &page.rows)
        .iter()
        .chain(&page.notes)
    {
        *html += &format!("<li>{}</li>", escape(note));
    }
    html.push_str(
        "<li>Every run has a process of its own, does up to a tenth of its work beforehand unmeasured, and checks its result.</li>\
         <li>“No difference that this machine can show”: the 95 % interval of the median of the ratios within a round holds 1, or the difference is below 3 %. \
         The error of 5 % is shared by all pairs of policies. \
         “Both”: the smallest loss in the worse of the two, against the best throughput and the best p99 of the policies.</li></ul><dl>",
    );
    machine(html, &page.session.machine, &page.session.versions);
    *html += &format!(
        "<dt>command<dd><code>{}</code></dl></section>",
        escape(&page.job.command)
    );
}

/// The text with its first letter large.
fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters
        .next()
        .map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::{Job, SessionLimits};
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
        html(
            "explore",
            &[Measured {
                job: Job {
                    chosen,
                    template,
                    cells: Vec::new(),
                    limits: SessionLimits {
                        advises: true,
                        needed: 6,
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
            }],
        )
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
