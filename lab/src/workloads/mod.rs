//! The workloads: programs against the public interface of a runtime, the same work for every contestant.
//!
//! ```text
//!  spec.rs     what exists: names, parameters, variants   ──▶ Request  (one run, as data)
//!                                                               │ load
//!  packet.rs pcap.rs packet_cache.rs packet_bimodal.rs options/ ▼
//!  fib_promise.rs spawn.rs scope.rs parked.rs             ──▶ Program  (ready to run)
//!  fork_join/ http/ pingpong.rs lock.rs                         │ run_tasks / run_(joining_)jobs / run_forks / run_scope / run_waits /
//!  timers.rs mixed/ mixer/ remote/ apps/ micro/                 │ run_timers / run_mixed / run_http / run_remote / run_apps / run_parks,
//!                                                               │ called by a peer
//!                                                               ▼
//!                                                            Outcome   (checked)
//! ```
//!
//! Ground rules
//! - Equal work and an equal window of tasks under way for every contestant.
//! - Each run checks its result and fails loudly.
//! - A tenth of the work, at most, is done beforehand on the same pool and not measured: threads are up, the
//!   allocator has its pages. (Not for `parked` and `timers`, where memory is what is measured.)

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::error::LabError;
use crate::harness::record::Outcome;
use crate::peers::java;
use crate::peers::{JobPool, JoiningJobs, Runtime, TaskPool};

mod apps;
mod backlog;
mod burn;
pub(crate) mod capture;
mod chain;
mod choices;
mod fib_promise;
mod fork_join;
pub(crate) mod gate;
pub(crate) mod http;
mod idioms;
pub(crate) mod lane;
mod listener;
mod lock;
mod measure;
pub(crate) mod micro;
mod mixed;
pub(crate) mod mixer;
pub(crate) mod options;
mod packet;
mod packet_bimodal;
mod packet_cache;
mod packets;
pub(crate) mod params;
mod parked;
mod pcap;
mod pingpong;
mod remarks;
mod remote;
mod scope;
mod spawn;
pub(crate) mod spec;
mod timers;

pub(crate) use remarks::{Remark, remark};

use choices::{FIBERS, IO, IO_THREAD, STYLE, UNWATCHED, WATCH};
use measure::{base, check, measured, not_for};
use mixer::Audio;
use params::Params;
use remote::{map_reduce, sweep};
use spawn::inside;
use spec::Kind;

/// One run, as data: what a fresh process needs to make it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Request {
    /// The workload with its variant, for messages.
    pub(crate) workload: String,
    /// Which program it is.
    pub(crate) kind: Kind,
    /// All its parameters.
    pub(crate) params: Params,
    /// The file with what is replayed or priced: a capture, or a chain of options. Without it, the bundled
    /// capture, options that are drawn.
    pub(crate) capture: Option<PathBuf>,
    /// The runtime's name.
    pub(crate) runtime: String,
    /// The policy, for the runtime that has policies.
    pub(crate) policy: Option<String>,
    /// Worker threads.
    pub(crate) workers: usize,
    /// Files of the workload that mixes.
    #[serde(default)]
    pub(crate) audio: Audio,
}

impl Request {
    /// The runtime.
    pub(crate) fn runtime(&self) -> Result<Runtime, LabError> {
        Runtime::parse(&self.runtime)
    }

    /// Runtime, policy and workers, for messages.
    pub(crate) fn contestant(&self) -> String {
        let policy = self
            .policy
            .as_ref()
            .map(|policy| format!(" {policy}"))
            .unwrap_or_default();
        let plural = if self.workers == 1 { "" } else { "s" };
        format!("{}{policy}, {} worker{plural}", self.runtime, self.workers)
    }

    /// The same request, as it will really run on this contestant: a thread per task bounds how many there
    /// are, threads that sleep bound how much there is to do, and so do the two mappings of a suspended
    /// coroutine, as the kernel has 65530 for a process.
    pub(crate) fn fitted(mut self) -> Result<Self, LabError> {
        let bounded = match self.runtime()? {
            runtime if let Kind::App(name) = self.kind => apps::bounded(name, runtime),
            Runtime::Threads => self.kind != Kind::FibPromise && !micro::is_micro(self.kind),
            Runtime::May => self.kind == Kind::Timers,
            _ => false,
        };
        if bounded {
            let n = self.params.number("n").min(MOST_THREADS);
            self.params = self.params.with_number("n", n);
        }
        if self.kind == Kind::Mixer && matches!(self.runtime()?, Runtime::Threads | Runtime::May) {
            let most = MOST_THREADS / (self.params.number("participants") + 1);
            let conferences = self.params.number("conferences").min(most);
            self.params = self.params.with_number("conferences", conferences);
        }
        if self.runtime()? == Runtime::Rayon && self.kind == Kind::Mapreducefib {
            let at_once = MOST_ASLEEP * self.workers as u64;
            let n = self
                .params
                .number("n")
                .min((at_once / self.params.number("wait").max(1)).max(1));
            self.params = self.params.with_number("n", n);
        }
        Ok(self)
    }
}

