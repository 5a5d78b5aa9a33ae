//! The workloads: programs against the public interface of a runtime, the same work for every contestant.
//!
//! ```text
//!  spec.rs     what exists: names, parameters, variants   ──▶ Request  (one run, as data)
//!                                                               │ load
//!  packet.rs pcap.rs packet_cache.rs                            ▼
//!  fib_promise.rs spawn.rs scope.rs parked.rs             ──▶ Program  (ready to run)
//!  fork_join/ http/ pingpong.rs lock.rs                         │ run_tasks / run_jobs / run_forks / run_scope / run_waits /
//!  timers.rs mixed/ remote/                                     │ run_timers / run_mixed / run_http / run_remote, called by a peer
//!                                                               ▼
//!                                                            Outcome   (checked)
//! ```
//!
//! Ground rules
//! - Equal work and an equal window of tasks under way for every contestant.
//! - Each run checks its result and fails loudly.
//! - A tenth of the work, at most, is done beforehand on the same pool and not measured: threads are up, the
//!   allocator has its pages. (Not for `parked` and `timers`, where memory is what is measured.)

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::error::LabError;
use crate::harness::record::{Counters, Outcome};
use crate::peers::forks::{ForkPool, ScopePool};
use crate::peers::mixed::MixedPool;
use crate::peers::remote::RemotePool;
use crate::peers::waits::{Sleeps, Waits};
use crate::peers::{HttpPool, JobPool, Runtime, TaskPool};

pub(crate) mod capture;
mod fib_promise;
mod fork_join;
pub(crate) mod gate;
pub(crate) mod http;
pub(crate) mod lane;
mod listener;
mod lock;
mod mixed;
mod packet;
mod packet_cache;
mod packets;
pub(crate) mod params;
mod parked;
mod pcap;
mod pingpong;
mod remote;
mod scope;
mod spawn;
pub(crate) mod spec;
mod timers;

use params::{Domain, Param, Params, Variant};
use remote::{map_reduce, sweep};
use spawn::inside;
use spec::Kind;

/// What the tasks of the runtime that has both are.
const STYLE: Param = Param {
    name: "style",
    about: "warpweft's tasks: futures that await, or fibers that wait in direct style; the others' are futures",
    domain: Domain::Word(&["futures", "fibers"]),
    default: "futures",
};

const FIBERS: Variant = Variant {
    name: "fibers",
    about: "warpweft's tasks are fibers",
    set: &[("style", "fibers")],
};

/// Who looks after sockets and timers of the runtime where that can be chosen.
const IO: Param = Param {
    name: "io",
    about: "who waits for warpweft's sockets and timers: its workers, or a thread of its own; the others have no choice",
    domain: Domain::Word(&["inline", "thread"]),
    default: "inline",
};

const IO_THREAD: Variant = Variant {
    name: "io-thread",
    about: "warpweft's sockets and timers have a thread of their own",
    set: &[("io", "thread")],
};

