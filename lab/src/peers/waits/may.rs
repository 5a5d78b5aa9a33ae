//! may's `sync`: its channels have no bound, and wait in direct style.

use std::sync::PoisonError;
use std::time::Instant;

use ::may::sync::{Mutex, mpsc};

use super::{Sleeps, Waits};
use crate::peers::may::Verbs;

impl Waits for Verbs {
    type Sender<T: Send + 'static> = mpsc::Sender<T>;
    type Receiver<T: Send + 'static> = mpsc::Receiver<T>;
    type Promise = mpsc::Sender<u64>;
    type Promised = mpsc::Receiver<u64>;
    type Mutex = Mutex<u64>;

    fn channel<T: Send + 'static>(_: usize) -> (Self::Sender<T>, Self::Receiver<T>) {
        mpsc::channel()
    }

    #[inline]
    async fn send<T: Send + 'static>(to: &Self::Sender<T>, value: T) -> bool {
        to.send(value).is_ok()
    }

    #[inline]
    async fn recv<T: Send + 'static>(from: &mut Self::Receiver<T>) -> Option<T> {
        from.recv().ok()
    }

    #[inline]
    fn promise() -> (Self::Promise, Self::Promised) {
        mpsc::channel()
    }

    #[inline]
    fn keep(promise: Self::Promise, number: u64) {
        // Who asked waits for exactly this.
        promise.send(number).unwrap_or_default();
    }

    #[inline]
    async fn promised(promised: Self::Promised) -> Option<u64> {
        promised.recv().ok()
    }

    fn mutex() -> Self::Mutex {
        Mutex::new(0)
    }

    #[inline]
    async fn add(mutex: &Self::Mutex) {
        *mutex.lock().unwrap_or_else(PoisonError::into_inner) += 1;
    }

    async fn total(mutex: &Self::Mutex) -> u64 {
        *mutex.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sleeps for Verbs {
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
