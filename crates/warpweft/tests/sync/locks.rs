//! Locks, permits and events among jobs, futures and plain threads at once.

use crate::everywhere::everywhere;
use crate::in_time::in_time;
use crate::polls::poll_once;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Poll;
use std::thread;
use warpweft::fiber::{self, spawn_here};
use warpweft::sync::{
    Barrier, Closed, Condvar, Mutex, Notify, OnceCell, RwLock, RwLockWriteGuard, Semaphore, TryAcquireError,
};
use warpweft::{Runtime, block_on, spawn_job, yield_now};

/// Runs a program in each of the three worlds, `each` times, and waits for all.
fn in_all_worlds<J, F>(runtime: &Runtime, each: usize, job: impl Fn() -> J, future: impl Fn() -> F)
where
    J: FnOnce() + Send + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let jobs: Vec<_> = (0..each).map(|_| runtime.spawn_job(job())).collect();
    let futures: Vec<_> = (0..each).map(|_| runtime.spawn(future())).collect();
    let threads: Vec<_> = (0..each).map(|_| thread::spawn(job())).collect();
    for handle in jobs.into_iter().chain(futures) {
        handle.wait().expect("no panic");
    }
    for thread in threads {
        thread.join().expect("no panic");
    }
}

#[test]
fn a_mutex_among_all_kinds() {
    const EACH: usize = 5;
    const TIMES: usize = 200;
    everywhere(|runtime| {
        let mutex = Arc::new(Mutex::new(0));
        let job = || {
            let mutex = Arc::clone(&mutex);
            move || (0..TIMES).for_each(|_| *mutex.lock().wait() += 1)
        };
        let future = || {
            let mutex = Arc::clone(&mutex);
            async move {
                for n in 0..TIMES {
                    let mut sum = mutex.lock().await;
                    let before = *sum;
                    if n % 10 == 0 {
                        // Held across a wait.
                        yield_now().await;
                    }
                    *sum = before + 1;
                }
            }
        };
        in_all_worlds(runtime, EACH, job, future);
        assert_eq!(*mutex.lock().wait(), 3 * EACH * TIMES);
    });
}

#[test]
fn a_mutex_is_held_across_a_join() {
    everywhere(|runtime| {
        let mutex = Arc::new(Mutex::new(0));
        let jobs: Vec<_> = (0..20)
            .map(|_| {
                let mutex = Arc::clone(&mutex);
                runtime.spawn_job(move || {
                    let mut sum = mutex.lock().wait();
                    let (a, b) = warpweft::join(|| 1, || spawn_job(|| 1).wait().expect("no panic"));
                    *sum += a + b;
                })
            })
            .collect();
        jobs.into_iter().for_each(|job| job.wait().expect("no panic"));
        assert_eq!(*mutex.lock().wait(), 40);
    });
}

/// One task takes and releases the lock all the time, without ever waiting; the others get it nevertheless.
#[test]
fn nobody_starves_at_a_mutex() {
    everywhere(|runtime| {
        let mutex = Arc::new(Mutex::new(()));
        let enough = Arc::new(AtomicBool::new(false));
        let greedy = {
            let (mutex, enough) = (Arc::clone(&mutex), Arc::clone(&enough));
            thread::spawn(move || {
                while !enough.load(Ordering::Relaxed) {
                    drop(mutex.lock().wait());
                }
            })
        };
        let modest: Vec<_> = (0..3)
            .map(|_| {
                let mutex = Arc::clone(&mutex);
                runtime.spawn(async move {
                    for _ in 0..20 {
                        drop(mutex.lock().await);
                    }
                })
            })
            .collect();
        modest.into_iter().for_each(|task| task.wait().expect("no panic"));
        enough.store(true, Ordering::Relaxed);
        greedy.join().expect("no panic");
    });
}

