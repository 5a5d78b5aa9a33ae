//! What a workload is: its name, its sizes, its programs, and the figures that they give.

use crate::idioms::{Calls, Futures, TestLoop, WarpweftTasks};
use serde_json::{Value, json};

/// A setting of a workload, by the name that the command line has for it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setting {
    pub(crate) name: &'static str,
    /// One sentence: what the ranks do.
    pub(crate) about: &'static str,
    /// How much work: the workload says of what. Zero is all.
    pub(crate) amount: usize,
    /// An amount that takes milliseconds.
    pub(crate) smoke: usize,
    /// The ranks of a job and the workers of each rank.
    pub(crate) jobs: &'static [(usize, usize)],
}

/// A workload. The same programs run on all contestants; each has the ones of its idiom.
///
/// A contestant that a program does not suit may have its own, such as `plain`, or `lacks` says why it has
/// none.
pub(crate) trait Workload: Clone + Send + Sync + 'static {
    const SETTINGS: &'static [Setting];

    /// The workload in this setting, with this amount of work.
    fn new(setting: &'static Setting, amount: usize) -> Self;

    /// Says why this contestant has no program for it, or why not with so many ranks and workers.
    fn lacks(&self, contestant: &str, ranks: usize, workers: usize) -> Option<&'static str>;

    /// The program of contestants whose tasks await messages. All ranks run it; the figures of rank 0 count.
    fn futures<F: Futures>(self, on: F) -> impl Future<Output = Vec<Figure>> + Send {
        let _ = on;
        async { unreachable!("{NO_PROGRAM}") }
    }

    /// The program of contestants whose threads wait in calls.
    fn calls<C: Calls>(self, on: &C) -> Vec<Figure> {
        let _ = on;
        unreachable!("{NO_PROGRAM}")
    }

    /// The program of `warpweft`.
    fn warpweft<W: WarpweftTasks>(self, on: W) -> impl Future<Output = Vec<Figure>> + Send {
        self.futures(on)
    }

    /// The program of `plain`.
    fn plain<T: TestLoop>(self, on: &T) -> Vec<Figure> {
        self.calls(on)
    }

    /// The program of `rayon`, which runs on its pool.
    fn rayon<C: Calls>(self, on: &C) -> Vec<Figure> {
        self.calls(on)
    }
}

const NO_PROGRAM: &str = "a contestant without a program is refused before";

/// What is said of the peers of a measure that only concerns `warpweft-mpi`.
pub(crate) const OURS_ALONE: &str = "has no such thing: this is a property of warpweft-mpi alone";

/// One figure of a run.
#[derive(Debug, Clone)]
pub(crate) struct Figure {
    pub(crate) name: &'static str,
    pub(crate) value: f64,
    pub(crate) unit: &'static str,
    pub(crate) is_less_better: bool,
    /// What else a reader may want to know.
    pub(crate) extra: String,
}

impl Figure {
    /// A figure of which less is better.
    pub(crate) fn less(name: &'static str, value: f64, unit: &'static str) -> Self {
        Self {
            name,
            value,
            unit,
            is_less_better: true,
            extra: String::new(),
        }
    }

    /// A figure of which more is better.
    pub(crate) fn more(name: &'static str, value: f64, unit: &'static str) -> Self {
        Self {
            is_less_better: false,
            ..Self::less(name, value, unit)
        }
    }

    pub(crate) fn extra(self, extra: String) -> Self {
        Self { extra, ..self }
    }

    /// The line of JSON that `cargo xtask mpi` reads.
    pub(crate) fn line(&self, workload: &str, contestant: &str, ranks: usize, workers: usize) -> Value {
        json!({
            "workload": workload, "contestant": contestant, "ranks": ranks, "workers": workers,
            "figure": self.name, "value": self.value, "unit": self.unit,
            "is_less_better": self.is_less_better, "extra": self.extra,
        })
    }
}

/// The line of JSON for a contestant that has no program.
pub(crate) fn lack_line(
    workload: &str,
    contestant: &str,
    ranks: usize,
    workers: usize,
    reason: &str,
) -> Value {
    json!({
        "workload": workload, "contestant": contestant, "ranks": ranks, "workers": workers,
        "lacks": reason,
    })
}

/// How a run ended, as one rank sees it.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) rank: usize,
    pub(crate) ranks: usize,
    pub(crate) outcome: Outcome,
}

/// What a run gave.
#[derive(Debug)]
pub(crate) enum Outcome {
    Figures(Vec<Figure>),
    /// The contestant has no program for it.
    Lacks(&'static str),
}
