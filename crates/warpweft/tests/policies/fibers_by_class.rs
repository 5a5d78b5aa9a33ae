//! Ready fibers of a thread, in pools with priorities: the urgent ones first, and the others not never.

use super::in_time::in_time;
use super::inversion::runtime;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc;
use std::time::{Duration, Instant};
use warpweft::sync::{Mutex, Notify, oneshot};
use warpweft::{Runtime, TaskBuilder, fiber};

/// Long after a fiber that is not urgent has had its turns.
const PATIENCE: Duration = Duration::from_secs(20);

/// Spawns a fiber of that level.
fn spawn(runtime: &Runtime, level: u8, body: impl FnOnce() + Send + 'static) -> warpweft::JoinHandle<()> {
    let priority = runtime.priority(level).unwrap();
    TaskBuilder::new()
        .on(runtime)
        .priority(priority)
        .spawn_fiber(body)
}

/// Who wakes the fibers.
#[derive(Debug, Clone, Copy)]
enum Waker {
    /// A job on their own thread.
    Here,
    /// A thread outside, through the mailbox.
    Outside,
}

fn order_of_turns(waker: Waker, by_latch: bool) -> Vec<u8> {
    let runtime = runtime("priority:3");
    let order = Arc::new(std::sync::Mutex::new(Vec::new()));
    let waiting = Arc::new(AtomicUsize::new(0));
    let mut senders = Vec::new();
    let fibers: Vec<_> = [2, 1, 0, 1, 2, 0]
        .into_iter()
        .map(|level| {
            let (sender, receiver) = oneshot::channel::<()>();
            senders.push(sender);
            let (order, waiting) = (Arc::clone(&order), Arc::clone(&waiting));
            spawn(&runtime, level, move || {
                waiting.fetch_add(1, SeqCst);
                if by_latch {
                    receiver.wait().unwrap();
                } else {
                    fiber::wait(receiver).unwrap();
                }
                order.lock().unwrap().push(level);
            })
        })
        .collect();
    while waiting.load(SeqCst) < fibers.len() {
        std::thread::yield_now();
    }
    let wake = move || senders.into_iter().for_each(|sender| sender.send(()).unwrap());
    match waker {
        Waker::Here => runtime.spawn_job(wake).wait().unwrap(),
        Waker::Outside => {
            // The worker is held until all of them are ready.
            let (open, gate) = mpsc::channel::<()>();
            let (begins, begun) = mpsc::channel();
            let held = runtime.spawn_job(move || {
                begins.send(()).unwrap();
                gate.recv().unwrap();
            });
            begun.recv().unwrap();
            wake();
            open.send(()).unwrap();
            held.wait().unwrap();
        }
    }
    for fiber in fibers {
        fiber.wait().unwrap();
    }
    Arc::into_inner(order).unwrap().into_inner().unwrap()
}

#[test]
fn urgent_fibers_continue_first() {
    for waker in [Waker::Here, Waker::Outside] {
        for by_latch in [false, true] {
            let order = order_of_turns(waker, by_latch);
            assert_eq!(order, [0, 0, 1, 1, 2, 2], "{waker:?}, {by_latch}");
        }
    }
}

#[test]
fn fibers_that_are_not_urgent_have_turns_too() {
    let runtime = runtime("priority:3");
    let ended = Arc::new(AtomicUsize::new(0));
    let urgent: Vec<_> = (0..3)
        .map(|_| {
            let ended = Arc::clone(&ended);
            spawn(&runtime, 0, move || {
                let start = Instant::now();
                while ended.load(SeqCst) == 0 {
                    assert!(start.elapsed() < PATIENCE, "the other fiber has no turns");
                    fiber::yield_now();
                }
            })
        })
        .collect();
    let later = Arc::clone(&ended);
    let low = spawn(&runtime, 2, move || {
        for _ in 0..100 {
            fiber::yield_now();
        }
        later.store(1, SeqCst);
    });
    low.wait().unwrap();
    for fiber in urgent {
        fiber.wait().unwrap();
    }
}

/// A fiber of low priority has a lock and yields, an urgent one waits for it, and many in between are ready.
#[test]
fn a_fiber_that_has_a_lock_has_the_priority_of_the_one_that_waits() {
    in_time(owner_before_others);
}

fn owner_before_others() {
    const YIELDS: usize = 10;
    const FLOOD: usize = 40;
    let runtime = runtime("priority:3");
    let (lock, ended) = (Arc::new(Mutex::new(())), Arc::new(AtomicUsize::new(0)));
    let (has, between) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
    let low = {
        let (lock, has) = (Arc::clone(&lock), Arc::clone(&has));
        let between = Arc::clone(&between);
        spawn(&runtime, 2, move || {
            let guard = fiber::wait(lock.lock());
            has.notify_one();
            // Until the flood is there.
            while between.load(SeqCst) < FLOOD {
                fiber::yield_now();
            }
            for _ in 0..YIELDS {
                fiber::yield_now();
            }
            drop(guard);
        })
    };
    runtime.block_on(has.notified());
    let middle: Vec<_> = (0..FLOOD)
        .map(|_| {
            let (ended, between) = (Arc::clone(&ended), Arc::clone(&between));
            spawn(&runtime, 1, move || {
                while ended.load(SeqCst) == 0 {
                    between.fetch_add(1, SeqCst);
                    fiber::yield_now();
                }
            })
        })
        .collect();
    let (counts, lock) = (Arc::clone(&between), Arc::clone(&lock));
    let high = spawn(&runtime, 0, move || {
        let before = counts.load(SeqCst);
        let guard = fiber::wait(lock.lock());
        let turns = counts.load(SeqCst) - before;
        drop(guard);
        ended.store(1, SeqCst);
        // One in nine goes by age. The low one may be behind all others once, when it is not looked for.
        assert!(turns < 4 * FLOOD + YIELDS, "{turns} turns of others");
    });
    high.wait().unwrap();
    low.wait().unwrap();
    for fiber in middle {
        fiber.wait().unwrap();
    }
}