/// After some futile wake-ups the first waiter is handed the lock, and no other task takes it in between.
#[test]
fn a_mutex_is_handed_over_after_a_few_disappointments() {
    let mutex = Mutex::new(());
    let mut held = mutex.try_lock();
    let mut lock = Box::pin(mutex.lock());
    let mut disappointments = 0;
    loop {
        assert!(matches!(poll_once(&mut lock), Poll::Pending));
        drop(held.take());
        // Overtaken: any task may take a free lock.
        match mutex.try_lock() {
            Some(guard) => held = Some(guard),
            None => break,
        }
        disappointments += 1;
        assert!(disappointments < 100, "overtaken without end");
    }
    drop(held);
    assert!(disappointments > 0);
    assert!(matches!(poll_once(&mut lock), Poll::Ready(_)));
    assert!(mutex.try_lock().is_some());
}

/// A waiter that was woken and cannot look is handed the lock as well, also if others leave the list
/// meanwhile.
#[test]
fn a_mutex_is_handed_over_when_many_have_had_it() {
    let mutex = Mutex::new(());
    let mut lock = Box::pin(mutex.lock());
    let held = mutex.try_lock();
    assert!(matches!(poll_once(&mut lock), Poll::Pending));
    drop(held);
    let mut overtakers = 0;
    while let Some(guard) = mutex.try_lock() {
        overtakers += 1;
        assert!(overtakers < 1_000_000, "overtaken without end");
        if overtakers % 1000 == 0 {
            assert!(matches!(poll_once(&mut Box::pin(mutex.lock())), Poll::Pending));
        }
        drop(guard);
    }
    assert!(overtakers > 1000, "{overtakers}");
    assert!(matches!(poll_once(&mut lock), Poll::Ready(_)));
    assert!(mutex.try_lock().is_some());
}

/// The one that locks it again and again is a fiber on the thread of the other, which therefore cannot look.
#[test]
fn nobody_starves_behind_a_fiber_that_never_waits() {
    in_time(|| {
        let runtime = Runtime::builder().workers(1).build().expect("one worker");
        let enough = Arc::new(Mutex::new(false));
        let first = Arc::clone(&enough);
        let greedy = runtime.spawn_fiber(move || {
            let guard = first.lock().wait();
            let second = Arc::clone(&first);
            let modest = spawn_here(move || *second.lock().wait() = true);
            // It begins to wait.
            fiber::yield_now();
            drop(guard);
            while !*first.lock().wait() {}
            modest
        });
        greedy.wait().expect("no panic").wait().expect("no panic");
    });
}

#[test]
fn a_lock_that_was_handed_to_nobody_goes_to_the_next() {
    let mutex = Mutex::new(());
    let mut locks: Vec<_> = (0..3).map(|_| Box::pin(mutex.lock())).collect();
    let held = mutex.try_lock();
    for lock in &mut locks {
        assert!(matches!(poll_once(lock), Poll::Pending));
    }
    // The first is woken, and leaves; the second must be woken then, though no task unlocks any more.
    drop(held);
    drop(locks.remove(0));
    assert!(matches!(poll_once(&mut locks[0]), Poll::Ready(_)));
    // Again, and this one never looks.
    assert!(matches!(poll_once(&mut locks[1]), Poll::Ready(_)));
    assert!(mutex.try_lock().is_some());
}

#[test]
fn a_panic_unlocks_and_does_not_poison() {
    everywhere(|runtime| {
        let mutex = Arc::new(Mutex::new(1));
        let other = Arc::clone(&mutex);
        let job = runtime.spawn_job(move || {
            let _guard = other.lock().wait();
            panic!("on purpose");
        });
        assert!(job.wait().is_err());
        assert_eq!(*mutex.lock().wait(), 1);
    });
}

