//! tokio's multi-thread scheduler.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use harness::{LabError, Outcome, Peer, PeerInfo, Request};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Mutex, Semaphore, mpsc, oneshot};
use tokio::task::JoinHandle;

use super::Contestant;
use super::sequential::Calls;
use crate::idioms::channels::{Actors, OPEN, Sleeps, Unit, async_channels, oneshot_promises};
use crate::idioms::forks::Branch;
use crate::idioms::mixed::Wire;
use crate::idioms::parks::{Parks, WakerParkSlot};
use crate::idioms::remote::{Remote, RemotePool};
use crate::idioms::textbook::Buffer;
use crate::idioms::{HttpPool, Idiom, Joined, SpawnApi, TaskPool};
use crate::kit::answer::{Asks, Compute, Inline, answer};
use crate::kit::backends::Addresses;
use crate::kit::sockets::listener;
use crate::program::{Program, measured};

/// tokio.
pub(crate) struct Tokio;

impl Peer for Tokio {
    fn info(&self) -> PeerInfo {
        PeerInfo {
            name: "tokio",
            about: "tokio, multi_thread",
            packages: &["tokio"],
        }
    }
}

impl Contestant for Tokio {
    fn lacks(&self, idiom: Idiom) -> Option<&'static str> {
        match idiom {
            Idiom::Forks => {
                Some("its tasks cannot borrow from the one that waits for them: there is no join")
            }
            Idiom::Scope => {
                Some("its tasks cannot borrow from the one that waits for them: there is no scope")
            }
            Idiom::Loops => Some("it has no parallel loops: see rayon"),
            Idiom::Mixed => Some("it has nothing to fork and join with: see tokio+rayon"),
            _ => None,
        }
    }

    fn play<P: Program>(&self, request: &Request, program: &P) -> Result<Outcome, LabError> {
        let pool = Pool(runtime(request, P::idiom(&request.params))?);
        measured(
            program,
            || None,
            |program| match P::idiom(&request.params) {
                Idiom::Http => program.http(&pool),
                Idiom::Waits => program.waits(&pool),
                Idiom::Actors => program.actors(&pool),
                Idiom::Parks => program.parks(&pool),
                Idiom::Sleeps => program.sleeps(&pool),
                Idiom::Remote => program.remote(&pool),
                _ => program.tasks(&pool),
            },
        )
    }
}

/// A fresh runtime, with the drivers that the idiom needs and no others.
pub(crate) fn runtime(request: &Request, idiom: Idiom) -> Result<Runtime, LabError> {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(request.workers);
    match idiom {
        Idiom::Http | Idiom::Mixed => builder.enable_io(),
        Idiom::Sleeps => builder.enable_time(),
        Idiom::Remote => builder.enable_all(),
        _ => &mut builder,
    };
    builder.build().map_err(|error| request.failed(&error))
}

/// The calls of a tokio task.
#[derive(Clone, Copy)]
pub(crate) struct Api;

/// A handle whose output is the task's value.
pub(crate) type Handle<T> = Joined<JoinHandle<T>>;

impl SpawnApi for Api {
    type Handle<T: Send + 'static> = Handle<T>;

    #[inline]
    fn spawn<T: Send + 'static>(self, future: impl Future<Output = T> + Send + 'static) -> Handle<T> {
        Joined(tokio::spawn(future))
    }

    #[inline]
    fn spawn_job<T: Send + 'static>(self, job: impl FnOnce() -> T + Send + 'static) -> Handle<T> {
        Joined(tokio::spawn(async move { job() }))
    }

    #[inline]
    fn launch(self, future: impl Future<Output = ()> + Send + 'static) {
        drop(tokio::spawn(future));
    }

    #[inline]
    fn launch_job(self, job: impl FnOnce() + Send + 'static) {
        drop(tokio::spawn(async move { job() }));
    }

    #[inline]
    fn yield_now(self) -> impl Future<Output = ()> + Send + 'static {
        tokio::task::yield_now()
    }
}

/// A runtime, seen from outside.
struct Pool(Runtime);

impl TaskPool for Pool {
    type Tasks = Api;

    fn tasks(&self) -> Api {
        Api
    }

    fn start(&self, root: impl Future<Output = ()> + Send + 'static) {
        drop(self.0.spawn(root));
    }

