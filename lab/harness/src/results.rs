//! `results`: runs a list of measurements and writes their tables into a document, between two markers.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args;

use crate::error::{LabError, choose};
use crate::lab::Lab;
use crate::measured::{Measured, prepared};
use crate::output::Pending;
use crate::plan::Measurement;
use crate::session::ReadJobs;
use crate::summary::Row;
use crate::table;
use crate::text::{date, nanos, si};

/// `results`.
#[derive(Args, Debug)]
pub(crate) struct ResultsArgs {
    /// Which tables [default: all]
    #[arg(value_name = "NAME")]
    names: Vec<String>,

    /// The sizes and the rounds of a document that is published; without it, smaller ones
    #[arg(long)]
    full: bool,

    /// The document, in which the tables are between two markers
    #[arg(long, value_name = "FILE", default_value = "docs/RESULTS.md")]
    file: PathBuf,

    /// All runs in this process; runs then inherit each other's heap
    #[arg(long, hide = true)]
    in_process: bool,
}

/// The lines of the document before and behind the tables.
const MARKERS: [&str; 2] = ["<!-- results: begin -->", "<!-- results: end -->"];
/// The most columns of a line of prose.
const COLUMNS: usize = 110;
/// Rounds of a quick line: with seven that count there is an interval for each ratio.
const QUICK: &str = "--repeat 8";

/// Measures, and writes the document.
pub(crate) fn run(lab: &Lab, arguments: &ResultsArgs, plan: ReadJobs) -> Result<(), LabError> {
    let names: Vec<&str> = lab.results.iter().map(|one| one.name).collect();
    for name in &arguments.names {
        choose("results", name, &names)?;
    }
    // What cannot be written is refused before anything is measured.
    let text = fs::read_to_string(&arguments.file)
        .map_err(|error| LabError::file("read the results", &arguments.file, &error))?;
    let (before, old, after) = around(&text, &arguments.file)?;
    let document = Pending::open("write the results", &arguments.file)?;
    let wanted = |one: &&Measurement| {
        arguments.names.is_empty() || arguments.names.iter().any(|name| name == one.name)
    };
    let (mut sections, mut rows) = (Vec::new(), Vec::new());
    if !arguments.names.is_empty() {
        sections = sections_of(old);
    }
    for one in lab.results.iter().filter(wanted) {
        let (text, measured) = measure(lab, one, arguments, plan)?;
        put(&mut sections, one.name, text);
        rows.extend(measured);
    }
    let [begin, end] = MARKERS;
    let tables: String = sections.into_iter().map(|(_, text)| text).collect();
    let path = document.finish(format!("{before}{begin}\n{tables}\n{end}{after}"))?;
    writeln!(io::stdout(), "\nResults: {}", path.display())?;
    table::failures(&rows)
}

/// Splits the text: what is before the tables, the tables, and what is behind them.
fn around<'a>(text: &'a str, file: &Path) -> Result<(&'a str, &'a str, &'a str), LabError> {
    let [begin, end] = MARKERS;
    let parts = text.split_once(begin).and_then(|(before, rest)| {
        let (tables, after) = rest.split_once(end)?;
        Some((before, tables, after))
    });
    parts.ok_or_else(|| {
        let reason = format!("it has no lines `{begin}` and `{end}`, between which the tables are");
        LabError::file("write the results", file, &reason)
    })
}

/// The tables that a document has, with their names.
fn sections_of(tables: &str) -> Vec<(String, String)> {
    let sections = tables.split("\n### ").skip(1).map(|section| {
        let name = section.lines().next().unwrap_or_default().trim();
        (name.to_owned(), format!("\n### {}\n", section.trim_end()))
    });
    sections.collect()
}

/// Puts a table in the place of the one with its name; at the end if there is none.
fn put(sections: &mut Vec<(String, String)>, name: &str, text: String) {
    let Some(at) = sections.iter().position(|(old, _)| old == name) else {
        sections.push((name.to_owned(), text));
        return;
    };
    sections[at].1 = text;
    // A line of several workloads has several tables with one name.
    let mut number = 0;
    sections.retain(|(old, _)| {
        number += 1;
        number == at + 1 || old != name
    });
}

/// Runs one line; its table, and its rows.
fn measure(
    lab: &Lab,
    one: &Measurement,
    arguments: &ResultsArgs,
    plan: ReadJobs,
) -> Result<(String, Vec<Row>), LabError> {
    let line = match arguments.full {
        true => one.line.to_owned(),
        false => format!("{} {} {QUICK}", one.line, one.quick),
    };
    let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
    let (mut text, mut all) = (String::new(), Vec::new());
    for mut job in prepared(lab, plan(lab, &format!("bench {line}"))?)? {
        job.0.limits.in_process |= arguments.in_process;
        let measured = Measured::of(lab, job, false)?;
        measured.print(&mut io::stdout().lock())?;
        text.push_str(&markdown(one, &measured, &line));
        all.extend(measured.rows);
    }
    Ok((text, all))
}