#[test]
fn permits_among_all_kinds() {
    everywhere(|runtime| {
        let semaphore = Arc::new(Semaphore::new(5));
        let inside = Arc::new(AtomicUsize::new(0));
        let job = || {
            let (semaphore, inside) = (Arc::clone(&semaphore), Arc::clone(&inside));
            move || {
                for n in 1..=60 {
                    let permit = semaphore.acquire(n % 3 + 1).wait().expect("open");
                    let now = inside.fetch_add(permit.count(), Ordering::SeqCst) + permit.count();
                    assert!(now <= 5);
                    inside.fetch_sub(permit.count(), Ordering::SeqCst);
                }
            }
        };
        let future = || {
            let (semaphore, inside) = (Arc::clone(&semaphore), Arc::clone(&inside));
            async move {
                for n in 1..=60 {
                    let permit = semaphore.acquire(n % 5 + 1).await.expect("open");
                    let now = inside.fetch_add(permit.count(), Ordering::SeqCst) + permit.count();
                    assert!(now <= 5);
                    yield_now().await;
                    inside.fetch_sub(permit.count(), Ordering::SeqCst);
                }
            }
        };
        in_all_worlds(runtime, 3, job, future);
        assert_eq!(semaphore.free(), 5);
    });
}

#[test]
fn many_permits_are_not_overtaken_by_few() {
    let semaphore = Semaphore::new(3);
    let one = semaphore.try_acquire(1).expect("free");
    let mut many = Box::pin(semaphore.acquire(3));
    let mut few = Box::pin(semaphore.acquire(1));
    assert!(matches!(poll_once(&mut many), Poll::Pending));
    assert!(matches!(poll_once(&mut few), Poll::Pending));
    assert_eq!(
        semaphore.try_acquire(1).expect_err("others wait"),
        TryAcquireError::NoPermits
    );
    drop(one);
    assert!(matches!(poll_once(&mut few), Poll::Pending));
    assert!(matches!(poll_once(&mut many), Poll::Ready(Ok(_))));
    assert!(matches!(poll_once(&mut few), Poll::Ready(Ok(_))));
    assert_eq!(semaphore.free(), 3);
}

#[test]
fn permits_given_to_nobody_go_to_the_next() {
    let semaphore = Semaphore::new(0);
    let mut many = Box::pin(semaphore.acquire(2));
    let mut few = Box::pin(semaphore.acquire(1));
    assert!(matches!(poll_once(&mut many), Poll::Pending));
    assert!(matches!(poll_once(&mut few), Poll::Pending));
    semaphore.add(1);
    assert!(matches!(poll_once(&mut few), Poll::Pending));
    // It stood in the way of the other.
    drop(many);
    assert!(matches!(poll_once(&mut few), Poll::Ready(Ok(_))));
    // Granted, and dropped before it looked.
    let mut many = Box::pin(semaphore.acquire(2));
    assert!(matches!(poll_once(&mut many), Poll::Pending));
    semaphore.add(1);
    assert_eq!(semaphore.free(), 0);
    drop(many);
    assert_eq!(semaphore.free(), 2);
}

#[test]
fn a_closed_semaphore_refuses_all() {
    let semaphore = Semaphore::new(1);
    let permit = semaphore.try_acquire(1).expect("free");
    let mut waiting = Box::pin(semaphore.acquire(1));
    assert!(matches!(poll_once(&mut waiting), Poll::Pending));
    semaphore.close();
    assert!(matches!(poll_once(&mut waiting), Poll::Ready(Err(Closed))));
    drop(permit);
    assert_eq!(semaphore.free(), 1);
    assert_eq!(
        semaphore.try_acquire(1).expect_err("closed"),
        TryAcquireError::Closed
    );
    assert!(matches!(semaphore.acquire(1).wait(), Err(Closed)));
}

