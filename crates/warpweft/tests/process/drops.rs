//! Destructors in a forked child, of what another thread of the parent uses at the fork: it may have left a
//! lock locked.

use crate::children::{RETURNED, Shared, end_of, fork, leave};
use crate::runtime;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::task::{Context, Waker};
use warpweft::Runtime;
use warpweft::sync::{Mutex, Notify, Semaphore, broadcast, channel, watch};

/// Each fork finds the other thread at some place of its loop: many of them find each lock locked.
const CHILDREN: u32 = 200;

/// While another thread does `busy` all the time, drops what `take` returns in children and in the parent.
fn dropped_in_children<T>(busy: impl Fn() + Sync, mut take: impl FnMut() -> T) {
    // Forks are noticed from the first runtime on.
    let _runtime = runtime(1);
    let ends = AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            while !ends.load(Ordering::Relaxed) {
                busy();
            }
        });
        for _ in 0..CHILDREN {
            let taken = take();
            let child = fork();
            if child == 0 {
                // The report of a panic needs a lock, which may be lost, too.
                set_hook(Box::new(|_| {}));
                leave(catch_unwind(AssertUnwindSafe(|| drop(taken))).is_ok());
            }
            let end = end_of(child);
            if end != RETURNED {
                ends.store(true, Ordering::Relaxed);
            }
            assert_eq!(end, RETURNED);
        }
        ends.store(true, Ordering::Relaxed);
    });
}

/// Begins a wait, if there is one.
fn begun<F: Future>(future: F) -> (Pin<Box<F>>, bool) {
    let mut future = Box::pin(future);
    let is_over = future
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()))
        .is_ready();
    (future, is_over)
}

#[test]
fn ends_of_a_channel() {
    let (sender, receiver) = channel::bounded(1);
    let busy = || {
        let _ = (sender.try_send(1), receiver.try_recv());
    };
    dropped_in_children(busy, || (sender.clone(), receiver.clone()));
}

#[test]
fn ends_of_a_watched_value_and_of_a_broadcast() {
    let (watched, _watches) = watch::channel(0);
    let (told, _hears) = broadcast::channel(4);
    let busy = || {
        let _ = (watched.send(1), told.send(1));
    };
    let take = || {
        (
            watched.clone(),
            watched.subscribe(),
            told.clone(),
            told.subscribe(),
        )
    };
    dropped_in_children(busy, take);
}

#[test]
fn waits_for_a_notification_and_what_notifies() {
    struct Notifies<'a>(&'a Notify);
    impl Drop for Notifies<'_> {
        fn drop(&mut self) {
            self.0.notify_one();
            self.0.notify_all();
        }
    }
    let notify = Notify::new();
    let take = || (begun(notify.notified()), Notifies(&notify));
    dropped_in_children(|| drop(begun(notify.notified())), take);
}

#[test]
fn waits_for_permits_and_permits() {
    let semaphore = Semaphore::new(2);
    let busy = || drop((semaphore.try_acquire(1), begun(semaphore.acquire(2))));
    let take = || {
        (
            semaphore.try_acquire(1),
            begun(semaphore.acquire(1)),
            begun(semaphore.acquire(1)),
        )
    };
    dropped_in_children(busy, take);
}

#[test]
fn waits_for_a_mutex_and_its_guard() {
    let mutex = Mutex::new(0);
    let busy = || drop((begun(mutex.lock()), begun(mutex.lock())));
    let take = || (mutex.try_lock(), begun(mutex.lock()), begun(mutex.lock()));
    dropped_in_children(busy, take);
}

/// The fibers of a thread are the parent's: what they own is dropped there, and once.
#[test]
fn a_thread_that_left_its_pool_in_the_child_unwinds_no_fiber_of_the_parent() {
    let (send, threads) = mpsc::channel();
    let send = std::sync::Mutex::new(send);
    let runtime = Runtime::builder()
        .workers(1)
        .start_threads(move |thread| {
            let send = send.lock().map_err(|_| std::io::ErrorKind::Other)?;
            send.send(thread).map_err(std::io::Error::other)
        })
        .build()
        .expect("a worker");
    let thread = threads.recv().expect("one is started");
    drop(threads);
    let entered = thread.enter();
    let drops = Shared::new(1);
    let ends: &Notify = Box::leak(Box::new(Notify::new()));
    let (begins, begun) = channel::bounded(1);
    let fiber = runtime.spawn_fiber(move || {
        let _guard = drops.guard(0);
        begins.try_send(()).expect("there is room");
        ends.notified().wait();
    });
    begun.recv().wait().expect("it begins");
    let child = fork();
    if child == 0 {
        drop(entered);
        leave(drops.get(0) == 0);
    }
    assert_eq!(end_of(child), RETURNED);
    ends.notify_one();
    fiber.wait().expect("it returns in the parent");
    assert_eq!(drops.get(0), 1);
    drop(entered);
}
