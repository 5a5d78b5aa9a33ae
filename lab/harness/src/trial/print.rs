//! A trial as a table, as notes, and as data.

use std::collections::BTreeMap;
use std::fmt;
use std::io;

use serde_json::{Value, json};

use super::{BucketCounts, Delays, Quantiles, SettingRuns, Trial};
use crate::error::LabError;
use crate::output::Pending;
use crate::stats::{Ratio, Spread};
use crate::table::{load, ratio};
use crate::text::{Table, csv_bytes, nanos};

/// The counters that have a column on the terminal; the report has all.
const SHOWN: [&str; 5] = ["ran", "stolen", "forks_taken", "parks", "stacked"];

/// The heading of a delay, and where it is.
pub(crate) type Delay = (&'static str, fn(&Delays) -> &BucketCounts);

/// The delays that have a column if they were measured.
const DELAYS: [Delay; 3] = [
    ("queue delay p50 / p99", |delays| &delays.queue_delay),
    ("wake to run", |delays| &delays.wake_to_run),
    ("run time", |delays| &delays.run_time),
];

impl Trial {
    /// What a reader of the figures must know.
    pub(crate) fn footnotes(&self) -> Vec<String> {
        let kept = if self.rounds > 1 {
            ", the first of them not counted"
        } else {
            ""
        };
        let alive = self.cells.iter().any(|cell| cell.failure.is_none());
        let early = if self.is_interrupted() {
            format!(" ({} asked for; interrupted)", self.rounds_asked)
        } else if alive && self.rounds < self.rounds_asked {
            format!(" ({} asked for; the time was up)", self.rounds_asked)
        } else {
            String::new()
        };
        let mut notes = vec![
            format!(
                "Medians and quartiles over {} interleaved rounds{kept}{early}, in {:.0} s.",
                self.rounds,
                self.elapsed.as_secs_f64()
            ),
            String::from(
                "× as it is: how many times as fast as the program as it is, and its processor time over that one's; \
                 medians of the ratios within a round, ~ where their 95 % interval holds 1.",
            ),
        ];
        if self.shown_delays().next().is_some() {
            notes.push(String::from(
                "Queue delay, wake to run and run time of a step: p50 / p99 of all rounds that count and all pools. To \
                 measure them costs each step some 10 ns.",
            ));
        }
        notes.extend(self.others.map(load));
        notes
    }

    /// What is to be known before the figures are read.
    pub fn warnings(&self) -> Vec<String> {
        let warning = crate::table::warning(self.others);
        warning.into_iter().chain(self.notes.iter().cloned()).collect()
    }

    fn table(&self) -> Table {
        let counters = self.shown_counters();
        let mut headings = vec![""];
        headings.extend(TIME_HEADINGS);
        headings.extend(&counters);
        headings.extend(self.shown_delays().map(|(heading, _)| heading));
        headings.extend(["runs", ""]);
        let mut table = Table::of_figures(&headings);
        for cell in &self.cells {
            let mut row = vec![cell.setting.words().replace('`', "")];
            row.extend(time_cells(cell.wall(), self.speed_up(cell)));
            row.extend(time_cells(cell.cpu(), self.cpu_ratio(cell)));
            for name in &counters {
                let found = cell.counters().iter().find(|(other, _)| other == name);
                row.push(found.map_or_else(String::new, |(_, value)| crate::text::si(*value)));
            }
            let delays = cell.delays();
            let quantiles = self.shown_delays().map(|(_, delay)| delay(&delays).quantiles());
            row.extend(quantiles.map(|it| it.map_or_else(String::new, |it| it.words())));
            row.push(cell.count().to_string());
            row.push(match cell.failure {
                Some(_) => String::from("did not complete"),
                None => cell.detail.replace('`', ""),
            });
            table.row(row);
        }
        table
    }

    fn shown_counters(&self) -> Vec<&'static str> {
        let has = |name: &&str| {
            let mut all = self.cells.iter().flat_map(SettingRuns::counters);
            all.any(|(other, value)| other == name && *value > 0.0)
        };
        SHOWN.iter().copied().filter(has).collect()
    }

    /// The delays that were measured of a setting.
    pub(crate) fn shown_delays(&self) -> impl Iterator<Item = Delay> {
        let all: Vec<Delays> = self.cells.iter().map(SettingRuns::delays).collect();
        let has = move |(_, delay): &Delay| all.iter().any(|delays| delay(delays).quantiles().is_some());
        DELAYS.into_iter().filter(has)
    }

    /// How many times as fast as the baseline; nothing for the baseline itself.
    pub(crate) fn speed_up(&self, cell: &SettingRuns) -> Option<Ratio> {
        let baseline = self.baseline()?;
        if std::ptr::eq(cell, baseline) {
            return None;
        }
        cell.speed_up(baseline)
    }

    /// The processor time over the baseline's; nothing for the baseline itself.
    pub(crate) fn cpu_ratio(&self, cell: &SettingRuns) -> Option<Ratio> {
        let baseline = self.baseline()?;
        if std::ptr::eq(cell, baseline) {
            return None;
        }
        cell.cpu_ratio(baseline)
    }

    /// Everything as one JSON document.
    #[must_use]
    pub fn document(&self) -> Value {
        let cell = |cell: &SettingRuns| {
            json!({
                "setting": cell.setting,
                "detail": cell.detail,
                "wall_seconds": cell.wall(),
                "cpu_seconds": cell.cpu(),
                "speed_up": self.speed_up(cell),
                "cpu_ratio": self.cpu_ratio(cell),
                "counters": cell.counters().iter().cloned().collect::<BTreeMap<_, _>>(),
                "delays": cell.delays(),
                "runs": cell.runs,
                "failure": cell.failure,
            })
        };
        json!({
            "program": self.title,
            "machine": self.machine,
            "rounds": self.rounds,
            "seconds": self.elapsed.as_secs_f64(),
            "others_share_of_cpu": self.others,
            "notes": self.notes,
            "advice": self.advice(),
            "settings": self.cells.iter().map(cell).collect::<Vec<_>>(),
        })
    }

    /// All runs that count, a line each.
    pub(crate) fn lines(&self) -> Result<Vec<u8>, csv::Error> {
        let mut table = csv::Writer::from_writer(Vec::new());
        table.write_record(["policy", "workers", "round", "wall_seconds", "cpu_seconds"])?;
        for cell in &self.cells {
            for (round, run) in cell.runs.iter().enumerate() {
                let Some(run) = run else { continue };
                table.write_record([
                    cell.setting.policy.clone().unwrap_or_default(),
                    cell.setting
                        .workers
                        .map_or_else(String::new, |count| count.to_string()),
                    round.to_string(),
                    run.wall.as_secs_f64().to_string(),
                    run.cpu
                        .map_or_else(String::new, |cpu| cpu.as_secs_f64().to_string()),
                ])?;
            }
        }
        csv_bytes(table)
    }

    /// Writes the report, a page without scripts.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn write_report(&self, path: impl AsRef<std::path::Path>) -> Result<(), LabError> {
        let pending = Pending::open("write the report", path.as_ref())?;
        pending.finish(self.html()).map(drop)
    }
}

