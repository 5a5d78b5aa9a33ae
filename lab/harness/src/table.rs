//! The table on the terminal: what was run, on which machine, and the figures.

use std::io::Write;

use crate::error::LabError;
use crate::lab::Chosen;
use crate::session::{CellRuns, Session};
use crate::stats::Ratio;
use crate::summary::Row;
use crate::text::{Table, nanos, si, times};

/// A machine of which others use more than this share is not quiet.
const DISTURBED: f64 = 0.05;

/// Where others use more than this share of the machine, no advice is given.
pub(crate) const LOADED: f64 = 0.25;

/// What must be known before any figure is read: others use the machine.
pub(crate) fn warning(others: Option<f64>) -> Option<String> {
    let others = others.filter(|others| *others > DISTURBED)?;
    Some(format!(
        "Warning: other processes used {:.0} % of the machine meanwhile. Beyond {:.0} % fine differences are uncertain, \
         and beyond {:.0} % there is no advice. Repeat on a quiet machine.",
        others * 100.0,
        DISTURBED * 100.0,
        LOADED * 100.0
    ))
}

/// How much of the machine others used.
pub(crate) fn load(others: f64) -> String {
    format!(
        "Other processes used {:.0} % of the machine meanwhile.",
        others * 100.0
    )
}

/// The sentence in the place of advice, if others used more than that share of the machine.
/// `despite` is how to get it nevertheless.
pub(crate) fn withheld(others: Option<f64>, most: f64, despite: &str) -> Option<String> {
    let others = others.filter(|others| *others > most)?;
    Some(format!(
        "No advice: other processes used {:.0} % of the machine meanwhile, more than the {:.0} % beside which figures \
         can be compared. Repeat on a quiet machine, or take the advice with {despite}.",
        others * 100.0,
        most * 100.0
    ))
}

/// Prints the table with its heading and its footnotes.
pub(crate) fn print(
    output: &mut dyn Write,
    chosen: &Chosen,
    session: &Session,
    rows: &[Row],
) -> Result<(), LabError> {
    let machine = &session.machine;
    writeln!(output, "\n{}: {}", chosen.name, chosen.params)?;
    writeln!(
        output,
        "{}, {} CPUs, {}; {} ({}), allocator: {}",
        machine.processor,
        machine.cpus,
        machine.system,
        session.versions.rustc,
        session.versions.profile,
        session.versions.allocator
    )?;
    if session.versions.profile != "release" {
        writeln!(
            output,
            "This is a {} build: its figures mean nothing.",
            session.versions.profile
        )?;
    }
    if let Some(warning) = warning(session.others) {
        writeln!(output, "{warning}")?;
    }
    writeln!(output)?;
    let has_latency = rows.iter().any(|row| row.latency.is_some());
    let measures = shown_measures(rows, has_latency);
    figures(rows, chosen.unit, has_latency, &measures).print(output)?;
    writeln!(output)?;
    for note in footnotes(session, rows) {
        writeln!(output, "{note}")?;
    }
    Ok(())
}

/// The measures that have a column also where there are latencies.
const BESIDE_LATENCY: [&str; 13] = [
    "breaches_percent",
    "bytes_per_task",
    "cpu_kept",
    "heavy_max_us",
    "heavy_p99_us",
    "light_max_us",
    "light_p50_us",
    "light_p99_us",
    "light_p999_us",
    "sorts_cpu_share",
    "us_per_leadership",
    "wake_alone_max_us",
    "wake_alone_p99_us",
];

/// The measures that have a column: all where there are no latencies, else few. Their units are in their
/// names.
pub(crate) fn shown_measures(rows: &[Row], has_latency: bool) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for (name, _) in rows.iter().flat_map(|row| &row.measures) {
        let shown = !has_latency || BESIDE_LATENCY.contains(&name.as_str());
        if shown && !names.contains(name) {
            names.push(name.clone());
        }
    }
    names
}

