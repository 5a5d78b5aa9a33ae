//! Cooperative code yields while it computes, stops when it is cancelled, and has the same results as without
//! checks.
#![cfg(all(feature = "macros", not(any(warpweft_loom, warpweft_shuttle))))]

mod attributes;
mod progress;
mod stopping;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use warpweft::{Runtime, cooperative, fiber};

fn runtime(workers: usize, quantum: u32) -> Runtime {
    Runtime::builder()
        .workers(workers)
        .quantum(quantum)
        // A compensating worker would run the tasks that a hog keeps from running.
        .stuck_after(None)
        .build()
        .expect("threads")
}

/// Computes until the other fiber has come as far: neither ends unless both run. If one starts after the
/// other has finished, it returns at once.
#[cooperative]
fn hog(mine: &AtomicU64, others: &AtomicU64) -> u64 {
    let mut turns = 0;
    while others.load(Ordering::Relaxed) < 1000 {
        turns += 1;
        mine.store(turns, Ordering::Relaxed);
    }
    mine.store(u64::MAX, Ordering::Relaxed);
    turns
}

/// Every kind of loop, and the ways through it.
#[cooperative]
fn loops(n: u64) -> Vec<u64> {
    let mut seen = Vec::new();
    let mut i = 0;
    while i < n {
        i += 1;
        if i % 3 == 0 {
            continue;
        }
        seen.push(i);
    }
    let last = loop {
        i += 1;
        if i > 2 * n {
            break i;
        }
    };
    seen.push(last);
    'rows: for row in 0..n {
        for column in 0..n {
            if column > row {
                continue 'rows;
            }
            if row * column > 50 {
                break 'rows;
            }
            seen.push(row * column);
        }
    }
    'own: for i in 0..n {
        if i % 2 == 0 {
            continue 'own;
        }
        seen.push(i);
    }
    for i in 0..n {
        if i == 5 {
            break;
        }
        seen.push(i);
    }
    for x in seen.clone().iter().rev().step_by(2) {
        seen.push(*x);
    }
    for c in 'a'..'f' {
        seen.push(u64::from(c));
    }
    #[allow(clippy::reversed_empty_ranges, reason = "it has no turns")]
    for i in 5..3 {
        seen.push(i);
    }
    seen.extend((0..n).map(|x| {
        let mut sum = 0;
        for i in 0..x {
            sum += i;
        }
        sum
    }));
    seen
}

/// The same without checks.
fn loops_plain(n: u64) -> Vec<u64> {
    let mut seen: Vec<u64> = (1..=n).filter(|i| i % 3 != 0).collect();
    seen.push(2 * n.max(1) + u64::from(n > 0));
    let mut rows = 0..n;
    'rows: for row in rows.by_ref() {
        for column in 0..=row.min(n - 1) {
            if row * column > 50 {
                break 'rows;
            }
            seen.push(row * column);
        }
    }
    seen.extend((0..n).filter(|i| i % 2 == 1));
    seen.extend(0..n.min(5));
    let more: Vec<u64> = seen.iter().rev().step_by(2).copied().collect();
    seen.extend(more);
    seen.extend((b'a'..b'f').map(u64::from));
    seen.extend((0..n).map(|x| (0..x).sum::<u64>()));
    seen
}

/// Returns how many other fibers run while `body` does.
fn others_during(body: impl FnOnce() + Send + 'static) -> usize {
    let runtime = runtime(1, 10);
    let count = Arc::new(AtomicUsize::new(0));
    let over = Arc::new(AtomicBool::new(false));
    let (counted, until) = (Arc::clone(&count), Arc::clone(&over));
    let seen = runtime.spawn_fiber(move || {
        let other = fiber::spawn(move || {
            while !until.load(Ordering::Relaxed) {
                counted.fetch_add(1, Ordering::Relaxed);
                fiber::yield_now();
            }
        });
        let before = count.load(Ordering::Relaxed);
        body();
        let during = count.load(Ordering::Relaxed) - before;
        over.store(true, Ordering::Relaxed);
        other.wait().expect("no panic");
        during
    });
    seen.wait().expect("no panic")
}

#[cooperative]
fn work(n: u64) -> u64 {
    let mut sum = 0_u64;
    let mut i = 0;
    while i < n {
        i += 1;
        sum = sum.wrapping_mul(31).wrapping_add(i);
    }
    sum
}
