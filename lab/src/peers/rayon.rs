//! rayon's pool, with `spawn` (newest first) and with `spawn_fifo` (oldest first); `join` is the same in
//! both.

use std::future::Future;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use harness::{LabError, Outcome, Peer, PeerInfo, Request};
use rayon::ThreadPool;
use rayon::iter::{
    IndexedParallelIterator, IntoParallelRefIterator, IntoParallelRefMutIterator, ParallelIterator,
};

use super::Contestant;
use crate::idioms::direct::direct;
use crate::idioms::forks::{Branch, Fork, ForkPool, ScopePool};
use crate::idioms::loops::{LoopPool, Loops, Piece};
use crate::idioms::mixed::Wire;
use crate::idioms::remote::{Remote, RemotePool};
use crate::idioms::{Idiom, JobApi, JobPool, JoinApi};
use crate::program::{Program, measured};

/// rayon, newest job first.
pub(crate) struct Rayon;

/// rayon, oldest job first.
pub(crate) struct RayonFifo;

impl Peer for Rayon {
    fn info(&self) -> PeerInfo {
        PeerInfo {
            name: "rayon",
            about: "rayon's spawn: newest first, closures without handles",
            packages: &["rayon", "rayon-core"],
        }
    }
}

impl Peer for RayonFifo {
    fn info(&self) -> PeerInfo {
        PeerInfo {
            name: "rayon-fifo",
            about: "rayon's spawn_fifo: oldest first",
            packages: &[],
        }
    }
}

impl Contestant for Rayon {
    fn lacks(&self, idiom: Idiom) -> Option<&'static str> {
        Some(match idiom {
            Idiom::Jobs | Idiom::Forks | Idiom::Scope | Idiom::Loops | Idiom::Remote => return None,
            Idiom::Tasks => super::NO_FUTURES,
            Idiom::Http => "its jobs cannot wait for a socket: see tokio+rayon",
            Idiom::Mixed => "its jobs cannot wait for sockets: see tokio+rayon",
            _ => "its jobs cannot wait without holding a worker",
        })
    }

    fn play<P: Program>(&self, request: &Request, program: &P) -> Result<Outcome, LabError> {
        let pool = Pool::<false>(pool(request)?);
        measured(
            program,
            || None,
            |program| match P::idiom(&request.params) {
                Idiom::Forks => program.forks(&pool),
                Idiom::Scope => program.scope(&pool),
                Idiom::Loops => program.loops(&pool),
                Idiom::Remote => program.remote(&pool),
                _ => program.joining_jobs(&pool),
            },
        )
    }
}

impl Contestant for RayonFifo {
    fn lacks(&self, idiom: Idiom) -> Option<&'static str> {
        match idiom {
            Idiom::Forks | Idiom::Remote => Some("rayon's join is the same whatever the order: see rayon"),
            Idiom::Scope => Some("rayon's scope is measured newest first: see rayon"),
            Idiom::Loops => Some("rayon's iterators are the same whatever the order: see rayon"),
            _ => Rayon.lacks(idiom),
        }
    }

    fn play<P: Program>(&self, request: &Request, program: &P) -> Result<Outcome, LabError> {
        let pool = Pool::<true>(pool(request)?);
        measured(program, || None, |program| program.joining_jobs(&pool))
    }
}

/// A fresh pool.
pub(crate) fn pool(request: &Request) -> Result<ThreadPool, LabError> {
    let builder = rayon::ThreadPoolBuilder::new().num_threads(request.workers);
    builder.build().map_err(|error| request.failed(&error))
}

/// The calls of a job; a worker takes its newest job, or with `FIFO` its oldest.
#[derive(Clone, Copy)]
struct Api<const FIFO: bool>;

impl<const FIFO: bool> JobApi for Api<FIFO> {
    #[inline]
    fn launch(self, job: impl FnOnce() + Send + 'static) {
        if FIFO {
            rayon::spawn_fifo(job);
        } else {
            rayon::spawn(job);
        }
    }

    #[inline]
    fn yield_now(self) {
        rayon::yield_now();
    }
}

impl<const FIFO: bool> JoinApi for Api<FIFO> {
    #[inline]
    fn both<A: Send, B: Send>(
        self,
        first: impl FnOnce() -> A + Send,
        second: impl FnOnce() -> B + Send,
    ) -> (A, B) {
        rayon::join(first, second)
    }
}

