//! A thread of the system per task, with small stacks: what programs had before there were task runtimes.
//!
//! "One worker" means that the whole process runs on one core; more workers than that cannot be asked for,
//! the kernel takes all cores it likes.

use std::future::Future;
use std::pin::Pin;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Condvar, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::thread::{self, JoinHandle, Thread};

use harness::{Caveat, LabError, Outcome, Peer, PeerInfo, Request};

use super::Contestant;
use crate::idioms::channels::{Actors, Channels, Unit};
use crate::idioms::direct::{NoPool, direct};
use crate::idioms::parks::{DirectParkSlot, Parker, Parks};
use crate::idioms::{Idiom, JobApi, JobPool, JoinApi, SpawnApi, textbook};
use crate::kit::MOST_THREADS;
use crate::program::{Program, measured};

/// A thread of the system per task.
pub(crate) struct Threads;

impl Peer for Threads {
    fn info(&self) -> PeerInfo {
        PeerInfo {
            name: "threads",
            about: "a thread of the system per task, 64 KiB stacks; one worker means one core",
            packages: &[],
        }
    }
}

impl Contestant for Threads {
    fn lacks(&self, idiom: Idiom) -> Option<&'static str> {
        Some(match idiom {
            Idiom::Jobs | Idiom::Parks | Idiom::Actors => return None,
            Idiom::Tasks => super::NO_FUTURES,
            Idiom::Forks => "a thread per join would be millions of threads",
            Idiom::Loops => "std has no parallel loops",
            Idiom::Scope => "the scope of std::thread is one of threads, not of tasks",
            Idiom::Http => "the handler is hyper's: the server is not written for it",
            _ => "threads that wait measure the kernel",
        })
    }

    fn caveat(&self, idiom: Idiom) -> Option<Caveat> {
        Some(match idiom {
            Idiom::Parks => Caveat::same("a thread per task: the system's scheduler"),
            Idiom::Actors => Caveat::same("a thread per task"),
            _ => Caveat::other("a thread per task; n is bounded"),
        })
    }

    fn fit(&self, request: &mut Request, idiom: Idiom) {
        if !matches!(idiom, Idiom::Parks | Idiom::Actors) {
            request.bound("n", MOST_THREADS);
        }
    }

    fn play<P: Program>(&self, request: &Request, program: &P) -> Result<Outcome, LabError> {
        if request.workers == 1 {
            // All threads inherit the core of this one. The process makes one run.
            let core = core_affinity::get_core_ids().and_then(|cores| cores.first().copied());
            if !core.is_some_and(core_affinity::set_for_current) {
                return Err(request.failed("this system does not let a process choose its core"));
            }
        }
        measured(
            program,
            || None,
            |program| match P::idiom(&request.params) {
                Idiom::Actors => program.actors(&NoPool(ActorApi)),
                Idiom::Parks => program.parks(&NoPool(ActorApi)),
                _ => program.joining_jobs(&Pool),
            },
        )
    }
}

/// Stack of a task's thread.
pub(crate) const STACK: usize = 64 << 10;

/// The calls of a thread.
#[derive(Clone, Copy)]
struct Api;

impl JobApi for Api {
    fn launch(self, job: impl FnOnce() + Send + 'static) {
        // A panic here ends the run's process with this message: each run is a process.
        thread::Builder::new()
            .stack_size(STACK)
            .spawn(job)
            .expect("the system refuses to start more threads: lower `window` or `n`");
    }

    fn yield_now(self) {
        thread::yield_now();
    }
}

impl JoinApi for Api {
    fn both<A: Send, B: Send>(
        self,
        first: impl FnOnce() -> A + Send,
        second: impl FnOnce() -> B + Send,
    ) -> (A, B) {
        thread::scope(|scope| {
            let first = thread::Builder::new()
                .stack_size(STACK)
                .spawn_scoped(scope, first);
            let second = second();
            let first = first.expect("the system refuses to start more threads: lower `n`");
            (first.join().expect("a task of the workload panicked"), second)
        })
    }
}

/// There is no pool; this is where it would be.
struct Pool;

impl JobPool for Pool {
    type Jobs = Api;

    fn jobs(&self) -> Api {
        Api
    }

    fn start(&self, job: impl FnOnce() + Send + 'static) {
        Api.launch(job);
    }
}

/// The calls of a thread that is an actor.
#[derive(Clone, Copy)]
pub(crate) struct ActorApi;

