//! Locks, semaphores and channels: guards that are forgotten, waits that are cancelled, ends that go.
#![forbid(unsafe_code)]

use crate::keepers::all_answer;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use warpweft::sync::{
    Barrier, Condvar, Mutex, MutexGuard, Notify, OnceCell, RwLock, Semaphore, broadcast, channel, oneshot,
    watch,
};
use warpweft::time::{sleep, timeout};
use warpweft::{block_on, fiber, yield_now};

/// Polls a future once with a waker that does nothing.
fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Tries: guards that are forgotten, of each lock, and what they hold used afterwards.
/// Expected: the lock stays locked; `get_mut` and `into_inner` work, because nothing borrows.
#[test]
fn guards_are_forgotten() {
    program!(|_world| {
        let mut mutex = Mutex::new(String::from("value"));
        std::mem::forget(mutex.lock().wait());
        assert!(mutex.try_lock().is_none());
        let mut waits = Box::pin(mutex.lock().into_future());
        assert!(poll_once(waits.as_mut()).is_pending());
        drop(waits);
        mutex.get_mut().push('s');
        assert_eq!(mutex.into_inner(), "values");

        let mut lock = RwLock::new(vec![1]);
        std::mem::forget(lock.read().wait());
        assert!(lock.try_write().is_none());
        assert_eq!(lock.try_read().expect("readers share").len(), 1);
        lock.get_mut().push(2);
        assert_eq!(lock.into_inner(), [1, 2]);
        let lock = RwLock::new(0);
        std::mem::forget(lock.write().wait());
        assert!(lock.try_read().is_none());

        let semaphore = Semaphore::new(3);
        std::mem::forget(semaphore.acquire(2).wait().expect("it is open"));
        assert_eq!(semaphore.free(), 1);
        semaphore.acquire(1).wait().expect("it is open").forget();
        assert!(semaphore.try_acquire(1).is_err());
        semaphore.close();
        assert!(semaphore.acquire(1).wait().is_err());
    });
}

/// Tries: waits that are forgotten, leaked and dropped in each state, at every lock, with other waits behind
/// them. Expected: a forgotten wait keeps its place in the list, and nothing freed is touched.
#[test]
fn waits_are_forgotten_and_dropped_in_each_state() {
    program!(|world| {
        for round in 0..world.count(50) {
            let lock = Arc::new(Mutex::new(0));
            let guard = lock.lock().wait();
            let mut waits: Vec<_> = (0..6)
                .map(|_| {
                    let lock = Arc::clone(&lock);
                    Box::pin(async move {
                        *lock.lock().await += 1;
                    })
                })
                .collect();
            for wait in waits.iter_mut().take(4) {
                assert!(poll_once(wait.as_mut()).is_pending());
            }
            // Dropped while it waits, never polled, and after it was handed the lock.
            drop(waits.remove(round % 4));
            drop(guard);
            drop(waits.remove(round % 3));
            for wait in waits {
                let mut wait = wait;
                while poll_once(wait.as_mut()).is_pending() {
                    std::thread::yield_now();
                }
            }
            assert_eq!(*lock.lock().wait(), 4);
            // Forgotten in the list: it keeps its place, so the lock is never had again.
            let notify: &'static Notify = Box::leak(Box::new(Notify::new()));
            let mut forgotten = Box::pin(notify.notified().into_future());
            assert!(poll_once(forgotten.as_mut()).is_pending());
            std::mem::forget(forgotten);
            notify.notify_one();
            let semaphore: &'static Semaphore = Box::leak(Box::new(Semaphore::new(0)));
            let mut forgotten = Box::pin(semaphore.acquire(2).into_future());
            assert!(poll_once(forgotten.as_mut()).is_pending());
            std::mem::forget(forgotten);
            semaphore.add(2);
            semaphore.close();
        }
    });
}

/// Tries: permits at the ends of numbers. Expected: a panic or an error, and the count is right afterwards.
#[test]
fn permits_that_overflow() {
    program!(|_world| {
        let most = Semaphore::MAX_PERMITS;
        assert!(catch_unwind(|| Semaphore::new(usize::MAX)).is_err());
        let semaphore = Semaphore::new(most);
        assert!(catch_unwind(AssertUnwindSafe(|| semaphore.add(1))).is_err());
        assert!(catch_unwind(AssertUnwindSafe(|| semaphore.add(usize::MAX))).is_err());
        let all = semaphore.try_acquire(most).expect("all are there");
        assert_eq!((all.count(), semaphore.free()), (most, 0));
        // Those in use count: they come back.
        assert!(catch_unwind(AssertUnwindSafe(|| semaphore.add(1))).is_err());
        drop(all);
        assert_eq!(semaphore.free(), most);
        semaphore.try_acquire(2).expect("all are there").forget();
        semaphore.add(2);
        assert_eq!(semaphore.free(), most);
        let small = Semaphore::new(1);
        let much = catch_unwind(AssertUnwindSafe(|| small.try_acquire(usize::MAX).is_err()));
        assert!(much.is_err() || much.is_ok_and(|refused| refused));
        assert_eq!(small.try_acquire(0).map(|none| none.count()).unwrap_or(0), 0);
        let mut waits = Box::pin(small.acquire(most).into_future());
        let _ = catch_unwind(AssertUnwindSafe(|| poll_once(waits.as_mut()).is_pending()));
        drop(waits);
        assert_eq!(small.free(), 1);
    });
}