/// The table, under its heading, with date, machine and command, and with what qualifies its figures.
fn markdown(one: &Measurement, measured: &Measured, line: &str) -> String {
    let (session, rows) = (&measured.session, &measured.rows);
    let machine = &session.machine;
    let mut text = format!(
        "\n### {}\n\n```sh\n{} bench {line}\n```\n\n{}, {}, {} CPUs, {}, {} ({} build).\n\n",
        one.name,
        session.program,
        today(),
        machine.processor,
        machine.cpus,
        machine.system,
        session.versions.rustc,
        session.versions.profile,
    );
    if let Some(warning) = table::warning(session.others) {
        text.push_str(&(wrapped("", &warning) + "\n"));
    }
    text.push_str(&figures(one, rows, measured.job.chosen.unit));
    text.push('\n');
    for note in table::circumstances(session) {
        text.push_str(&wrapped("- ", &note));
    }
    for note in &measured.notes {
        text.push_str(&wrapped("- ", note));
    }
    text
}

/// The figures, a line for each contestant.
fn figures(one: &Measurement, rows: &[Row], unit: &str) -> String {
    let latency = rows.iter().any(|row| row.latency.is_some());
    let remarks = rows.iter().any(|row| !row.remarks().is_empty());
    let mut heads = vec![
        "contestant".to_owned(),
        "workers".to_owned(),
        format!("{unit}/s"),
        "quartiles".to_owned(),
        "× best peer".to_owned(),
    ];
    if latency {
        heads.extend(["p50", "p99"].map(str::to_owned));
    }
    heads.extend(one.measures.iter().map(|name| name.replace('_', " ")));
    heads.push(String::from("runs"));
    heads.extend(remarks.then(|| String::from("remarks")));
    let mut lines = vec![heads.join(" | "), vec!["---"; heads.len()].join(" | ")];
    for row in rows {
        let mut cells = vec![row.title(), row.workers.to_string()];
        cells.extend(match row.throughput {
            Some(spread) => [
                si(spread.median),
                format!("{} – {}", si(spread.low), si(spread.high)),
            ],
            None => [String::from("–"), String::new()],
        });
        cells.push(row.over_best_peer.map_or_else(String::new, table::ratio));
        if latency {
            cells.extend([0, 1].map(|at| {
                row.latency
                    .map_or_else(String::new, |latency| nanos(latency[at].median))
            }));
        }
        for measure in one.measures {
            cells.push(row.measure(measure).map_or_else(String::new, si));
        }
        cells.push(row.runs.to_string());
        // A bar in the words would begin another cell.
        cells.extend(remarks.then(|| row.remarks().replace('|', "\\|")));
        if wins(row, rows) {
            cells[0] = format!("**{}**", cells[0]);
        }
        lines.push(cells.join(" | "));
    }
    lines.iter().map(|line| format!("| {line} |\n")).collect()
}

/// Returns true if this is a peer that is faster than all others with as many workers. One that did something
/// else neither wins nor is in the way.
fn wins(row: &Row, rows: &[Row]) -> bool {
    let others = rows
        .iter()
        .filter(|other| other.workers == row.workers && other.contestant != row.contestant)
        .filter(|other| !other.differs);
    let best = others.filter_map(Row::median_throughput).fold(0.0, f64::max);
    let is_rival = !row.is_policy && !row.differs;
    is_rival && row.median_throughput().is_some_and(|own| own > best)
}

/// The text in lines that fit into a document; further lines are as far to the right as the text of the
/// first.
fn wrapped(mark: &str, text: &str) -> String {
    let indent = " ".repeat(mark.len());
    let (mut lines, mut line) = (String::new(), mark.to_owned());
    for word in text.split_whitespace() {
        let is_first = line.trim_end().len() <= mark.trim_end().len();
        if !is_first && line.chars().count() + 1 + word.chars().count() > COLUMNS {
            lines.push_str(&(line + "\n"));
            line = indent.clone() + word;
        } else {
            line.push_str(if is_first { "" } else { " " });
            line.push_str(word);
        }
    }
    lines + &line + "\n"
}