/// More threads than this are never started in one run, nor are more coroutines of may suspended.
const MOST_THREADS: u64 = 20_000;
/// Milliseconds that a worker sleeps at most over all items, where sleeping holds it.
const MOST_ASLEEP: u64 = 10_000;
/// The threads of fib double with each step of n; fib(15) starts 986 of them.
const MOST_THREAD_FIB: u64 = 15;

/// Why this runtime cannot run this workload, if so.
pub(crate) fn refusal(request: &Request) -> Result<Option<String>, LabError> {
    let runtime = request.runtime()?;
    if let Some(reason) = chain::refusal(request, runtime)? {
        return Ok(Some(reason));
    }
    if micro::is_micro(request.kind) {
        return micro::refusal(request);
    }
    if runtime == Runtime::Java && !java::has_program(request.kind) {
        return Ok(Some(java::NO_PROGRAM.to_owned()));
    }
    let reason = match (request.kind, runtime) {
        (Kind::App(_), _) => return Ok(apps::refusal(runtime)),
        (Kind::Parked, Runtime::Rayon | Runtime::RayonFifo) => {
            "its jobs cannot wait without holding a worker"
        }
        (Kind::Pcap, Runtime::Go) => "the handler's parsers are Rust libraries",
        (Kind::Spawn, Runtime::Go) if request.params.word("from") == "outside" => {
            "all its threads are its own: there is no outside"
        }
        (Kind::Spawn, _) if spawn::in_scope(&request.params) => {
            return Ok(scope::refusal(&request.params, runtime));
        }
        (Kind::FibPromise, Runtime::Threads) if request.params.number("n") > MOST_THREAD_FIB => {
            "a thread per call: n is 15 at most"
        }
        (Kind::Mixer, Runtime::May) => return Ok(None),
        (Kind::Mixer, Runtime::Rayon | Runtime::RayonFifo) => "its jobs cannot yield and come back later",
        (Kind::Mixer, Runtime::Go) if !request.audio.is_none() => {
            "its program neither reads nor writes WAV files"
        }
        (Kind::Mixed, Runtime::Warpweft | Runtime::TokioRayon) => return Ok(None),
        (Kind::Mixed, Runtime::Tokio | Runtime::Smol) => {
            "it has nothing to fork and join with: see tokio+rayon"
        }
        (Kind::Mixed, Runtime::Rayon | Runtime::RayonFifo) => {
            "its jobs cannot wait for sockets: see tokio+rayon"
        }
        (Kind::Mixed, Runtime::Go) if !mixed::asks_for_sorts(&request.params) => {
            "its clock is that of another process: see mixed/request"
        }
        (Kind::Http, Runtime::Warpweft | Runtime::Tokio | Runtime::TokioRayon) => return Ok(None),
        (
            Kind::Mapreducefib | Kind::Sweep,
            Runtime::Warpweft | Runtime::Rayon | Runtime::Tokio | Runtime::TokioRayon,
        ) => return Ok(None),
        (Kind::Mapreducefib | Kind::Sweep, Runtime::RayonFifo) => {
            "rayon's join is the same whatever the order: see rayon"
        }
        (Kind::Mapreducefib | Kind::Sweep, Runtime::Threads) => "threads that wait measure the kernel",
        (Kind::Mapreducefib | Kind::Sweep, Runtime::Smol) => "it has no timers of its own",
        (Kind::Mapreducefib, Runtime::Go) if request.params.word("from") == "tcp" => {
            "its program has no server to ask"
        }
        (Kind::Mapreducefib | Kind::Sweep, Runtime::Go) => return Ok(runtime.missing()),
        (_, Runtime::TokioRayon) => "two pools, one that waits and one that joins: see mixed and http",
        (Kind::Timers, Runtime::Smol) => "it has no timers of its own",
        (Kind::Pingpong | Kind::Timers, Runtime::Rayon | Runtime::RayonFifo) => {
            "its jobs cannot wait without holding a worker"
        }
        (Kind::Lock, Runtime::Rayon | Runtime::RayonFifo) => "it has no mutex of its own",
        (Kind::Pingpong | Kind::Lock | Kind::Timers | Kind::Mixed, Runtime::Threads) => {
            "threads that wait measure the kernel"
        }
        (Kind::Lock, Runtime::Go | Runtime::Java) if lock::uses_std(&request.params) => {
            "Rust's standard library is not its own"
        }
        (Kind::ForkJoin, Runtime::Tokio | Runtime::Smol) => {
            "its tasks cannot borrow from the one that waits for them: there is no join"
        }
        (Kind::ForkJoin, Runtime::RayonFifo) => "rayon's join is the same whatever the order: see rayon",
        (Kind::ForkJoin, Runtime::Threads) => "a thread per join would be millions of threads",
        (Kind::ForkJoin, Runtime::Go) => "it has no join, only goroutines and channels",
        (Kind::ForkJoin, Runtime::Sequential) if request.workers > 1 => {
            "plain calls have no use for a second worker"
        }
        (Kind::ForkJoin, Runtime::Chili | Runtime::Forte | Runtime::Sequential) => return Ok(None),
        (Kind::Http, Runtime::Smol | Runtime::Threads) => {
            "the handler is hyper's: the server is not written for it"
        }
        (Kind::Http, Runtime::Rayon | Runtime::RayonFifo) => {
            "its jobs cannot wait for a socket: see tokio+rayon"
        }
        (Kind::Pingpong | Kind::Lock | Kind::Timers, Runtime::May) => return Ok(None),
        (_, Runtime::May) => {
            "measured where tasks wait for each other or sleep: see pingpong, lock and timers"
        }
        (_, Runtime::Chili) => "it can only join: see fork-join",
        (_, Runtime::Forte) => "measured where closures borrow: see fork-join and spawn/scope",
        (_, Runtime::Sequential) => "plain calls are no tasks: see fork-join",
        _ => return Ok(runtime.missing()),
    };
    Ok(Some(reason.to_owned()))
}

