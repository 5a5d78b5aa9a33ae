//! What effects cost: nanoseconds each, as the median and the quartiles of many runs; and a switch of stacks
//! alone.
//!
//! ```text
//! cargo bench -p warpweft --bench effects
//! ```

use std::hint::black_box;
use std::time::Instant;
use warpweft::Runtime;
use warpweft::effect::{Coroutine, Effect, Handler, handle, perform};

#[cfg(not(any(warpweft_loom, warpweft_shuttle)))]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const RUNS: usize = 31;
const COUNT: u32 = 100_000;

struct Ask;
impl Effect for Ask {
    type Answer = u32;
}

/// Nanoseconds per thing, of which `run` does `COUNT`, as text.
fn told(what: &str, run: impl Fn()) {
    run();
    let mut each: Vec<f64> = (0..RUNS)
        .map(|_| {
            let start = Instant::now();
            run();
            start.elapsed().as_nanos() as f64 / f64::from(COUNT)
        })
        .collect();
    each.sort_by(f64::total_cmp);
    let at = |part: usize| each[(RUNS - 1) * part / 4];
    println!("{what:<56} {:8.1} ns   {:.1} to {:.1}", at(2), at(1), at(3));
}

fn asks() -> u32 {
    (0..COUNT).fold(0, |sum, _| sum ^ black_box(perform(Ask)))
}

fn answered() {
    black_box(handle(asks, Handler::new().on(|Ask, k| k.resume(1))));
}

/// With handlers of something else in between.
fn answered_from_afar() {
    let inner = || handle(|| handle(asks, Handler::new()), Handler::new());
    black_box(handle(inner, Handler::new().on(|Ask, k| k.resume(1))));
}

fn bodies() {
    for n in 0..COUNT {
        black_box(handle(move || black_box(n), Handler::new()));
    }
}

/// A scheduler's way: the clause leaves, and the coroutine is run again.
fn left_and_run() {
    let mut kept = Some(Coroutine::new(asks));
    let next = std::cell::RefCell::new(None);
    let mut handler = Handler::returning(|_| ()).on(|Ask, k| *next.borrow_mut() = Some(k.resume(1)));
    while let Some(body) = kept {
        handler.run(body);
        kept = next.take();
    }
}

/// The library's switch alone, without what this one adds.
#[cfg(unix)]
fn bare_switches() {
    let mut coroutine = corosensei::Coroutine::new(|switch: &corosensei::Yielder<u32, u32>, first: u32| {
        let mut sum = first;
        for _ in 1..COUNT {
            sum ^= switch.suspend(sum);
        }
    });
    for n in 0..COUNT {
        black_box(coroutine.resume(n));
    }
}

fn main() {
    #[cfg(unix)]
    told("corosensei alone, to and fro: two switches", bare_switches);
    told("perform and resume, outside of any runtime", answered);
    let runtime = Runtime::builder().workers(1).build().expect("one worker");
    let in_fiber = |what, run: fn()| {
        runtime
            .spawn_fiber(move || told(what, run))
            .wait()
            .expect("no panic");
    };
    runtime
        .spawn_job(|| told("perform and resume, in a job", answered))
        .wait()
        .expect("no panic");
    in_fiber("perform and resume, in a fiber", answered);
    in_fiber("the same, handled by the third handler", answered_from_afar);
    in_fiber(
        "the same, the clause leaves, and the coroutine is run",
        left_and_run,
    );
    in_fiber("a body that performs nothing, with its stack", bodies);
}
