//! Parts that several workloads share: the recorders on which tasks leave their figures, spawners and chains,
//! made-up input, servers.

pub mod actors;
pub(crate) mod answer;
pub(crate) mod backends;
pub(crate) mod burn;
pub(crate) mod capture;
pub(crate) mod chain;
pub mod check;
pub mod choices;
pub(crate) mod event;
pub(crate) mod fib;
pub(crate) mod foreign;
pub(crate) mod host;
pub(crate) mod packets;
pub(crate) mod sockets;
pub(crate) mod task_bench;
pub(crate) mod task_recorder;
pub(crate) mod wire;

/// More threads than this are never started in one run, nor are more coroutines of may suspended.
pub(crate) const MOST_THREADS: u64 = 20_000;

/// A request for a workload with settings, on no runtime yet.
#[cfg(test)]
pub(crate) fn request(workload: &str, settings: &[&str]) -> harness::Request {
    let settings: Vec<String> = settings.iter().map(ToString::to_string).collect();
    let files = harness::Files::default();
    let chosen = crate::lab([]).choose(workload, false, &settings, &files, std::time::Duration::MAX);
    chosen
        .unwrap_or_else(|error| panic!("{workload}: {error}"))
        .request(files)
}
