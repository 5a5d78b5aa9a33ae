//! Locks and events under random schedules: tasks wait, are granted, and leave in the middle of it.
//!
//! `WARPWEFT_SHUTTLE_ITERATIONS` says how many schedules of each kind are tried (default 200).
#![cfg(warpweft_shuttle)]

#[path = "support/models.rs"]
mod support;

use shuttle::sync::Arc;
use shuttle::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use shuttle::thread;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use support::{check, check_often, runtime};
use warpweft::sync::{Arrival, Barrier, Closed, Condvar, Mutex, Notify, OnceCell, RwLock, Semaphore};
use warpweft::{block_on, yield_now};

/// Begins a wait, lets others run, and gives it up; or returns what it was granted at once.
fn begin_and_leave<F: Future>(wait: F) -> Option<F::Output> {
    let mut wait = pin!(wait);
    let mut poll = || match wait.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    };
    poll().or_else(|| {
        thread::yield_now();
        None
    })
}

/// As [`begin_and_leave`], but it polls a second time before it leaves.
fn begin_look_and_leave<F: Future>(wait: F) -> Option<F::Output> {
    let mut wait = pin!(wait);
    for _ in 0..2 {
        if let Poll::Ready(output) = wait.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return Some(output);
        }
        thread::yield_now();
    }
    None
}

fn join_all(threads: impl IntoIterator<Item = thread::JoinHandle<()>>) {
    for thread in threads {
        thread.join().expect("no panic");
    }
}

/// Checks that one task at a time is inside, and that the next one sees what it did there.
struct Inside(AtomicBool);

impl Inside {
    fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    fn access(&self) {
        assert!(!self.0.swap(true, Ordering::SeqCst), "two inside");
        thread::yield_now();
        self.0.store(false, Ordering::SeqCst);
    }
}

#[test]
fn three_threads_and_a_mutex() {
    check_often(|| {
        let world = Arc::new((Mutex::new(0), Inside::new()));
        let threads = [(); 3].map(|()| {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                for _ in 0..2 {
                    let mut sum = world.0.lock().wait();
                    world.1.access();
                    *sum += 1;
                }
            })
        });
        join_all(threads);
        assert_eq!(*world.0.lock().wait(), 6);
    });
}

#[test]
fn a_job_and_a_future_share_one_worker_and_a_mutex() {
    check(|| {
        let runtime = runtime(1, "fifo");
        let mutex = Arc::new(Mutex::new(0));
        let (of_job, of_future) = (Arc::clone(&mutex), Arc::clone(&mutex));
        let future = runtime.spawn(async move {
            let mut sum = of_future.lock().await;
            yield_now().await;
            *sum += 1;
        });
        let job = runtime.spawn_job(move || *of_job.lock().wait() += 1);
        *mutex.lock().wait() += 1;
        future.wait().expect("no panic");
        job.wait().expect("no panic");
        assert_eq!(*mutex.lock().wait(), 3);
    });
}

#[test]
fn locks_that_are_given_up_do_not_stop_the_next() {
    check_often(|| {
        let world = Arc::new((Mutex::new(()), Inside::new()));
        let mut threads = Vec::new();
        for n in 0..4 {
            let world = Arc::clone(&world);
            threads.push(thread::spawn(move || {
                let guard = match n {
                    0 => begin_and_leave(world.0.lock()),
                    1 => begin_look_and_leave(world.0.lock()),
                    _ => Some(world.0.lock().wait()),
                };
                if let Some(guard) = guard {
                    world.1.access();
                    drop(guard);
                }
            }));
        }
        join_all(threads);
        assert!(world.0.try_lock().is_some());
    });
}

/// The first waiter is overtaken repeatedly, until the lock is handed to it: the hand-over, and a waiter that
/// leaves while it has the lock.
#[test]
fn a_starved_waiter_is_handed_the_lock_and_leaves() {
    check_often(|| {
        let world = Arc::new((Mutex::new(()), Inside::new()));
        let mut starved = Box::pin(world.0.lock());
        let mut held = world.0.try_lock();
        let mut cx = Context::from_waker(Waker::noop());
        let mut handed = false;
        // Each time it is woken, it finds the lock taken.
        while let Some(guard) = held.take() {
            if starved.as_mut().poll(&mut cx).is_ready() {
                handed = true;
            }
            assert!(!handed, "two have it");
            drop(guard);
            held = world.0.try_lock();
        }
        // It has the lock, and has not noticed. Another task comes.
        let other = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let _guard = world.0.lock().wait();
                world.1.access();
            })
        };
        drop(starved);
        other.join().expect("no panic");
        assert!(world.0.try_lock().is_some());
    });
}

