//! The contestants: the runtimes on which a workload can run, each behind the same narrow boundary.
//!
//! A workload is written once per idiom that can express it, and each peer says what the idiom's verbs are
//! called there:
//!
//! | idiom | verbs | contestants |
//! |---|---|---|
//! | [`Tasks`]: tasks are futures with handles | spawn, launch, yield, await a handle | warpweft, tokio, smol; may, where nothing is pending |
//! | [`Jobs`]: tasks are closures without handles | launch, yield | rayon, rayon-fifo, threads, steal-one |
//! | [`JoiningJobs`]: the same, and one may wait for two | both | rayon, rayon-fifo, threads |
//! | [`Fork`](forks::Fork): closures that borrow and wait for each other | join | warpweft, rayon, chili, forte, sequential |
//! | [`ScopePool`](forks::ScopePool): closures that borrow and end with their scope | scope, spawn | warpweft, rayon |
//! | [`HttpPool`]: a server | serve | warpweft, tokio, tokio+rayon; go, whose handler is Go's |
//! | [`Waits`](waits::Waits): tasks that wait for each other | send, receive, promise, lock | warpweft, tokio, smol, may |
//! | [`Sleeps`](waits::Sleeps): tasks that sleep | sleep | warpweft, tokio, may |
//! | [`Parks`](parks::Parks): tasks that park | park, unpark | warpweft, tokio, smol, may, threads |
//! | [`Mixed`](mixed::Mixed): sockets, and joins | read, write, compute | warpweft, tokio+rayon |
//! | [`Apps`](apps::Apps): actors of a concurrent program | send, receive, acquire, release, lock | warpweft, tokio, smol, may, threads |
//! | [`Remote`](remote::Remote): futures that split, wait and compute | both, wait, compute | warpweft, rayon, tokio, tokio+rayon |
//! | a program of its own | | go, java |
//!
//! Invariants
//! - All verbs are static calls that the compiler sees through: the boundary costs nothing.
//! - No contestant gets a hand-over, a batch or a hint that another is denied. Where an idiom lacks something
//!   (a handle), the row says so ([`crate::workloads::remark`]).

use std::future::{self, Future};
use std::io;
use std::net::{SocketAddr, TcpListener};

use crate::error::{LabError, choose};
use crate::harness::record::{Counters, Outcome};
use crate::workloads::http::backend::Addresses;
use crate::workloads::spec::Kind;
use crate::workloads::{Program, Request};

pub(crate) mod apps;
mod chili;
mod direct;
pub(crate) mod forks;
mod forte;
mod go;
pub(crate) mod java;
mod may;
pub(crate) mod mixed;
pub(crate) mod parks;
pub(crate) mod pools;
mod rayon;
pub(crate) mod remote;
mod sequential;
mod smol;
mod steal_one;
mod threads;
mod tokio;
pub(crate) mod waits;
mod warpweft;

pub(crate) use warpweft::{
    check_policy, compared_policies, default_policy, explored_policies, policy_grammar, preset_policies,
};