impl Quantiles {
    /// "1.50 µs / 21.0 µs".
    pub(crate) fn words(&self) -> String {
        format!("{} / {}", nanos(self.p50_ns as f64), nanos(self.p99_ns as f64))
    }
}

/// The headings of two [`time_cells`]: those of the wall clock, and of the processors.
pub(crate) const TIME_HEADINGS: [&str; 6] = [
    "wall",
    "quartiles",
    "× as it is",
    "CPU time",
    "quartiles",
    "× as it is",
];

/// Median, quartiles and the ratio to the baseline.
pub(crate) fn time_cells(spread: Option<Spread>, over: Option<Ratio>) -> [String; 3] {
    let Some(spread) = spread else {
        return ["–", "", ""].map(String::from);
    };
    let time = |seconds: f64| nanos(seconds * 1e9);
    [
        time(spread.median),
        format!("{} – {}", time(spread.low), time(spread.high)),
        over.map_or_else(String::new, ratio),
    ]
}

/// The warnings, the table, the notes and the advice.
impl fmt::Display for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut printed = Vec::new();
        let machine = &self.machine;
        let text = |text: io::Result<()>| text.map_err(|_| fmt::Error);
        writeln!(f, "{}", self.title)?;
        writeln!(
            f,
            "{}, {} CPUs, {}",
            machine.processor, machine.cpus, machine.system
        )?;
        for warning in self.warnings() {
            writeln!(f, "{warning}")?;
        }
        writeln!(f)?;
        text(self.table().print(&mut printed))?;
        f.write_str(&String::from_utf8_lossy(&printed))?;
        writeln!(f)?;
        for note in self.footnotes() {
            writeln!(f, "{note}")?;
        }
        for failure in self.failures() {
            writeln!(f, "did not complete: {failure}")?;
        }
        write!(f, "\n{}", self.advice())
    }
}