#[test]
fn permits_by_weight() {
    check_often(|| {
        let world = Arc::new((Semaphore::new(3), AtomicUsize::new(0)));
        let threads = [1, 2, 3].map(|wanted| {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let permit = world.0.acquire(wanted).wait().expect("open");
                let now = world.1.fetch_add(wanted, Ordering::SeqCst) + wanted;
                assert!(now <= 3, "more permits than there are");
                thread::yield_now();
                world.1.fetch_sub(wanted, Ordering::SeqCst);
                drop(permit);
            })
        });
        join_all(threads);
        assert_eq!(world.0.free(), 3);
    });
}

#[test]
fn permits_that_are_given_up_go_to_the_next() {
    check_often(|| {
        let semaphore = Arc::new(Semaphore::new(2));
        let mut threads = Vec::new();
        for n in 0..4 {
            let semaphore = Arc::clone(&semaphore);
            threads.push(thread::spawn(move || match n {
                // It blocks later requests for fewer permits, until it leaves.
                0 => drop(begin_and_leave(semaphore.acquire(2))),
                1 => drop(begin_look_and_leave(semaphore.acquire(1))),
                _ => drop(semaphore.acquire(n - 1).wait().expect("open")),
            }));
        }
        join_all(threads);
        assert_eq!(semaphore.free(), 2);
    });
}

#[test]
fn a_semaphore_is_closed_under_those_who_wait() {
    check(|| {
        let semaphore = Arc::new(Semaphore::new(1));
        let threads = [(); 2].map(|()| {
            let semaphore = Arc::clone(&semaphore);
            thread::spawn(move || drop(semaphore.acquire(1).wait()))
        });
        let given_up = {
            let semaphore = Arc::clone(&semaphore);
            thread::spawn(move || drop(begin_and_leave(semaphore.acquire(1))))
        };
        semaphore.close();
        join_all(threads);
        given_up.join().expect("no panic");
        assert!(matches!(semaphore.acquire(1).wait(), Err(Closed)));
        assert_eq!(semaphore.free(), 1);
    });
}

#[test]
fn readers_and_writers() {
    check_often(|| {
        let lock = Arc::new(RwLock::new((0, 0)));
        let mut threads = Vec::new();
        for n in 0..4 {
            let lock = Arc::clone(&lock);
            threads.push(thread::spawn(move || match n {
                0 | 1 => {
                    let mut pair = lock.write().wait();
                    pair.0 += 1;
                    thread::yield_now();
                    pair.1 += 1;
                }
                2 => drop(begin_and_leave(lock.write())),
                _ => {
                    let pair = lock.read().wait();
                    let first = pair.0;
                    thread::yield_now();
                    assert_eq!((first, first), *pair);
                }
            }));
        }
        join_all(threads);
        assert_eq!(*lock.read().wait(), (2, 2));
        assert!(lock.try_write().is_some());
    });
}

#[test]
fn a_condition_is_not_missed() {
    check_often(|| {
        let world = Arc::new((Mutex::new(0), Condvar::new()));
        let threads = [0, 1].map(|mine| {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let (count, counted) = &*world;
                let mut count = counted
                    .wait_while(count.lock().wait(), |count| *count != mine)
                    .wait();
                *count += 1;
                drop(count);
                counted.notify_all();
            })
        });
        join_all(threads);
        assert_eq!(*world.0.lock().wait(), 2);
    });
}