/// The pool, seen from outside.
struct Pool<const FIFO: bool>(ThreadPool);

impl<const FIFO: bool> JobPool for Pool<FIFO> {
    type Jobs = Api<FIFO>;

    fn jobs(&self) -> Api<FIFO> {
        Api
    }

    fn start(&self, job: impl FnOnce() + Send + 'static) {
        if FIFO {
            self.0.spawn_fifo(job);
        } else {
            self.0.spawn(job);
        }
    }
}

/// A branch's way to fork: rayon finds the worker by itself.
pub(crate) struct Context;

impl Fork for Context {
    #[inline]
    fn join<A: Branch, B: Branch>(&mut self, a: A, b: B) -> (A::Out, B::Out) {
        rayon::join(|| a.run(Context), || b.run(Context))
    }
}

impl ForkPool for Pool<false> {
    fn run<R: Branch>(&self, root: R) -> R::Out {
        self.0.install(|| root.run(Context))
    }
}

impl ScopePool for Pool<false> {
    fn scope(&self, n: u64, job: impl Fn() + Copy + Send + Sync) -> Duration {
        self.0.install(|| {
            let start = Instant::now();
            rayon::scope(|scope| {
                for _ in 0..n {
                    scope.spawn(move |_| job());
                }
            });
            start.elapsed()
        })
    }
}

/// The loops: pieces have about this length, if they are told one. Without, both limits are those of rayon.
#[derive(Clone, Copy)]
struct Iterators {
    least: usize,
    most: usize,
}

impl Iterators {
    fn pieces<I: IndexedParallelIterator>(self, over: I) -> impl IndexedParallelIterator<Item = I::Item> {
        over.with_min_len(self.least).with_max_len(self.most)
    }
}

impl Loops for Iterators {
    fn sum<T: Sync>(self, over: &[T], make: impl Fn(&T) -> u64 + Send + Sync) -> u64 {
        self.pieces(over.par_iter()).map(make).sum()
    }

    fn map<T: Sync>(self, over: &[T], make: impl Fn(&T) -> u64 + Send + Sync) -> Vec<u64> {
        self.pieces(over.par_iter()).map(make).collect()
    }

    fn each<T: Send>(self, over: &mut [T], change: impl Fn(&mut T) + Send + Sync) {
        self.pieces(over.par_iter_mut()).for_each(change);
    }
}

impl LoopPool for Pool<false> {
    type Loops = Iterators;

    fn run<T: Send>(&self, piece: Piece, root: impl FnOnce(Iterators) -> T + Send) -> T {
        self.0.install(|| {
            let (least, most) = match piece {
                Piece::Own(_) => (1, usize::MAX),
                Piece::About(length) => (length.get(), length.get()),
            };
            root(Iterators { least, most })
        })
    }
}

/// The calls of work that waits and computes: to wait is to hold a worker.
#[derive(Clone, Copy)]
pub(crate) struct Blocks;

/// A connection that blocks.
pub(crate) struct Blocking(TcpStream);

impl Wire for Blocking {
    async fn read_exact(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        self.0.read_exact(buffer)
    }

    async fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }
}

impl Remote for Blocks {
    async fn both<A: Send + 'static, B: Send + 'static>(
        self,
        first: impl Future<Output = A> + Send + 'static,
        second: impl Future<Output = B> + Send + 'static,
    ) -> (A, B) {
        rayon::join(|| direct(first), || direct(second))
    }

    async fn wait(self, time: Duration) {
        std::thread::sleep(time);
    }

    type Wire = Blocking;

    fn wire(self, stream: TcpStream) -> io::Result<Blocking> {
        stream.set_nonblocking(false)?;
        Ok(Blocking(stream))
    }

    async fn computed<R: Branch<Out: 'static> + 'static>(self, work: R) -> R::Out {
        work.run(Context)
    }
}

impl RemotePool for Pool<false> {
    type Remote = Blocks;

    fn remote(&self) -> Blocks {
        Blocks
    }

    fn run<T: Send + 'static>(&self, root: impl Future<Output = T> + Send + 'static) -> T {
        self.0.install(|| direct(root))
    }
}
