//! What a comparison with a baseline has found out: a line for each figure of each row.

use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};

use super::baseline::{Baseline, unpaired};
use super::rounds::{RowRuns, Side};
use super::verdict::{ERROR, Looks, Verdict, cost};
use crate::machine::{Machine, Versions};
use crate::plan::{Better, Figure};
use crate::stats::{Spread, spread};

/// A figure of a row.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ComparedFigure {
    /// The row.
    pub(crate) row: String,
    /// The figure.
    pub(crate) figure: Figure,
    /// Its values with the baseline.
    pub(crate) baseline: Option<Spread>,
    /// Its values with this program.
    pub(crate) this: Option<Spread>,
    /// The median of the costs; above 1 this program is worse.
    pub(crate) cost: Option<f64>,
    /// Their quartiles, where there are pairs.
    pub(crate) quartiles: Option<(f64, f64)>,
    /// The interval of their median.
    pub(crate) interval: Option<(f64, f64)>,
    /// The verdict; `None` if there can be none.
    pub(crate) verdict: Option<Verdict>,
    /// Pairs that count, or runs of this program where there are no pairs.
    pub(crate) pairs: usize,
    /// Pairs that were set aside.
    pub(crate) set_aside: usize,
    /// True if the loss is greater than what is allowed.
    pub(crate) fails: bool,
    /// A reason why there are no figures.
    pub(crate) note: Option<String>,
}

/// How the baseline was compared with.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// Its program took turns with this one.
    Paired {
        /// That program.
        program: String,
    },
    /// Its recorded figures are of another time.
    Recorded {
        /// The figures.
        baseline: Box<Baseline>,
    },
    /// There is none.
    Alone,
}

/// A comparison.
pub(crate) struct Compared {
    /// The name of the command.
    pub(crate) program: &'static str,
    /// The command line.
    pub(crate) command: String,
    /// With what.
    pub(crate) kind: Kind,
    /// All runs.
    pub(crate) rows: Vec<RowRuns>,
    /// What they show.
    pub(crate) lines: Vec<ComparedFigure>,
    /// Why there are no verdicts, if there are none.
    pub(crate) refusal: Option<String>,
    /// What a reader must know of the two programs.
    pub(crate) notes: Vec<String>,
    /// Rounds begun.
    pub(crate) rounds: usize,
    /// True if the time was up before all rows were decided.
    pub(crate) time_was_up: bool,
    /// Differences below this share do not matter.
    pub(crate) margin: f64,
    /// This machine.
    pub(crate) machine: Machine,
    /// This program.
    pub(crate) versions: Versions,
    /// The share of the machine that other processes used meanwhile.
    pub(crate) others: Option<f64>,
    /// The usual cache-line round trip, in nanoseconds.
    pub(crate) probe_usual_ns: Option<f64>,
    /// How long it took.
    pub(crate) elapsed: Duration,
}

/// The figures of rows, line by line. A loss of more than `fail_above` fails; `refusal` takes all verdicts
/// away.
pub(crate) fn lines(
    rows: &[RowRuns],
    kind: &Kind,
    refused: bool,
    fail_above: Option<f64>,
) -> Vec<ComparedFigure> {
    let looks = Looks::at(rows.iter().map(|runs| runs.row.figures.len()).sum());
    let mut lines = Vec::new();
    for runs in rows {
        for at in 0..runs.row.figures.len() {
            let mut line = match kind {
                Kind::Paired { .. } => paired(runs, at, fail_above),
                Kind::Recorded { baseline } => recorded(runs, at, baseline, looks, fail_above),
                Kind::Alone => alone(runs, at),
            };
            if refused {
                (line.verdict, line.fails) = (None, false);
            }
            lines.push(line);
        }
    }
    lines
}

/// The figure without a baseline.
fn alone(runs: &RowRuns, at: usize) -> ComparedFigure {
    let this = runs.values(Side::This, at);
    let absent = runs.absent.as_ref();
    let note = absent.map(|reason| format!("not compared, the baseline cannot run it: {reason}"));
    let failed = runs
        .failure
        .as_ref()
        .map(|reason| format!("did not complete: {reason}"));
    let lacks = || {
        this.is_empty()
            .then(|| String::from("no run that counts has this figure"))
    };
    ComparedFigure {
        row: runs.row.name.clone(),
        figure: runs.row.figures[at].clone(),
        baseline: None,
        pairs: this.len(),
        note: note.or(failed).or_else(lacks),
        this: spread(&this),
        cost: None,
        quartiles: None,
        interval: None,
        verdict: None,
        set_aside: runs.set_aside(),
        fails: false,
    }
}

