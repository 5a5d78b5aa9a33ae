//! The words of locks, promises and cells, under loom: every interleaving and every weak-memory outcome of
//! small programs.
#![cfg(warpweft_loom)]

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize as Plain, Ordering as PlainOrdering};
use std::task::{Context, Poll, Wake, Waker};
use warpweft::sync::{Closed, Mutex, OnceCell, Semaphore, TryAcquireError, oneshot};
use warpweft_platform::loom::thread;
use warpweft_platform::sync::Arc;
use warpweft_platform::{cell::UnsafeCell, loom};

/// A place that loom watches: it reports an access that is not ordered with the last one.
struct Watched(UnsafeCell<usize>);

// SAFETY: loom checks what the compiler cannot: that one thread at a time is there.
unsafe impl Sync for Watched {}
// SAFETY: as above.
unsafe impl Send for Watched {}

impl Watched {
    fn new() -> Self {
        Self(UnsafeCell::new(0))
    }

    fn add(&self) -> usize {
        self.0.with_mut(|n| {
            // SAFETY: loom checks that no other thread is there.
            unsafe { *n += 1 };
            // SAFETY: as above.
            unsafe { *n }
        })
    }
}

fn model(preemptions: usize, body: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(preemptions);
    builder.check(body);
}

/// Begins a wait, and leaves it. Returns what it was granted at once.
fn begin_and_leave<F: Future>(wait: F) -> Option<F::Output> {
    let mut wait = std::pin::pin!(wait);
    match wait.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

#[test]
fn two_lock_and_unlock() {
    model(3, || {
        let mutex = Arc::new(Mutex::new(Watched::new()));
        let other = Arc::clone(&mutex);
        let other = thread::spawn(move || other.lock().wait().add());
        let mine = mutex.lock().wait().add();
        assert_eq!(mine + other.join().unwrap(), 3);
    });
}

#[test]
fn one_locks_and_two_try() {
    model(3, || {
        let mutex = Arc::new(Mutex::new(Watched::new()));
        let others = [(); 2].map(|()| {
            let mutex = Arc::clone(&mutex);
            thread::spawn(move || mutex.try_lock().map_or(0, |place| place.add().min(1)))
        });
        let mine = mutex.lock().wait().add().min(1);
        let tried: usize = others.into_iter().map(|other| other.join().unwrap()).sum();
        assert_eq!(mutex.try_lock().expect("free").add(), mine + tried + 1);
    });
}

/// One task gives its wait up, perhaps after it was woken; the other must not be forgotten.
#[test]
fn one_waits_and_one_leaves() {
    model(2, || {
        let mutex = Arc::new(Mutex::new(Watched::new()));
        let held = mutex.try_lock().expect("free");
        let (leaver, waiter) = (Arc::clone(&mutex), Arc::clone(&mutex));
        let leaver = thread::spawn(move || drop(begin_and_leave(leaver.lock())));
        let waiter = thread::spawn(move || waiter.lock().wait().add());
        held.add();
        drop(held);
        leaver.join().unwrap();
        assert_eq!(waiter.join().unwrap(), 2);
        assert!(mutex.try_lock().is_some());
    });
}

#[test]
fn permits_come_back_with_what_was_done() {
    model(3, || {
        let world = Arc::new((Semaphore::new(1), Watched::new()));
        let other = Arc::clone(&world);
        let other = thread::spawn(move || {
            let _permit = other.0.acquire(1).wait().expect("open");
            other.1.add()
        });
        let mine = {
            let _permit = world.0.acquire(1).wait().expect("open");
            world.1.add()
        };
        assert_eq!(mine + other.join().unwrap(), 3);
        assert_eq!(world.0.free(), 1);
    });
}

/// Nobody ever waits, so nobody is refused.
#[test]
fn nobody_is_refused_while_enough_are_free() {
    model(3, || {
        let semaphore = Arc::new(Semaphore::new(3));
        let first = semaphore.try_acquire(1).expect("all are there");
        let other = Arc::clone(&semaphore);
        let other = thread::spawn(move || drop(other.acquire(1).wait().expect("open")));
        drop(semaphore.try_acquire(1).expect("one is there"));
        other.join().unwrap();
        drop(first);
        assert_eq!(semaphore.free(), 3);
    });
}

#[test]
fn a_release_meets_a_waiter_and_one_that_leaves() {
    model(2, || {
        let semaphore = Arc::new(Semaphore::new(0));
        let (leaver, waiter) = (Arc::clone(&semaphore), Arc::clone(&semaphore));
        let leaver = thread::spawn(move || drop(begin_and_leave(leaver.acquire(1))));
        let waiter = thread::spawn(move || drop(waiter.acquire(1).wait().expect("open")));
        semaphore.add(1);
        leaver.join().unwrap();
        waiter.join().unwrap();
        assert_eq!(semaphore.free(), 1);
        assert!(!matches!(semaphore.try_acquire(1), Err(TryAcquireError::Closed)));
    });
}

#[test]
fn a_promise_is_kept_or_not() {
    for send in [true, false] {
        model(3, move || {
            let (sender, receiver) = oneshot::channel();
            let other = thread::spawn(move || {
                if send {
                    let place = Watched::new();
                    place.add();
                    assert!(sender.send(place).is_ok());
                }
            });
            match receiver.wait() {
                Ok(place) => assert_eq!((place.add(), send), (2, true)),
                Err(Closed) => assert!(!send),
            }
            other.join().unwrap();
        });
    }
}

/// Counts its calls and, as a value, its drops.
struct Count(Plain);

impl Wake for Count {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.fetch_add(1, PlainOrdering::SeqCst);
    }
}

