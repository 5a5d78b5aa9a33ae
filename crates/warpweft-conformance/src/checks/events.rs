//! Random histories of a pool, against a ledger: nothing lost, nothing twice, no false answer.

use super::bench::Bench;
use crate::duty::{Verdict, Violation};
use crate::test_worker::Hook;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestError, TestRunner};
use std::cell::RefCell;
use std::fmt::Write;
use warpweft_policy::{Policy, TaskRef, Why};

/// Events per history: more than fill a queue of the capacities in tests.
const LENGTH: usize = 200;

/// An event in a pool.
#[derive(Debug, Clone, Copy)]
enum Event {
    /// A new task is pushed, from outside if there is no worker.
    Push(Option<usize>, Why),
    /// A worker ends its task if it has one, and asks for another.
    Take(usize, Hook),
    /// A worker's task yields.
    Yield(usize),
    /// A worker's task waits.
    Suspend(usize),
    /// A waiting task is woken, from outside if there is no worker. The number chooses which.
    Wake(Option<usize>, usize),
    /// A waiting task ends without being woken, because no waker was left.
    Orphan(usize, usize),
    /// Nanoseconds pass.
    Pass(u64),
}

fn history() -> impl Strategy<Value = (usize, u64, Vec<Event>)> {
    (1_usize..=4, any::<u64>().no_shrink()).prop_flat_map(|(workers, seed)| {
        let worker = 0..workers;
        let anyone = prop_oneof![3 => worker.clone().prop_map(Some), 1 => Just(None)];
        let event = prop_oneof![
            6 => (anyone.clone(), prop::sample::select(&Why::ALL[..])).prop_map(|(by, why)| Event::Push(by, why)),
            6 => (worker.clone(), prop::sample::select(&Hook::ALL[..])).prop_map(|(by, hook)| Event::Take(by, hook)),
            2 => worker.clone().prop_map(Event::Yield),
            2 => worker.clone().prop_map(Event::Suspend),
            2 => (anyone, 0..8_usize).prop_map(|(by, which)| Event::Wake(by, which)),
            1 => (worker, 0..8_usize).prop_map(|(by, which)| Event::Orphan(by, which)),
            1 => (0_u64..1 << 30).no_shrink().prop_map(Event::Pass),
        ];
        (Just(workers), Just(seed), prop::collection::vec(event, 0..LENGTH))
    })
}

/// A pool in the middle of a history.
struct HistoryPool<'n, P: Policy> {
    bench: Bench<'n, P>,
    running: Vec<Option<TaskRef>>,
    asleep: Vec<TaskRef>,
}

impl<P: Policy> HistoryPool<'_, P> {
    fn happen(&mut self, event: Event) -> Verdict {
        match event {
            Event::Push(by, why) => {
                let (task, _) = self.bench.new_task();
                self.bench.push(by, task, why)?;
            }
            Event::Take(worker, hook) => {
                if let Some(task) = self.running[worker].take() {
                    self.bench.run(worker, task)?;
                }
                self.running[worker] = self.bench.take(worker, hook)?;
            }
            Event::Yield(worker) => {
                if let Some(task) = self.running[worker].take() {
                    self.bench.push(Some(worker), task, Why::Yielded)?;
                }
            }
            Event::Suspend(worker) => {
                if let Some(mut task) = self.running[worker].take() {
                    self.bench.suspend(worker, &mut task)?;
                    self.asleep.push(task);
                }
            }
            Event::Wake(by, which) => {
                if let Some(task) = self.sleeper(which) {
                    self.bench.push(by, task, Why::Woken)?;
                }
            }
            Event::Orphan(worker, which) => {
                if let Some(task) = self.sleeper(which) {
                    self.bench.run(worker, task)?;
                }
            }
            Event::Pass(ns) => self.bench.pass_time(ns),
        }
        Ok(())
    }

    fn sleeper(&mut self, which: usize) -> Option<TaskRef> {
        let index = which.checked_rem(self.asleep.len())?;
        Some(self.asleep.swap_remove(index))
    }
}

fn play<P: Policy>(name: &str, policy: &P, workers: usize, seed: u64, events: &[Event]) -> Verdict {
    let bench = Bench::<P>::new(name, policy, workers, events.len(), seed)?;
    let mut pool = HistoryPool {
        bench,
        running: (0..workers).map(|_| None).collect(),
        asleep: Vec::new(),
    };
    events.iter().try_for_each(|&event| pool.happen(event))?;
    let HistoryPool {
        mut bench,
        running,
        asleep,
    } = pool;
    for (worker, task) in running.into_iter().enumerate() {
        task.map_or(Ok(()), |task| bench.run(worker, task))?;
    }
    for task in asleep {
        bench.push(None, task, Why::Woken)?;
    }
    bench.drain(seed as usize % workers)?;
    bench.settle()
}

/// Random histories of up to four workers and external threads, in one thread. In each, every task comes out
/// once, and at the end one worker's scans find all of them.
///
/// The number of histories is proptest's (256, or `PROPTEST_CASES`). A history that fails is shrunk and
/// reported.
///
/// # Errors
///
/// The duty that the policy broke, and the shortest history that was found to show it.
///
/// # Panics
///
/// A hook of the policy panics.
pub fn nothing_lost<P: Policy>(name: &str, policy: &P) -> Verdict {
    let config = Config {
        failure_persistence: None,
        max_shrink_iters: 20_000,
        ..Config::default()
    };
    // Kept here, and not replayed afterwards: random numbers outside of workers are not seeded, so it might
    // not fail again.
    let shortest: RefCell<Option<(usize, Violation)>> = RefCell::default();
    let outcome = TestRunner::new(config).run(&history(), |(workers, seed, events)| {
        let Err(violation) = play(name, policy, workers, seed, &events) else {
            return Ok(());
        };
        let mut shortest = shortest.borrow_mut();
        if shortest
            .as_ref()
            .is_none_or(|(length, _)| events.len() <= *length)
        {
            *shortest = Some((events.len(), violation.after(&tell(workers, &events))));
        }
        Err(TestCaseError::fail(violation.to_string()))
    });
    match (shortest.into_inner(), outcome) {
        (Some((_, violation)), _) => Err(violation),
        (None, Ok(())) => Ok(()),
        (None, Err(TestError::Fail(reason, (workers, _, events)))) => {
            panic!(
                "a hook of policy `{name}` panicked: {reason}.{}",
                tell(workers, &events)
            )
        }
        (None, Err(TestError::Abort(reason))) => unreachable!("no history is rejected: {reason}"),
    }
}

fn tell(workers: usize, events: &[Event]) -> String {
    if events.is_empty() {
        return format!(" No event is needed to show it, with {workers} workers.");
    }
    let mut text = format!(" The shortest history that shows it, with {workers} workers:");
    for event in events {
        let _ = write!(text, "\n  {event:?}");
    }
    text
}

impl Violation {
    /// Adds the history of the violation.
    fn after(&self, events: &str) -> Self {
        Self::new(self.policy(), self.duty(), format!("{}{events}", self.how()))
    }
}
