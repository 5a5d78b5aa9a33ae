//! What fibers cost: nanoseconds each, as the median and the quartiles of many runs.
//!
//! ```text
//! cargo bench -p warpweft --bench fibers
//! ```

use std::hint::black_box;
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

fn main() {
    let runtime = Runtime::builder().workers(1).build().expect("one worker");
    let count = 10_000;
    // Batches of a hundred, so that caches hold what is spawned.
    told("spawn + finish: fibers that nobody waits for", count, || {
        in_fiber(&runtime, move || {
            timed(|| {
                for _ in 0..count / 100 {
                    for n in 0..99 {
                        fiber::spawn(move || _ = black_box(n)).detach();
                    }
                    // First in, first out: when this one has ended, so have all.
                    fiber::spawn(|| ()).wait().expect("no panic");
                }
            })
        })
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
    told("give way to another fiber and back: two turns", count, || {
        in_fiber(&runtime, move || {
            let other = fiber::spawn(move || {
                for _ in 0..count {
                    fiber::yield_now();
                }
            });
            fiber::yield_now();
            let time = timed(|| {
                for _ in 0..count {
                    fiber::yield_now();
                }
            });
            other.wait().expect("no panic");
            time
        })
    });
    told("give way with nobody else there: one turn", count, || {
        in_fiber(&runtime, move || {
            timed(|| {
                for _ in 0..count {
                    fiber::yield_now();
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
                        std::future::poll_fn(|cx| {
                            if std::mem::replace(&mut woken, true) {
                                return std::task::Poll::Ready(());
                            }
                            cx.waker().wake_by_ref();
                            std::task::Poll::Pending
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
