//! What programs rely on that index arrays by thread, or keep something per thread.

use rayon::prelude::*;
use std::cell::Cell;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Threads that have run a closure of [`nested`].
static THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static IS_COUNTED: Cell<bool> = const { Cell::new(false) };
}

/// Makes all checks with 1, 2, 4 and 8 threads, and prints how many threads have run closures of nested
/// loops. The exit code says whether all held.
pub(crate) fn check() -> ExitCode {
    let mut is_fine = true;
    for threads in [1, 2, 4, 8] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        let pool = match pool {
            Ok(pool) => pool,
            Err(error) => {
                eprintln!("no pool: {error}");
                return ExitCode::FAILURE;
            }
        };
        THREADS.store(0, Ordering::Relaxed);
        let (clashes, sum, locks) = pool.install(|| (alone(threads), slots(threads), held(threads)));
        pool.install(|| nested(3));
        let ran = THREADS.load(Ordering::Relaxed);
        let most = most(threads);
        println!("{threads} threads: {ran} have run closures of nested loops, at most {most} may");
        is_fine &= clashes == 0 && sum && locks && ran <= most;
        if clashes > 0 {
            eprintln!("{threads} threads: {clashes} closures met another one with their index");
        }
        if !sum || !locks {
            eprintln!("{threads} threads: values per thread were lost");
        }
    }
    ExitCode::from(u8::from(!is_fine))
}

/// How many threads may run closures of nested loops: twice as many as asked for, and 4. A frame that waits
/// keeps its thread, and there is about one such frame for each thread that runs closures.
fn most(threads: usize) -> usize {
    2 * threads + 4
}

fn index(threads: usize) -> usize {
    let index = rayon::current_thread_index().expect("closures run on threads of the pool");
    assert!(index < threads, "index {index} of {threads}");
    index
}

/// How many closures meet another one that has the same index, in loops in loops, joins and scopes.
fn alone(threads: usize) -> usize {
    let used: Vec<AtomicBool> = (0..threads).map(|_| AtomicBool::new(false)).collect();
    let clashes = AtomicUsize::new(0);
    let leaf = || {
        let mine = &used[index(threads)];
        if mine.swap(true, Ordering::Acquire) {
            clashes.fetch_add(1, Ordering::Relaxed);
        }
        // Another thread of the same index would come meanwhile.
        std::thread::yield_now();
        mine.store(false, Ordering::Release);
    };
    (0..40).into_par_iter().with_max_len(1).for_each(|_| {
        (0..20).into_par_iter().with_max_len(1).for_each(|_| {
            rayon::join(leaf, || rayon::scope(|scope| scope.spawn(|_| leaf())));
            leaf();
        });
    });
    clashes.into_inner()
}

/// Adds into a slot per thread without an atomic addition, which is right if no other thread has the index.
fn slots(threads: usize) -> bool {
    let slots: Vec<AtomicUsize> = (0..threads).map(|_| AtomicUsize::new(0)).collect();
    (0..300).into_par_iter().for_each(|_| {
        (0..300).into_par_iter().for_each(|_| {
            let mine = &slots[index(threads)];
            let value = mine.load(Ordering::Relaxed);
            mine.store(value + 1, Ordering::Relaxed);
        });
    });
    slots
        .iter()
        .map(|slot| slot.load(Ordering::Relaxed))
        .sum::<usize>()
        == 300 * 300
}

/// Buffers per thread, each in a lock that no other thread may hold.
fn held(threads: usize) -> bool {
    let buffers: Vec<Mutex<Vec<usize>>> = (0..threads).map(|_| Mutex::default()).collect();
    let is_alone = AtomicBool::new(true);
    (0..2000).into_par_iter().with_max_len(1).for_each(|number| {
        match buffers[index(threads)].try_lock() {
            Ok(mut buffer) => buffer.push(number),
            Err(_) => is_alone.store(false, Ordering::Relaxed),
        }
        rayon::join(|| (), || ());
    });
    let all = buffers
        .into_iter()
        .map(|buffer| buffer.into_inner().map_or(0, |all| all.len()));
    all.sum::<usize>() == 2000 && is_alone.into_inner()
}

/// Loops in loops, `depth` deep, whose innermost closures count their threads.
fn nested(depth: usize) {
    (0..24).into_par_iter().with_max_len(1).for_each(|_| {
        if !IS_COUNTED.replace(true) {
            THREADS.fetch_add(1, Ordering::Relaxed);
        }
        // Other threads come meanwhile.
        std::thread::yield_now();
        if depth > 1 {
            nested(depth - 1);
        }
    });
}