/// Tries: a condition variable used with several mutexes, with guards that were forgotten, and waits that are
/// dropped. Expected: each wait locks the mutex that it unlocked.
#[test]
fn a_condition_with_several_mutexes() {
    program!(|world| {
        let runtime = world.runtime();
        let shared = Arc::new((Condvar::new(), Mutex::new(0), Mutex::new(0)));
        let waiters: Vec<_> = (0..20)
            .map(|n| {
                let shared = Arc::clone(&shared);
                runtime.spawn(async move {
                    let mutex = if n % 2 == 0 { &shared.1 } else { &shared.2 };
                    let wait = async {
                        let guard = mutex.lock().await;
                        let mut guard = shared.0.wait(guard).await;
                        *guard += 1;
                        assert!(std::ptr::eq(MutexGuard::mutex(&guard), mutex));
                    };
                    if n % 5 == 0 {
                        let _ = timeout(Duration::from_micros(100), wait).await;
                    } else {
                        wait.await;
                    }
                })
            })
            .collect();
        while !waiters.iter().all(warpweft::JoinHandle::is_finished) {
            shared.0.notify_one();
            shared.0.notify_all();
            std::thread::yield_now();
        }
        assert_eq!(all_answer(waiters).done, 20);
        assert!(*shared.1.lock().wait() + *shared.2.lock().wait() >= 16);
    });
}

/// Tries: ends of all channels that go while values and waits are under way, from several tasks, with
/// cancellation. Expected: each value is received or dropped, once.
#[test]
fn channels_whose_ends_go() {
    struct Counted(Arc<AtomicUsize>);
    impl Counted {
        fn new(count: &Arc<AtomicUsize>) -> Self {
            count.fetch_add(1, Ordering::Relaxed);
            Self(Arc::clone(count))
        }
    }
    impl Clone for Counted {
        fn clone(&self) -> Self {
            Self::new(&self.0)
        }
    }
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::Relaxed);
        }
    }
    program!(|world| {
        let runtime = world.runtime();
        let count = Arc::new(AtomicUsize::new(0));
        for round in 0..world.count(30) {
            let mut handles = Vec::new();
            for capacity in [0, 1, 7] {
                let (sender, receiver) = channel::bounded(capacity);
                for n in 0..4 {
                    let (sender, receiver, count) = (sender.clone(), receiver.clone(), Arc::clone(&count));
                    handles.push(runtime.spawn(async move {
                        for _ in 0..10 {
                            let _ =
                                timeout(Duration::from_micros(50), sender.send(Counted::new(&count))).await;
                            if n == 2 {
                                sender.close();
                            }
                        }
                    }));
                    handles.push(runtime.spawn_fiber(move || {
                        for _ in 0..10 {
                            let recv = async { timeout(Duration::from_micros(50), receiver.recv()).await };
                            drop(block_on(recv));
                        }
                    }));
                }
            }
            let (sender, mut receiver) = oneshot::channel();
            let sent = Counted::new(&count);
            handles.push(runtime.spawn(async move { drop(sender.send(sent)) }));
            handles.push(runtime.spawn(async move {
                let _ = receiver.try_recv();
                drop(timeout(Duration::from_micros(20), receiver).await);
            }));
            let (sender, mut receiver) = broadcast::channel(2);
            let value = Counted::new(&count);
            handles.push(runtime.spawn(async move {
                for _ in 0..5 {
                    let _ = sender.send(value.clone());
                    yield_now().await;
                }
            }));
            handles.push(runtime.spawn(async move {
                for _ in 0..5 {
                    drop(receiver.recv().await);
                }
            }));
            let (sender, mut receiver) = watch::channel(Counted::new(&count));
            let value = Counted::new(&count);
            handles.push(runtime.spawn(async move { drop(sender.send(value)) }));
            handles.push(runtime.spawn(async move {
                let _ = receiver.changed().await;
                drop(receiver.get());
            }));
            for handle in handles.iter().skip(round % 7).step_by(7) {
                handle.cancel();
            }
            let spawned = handles.len();
            assert_eq!(all_answer(handles).all(), spawned);
            assert_eq!(count.load(Ordering::Relaxed), 0);
        }
        for capacity in [0, usize::MAX] {
            let made = catch_unwind(|| drop(broadcast::channel::<()>(capacity)));
            let _ = made;
            let (sender, receiver) = channel::bounded::<Counted>(capacity);
            let _ = sender.try_send(Counted::new(&count));
            drop(receiver);
            assert!(sender.send(Counted::new(&count)).wait().is_err());
        }
    });
}

