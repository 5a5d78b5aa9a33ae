//! may's coroutines: every call waits in direct style, as those of this project's fibers do. There is one
//! scheduler in a process; it lives as long as the process. Its channels have no bound: a semaphore counts
//! the room in a mailbox.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll};
use std::time::Instant;

use harness::{LabError, Outcome, Peer, PeerInfo, Request};
use may::coroutine::{self, Coroutine, JoinHandle};
use may::go;
use may::sync::{Mutex, Semphore, mpmc, mpsc};

use super::Contestant;
use crate::idioms::channels::{Actors, Channels, OPEN, Promises, Sleeps, Store, Unit};
use crate::idioms::direct::{NoPool, direct};
use crate::idioms::parks::{DirectParkSlot, Parker, Parks};
use crate::idioms::{Idiom, SpawnApi};
use crate::kit::MOST_THREADS;
use crate::program::{Program, measured};

/// may.
pub(crate) struct May;

impl Peer for May {
    fn info(&self) -> PeerInfo {
        PeerInfo {
            name: "may",
            about: "may, for tasks that wait: coroutines with stacks of 64 KiB, in direct style",
            packages: &["may"],
        }
    }
}

impl Contestant for May {
    fn lacks(&self, idiom: Idiom) -> Option<&'static str> {
        let has = matches!(idiom, Idiom::Waits | Idiom::Sleeps | Idiom::Parks | Idiom::Actors);
        (!has).then_some("measured where tasks wait for each other or sleep: see pingpong, lock and timers")
    }

    fn fit(&self, request: &mut Request, idiom: Idiom) {
        // The kernel has 65530 mappings for a process, and a suspended coroutine takes two.
        if idiom == Idiom::Sleeps {
            request.bound("n", MOST_THREADS);
        }
    }

    fn play<P: Program>(&self, request: &Request, program: &P) -> Result<Outcome, LabError> {
        may::config()
            .set_workers(request.workers)
            .set_stack_size(STACK_WORDS);
        let pool = NoPool(Api);
        measured(
            program,
            || None,
            |program| match P::idiom(&request.params) {
                Idiom::Waits => program.waits(&pool),
                Idiom::Sleeps => program.sleeps(&pool),
                Idiom::Actors => program.actors(&pool),
                Idiom::Parks => program.parks(&pool),
                _ => program.tasks(&pool),
            },
        )
    }
}

/// Words of a coroutine's stack: 64 KiB, as much as a fiber of this project reserves.
const STACK_WORDS: usize = 0x2000;

/// The calls of a coroutine.
#[derive(Clone, Copy)]
pub(crate) struct Api;

/// A handle that waits when it is asked; a coroutine's panic is passed on.
pub(crate) struct Handle<T>(Option<JoinHandle<T>>);

impl<T: Send + 'static> Future for Handle<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<T> {
        let handle = self.0.take().expect("a handle is asked once");
        Poll::Ready(handle.join().expect("a task of the workload panicked"))
    }
}

impl SpawnApi for Api {
    type Handle<T: Send + 'static> = Handle<T>;

    fn spawn<T: Send + 'static>(self, future: impl Future<Output = T> + Send + 'static) -> Handle<T> {
        Handle(Some(go!(move || direct(future))))
    }

    fn spawn_job<T: Send + 'static>(self, job: impl FnOnce() -> T + Send + 'static) -> Handle<T> {
        Handle(Some(go!(job)))
    }

    fn launch(self, future: impl Future<Output = ()> + Send + 'static) {
        drop(go!(move || direct(future)));
    }

    fn launch_job(self, job: impl FnOnce() + Send + 'static) {
        drop(go!(job));
    }

    async fn yield_now(self) {
        coroutine::yield_now();
    }
}

/// The sending end of a channel, and how many more values may be in it, if it has a bound.
pub(crate) struct Sender<T> {
    values: mpsc::Sender<T>,
    room: Option<Arc<Semphore>>,
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Self {
            values: self.values.clone(),
            room: self.room.clone(),
        }
    }
}

