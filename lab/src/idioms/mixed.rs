//! The idiom of a server that computes: tasks that read and write sockets, and work that forks and joins.
//!
//! | call | warpweft | tokio+rayon |
//! |---|---|---|
//! | start a task that waits | `spawn` | tokio's `spawn` |
//! | compute without waiting | `spawn_detached`, on the same workers | `spawn` of a rayon pool beside |
//! | compute, and a task waits | `spawn_job(…).await` | `spawn` of the rayon pool, `oneshot` back to tokio |
//!
//! Inside, what computes is a [`Branch`], with the contestant's own join.

use std::future::Future;
use std::io;
use std::net::TcpStream;

use super::forks::Branch;
use harness::Counters;

/// One end of a connection.
pub trait Wire: Send + 'static {
    /// Fills the buffer.
    fn read_exact(&mut self, buffer: &mut [u8]) -> impl Future<Output = io::Result<()>> + Send;

    /// Writes all of it.
    fn write_all(&mut self, bytes: &[u8]) -> impl Future<Output = io::Result<()>> + Send;
}

/// From inside: the calls of a task that waits, and of what computes.
pub trait Mixed: Copy + Send + Sync + 'static {
    /// One end of a connection.
    type Wire: Wire;

    /// Takes a connection over, in a task that waits. It does not block already.
    fn wire(self, stream: TcpStream) -> io::Result<Self::Wire>;

    /// Starts a computation that is not waited for, from another one.
    fn compute(self, work: impl Branch<Out = ()> + 'static);

    /// Computes while this task waits.
    fn computed<R: Branch<Out: 'static> + 'static>(self, work: R) -> impl Future<Output = R::Out> + Send;
}

/// From outside: what serves and computes.
pub trait MixedPool {
    /// The calls that its tasks can make.
    type Api: Mixed;

    /// The calls that its tasks can make.
    fn api(&self) -> Self::Api;

    /// Starts a task that waits.
    fn serve(&self, task: impl Future<Output = ()> + Send + 'static);

    /// Starts a computation that is not waited for.
    fn compute(&self, work: impl Branch<Out = ()> + 'static);

    /// The scheduler's counters, where it has some.
    fn counters(&self) -> Option<Counters> {
        None
    }
}
