//! rayon-rs/rayon#854, «Stack overflow with rayon::scope and spawn»: many jobs in a scope, each of them a
//! parallel loop.
//!
//! On rayon a loop whose half was stolen waits, and runs other jobs meanwhile: other loops, whose
//! halves are stolen as well. Each wait adds frames to the same stack, and those below cannot end before it
//! does. It takes many thieves: run it with 8 workers. The calls yield to the other threads, so that those
//! eight overlap on two processors, too.

mod support;

use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rayon::iter::{IndexedParallelIterator, IntoParallelIterator, ParallelIterator};
use support::{Answer, rayon_pool, warpweft_runtime};

/// Jobs of the scope, as many as in the issue. Stacks have the 2 MiB that threads have unless told otherwise.
const BLOCKS: usize = 10_000;
/// Calls of each job's loop.
const PIXELS: usize = 16;
/// What a call takes.
const WORK: Duration = Duration::from_micros(2);

fn main() -> ExitCode {
    support::main(on_rayon, on_warpweft)
}

/// The program on rayon.
pub(crate) fn on_rayon(workers: usize) -> Answer {
    let pool = rayon_pool(workers);
    let pixels = AtomicUsize::new(0);
    pool.scope(|scope| {
        for _ in 0..BLOCKS {
            scope.spawn(|_| {
                let halves = (0..PIXELS).into_par_iter().with_max_len(1);
                halves.for_each(|_| work(&pixels));
            });
        }
    });
    answer(pixels)
}

/// The program on Warpweft.
pub(crate) fn on_warpweft(workers: usize) -> Answer {
    let runtime = warpweft_runtime(workers);
    let pixels = AtomicUsize::new(0);
    let scope = runtime.install(|cx| {
        cx.scope(|scope| {
            for _ in 0..BLOCKS {
                scope.spawn(|_| warpweft::par_for(0..PIXELS, 1, |_| work(&pixels)));
            }
        });
    });
    scope.expect("the runtime is open");
    answer(pixels)
}

fn work(pixels: &AtomicUsize) {
    let start = Instant::now();
    while start.elapsed() < WORK {
        thread::yield_now();
    }
    pixels.fetch_add(1, Ordering::Relaxed);
}

fn answer(pixels: AtomicUsize) -> Answer {
    let pixels = pixels.into_inner();
    assert_eq!(pixels, BLOCKS * PIXELS);
    Ok(format!("{BLOCKS} loops, {pixels} calls"))
}