/// From inside a pool whose tasks are futures: the verbs of a task.
pub(crate) trait Tasks: Copy + Send + Sync + Unpin + 'static {
    /// The handle of a task; awaiting it gives the task's value. A task's panic is passed on.
    type Handle<T: Send + 'static>: Future<Output = T> + Unpin + Send + 'static;

    /// Starts a future as a task.
    fn spawn<T: Send + 'static>(self, future: impl Future<Output = T> + Send + 'static) -> Self::Handle<T>;

    /// The same, on the worker of the calling task and nowhere else, where there is such a thing.
    fn spawn_local<T: Send + 'static>(
        self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Self::Handle<T> {
        self.spawn(future)
    }

    /// Starts a closure as a task.
    fn spawn_job<T: Send + 'static>(self, job: impl FnOnce() -> T + Send + 'static) -> Self::Handle<T>;

    /// Starts a future as a task that nobody waits for.
    fn launch(self, future: impl Future<Output = ()> + Send + 'static);

    /// Starts a closure as a task that nobody waits for.
    fn launch_job(self, job: impl FnOnce() + Send + 'static);

    /// Starts a closure as a task that nobody waits for: at once, unless it belongs to a stage that is full;
    /// then when there is a place.
    #[inline]
    fn launch_when_free(self, job: impl FnOnce() + Send + 'static) -> impl Future<Output = ()> + Send {
        self.launch_job(job);
        future::ready(())
    }

    /// Lets other tasks run.
    fn yield_now(self) -> impl Future<Output = ()> + Send + 'static;
}

/// From outside: a pool whose tasks are futures.
pub(crate) trait TaskPool {
    /// The verbs of its tasks.
    type Tasks: Tasks;

    /// The verbs of its tasks.
    fn tasks(&self) -> Self::Tasks;

    /// The verbs by which those tasks are started that belong to this part of the workload, and to this key,
    /// where parts or keys have workers of their own.
    fn at(&self, _part: Part, _key: u64) -> Self::Tasks {
        self.tasks()
    }

    /// Starts a future as a task, from this foreign thread, that nobody waits for.
    fn start(&self, root: impl Future<Output = ()> + Send + 'static);

    /// Starts a closure as a task from this foreign thread.
    fn submit<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> <Self::Tasks as Tasks>::Handle<T>;

    /// Starts a closure as a task from this foreign thread; nobody waits for it.
    fn submit_and_forget(&self, job: impl FnOnce() + Send + 'static);

    /// Drives a future on this foreign thread.
    fn block_on<T>(&self, future: impl Future<Output = T>) -> T;

    /// The scheduler's counters, where it has some.
    fn counters(&self) -> Option<Counters> {
        None
    }
}

/// A part of a workload that may have workers of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// What most tasks do.
    Steps,
    /// What comes last: what takes long, who mixes.
    Last,
}

/// From inside a pool whose tasks are closures: the verbs of a job.
pub(crate) trait Jobs: Copy + Send + Sync + 'static {
    /// Starts a closure as a task.
    fn launch(self, job: impl FnOnce() + Send + 'static);

    /// Lets other tasks run.
    fn yield_now(self);
}

/// From inside a pool whose tasks are closures that can wait for each other.
pub(crate) trait JoiningJobs: Jobs {
    /// Runs both, in parallel if somebody is free, and returns when both have ended.
    fn both<A: Send, B: Send>(
        self,
        first: impl FnOnce() -> A + Send,
        second: impl FnOnce() -> B + Send,
    ) -> (A, B);
}

/// From outside: a pool whose tasks are closures.
pub(crate) trait JobPool {
    /// The verbs of its jobs.
    type Jobs: Jobs;

    /// The verbs of its jobs.
    fn jobs(&self) -> Self::Jobs;

    /// Starts a closure as a task from this foreign thread.
    fn start(&self, job: impl FnOnce() + Send + 'static);
}

/// From outside: a pool that serves HTTP.
pub(crate) trait HttpPool {
    /// Answers what comes, a task per connection, until the pool ends. A request may ask these backends. Says
    /// where it listens.
    fn serve(&self, backends: Option<Addresses>) -> io::Result<SocketAddr>;

    /// The scheduler's counters, where it has some.
    fn counters(&self) -> Option<Counters> {
        None
    }
}

/// A listener for a server, and where it listens. It does not block.
fn listener() -> io::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

/// A runtime of the lab.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Runtime {
    /// This project's.
    Warpweft,
    /// rayon, newest job first.
    Rayon,
    /// rayon, oldest job first.
    RayonFifo,
    /// tokio's multi-thread scheduler.
    Tokio,
    /// tokio for what waits, rayon for what computes, as many threads each.
    TokioRayon,
    /// async-executor, on which smol is built.
    Smol,
    /// may's coroutines.
    May,
    /// One thread of the system per task.
    Threads,
    /// A deque per worker, of which thieves take one task at a time.
    StealOne,
    /// Go, a process of its own.
    Go,
    /// The JVM's virtual threads, a process of its own.
    Java,
    /// chili, which joins.
    Chili,
    /// forte, for its joins and scopes.
    Forte,
    /// Plain calls.
    Sequential,
}

/// All runtimes, in the order of the tables.
pub(crate) const RUNTIMES: [Runtime; 14] = [
    Runtime::Warpweft,
    Runtime::Rayon,
    Runtime::RayonFifo,
    Runtime::Tokio,
    Runtime::TokioRayon,
    Runtime::Smol,
    Runtime::May,
    Runtime::Threads,
    Runtime::StealOne,
    Runtime::Go,
    Runtime::Java,
    Runtime::Chili,
    Runtime::Forte,
    Runtime::Sequential,
];

/// Pools have at most this many workers, whatever the runtime: above it nothing but the kernel's limits is
/// measured.
pub(crate) const MOST_WORKERS: usize = 4096;

impl Runtime {
    /// Its name on the command line and in the records.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Warpweft => "warpweft",
            Self::Rayon => "rayon",
            Self::RayonFifo => "rayon-fifo",
            Self::Tokio => "tokio",
            Self::TokioRayon => "tokio+rayon",
            Self::Smol => "smol",
            Self::May => "may",
            Self::Threads => "threads",
            Self::StealOne => "steal-one",
            Self::Go => "go",
            Self::Java => "java",
            Self::Chili => "chili",
            Self::Forte => "forte",
            Self::Sequential => "sequential",
        }
    }

    /// One line for the list.
    pub(crate) fn about(self) -> &'static str {
        match self {
            Self::Warpweft => "this runtime, under each of its policies",
            Self::Rayon => "rayon's spawn: newest first, closures without handles",
            Self::RayonFifo => "rayon's spawn_fifo: oldest first",
            Self::Tokio => "tokio, multi_thread",
            Self::TokioRayon => {
                "two pools, tokio for what waits and rayon for what computes, as people glue them"
            }
            Self::Smol => "async-executor, the executor of smol, driven by as many threads as workers",
            Self::May => "may, for tasks that wait: coroutines with stacks of 64 KiB, in direct style",
            Self::Threads => "a thread of the system per task, 64 KiB stacks; one worker means one core",
            Self::StealOne => {
                "for packets: a Chase-Lev deque per worker, newest first, thieves take one, as OCaml's domainslib"
            }
            Self::Go => "Go, a program of its own, built when it is first asked for",
            Self::Java => {
                "the JVM's virtual threads, a program of its own, for tasks that switch and wait; as many carriers as workers"
            }
            Self::Chili => {
                "chili, for fork-join: joins shared on a heartbeat; the caller is one of the workers"
            }
            Self::Forte => {
                "forte, for fork-join and scopes: shared on a heartbeat; the caller is one of the workers"
            }
            Self::Sequential => "no runtime, for fork-join: a join is two calls; one worker",
        }
    }

    /// The runtime of that name, or an error that lists all.
    pub(crate) fn parse(name: &str) -> Result<Self, LabError> {
        let names: Vec<&str> = RUNTIMES.iter().map(|runtime| runtime.name()).collect();
        Ok(RUNTIMES[choose("runtimes", name, &names)?])
    }

    /// Why this runtime cannot run here at all, if so.
    pub(crate) fn missing(self) -> Option<String> {
        match self {
            Self::Go => go::missing(),
            Self::Java => java::missing(),
            _ => None,
        }
    }

    /// Makes ready what must not be timed: for Go and Java, builds the program.
    pub(crate) fn prepare(self) -> Result<(), LabError> {
        match self {
            Self::Go => go::program().map(|_| ()),
            Self::Java => java::program().map(|_| ()),
            _ => Ok(()),
        }
    }
}

