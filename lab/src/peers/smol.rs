//! async-executor, the executor on which smol is built, driven by as many threads as there are workers.

use std::future::Future;
use std::thread;

use async_channel::Sender;
use async_executor::{Executor, StaticExecutor, Task};
use async_lock::{Mutex, Semaphore};
use futures_lite::future;
use harness::{LabError, Outcome, Peer, PeerInfo, Request};

use super::Contestant;
use crate::idioms::channels::{Actors, OPEN, Promises, Store, Unit, async_channels};
use crate::idioms::parks::{Parks, WakerParkSlot};
use crate::idioms::{Idiom, SpawnApi, TaskPool, textbook};
use crate::program::{Program, measured};

/// async-executor, with the channels and locks that belong to it.
pub(crate) struct Smol;

impl Peer for Smol {
    fn info(&self) -> PeerInfo {
        PeerInfo {
            name: "smol",
            about: "async-executor, the executor of smol, driven by as many threads as workers",
            packages: &["async-executor", "async-channel", "async-lock"],
        }
    }
}

impl Contestant for Smol {
    fn lacks(&self, idiom: Idiom) -> Option<&'static str> {
        Some(match idiom {
            Idiom::Tasks | Idiom::Jobs | Idiom::Waits | Idiom::Parks | Idiom::Actors => return None,
            Idiom::Sleeps | Idiom::Remote => "it has no timers of its own",
            Idiom::Forks => "its tasks cannot borrow from the one that waits for them: there is no join",
            Idiom::Scope => "its tasks cannot borrow from the one that waits for them: there is no scope",
            Idiom::Loops => "it has no parallel loops",
            Idiom::Http => "the handler is hyper's: the server is not written for it",
            Idiom::Mixed => "it has nothing to fork and join with: see tokio+rayon",
        })
    }

    fn play<P: Program>(&self, request: &Request, program: &P) -> Result<Outcome, LabError> {
        let pool = Pool::new(request.workers).map_err(|error| request.failed(&error))?;
        measured(
            program,
            || None,
            |program| match P::idiom(&request.params) {
                Idiom::Waits => program.waits(&pool),
                Idiom::Actors => program.actors(&pool),
                Idiom::Parks => program.parks(&pool),
                _ => program.tasks(&pool),
            },
        )
    }
}

/// The calls of a smol task. The executor lives as long as the process, as smol's own does, and knows it:
/// this form of it synchronizes less.
#[derive(Clone, Copy)]
pub(crate) struct Api(&'static StaticExecutor);

impl SpawnApi for Api {
    type Handle<T: Send + 'static> = Task<T>;

    #[inline]
    fn spawn<T: Send + 'static>(self, future: impl Future<Output = T> + Send + 'static) -> Task<T> {
        self.0.spawn(future)
    }

    #[inline]
    fn spawn_job<T: Send + 'static>(self, job: impl FnOnce() -> T + Send + 'static) -> Task<T> {
        self.0.spawn(async move { job() })
    }

    #[inline]
    fn launch(self, future: impl Future<Output = ()> + Send + 'static) {
        self.0.spawn(future).detach();
    }

    #[inline]
    fn launch_job(self, job: impl FnOnce() + Send + 'static) {
        self.0.spawn(async move { job() }).detach();
    }

    #[inline]
    fn yield_now(self) -> impl Future<Output = ()> + Send + 'static {
        future::yield_now()
    }
}

/// The executor with its threads; dropping it ends them.
struct Pool {
    api: Api,
    stop: Sender<()>,
    threads: Vec<thread::JoinHandle<()>>,
}

impl Pool {
    fn new(workers: usize) -> Result<Self, std::io::Error> {
        let executor = Executor::new().leak();
        let (stop, stopped) = async_channel::bounded::<()>(1);
        let mut pool = Self {
            api: Api(executor),
            stop,
            threads: Vec::new(),
        };
        for number in 0..workers {
            let stopped = stopped.clone();
            let thread = thread::Builder::new()
                .name(format!("smol-{number}"))
                // Receiving fails when the pool closes the channel: that ends the thread.
                .spawn(move || future::block_on(executor.run(stopped.recv())).unwrap_or_default())?;
            pool.threads.push(thread);
        }
        Ok(pool)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.stop.close();
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so; there is nothing to add.
            drop(thread.join());
        }
    }
}

impl TaskPool for Pool {
    type Tasks = Api;

    fn tasks(&self) -> Api {
        self.api
    }

    fn start(&self, root: impl Future<Output = ()> + Send + 'static) {
        self.api.launch(root);
    }

    fn submit<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> Task<T> {
        self.api.spawn_job(job)
    }

    fn submit_and_forget(&self, job: impl FnOnce() + Send + 'static) {
        self.api.launch_job(job);
    }

    fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        future::block_on(future)
    }
}

/// Whichever is faster: two semaphores can count units without a value in half of the time that a channel
/// takes.
pub(crate) enum Buffer<T: Unit> {
    Channel(Sender<T>, async_channel::Receiver<T>),
    Semaphores(textbook::Buffer<Api, T>),
}

impl<T: Unit> Store<T> for Buffer<T> {
    fn with_room(room: usize) -> Self {
        if size_of::<T>() == 0 {
            return Self::Semaphores(textbook::Buffer::with_room(room));
        }
        let (sender, receiver) = async_channel::bounded(room);
        Self::Channel(sender, receiver)
    }

    #[inline]
    async fn put(&self, unit: T) {
        match self {
            Self::Channel(goods, _) => goods.send(unit).await.expect(OPEN),
            Self::Semaphores(buffer) => buffer.put(unit).await,
        }
    }

    #[inline]
    async fn take(&self) -> T {
        match self {
            Self::Channel(_, goods) => goods.recv().await.expect(OPEN),
            Self::Semaphores(buffer) => buffer.take().await,
        }
    }
}

async_channels!(Api, async_channel::bounded, Mutex, |received| received.ok());

impl Promises for Api {
    type Promise = Sender<u64>;
    type Promised = async_channel::Receiver<u64>;

    #[inline]
    fn promise() -> (Self::Promise, Self::Promised) {
        async_channel::bounded(1)
    }

    #[inline]
    fn keep(promise: Self::Promise, number: u64) {
        // The task that asked waits for exactly this.
        promise.try_send(number).unwrap_or_default();
    }

    #[inline]
    async fn promised(promised: Self::Promised) -> Option<u64> {
        promised.recv().await.ok()
    }
}

impl Actors for Api {
    type Semaphore = Semaphore;
    type Buffer<T: Unit> = Buffer<T>;

    fn semaphore(permits: usize) -> Semaphore {
        Semaphore::new(permits)
    }

    #[inline]
    async fn acquire(semaphore: &Semaphore) {
        semaphore.acquire().await.forget();
    }

    #[inline]
    fn release(semaphore: &Semaphore) {
        semaphore.add_permits(1);
    }
}

impl Parks for Api {
    type ParkSlot = WakerParkSlot;
}
