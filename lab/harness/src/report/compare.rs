//! The page of a comparison: a section for each line, with medians, quartiles, extremes and scalability, and
//! what was published.

use super::chart::{Series, legend, worker_counts};
use super::dots::{self, Dot};
use super::lines;
use super::page::{begin, machine};
use super::svg::{escape, put};
use crate::measured::Measured;
use crate::plan::{Comparison, Published};
use crate::summary::{Row, throughput};
use crate::table::{footnotes, shown_measures, warning};
use crate::text::{nanos, si, workers};

/// A line that was measured.
pub(crate) struct MeasuredLine {
    /// The line.
    pub(crate) line: Comparison,
    /// Its runs and their figures.
    pub(crate) measured: Measured,
}

/// The whole page.
pub(crate) fn html(compared: &[MeasuredLine], unmeasured: &[&str], command: &str) -> String {
    let program = compared.first().map_or("lab", |one| one.measured.session.program);
    let command_name = format!("{program} compare");
    let lead =
        "Who switches fastest, who is served least, and who waits for ever. Policies first, then the peers";
    let mut html = begin(&command_name, &command_name, "Schedulers, side by side", lead);
    if compared
        .iter()
        .any(|one| one.measured.session.versions.profile != "release")
    {
        html.push_str("<p class=\"warning\">This is a debug build: its figures mean nothing.</p>");
    }
    for (at, one) in compared.iter().enumerate() {
        section(&mut html, one);
        // Once, behind the last line that it is about.
        let Some(published) = one.line.published else {
            continue;
        };
        let later = &compared[at + 1..];
        let again = later.iter().filter_map(|other| other.line.published);
        if !again.into_iter().any(|other| other.source == published.source) {
            beside(&mut html, published);
        }
    }
    if !unmeasured.is_empty() {
        put(
            &mut html,
            format_args!(
                "<section><h2>Not measured</h2><p>The time was up before: {}.</p></section>",
                escape(&unmeasured.join(", "))
            ),
        );
    }
    html.push_str(
        "<section class=\"how\"><h2>How this was measured</h2><ul>\
         <li>Every run has a process of its own and checks its result. Contestants take turns within a round; the first round does not \
         count.</li>\
         <li>Extremes are the slowest and the fastest run. “Workers ÷ throughput” is the time of one operation on one worker: the same for \
         all worker counts where a runtime scales perfectly. “Least” is what the least served task, or ring, had over the mean.</li>\
         <li>What was published was measured on other machines by its authors.</li></ul><dl>",
    );
    if let Some(first) = compared.first() {
        let session = &first.measured.session;
        machine(&mut html, &session.machine, &session.versions);
    }
    put(
        &mut html,
        format_args!(
            "<dt>command<dd><code>{}</code></dl></section></main></body></html>\n",
            escape(command)
        ),
    );
    html
}

/// One line: its table, and how it went.
fn section(html: &mut String, one: &MeasuredLine) {
    put(
        html,
        format_args!(
            "<section><h2>{}</h2><p>{}.</p><p class=\"params\">",
            escape(one.line.name),
            escape(one.measured.job.chosen.workload.about().about)
        ),
    );
    for (key, value) in one.measured.job.chosen.params.iter() {
        put(html, format_args!("<code>{} = {value}</code>", escape(key)));
    }
    html.push_str("</p>");
    if let Some(warning) = warning(one.measured.session.others) {
        put(
            html,
            format_args!("<p class=\"warning\">{}</p>", escape(&warning)),
        );
    }
    charts(html, one);
    figures(html, one);
    html.push_str("<p class=\"small\">");
    for note in footnotes(&one.measured.session, &one.measured.rows)
        .iter()
        .chain(&one.measured.notes)
    {
        put(html, format_args!("{} ", escape(note)));
    }
    html.push_str("</p></section>");
}