/// One run, as data: what a fresh process needs to make it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Request {
    /// The workload with its variant, for messages.
    pub(crate) workload: String,
    /// Which program it is.
    pub(crate) kind: Kind,
    /// All its parameters.
    pub(crate) params: Params,
    /// The capture; the bundled one if none.
    pub(crate) capture: Option<PathBuf>,
    /// The runtime's name.
    pub(crate) runtime: String,
    /// The policy, for the runtime that has policies.
    pub(crate) policy: Option<String>,
    /// Worker threads.
    pub(crate) workers: usize,
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

    /// The same request, as it will really run on this contestant: a thread per task bounds how many there are, threads that sleep
    /// bound how much there is to do, and so do the two mappings of a suspended coroutine, as the kernel has 65530 for a process.
    pub(crate) fn fitted(mut self) -> Result<Self, LabError> {
        let bounded = match self.runtime()? {
            Runtime::Threads => self.kind != Kind::FibPromise,
            Runtime::May => self.kind == Kind::Timers,
            _ => false,
        };
        if bounded {
            let n = self.params.number("n").min(MOST_THREADS);
            self.params = self.params.with_number("n", n);
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
    let reason = match (request.kind, runtime) {
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
        (Kind::Lock, Runtime::Go) if lock::uses_std(&request.params) => "Rust's standard library is not Go's",
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

/// What a reader of a contestant's figures must know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Remark {
    /// The words.
    pub(crate) text: &'static str,
    /// Whether it did not quite the same thing as the others: then it is nobody's yardstick.
    pub(crate) differs: bool,
}

/// What a reader of this contestant's figures on this workload must know, if anything.
pub(crate) fn remark(request: &Request) -> Result<Option<Remark>, LabError> {
    let runtime = request.runtime()?;
    let mut differs = true;
    let text = match (request.kind, runtime) {
        (Kind::Spawn, Runtime::Rayon | Runtime::RayonFifo | Runtime::Threads)
            if spawn::has_handles(&request.params) =>
        {
            "no handles: a counter stands for them"
        }
        (Kind::FibPromise, Runtime::Rayon | Runtime::RayonFifo) => "no promises: join stands for them",
        (_, Runtime::Threads) => "a thread per task; n is bounded",
        (Kind::Timers, Runtime::May) => "two mappings per task; n is bounded",
        (Kind::Pingpong, Runtime::May) if request.params.word("form") == "oneshot" => {
            "no promises: a channel stands for them"
        }
        (Kind::Pingpong, Runtime::May) => {
            differs = false;
            "its channels have no bound"
        }
        (Kind::ForkJoin, Runtime::Chili) | (Kind::ForkJoin | Kind::Spawn, Runtime::Forte) => {
            differs = false;
            "the caller is one of the workers"
        }
        (Kind::Pingpong, Runtime::Smol) if request.params.word("form") == "oneshot" => {
            "no promises: a channel of one place stands for them"
        }
        (Kind::Timers, Runtime::Tokio) => {
            differs = false;
            "its timers tick in whole milliseconds"
        }
        (Kind::Http, Runtime::Go) => {
            differs = false;
            "net/http in a process of its own, for hyper in that of the clients"
        }
        (Kind::Mixed, Runtime::Go) => {
            differs = false;
            "in a process of its own; a goroutine and a wait group stand for a join"
        }
        (Kind::Mixed, Runtime::TokioRayon) => {
            differs = false;
            "two pools, each with as many threads as workers"
        }
        (Kind::Lock, Runtime::Tokio) if !lock::uses_std(&request.params) => {
            differs = false;
            "a task yields after 128 operations"
        }
        (Kind::Mapreducefib, Runtime::Rayon) if request.params.number("wait") > 0 => {
            "who waits holds a worker; n is bounded"
        }
        (Kind::Mapreducefib, Runtime::Tokio) => {
            differs = false;
            "it has no join: an item is computed in plain calls"
        }
        (Kind::Mapreducefib, Runtime::TokioRayon) => {
            differs = false;
            "two pools, each with as many threads as workers"
        }
        (Kind::Sweep, Runtime::Go) => "a goroutine that sleeps holds no worker: it spins",
        (Kind::Sweep, Runtime::Rayon) => {
            differs = false;
            "the classic: who waits holds a worker"
        }
        (_, Runtime::Sequential) => "plain calls: nothing is forked",
        _ => return Ok(None),
    };
    Ok(Some(Remark { text, differs }))
}

/// A workload, ready to run.
pub(crate) enum Program {
    /// See `packet`.
    Packet(packet::Plan),
    /// See `pcap`.
    Pcap(pcap::Plan),
    /// See `packet_cache`.
    PacketCache(packet_cache::Plan),
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
    /// See `remote`.
    MapReduce(map_reduce::Plan),
    /// See `remote`.
    Sweep(sweep::Plan),
}

impl Program {
    /// Loads what the request needs: captures are read, reference results computed.
    pub(crate) fn load(request: &Request) -> Result<Self, LabError> {
        let params = &request.params;
        Ok(match request.kind {
            Kind::Packet => Self::Packet(packet::Plan::new(params)),
            Kind::Pcap => Self::Pcap(pcap::Plan::new(params, request.capture.as_deref())?),
            Kind::PacketCache => Self::PacketCache(packet_cache::Plan::new(params)),
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
            Kind::Mapreducefib => Self::MapReduce(map_reduce::Plan::new(params, request.workers)),
            Kind::Sweep => Self::Sweep(sweep::Plan::new(params, request.workers)),
        })
    }

    /// Runs it on a pool whose tasks are futures.
    pub(crate) fn run_tasks<P: TaskPool>(&self, pool: &P) -> Result<Outcome, LabError> {
        let counters = || pool.counters();
        match self {
            Self::Packet(plan) => measured(counters, || plan.warm_up().tasks(pool), || plan.tasks(pool)),
            Self::Pcap(plan) => measured(counters, || plan.warm_up().tasks(pool), || plan.tasks(pool)),
            Self::PacketCache(plan) => measured(counters, || plan.warm_up().tasks(pool), || plan.tasks(pool)),
            Self::FibPromise(plan) => measured(counters, || plan.warm_up().tasks(pool), || plan.tasks(pool)),
            Self::Spawn(plan) => measured(counters, || plan.warm_up().tasks(pool), || plan.tasks(pool)),
            Self::Parked(plan) => plan.tasks(pool),
            _ => Err(not_for("tasks that are futures")),
        }
    }

    /// Runs it on a pool whose tasks are closures.
    pub(crate) fn run_jobs<P: JobPool>(&self, pool: &P) -> Result<Outcome, LabError> {
        match self {
            Self::Packet(plan) => plan.warm_up().jobs(pool).and_then(|_| plan.jobs(pool)),
            Self::Pcap(plan) => plan.warm_up().jobs(pool).and_then(|_| plan.jobs(pool)),
            Self::PacketCache(plan) => plan.warm_up().jobs(pool).and_then(|_| plan.jobs(pool)),
            Self::FibPromise(plan) => plan.warm_up().jobs(pool).and_then(|_| plan.jobs(pool)),
            Self::Spawn(plan) => plan.warm_up().jobs(pool).and_then(|_| plan.jobs(pool)),
            Self::Parked(plan) => plan.jobs(pool),
            _ => Err(not_for("jobs without handles")),
        }
    }

    /// Runs it on a pool whose tasks wait for each other.
    pub(crate) fn run_waits<P: TaskPool<Tasks: Waits>>(&self, pool: &P) -> Result<Outcome, LabError> {
        let counters = || pool.counters();
        match self {
            Self::Pingpong(plan) => measured(counters, || plan.warm_up().run(pool), || plan.run(pool)),
            Self::Lock(plan) => measured(counters, || plan.warm_up().run(pool), || plan.run(pool)),
            _ => Err(not_for("tasks that wait for each other")),
        }
    }

    /// Runs it on a pool whose tasks sleep.
    pub(crate) fn run_timers<P: TaskPool<Tasks: Sleeps>>(&self, pool: &P) -> Result<Outcome, LabError> {
        match self {
            Self::Timers(plan) => plan.run(pool),
            _ => Err(not_for("tasks that sleep")),
        }
    }

    /// Runs it on what serves and computes.
    pub(crate) fn run_mixed<P: MixedPool>(&self, pool: &P) -> Result<Outcome, LabError> {
        match self {
            Self::Mixed(plan) => plan.run(pool),
            _ => Err(not_for("sockets and joins together")),
        }
    }

    /// Runs it with a server of another process.
    pub(crate) fn run_at(&self, address: SocketAddr) -> Result<Outcome, LabError> {
        match self {
            Self::Mixed(plan) => plan.run_at(address),
            _ => Err(not_for("a server of another process")),
        }
    }

    /// Runs it on a pool that joins.
    pub(crate) fn run_forks<P: ForkPool>(&self, pool: &P) -> Result<Outcome, LabError> {
        match self {
            Self::ForkJoin(plan) => {
                let counters = || pool.counters();
                measured(counters, || plan.warm_up().run(pool), || plan.run(pool))
            }
            _ => Err(not_for("joins")),
        }
    }

    /// Runs it on a pool with scopes.
    pub(crate) fn run_scope<P: ScopePool>(&self, pool: &P) -> Result<Outcome, LabError> {
        match self {
            Self::Scope(plan) => measured(|| pool.counters(), || plan.warm_up(pool), || plan.run(pool)),
            _ => Err(not_for("scopes")),
        }
    }

    /// Runs it on a pool whose work waits for what is remote.
    pub(crate) fn run_remote<P: RemotePool>(&self, pool: &P) -> Result<Outcome, LabError> {
        match self {
            Self::MapReduce(plan) => plan.run(pool),
            Self::Sweep(plan) => plan.run(pool),
            _ => Err(not_for("work that waits and computes")),
        }
    }

    /// Runs it on a pool that serves HTTP.
    pub(crate) fn run_http<P: HttpPool>(&self, pool: &P) -> Result<Outcome, LabError> {
        match self {
            Self::Http(plan) => plan.run(pool),
            _ => Err(not_for("servers")),
        }
    }
}

/// A program in an idiom in which it is not written. `refusal` keeps it from coming to this.
fn not_for(idiom: &str) -> LabError {
    LabError::Usage(format!("this workload is not written for {idiom}"))
}

/// Warms up, then measures, and counts over the measured part.
fn measured(
    counters: impl Fn() -> Option<Counters>,
    warm_up: impl FnOnce() -> Result<Outcome, LabError>,
    run: impl FnOnce() -> Result<Outcome, LabError>,
) -> Result<Outcome, LabError> {
    warm_up()?;
    let before = counters().unwrap_or_default();
    let mut outcome = run()?;
    outcome.counters = counters().map(|after| after.since(&before));
    Ok(outcome)
}

/// Fails unless what was counted is what was expected.
fn check<T: PartialEq + std::fmt::Debug>(what: &str, counted: &T, expected: &T) -> Result<(), LabError> {
    if counted == expected {
        return Ok(());
    }
    Err(LabError::Wrong(format!(
        "{what}: {counted:?} counted, {expected:?} expected"
    )))
}

/// The time zero of a run's lanes.
fn base() -> Instant {
    Instant::now()
}