/// A workload, ready to run.
pub(crate) enum Program {
    /// See `packet`.
    Packet(packet::Plan),
    /// See `pcap`.
    Pcap(pcap::Plan),
    /// See `packet_cache`.
    PacketCache(packet_cache::Plan),
    /// See `packet_bimodal`.
    PacketBimodal(packet_bimodal::Plan),
    /// See `options`.
    Options(options::Plan),
    /// See `fib_promise`.
    FibPromise(fib_promise::Plan),
    /// See `spawn`.
    Spawn(spawn::Plan),
    /// See `scope`.
    Scope(scope::Plan),
    /// See `parked`.
    Parked(parked::Plan),
    /// See `pingpong`.
    Pingpong(pingpong::Plan),
    /// See `lock`.
    Lock(lock::Plan),
    /// See `timers`.
    Timers(timers::Plan),
    /// See `mixed`.
    Mixed(mixed::Plan),
    /// See `fork_join`.
    ForkJoin(fork_join::Plan),
    /// See `http`.
    Http(http::Plan),
    /// See `apps`.
    App(apps::Plan),
    /// See `remote`.
    MapReduce(map_reduce::Plan),
    /// See `remote`.
    Sweep(sweep::Plan),
    /// See `micro`.
    Micro(micro::Plan),
    /// See `mixer`.
    Mixer(mixer::Plan),
}

