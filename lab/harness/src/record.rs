//! The result of a run and its record: one JSON object, with all that is needed to judge its figures.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::latency::{self, Latency};
use super::machine::{Machine, Versions};
use crate::params::Params;
use crate::plan::Figure;
use crate::simulation::Simulated;

/// The counters of a scheduler over the measured part of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Counters {
    /// Summed over the workers.
    pub total: Map<String, Value>,
    /// Worker by worker.
    pub workers: Vec<Map<String, Value>>,
}

impl Counters {
    /// Adds the counters of another pool of the same run; its workers come behind these.
    pub fn beside(mut self, other: Self) -> Self {
        for (name, value) in other.total {
            let sum =
                self.total.get(&name).and_then(Value::as_u64).unwrap_or(0) + value.as_u64().unwrap_or(0);
            self.total.insert(name, Value::from(sum));
        }
        self.workers.extend(other.workers);
        self
    }

    /// Returns what was counted since `before`.
    pub fn since(&self, before: &Self) -> Self {
        let empty = Map::new();
        Self {
            total: difference(&self.total, &before.total),
            workers: self
                .workers
                .iter()
                .enumerate()
                .map(|(at, after)| difference(after, before.workers.get(at).unwrap_or(&empty)))
                .collect(),
        }
    }
}

/// `after - before`, counter by counter.
fn difference(after: &Map<String, Value>, before: &Map<String, Value>) -> Map<String, Value> {
    after
        .iter()
        .map(|(name, value)| {
            let earlier = before.get(name).and_then(Value::as_u64).unwrap_or(0);
            let later = value.as_u64().unwrap_or(0);
            (name.clone(), Value::from(later.saturating_sub(earlier)))
        })
        .collect()
}

/// The result of one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Pieces of work done: packets, tasks.
    pub operations: u64,
    /// Length of the measured part.
    pub seconds: f64,
    /// Operations per second.
    pub throughput: f64,
    /// Latencies, where the workload has any.
    pub latency: Option<Latency>,
    /// Further figures by name; the unit is part of the name.
    pub measures: BTreeMap<String, f64>,
    /// The scheduler's counters, where it has some.
    pub counters: Option<Counters>,
    /// Remarks that a reader of the figures must know.
    pub remarks: Vec<String>,
    /// The machine and more, if the run was simulated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simulated: Option<Simulated>,
}

impl Outcome {
    /// An outcome without latencies or counters.
    pub fn new(operations: u64, elapsed: Duration) -> Self {
        let seconds = elapsed.as_secs_f64();
        Self {
            operations,
            seconds,
            throughput: operations as f64 / seconds.max(1e-9),
            ..Self::default()
        }
    }

    /// Adds the latencies of a histogram.
    pub fn with_latency(mut self, histogram: &Histogram<u64>) -> Self {
        self.latency = latency::read(histogram);
        self
    }

    /// Adds the latencies of two kinds of work together, and if there are heavy ones, both kinds apart.
    pub fn with_latencies_apart(mut self, light: &Histogram<u64>, heavy: &Histogram<u64>) -> Self {
        let mut both = light.clone();
        // The bounds are the same constants everywhere.
        both.add(heavy).expect("the same bounds");
        self = self.with_latency(&both);
        if heavy.is_empty() {
            return self;
        }
        for (name, histogram, share) in [
            ("light_p50_us", light, 0.5),
            ("light_p99_us", light, 0.99),
            ("light_p999_us", light, 0.999),
            ("light_max_us", light, 1.0),
            ("heavy_p50_us", heavy, 0.5),
            ("heavy_p99_us", heavy, 0.99),
            ("heavy_max_us", heavy, 1.0),
        ] {
            let micros = histogram.value_at_quantile(share) as f64 / 1e3;
            self = self.with_measure(name, micros);
        }
        self
    }

    /// Adds a figure.
    pub fn with_measure(mut self, name: &str, value: f64) -> Self {
        self.measures.insert(name.to_owned(), value);
        self
    }
}

impl Figure {
    /// The value of this figure in an outcome, if it has one.
    pub fn of(&self, outcome: &Outcome) -> Option<f64> {
        let latency = outcome.latency.as_ref();
        match self.name.as_ref() {
            "rate" => Some(outcome.throughput),
            "p50" => latency.map(|latency| latency.p50 as f64),
            "p99" => latency.map(|latency| latency.p99 as f64),
            "p999" => latency.map(|latency| latency.p999 as f64),
            "max" => latency.map(|latency| latency.max as f64),
            name => outcome.measures.get(name).copied(),
        }
    }
}

/// One run, complete.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// The workload with its variant.
    pub workload: String,
    /// All its parameters.
    pub parameters: Params,
    /// The capture, if it was not the bundled one, or the chain of options, if they were not drawn.
    pub capture: Option<String>,
    /// The runtime.
    pub runtime: String,
    /// Its policy, for the one that has policies.
    pub policy: Option<String>,
    /// The workers asked for.
    pub workers: usize,
    /// The round, from 0.
    pub round: usize,
    /// True if the run counts. The first round does not, unless it is the only one.
    pub kept: bool,
    /// The reason if it does not count although its round does.
    pub set_aside: Option<String>,
    /// The cache-line round trip just before the run, in nanoseconds.
    pub probe_ns: Option<f64>,
    /// The usual round trip of the session.
    pub probe_usual_ns: Option<f64>,
    /// Its result.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// Compiler, allocator, contestants.
    pub versions: Versions,
    /// The machine.
    pub machine: Machine,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_taken_over_the_measured_part_only() {
        let counters = |ran: u64| Counters {
            total: Map::from_iter([(String::from("ran"), Value::from(ran))]),
            workers: vec![Map::from_iter([(String::from("ran"), Value::from(ran))])],
        };
        let measured = counters(150).since(&counters(100));
        assert_eq!(measured.total["ran"], 50);
        assert_eq!(measured.workers[0]["ran"], 50);
        let both = counters(30).beside(counters(12));
        assert_eq!((&both.total["ran"], both.workers.len()), (&Value::from(42), 2));
    }

    #[test]
    fn two_kinds_of_work_are_told_together_and_apart() {
        let of = |nanos: u64, count: u64| {
            let mut histogram = latency::empty_histogram();
            histogram.saturating_record_n(nanos, count);
            histogram
        };
        let both =
            Outcome::new(10, Duration::from_millis(1)).with_latencies_apart(&of(1000, 8), &of(64_000, 2));
        assert_eq!(both.latency.as_ref().map(|latency| latency.count), Some(10));
        assert!((both.measures["light_p999_us"] - 1.0).abs() < 0.01, "{both:?}");
        assert!((both.measures["heavy_p50_us"] - 64.0).abs() < 0.5, "{both:?}");
        let one = Outcome::new(8, Duration::from_millis(1)).with_latencies_apart(&of(1000, 8), &of(0, 0));
        assert!(one.measures.is_empty() && one.latency.is_some());
    }

    #[test]
    fn throughput_is_operations_over_seconds() {
        let outcome = Outcome::new(1000, Duration::from_millis(500));
        assert!((outcome.throughput - 2000.0).abs() < 1e-6);
    }
}
