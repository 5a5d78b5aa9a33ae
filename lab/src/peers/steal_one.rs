//! A deque per worker after Chase and Lev, newest first for its owner; a thief takes the one oldest task, of
//! a victim drawn at random: what OCaml's domainslib has (`lib/multi_channel.ml` there).
//!
//! ```text
//!  launch ──▶ │ own deque │ ──▶ pop the newest
//!                  └──────────▶ others steal the oldest, one by one
//! ```
//!
//! Like there, a worker that finds nothing looks 2048 times, then registers as asleep, looks once more and
//! sleeps; a push wakes one if any is asleep. The deques are crossbeam's: they begin with 64 places,
//! which cannot be chosen (domainslib was measured with 1024), and double. The warm-up has grown them. What
//! comes from outside is in a queue for all.

use std::cell::{Cell, OnceCell};
use std::hint;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use crossbeam_deque::{Injector, Steal, Stealer, Worker};
use harness::{LabError, Outcome, Peer, PeerInfo, Request};

use super::Contestant;
use crate::idioms::{Idiom, JobApi, JobPool};
use crate::program::{Program, measured};

/// A deque per worker.
pub(crate) struct StealOne;

impl Peer for StealOne {
    fn info(&self) -> PeerInfo {
        PeerInfo {
            name: "steal-one",
            about: "for packets: a Chase-Lev deque per worker, newest first, thieves take one, as OCaml's domainslib",
            packages: &["crossbeam-deque"],
        }
    }
}

impl Contestant for StealOne {
    fn lacks(&self, idiom: Idiom) -> Option<&'static str> {
        Some(match idiom {
            Idiom::Parks | Idiom::Actors => "its jobs cannot wait without holding a worker",
            _ => "measured where packets are handled: see packet, packet-cache, packet-bimodal and options",
        })
    }

    fn play<P: Program>(&self, request: &Request, program: &P) -> Result<Outcome, LabError> {
        let pool = Pool::new(request.workers).map_err(|error| request.failed(&error))?;
        measured(program, || None, |program| program.jobs(&pool))
    }
}

/// A task.
type Job = Box<dyn FnOnce() + Send>;

/// The number of looks of a worker before it sleeps.
const LOOKS: usize = 2048;

/// The state that the workers share.
struct Shared {
    stealers: Box<[Stealer<Job>]>,
    outside: Injector<Job>,
    asleep: AtomicUsize,
    ended: AtomicBool,
    sleepers: Mutex<()>,
    pushed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, ()> {
        // It guards no data.
        self.sleepers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes a worker, if any sleeps, after something was pushed.
    #[inline]
    fn pushed(&self) {
        // Partner of the fence in `sleep`: either this sees the sleeper, or the sleeper sees what was pushed.
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) > 0 {
            drop(self.lock());
            self.pushed.notify_one();
        }
    }

