//! The idioms: what a workload asks of a runtime, in static calls that the compiler sees through.
//!
//! A workload is written once per idiom that can express it, and each contestant says what the calls are
//! there:
//!
//! | idiom | calls | contestants |
//! |---|---|---|
//! | [`SpawnApi`]: tasks are futures with handles | spawn, launch, yield, await a handle | warpweft, tokio, smol; may, where nothing is pending |
//! | [`JobApi`]: tasks are closures without handles | launch, yield | rayon, rayon-fifo, threads, steal-one |
//! | [`JoinApi`]: the same, and one may wait for two | both | rayon, rayon-fifo, threads |
//! | [`Fork`](forks::Fork): closures that borrow and wait for each other | join | warpweft, rayon, chili, forte, sequential |
//! | [`ScopePool`](forks::ScopePool): closures that borrow and end with their scope | scope, spawn | warpweft, rayon, forte |
//! | [`Loops`](loops::Loops): loops over slices | sum, map, each | warpweft, rayon, orx-parallel, sequential |
//! | [`HttpPool`]: a server | serve | warpweft, tokio, tokio+rayon, monoio; go, whose handler is Go's |
//! | [`Channels`](channels::Channels), [`Promises`](channels::Promises), [`Sleeps`](channels::Sleeps): tasks that wait | send, receive, lock, promise, sleep | warpweft, tokio, smol, may |
//! | [`Actors`](channels::Actors): actors of a concurrent program | the same, acquire, release | warpweft, tokio, smol, may, threads |
//! | [`Parks`](parks::Parks): tasks that park | park, unpark | warpweft, tokio, smol, may, threads |
//! | [`Mixed`](mixed::Mixed): sockets, and joins | read, write, compute | warpweft, tokio+rayon |
//! | [`Remote`](remote::Remote): futures that split, wait and compute | both, wait, compute | warpweft, rayon, tokio, tokio+rayon |
//!
//! Invariants
//! - The boundary costs nothing: every call is static.
//! - No contestant gets a hand-over, a batch or a hint that another is denied. Where an idiom lacks something
//!   (a handle), the row says so ([`harness::Caveat`]).

use std::fmt::Debug;
use std::future::{self, Future};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use harness::Counters;

pub mod channels;
pub(crate) mod direct;
pub mod forks;
pub mod loops;
pub mod mixed;
pub mod parks;
pub mod remote;
pub(crate) mod textbook;

/// A join handle whose output is the task's value; the task's panic is passed on.
pub(crate) struct Joined<H>(pub(crate) H);

impl<T, E: Debug, H: Future<Output = Result<T, E>> + Unpin> Future for Joined<H> {
    type Output = T;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        Poll::Ready(ready!(Pin::new(&mut self.0).poll(context)).expect("a task of the workload panicked"))
    }
}

/// The idiom that a workload needs of a contestant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idiom {
    /// Tasks are futures.
    Tasks,
    /// Tasks are futures, or closures without handles.
    Jobs,
    /// Tasks wait for messages, promises and locks.
    Waits,
    /// Tasks sleep.
    Sleeps,
    /// Tasks park.
    Parks,
    /// Tasks are actors.
    Actors,
    /// Closures fork and join.
    Forks,
    /// Closures end with their scope.
    Scope,
    /// Loops over slices.
    Loops,
    /// A server.
    Http,
    /// Futures split, wait and compute.
    Remote,
    /// Sockets and joins together.
    Mixed,
}

/// From inside a pool whose tasks are futures: what a task can call.
pub trait SpawnApi: Copy + Send + Sync + Unpin + 'static {
    /// The handle of a task; awaiting it gives the task's value. A task's panic is passed on.
    type Handle<T: Send + 'static>: Future<Output = T> + Unpin + Send + 'static;

    /// Starts a future as a task.
    fn spawn<T: Send + 'static>(self, future: impl Future<Output = T> + Send + 'static) -> Self::Handle<T>;

    /// The same, on the worker of the calling task and nowhere else, where there is such a thing.
    fn spawn_here<T: Send + 'static>(
        self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Self::Handle<T> {
        self.spawn(future)
    }

    /// Starts a closure as a task.
    fn spawn_job<T: Send + 'static>(self, job: impl FnOnce() -> T + Send + 'static) -> Self::Handle<T>;

    /// Starts a future as a task that is not waited for.
    fn launch(self, future: impl Future<Output = ()> + Send + 'static);

    /// Starts a closure as a task that is not waited for.
    fn launch_job(self, job: impl FnOnce() + Send + 'static);

    /// The same: at once, unless the task belongs to a stage that is full; then when there is a place.
    #[inline]
    fn launch_when_free(self, job: impl FnOnce() + Send + 'static) -> impl Future<Output = ()> + Send {
        self.launch_job(job);
        future::ready(())
    }

    /// Lets other tasks run.
    fn yield_now(self) -> impl Future<Output = ()> + Send + 'static;
}

/// From outside: a pool whose tasks are futures.
pub trait TaskPool {
    /// The calls that its tasks can make.
    type Tasks: SpawnApi;

    /// The calls that its tasks can make.
    fn tasks(&self) -> Self::Tasks;

    /// The same for the tasks of this part of the workload, and of this key, where parts or keys have their
    /// own workers.
    fn at(&self, _part: Part, _key: u64) -> Self::Tasks {
        self.tasks()
    }

    /// Starts a future as a task, from this external thread; it is not waited for.
    fn start(&self, root: impl Future<Output = ()> + Send + 'static);

    /// Starts a closure as a task from this external thread.
    fn submit<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> <Self::Tasks as SpawnApi>::Handle<T>;

    /// Starts a closure as a task from this external thread; it is not waited for.
    fn submit_and_forget(&self, job: impl FnOnce() + Send + 'static);

    /// Drives a future on this external thread.
    fn block_on<T>(&self, future: impl Future<Output = T>) -> T;

    /// The scheduler's counters, where it has some.
    fn counters(&self) -> Option<Counters> {
        None
    }
}

/// A part of a workload that may have its own workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The part that most tasks do.
    Steps,
    /// The last part: it takes long, or it mixes.
    Last,
}

/// From inside a pool whose tasks are closures: what a job can call.
pub trait JobApi: Copy + Send + Sync + 'static {
    /// Starts a closure as a task.
    fn launch(self, job: impl FnOnce() + Send + 'static);

    /// Lets other tasks run.
    fn yield_now(self);
}

/// From inside a pool whose tasks are closures that can wait for each other.
pub trait JoinApi: JobApi {
    /// Runs both, in parallel if a worker is free, and returns when both have ended.
    fn both<A: Send, B: Send>(
        self,
        first: impl FnOnce() -> A + Send,
        second: impl FnOnce() -> B + Send,
    ) -> (A, B);
}

/// From outside: a pool whose tasks are closures.
pub trait JobPool {
    /// The calls that its jobs can make.
    type Jobs: JobApi;

    /// The calls that its jobs can make.
    fn jobs(&self) -> Self::Jobs;

    /// Starts a closure as a task from this external thread.
    fn start(&self, job: impl FnOnce() + Send + 'static);
}

/// From outside: a pool that serves HTTP.
pub trait HttpPool {
    /// Answers what comes, a task per connection, until the pool ends. A request may ask these backends. Says
    /// where it listens.
    fn serve(&self, backends: Option<[SocketAddr; 3]>) -> io::Result<SocketAddr>;

    /// The scheduler's counters, where it has some.
    fn counters(&self) -> Option<Counters> {
        None
    }
}
