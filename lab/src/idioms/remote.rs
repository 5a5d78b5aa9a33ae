//! The idiom of work that waits for what is remote, and computes: a tree of futures that split in two, wait,
//! and join.
//!
//! | call | warpweft | tokio | tokio+rayon | rayon |
//! |---|---|---|---|---|
//! | both halves | `join_async` | `spawn` the second, await both | the same | `join` |
//! | wait | `time::sleep` | `time::sleep` | `time::sleep` | `thread::sleep`: the classic, which hides nothing |
//! | a connection | `net::TcpStream` | `net::TcpStream` | the same | `std::net::TcpStream`, which blocks |
//! | compute | here, with `join` | here, in plain calls: it has no join | in a rayon pool beside, `oneshot` back | here, with `join` |
//!
//! A program is written once, with `await`. For rayon each call waits before it returns, and no future ever
//! sees anything pending.

use std::future::Future;
use std::io;
use std::net::TcpStream;
use std::time::Duration;

use super::forks::Branch;
use super::mixed::Wire;
use harness::Counters;

/// From inside: the calls.
pub trait Remote: Copy + Send + Sync + 'static {
    /// Both, side by side.
    fn both<A: Send + 'static, B: Send + 'static>(
        self,
        first: impl Future<Output = A> + Send + 'static,
        second: impl Future<Output = B> + Send + 'static,
    ) -> impl Future<Output = (A, B)> + Send;

    /// Waits as for an answer that takes so long.
    fn wait(self, time: Duration) -> impl Future<Output = ()> + Send;

    /// One end of a connection.
    type Wire: Wire;

    /// Takes a connection over. It does not block already.
    fn wire(self, stream: TcpStream) -> io::Result<Self::Wire>;

    /// Computes.
    fn computed<R: Branch<Out: 'static> + 'static>(self, work: R) -> impl Future<Output = R::Out> + Send;
}

/// From outside: a pool for such work.
pub trait RemotePool {
    /// The calls that its tasks can make.
    type Remote: Remote;

    /// The calls that its tasks can make.
    fn remote(&self) -> Self::Remote;

    /// Runs the root as a task of the pool and waits for it.
    fn run<T: Send + 'static>(&self, root: impl Future<Output = T> + Send + 'static) -> T;

    /// The scheduler's counters, where it has some.
    fn counters(&self) -> Option<Counters> {
        None
    }
}
