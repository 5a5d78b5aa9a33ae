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
use crate::session::{ReadJobs, Session};
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
    let (before, after) = around(&text, &arguments.file)?;
    let document = Pending::open("write the results", &arguments.file)?;
    let wanted = |one: &&Measurement| {
        arguments.names.is_empty() || arguments.names.iter().any(|name| name == one.name)
    };
    let (mut tables, mut rows) = (String::new(), Vec::new());
    for one in lab.results.iter().filter(wanted) {
        let (text, measured) = measure(lab, one, arguments, plan)?;
        tables.push_str(&text);
        rows.extend(measured);
    }
    let [begin, end] = MARKERS;
    let path = document.finish(format!("{before}{begin}\n{tables}\n{end}{after}"))?;
    writeln!(io::stdout(), "\nResults: {}", path.display())?;
    table::failures(&rows)
}

/// Splits the text: what is before the tables, and what is behind them.
fn around<'a>(text: &'a str, file: &Path) -> Result<(&'a str, &'a str), LabError> {
    let [begin, end] = MARKERS;
    let parts = text
        .split_once(begin)
        .and_then(|(before, rest)| Some((before, rest.split_once(end)?.1)));
    parts.ok_or_else(|| {
        let reason = format!("it has no lines `{begin}` and `{end}`, between which the tables are");
        LabError::file("write the results", file, &reason)
    })
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
        let unit = measured.job.chosen.unit;
        text.push_str(&markdown(one, &measured.session, &measured.rows, unit, &line));
        all.extend(measured.rows);
    }
    Ok((text, all))
}

/// The table, under its heading, with date, machine and command.
fn markdown(one: &Measurement, session: &Session, rows: &[Row], unit: &str, line: &str) -> String {
    let latency = rows.iter().any(|row| row.latency.is_some());
    let mut heads = vec![
        "contestant".to_owned(),
        "workers".to_owned(),
        format!("{unit}/s"),
        "× best peer".to_owned(),
    ];
    if latency {
        heads.extend(["p50", "p99"].map(str::to_owned));
    }
    heads.extend(one.measures.iter().map(|name| name.replace('_', " ")));
    heads.push(String::from("runs"));
    let mut lines = vec![heads.join(" | "), vec!["---"; heads.len()].join(" | ")];
    for row in rows {
        let mut cells = vec![row.title(), row.workers.to_string()];
        cells.push(row.median_throughput().map_or_else(|| String::from("–"), si));
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
        if wins(row, rows) {
            cells[0] = format!("**{}**", cells[0]);
        }
        lines.push(cells.join(" | "));
    }
    let table: String = lines.iter().map(|line| format!("| {line} |\n")).collect();
    let machine = &session.machine;
    format!(
        "\n### {}\n\n```sh\n{} bench {line}\n```\n\n{}, {}, {} CPUs, {}, {} ({} build).\n\n{table}",
        one.name,
        session.program,
        today(),
        machine.processor,
        machine.cpus,
        machine.system,
        session.versions.rustc,
        session.versions.profile,
    )
}

/// Returns true if this is a peer that is faster than all others with as many workers.
fn wins(row: &Row, rows: &[Row]) -> bool {
    let others = rows
        .iter()
        .filter(|other| other.workers == row.workers && other.contestant != row.contestant);
    let best = others.filter_map(Row::median_throughput).fold(0.0, f64::max);
    !row.is_policy && row.median_throughput().is_some_and(|own| own > best)
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
    fn a_peer_that_wins_is_bold() {
        let one = Measurement {
            measures: &[],
            ..lab().results[0]
        };
        let table = |peer| {
            let session = session(&[
                ("home", Some("fifo"), 1, &[2.0; 4], 5),
                ("rayon", None, 1, peer, 5),
            ]);
            markdown(&one, &session, &summary::rows(&session), "packets", "packet")
        };
        assert!(table(&[3.0; 4]).contains("| **rayon** | 1 |"));
        assert!(!table(&[1.0; 4]).contains("**"));
    }
}
