//! What fibers cost: nanoseconds each, as the median and the quartiles of many runs.
//!
//! ```text
//! cargo bench -p warpweft --bench fibers
//! ```
//!
//! Instructions per turn or transfer are the difference between two runs with so many per fiber, divided by
//! what that makes of all of them:
//!
//! ```text
//! cargo bench -p warpweft --bench fibers --no-run
//! valgrind --tool=callgrind <its binary> count turns|called|transfers <fibers or rings> <n for each fiber>
//! ```
//!
//! And per fiber that ends without waiting, with one worker or two,
//! `count spawns <workers> <how many hundreds>`.

use std::future::poll_fn;
use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Poll, Waker};
use std::time::Instant;
use warpweft::{Runtime, fiber, spawn_job};

#[cfg(not(any(warpweft_loom, warpweft_shuttle)))]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const RUNS: usize = 31;

/// Nanoseconds per `count` things that `run` does, as text.
fn told(what: &str, count: usize, mut run: impl FnMut() -> f64) {
    run();
    let mut each: Vec<f64> = (0..RUNS).map(|_| run() / count as f64).collect();
    each.sort_by(f64::total_cmp);
    let at = |part: usize| each[(RUNS - 1) * part / 4];
    println!("{what:<52} {:8.1} ns   {:.1} to {:.1}", at(2), at(1), at(3));
}

fn timed(body: impl FnOnce()) -> f64 {
    let start = Instant::now();
    body();
    start.elapsed().as_nanos() as f64
}

fn in_fiber(runtime: &Runtime, body: impl FnOnce() -> f64 + Send + 'static) -> f64 {
    runtime.spawn_fiber(body).wait().expect("no panic")
}

/// Gives way in a function of its own, whose return comes after the switch.
#[inline(never)]
fn give_way() {
    fiber::yield_now();
}

/// So many fibers give way so often each, in their own loops or in a function.
fn turns(fibers: usize, count: usize, called: bool) -> f64 {
    let others: Vec<_> = (1..fibers)
        .map(|_| {
            fiber::spawn(move || {
                for _ in 0..count {
                    if called {
                        give_way();
                    } else {
                        fiber::yield_now();
                    }
                }
            })
        })
        .collect();
    fiber::yield_now();
    let time = timed(|| {
        for _ in 0..count {
            if called {
                give_way();
            } else {
                fiber::yield_now();
            }
        }
    });
    for other in others {
        other.wait().expect("no panic");
    }
    time
}

/// How many fibers are in a ring.
const RING: usize = 5;

/// Where a fiber of a ring waits.
#[derive(Default)]
#[repr(align(128))]
struct RingSlot {
    unparked: AtomicBool,
    waker: OnceLock<Waker>,
}

impl RingSlot {
    fn enter(&self) {
        fiber::wait(poll_fn(|cx| {
            self.waker.get_or_init(|| cx.waker().clone());
            Poll::Ready(())
        }));
    }

    #[inline]
    fn unpark(&self) {
        self.unparked.store(true, Ordering::Release);
        self.waker.get().expect("all have entered").wake_by_ref();
    }

    #[inline]
    fn park(&self) {
        fiber::wait(poll_fn(|_| {
            if self.unparked.load(Ordering::Acquire) {
                self.unparked.store(false, Ordering::Relaxed);
                return Poll::Ready(());
            }
            Poll::Pending
        }));
    }
}

/// Lets the next one in the ring go on so often, and waits.
fn ring_member(places: &[RingSlot], n: usize, count: usize) {
    let own = &places[n];
    let next = &places[n / RING * RING + (n + 1) % RING];
    own.enter();
    own.park();
    for _ in 0..count {
        next.unpark();
        own.park();
    }
    next.unpark();
}

/// In each of so many rings a fiber lets the next one go on, and waits; so often each.
fn transfers(rings: usize, count: usize) -> f64 {
    let places: Arc<[RingSlot]> = (0..rings * RING).map(|_| RingSlot::default()).collect();
    let fibers: Vec<_> = (0..rings * RING)
        .map(|n| {
            let places = Arc::clone(&places);
            fiber::spawn(move || ring_member(&places, n, count))
        })
        .collect();
    while places.iter().any(|place| place.waker.get().is_none()) {
        fiber::yield_now();
    }
    timed(|| {
        for first in places.iter().step_by(RING) {
            first.unpark();
        }
        for fiber in fibers {
            fiber.wait().expect("no panic");
        }
    })
}

