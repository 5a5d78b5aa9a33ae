//! A thread of the system per task, with what the standard library has for threads that wait.

use std::future::Future;
use std::pin::Pin;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Condvar, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::thread::{self, JoinHandle};

use super::textbook::Buffer;
use super::{Apps, Unit};
use crate::peers::direct::direct;
use crate::peers::threads::STACK;
use crate::peers::{TaskPool, Tasks};

/// The verbs of a thread.
#[derive(Clone, Copy)]
pub(crate) struct Verbs;

/// A handle that waits when it is asked; a thread's panic is passed on.
pub(crate) struct Handle<T>(Option<JoinHandle<T>>);

impl<T> Future for Handle<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<T> {
        let handle = self.0.take().expect("a handle is asked once");
        Poll::Ready(handle.join().expect("a task of the workload panicked"))
    }
}

impl Tasks for Verbs {
    type Handle<T: Send + 'static> = Handle<T>;

    fn spawn<T: Send + 'static>(self, future: impl Future<Output = T> + Send + 'static) -> Handle<T> {
        self.spawn_job(move || direct(future))
    }

    fn spawn_job<T: Send + 'static>(self, job: impl FnOnce() -> T + Send + 'static) -> Handle<T> {
        // A panic here ends the run's process with this message; see `harness::isolate`.
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

/// Permits under a mutex. Nobody is notified who does not wait: that would be a call of the kernel for
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

impl Apps for Verbs {
    type Sender<T: Send + 'static> = SyncSender<T>;
    type Receiver<T: Send + 'static> = Receiver<T>;
    type Semaphore = Semaphore;
    type Lock<T: Send + 'static> = Mutex<T>;
    type Buffer<T: Unit> = Buffer<Self, T>;

    fn mailbox<T: Send + 'static>(room: usize) -> (SyncSender<T>, Receiver<T>) {
        sync_channel(room)
    }

    async fn send<T: Send + 'static>(to: &SyncSender<T>, value: T) -> bool {
        to.send(value).is_ok()
    }

    async fn recv<T: Send + 'static>(from: &mut Receiver<T>) -> Option<T> {
        from.recv().ok()
    }

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

    fn lock<T: Send + 'static>(value: T) -> Mutex<T> {
        Mutex::new(value)
    }

    async fn with<T: Send + 'static, R: Send>(lock: &Mutex<T>, change: impl FnOnce(&mut T) -> R + Send) -> R {
        change(&mut *lock.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// There is no pool; this is where it would be.
pub(crate) struct Pool;

impl TaskPool for Pool {
    type Tasks = Verbs;

    fn tasks(&self) -> Verbs {
        Verbs
    }

    fn start(&self, root: impl Future<Output = ()> + Send + 'static) {
        Verbs.launch(root);
    }

    fn submit<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> Handle<T> {
        Verbs.spawn_job(job)
    }

    fn submit_and_forget(&self, job: impl FnOnce() + Send + 'static) {
        Verbs.launch_job(job);
    }

    fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        direct(future)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permit_is_for_one_and_nobody_waits_for_ever() {
        let semaphore = Verbs::semaphore(1);
        let inside = Mutex::new(0);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        direct(Verbs::acquire(&semaphore));
                        let mut now = inside.try_lock().expect("one at a time has the permit");
                        *now += 1;
                        drop(now);
                        Verbs::release(&semaphore);
                    }
                });
            }
        });
        assert_eq!(inside.into_inner().unwrap(), 800);
        let state = semaphore.state.into_inner().unwrap();
        assert_eq!((state.free, state.waiting), (1, 0));
    }
}
