//! rayon-rs/rayon#1054, «Scheduling fairness between spawn and par_iter»: ten jobs, each of them a parallel
//! loop, are expected to be done one after the other, and nearly all of them are done at the very end.
//!
//! On rayon a loop whose half was stolen waits, and runs parts of other loops or whole other jobs meanwhile,
//! on top of its frame: it cannot end before they do.

mod support;

use std::process::ExitCode;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rayon::iter::{IntoParallelIterator, ParallelIterator};
use support::{Answer, Took, rayon_pool, warpweft_runtime};

/// Jobs.
const JOBS: usize = 10;
/// Calls of each job's loop.
const CALLS: usize = 100;
/// What a call takes.
const WORK: Duration = Duration::from_millis(1);

fn main() -> ExitCode {
    support::main(on_rayon, on_warpweft)
}

/// The program on rayon.
pub(crate) fn on_rayon(workers: usize) -> Answer {
    let pool = rayon_pool(workers);
    let work = || (0..CALLS).into_par_iter().for_each(|_| thread::sleep(WORK));
    program(|job| pool.spawn(job), work)
}

/// The program on Warpweft.
pub(crate) fn on_warpweft(workers: usize) -> Answer {
    let runtime = warpweft_runtime(workers);
    let work = || warpweft::par_for(0..CALLS, 1, |_| thread::sleep(WORK));
    program(|job| runtime.spawn_job(job).detach(), work)
}

fn program(spawn: impl Fn(Box<dyn FnOnce() + Send>), work: fn()) -> Answer {
    let (ended, ends) = mpsc::channel();
    let start = Instant::now();
    for _ in 0..JOBS {
        let ended = ended.clone();
        spawn(Box::new(move || {
            work();
            ended.send(start.elapsed()).expect("the program waits");
        }));
    }
    let done: Vec<Duration> = ends.iter().take(JOBS).collect();
    let last = done[JOBS - 1];
    let early = done.iter().filter(|time| **time < last * 9 / 10).count();
    let report = format!(
        "{early} of {JOBS} jobs were done after nine tenths of the time, the first one after {} of {}",
        Took(done[0]),
        Took(last)
    );
    // One after the other, nine of them would be.
    if early >= JOBS / 2 {
        Ok(report)
    } else {
        Err(report)
    }
}