#[test]
fn a_promise_whose_receiver_changes_its_waker_and_leaves() {
    model(3, || {
        struct Value(std::sync::Arc<Count>);
        impl Drop for Value {
            fn drop(&mut self) {
                self.0.0.fetch_add(1, PlainOrdering::SeqCst);
            }
        }
        let drops = std::sync::Arc::new(Count(Plain::new(0)));
        let wakers = [(); 2].map(|()| std::sync::Arc::new(Count(Plain::new(0))));
        let (sender, mut receiver) = oneshot::channel();
        let value = Value(std::sync::Arc::clone(&drops));
        let other = thread::spawn(move || sender.send(value).is_ok());
        let mut received = None;
        for waker in &wakers {
            let waker = Waker::from(std::sync::Arc::clone(waker));
            if let Poll::Ready(value) = Pin::new(&mut receiver).poll(&mut Context::from_waker(&waker)) {
                received = Some(value.is_ok());
                break;
            }
        }
        drop(receiver);
        let sent = other.join().unwrap();
        assert!(sent || received.is_none());
        assert_eq!(drops.0.load(PlainOrdering::SeqCst), 1);
        let wakes: usize = wakers
            .iter()
            .map(|waker| waker.0.load(PlainOrdering::SeqCst))
            .sum();
        assert!(wakes <= 1, "woken twice");
        for waker in wakers {
            assert_eq!(std::sync::Arc::strong_count(&waker), 1, "a waker stayed behind");
        }
    });
}

/// A waiter is woken, also if it comes with another waker in the meantime.
#[test]
fn a_promise_wakes_the_last_waker() {
    model(3, || {
        let (sender, mut receiver) = oneshot::channel();
        let other = thread::spawn(move || assert!(sender.send(1).is_ok()));
        let waker = Waker::from(std::sync::Arc::new(Count(Plain::new(0))));
        if Pin::new(&mut receiver)
            .poll(&mut Context::from_waker(&waker))
            .is_pending()
        {
            assert_eq!(receiver.wait(), Ok(1));
        }
        other.join().unwrap();
    });
}

/// A task that finds the semaphore closed, without waiting, sees what happened before.
#[test]
fn what_was_done_before_a_close_is_seen() {
    model(2, || {
        let place = Arc::new((Semaphore::new(1), Watched::new()));
        let other = Arc::clone(&place);
        let closer = thread::spawn(move || {
            other.1.add();
            other.0.close();
        });
        if place.0.is_closed() {
            place.1.add();
        }
        closer.join().unwrap();
    });
}

#[test]
fn a_cell_is_filled_once_and_seen_whole() {
    model(2, || {
        let cell = Arc::new(OnceCell::new());
        let other = Arc::clone(&cell);
        let make = || {
            let place = Watched::new();
            place.add();
            place
        };
        let look = |place: &Watched| {
            place.0.with(|n| {
                // SAFETY: after it was put in, it is only read; loom checks that.
                assert_eq!(unsafe { *n }, 1);
            });
        };
        let other = thread::spawn(move || {
            other.get().inspect(|place| look(place));
            look(other.get_or_make(make).wait());
        });
        look(cell.get_or_make(make).wait());
        other.join().unwrap();
        assert!(cell.set(Watched::new()).is_err());
    });
}
