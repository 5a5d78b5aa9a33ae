//! The table of a comparison with a baseline.

use std::io::Write;

use super::lines::{Compared, ComparedFigure, Kind};
use super::verdict::as_ratio;
use crate::error::LabError;
use crate::plan::{Better, Figure};
use crate::table::{load, warning};
use crate::text::{Table, nanos, si};

/// A value of a figure with its unit, where the figure's name does not say it.
pub(crate) fn value(figure: &Figure, value: f64) -> String {
    match figure.name.as_ref() {
        "rate" => format!("{}/s", si(value)),
        "p50" | "p99" | "p999" | "max" => nanos(value),
        _ => si(value),
    }
}

/// The name of a figure as readers see it.
pub(crate) fn title(figure: &Figure) -> String {
    match figure.name.as_ref() {
        "p999" => String::from("p99.9"),
        name => name.replace('_', " "),
    }
}

/// A ratio to the baseline, exact enough for a few percent.
pub(crate) fn ratio(better: Better, cost: f64) -> String {
    format!("{:.3}", as_ratio(better, cost))
}

/// Two costs as bounds of a ratio, the lower one first.
pub(crate) fn bounds(better: Better, (low, high): (f64, f64)) -> String {
    let (low, high) = match better {
        Better::Less => (low, high),
        Better::More => (high, low),
    };
    format!("{} – {}", ratio(better, low), ratio(better, high))
}

impl ComparedFigure {
    /// The verdict in words, or the reason why there is none.
    pub(crate) fn said(&self) -> String {
        match (&self.note, self.verdict) {
            (Some(note), _) => note.clone(),
            (None, Some(verdict)) if self.fails => format!("{}, more than allowed", verdict.words()),
            (None, Some(verdict)) => verdict.words().to_owned(),
            (None, None) => String::new(),
        }
    }
}

impl Compared {
    /// What must be known before any figure is read.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let mut warnings: Vec<String> = warning(self.others).into_iter().collect();
        if self.versions.profile != "release" {
            let profile = &self.versions.profile;
            warnings.push(format!("This is a {profile} build: its figures mean nothing."));
        }
        warnings.extend(
            self.refusal
                .as_ref()
                .map(|reason| format!("No verdict: {reason}.")),
        );
        warnings
    }

    /// What a reader may want to know behind the table.
    pub(crate) fn footnotes(&self) -> Vec<String> {
        let mut notes = vec![format!(
            "{} rounds in {:.0} s, the first of them not counted.",
            self.rounds,
            self.elapsed.as_secs_f64()
        )];
        if self.time_was_up {
            notes.push(String::from(
                "The time was up before all rows were decided: give it more with --budget.",
            ));
        }
        notes.push(self.method());
        if let Some(usual) = self.probe_usual_ns {
            let set_aside: usize = self.rows.iter().map(super::rounds::RowRuns::set_aside).sum();
            let turns: usize = self.rows.iter().map(|runs| runs.turns.len()).sum();
            notes.push(format!(
                "A cache line usually takes {usual:.0} ns to another core and back; {set_aside} of {turns} turns had a \
                 run that began in a slow phase, and do not count."
            ));
        }
        notes.extend(self.others.map(load));
        notes.extend(self.notes.iter().cloned());
        notes
    }

    /// Prints the table with its heading and its footnotes.
    pub(crate) fn print(&self, output: &mut dyn Write) -> Result<(), LabError> {
        for warning in self.warnings() {
            writeln!(output, "{warning}")?;
        }
        writeln!(output, "\n{}", self.sentence())?;
        writeln!(
            output,
            "{}, {} CPUs, {}; {} ({}), allocator: {}\n",
            self.machine.processor,
            self.machine.cpus,
            self.machine.system,
            self.versions.rustc,
            self.versions.profile,
            self.versions.allocator
        )?;
        self.table().print(output)?;
        writeln!(output)?;
        for note in self.footnotes() {
            writeln!(output, "{note}")?;
        }
        Ok(output.flush()?)
    }

    fn table(&self) -> Table {
        let alone = matches!(self.kind, Kind::Alone);
        let runs = match self.kind {
            Kind::Paired { .. } => "pairs",
            _ => "runs",
        };
        let headings: &[&str] = if alone {
            &["", "figure", "", "median", "quartiles", runs, "set aside", ""]
        } else {
            &[
                "",
                "figure",
                "",
                "baseline",
                "this",
                "× baseline",
                "quartiles",
                "interval",
                runs,
                "set aside",
                "",
            ]
        };
        let mut table = Table::of_figures(headings);
        let text = String::new;
        for line in &self.lines {
            let figure = &line.figure;
            let median = |spread: Option<crate::stats::Spread>| {
                spread.map_or_else(text, |spread| value(figure, spread.median))
            };
            let mut cells = vec![line.row.clone(), title(figure), line.direction().to_owned()];
            if alone {
                cells.push(median(line.this));
                cells.push(line.this.map_or_else(text, |spread| {
                    format!("{} – {}", value(figure, spread.low), value(figure, spread.high))
                }));
            } else {
                cells.extend([median(line.baseline), median(line.this)]);
                cells.push(line.cost.map_or_else(text, |cost| ratio(figure.better, cost)));
                for pair in [line.quartiles, line.interval] {
                    cells.push(pair.map_or_else(text, |pair| bounds(figure.better, pair)));
                }
            }
            cells.extend([line.pairs.to_string(), line.set_aside.to_string(), line.said()]);
            table.row(cells);
        }
        table
    }
}
