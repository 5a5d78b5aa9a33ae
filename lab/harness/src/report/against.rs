//! The page of a comparison with a baseline: what was lost and gained, drawn and as a table; and its runs as
//! comma-separated values.

use super::dots::{self, Dot};
use super::page::{begin, machine, table};
use super::svg::escape;
use crate::against::lines::{Compared, ComparedFigure, Kind};
use crate::against::print::{bounds, ratio, title, value};
use crate::against::rounds::{RowRuns, Side};
use crate::against::verdict::Verdict;
use crate::plan::Better;
use crate::stats::Spread;
use crate::text::csv_bytes;

/// The whole page.
pub(crate) fn html(compared: &Compared) -> String {
    let command = format!("{} compare --against", compared.program);
    let heading = match compared.kind {
        Kind::Alone => "The rows of this program",
        _ => "This program against a baseline",
    };
    let lead = compared.sentence();
    let mut html = begin(&command, &command, heading, &escape(lead.trim_end_matches('.')));
    for warning in compared.warnings() {
        html += &format!("<p class=\"warning\">{}</p>", escape(&warning));
    }
    if !matches!(compared.kind, Kind::Alone) {
        charts(&mut html, compared);
    }
    html += &format!("<section><h2>All rows</h2>{}</section>", all_rows(compared));
    html.push_str("<section class=\"how\"><h2>How this was measured</h2><ul>");
    for note in compared.footnotes() {
        html += &format!("<li>{}</li>", escape(&note));
    }
    html.push_str(
        "<li>Every run has a process of its own and checks its result. Who runs first alternates from round to round.</li></ul><dl>",
    );
    machine(&mut html, &compared.machine, &compared.versions);
    html += &format!(
        "<dt>command<dd><code>{}</code></dl></section></main></body></html>\n",
        escape(&compared.command)
    );
    html
}

/// The ratios with their quartiles: losses first, then gains, then the rest.
fn charts(html: &mut String, compared: &Compared) {
    let groups = [
        ("Losses", Some(Verdict::Loss)),
        ("Gains", Some(Verdict::Gain)),
        ("Not told apart", Some(Verdict::NotToldApart)),
        ("Without a verdict", None),
    ];
    for (heading, verdict) in groups {
        let lines = compared.lines.iter().filter(|line| line.verdict == verdict);
        let dots: Vec<Dot> = lines.filter_map(dot).collect();
        if let Some(chart) = dots::chart(&dots, Some(1.0), |cost| format!("{cost:.3}")) {
            *html += &format!(
                "<section><h2>{heading}</h2><p class=\"small\">Cost over the baseline’s: to the right of the line \
                     this program is worse, whatever the figure.</p>{chart}</section>"
            );
        }
    }
}

fn dot(line: &ComparedFigure) -> Option<Dot> {
    let median = line.cost?;
    let (low, high) = line.quartiles.unwrap_or((median, median));
    Some(Dot {
        name: format!("{}: {}", line.row, title(&line.figure)),
        spread: Spread {
            low,
            median,
            high,
            runs: line.pairs,
        },
    })
}

fn all_rows(compared: &Compared) -> String {
    let headings = [
        "row",
        "figure",
        "baseline",
        "this",
        "× baseline",
        "quartiles",
        "interval",
        "pairs",
        "set aside",
        "verdict",
    ];
    let rows = compared.lines.iter().map(|line| {
        let figure = &line.figure;
        let median =
            |spread: Option<Spread>| spread.map_or_else(String::new, |spread| value(figure, spread.median));
        let pair =
            |pair: Option<(f64, f64)>| pair.map_or_else(String::new, |pair| bounds(figure.better, pair));
        let cells = vec![
            escape(&line.row),
            format!("{} ({})", escape(&title(figure)), line.direction()),
            median(line.baseline),
            median(line.this),
            line.cost
                .map_or_else(String::new, |cost| ratio(figure.better, cost)),
            pair(line.quartiles),
            pair(line.interval),
            line.pairs.to_string(),
            line.set_aside.to_string(),
            escape(&line.said()),
        ];
        (0, cells)
    });
    table(&headings.map(String::from), &["figure", "verdict"], rows)
}

/// All runs, a line for each figure.
pub(crate) fn lines(rows: &[RowRuns]) -> Result<Vec<u8>, csv::Error> {
    let mut table = csv::Writer::from_writer(Vec::new());
    table.write_record([
        "row",
        "round",
        "side",
        "counts",
        "set_aside",
        "probe_ns",
        "others",
        "figure",
        "better",
        "value",
    ])?;
    let text = |number: Option<f64>| number.map_or_else(String::new, |number| number.to_string());
    for runs in rows {
        for turn in &runs.turns {
            for run in &turn.runs {
                for (figure, found) in runs.row.figures.iter().zip(&run.figures) {
                    let side = match run.side {
                        Side::Baseline => "baseline",
                        Side::This => "this",
                    };
                    let better = match figure.better {
                        Better::More => "more",
                        Better::Less => "less",
                    };
                    table.write_record([
                        runs.row.name.clone(),
                        turn.round.to_string(),
                        side.to_owned(),
                        (turn.round > 0 && !turn.set_aside).to_string(),
                        turn.set_aside.to_string(),
                        text(run.probe_ns),
                        text(turn.others),
                        figure.name.clone().into_owned(),
                        better.to_owned(),
                        text(*found),
                    ])?;
                }
            }
        }
    }
    csv_bytes(table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::against::lines::tests::{compared, pairs};

    #[test]
    fn the_page_draws_losses_first_and_has_all_rows() {
        let page = html(&compared(pairs(), None));
        for part in [
            "<h2>Losses</h2>",
            "<svg",
            "more than allowed",
            "churn, 1 worker",
            "Another compiler.",
        ] {
            assert!(page.contains(part), "{part} is missing");
        }
        assert!(page.contains("&lt;old&gt;") && !page.contains("<old>"));
        assert!(!page.contains("<h2>Gains</h2>") && !page.contains("NaN"));
        let alone = html(&compared(Kind::Alone, None));
        assert!(!alone.contains("<svg") && alone.contains("churn, 1 worker"));
    }

    #[test]
    fn each_run_is_a_line_for_each_figure() {
        let compared = compared(pairs(), None);
        let text = String::from_utf8(lines(&compared.rows).unwrap()).unwrap();
        let mut table = csv::Reader::from_reader(text.as_bytes());
        let read: Vec<csv::StringRecord> = table.records().map(Result::unwrap).collect();
        let runs: usize = compared.rows.iter().map(|runs| 2 * runs.turns.len()).sum();
        assert_eq!(read.len(), runs);
        assert_eq!(
            (&read[0][2], &read[0][3], &read[0][8]),
            ("baseline", "false", "more")
        );
    }
}
