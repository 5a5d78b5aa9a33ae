//! rayon-rs/rayon#957, «Priority inversion when executing jobs of heterogeneous length»: a short join is kept
//! by a long job.
//!
//! On rayon the worker whose half is done waits for the stolen one, and picks up a long job meanwhile, which
//! became available just now. The other half ends soon; the join ends when the long job has ended.

mod support;

use std::process::ExitCode;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use support::{Answer, Took, rayon_pool, warpweft_runtime};

/// The halves of the join: the second one is stolen before the first one ends.
const HALVES: [Duration; 2] = [Duration::from_millis(10), Duration::from_millis(30)];
/// When the long job comes: while the join waits.
const BETWEEN: Duration = Duration::from_millis(20);
/// What the long job takes.
const LONG: Duration = Duration::from_secs(2);
/// A join that takes longer was kept by it.
const LATE: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    support::main(on_rayon, on_warpweft)
}

/// The program on rayon.
pub(crate) fn on_rayon(workers: usize) -> Answer {
    let pool = rayon_pool(workers);
    let join = || {
        rayon::join(|| thread::sleep(HALVES[0]), || thread::sleep(HALVES[1]));
    };
    program(|job| pool.spawn(job), join)
}

/// The program on Warpweft.
pub(crate) fn on_warpweft(workers: usize) -> Answer {
    let runtime = warpweft_runtime(workers);
    let join = || {
        warpweft::join(|| thread::sleep(HALVES[0]), || thread::sleep(HALVES[1]));
    };
    program(|job| runtime.spawn_job(job).detach(), join)
}

fn program(spawn: impl Fn(Box<dyn FnOnce() + Send>), join: fn()) -> Answer {
    let (joined, joins) = mpsc::channel();
    let (ended, ends) = mpsc::channel();
    spawn(Box::new(move || {
        let start = Instant::now();
        join();
        joined.send(start.elapsed()).expect("the program waits");
    }));
    thread::sleep(BETWEEN);
    spawn(Box::new(move || {
        thread::sleep(LONG);
        ended.send(()).expect("the program waits");
    }));
    let took = joins.recv().expect("the job joins");
    ends.recv().expect("the long job ends");
    let report = format!(
        "the join took {}, the long job that came meanwhile {}",
        Took(took),
        Took(LONG)
    );
    if took < LATE { Ok(report) } else { Err(report) }
}