/// Throughput with its quartiles, for each number of workers, and over them if there are several.
fn charts(html: &mut String, one: &MeasuredLine) {
    let (rows, unit) = (&one.measured.rows, one.measured.job.chosen.unit);
    let counts = worker_counts(rows);
    if counts.len() > 1 {
        let series = Series::of(rows);
        put(
            html,
            format_args!(
                "{}{}",
                legend(&series, &[]),
                lines::over_workers(rows, &series, unit)
            ),
        );
    }
    for count in counts {
        let drawn = rows.iter().filter(|row| row.workers == count);
        let dots: Vec<Dot> = drawn
            .filter_map(|row| {
                let (name, spread) = (row.title(), row.throughput?);
                Some(Dot { name, spread })
            })
            .collect();
        if let Some(chart) = dots::chart(&dots, None, |value| format!("{}/s", si(value))) {
            put(
                html,
                format_args!(
                    "<p class=\"small\">{}/s, {}</p>{chart}",
                    escape(unit),
                    workers(count)
                ),
            );
        }
    }
}

/// Measures that have their own column already.
const ELSEWHERE: &str = "workers_over_throughput_ns";

fn figures(html: &mut String, one: &MeasuredLine) {
    let rows = &one.measured.rows;
    let latency = rows.iter().any(|row| row.latency.is_some());
    let mut measures = shown_measures(rows, latency);
    measures.retain(|name| name != ELSEWHERE);
    put(
        html,
        format_args!(
            "<div class=\"wide\"><table><thead><tr><th>contestant<th>workers<th>{}/s<th>quartiles<th>extremes<th>workers ÷ throughput\
             <th>time of a run",
            escape(one.measured.job.chosen.unit)
        ),
    );
    if latency {
        html.push_str("<th>p50<th>p99<th>max");
    }
    for measure in &measures {
        put(html, format_args!("<th>{}", escape(&measure.replace('_', " "))));
    }
    html.push_str("<th>runs<th class=\"text\">remarks</thead><tbody>");
    let mut workers = rows.first().map_or(0, |row| row.workers);
    for (row, cell) in rows.iter().zip(&one.measured.session.cells) {
        let gap = if row.workers == workers {
            ""
        } else {
            " class=\"gap\""
        };
        workers = row.workers;
        put(
            html,
            format_args!("<tr{gap}><th>{}<td>{}", escape(&row.title()), row.workers),
        );
        speed(html, row, &cell.sample(throughput));
        if latency {
            for at in [0, 1, 4] {
                let figure = row.latency.map(|latency| nanos(latency[at].median));
                put(html, format_args!("<td>{}", figure.unwrap_or_default()));
            }
        }
        for measure in &measures {
            let value = row.measure(measure).map_or_else(String::new, si);
            put(html, format_args!("<td>{value}"));
        }
        put(
            html,
            format_args!("<td>{}<td class=\"text\">{}", row.runs, escape(&remarks(row))),
        );
    }
    html.push_str("</tbody></table></div>");
}

/// Throughput in its four columns, and how long a run took.
fn speed(html: &mut String, row: &Row, runs: &[f64]) {
    let Some(spread) = row.throughput.filter(|spread| spread.median > 0.0) else {
        html.push_str("<td>–<td><td><td><td>");
        return;
    };
    let least = runs.iter().copied().fold(f64::INFINITY, f64::min);
    let most = runs.iter().copied().fold(0.0, f64::max);
    put(
        html,
        format_args!(
            "<td>{}<td>{} – {}<td>{} – {}<td>{}<td>{}",
            si(spread.median),
            si(spread.low),
            si(spread.high),
            si(least),
            si(most),
            nanos(row.workers as f64 / spread.median * 1e9),
            nanos(row.median_operations / spread.median * 1e9),
        ),
    );
}

fn remarks(row: &Row) -> String {
    let failure = row
        .failure
        .as_ref()
        .map(|reason| format!("did not complete: {reason}"));
    let remarks: Vec<String> = row.remark.clone().into_iter().chain(failure).collect();
    remarks.join("; ")
}

/// The section with what was published.
fn beside(html: &mut String, published: &Published) {
    put(
        html,
        format_args!("<section><h2>Published</h2><p>{}.</p>", escape(published.source)),
    );
    if !published.columns.is_empty() {
        html.push_str("<div class=\"wide\"><table><thead><tr><th>");
        for column in published.columns {
            put(html, format_args!("<th>{}", escape(column)));
        }
        html.push_str("</thead><tbody>");
        for (name, figures) in published.rows {
            put(html, format_args!("<tr><th>{}", escape(name)));
            for figure in *figures {
                put(html, format_args!("<td>{}", escape(figure)));
            }
        }
        html.push_str("</tbody></table></div>");
    }
    put(
        html,
        format_args!("<p class=\"small\">{}</p></section>", escape(published.said)),
    );
}
