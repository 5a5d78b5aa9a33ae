//! A storm of cancellations at random moments, with exact counts.
//!
//! `WARPWEFT_CANCELLATIONS` says how many; `cargo xtask deep` runs a million.

use super::{Alive, runtime, until};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use warpweft::cancel::{self, CancelToken};
use warpweft::sync::Mutex;
use warpweft::time::sleep;
use warpweft::{ForkCx, JoinError, JoinHandle, Runtime, TaskBuilder, fiber, join, par_for, scope, spawn_job};

/// The number of tokens that are alive at a time.
const BATCH: u64 = 64;

/// Xorshift, so that a seed makes the same storm of choices.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

fn fib(n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let (a, b) = join(|| fib(n - 1), || fib(n - 2));
    a + b
}

fn sum_of_a_loop() -> u64 {
    let sum = AtomicU64::new(0);
    par_for(0..64, 1, |n| {
        sum.fetch_add(n as u64, Ordering::Relaxed);
    });
    sum.into_inner()
}

fn sum_of_a_scope(alive: &Alive) -> u64 {
    let sum = AtomicU64::new(0);
    scope(|scope| {
        for n in 0..16 {
            let (held, sum) = (alive.hold(), &sum);
            scope.spawn(move |scope| {
                let inner = held;
                scope.spawn(move |_| {
                    sum.fetch_add(n, Ordering::Relaxed);
                    drop(inner);
                });
            });
        }
    });
    sum.into_inner()
}

/// Spawns some work under the token that counts here. Returns what it has to compute, unless it is cancelled.
fn begin(on: TaskBuilder<'_>, kind: u64, alive: &Alive, lock: &Arc<Mutex<u64>>) -> (JoinHandle<u64>, u64) {
    let held = alive.hold();
    match kind {
        0 => (on.spawn_job(move || (sum_of_a_loop(), held).0), 2016),
        1 => (on.spawn_fiber(move || (fib(8), held).0), 21),
        2 => {
            let lock = Arc::clone(lock);
            let body = move || {
                let mut turns = 0;
                for _ in 0..4 {
                    let mut count = lock.lock().wait();
                    *count += 1;
                    fiber::wait(sleep(Duration::from_micros(30)));
                    turns += 1;
                }
                (turns, held).0
            };
            (on.spawn_fiber(body), 4)
        }
        3 => {
            let lock = Arc::clone(lock);
            let body = async move {
                let _held = held;
                for _ in 0..4 {
                    let mut count = lock.lock().await;
                    *count += 1;
                    sleep(Duration::from_micros(30)).await;
                }
                5
            };
            (on.spawn(body), 5)
        }
        4 => {
            let alive = alive.clone();
            (on.spawn_job(move || (sum_of_a_scope(&alive), held).0), 120)
        }
        _ => {
            let body = async move {
                let inner = spawn_job(move || ForkCx::with(|cx| cx.map_or(0, |_| fib(6))));
                let value = inner.await.unwrap_or(u64::MAX);
                (value, held).0
            };
            (on.spawn(body), 8)
        }
    }
}

#[test]
fn random_cancellations_lose_nothing_and_invent_nothing() {
    storm(&runtime(4), |_, on| on);
}

/// The same beside random sizes of the pool and random priorities. A task that waits for a lock raises the
/// priority of the one that holds it.
#[test]
fn random_cancellations_priorities_and_sizes_lose_nothing() {
    let runtime = Runtime::builder()
        .workers(4)
        .policy_spec("priority".parse().expect("a preset"))
        .build()
        .expect("threads");
    let levels: Vec<_> = (0..).map_while(|level| runtime.priority(level).ok()).collect();
    assert!(levels.len() > 1);
    let mut size = 4;
    storm(&runtime, |random, on| {
        let next = 1 + usize::try_from(random.below(4)).expect("small");
        assert_eq!(runtime.resize(next).expect("a possible size"), size);
        size = next;
        let level = usize::try_from(random.below(levels.len() as u64)).expect("small");
        on.priority(levels[level])
    });
    runtime.resize(4).expect("a possible size");
    assert_eq!(runtime.first().fault(), None);
}

/// Cancels tokens at random, and calls `each` for each task that is spawned.
fn storm<'a>(runtime: &'a Runtime, mut each: impl FnMut(&mut Random, TaskBuilder<'a>) -> TaskBuilder<'a>) {
    let wanted = std::env::var("WARPWEFT_CANCELLATIONS").ok();
    let wanted: u64 = wanted.map_or(3000, |number| number.parse().expect("a number"));
    let (alive, lock) = (Alive::default(), Arc::new(Mutex::new(0)));
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let (mut cancelled, mut finished, mut made) = (0, 0, 0);
    while made < wanted {
        let root = CancelToken::new();
        let mut tokens = vec![root.clone()];
        let mut tasks = Vec::new();
        for _ in 0..BATCH {
            let above = &tokens[usize::try_from(random.below(tokens.len() as u64)).expect("small")];
            let token = above.child();
            let kind = random.below(6);
            let on = each(&mut random, TaskBuilder::new().on(runtime));
            if let Ok((task, value)) = token.run(|| begin(on, kind, &alive, &lock)) {
                tasks.push((token.clone(), task, value, kind));
            }
            tokens.push(token);
            made += 1;
            // Some are cancelled while others are being spawned.
            if random.below(4) == 0 {
                let which = 1 + usize::try_from(random.below(tokens.len() as u64 - 1)).expect("small");
                tokens[which].cancel();
            }
        }
        // The rest from tasks, so that cancellations meet each other.
        for token in tokens.drain(1..) {
            if random.below(3) > 0 {
                runtime.spawn_detached(move || token.cancel());
            }
        }
        if random.below(8) == 0 {
            root.cancel();
        }
        for (token, task, value, kind) in tasks {
            match task.wait() {
                // A future may go on although the job that it awaits was cancelled.
                Ok(u64::MAX) if kind == 5 && token.is_cancelled() => finished += 1,
                Ok(found) => {
                    assert_eq!(found, value, "kind {kind}: a wrong value");
                    finished += 1;
                }
                Err(JoinError::Cancelled) => {
                    assert!(token.is_cancelled(), "kind {kind}: nobody has cancelled it");
                    cancelled += 1;
                }
                Err(error) => panic!("kind {kind}: {error}"),
            }
        }
        assert!(cancel::current().is_none());
    }
    until(|| alive.count() == 0);
    assert!(lock.try_lock().is_some(), "a lock was leaked");
    assert!(
        cancelled > 0 && finished > 0,
        "{cancelled} and {finished}: no storm"
    );
}