/// Whom `explore` measures unless it is told: this runtime, and those that one would take instead of it.
pub(crate) fn explored(kind: Kind) -> Vec<Runtime> {
    match kind {
        Kind::ForkJoin => vec![
            Runtime::Warpweft,
            Runtime::Rayon,
            Runtime::Chili,
            Runtime::Forte,
            Runtime::Sequential,
        ],
        Kind::Http => vec![
            Runtime::Warpweft,
            Runtime::Tokio,
            Runtime::TokioRayon,
            Runtime::Go,
        ],
        Kind::Pingpong
        | Kind::Lock
        | Kind::Cycle
        | Kind::Yield
        | Kind::Churn
        | Kind::Locality
        | Kind::Transfer => vec![
            Runtime::Warpweft,
            Runtime::Tokio,
            Runtime::Smol,
            Runtime::May,
            Runtime::Go,
        ],
        Kind::PacketBimodal | Kind::Options => vec![
            Runtime::Warpweft,
            Runtime::Rayon,
            Runtime::RayonFifo,
            Runtime::Tokio,
        ],
        Kind::App(_) => vec![
            Runtime::Warpweft,
            Runtime::Tokio,
            Runtime::Smol,
            Runtime::May,
            Runtime::Threads,
            Runtime::Go,
        ],
        Kind::Mixer => vec![Runtime::Warpweft, Runtime::Tokio, Runtime::Smol, Runtime::Go],
        Kind::Timers => vec![Runtime::Warpweft, Runtime::Tokio, Runtime::Go],
        Kind::Mixed => vec![Runtime::Warpweft, Runtime::TokioRayon, Runtime::Go],
        Kind::Mapreducefib | Kind::Sweep => vec![
            Runtime::Warpweft,
            Runtime::Rayon,
            Runtime::Tokio,
            Runtime::TokioRayon,
        ],
        _ => vec![Runtime::Warpweft, Runtime::Rayon, Runtime::Tokio],
    }
}