#[test]
fn readers_and_writers_of_all_kinds() {
    everywhere(|runtime| {
        let lock = Arc::new(RwLock::new((0, 0)));
        let job = || {
            let lock = Arc::clone(&lock);
            move || {
                for n in 0..100 {
                    if n % 4 == 0 {
                        let mut pair = lock.write().wait();
                        pair.0 += 1;
                        pair.1 += 1;
                        let pair = RwLockWriteGuard::downgrade(pair);
                        assert_eq!(pair.0, pair.1);
                    } else {
                        let pair = lock.read().wait();
                        assert_eq!(pair.0, pair.1);
                    }
                }
            }
        };
        let future = || {
            let lock = Arc::clone(&lock);
            async move {
                for n in 0..100 {
                    if n % 4 == 0 {
                        let mut pair = lock.write().await;
                        pair.0 += 1;
                        yield_now().await;
                        pair.1 += 1;
                    } else {
                        let pair = lock.read().await;
                        yield_now().await;
                        assert_eq!(pair.0, pair.1);
                    }
                }
            }
        };
        in_all_worlds(runtime, 3, job, future);
        assert_eq!(*lock.read().wait(), (225, 225));
    });
}

#[test]
fn a_writer_is_not_starved_by_readers() {
    let lock = RwLock::new(());
    let reader = lock.try_read().expect("free");
    let mut writer = Box::pin(lock.write());
    assert!(matches!(poll_once(&mut writer), Poll::Pending));
    assert!(lock.try_read().is_none(), "a writer waits");
    let mut late = Box::pin(lock.read());
    assert!(matches!(poll_once(&mut late), Poll::Pending));
    drop(reader);
    assert!(matches!(poll_once(&mut late), Poll::Pending));
    assert!(matches!(poll_once(&mut writer), Poll::Ready(_)));
    assert!(matches!(poll_once(&mut late), Poll::Ready(_)));
}

#[test]
fn a_condition_among_all_kinds() {
    everywhere(|runtime| {
        let counter = Arc::new((Mutex::new(0), Condvar::new()));
        // Each waits until it is its turn to count.
        let numbers = Arc::new(AtomicUsize::new(0));
        let job = || {
            let (counter, mine) = (Arc::clone(&counter), numbers.fetch_add(1, Ordering::Relaxed));
            move || {
                let (count, counted) = &*counter;
                *counted
                    .wait_while(count.lock().wait(), |count| *count != mine)
                    .wait() += 1;
                counted.notify_all();
            }
        };
        let future = || {
            let (counter, mine) = (Arc::clone(&counter), numbers.fetch_add(1, Ordering::Relaxed));
            async move {
                let (count, counted) = &*counter;
                *counted
                    .wait_while(count.lock().await, |count| *count != mine)
                    .await += 1;
                counted.notify_all();
            }
        };
        in_all_worlds(runtime, 7, job, future);
        assert_eq!(*counter.0.lock().wait(), 21);
    });
}

#[test]
fn a_notification_given_to_nobody_goes_to_the_next() {
    let (mutex, condvar) = (Mutex::new(()), Condvar::new());
    let mut first = Box::pin(condvar.wait(mutex.try_lock().expect("free")));
    assert!(matches!(poll_once(&mut first), Poll::Pending));
    let mut second = Box::pin(condvar.wait(mutex.try_lock().expect("given up")));
    assert!(matches!(poll_once(&mut second), Poll::Pending));
    let held = mutex.try_lock().expect("given up");
    condvar.notify_one();
    // It heard, and waits for the lock now, and goes.
    assert!(matches!(poll_once(&mut first), Poll::Pending));
    drop(first);
    drop(held);
    assert!(matches!(poll_once(&mut second), Poll::Ready(_)));
    // There is no waiter: the notification is lost.
    condvar.notify_one();
    let mut third = Box::pin(condvar.wait(mutex.try_lock().expect("free")));
    assert!(matches!(poll_once(&mut third), Poll::Pending));
}

