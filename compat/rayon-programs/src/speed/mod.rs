//! The programs whose time is compared: those of rayon's demo by their definitions, and single calls.

mod calls;
mod iterators;
mod numeric;
mod searches;
mod sorts;
mod trees;

use std::time::{Duration, Instant};

/// A program: its name, and a function that prepares its input and returns what is timed. Each call of that
/// returns the same number, a digest of its result.
type Program = (&'static str, fn() -> Box<dyn FnMut() -> u64>);

const PROGRAMS: [&[Program]; 6] = [
    &numeric::PROGRAMS,
    &sorts::PROGRAMS,
    &searches::PROGRAMS,
    &trees::PROGRAMS,
    &iterators::PROGRAMS,
    &calls::PROGRAMS,
];

/// How long a program is run, and how often at most.
const TIME: Duration = Duration::from_millis(600);
const RUNS: usize = 41;

/// Prints the names of all programs.
pub(crate) fn list() {
    for (name, _) in PROGRAMS.into_iter().flatten() {
        println!("{name}");
    }
}

/// Runs a program and prints the median of its times in milliseconds, and its digest. Returns whether there
/// is one of that name.
pub(crate) fn time(name: &str) -> bool {
    let Some((_, prepare)) = PROGRAMS.into_iter().flatten().find(|(known, _)| *known == name) else {
        return false;
    };
    let mut run = prepare();
    // The first run starts the threads.
    let digest = run();
    let begin = Instant::now();
    let mut times = Vec::new();
    while times.len() < 3 || (times.len() < RUNS && begin.elapsed() < TIME) {
        let start = Instant::now();
        assert_eq!(run(), digest, "{name} has another result");
        times.push(start.elapsed());
    }
    times.sort();
    println!("{:.4} {digest:x}", times[times.len() / 2].as_secs_f64() * 1e3);
    true
}

/// The same numbers in each run.
fn random() -> fastrand::Rng {
    fastrand::Rng::with_seed(42)
}