/// Tries: cells that are initialised by themselves, by futures that are dropped in the middle, and by
/// closures that panic. Expected: the value is made once; an attempt that failed is made again. A cell that
/// waits for itself waits for ever, and can be dropped.
#[test]
fn cells_that_are_made_by_themselves() {
    program!(|world| {
        let runtime = world.runtime();
        let cell = Arc::new(OnceCell::new());
        let made = Arc::new(AtomicUsize::new(0));
        let handles: Vec<_> = (0..20)
            .map(|n| {
                let (cell, made) = (Arc::clone(&cell), Arc::clone(&made));
                runtime.spawn(async move {
                    let make = || async {
                        sleep(Duration::from_micros(30)).await;
                        if n % 3 == 0 {
                            panic!("a maker panics");
                        }
                        made.fetch_add(1, Ordering::Relaxed);
                        n
                    };
                    if n % 4 == 1 {
                        let _ = timeout(Duration::from_micros(10), cell.get_or_init(make)).await;
                    } else {
                        cell.get_or_init(make).await;
                    }
                })
            })
            .collect();
        assert_eq!(all_answer(handles).all(), 20);
        assert!(made.load(Ordering::Relaxed) <= 1);
        let own: Arc<OnceCell<u32>> = Arc::new(OnceCell::new());
        let inner = Arc::clone(&own);
        let circle = async move {
            *inner
                .get_or_init(|| async { 1 + *inner.get_or_init(|| async { 7 }).await })
                .await
        };
        let waits =
            block_on(runtime.spawn(async move { timeout(Duration::from_millis(5), circle).await.is_err() }));
        assert!(waits.expect("no panic"), "it waits for itself");
        assert_eq!(own.set(3), Ok(()));
    });
}

/// Tries: barriers of no size, of one, and with arrivals that are dropped in the middle.
/// Expected: a panic, a pass, and others that are not let through too early.
#[test]
fn barriers_with_arrivals_that_go() {
    program!(|world| {
        assert!(catch_unwind(|| Barrier::new(0)).is_err() || block_on(async { true }));
        assert!(Barrier::new(1).arrive().wait().is_leader());
        let runtime = world.runtime();
        let barrier = Arc::new(Barrier::new(3));
        for _ in 0..world.count(20) {
            let mut first = Box::pin({
                let barrier = Arc::clone(&barrier);
                async move { barrier.arrive().await }
            });
            assert!(poll_once(first.as_mut()).is_pending());
            drop(first);
            let handles: Vec<_> = (0..3)
                .map(|_| {
                    let barrier = Arc::clone(&barrier);
                    runtime.spawn_fiber(move || {
                        fiber::wait(barrier.arrive());
                    })
                })
                .collect();
            assert_eq!(all_answer(handles).done, 3);
        }
    });
}

/// Tries: locks that are held across everything by one task: forks, waits, other locks in another order, with
/// one worker. Expected: each ends.
#[test]
fn locks_across_all_waits() {
    program!(|world| {
        let runtime = world.runtime();
        let locks = Arc::new((Mutex::new(0), RwLock::new(0), Semaphore::new(1)));
        let handles: Vec<_> = (0..20)
            .map(|n| {
                let locks = Arc::clone(&locks);
                let body = move || {
                    let mut guard = locks.0.lock().wait();
                    warpweft::join(|| *guard += 1, || block_on(sleep(Duration::from_micros(10))));
                    let write = locks.1.write().wait();
                    warpweft::blocking(|| std::thread::sleep(Duration::from_micros(10)));
                    let _permit = locks.2.acquire(1).wait().expect("it is open");
                    warpweft::par_for(0..10, 1, |_| ());
                    drop(guard);
                    let read = warpweft::sync::RwLockWriteGuard::downgrade(write);
                    assert_eq!(*read, 0);
                };
                match n % 3 {
                    0 => runtime.spawn_fiber(body),
                    1 => runtime.spawn_job(body),
                    _ => runtime.spawn(async move { body() }),
                }
            })
            .collect();
        assert_eq!(all_answer(handles).done, 20);
        assert_eq!(*locks.0.lock().wait(), 20);
        let once = block_on(poll_fn(|_| Poll::Ready(7)));
        assert_eq!(once, 7);
    });
}