/// The figure from pairs.
fn paired(runs: &RowRuns, at: usize, fail_above: Option<f64>) -> ComparedFigure {
    let costs = runs.costs(at);
    let judged = runs.judged.get(at).copied().flatten();
    let complete = runs.absent.is_none() && runs.failure.is_none();
    let shown = spread(&costs);
    ComparedFigure {
        baseline: spread(&runs.values(Side::Baseline, at)),
        cost: shown.map(|shown| shown.median),
        quartiles: shown.map(|shown| (shown.low, shown.high)),
        interval: judged.and_then(|judged| judged.interval),
        verdict: (complete && shown.is_some())
            .then(|| judged.map_or(Verdict::NotToldApart, |judged| judged.verdict)),
        pairs: costs.len(),
        fails: complete
            && fail_above.is_some_and(|share| judged.is_some_and(|judged| judged.loses_more_than(share))),
        ..alone(runs, at)
    }
}

/// The figure beside the recorded one.
fn recorded(
    runs: &RowRuns,
    at: usize,
    baseline: &Baseline,
    looks: Looks,
    fail_above: Option<f64>,
) -> ComparedFigure {
    let line = alone(runs, at);
    let found = baseline.rows.iter().find(|recorded| recorded.row == runs.row);
    let Some(values) = found.and_then(|recorded| recorded.values.get(at)) else {
        return line;
    };
    let better = runs.row.figures[at].better;
    let this = runs.values(Side::This, at);
    let (interval, verdict) = unpaired(better, values, &this, looks.share());
    let then = spread(values);
    let complete = runs.failure.is_none();
    ComparedFigure {
        cost: then
            .zip(line.this)
            .and_then(|(then, this)| cost(better, then.median, this.median)),
        baseline: then,
        interval,
        verdict: complete.then_some(verdict),
        fails: complete && fail_above.is_some_and(|share| interval.is_some_and(|(low, _)| low > 1.0 + share)),
        ..line
    }
}

impl ComparedFigure {
    /// The direction in words.
    pub(crate) fn direction(&self) -> &'static str {
        match self.figure.better {
            Better::More => "more is better",
            Better::Less => "less is better",
        }
    }
}

impl Compared {
    /// With what it was compared, in one sentence.
    pub(crate) fn sentence(&self) -> String {
        match &self.kind {
            Kind::Paired { program } => format!(
                "This program in turns with {program}: each ratio is of two runs that followed each other."
            ),
            Kind::Recorded { baseline } => format!(
                "Unpaired: the baseline's program is not there, and its figures are of {} on {}, {} CPUs, {}.",
                crate::text::date(baseline.date),
                baseline.machine.processor,
                baseline.machine.cpus,
                baseline.machine.system
            ),
            Kind::Alone => String::from("The rows of this program alone, without a baseline."),
        }
    }

    /// How the verdicts came about.
    pub(crate) fn method(&self) -> String {
        let sure = (1.0 - ERROR) * 100.0;
        match self.kind {
            Kind::Paired { .. } => format!(
                "× baseline: median of the ratios within a round. A verdict is a sign test on them; with {sure:.0} % \
                 no verdict here is wrong. Rows that a difference of {:.1} % leaves undecided got more rounds.",
                self.margin * 100.0
            ),
            Kind::Recorded { .. } => format!(
                "× baseline: ratio of the medians. A verdict needs intervals of both medians that are apart; with \
                 {sure:.0} % no verdict here is wrong, if the machine was the same."
            ),
            Kind::Alone => String::from("Medians, with quartiles."),
        }
    }

