//! Dumps with stacks.
//!
//! # Invariants
//!
//! - A suspended fiber is copied while its probe is in the register, so it exists. Whether it ran meanwhile
//!   is asked afterwards.
//! - What runs is copied by the handler of a signal, as for a report of a stall. Of a closure that blocks it
//!   is asked afterwards whether its frame is still in the register, for its thread may run another one.
//! - At most [`ASKED`] threads are asked at a time: there are buffers for a few more.

use super::dump::{FindingSet, dyn_pools, quick_look};
use super::handle::Runtime;
use super::pool::Pool;
use crate::coroutine::overflow::describe;
use crate::observe::dump::addresses::{Addresses, addresses};
use crate::observe::dump::task_set::TaskSet;
use crate::observe::dump::{Dump, TaskState};
use crate::observe::order::{by_key, longest_first};
use crate::observe::stack::{NoStack, Stack};
use crate::observe::stacks::{Ends, PATIENCE, of_copies, why_none};
use crate::pool::core::PoolCore;
use crate::pool::dyn_pool::DynPool;
use crate::threads::monitor::StackSignal;
use std::time::Duration;
use warpweft_platform::clock::now_ns;
use warpweft_platform::stack_copy::{Asked, NoCopy, StackCopy, ask};
use warpweft_platform::thread::pause;
use warpweft_task::TaskKind;
use warpweft_task::frame::FrameKind;

/// How often it looks whether a stack was copied, in nanoseconds.
const LOOK_NS: u64 = 200_000;
/// How many threads are asked at a time, at most.
const ASKED: usize = 4;
/// How many tasks have stacks in a dump that nobody limits.
const USUAL: usize = 64;
/// For how long a dump waits for stacks.
#[derive(Debug, Clone, Copy)]
struct StackBudget {
    names: Duration,
    addresses: Duration,
}

impl StackBudget {
    const USUAL: Self = Self {
        names: PATIENCE,
        addresses: PATIENCE,
    };
    /// After the limit of a shutdown. Copies and their addresses take a millisecond or two, if the threads
    /// get a CPU. So do the names, if the symbols of the program have been read.
    const LAST: Self = Self {
        names: Duration::from_millis(6),
        addresses: Duration::from_millis(50),
    };

    fn begin(self) -> Ends {
        let [names_ns, addresses_ns] = [self.names, self.addresses].map(|patience| {
            let ns = u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX);
            now_ns().saturating_add(ns)
        });
        Ends {
            names_ns,
            addresses_ns,
        }
    }
}

impl Runtime {
    /// As [`dump`](Self::dump), with the stacks of at most `most` tasks: what runs on a worker, closures of
    /// [`spawn_blocking`](crate::spawn_blocking) and [`blocking`](crate::blocking()) that run, and fibers
    /// that wait. Those that a finding names come first, then those that run on workers, then those that
    /// block, and last those that have waited longest.
    ///
    /// It needs the feature `stacks`, and for fibers Linux on x86-64. Otherwise, and where a stack could not
    /// be read, [`TaskDump::stack`](crate::TaskDump::stack) says why. A future has no stack. The stack of a
    /// job that waits on its own thread is not read.
    ///
    /// What runs is disturbed by a signal: see [`Builder::stack_signal`](crate::Builder::stack_signal). A
    /// closure that blocks in a system call that is not restarted gets `EINTR`. The calling thread waits
    /// without giving its worker away: some 20 µs a stack, and a tenth of a second or more when the symbols
    /// of the program are read for the first time.
    ///
    /// ```
    /// let runtime = warpweft::Runtime::builder().workers(1).build()?;
    /// println!("{}", runtime.dump_with_stacks(100));
    /// # Ok::<(), warpweft::BuildError>(())
    /// ```
    #[must_use]
    pub fn dump_with_stacks(&self, most: usize) -> Dump {
        let mut dump = self.dump();
        match why_none() {
            Some(why) => {
                for task in choose(&dump, most) {
                    dump.tasks[task].stack = Some(Err(why.clone()));
                }
            }
            None => dump.read_stacks(self.pools(), most, StackBudget::USUAL),
        }
        dump
    }
}