#[test]
fn a_notification_for_one_who_leaves_is_heard_by_another() {
    check_often(|| {
        let world = Arc::new((Mutex::new(0), Condvar::new()));
        let leaver = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let (items, filled) = &*world;
                let mut items = items.lock().wait();
                if *items == 0 {
                    match begin_look_and_leave(filled.wait(items)) {
                        Some(again) => items = again,
                        None => return,
                    }
                }
                // The notification was for another one: it notifies the next, as a waiter must that does not
                // need what it found.
                drop(items);
                filled.notify_one();
            })
        };
        let taker = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let (items, filled) = &*world;
                *filled.wait_while(items.lock().wait(), |items| *items == 0).wait() -= 1;
            })
        };
        *world.0.lock().wait() += 1;
        world.1.notify_one();
        leaver.join().expect("no panic");
        taker.join().expect("no panic");
        assert_eq!(*world.0.lock().wait(), 0);
    });
}

#[test]
fn a_notification_is_stored_or_heard_once() {
    check_often(|| {
        let notify = Arc::new(Notify::new());
        let mut threads = Vec::new();
        for n in 0..3 {
            let notify = Arc::clone(&notify);
            threads.push(thread::spawn(move || match n {
                0 => notify.notify_one(),
                1 => {
                    if begin_look_and_leave(notify.notified()).is_some() {
                        notify.notify_one();
                    }
                }
                _ => notify.notified().wait(),
            }));
        }
        join_all(threads);
    });
}

#[test]
fn a_change_between_the_look_and_the_wait_is_not_missed() {
    check_often(|| {
        let world = Arc::new((AtomicBool::new(false), Notify::new()));
        let waiters = [(); 2].map(|()| {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                loop {
                    let change = world.1.notified();
                    if world.0.load(Ordering::SeqCst) {
                        return;
                    }
                    change.wait();
                }
            })
        });
        world.0.store(true, Ordering::SeqCst);
        world.1.notify_all();
        join_all(waiters);
    });
}

#[test]
fn a_barrier_that_one_leaves() {
    check_often(|| {
        let world = Arc::new((Barrier::new(2), AtomicUsize::new(0)));
        let leaver = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let arrival = begin_look_and_leave(world.0.arrive());
                // It may have been the first of two and have left without looking: then the other one was the
                // leader.
                world.1.fetch_add(
                    usize::from(arrival.is_some_and(Arrival::is_leader)),
                    Ordering::SeqCst,
                );
            })
        };
        let mut others = Vec::new();
        for _ in 0..2 {
            let world = Arc::clone(&world);
            others.push(thread::spawn(move || {
                // The waiter that is left over at the end leaves, too.
                let mut arrival = pin!(world.0.arrive());
                let mut cx = Context::from_waker(Waker::noop());
                for _ in 0..3 {
                    if let Poll::Ready(arrival) = arrival.as_mut().poll(&mut cx) {
                        world
                            .1
                            .fetch_add(usize::from(arrival.is_leader()), Ordering::SeqCst);
                        return;
                    }
                    thread::yield_now();
                }
            }));
        }
        leaver.join().expect("no panic");
        join_all(others);
        assert!(
            world.1.load(Ordering::SeqCst) <= 1,
            "three came, and two pairs met"
        );
        // No other task has arrived, and two are needed.
        let mut first = pin!(world.0.arrive());
        assert!(
            Pin::new(&mut first)
                .poll(&mut Context::from_waker(Waker::noop()))
                .is_pending()
        );
        assert!(world.0.arrive().wait().is_leader());
    });
}

#[test]
fn a_cell_whose_makers_fail_in_every_way() {
    check_often(|| {
        let cell = Arc::new(OnceCell::new());
        let made = Arc::new(AtomicUsize::new(0));
        let mut threads = Vec::new();
        for n in 0..4 {
            let (cell, made) = (Arc::clone(&cell), Arc::clone(&made));
            threads.push(thread::spawn(move || match n {
                0 => drop(catch_unwind(AssertUnwindSafe(|| {
                    cell.get_or_make(|| std::panic::resume_unwind(Box::new(())))
                        .wait();
                }))),
                1 => drop(begin_and_leave(cell.get_or_init(std::future::pending))),
                2 => drop(cell.try_get_or_make(|| Err("on purpose")).wait()),
                _ => {
                    let make = || made.fetch_add(1, Ordering::SeqCst) + 1;
                    assert_eq!(*block_on(cell.get_or_make(make)), 1);
                }
            }));
        }
        join_all(threads);
        assert_eq!(cell.get(), Some(&1));
    });
}
