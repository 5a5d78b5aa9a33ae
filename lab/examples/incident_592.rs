//! rayon-rs/rayon#592, «Using rayon under a Mutex can lead to deadlocks»: a lock is held across a join, and
//! other jobs of the pool want the same lock.
//!
//! On rayon a worker whose half is done waits for the stolen one, and runs other jobs meanwhile: the next one
//! wants the lock that the frame below holds. The lock will never be free. In the issue the jobs are the
//! calls of an outer parallel loop; here they come from outside, which makes the moment certain.
//!
//! On Warpweft nothing runs on top of that frame, but it needs a worker to continue, and a lock of the
//! standard library blocks workers: no more jobs may wait in it than the pool has workers to spare. With
//! three jobs at a time, two workers can be blocked both, and that hangs, too.

mod support;

use std::hint;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use support::{Answer, rayon_pool, warpweft_runtime};

/// How often the jobs come.
const ROUNDS: usize = 100;
/// Jobs in a round, each of which takes the lock: one holds it, one wants it.
const JOBS: usize = 2;
/// The time from one to the next.
const PAUSE: Duration = Duration::from_micros(200);
/// What each does under the lock: the second half, which may be stolen, takes longer.
const HALVES: [Duration; 2] = [Duration::from_micros(300), Duration::from_micros(900)];

fn main() -> ExitCode {
    support::main(on_rayon, on_warpweft)
}

/// The program on rayon.
pub(crate) fn on_rayon(workers: usize) -> Answer {
    let pool = rayon_pool(workers);
    let work = || {
        rayon::join(|| spin(HALVES[0]), || spin(HALVES[1]));
    };
    program(|job| pool.spawn(job), work)
}

/// The program on Warpweft.
pub(crate) fn on_warpweft(workers: usize) -> Answer {
    let runtime = warpweft_runtime(workers);
    let work = || {
        warpweft::join(|| spin(HALVES[0]), || spin(HALVES[1]));
    };
    program(|job| runtime.spawn_job(job).detach(), work)
}

fn program(spawn: impl Fn(Box<dyn FnOnce() + Send>), work: fn()) -> Answer {
    let lock = Arc::new(Mutex::new(0));
    let (ended, ends) = mpsc::channel();
    for _ in 0..ROUNDS {
        for _ in 0..JOBS {
            let (lock, ended) = (Arc::clone(&lock), ended.clone());
            spawn(Box::new(move || {
                let mut count = lock.lock().expect("no job panics");
                work();
                *count += 1;
                ended.send(()).expect("the program waits");
            }));
            thread::sleep(PAUSE);
        }
        ends.iter().take(JOBS).for_each(drop);
    }
    let count = *lock.lock().expect("no job panics");
    Ok(format!("the lock was taken {count} times"))
}

fn spin(duration: Duration) {
    let start = Instant::now();
    while start.elapsed() < duration {
        hint::spin_loop();
    }
}