/// Checks a number of workers before any pool is built.
pub(crate) fn check_workers(workers: usize) -> Result<(), LabError> {
    if (1..=MOST_WORKERS).contains(&workers) {
        return Ok(());
    }
    Err(LabError::Usage(format!(
        "{workers} workers: a pool has from 1 to {MOST_WORKERS} of them"
    )))
}

/// Runs a request on its runtime, in this process.
pub(crate) fn run(request: &Request, program: &Program) -> Result<Outcome, LabError> {
    check_workers(request.workers)?;
    match request.runtime()? {
        Runtime::Warpweft => warpweft::run(request, program),
        Runtime::Rayon => rayon::run::<rayon::Lifo>(request, program),
        Runtime::RayonFifo => rayon::run::<rayon::Fifo>(request, program),
        Runtime::Tokio if waits_and_computes(program) => remote::tokio::run(request, program, false),
        Runtime::Tokio => tokio::run(request, program),
        Runtime::TokioRayon if matches!(program, Program::Http(_)) => tokio::run_with_rayon(request, program),
        Runtime::TokioRayon if waits_and_computes(program) => remote::tokio::run(request, program, true),
        Runtime::TokioRayon => mixed::tokio_rayon::run(request, program),
        Runtime::Smol => smol::run(request, program),
        Runtime::May => may::run(request, program),
        Runtime::Threads => threads::run(request, program),
        Runtime::StealOne => steal_one::run(request, program),
        Runtime::Go => go::run(request, program),
        Runtime::Java => java::run(request),
        Runtime::Chili => chili::run(request, program),
        Runtime::Forte => forte::run(request, program),
        Runtime::Sequential => sequential::run(program),
    }
}

/// Whether it is a program of the idiom [`remote`].
fn waits_and_computes(program: &Program) -> bool {
    matches!(program, Program::MapReduce(_) | Program::Sweep(_))
}

/// Something went wrong while a contestant was built.
fn not_built(request: &Request, reason: &(impl ToString + ?Sized)) -> LabError {
    LabError::Run {
        contestant: request.contestant(),
        workload: request.workload.clone(),
        reason: reason.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_runtime_is_found_by_its_name() {
        for runtime in RUNTIMES {
            assert_eq!(Runtime::parse(runtime.name()).unwrap(), runtime);
        }
        let text = Runtime::parse("tokyo").unwrap_err().to_string();
        assert!(
            text.contains("did you mean `tokio`?") && text.contains("rayon-fifo"),
            "{text}"
        );
    }

    #[test]
    fn no_workers_and_too_many_are_refused() {
        assert!(check_workers(1).is_ok() && check_workers(MOST_WORKERS).is_ok());
        for workers in [0, MOST_WORKERS + 1, 1_000_000] {
            let text = check_workers(workers).unwrap_err().to_string();
            assert!(
                text.contains(&workers.to_string()) && text.contains("from 1 to"),
                "{text}"
            );
        }
    }
}