#[test]
fn notifications_are_kept_for_one_and_told_to_all() {
    let notify = Notify::new();
    notify.notify_one();
    notify.notify_one();
    notify.notified().wait();
    let mut early = Box::pin(notify.notified());
    let late = notify.notified();
    assert!(
        matches!(poll_once(&mut early), Poll::Pending),
        "it does not count"
    );
    notify.notify_all();
    let mut after = Box::pin(notify.notified());
    assert!(matches!(poll_once(&mut early), Poll::Ready(())));
    assert!(matches!(poll_once(&mut Box::pin(late)), Poll::Ready(())));
    assert!(matches!(poll_once(&mut after), Poll::Pending));
    // If the waiter that alone was notified leaves, the next one is notified; after a notification of all,
    // none is.
    notify.notify_one();
    drop(after);
    notify.notified().wait();
    let mut all = Box::pin(notify.notified());
    assert!(matches!(poll_once(&mut all), Poll::Pending));
    notify.notify_all();
    drop(all);
    assert!(matches!(
        poll_once(&mut Box::pin(notify.notified())),
        Poll::Pending
    ));
}

#[test]
fn a_barrier_for_all_kinds() {
    everywhere(|runtime| {
        const ROUNDS: usize = 10;
        let barrier = Arc::new(Barrier::new(9));
        let leaders = Arc::new(AtomicUsize::new(0));
        let count = |leaders: &AtomicUsize, leader: bool| {
            leaders.fetch_add(usize::from(leader), Ordering::Relaxed);
        };
        let job = || {
            let (barrier, leaders) = (Arc::clone(&barrier), Arc::clone(&leaders));
            move || (0..ROUNDS).for_each(|_| count(&leaders, barrier.arrive().wait().is_leader()))
        };
        let future = || {
            let (barrier, leaders) = (Arc::clone(&barrier), Arc::clone(&leaders));
            async move {
                for _ in 0..ROUNDS {
                    count(&leaders, barrier.arrive().await.is_leader());
                }
            }
        };
        in_all_worlds(runtime, 3, job, future);
        assert_eq!(leaders.load(Ordering::Relaxed), ROUNDS);
    });
}

#[test]
fn who_left_a_barrier_has_not_come() {
    let barrier = Barrier::new(2);
    let mut first = Box::pin(barrier.arrive());
    assert!(matches!(poll_once(&mut first), Poll::Pending));
    drop(first);
    let mut second = Box::pin(barrier.arrive());
    assert!(matches!(poll_once(&mut second), Poll::Pending));
    assert!(barrier.arrive().wait().is_leader());
    assert!(matches!(poll_once(&mut second), Poll::Ready(arrival) if !arrival.is_leader()));
    assert!(Barrier::new(0).arrive().wait().is_leader());
}

#[test]
fn a_cell_is_filled_once_by_any_kind() {
    everywhere(|runtime| {
        let cell = Arc::new(OnceCell::new());
        let made = Arc::new(AtomicUsize::new(0));
        let job = || {
            let (cell, made) = (Arc::clone(&cell), Arc::clone(&made));
            move || {
                let make = || made.fetch_add(1, Ordering::Relaxed) + 1;
                assert_eq!(*cell.get_or_make(make).wait(), 1);
            }
        };
        let future = || {
            let (cell, made) = (Arc::clone(&cell), Arc::clone(&made));
            async move {
                let make = || async {
                    yield_now().await;
                    made.fetch_add(1, Ordering::Relaxed) + 1
                };
                assert_eq!(*cell.get_or_init(make).await, 1);
            }
        };
        in_all_worlds(runtime, 5, job, future);
        assert_eq!(cell.set(7), Err(7));
    });
}

#[test]
fn a_maker_that_panics_or_goes_leaves_it_to_the_next() {
    let cell = OnceCell::new();
    let result = catch_unwind(AssertUnwindSafe(|| {
        cell.get_or_make(|| panic!("on purpose")).wait()
    }));
    assert!(result.is_err());
    let mut slow = Box::pin(cell.get_or_init(std::future::pending));
    assert!(matches!(poll_once(&mut slow), Poll::Pending));
    let mut next = Box::pin(cell.get_or_make(|| 3));
    assert!(matches!(poll_once(&mut next), Poll::Pending));
    assert_eq!(cell.set(1), Err(1), "somebody is making one");
    drop(slow);
    assert!(matches!(poll_once(&mut next), Poll::Ready(3)));
    assert_eq!(block_on(cell.get_or_init(|| async { 4 })), &3);
}