fn figures(rows: &[Row], unit: &str, has_latency: bool, measures: &[String]) -> Table {
    let throughput = format!("{unit}/s");
    let readable: Vec<String> = measures.iter().map(|name| name.replace('_', " ")).collect();
    let has_peers = rows.iter().any(|row| row.over_best_peer.is_some());
    let mut headings = vec!["", "workers", &throughput, "quartiles"];
    headings.extend(has_peers.then_some("× best peer"));
    if has_latency {
        headings.extend(["p50", "p99", "p99.9", "p99.99", "max"]);
    }
    let has_policies = rows.iter().any(|row| row.over_best_policy.is_some());
    let has_policy_p99 = has_latency && rows.iter().any(|row| row.p99_over_best_policy.is_some());
    headings.extend(has_policies.then_some("× best policy"));
    headings.extend(has_policy_p99.then_some(if has_policies { "× its p99" } else { "× best p99" }));
    headings.extend(readable.iter().map(String::as_str));
    headings.extend(["runs", ""]);
    let mut table = Table::of_figures(&headings);
    let mut workers = rows.first().map_or(0, |row| row.workers);
    for row in rows {
        if row.workers != workers {
            workers = row.workers;
            table.gap();
        }
        let mut cells = vec![row.title(), row.workers.to_string()];
        match row.throughput {
            Some(spread) => {
                cells.extend([
                    si(spread.median),
                    format!("{} – {}", si(spread.low), si(spread.high)),
                ]);
            }
            None => cells.extend([String::from("–"), String::new()]),
        }
        let over = |figure: Option<Ratio>| figure.map_or_else(String::new, ratio);
        cells.extend(has_peers.then(|| over(row.over_best_peer)));
        if has_latency {
            match row.latency {
                Some(latency) => cells.extend(latency.map(|spread| nanos(spread.median))),
                None => cells.extend([const { String::new() }; 5]),
            }
        }
        cells.extend(has_policies.then(|| over(row.over_best_policy)));
        cells.extend(has_policy_p99.then(|| over(row.p99_over_best_policy)));
        for measure in measures {
            cells.push(row.measure(measure).map_or_else(String::new, si));
        }
        cells.push(row.runs.to_string());
        cells.push(row.remarks());
        table.row(cells);
    }
    table
}

/// A ratio, with a tilde if the pairs do not show that it is not 1.
pub(crate) fn ratio(ratio: Ratio) -> String {
    let mark = if ratio.is_shown() { "" } else { "~" };
    format!("{mark}{}", times(ratio.median))
}

/// The notes that a reader of the figures must know.
pub(crate) fn footnotes(session: &Session, rows: &[Row]) -> Vec<String> {
    let mut notes = circumstances(session);
    if rows.iter().any(|row| row.over_best_peer.is_some()) {
        notes.push(String::from(
            "× best peer: median of the ratios within a round to the fastest peer with as many workers; ~ where their 95 % \
             interval holds 1 (a peer's own row: to the best other peer).",
        ));
    }
    if rows.iter().any(|row| row.over_best_policy.is_some()) {
        notes.push(String::from(
            "× best policy: the same for a policy against the best other one (× its p99: against the one with the best \
             p99): what it loses who always takes this one.",
        ));
    }
    notes
}

/// The notes on how it was measured: how many rounds, which runs were set aside, and what others did
/// meanwhile.
pub(crate) fn circumstances(session: &Session) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(machine) = &session.simulated {
        notes.push(format!(
            "SIMULATED: all figures are of a model of {machine}, in its virtual time. Ratios between policies are \
             worth more than absolute figures."
        ));
    }
    let kept = if session.rounds > 1 && session.simulated.is_none() {
        ", the first of them not counted"
    } else {
        ""
    };
    let early = if session.interrupted {
        format!(" ({} asked for; interrupted)", session.rounds_asked)
    } else if session.rounds < session.rounds_asked {
        format!(" ({} asked for; the time was up)", session.rounds_asked)
    } else {
        String::new()
    };
    notes.push(format!(
        "Medians over {} interleaved rounds{kept}{early}, in {:.0} s.",
        session.rounds,
        session.elapsed.as_secs_f64()
    ));
    if let Some(usual) = session.probe_usual_ns {
        let set_aside = session.set_aside();
        notes.push(format!(
            "A cache line usually takes {usual:.0} ns to another core and back; {set_aside} of {} runs began in a slow \
             phase and {} set aside.",
            session.records().filter(|record| record.probe_ns.is_some()).count(),
            if set_aside == 1 { "was" } else { "were" }
        ));
        if session.cells.iter().any(CellRuns::has_slow_figures) {
            notes.push(String::from(
                "Where fewer than two fast runs were left, the slow ones count as well: repeat at another time.",
            ));
        }
    }
    notes.extend(session.others.map(load));
    notes
}

/// An error if any cell did not complete: the process must not say that all is well.
pub(crate) fn failures(rows: &[Row]) -> Result<(), LabError> {
    let failures: Vec<&str> = rows.iter().filter_map(|row| row.failure.as_deref()).collect();
    if failures.is_empty() {
        return Ok(());
    }
    Err(LabError::Incomplete(failures.join("\n  ")))
}
