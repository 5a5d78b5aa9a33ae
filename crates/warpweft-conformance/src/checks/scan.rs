//! Tests that one worker's `scan` finds the tasks of every place, and that `push` names the right worker to
//! wake.

use super::bench::Bench;
use crate::duty::{Duty, Verdict};
use crate::test_worker::Hook;
use warpweft_policy::{Policy, Wake, Why};

/// How many tasks of one kind: a single one, few, more than a small queue holds.
const FILLS: [usize; 5] = [1, 2, 3, 5, 40];
/// More than a large queue holds. It takes long, so only the last worker looks for so many.
const LARGE_FILL: usize = 300;

/// What happens between the pushes and the scans.
#[derive(Debug, Clone, Copy)]
enum Meanwhile {
    Nothing,
    /// The pusher takes half of them.
    HalfTaken,
    /// Each worker has searched once, and left what a search leaves.
    Searched,
    /// The pusher takes one, which waits; it is woken from outside after the others were found.
    OneWaits,
}

const MEANWHILE: [Meanwhile; 4] = [
    Meanwhile::Nothing,
    Meanwhile::HalfTaken,
    Meanwhile::Searched,
    Meanwhile::OneWaits,
];

/// Returns all pushers of a pool of `workers` workers.
fn everyone(workers: usize) -> impl Iterator<Item = Option<usize>> + Clone {
    std::iter::once(None).chain((0..workers).map(Some))
}

/// For every place of a task (each reason, each pusher, few and many, partly taken and searched), the scans
/// of any single worker find all of them. A task that was pushed with [`Wake::None`] may be found by its
/// pusher alone.
///
/// # Errors
///
/// The worker whose `scan` returned `None` although there was a task for it.
pub fn scan_is_exhaustive<P: Policy>(name: &str, policy: &P) -> Verdict {
    for workers in 1..=4 {
        for scanner in 0..workers {
            everything_at_once(name, policy, workers, scanner)?;
            let large = (scanner + 1 == workers).then_some(LARGE_FILL);
            for by in everyone(workers) {
                for why in Why::ALL {
                    for fill in FILLS.into_iter().chain(large) {
                        for meanwhile in MEANWHILE {
                            one_place(name, policy, (workers, scanner), by, why, fill, meanwhile)?;
                        }
                    }
                }
            }
        }
    }
    Ok(())
}

fn one_place<P: Policy>(
    name: &str,
    policy: &P,
    (workers, scanner): (usize, usize),
    by: Option<usize>,
    why: Why,
    fill: usize,
    meanwhile: Meanwhile,
) -> Verdict {
    let mut bench = Bench::<P>::new(name, policy, workers, fill, 1)?;
    for _ in 0..fill {
        let (task, _) = bench.new_task();
        bench.push(by, task, why)?;
    }
    let pusher = by.unwrap_or(0);
    let mut asleep = None;
    match meanwhile {
        Meanwhile::Nothing => {}
        Meanwhile::HalfTaken => {
            for _ in 0..fill / 2 {
                if let Some(task) = bench.find(pusher, false)? {
                    bench.run(pusher, task)?;
                }
            }
        }
        Meanwhile::Searched => {
            for worker in 0..workers {
                if let Some(task) = bench.take(worker, Hook::Search)? {
                    bench.run(worker, task)?;
                }
            }
        }
        Meanwhile::OneWaits => {
            if let Some(mut task) = bench.find(pusher, false)? {
                bench.suspend(pusher, &mut task)?;
                asleep = Some(task);
            }
        }
    }
    bench.drain(scanner)?;
    if let Some(task) = asleep {
        bench.push(None, task, Why::Woken)?;
        bench.drain(scanner)?;
    }
    bench.settle()
}

fn everything_at_once<P: Policy>(name: &str, policy: &P, workers: usize, scanner: usize) -> Verdict {
    const EACH: usize = 3;
    let tasks = EACH * Why::ALL.len() * (workers + 1);
    let mut bench = Bench::<P>::new(name, policy, workers, tasks, 1)?;
    for _ in 0..EACH {
        for by in everyone(workers) {
            for why in Why::ALL {
                let (task, _) = bench.new_task();
                bench.push(by, task, why)?;
            }
        }
    }
    bench.drain(scanner)?;
    bench.settle()
}

/// A push that wakes no worker leaves the task where its pusher, which is awake, takes it by `next` or
/// `poll_global`. From outside, where all workers may sleep, every push wakes a worker.
///
/// # Errors
///
/// The push whose task no worker that is awake would find.
pub fn wakes_are_honest<P: Policy>(name: &str, policy: &P) -> Verdict {
    for workers in 1..=3 {
        for by in everyone(workers) {
            for why in Why::ALL {
                for others in [0, 1, 5] {
                    one_push(name, policy, workers, by, why, others)?;
                }
            }
        }
    }
    Ok(())
}

fn one_push<P: Policy>(
    name: &str,
    policy: &P,
    workers: usize,
    by: Option<usize>,
    why: Why,
    others: usize,
) -> Verdict {
    let mut bench = Bench::<P>::new(name, policy, workers, others + 1, 1)?;
    for _ in 0..others {
        let (task, _) = bench.new_task();
        bench.push(by, task, Why::Spawned)?;
    }
    let (task, number) = bench.new_task();
    // A false `None` from outside, and a worker that does not exist, are violations already here.
    let (Wake::None, Some(pusher)) = (bench.push_for(by, task, why)?, by) else {
        return Ok(());
    };
    while bench.held().contains(&number) {
        let own = match bench.take(pusher, Hook::Next)? {
            Some(task) => Some(task),
            None => bench.take(pusher, Hook::PollGlobal)?,
        };
        let Some(task) = own else {
            let how = format!(
                "`push({why:?})` of worker {pusher} said `Wake::None`, but neither `next` nor `poll_global` of that \
                 worker finds the task."
            );
            return Err(bench.violation(Duty::HonestWake, how));
        };
        bench.run(pusher, task)?;
    }
    Ok(())
}