/// A waker that panics, in its call or in its drop, harms only its caller.
#[test]
fn wakers_that_panic_lose_nothing_for_others() {
    for how in [crate::polls::Panics::InWake, crate::polls::Panics::InDrop] {
        let notify = Notify::new();
        let mut waits: Vec<_> = (0..5).map(|_| Box::pin(notify.notified())).collect();
        let wakes: Vec<_> = waits
            .iter_mut()
            .enumerate()
            .map(|(n, wait)| crate::polls::poll_counting(wait, (n % 2 == 0).then_some(how)))
            .collect();
        let told = catch_unwind(AssertUnwindSafe(|| notify.notify_all()));
        assert!(told.is_err());
        for (n, (wait, wakes)) in waits.iter_mut().zip(wakes).enumerate() {
            assert_eq!(wakes.load(Ordering::Relaxed), 1, "waiter {n}");
            assert!(matches!(poll_once(wait), Poll::Ready(())));
        }
    }
}

#[test]
fn a_waker_that_panics_under_a_guard_leaves_the_lock_free() {
    let mutex = Mutex::new(());
    let guard = mutex.try_lock().expect("free");
    let mut lock = Box::pin(mutex.lock());
    crate::polls::poll_counting(&mut lock, Some(crate::polls::Panics::InWake));
    let unlocked = catch_unwind(AssertUnwindSafe(|| drop(guard)));
    assert!(unlocked.is_err());
    assert!(matches!(poll_once(&mut lock), Poll::Ready(_)));
    // While the thread unwinds already, the waker's panic is not one too many.
    let mut lock = Box::pin(mutex.lock());
    let unwound = catch_unwind(AssertUnwindSafe(|| {
        let _guard = mutex.try_lock().expect("free");
        crate::polls::poll_counting(&mut lock, Some(crate::polls::Panics::InWake));
        panic!("on purpose");
    }));
    assert!(unwound.is_err());
    assert!(matches!(poll_once(&mut lock), Poll::Ready(_)));
}

#[test]
fn a_crowd_is_woken_in_time_proportional_to_it() {
    let time = |waiters: usize| {
        let notify = Notify::new();
        let mut waits: Vec<_> = (0..waiters).map(|_| Box::pin(notify.notified())).collect();
        for wait in &mut waits {
            assert!(matches!(poll_once(wait), Poll::Pending));
        }
        let start = std::time::Instant::now();
        notify.notify_all();
        for wait in &mut waits {
            assert!(matches!(poll_once(wait), Poll::Ready(())));
        }
        start.elapsed()
    };
    let least = |waiters| (0..3).map(|_| time(waiters)).min().expect("three");
    // A hundred times as many; quadratic would take ten thousand times as long.
    let (few, many) = (least(1_000), least(100_000));
    assert!(many < few * 2_000, "{few:?} for 1000, {many:?} for 100000");
}

#[test]
fn jobs_that_wait_for_a_lock_need_no_second_worker() {
    let runtime = Runtime::builder().workers(1).build().expect("one worker");
    let mutex = Arc::new(Mutex::new(0));
    let guard = mutex.try_lock().expect("free");
    let jobs: Vec<_> = (0..20)
        .map(|_| {
            let mutex = Arc::clone(&mutex);
            runtime.spawn_job(move || *mutex.lock().wait() += 1)
        })
        .collect();
    // The worker is not in their hands.
    assert_eq!(runtime.spawn_job(|| 5).wait().expect("no panic"), 5);
    drop(guard);
    jobs.into_iter().for_each(|job| job.wait().expect("no panic"));
    assert_eq!(*mutex.lock().wait(), 20);
}
