//! The figures of a session, cell by cell: medians, spreads, and ratios to the best peer.

use serde::Serialize;

use super::record::Outcome;
use super::session::{CellRuns, Session};
use super::stats::{Ratio, Spread, median, paired_ratio, spread};

/// One cell.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    /// Runtime or policy.
    pub(crate) contestant: String,
    /// The runtime.
    pub(crate) runtime: String,
    /// True if it is a policy of the runtime.
    pub(crate) is_policy: bool,
    /// Worker threads.
    pub(crate) workers: usize,
    /// Operations per second.
    pub(crate) throughput: Option<Spread>,
    /// Latencies in nanoseconds: p50, p99, p99.9, p99.99, max.
    pub(crate) latency: Option<[Spread; 5]>,
    /// The latency curve: medians over the runs, (share, nanoseconds).
    pub(crate) curve: Vec<(f64, f64)>,
    /// Further figures: medians by name.
    pub(crate) measures: Vec<(String, f64)>,
    /// Operations of a run.
    pub(crate) median_operations: f64,
    /// Counters, medians by name.
    pub(crate) counters: Vec<(String, f64)>,
    /// Throughput over that of the best peer with as many workers.
    pub(crate) over_best_peer: Option<Ratio>,
    /// p99 over that of the best peer with as many workers.
    pub(crate) p99_over_best_peer: Option<Ratio>,
    /// A policy's throughput over that of the best other policy with as many workers.
    pub(crate) over_best_policy: Option<Ratio>,
    /// Its p99 over that of the other policy whose p99 is the best.
    pub(crate) p99_over_best_policy: Option<Ratio>,
    /// The best peer itself.
    pub(crate) best_peer: Option<String>,
    /// Runs that count.
    pub(crate) runs: usize,
    /// Runs set aside because they began in a slow phase.
    pub(crate) set_aside: usize,
    /// A remark that a reader must know.
    pub(crate) remark: Option<String>,
    /// True if the remark says that it did something else than the others.
    pub(crate) differs: bool,
    /// The reason if there are no (more) figures.
    pub(crate) failure: Option<String>,
}

/// Throughput as a figure of an outcome.
pub(crate) fn throughput(outcome: &Outcome) -> Option<f64> {
    Some(outcome.throughput)
}

/// p99 as a figure of an outcome, in nanoseconds.
pub(crate) fn p99(outcome: &Outcome) -> Option<f64> {
    outcome.latency.as_ref().map(|latency| latency.p99 as f64)
}

impl Row {
    /// The contestant, before a policy the runtime that has it.
    pub(crate) fn title(&self) -> String {
        if self.is_policy {
            format!("{} {}", self.runtime, self.contestant)
        } else {
            self.contestant.clone()
        }
    }

    /// What a table says beside the figures.
    pub(crate) fn remarks(&self) -> String {
        let failure = self.failure.as_ref().map(|_| "did not complete");
        let remarks: Vec<&str> = self.remark.as_deref().into_iter().chain(failure).collect();
        remarks.join("; ")
    }

    /// The median p99 in nanoseconds.
    pub(crate) fn p99(&self) -> Option<f64> {
        self.latency.map(|latency| latency[1].median)
    }

    /// A further figure by its name.
    pub(crate) fn measure(&self, wanted: &str) -> Option<f64> {
        let found = self.measures.iter().find(|(name, _)| name == wanted);
        found.map(|(_, value)| *value)
    }

    /// The median throughput.
    pub(crate) fn median_throughput(&self) -> Option<f64> {
        self.throughput.map(|throughput| throughput.median)
    }
}

/// The rows of a session, in the order of its cells.
pub(crate) fn rows(session: &Session) -> Vec<Row> {
    session.cells.iter().map(|cell| row(session, cell)).collect()
}

