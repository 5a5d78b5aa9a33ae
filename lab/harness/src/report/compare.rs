//! The page of a comparison: a section for each line, with medians, quartiles, extremes and scalability, and
//! what was published.

use super::chart::{Series, legend, worker_counts};
use super::dots::{self, Dot};
use super::lines;
use super::page::{begin, machine, table};
use super::svg::escape;
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
        html += &format!(
            "<section><h2>Not measured</h2><p>The time was up before: {}.</p></section>",
            escape(&unmeasured.join(", "))
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
    html += &format!(
        "<dt>command<dd><code>{}</code></dl></section></main></body></html>\n",
        escape(command)
    );
    html
}

/// One line: its table, and how it went.
fn section(html: &mut String, one: &MeasuredLine) {
    *html += &format!(
        "<section><h2>{}</h2><p>{}.</p><p class=\"params\">",
        escape(one.line.name),
        escape(one.measured.job.chosen.workload.about().about)
    );
    for (key, value) in one.measured.job.chosen.params.iter() {
        *html += &format!("<code>{} = {value}</code>", escape(key));
    }
    html.push_str("</p>");
    if let Some(warning) = warning(one.measured.session.others) {
        *html += &format!("<p class=\"warning\">{}</p>", escape(&warning));
    }
    charts(html, one);
    html.push_str(&figures(one));
    html.push_str("<p class=\"small\">");
    for note in footnotes(&one.measured.session, &one.measured.rows)
        .iter()
        .chain(&one.measured.notes)
    {
        *html += &format!("{} ", escape(note));
    }
    html.push_str("</p></section>");
}

/// Throughput with its quartiles, for each number of workers, and over them if there are several.
fn charts(html: &mut String, one: &MeasuredLine) {
    let (rows, unit) = (&one.measured.rows, one.measured.job.chosen.unit);
    let counts = worker_counts(rows);
    if counts.len() > 1 {
        let series = Series::of(rows);
        *html += &format!(
            "{}{}",
            legend(&series, &[]),
            lines::over_workers(rows, &series, unit)
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
            *html += &format!(
                "<p class=\"small\">{}/s, {}</p>{chart}",
                escape(unit),
                workers(count)
            );
        }
    }
}

/// Measures that have their own column already.
const ELSEWHERE: &str = "workers_over_throughput_ns";

fn figures(one: &MeasuredLine) -> String {
    let rows = &one.measured.rows;
    let has_latency = rows.iter().any(|row| row.latency.is_some());
    let mut measures = shown_measures(rows, has_latency);
    measures.retain(|name| name != ELSEWHERE);
    let unit = one.measured.job.chosen.unit;
    let mut headings = ["contestant", "workers"].map(String::from).to_vec();
    headings.push(format!("{unit}/s"));
    headings.extend(["quartiles", "extremes", "workers ÷ throughput", "time of a run"].map(String::from));
    if has_latency {
        headings.extend(["p50", "p99", "max"].map(String::from));
    }
    headings.extend(measures.iter().map(|measure| measure.replace('_', " ")));
    headings.extend(["runs", "remarks"].map(String::from));
    let cells = &one.measured.session.cells;
    let lines = rows.iter().zip(cells).map(|(row, cell)| {
        let mut cells = vec![escape(&row.title()), row.workers.to_string()];
        cells.extend(speed(row, &cell.sample(throughput)));
        if has_latency {
            cells.extend([0, 1, 4].map(|at| {
                let figure = row.latency.map(|latency| nanos(latency[at].median));
                figure.unwrap_or_default()
            }));
        }
        let of = |measure: &String| row.measure(measure).map_or_else(String::new, si);
        cells.extend(measures.iter().map(of));
        cells.extend([row.runs.to_string(), escape(&remarks(row))]);
        (row.workers, cells)
    });
    table(&headings, &["remarks"], lines)
}

/// Throughput in its four columns, and how long a run took.
fn speed(row: &Row, runs: &[f64]) -> [String; 5] {
    let Some(spread) = row.throughput.filter(|spread| spread.median > 0.0) else {
        return ["–", "", "", "", ""].map(String::from);
    };
    let least = runs.iter().copied().fold(f64::INFINITY, f64::min);
    let most = runs.iter().copied().fold(0.0, f64::max);
    [
        si(spread.median),
        format!("{} – {}", si(spread.low), si(spread.high)),
        format!("{} – {}", si(least), si(most)),
        nanos(row.workers as f64 / spread.median * 1e9),
        nanos(row.median_operations / spread.median * 1e9),
    ]
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
    *html += &format!("<section><h2>Published</h2><p>{}.</p>", escape(published.source));
    if !published.columns.is_empty() {
        let columns = published.columns.iter().map(ToString::to_string);
        let headings: Vec<String> = std::iter::once(String::new()).chain(columns).collect();
        let rows = published.rows.iter().map(|(name, figures)| {
            let cells = std::iter::once(name).chain(*figures);
            (0, cells.map(|cell| escape(cell)).collect())
        });
        html.push_str(&table(&headings, &[], rows));
    }
    *html += &format!("<p class=\"small\">{}</p></section>", escape(published.said));
}