    fn submit<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> Handle<T> {
        Joined(self.0.spawn(async move { job() }))
    }

    fn submit_and_forget(&self, job: impl FnOnce() + Send + 'static) {
        drop(self.0.spawn(async move { job() }));
    }

    fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.0.block_on(future)
    }
}

async_channels!(Api, mpsc::channel, Mutex, |received| received);
oneshot_promises!(Api, oneshot);

impl Actors for Api {
    type Semaphore = Semaphore;
    type Buffer<T: Unit> = Buffer<Self, T>;

    const ADVISES_STD: bool = true;

    fn semaphore(permits: usize) -> Semaphore {
        Semaphore::new(permits)
    }

    #[inline]
    async fn acquire(semaphore: &Semaphore) {
        semaphore.acquire().await.expect(OPEN).forget();
    }

    #[inline]
    fn release(semaphore: &Semaphore) {
        semaphore.add_permits(1);
    }
}

impl Sleeps for Api {
    fn sleep_until(deadline: Instant) -> impl Future<Output = ()> + Send {
        ::tokio::time::sleep_until(deadline.into())
    }
}

impl Parks for Api {
    type ParkSlot = WakerParkSlot;
}

impl HttpPool for Pool {
    fn serve(&self, backends: Option<Addresses>) -> io::Result<SocketAddr> {
        serve(&self.0, Inline, backends)
    }
}

/// Serves; the handler computes here or elsewhere.
pub(crate) fn serve(
    runtime: &Runtime,
    compute: impl Compute + Sync,
    backends: Option<Addresses>,
) -> io::Result<SocketAddr> {
    let (listener, address) = listener()?;
    let _context = runtime.enter();
    let listener = TcpListener::from_std(listener)?;
    runtime.spawn(async move {
        // The listener's own errors end it, and the clients find that out.
        while let Ok((stream, _)) = listener.accept().await {
            let compute = compute.clone();
            tokio::spawn(async move {
                // A connection that ends early is its client's error to report.
                let _ = stream.set_nodelay(true);
                let Ok(asks) = Asks::connect(backends, TcpStream::connect).await else {
                    return;
                };
                let handler = service_fn(|request| answer(request, compute.clone(), &asks));
                let _ = http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), handler)
                    .await;
            });
        }
    });
    Ok(address)
}

impl Wire for TcpStream {
    async fn read_exact(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        AsyncReadExt::read_exact(self, buffer).await.map(|_| ())
    }

    async fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        AsyncWriteExt::write_all(self, bytes).await
    }
}

/// Both halves: the second is a task.
pub(crate) async fn both<A: Send + 'static, B: Send + 'static>(
    first: impl Future<Output = A> + Send + 'static,
    second: impl Future<Output = B> + Send + 'static,
) -> (A, B) {
    let second = tokio::spawn(second);
    let first = first.await;
    (first, second.await.expect("a task of the workload panicked"))
}

/// Runs the root as a task and waits for it.
pub(crate) fn run<T: Send + 'static>(runtime: &Runtime, root: impl Future<Output = T> + Send + 'static) -> T {
    let root = runtime.spawn(root);
    runtime.block_on(root).expect("a task of the workload panicked")
}

impl Remote for Api {
    fn both<A: Send + 'static, B: Send + 'static>(
        self,
        first: impl Future<Output = A> + Send + 'static,
        second: impl Future<Output = B> + Send + 'static,
    ) -> impl Future<Output = (A, B)> + Send {
        both(first, second)
    }

    fn wait(self, wait: Duration) -> impl Future<Output = ()> + Send {
        tokio::time::sleep(wait)
    }

    type Wire = TcpStream;

    fn wire(self, stream: std::net::TcpStream) -> io::Result<TcpStream> {
        TcpStream::from_std(stream)
    }

    async fn computed<R: Branch<Out: 'static> + 'static>(self, work: R) -> R::Out {
        work.run(Calls)
    }
}

impl RemotePool for Pool {
    type Remote = Api;

    fn remote(&self) -> Api {
        Api
    }

    fn run<T: Send + 'static>(&self, root: impl Future<Output = T> + Send + 'static) -> T {
        run(&self.0, root)
    }
}