/// The receiving end; it is not dropped before the senders are gone.
pub(crate) struct Receiver<T> {
    values: mpsc::Receiver<T>,
    room: Option<Arc<Semphore>>,
}

/// Both ends of a channel.
fn ends<T>(room: Option<Arc<Semphore>>) -> (Sender<T>, Receiver<T>) {
    let (sender, receiver) = mpsc::channel();
    let sender = Sender {
        values: sender,
        room: room.clone(),
    };
    let receiver = Receiver {
        values: receiver,
        room,
    };
    (sender, receiver)
}

/// A channel that several empty, and how many more units may be in it.
pub(crate) struct Buffer<T> {
    sender: mpmc::Sender<T>,
    receiver: mpmc::Receiver<T>,
    room: Semphore,
}

impl<T: Unit> Store<T> for Buffer<T> {
    fn with_room(room: usize) -> Self {
        let (sender, receiver) = mpmc::channel();
        let room = Semphore::new(room);
        Self {
            sender,
            receiver,
            room,
        }
    }

    #[inline]
    async fn put(&self, unit: T) {
        self.room.wait();
        self.sender.send(unit).expect(OPEN);
    }

    #[inline]
    async fn take(&self) -> T {
        let unit = self.receiver.recv().expect(OPEN);
        self.room.post();
        unit
    }
}

impl Channels for Api {
    type Sender<T: Send + 'static> = Sender<T>;
    type Receiver<T: Send + 'static> = Receiver<T>;
    type Lock<T: Send + 'static> = Mutex<T>;

    fn channel<T: Send + 'static>(_: usize) -> (Sender<T>, Receiver<T>) {
        ends(None)
    }

    fn mailbox<T: Send + 'static>(room: usize) -> (Sender<T>, Receiver<T>) {
        ends(Some(Arc::new(Semphore::new(room))))
    }

    #[inline]
    async fn send<T: Send + 'static>(to: &Sender<T>, value: T) -> bool {
        if let Some(room) = &to.room {
            room.wait();
        }
        to.values.send(value).is_ok()
    }

    #[inline]
    async fn recv<T: Send + 'static>(from: &mut Receiver<T>) -> Option<T> {
        let value = from.values.recv().ok()?;
        if let Some(room) = &from.room {
            room.post();
        }
        Some(value)
    }

    fn lock<T: Send + 'static>(value: T) -> Mutex<T> {
        Mutex::new(value)
    }

    #[inline]
    async fn with<T: Send + 'static, R: Send>(lock: &Mutex<T>, change: impl FnOnce(&mut T) -> R + Send) -> R {
        change(&mut *lock.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Promises for Api {
    type Promise = mpsc::Sender<u64>;
    type Promised = mpsc::Receiver<u64>;

    #[inline]
    fn promise() -> (Self::Promise, Self::Promised) {
        mpsc::channel()
    }

    #[inline]
    fn keep(promise: Self::Promise, number: u64) {
        // The task that asked waits for exactly this.
        promise.send(number).unwrap_or_default();
    }

    #[inline]
    async fn promised(promised: Self::Promised) -> Option<u64> {
        promised.recv().ok()
    }
}

impl Actors for Api {
    type Semaphore = Semphore;
    type Buffer<T: Unit> = Buffer<T>;

    fn semaphore(permits: usize) -> Semphore {
        Semphore::new(permits)
    }

    #[inline]
    async fn acquire(semaphore: &Semphore) {
        semaphore.wait();
    }

    #[inline]
    fn release(semaphore: &Semphore) {
        semaphore.post();
    }
}

impl Sleeps for Api {
    async fn sleep_until(deadline: Instant) {
        // Its sleeps may end early: the lab's may not.
        while let Some(left) = deadline
            .checked_duration_since(Instant::now())
            .filter(|left| !left.is_zero())
        {
            ::may::coroutine::sleep(left);
        }
    }
}

impl Parks for Api {
    type ParkSlot = DirectParkSlot<Coroutine>;
}

impl Parker for Coroutine {
    fn current() -> Self {
        coroutine::current()
    }

    fn park() {
        coroutine::park();
    }

    fn unpark(&self) {
        self.unpark();
    }
}