    /// Sleeps, unless there is something to do.
    fn sleep(&self) {
        let guard = self.lock();
        self.asleep.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let idle = self.outside.is_empty() && self.stealers.iter().all(Stealer::is_empty);
        if idle && !self.ended.load(Ordering::Relaxed) {
            // A push from now on notifies after the lock was given back. A poisoned lock guards nothing.
            drop(self.pushed.wait(guard));
        }
        self.asleep.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A worker, known to its thread alone.
struct Own {
    shared: &'static Shared,
    number: usize,
    deque: Worker<Job>,
    random: Cell<u64>,
}

thread_local! {
    static OWN: OnceCell<Own> = const { OnceCell::new() };
}

impl Own {
    /// Its newest task, or another's oldest, or one from outside.
    #[inline]
    fn next(&self) -> Option<Job> {
        self.deque.pop().or_else(|| self.elsewhere())
    }

    fn elsewhere(&self) -> Option<Job> {
        // Once round all others from a place drawn at random (xorshift).
        let mut random = self.random.get();
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        self.random.set(random);
        let stealers = &self.shared.stealers;
        let first = (random >> 32) as usize % stealers.len();
        let victims = (first..stealers.len()).chain(0..first);
        let stolen = victims
            .filter(|victim| *victim != self.number)
            .find_map(|victim| one(|| stealers[victim].steal()));
        stolen.or_else(|| one(|| self.shared.outside.steal()))
    }

    /// Looks as often as a worker does before it sleeps.
    fn search(&self) -> Option<Job> {
        (0..LOOKS).find_map(|_| {
            let found = self.next();
            if found.is_none() {
                hint::spin_loop();
            }
            found
        })
    }

    fn work(&self) {
        while !self.shared.ended.load(Ordering::Relaxed) {
            match self.search() {
                Some(job) => job(),
                None => self.shared.sleep(),
            }
        }
    }
}

/// Steals one, unless there is none: a lost race is run again.
fn one(steal: impl Fn() -> Steal<Job>) -> Option<Job> {
    loop {
        match steal() {
            Steal::Success(job) => return Some(job),
            Steal::Empty => return None,
            Steal::Retry => hint::spin_loop(),
        }
    }
}

/// The calls of a job.
#[derive(Clone, Copy)]
struct Api;

/// Jobs launch and yield on the pool's own threads.
fn own<T>(then: impl FnOnce(&Own) -> T) -> T {
    OWN.with(|own| then(own.get().expect("jobs run on workers")))
}

impl JobApi for Api {
    #[inline]
    fn launch(self, job: impl FnOnce() + Send + 'static) {
        own(|own| {
            own.deque.push(Box::new(job));
            own.shared.pushed();
        });
    }

    fn yield_now(self) {
        own(|own| match own.next() {
            Some(job) => job(),
            None => thread::yield_now(),
        });
    }
}

/// The workers; dropping it ends them.
struct Pool {
    shared: &'static Shared,
    threads: Vec<thread::JoinHandle<()>>,
}

impl Pool {
    /// What the workers share lives as long as the process, which makes one run.
    fn new(workers: usize) -> Result<Self, std::io::Error> {
        let deques: Vec<Worker<Job>> = (0..workers).map(|_| Worker::new_lifo()).collect();
        let shared: &'static Shared = Box::leak(Box::new(Shared {
            stealers: deques.iter().map(Worker::stealer).collect(),
            outside: Injector::new(),
            asleep: AtomicUsize::new(0),
            ended: AtomicBool::new(false),
            sleepers: Mutex::new(()),
            pushed: Condvar::new(),
        }));
        let mut pool = Self {
            shared,
            threads: Vec::new(),
        };
        for (number, deque) in deques.into_iter().enumerate() {
            let thread = thread::Builder::new()
                .name(format!("steal-one-{number}"))
                .spawn(move || {
                    OWN.with(|own| {
                        own.get_or_init(|| Own {
                            shared,
                            number,
                            deque,
                            random: Cell::new(number as u64 + 1),
                        })
                        .work();
                    });
                })?;
            pool.threads.push(thread);
        }
        Ok(pool)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Relaxed);
        // After the lock every worker either sees the end or is notified.
        drop(self.shared.lock());
        self.shared.pushed.notify_all();
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so; there is nothing to add.
            drop(thread.join());
        }
    }
}

impl JobPool for Pool {
    type Jobs = Api;

    fn jobs(&self) -> Api {
        Api
    }

    fn start(&self, job: impl FnOnce() + Send + 'static) {
        self.shared.outside.push(Box::new(job));
        self.shared.pushed();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Duration;

    #[test]
    fn jobs_and_their_children_run_whoever_sleeps() {
        for workers in [1, 2, 4] {
            let pool = Pool::new(workers).unwrap();
            let (sender, receiver) = mpsc::channel();
            for round in 0..50 {
                let sender = sender.clone();
                pool.start(move || {
                    for number in 0..100 {
                        let sender = sender.clone();
                        Api.launch(move || sender.send(round * 100 + number).unwrap());
                    }
                });
                if round % 10 == 0 {
                    // Long enough for the workers to fall asleep.
                    thread::sleep(Duration::from_millis(2));
                }
            }
            drop(sender);
            let mut numbers: Vec<u32> = receiver.iter().collect();
            numbers.sort_unstable();
            assert_eq!(numbers, (0..5000).collect::<Vec<_>>(), "{workers} workers");
        }
    }

    #[test]
    fn a_yield_runs_the_newest_job() {
        let pool = Pool::new(1).unwrap();
        let (sender, receiver) = mpsc::channel();
        pool.start(move || {
            for number in 0..3 {
                let sender = sender.clone();
                Api.launch(move || sender.send(number).unwrap());
            }
            Api.yield_now();
            sender.send(9).unwrap();
        });
        assert_eq!(receiver.iter().collect::<Vec<_>>(), [2, 9, 1, 0]);
    }

    #[test]
    fn a_pool_that_sleeps_can_be_dropped() {
        for _ in 0..50 {
            drop(Pool::new(3).unwrap());
        }
    }
}
