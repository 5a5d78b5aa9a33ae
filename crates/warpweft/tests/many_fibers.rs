//! The cost of a hundred thousand fibers that wait at the same time. Alone in its process, which it measures.
#![cfg(all(target_os = "linux", not(any(warpweft_loom, warpweft_shuttle))))]

use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};
use warpweft::{JoinError, JoinHandle, Runtime, fiber};

/// Returns the resident bytes and the mappings of this process.
fn process() -> (usize, usize) {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages = statm
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse::<usize>().ok());
    let maps = std::fs::read_to_string("/proc/self/maps").expect("Linux");
    (pages.expect("a number") * 4096, maps.lines().count())
}

/// Returns true if the kernel has guards that cost no mapping.
fn has_marks() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("Linux");
    let mut numbers = release.split('.').map_while(|part| part.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(6), Some(13))
}

type Wakers = Arc<Mutex<Option<Vec<Waker>>>>;

/// Spawns that many fibers, and returns when all of them have left their wakers and wait.
fn crowd(runtime: &Runtime, fibers: usize, wakers: &Wakers) -> Vec<JoinHandle<usize>> {
    let handles = (0..fibers)
        .map(|n| {
            let wakers = Arc::clone(wakers);
            runtime.spawn_fiber(move || {
                fiber::wait(std::future::poll_fn(|cx| {
                    match wakers.lock().expect("unpoisoned").as_mut() {
                        Some(wakers) => {
                            wakers.push(cx.waker().clone());
                            Poll::Pending
                        }
                        None => Poll::Ready(n),
                    }
                }))
            })
        })
        .collect();
    let start = Instant::now();
    while runtime.fibers().live < fibers {
        assert!(
            start.elapsed() < Duration::from_secs(120),
            "{:?}",
            runtime.fibers()
        );
        thread::sleep(Duration::from_millis(20));
    }
    handles
}

#[test]
fn a_hundred_thousand_fibers_wait() {
    let fibers = if has_marks() { 100_000 } else { 20_000 };
    let runtime = Runtime::builder()
        .workers(2)
        .stuck_after(None)
        .build()
        .expect("two workers");
    let before = process();
    let wakers: Wakers = Arc::new(Mutex::new(Some(Vec::new())));
    let handles = crowd(&runtime, fibers, &wakers);
    let told = runtime.fibers();
    let now = process();
    let (each, mappings) = ((now.0 - before.0) / fibers, now.1 - before.1);
    println!("{fibers} fibers: {each} bytes each, {mappings} mappings more, {told:?}");
    // Unoptimised frames are large; the goal, 8.5 KiB, is for an optimised build.
    let most = if cfg!(debug_assertions) { 14 << 10 } else { 8704 };
    assert!(each <= most, "{each} bytes");
    assert!(told.mappings <= 100, "{told:?}");
    assert!(!has_marks() || mappings <= 150, "{mappings} mappings");
    assert_eq!(runtime.threads().all, 2);
    for waker in wakers.lock().expect("unpoisoned").take().expect("they wait") {
        waker.wake();
    }
    for (n, handle) in handles.into_iter().enumerate() {
        assert_eq!(handle.wait().expect("no panic"), n);
    }
    assert_eq!(runtime.fibers().live, 0);

    // Once more, on the same stacks; then the pool closes over them.
    let wakers: Wakers = Arc::new(Mutex::new(Some(Vec::new())));
    let handles = crowd(&runtime, fibers, &wakers);
    assert!(
        runtime.fibers().stacks <= told.stacks + 2 * 64,
        "stacks are used again"
    );
    runtime.shutdown();
    let told = runtime.fibers();
    assert_eq!((told.live, told.unwound), (0, fibers));
    assert_eq!(told.stacks, told.free, "none is lost");
    for handle in handles {
        assert!(matches!(handle.wait(), Err(JoinError::Shutdown)));
    }
    // The memory behind them went back to the system but for the pages that each keeps.
    drop((runtime, wakers));
    let after = process();
    assert!(after.1 <= before.1 + 50, "mappings: {before:?}, {after:?}");
}