impl Dump {
    /// Looks at these pools for a program that has asked by a signal: with stacks, if they can be read.
    #[cfg(all(unix, feature = "signal"))]
    pub(crate) fn asked_for(pools: &[Pool]) -> Self {
        Self::of(pools).with_stacks(pools, StackBudget::USUAL)
    }

    /// Looks at these pools after a shutdown that was in vain: with stacks, if they can be read soon. It has
    /// the findings that its first look had, too. Names that are not read yet are looked up when the dump is
    /// shown.
    pub(super) fn of_remaining(pools: &[Pool], first: &FindingSet) -> Self {
        let mut dump = quick_look(pools);
        first.keep_in(&mut dump);
        dump = dump.with_stacks(pools, StackBudget::LAST);
        let stacks = dump.tasks.iter_mut().filter_map(|task| task.stack.as_mut());
        stacks.flatten().for_each(Stack::defer_names);
        dump
    }

    fn with_stacks(mut self, pools: &[Pool], patience: StackBudget) -> Self {
        if why_none().is_none() {
            self.read_stacks(pools, USUAL, patience);
        }
        self
    }

    /// Reads the stacks of at most `most` tasks, for as long as `patience` allows.
    fn read_stacks(&mut self, pools: &[Pool], most: usize, patience: StackBudget) {
        let pools = dyn_pools(pools);
        let ends = patience.begin();
        let chosen = choose(self, most);
        let mut copied = by_signal(threads(self, &pools, &chosen), ends.addresses_ns);
        copied.extend(suspended(self, &pools, &chosen));
        let (mut tasks, mut copies) = (Vec::new(), Vec::new());
        for (task, copy) in copied {
            match copy {
                Ok(copy) => {
                    tasks.push(task);
                    copies.push(copy);
                }
                Err(why) => self.tasks[task].stack = Some(Err(why)),
            }
        }
        for (task, stack) in tasks.into_iter().zip(of_copies(copies, ends)) {
            self.tasks[task].stack = Some(stack);
        }
    }
}

/// Returns the tasks whose stacks are read.
fn choose(dump: &Dump, most: usize) -> Vec<usize> {
    let named = TaskSet::named_in(dump);
    // By rank, and three ranks lower if no finding names them.
    let mut ranked = [const { Vec::new() }; 6];
    for (number, task) in dump.tasks.iter().enumerate() {
        let rank = match task.state {
            TaskState::Running(Some(_)) => 0,
            TaskState::Blocking | TaskState::SpawnedBlocking => 1,
            _ if task.kind == Some(TaskKind::Fiber) && task.pool.is_some() => 2,
            _ => continue,
        };
        let lower = if named.contains(number) { 0 } else { 3 };
        ranked[rank + lower].push((longest_first(task.since), number));
    }
    let mut tasks = Vec::new();
    for same_rank in ranked {
        tasks.extend(by_key(same_rank));
    }
    tasks.truncate(most);
    tasks
}

/// Copies of the stacks of tasks.
type Copies = Vec<(usize, Result<StackCopy, NoStack>)>;

/// A task on a thread that can be asked by a signal.
struct SignalledTask<'a> {
    /// Its number in the dump.
    task: usize,
    core: &'a PoolCore,
    thread: Option<u32>,
    /// What identifies the closure, if it is one that blocks.
    closure: Option<usize>,
}

impl SignalledTask<'_> {
    /// Asks for a copy of the stack.
    fn ask(&self) -> Result<Asked, NoStack> {
        let signal = match self.core.monitor.stack_signal() {
            StackSignal::Off => return Err(NoStack::Off),
            StackSignal::Number(signal) => Some(signal),
            StackSignal::Usual => None,
        };
        Ok(ask(self.thread.ok_or(NoStack::NoThread)?, signal, describe)?)
    }

    /// Returns true if the thread was in the task just now, for all that is known. Of a worker it is not: its
    /// task may have ended, for a dump is a sketch.
    fn is_there(&self) -> bool {
        let Some(closure) = self.closure else { return true };
        let mut is_there = false;
        each_closure(self.core, |id, thread| {
            is_there |= id == closure && thread == self.thread;
        });
        is_there
    }
}

