//! rayon, the classic: who waits holds a worker.

use std::future::Future;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use ::rayon::{ThreadPool, join};

use super::{Remote, RemotePool};
use crate::peers::forks::Branch;
use crate::peers::mixed::Wire;
use crate::peers::rayon::Context as Joins;

/// The verbs.
#[derive(Clone, Copy)]
pub(in crate::peers) struct Verbs;

/// A connection that blocks.
pub(in crate::peers) struct Blocking(TcpStream);

impl Wire for Blocking {
    async fn read_exact(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        self.0.read_exact(buffer)
    }

    async fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }
}

/// Runs a future of verbs that wait before they return.
fn run<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => unreachable!("the verbs of rayon are never pending"),
    }
}

impl Remote for Verbs {
    async fn both<A: Send + 'static, B: Send + 'static>(
        self,
        first: impl Future<Output = A> + Send + 'static,
        second: impl Future<Output = B> + Send + 'static,
    ) -> (A, B) {
        join(|| run(first), || run(second))
    }

    async fn wait(self, time: Duration) {
        thread::sleep(time);
    }

    type Wire = Blocking;

    fn wire(self, stream: TcpStream) -> io::Result<Blocking> {
        stream.set_nonblocking(false)?;
        Ok(Blocking(stream))
    }

    async fn computed<R: Branch<Out: 'static> + 'static>(self, work: R) -> R::Out {
        work.run(Joins)
    }
}

/// A pool, seen from outside.
pub(in crate::peers) struct Classic(pub(in crate::peers) ThreadPool);

impl RemotePool for Classic {
    type Remote = Verbs;

    fn remote(&self) -> Verbs {
        Verbs
    }

    fn run<T: Send + 'static>(&self, root: impl Future<Output = T> + Send + 'static) -> T {
        self.0.install(|| run(root))
    }
}