/// The date of this day.
fn today() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    date(now.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::plan;
    use crate::summary::{self, tests::session};
    use crate::testing::lab;
    use crate::workload::Caveat;

    #[test]
    fn tables_take_the_place_between_the_markers_and_nothing_else() {
        let folder = std::env::temp_dir().join(format!("lab-results-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join("RESULTS.md");
        let [begin, end] = MARKERS;
        fs::write(&file, format!("# Findings\n\n{begin}\nold\n{end}\n\nThe end.\n")).unwrap();
        let arguments = |names: &[&str]| ResultsArgs {
            names: names.iter().map(ToString::to_string).collect(),
            full: false,
            file: file.clone(),
            in_process: true,
        };
        run(lab(), &arguments(&["packets"]), plan).unwrap();
        let text = fs::read_to_string(&file).unwrap();
        assert!(
            text.starts_with("# Findings\n") && text.ends_with("\n\nThe end.\n") && !text.contains("old"),
            "{text}"
        );
        for part in [
            "### packets",
            "```sh\nlab bench packet --runtime home,rayon --workers 1 n=10 --repeat 8\n```",
            "| home fifo | 1 | ",
            "| rayon | 1 | ",
            "- Medians over 8 interleaved rounds, the first of them not counted",
        ] {
            assert!(text.contains(part), "{part} is missing: {text}");
        }
        let wrong = run(lab(), &arguments(&["packetz"]), plan)
            .unwrap_err()
            .to_string();
        assert!(wrong.contains("did you mean `packets`?"), "{wrong}");
        fs::write(&file, "# Findings\n").unwrap();
        let wrong = run(lab(), &arguments(&[]), plan).unwrap_err().to_string();
        assert!(wrong.contains(begin) && wrong.contains("RESULTS.md"), "{wrong}");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_table_that_is_not_measured_again_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("RESULTS.md");
        let [begin, end] = MARKERS;
        let old = |name: &str| format!("\n### {name}\n\nold {name}\n");
        let tables = ["first", "waits", "packets", "waits", "last"].map(old).concat();
        fs::write(&file, format!("{begin}\n{tables}\n{end}\n")).unwrap();
        let measure = |names: &[&str]| {
            let arguments = ResultsArgs {
                names: names.iter().map(ToString::to_string).collect(),
                full: false,
                file: file.clone(),
                in_process: true,
            };
            run(lab(), &arguments, plan).unwrap();
            let text = fs::read_to_string(&file).unwrap();
            let heads = text.lines().filter_map(|line| line.strip_prefix("### "));
            (heads.map(str::to_owned).collect::<Vec<_>>().join(" "), text)
        };
        let (heads, text) = measure(&["waits"]);
        assert_eq!(heads, "first waits packets last");
        let kept = format!("{}{}\n{end}\n", old("packets"), old("last"));
        assert!(text.starts_with(&format!("{begin}\n{}", old("first"))), "{text}");
        assert!(text.ends_with(&kept) && !text.contains("old waits"), "{text}");
        // It says who was left out.
        assert!(text.contains("without holding a worker"), "{text}");
        assert_eq!(measure(&["packets"]).0, heads);
        assert_eq!(measure(&[]).0, "packets waits");
        fs::write(&file, format!("{begin}\n{}\n{end}\n", old("waits"))).unwrap();
        assert_eq!(measure(&["packets"]).0, "waits packets");
    }

    #[test]
    fn a_peer_that_wins_is_bold_unless_it_did_something_else() {
        let one = Measurement {
            measures: &[],
            ..lab().results[0]
        };
        let table = |rayon: f64, differs: Option<bool>| {
            let mut session = session(&[
                ("home", Some("fifo"), 1, &[2.0; 4], 5),
                ("rayon", None, 1, &[rayon; 4], 5),
                ("tokio", None, 1, &[2.5; 4], 5),
            ]);
            let text = "counts | less";
            session.cells[1].remark = differs.map(|differs| Caveat { text, differs });
            figures(&one, &summary::rows(&session), "packets")
        };
        assert!(table(3.0, None).contains("| **rayon** | 1 |"));
        assert!(!table(3.0, None).contains("**tokio**") && !table(3.0, None).contains("remarks"));
        assert!(table(1.0, None).contains("**tokio**"));
        let other = table(3.0, Some(true));
        assert!(
            !other.contains("**rayon**") && other.contains("**tokio**") && other.contains("counts \\| less"),
            "{other}"
        );
        assert!(table(3.0, Some(false)).contains("**rayon**"));
    }

    #[test]
    fn notes_fit_into_the_columns_of_a_document() {
        let text = wrapped("- ", &"word ".repeat(50));
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("- word word") && lines[1].starts_with("  word"));
        assert!(
            lines
                .iter()
                .all(|line| line.len() <= COLUMNS && !line.ends_with(' '))
        );
        assert_eq!(text.matches("word").count(), 50);
        assert_eq!(wrapped("", "one two"), "one two\n");
    }
}
