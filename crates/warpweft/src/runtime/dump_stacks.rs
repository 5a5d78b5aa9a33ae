//! Dumps with stacks.
//!
//! # Invariants
//!
//! - A suspended fiber is copied while its probe is in the register, so it exists. Whether it ran meanwhile
//!   is asked afterwards.
//! - What runs is copied by the handler of a signal, as for a report of a stall.

use super::handle::Runtime;
use crate::coroutine::overflow::describe;
use crate::observe::dump::{Dump, Finding, TaskState};
use crate::observe::stack::{NoStack, Stack};
use crate::observe::stacks::{Reading, of_copies, why_none};
use crate::pool::dyn_pool::DynPool;
use crate::threads::monitor::StackSignal;
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use warpweft_platform::thread::pause;
use warpweft_task::TaskKind;

/// How often it looks whether a stack was copied, in nanoseconds.
const LOOK_NS: u64 = 200_000;

impl Runtime {
    /// As [`dump`](Self::dump), with the stacks of at most `most` tasks: fibers that wait, and tasks that run
    /// on a worker. Those that a finding names come first, then those that run, then those that have waited
    /// longest.
    ///
    /// It needs the feature `stacks`, and for fibers Linux on x86-64. Otherwise, and where a stack could not
    /// be read, [`TaskDump::stack`](crate::TaskDump::stack) says why. A future has no stack. The stack of a
    /// job or closure that waits or blocks on its own thread is not read.
    ///
    /// What runs is disturbed by a signal: see [`Builder::stack_signal`](crate::Builder::stack_signal). The
    /// calling thread waits without giving its worker away: some 20 µs a stack, and a tenth of a second or
    /// more when the symbols of the program are read for the first time.
    ///
    /// ```
    /// let runtime = warpweft::Runtime::builder().workers(1).build()?;
    /// println!("{}", runtime.dump_with_stacks(100));
    /// # Ok::<(), warpweft::BuildError>(())
    /// ```
    #[must_use]
    pub fn dump_with_stacks(&self, most: usize) -> Dump {
        let mut dump = self.dump();
        let chosen = choose(&dump, most);
        if let Some(why) = why_none() {
            for task in chosen {
                dump.tasks[task].stack = Some(Err(why.clone()));
            }
            return dump;
        }
        let pools: Vec<_> = self.pools().iter().map(|pool| &**pool.any()).collect();
        for (task, stack) in running(&dump, &pools, &chosen) {
            dump.tasks[task].stack = Some(stack);
        }
        for (task, stack) in suspended(&dump, &pools, &chosen) {
            dump.tasks[task].stack = Some(stack);
        }
        dump
    }
}

/// Returns the tasks whose stacks are read.
fn choose(dump: &Dump, most: usize) -> Vec<usize> {
    let named: HashSet<usize> = dump.findings.iter().flat_map(Finding::tasks).copied().collect();
    let has_stack = |&number: &usize| {
        let task = &dump.tasks[number];
        matches!(task.state, TaskState::Running(Some(_)))
            || task.kind == Some(TaskKind::Fiber) && task.pool.is_some()
    };
    let mut tasks: Vec<_> = (0..dump.tasks.len()).filter(has_stack).collect();
    tasks.sort_by_key(|number| {
        let task = &dump.tasks[*number];
        let runs = matches!(task.state, TaskState::Running(_));
        (!named.contains(number), !runs, Reverse(task.since))
    });
    tasks.truncate(most);
    tasks
}

type Read = Vec<(usize, Result<Stack, NoStack>)>;

/// Reads the stacks of those that run.
fn running(dump: &Dump, pools: &[&dyn DynPool], chosen: &[usize]) -> Read {
    let mut read = Vec::new();
    let mut asked = Vec::new();
    for &number in chosen {
        let task = &dump.tasks[number];
        let TaskState::Running(Some(worker)) = task.state else {
            continue;
        };
        let pool = pools
            .iter()
            .find(|pool| task.pool.as_ref() == Some(&pool.core().info.name));
        let Some(core) = pool.map(|pool| pool.core()) else {
            continue;
        };
        let signal = match core.monitor.stack_signal() {
            StackSignal::Off => Err(NoStack::Off),
            StackSignal::Number(signal) => Ok(Some(signal)),
            StackSignal::Usual => Ok(None),
        };
        let thread = core.threads.thread_with(worker).map(|(thread, _)| thread);
        let reading =
            signal.and_then(|signal| Reading::new(thread.ok_or(NoStack::NoThread)?, signal, describe));
        match reading {
            Ok(reading) => asked.push((number, reading)),
            Err(why) => read.push((number, Err(why))),
        }
    }
    while !asked.is_empty() {
        asked.retain_mut(|(number, reading)| {
            // The task may have ended meanwhile: a dump is a sketch.
            let stack = reading.poll(|_| true);
            let waits = stack.is_none();
            read.extend(stack.map(|stack| (*number, stack)));
            waits
        });
        if !asked.is_empty() {
            pause(LOOK_NS);
        }
    }
    read
}

/// Reads the stacks of fibers that are suspended.
fn suspended(dump: &Dump, pools: &[&dyn DynPool], chosen: &[usize]) -> Read {
    let is_suspended = |number: &&usize| !matches!(dump.tasks[**number].state, TaskState::Running(_));
    let wanted: HashMap<u64, usize> = chosen
        .iter()
        .filter(is_suspended)
        .map(|&number| (dump.tasks[number].id, number))
        .collect();
    let (mut read, mut numbers, mut copies) = (Vec::new(), Vec::new(), Vec::new());
    for pool in pools {
        pool.core().fibers.for_each(|fiber| {
            let copied = fiber.copy_stack(&|id| wanted.contains_key(&(id as u64)));
            let Some((id, copy)) = copied else { return };
            let number = wanted[&(id as u64)];
            match copy {
                Ok(copy) => {
                    numbers.push(number);
                    copies.push(copy);
                }
                Err(why) => read.push((number, Err(why))),
            }
        });
    }
    read.extend(numbers.into_iter().zip(of_copies(&copies)));
    read
}