impl Program {
    /// Loads what the request needs: captures are read, reference results computed.
    pub(crate) fn load(request: &Request) -> Result<Self, LabError> {
        let params = &request.params;
        Ok(match request.kind {
            Kind::Packet => Self::Packet(packet::Plan::new(params)),
            Kind::Pcap => Self::Pcap(pcap::Plan::new(params, request.capture.as_deref())?),
            Kind::PacketCache => Self::PacketCache(packet_cache::Plan::new(params)),
            Kind::PacketBimodal => Self::PacketBimodal(packet_bimodal::Plan::new(params)),
            Kind::Options => Self::Options(options::Plan::new(params, request.capture.as_deref())?),
            Kind::FibPromise => Self::FibPromise(fib_promise::Plan::new(params)),
            Kind::Spawn if spawn::in_scope(params) => Self::Scope(scope::Plan::new(params)),
            Kind::Spawn => Self::Spawn(spawn::Plan::new(params)),
            Kind::Parked => Self::Parked(parked::Plan::new(params)),
            Kind::Pingpong => Self::Pingpong(pingpong::Plan::new(params)),
            Kind::Lock => Self::Lock(lock::Plan::new(params)),
            Kind::Timers => Self::Timers(timers::Plan::new(params)),
            Kind::Mixed => Self::Mixed(mixed::Plan::new(params)),
            Kind::ForkJoin => Self::ForkJoin(fork_join::Plan::new(params)),
            Kind::Http => Self::Http(http::Plan::new(params)),
            Kind::App(name) => Self::App(apps::Plan::new(name, params)),
            Kind::Mapreducefib => Self::MapReduce(map_reduce::Plan::new(params, request.workers)),
            Kind::Sweep => Self::Sweep(sweep::Plan::new(params, request.workers)),
            Kind::Cycle => Self::Micro(micro::Plan::cycle(params, request.workers)),
            Kind::Yield => Self::Micro(micro::Plan::yields(params, request.workers)),
            Kind::Churn => Self::Micro(micro::Plan::churn(params, request.workers)?),
            Kind::Transfer => Self::Micro(micro::Plan::transfer(params, request.workers)?),
            Kind::Locality => Self::Micro(micro::Plan::locality(params, request.workers)?),
            Kind::Mixer => Self::Mixer(mixer::Plan::new(params, &request.audio)?),
        })
    }

    /// Runs it on a pool whose tasks are futures.
    pub(crate) fn run_tasks<P: TaskPool>(&self, pool: &P) -> Result<Outcome, LabError> {
        let counters = || pool.counters();
        match self {
            Self::Packet(plan) => measured(counters, || plan.warm_up().tasks(pool), || plan.tasks(pool)),
            Self::Pcap(plan) => measured(counters, || plan.warm_up().tasks(pool), || plan.tasks(pool)),
            Self::PacketCache(plan) => measured(counters, || plan.warm_up().tasks(pool), || plan.tasks(pool)),
            Self::PacketBimodal(plan) => {
                measured(counters, || plan.warm_up().tasks(pool), || plan.tasks(pool))
            }
            Self::Options(plan) => measured(counters, || plan.warm_up().tasks(pool), || plan.tasks(pool)),
            Self::FibPromise(plan) => measured(counters, || plan.warm_up().tasks(pool), || plan.tasks(pool)),
            Self::Spawn(plan) => measured(counters, || plan.warm_up().tasks(pool), || plan.tasks(pool)),
            Self::Parked(plan) => plan.tasks(pool),
            Self::Mixer(plan) => measured(counters, || plan.warm_up().tasks(pool), || plan.tasks(pool)),
            _ => Err(not_for("tasks that are futures")),
        }
    }

    /// Runs it on a pool whose tasks are closures.
    pub(crate) fn run_jobs<P: JobPool>(&self, pool: &P) -> Result<Outcome, LabError> {
        match self {
            Self::Packet(plan) => plan.warm_up().jobs(pool).and_then(|_| plan.jobs(pool)),
            Self::Pcap(plan) => plan.warm_up().jobs(pool).and_then(|_| plan.jobs(pool)),
            Self::PacketCache(plan) => plan.warm_up().jobs(pool).and_then(|_| plan.jobs(pool)),
            Self::PacketBimodal(plan) => plan.warm_up().jobs(pool).and_then(|_| plan.jobs(pool)),
            Self::Options(plan) => plan.warm_up().jobs(pool).and_then(|_| plan.jobs(pool)),
            Self::Spawn(plan) => plan.warm_up().jobs(pool).and_then(|_| plan.jobs(pool)),
            Self::Parked(plan) => plan.jobs(pool),
            Self::Mixer(plan) => plan.warm_up().jobs(pool).and_then(|_| plan.jobs(pool)),
            _ => Err(not_for("jobs without handles")),
        }
    }

    /// Runs it on a pool whose tasks are closures that can wait for two.
    pub(crate) fn run_joining_jobs<P: JobPool<Jobs: JoiningJobs>>(
        &self,
        pool: &P,
    ) -> Result<Outcome, LabError> {
        match self {
            Self::FibPromise(plan) => plan.warm_up().jobs(pool).and_then(|_| plan.jobs(pool)),
            _ => self.run_jobs(pool),
        }
    }
}