/// Calls `see` with what identifies each closure that blocks, and the kernel's number of its thread.
fn each_closure(core: &PoolCore, mut see: impl FnMut(usize, Option<u32>)) {
    core.each_frame(|frame| {
        if matches!(frame.kind, FrameKind::Blocking | FrameKind::SpawnedBlocking) {
            see(frame.who.id, frame.number);
        }
    });
}

/// Returns the threads of those that run, in the order of `chosen`.
fn threads<'a>(dump: &Dump, pools: &[&'a dyn DynPool], chosen: &[usize]) -> Vec<SignalledTask<'a>> {
    let on_thread = |&number: &usize| {
        let task = &dump.tasks[number];
        let is_its = |pool: &&dyn DynPool| task.pool.as_ref() == Some(&pool.core().info.name);
        let core = pools.iter().copied().find(is_its)?.core();
        let (thread, closure) = match task.state {
            TaskState::Running(Some(worker)) => (core.threads.thread_with(worker), None),
            TaskState::Blocking | TaskState::SpawnedBlocking => (None, Some(task.id as usize)),
            _ => return None,
        };
        Some(SignalledTask {
            task: number,
            core,
            thread,
            closure,
        })
    };
    let mut found: Vec<_> = chosen.iter().filter_map(on_thread).collect();
    // Parts of one scope have the same number, and each of them has a frame.
    let mut places: Addresses<Vec<usize>> = addresses(0);
    for (place, of) in found.iter().enumerate() {
        if let Some(closure) = of.closure {
            places.entry(closure).or_default().push(place);
        }
    }
    for pool in pools {
        each_closure(pool.core(), |id, thread| {
            let Some(places) = places.get_mut(&id) else {
                return;
            };
            let is_its = |&place: &usize| std::ptr::eq(found[place].core, pool.core());
            if let Some(next) = places.iter().position(is_its) {
                found[places.remove(next)].thread = thread;
            }
        });
    }
    found
}

/// Copies the stacks of these threads, until that time.
fn by_signal(mut left: Vec<SignalledTask<'_>>, end_ns: u64) -> Copies {
    // The next one is the last.
    left.reverse();
    let mut copies = Vec::new();
    let mut asked = Vec::new();
    while !(left.is_empty() && asked.is_empty()) {
        while asked.len() < ASKED
            && let Some(next) = left.pop()
        {
            match next.ask() {
                Ok(copying) => asked.push((next, copying)),
                Err(why) if why == NoCopy::Busy.into() && now_ns() < end_ns => {
                    // Others ask, too: a buffer becomes free soon.
                    left.push(next);
                    break;
                }
                Err(why) => copies.push((next.task, Err(why))),
            }
        }
        asked.retain_mut(|(on_thread, copying)| {
            let copy = copying.poll().map(|copy| match copy {
                Ok(_) if !on_thread.is_there() => Err(NoStack::Continued),
                copy => copy.map_err(NoStack::from),
            });
            let waits = copy.is_none();
            copies.extend(copy.map(|copy| (on_thread.task, copy)));
            waits
        });
        if now_ns() >= end_ns {
            let not_asked = left.drain(..).rev().map(|of| (of.task, Err(NoStack::NotRead)));
            copies.extend(not_asked);
            let no_answer = asked.drain(..);
            copies.extend(no_answer.map(|(of, copying)| (of.task, Err(copying.give_up().into()))));
        } else if !(left.is_empty() && asked.is_empty()) {
            pause(LOOK_NS);
        }
    }
    copies
}

/// Copies the stacks of fibers that are suspended.
fn suspended(dump: &Dump, pools: &[&dyn DynPool], chosen: &[usize]) -> Copies {
    let mut wanted: Addresses<usize> = addresses(0);
    for &number in chosen {
        let task = &dump.tasks[number];
        if !matches!(
            task.state,
            TaskState::Running(_) | TaskState::Blocking | TaskState::SpawnedBlocking
        ) {
            wanted.insert(task.id as usize, number);
        }
    }
    let mut copies = Vec::new();
    for pool in pools {
        pool.core().fibers.for_each(|fiber| {
            let copied = fiber.copy_stack(&|id| wanted.contains_key(&id));
            copies.extend(copied.map(|(id, copy)| (wanted[&id], copy)));
        });
    }
    copies
}
