//! rayon-rs/rayon#1105, «cooperative yield in ThreadPool::install() causes unexpected behavior in nested
//! pools»: the calls of a loop in one pool install a loop in another pool, and wait for it.
//!
//! On rayon the waiting worker begins further calls of the outer loop on top of the one that waits: what that
//! one holds in the thread (a borrowed thread-local, a lock) they find held, and it continues when they have
//! ended. On Warpweft nothing begins on top. On both, more calls are under way than the outer pool has
//! workers, and whatever memory they hold: a semaphore can bound that.

mod support;

use std::cell::Cell;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use rayon::iter::{IndexedParallelIterator, IntoParallelIterator, ParallelIterator};
use support::{Answer, rayon_pool, warpweft_runtime};

/// Calls of the outer loop.
const OUTER: usize = 100;
/// Calls of each inner loop.
const INNER: usize = 8;
/// What an inner call takes.
const WORK: Duration = Duration::from_micros(500);

fn main() -> ExitCode {
    support::main(on_rayon, on_warpweft)
}

/// The program on rayon.
pub(crate) fn on_rayon(workers: usize) -> Answer {
    let (outer, inner) = (rayon_pool(workers), rayon_pool(workers));
    let calls = Calls::default();
    outer.install(|| {
        let loops = (0..OUTER).into_par_iter().with_max_len(1);
        loops.for_each(|_| {
            calls.one(|| {
                inner.install(|| {
                    let works = (0..INNER).into_par_iter().with_max_len(1);
                    works.for_each(|_| thread::sleep(WORK));
                });
            });
        });
    });
    calls.answer()
}

/// The program on Warpweft.
pub(crate) fn on_warpweft(workers: usize) -> Answer {
    let (outer, inner) = (warpweft_runtime(workers), warpweft_runtime(workers));
    let calls = Calls::default();
    let outer = outer.install(|_| {
        warpweft::par_for(0..OUTER, 1, |_| {
            calls.one(|| {
                let inner = inner.install(|_| warpweft::par_for(0..INNER, 1, |_| thread::sleep(WORK)));
                inner.expect("the runtime is open");
            });
        });
    });
    outer.expect("the runtime is open");
    calls.answer()
}

thread_local! {
    /// Calls of the outer loop that have begun on this thread and not ended.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// Watches the calls of the outer loop.
#[derive(Default)]
struct Calls {
    under_way: AtomicUsize,
    most: AtomicUsize,
    stacked: AtomicUsize,
}

impl Calls {
    fn one(&self, body: impl FnOnce()) {
        let depth = DEPTH.get() + 1;
        DEPTH.set(depth);
        self.stacked.fetch_max(depth, Ordering::Relaxed);
        let under_way = self.under_way.fetch_add(1, Ordering::Relaxed) + 1;
        self.most.fetch_max(under_way, Ordering::Relaxed);
        body();
        self.under_way.fetch_sub(1, Ordering::Relaxed);
        // A call ends on the thread on which it began.
        DEPTH.set(DEPTH.get() - 1);
    }

    fn answer(self) -> Answer {
        let (most, stacked) = (self.most.into_inner(), self.stacked.into_inner());
        let report = format!("{most} of {OUTER} calls were under way at a time, {stacked} on one stack");
        if stacked <= 1 { Ok(report) } else { Err(report) }
    }
}