    /// Everything as JSON.
    pub(crate) fn json(&self) -> Value {
        let (kind, baseline) = match &self.kind {
            Kind::Paired { program } => ("paired", json!({ "program": program })),
            Kind::Recorded { baseline } => (
                "unpaired",
                json!({ "date": baseline.date, "machine": baseline.machine, "build": baseline.build }),
            ),
            Kind::Alone => ("alone", Value::Null),
        };
        let row = |runs: &RowRuns| {
            json!({
                "name": runs.row.name,
                "request": runs.row.request,
                "turns": runs.turns,
                "baseline_cannot": runs.absent,
                "failure": runs.failure,
            })
        };
        json!({
            "command": self.command,
            "kind": kind,
            "baseline": baseline,
            "refusal": self.refusal,
            "notes": self.notes,
            "rounds": self.rounds,
            "time_was_up": self.time_was_up,
            "seconds": self.elapsed.as_secs_f64(),
            "margin": self.margin,
            "error": ERROR,
            "others_share_of_cpu": self.others,
            "probe_usual_ns": self.probe_usual_ns,
            "machine": self.machine,
            "versions": self.versions,
            "lines": self.lines,
            "rows": self.rows.iter().map(row).collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::baseline::Recorded;
    use super::super::baseline::tests::{baseline, row};
    use super::super::rounds::tests::{BOTH, Made, PACE, rows};
    use super::super::rounds::{RoundLimits, measure};
    use super::*;
    use crate::testing::lab;

    /// A comparison of made-up runs: `churn` loses a fifth, `spawn` is as it was.
    pub(crate) fn compared(kind: Kind, refusal: Option<&str>) -> Compared {
        let sides = match kind {
            Kind::Paired { .. } => BOTH,
            _ => &BOTH[1..],
        };
        let mut bench = Made::new(|row, side, at| {
            let lost = side == Side::This && row.name.starts_with("churn");
            Ok(if lost { 80.0 } else { 100.0 } + (at % 3) as f64 * 0.1)
        });
        let pace = RoundLimits { rounds: 20, ..PACE };
        let found = measure(rows(), sides, &pace, &mut bench).unwrap();
        Compared {
            program: "lab",
            command: String::from("lab compare --against <old>"),
            lines: lines(&found.rows, &kind, refusal.is_some(), Some(0.03)),
            kind,
            rows: found.rows,
            refusal: refusal.map(str::to_owned),
            notes: vec![String::from("Another compiler.")],
            rounds: found.rounds,
            time_was_up: found.time_was_up,
            margin: 0.03,
            machine: Machine::here(),
            versions: lab().versions(),
            others: Some(0.3),
            probe_usual_ns: Some(60.0),
            elapsed: Duration::from_secs(5),
        }
    }

    pub(crate) fn pairs() -> Kind {
        Kind::Paired {
            program: String::from("<old>"),
        }
    }

    fn figures() -> Kind {
        let values = vec![(0..20).map(|at| 100.0 + f64::from(at % 3) * 0.1).collect()];
        let recorded = |workload| Recorded {
            row: row(workload, &[Figure::RATE]),
            values: values.clone(),
        };
        let baseline = Box::new(baseline(vec![recorded("churn"), recorded("spawn")]));
        Kind::Recorded { baseline }
    }

    #[test]
    fn pairs_and_recorded_figures_show_the_same_loss() {
        for kind in [pairs(), figures()] {
            let lines = compared(kind, None).lines;
            assert_eq!(lines[0].verdict, Some(Verdict::Loss));
            assert!(lines[0].fails && (lines[0].cost.unwrap() - 1.25).abs() < 0.01);
            assert_eq!(
                (lines[1].verdict, lines[1].fails),
                (Some(Verdict::NotToldApart), false)
            );
        }
    }

    #[test]
    fn a_refusal_takes_verdicts_away_and_leaves_the_figures() {
        let compared = compared(figures(), Some("another processor"));
        assert!(
            compared
                .lines
                .iter()
                .all(|line| line.verdict.is_none() && !line.fails)
        );
        assert!(compared.lines.iter().all(|line| line.cost.is_some()));
        let mut text = Vec::new();
        compared.print(&mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(text.starts_with("Warning: other processes used 30 %"), "{text}");
        assert!(text.contains("No verdict: another processor."), "{text}");
        assert!(
            text.contains("Unpaired: ") && text.contains("1970-01-12"),
            "{text}"
        );
    }

    #[test]
    fn the_table_shows_ratios_in_the_direction_of_the_figure() {
        let mut text = Vec::new();
        compared(pairs(), None).print(&mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let churn = text.lines().find(|line| line.contains("churn")).unwrap();
        assert!(
            churn.contains("more is better") && churn.contains(" 0.80"),
            "{text}"
        );
        assert!(churn.contains("loss, more than allowed"), "{text}");
        assert!(text.contains("not told apart"), "{text}");
    }

    #[test]
    fn a_row_without_runs_says_why() {
        let rate = |row: &crate::against::rounds::JudgedRow, _, _| Err(row.request.failed("it hangs"));
        let mut bench = Made::new(rate);
        let found = measure(rows(), BOTH, &PACE, &mut bench).unwrap();
        let lines = lines(&found.rows, &pairs(), false, Some(0.0));
        for line in lines {
            assert_eq!((line.verdict, line.fails), (None, false));
            assert!(line.said().contains("the baseline cannot run it") && line.said().contains("it hangs"));
        }
        let json = compared(pairs(), None).json();
        assert_eq!(json["lines"][0]["verdict"], "loss");
        assert_eq!(json["rows"][0]["turns"][1]["runs"][0]["side"], "this");
    }
}