/// A handle that waits when it is asked; a thread's panic is passed on.
pub(crate) struct Handle<T>(Option<JoinHandle<T>>);

impl<T> Future for Handle<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<T> {
        let handle = self.0.take().expect("a handle is asked once");
        Poll::Ready(handle.join().expect("a task of the workload panicked"))
    }
}

impl SpawnApi for ActorApi {
    type Handle<T: Send + 'static> = Handle<T>;

    fn spawn<T: Send + 'static>(self, future: impl Future<Output = T> + Send + 'static) -> Handle<T> {
        self.spawn_job(move || direct(future))
    }

    fn spawn_job<T: Send + 'static>(self, job: impl FnOnce() -> T + Send + 'static) -> Handle<T> {
        // A panic here ends the run's process with this message: each run is a process.
        let thread = thread::Builder::new().stack_size(STACK).spawn(job);
        Handle(Some(thread.expect(
            "the system refuses to start more threads: fewer tasks are needed",
        )))
    }

    fn launch(self, future: impl Future<Output = ()> + Send + 'static) {
        drop(self.spawn(future));
    }

    fn launch_job(self, job: impl FnOnce() + Send + 'static) {
        drop(self.spawn_job(job));
    }

    async fn yield_now(self) {
        thread::yield_now();
    }
}

/// Permits under a mutex. Only threads that wait are notified: else there would be a call of the kernel for
/// nothing.
#[derive(Default)]
pub(crate) struct Semaphore {
    state: Mutex<Permits>,
    more: Condvar,
}

#[derive(Default)]
struct Permits {
    free: usize,
    waiting: usize,
}

impl Channels for ActorApi {
    type Sender<T: Send + 'static> = SyncSender<T>;
    type Receiver<T: Send + 'static> = Receiver<T>;
    type Lock<T: Send + 'static> = Mutex<T>;

    fn channel<T: Send + 'static>(room: usize) -> (SyncSender<T>, Receiver<T>) {
        sync_channel(room)
    }

    async fn send<T: Send + 'static>(to: &SyncSender<T>, value: T) -> bool {
        to.send(value).is_ok()
    }

    async fn recv<T: Send + 'static>(from: &mut Receiver<T>) -> Option<T> {
        from.recv().ok()
    }

    fn lock<T: Send + 'static>(value: T) -> Mutex<T> {
        Mutex::new(value)
    }

    async fn with<T: Send + 'static, R: Send>(lock: &Mutex<T>, change: impl FnOnce(&mut T) -> R + Send) -> R {
        change(&mut *lock.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Actors for ActorApi {
    type Semaphore = Semaphore;
    type Buffer<T: Unit> = textbook::Buffer<Self, T>;

    fn semaphore(permits: usize) -> Semaphore {
        let state = Permits {
            free: permits,
            waiting: 0,
        };
        Semaphore {
            state: Mutex::new(state),
            more: Condvar::new(),
        }
    }

    async fn acquire(semaphore: &Semaphore) {
        let mut state = semaphore.state.lock().unwrap_or_else(PoisonError::into_inner);
        while state.free == 0 {
            state.waiting += 1;
            state = semaphore.more.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.waiting -= 1;
        }
        state.free -= 1;
    }

    fn release(semaphore: &Semaphore) {
        let mut state = semaphore.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.free += 1;
        let somebody_waits = state.waiting > 0;
        drop(state);
        if somebody_waits {
            semaphore.more.notify_one();
        }
    }
}

impl Parks for ActorApi {
    type ParkSlot = DirectParkSlot<Thread>;
}

impl Parker for Thread {
    fn current() -> Self {
        thread::current()
    }

    fn park() {
        thread::park();
    }

    fn unpark(&self) {
        self.unpark();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permit_is_for_one_and_nobody_waits_for_ever() {
        let semaphore = ActorApi::semaphore(1);
        let inside = Mutex::new(0);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        direct(ActorApi::acquire(&semaphore));
                        let mut now = inside.try_lock().expect("one at a time has the permit");
                        *now += 1;
                        drop(now);
                        ActorApi::release(&semaphore);
                    }
                });
            }
        });
        assert_eq!(inside.into_inner().unwrap(), 800);
        let state = semaphore.state.into_inner().unwrap();
        assert_eq!((state.free, state.waiting), (1, 0));
    }
}