fn row(session: &Session, cell: &CellRuns) -> Row {
    let percentiles: [fn(&super::latency::Latency) -> u64; 5] =
        [|l| l.p50, |l| l.p99, |l| l.p999, |l| l.p9999, |l| l.max];
    let spreads: Vec<Spread> = percentiles
        .iter()
        .filter_map(|figure| {
            spread(&cell.sample(|outcome| outcome.latency.as_ref().map(|l| figure(l) as f64)))
        })
        .collect();
    let best = best_peer(session, cell);
    let against = |best: Option<&CellRuns>, figure: fn(&Outcome) -> Option<f64>| {
        let best = best?;
        paired_ratio(
            &cell.by_round(session.rounds, figure),
            &best.by_round(session.rounds, figure),
        )
    };
    Row {
        contestant: cell.cell.contestant(),
        runtime: cell.cell.runtime.to_owned(),
        is_policy: cell.cell.policy.is_some(),
        workers: cell.cell.workers,
        throughput: spread(&cell.sample(throughput)),
        latency: spreads.try_into().ok(),
        curve: curve(cell),
        measures: medians(cell, |outcome| {
            outcome
                .measures
                .iter()
                .map(|(name, value)| (name.clone(), *value))
                .collect()
        }),
        median_operations: median(&cell.sample(|outcome| Some(outcome.operations as f64))).unwrap_or(0.0),
        counters: medians(cell, |outcome| {
            let counters = outcome.counters.iter().flat_map(|counters| &counters.total);
            counters
                .filter_map(|(name, value)| Some((name.clone(), value.as_f64()?)))
                .collect()
        }),
        over_best_peer: against(best, throughput),
        p99_over_best_peer: against(best, p99),
        over_best_policy: against(best_other_policy(session, cell, throughput), throughput),
        p99_over_best_policy: against(
            best_other_policy(session, cell, |outcome| Some(-p99(outcome)?)),
            p99,
        ),
        best_peer: best.map(|best| best.cell.contestant()),
        runs: cell.counted().len(),
        set_aside: cell.set_aside(),
        differs: cell.remark.is_some_and(|remark| remark.differs),
        remark: cell.remark.map(|remark| remark.text.to_owned()),
        failure: cell.failure.clone(),
    }
}

/// The best peer with as many workers by median throughput; a peer is compared with the best *other* one. No
/// other row is compared with one whose remark says that it did not quite the same thing.
fn best_peer<'a>(session: &'a Session, of: &CellRuns) -> Option<&'a CellRuns> {
    session
        .cells
        .iter()
        .filter(|cell| cell.cell.policy.is_none() && !cell.remark.is_some_and(|remark| remark.differs))
        .filter(|cell| cell.cell.workers == of.cell.workers && cell.cell != of.cell)
        .filter_map(|cell| Some((median(&cell.sample(throughput))?, cell)))
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, cell)| cell)
}

/// The other policy with as many workers whose median of this figure is the largest. For a peer there
/// is none.
fn best_other_policy<'a>(
    session: &'a Session,
    of: &CellRuns,
    figure: fn(&Outcome) -> Option<f64>,
) -> Option<&'a CellRuns> {
    let is_policy = |cell: &CellRuns| cell.cell.policy.is_some();
    session
        .cells
        .iter()
        .filter(|cell| is_policy(of) && is_policy(cell))
        .filter(|cell| cell.cell.workers == of.cell.workers && cell.cell != of.cell)
        .filter_map(|cell| Some((median(&cell.sample(figure))?, cell)))
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, cell)| cell)
}

/// The medians of named figures, in the order in which the last run names them.
fn medians(cell: &CellRuns, figures: impl Fn(&Outcome) -> Vec<(String, f64)>) -> Vec<(String, f64)> {
    let all: Vec<Vec<(String, f64)>> = cell
        .counted()
        .iter()
        .map(|record| figures(&record.outcome))
        .collect();
    let Some(last) = all.last() else { return Vec::new() };
    last.iter()
        .filter_map(|(name, _)| {
            let values: Vec<f64> = all
                .iter()
                .flatten()
                .filter(|(other, _)| other == name)
                .map(|(_, value)| *value)
                .collect();
            Some((name.clone(), median(&values)?))
        })
        .collect()
}