/// The same on two threads, which have every other fiber: four of five transfers go to the other one.
fn transfers_across(runtime: &Runtime, rings: usize, count: usize) -> f64 {
    let places: Arc<[RingSlot]> = (0..rings * RING).map(|_| RingSlot::default()).collect();
    let met = Arc::new(AtomicUsize::new(0));
    let threads = [0, 1].map(|thread| {
        let (places, met) = (Arc::clone(&places), Arc::clone(&met));
        runtime.spawn_fiber(move || {
            // Each has a worker of its own while both are here.
            met.fetch_add(1, Ordering::SeqCst);
            while met.load(Ordering::SeqCst) < 2 {
                spin_loop();
            }
            let fibers: Vec<_> = (thread..places.len())
                .step_by(2)
                .map(|n| {
                    let places = Arc::clone(&places);
                    fiber::spawn_here(move || ring_member(&places, n, count))
                })
                .collect();
            while places.iter().any(|place| place.waker.get().is_none()) {
                fiber::yield_now();
            }
            let start = Instant::now();
            for first in places.iter().step_by(RING).filter(|_| thread == 0) {
                first.unpark();
            }
            for fiber in fibers {
                fiber.wait().expect("no panic");
            }
            (start, Instant::now())
        })
    });
    let [first, second] = threads.map(|thread| thread.wait().expect("no panic"));
    (first.1.max(second.1) - first.0).as_nanos() as f64
}

/// So many hundreds of fibers that end without waiting. Batches of a hundred, so that caches hold what is
/// spawned.
fn spawns(hundreds: usize) -> f64 {
    timed(|| {
        for _ in 0..hundreds {
            for n in 0..99 {
                fiber::spawn(move || _ = black_box(n)).detach();
            }
            // First in, first out: when this one has ended, so have all.
            fiber::spawn(|| ()).wait().expect("no panic");
        }
    })
}

/// What a tool that counts instructions looks at.
fn count(arguments: &[String]) {
    let [what, fibers, count] = arguments else {
        panic!("count turns|called|transfers|spawns <fibers, rings or workers> <how many>");
    };
    let [fibers, count] = [fibers, count].map(|number| number.parse::<usize>().expect("a number"));
    let workers = if what == "spawns" { fibers } else { 1 };
    let runtime = Runtime::builder().workers(workers).build().expect("workers");
    let what = what.clone();
    in_fiber(&runtime, move || match what.as_str() {
        "spawns" => spawns(count),
        "transfers" => transfers(fibers, count),
        what => turns(fibers, count, what == "called"),
    });
}

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == "count") {
        return count(&arguments[1..]);
    }
    let runtime = Runtime::builder().workers(1).build().expect("one worker");
    for fibers in [1, 2, 20, 100] {
        for called in [false, true] {
            let what = if called { ", in a function" } else { "" };
            told(
                &format!("a turn among {fibers} fibers that give way{what}"),
                fibers * 1000,
                || in_fiber(&runtime, move || turns(fibers, 1000, called)),
            );
        }
    }
    for rings in [1, 20, 100] {
        told(
            &format!("a transfer in {rings} rings of five"),
            rings * RING * 500,
            || in_fiber(&runtime, move || transfers(rings, 500)),
        );
    }
    let two = Runtime::builder().workers(2).build().expect("two workers");
    for rings in [1, 20, 100] {
        told(
            &format!("a transfer in {rings} rings of five, on two threads"),
            rings * RING * 500,
            || transfers_across(&two, rings, 500),
        );
    }
    drop(two);
    let count = 10_000;
    told("spawn + finish: fibers that nobody waits for", count, || {
        in_fiber(&runtime, move || spawns(count / 100))
    });
    told("spawn + finish + join: fibers", count, || {
        in_fiber(&runtime, move || {
            timed(|| {
                for _ in 0..count / 100 {
                    let handles: Vec<_> = (0..100).map(|n| fiber::spawn(move || n)).collect();
                    for handle in handles {
                        black_box(handle.wait().expect("no panic"));
                    }
                }
            })
        })
    });
    told("the same, jobs", count, || {
        in_fiber(&runtime, move || {
            timed(|| {
                for _ in 0..count / 100 {
                    let handles: Vec<_> = (0..100).map(|n| spawn_job(move || n)).collect();
                    for handle in handles {
                        black_box(handle.wait().expect("no panic"));
                    }
                }
            })
        })
    });
    told("wait for a future that is woken at once", count, || {
        in_fiber(&runtime, move || {
            timed(|| {
                for _ in 0..count {
                    fiber::wait(async {
                        let mut woken = false;
                        poll_fn(|cx| {
                            if std::mem::replace(&mut woken, true) {
                                return Poll::Ready(());
                            }
                            cx.waker().wake_by_ref();
                            Poll::Pending
                        })
                        .await;
                    });
                }
            })
        })
    });
    told("spawn a fiber and wait for it: both switch", count, || {
        in_fiber(&runtime, move || {
            timed(|| {
                for n in 0..count {
                    black_box(fiber::spawn(move || n).wait().expect("no panic"));
                }
            })
        })
    });
}