/// Point by point the median of the runs' curves.
fn curve(cell: &CellRuns) -> Vec<(f64, f64)> {
    let curves: Vec<&Vec<(f64, u64)>> = cell
        .counted()
        .iter()
        .filter_map(|record| record.outcome.latency.as_ref())
        .map(|l| &l.curve)
        .collect();
    let points = curves.iter().map(|curve| curve.len()).min().unwrap_or(0);
    (0..points)
        .filter_map(|at| {
            let values: Vec<f64> = curves.iter().map(|curve| curve[at].1 as f64).collect();
            Some((curves[0][at].0, median(&values)?))
        })
        .collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::machine::Machine;
    use super::super::session::tests::{cell, record};
    use super::*;
    use crate::testing::lab;
    use std::time::Duration;

    /// A made-up contestant: runtime, policy, workers, throughput round by round, p99 in microseconds.
    pub(crate) type Contestant<'a> = (&'static str, Option<&'a str>, usize, &'a [f64], u64);

    /// A session of made-up runs.
    pub(crate) fn session(contestants: &[Contestant<'_>]) -> Session {
        let rounds = contestants
            .iter()
            .map(|contestant| contestant.3.len())
            .max()
            .unwrap_or(0);
        let cells = contestants
            .iter()
            .map(|(runtime, policy, workers, throughputs, p99)| {
                let records = throughputs.iter().enumerate().map(|(round, throughput)| {
                    let mut record = record(round, true, false, *throughput);
                    let jitter = (round % 2) as u64;
                    record.outcome.latency = Some(crate::latency::Latency {
                        count: 100,
                        p50: p99 * 100,
                        p99: p99 * 1000 + jitter,
                        p999: p99 * 2000,
                        p9999: p99 * 3000,
                        max: p99 * 4000,
                        curve: vec![(0.5, p99 * 100), (0.99, p99 * 1000), (1.0, p99 * 4000)],
                        ..Default::default()
                    });
                    record
                });
                cell(runtime, *policy, *workers, records.collect())
            })
            .collect();
        Session {
            cells,
            rounds,
            rounds_asked: rounds,
            probe_usual_ns: Some(60.0),
            program: "lab",
            machine: Machine::here(),
            versions: lab().versions(),
            others: Some(0.5),
            elapsed: Duration::from_secs(1),
            simulated: None,
            hint: None,
            interrupted: false,
        }
    }

    #[test]
    fn a_remark_takes_a_peer_out_of_the_comparison_only_if_it_did_something_else() {
        let remark = |differs| {
            let text = "remarkable";
            Some(crate::workload::Caveat { text, differs })
        };
        let mut session = session(&[
            ("rayon", None, 1, &[10.0; 8], 20),
            ("chili", None, 1, &[30.0; 8], 20),
            ("sequential", None, 1, &[90.0; 8], 20),
        ]);
        session.cells[1].remark = remark(false);
        session.cells[2].remark = remark(true);
        let best: Vec<_> = rows(&session).into_iter().map(|row| row.best_peer).collect();
        let [chili, rayon] = ["chili", "rayon"].map(|name| Some(name.to_owned()));
        assert_eq!(best, [chili.clone(), rayon, chili]);
    }

    #[test]
    fn a_policy_is_compared_with_the_best_other_one_in_throughput_and_in_p99() {
        let session = session(&[
            ("warpweft", Some("adaptive"), 2, &[9.0; 8], 20),
            ("warpweft", Some("fifo"), 2, &[8.0; 8], 10),
            ("warpweft", Some("lifo"), 2, &[10.0; 8], 40),
            ("warpweft", Some("lifo"), 1, &[90.0; 8], 1),
            ("rayon", None, 2, &[50.0; 8], 5),
        ]);
        let medians = |ratio: fn(&Row) -> Option<Ratio>| -> Vec<Option<f64>> {
            let round = |ratio: Ratio| (ratio.median * 1000.0).round() / 1000.0;
            rows(&session).iter().map(|row| ratio(row).map(round)).collect()
        };
        let in_throughput = [Some(0.9), Some(0.8), Some(1.111), None, None];
        assert_eq!(medians(|row| row.over_best_policy), in_throughput);
        let in_p99 = [Some(2.0), Some(0.5), Some(4.0), None, None];
        assert_eq!(medians(|row| row.p99_over_best_policy), in_p99);
    }

    #[test]
    fn rows_compare_with_the_best_peer_of_as_many_workers() {
        let session = session(&[
            ("warpweft", Some("fifo"), 2, &[12.0; 8], 10),
            ("rayon", None, 2, &[10.0; 8], 20),
            ("tokio", None, 2, &[8.0; 8], 5),
            ("smol", None, 4, &[50.0; 8], 5),
        ]);
        let rows = rows(&session);
        assert_eq!(rows[0].best_peer.as_deref(), Some("rayon"));
        let ratio = rows[0].over_best_peer.unwrap();
        assert!((ratio.median - 1.2).abs() < 1e-9 && ratio.is_shown());
        assert!((rows[0].p99_over_best_peer.unwrap().median - 0.5).abs() < 1e-3);
        assert_eq!(
            rows[1].best_peer.as_deref(),
            Some("tokio"),
            "a peer is compared with the best other one"
        );
        assert_eq!(rows[3].best_peer, None);
    }
}
