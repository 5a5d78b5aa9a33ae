//! Collects what all tasks do.
//!
//! # Invariants
//!
//! - No task is polled, run or woken, and no worker is stopped. Locks are held for short batches.
//! - A task may end, or be woken, between two looks: a dump is a sketch, and each finding is looked for
//!   twice.

use super::dump_tasks::{add_running, joiner_of_running, of_frame, of_queued, of_task};
use super::handle::Runtime;
use super::pool::Pool;
use crate::execution::current_task::current_task;
use crate::observe::dump::addresses::{Addresses, addresses};
use crate::observe::dump::graph::Collected;
use crate::observe::dump::{Dump, Finding, PoolDump, TaskDump};
use crate::observe::raw::{BoundedPool, FullThreads, RawState, RawTask, objects};
use crate::pool::dyn_pool::DynPool;
use std::collections::HashSet;
use warpweft_platform::clock::now_ns;
use warpweft_platform::process::generation;
use warpweft_platform::thread::pause;
use warpweft_task::frame::outside;
use warpweft_task::{QueueViewer, TaskKind};

/// The time between the two looks, in nanoseconds: long enough for a task that was woken to be seen as such.
const BETWEEN_NS: u64 = 2_000_000;
/// The same where a task blocks in the kernel: longer than most locks are held.
const BETWEEN_BLOCKED_NS: u64 = 50_000_000;
/// The time of a quick look for each kind of what waits, in nanoseconds: for two thousand of them or so. The
/// dump of these takes some milliseconds.
const QUICK_NS: u64 = 250_000;

/// How many tasks of a pool's queues are looked at, at most. Tasks that end meanwhile are not freed before.
const MOST_QUEUED: usize = 1 << 16;
/// The time, in nanoseconds, in which one of them is looked at.
const QUEUED_NS: u64 = 200;

impl Runtime {
    /// Returns what all tasks of this runtime do, what they wait for, and which of them can never continue.
    ///
    /// It lists futures, fibers, jobs and closures that block, with kind, name, spawn site, pool and state,
    /// and threads outside of the runtime that wait for one of its tasks or for a lock of this crate. Tasks
    /// in queues are among them, up to 65,536 of each pool; [`PoolDump::unlisted`] has the number of the
    /// others.
    ///
    /// It polls no future and stops no worker. Two [findings](Dump::findings) are certain: a circle of waits,
    /// unless it is called uncertain, and a task of which no waker exists. Chapter 17 of the guide teaches
    /// how to read a dump. [`dump_all`](crate::dump_all) has the tasks of all runtimes, and finds circles
    /// through several.
    ///
    /// It can be called at any time, also from a task, from a hook of a policy, and in a child made by
    /// `fork()`, where it shows what the parent had and neither its threads nor a lock hide. It costs about a
    /// microsecond a task, 20 µs for each that runs, and 2 ms more if it has a finding, or 50 ms if a task
    /// blocks in the kernel.
    ///
    /// ```
    /// use warpweft::{Runtime, TaskState, sync::Notify};
    /// use std::sync::Arc;
    ///
    /// let runtime = Runtime::builder().workers(1).build()?;
    /// let start = Arc::new(Notify::new());
    /// let waits = Arc::clone(&start);
    /// let task = runtime.spawn(async move { waits.notified().await });
    /// let dump = loop {
    ///     let dump = runtime.dump();
    ///     if dump.tasks.iter().any(|task| task.state == TaskState::Waiting && !task.waits.is_empty()) {
    ///         break dump;
    ///     }
    /// };
    /// assert!(dump.to_string().contains("waits for a notification of a `Notify`"));
    /// start.notify_one();
    /// task.wait()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn dump(&self) -> Dump {
        Dump::of(self.pools())
    }
}

impl Dump {
    /// Looks at these pools.
    pub(crate) fn of(pools: &[Pool]) -> Self {
        look(true, None, &|| dyn_pools(pools))
    }
}

impl Pool {
    /// As [`Runtime::dump`], for the tasks of this pool alone. A circle of waits that leads through another
    /// pool is not found, and whether [nothing runs](Finding::NothingRuns) is not asked.
    ///
    /// ```
    /// let runtime = warpweft::Runtime::builder().workers(1).build()?;
    /// assert_eq!(runtime.first().dump().pools.len(), 1);
    /// # Ok::<(), warpweft::BuildError>(())
    /// ```
    #[must_use]
    pub fn dump(&self) -> Dump {
        look(false, None, &|| vec![&**self.any()])
    }
}

/// Returns what a look needs of pools.
pub(super) fn dyn_pools(pools: &[Pool]) -> Vec<&dyn DynPool> {
    pools.iter().map(|pool| &**pool.any()).collect()
}

/// Looks, and looks again if something was found that may pass. `is_whole` says that no pool of a runtime is
/// left out. With `names` the pools have these names in the dump.
pub(super) fn look<'a>(
    is_whole: bool,
    names: Option<&[String]>,
    pools: &dyn Fn() -> Vec<&'a dyn DynPool>,
) -> Dump {
    let once = || {
        let mut found = collect(&pools(), is_whole, u64::MAX);
        for (pool, name) in found.pools.iter_mut().zip(names.into_iter().flatten()) {
            pool.name.clone_from(name);
        }
        found.into_dump()
    };
    let mut first = once();
    if first.findings.iter().all(is_old) {
        return first;
    }
    let blocks = |finding: &Finding| matches!(finding, Finding::BlocksInKernel { .. });
    pause(match first.findings.iter().any(blocks) {
        true => BETWEEN_BLOCKED_NS,
        false => BETWEEN_NS,
    });
    let second = once();
    FindingSet::by(&second).keep_in(&mut first);
    first
}

/// What has waited for so long would be the same after a moment.
fn is_old(finding: &Finding) -> bool {
    matches!(finding, Finding::Unattended { .. })
}

/// What a look has found, to be compared with what another one finds.
pub(super) struct FindingSet(HashSet<FindingKeys>);

/// What a finding says, in terms of what does not change between two looks: its kind, its tasks, each with 0,
/// and each with what it waits for.
type FindingKeys = (u8, Vec<(usize, usize)>);

impl FindingSet {
    /// How long before the end of a shutdown its first look has to be, in nanoseconds.
    pub(super) const BEFORE_NS: u64 = BETWEEN_BLOCKED_NS;

    /// No look, or one that has found nothing.
    pub(super) fn nothing() -> Self {
        Self(HashSet::new())
    }

    /// The first look of a shutdown that may be in vain.
    pub(super) fn first(pools: &[Pool]) -> Self {
        Self::by(&quick_look(pools))
    }

    fn by(dump: &Dump) -> Self {
        let passing = dump.findings.iter().filter(|finding| !is_old(finding));
        Self(passing.map(|finding| keys(&dump.tasks, finding)).collect())
    }

    /// Removes what was not found by this look, too.
    pub(super) fn keep_in(&self, dump: &mut Dump) {
        let tasks = &dump.tasks;
        dump.findings
            .retain(|finding| is_old(finding) || self.0.contains(&keys(tasks, finding)));
        dump.settle();
    }
}

/// Looks at these pools once, and within some milliseconds: of very many tasks that wait, some are left out.
pub(super) fn quick_look(pools: &[Pool]) -> Dump {
    collect(&dyn_pools(pools), true, QUICK_NS).into_dump()
}

fn keys(tasks: &[TaskDump], finding: &Finding) -> FindingKeys {
    let kind = match finding {
        Finding::Cycle { .. } => 0,
        Finding::NobodyCanWake { .. } => 1,
        Finding::Abandoned { .. } => 2,
        Finding::NotPolled { .. } => 3,
        Finding::NothingRuns { .. } => 4,
        Finding::Unattended { .. } => 5,
        Finding::BlocksInKernel { .. } => 6,
    };
    let is_blocked = matches!(finding, Finding::BlocksInKernel { .. });
    let mut found = Vec::new();
    for &number in finding.tasks() {
        let task = &tasks[number];
        let id = task.id as usize;
        found.push((id, 0));
        found.extend(task.waits.iter().map(|wait| (id, wait.object as usize)));
        if let Some(state) = task.thread_state.as_ref().filter(|_| is_blocked) {
            // A thread that was woken meanwhile has given up its CPU once more.
            let words = [state.futex, state.sleeps].into_iter().flatten();
            found.extend(words.map(|word| (id, word as usize)));
        }
    }
    found.sort_unstable();
    (kind, found)
}

/// The time that a look has for one kind of what waits.
struct LookBudget {
    end_ns: u64,
    /// How many more are looked at before the clock is.
    until_clock: u32,
}

impl LookBudget {
    fn of(ns: u64) -> Self {
        Self {
            end_ns: now_ns().saturating_add(ns),
            until_clock: 0,
        }
    }

    /// Returns true if one more may be looked at.
    fn is_left(&mut self) -> bool {
        if self.until_clock == 0 && self.end_ns != u64::MAX {
            if now_ns() > self.end_ns {
                return false;
            }
            self.until_clock = 64;
        }
        self.until_clock = self.until_clock.wrapping_sub(1);
        true
    }
}

/// Collects what is there. For each kind of what waits there is that much time; what runs or blocks is never
/// left out.
fn collect(pools: &[&dyn DynPool], is_whole: bool, each_ns: u64) -> Collected {
    let mut found = Collected {
        is_whole,
        caller: current_task().id,
        ..Collected::default()
    };
    for (number, pool) in pools.iter().enumerate() {
        collect_pool(&mut found, number, *pool, each_ns);
    }
    // In a forked child they are those of its parent's threads: see `PoolCore::each_frame`.
    if let Some(frames) = outside().filter(|_| generation() == 0) {
        // SAFETY: the register is locked while it calls the closure.
        frames.for_each(|frame| found.tasks.push((None, unsafe { of_frame(frame) })));
    }
    if let Some(objects) = objects() {
        let mut patience = LookBudget::of(each_ns);
        objects.for_each(|object| {
            if patience.is_left() {
                object.look(&mut |wait| found.waits.push(wait));
            }
        });
    }
    found.now_ns = now_ns();
    found
}

fn collect_pool(found: &mut Collected, number: usize, pool: &dyn DynPool, each_ns: u64) {
    let core = pool.core();
    // First: a task that is taken out and runs meanwhile is found there, too.
    let queued = queued(pool, each_ns);
    found.pools.push(PoolDump {
        name: core.info.name.clone(),
        policy: core.info.policy.clone(),
        workers: core.size.now(),
        closed: pool.is_closing(),
        forked: pool.is_in_forked_child(),
        ready: pool.runnable(),
        unlisted: 0,
        left_out: 0,
    });
    let Collected {
        tasks,
        waits,
        full,
        bounded,
        ..
    } = found;
    let mut add = |task| tasks.push((Some(number), task));
    let (mut patience, mut seen, mut is_all) = (LookBudget::of(each_ns), 0, true);
    core.owned_tasks.for_each(|task, has_place| {
        is_all = patience.is_left();
        if is_all {
            add(RawTask {
                has_place,
                ..of_task(task)
            });
            seen += 1;
        }
        is_all
    });
    let left_out = match is_all {
        true => 0,
        false => core.owned_tasks.len().saturating_sub(seen),
    };
    core.fibers
        .for_each(|fiber| fiber.look().into_iter().for_each(&mut add));
    // SAFETY: the register is locked while it calls the closure.
    core.each_frame(|frame| add(unsafe { of_frame(frame) }));
    if let Some(places) = core.info.places.as_ref().filter(|places| places.object() != 0) {
        bounded.push(BoundedPool {
            pool: number,
            object: places.object(),
            capacity: places.capacity(),
        });
    }
    let blocking = core.threads.blocking();
    if blocking.each(&mut |wait| waits.push(wait), &mut |queued| add(of_queued(queued))) {
        full.push(FullThreads {
            pool: number,
            object: blocking.object(),
        });
    }
    // The frame of such a closure is below its task. The system is asked, so no lock is held here.
    for (_, task) in tasks.iter_mut().filter(|(of, _)| *of == Some(number)) {
        if matches!(task.state, RawState::Blocking | RawState::SpawnedBlocking) && task.joiner.is_none() {
            task.joiner = joiner_of_running(task.id, task.origin);
        }
    }
    // A worker's words are a hint: its task and spawn site may be of two steps. A fiber that says where it
    // runs goes before them. A forked child has none of these threads, and their lock may be lost.
    let has_threads = !pool.is_in_forked_child();
    let thread = |worker| has_threads.then(|| core.threads.thread_with(worker))?;
    let since_ns = |worker| core.monitor.step_since_ns(worker, pool.worker(worker).steps());
    let mut is_known = vec![false; core.info.slots];
    for (of, task) in tasks.iter_mut() {
        if let Some(worker) = task.worker
            && *of == Some(number)
            && task.state == RawState::Running
        {
            task.thread = thread(worker);
            task.since_ns = since_ns(worker);
            is_known[worker] = true;
        }
    }
    let mut add = |task| tasks.push((Some(number), task));
    for worker in (0..core.info.slots).filter(|&worker| !is_known[worker]) {
        let who = pool.worker(worker).worker_ref.running.get();
        // Most workers sleep.
        add_running(&mut add, worker, who, || (thread(worker), since_ns(worker)));
    }
    if let Some(driver) = core.driver.get() {
        let mut patience = LookBudget::of(each_ns);
        driver.each(&mut |wait| {
            if patience.is_left() {
                waits.push(wait);
            }
        });
    }
    // There may be few of these and many others.
    let mut new: Addresses<usize> = addresses(queued.len());
    for (place, task) in queued.iter().enumerate() {
        new.insert(task.id, place);
    }
    for (_, task) in tasks.iter() {
        new.remove(&task.id);
    }
    let queued = queued.into_iter().filter(|task| new.remove(&task.id).is_some());
    tasks.extend(queued.map(|task| (Some(number), task)));
    let is_listed = |(pool, task): &&(Option<usize>, RawTask)| {
        *pool == Some(number) && task.state == RawState::Queued && task.kind != Some(TaskKind::Blocking)
    };
    let listed = tasks.iter().filter(is_listed).count();
    let pool = &mut found.pools[number];
    pool.unlisted = pool.ready.saturating_sub(listed);
    pool.left_out = left_out;
}

/// The tasks in a pool's queues. A task is among them twice if another worker takes it meanwhile.
fn queued(pool: &dyn DynPool, each_ns: u64) -> Vec<RawTask> {
    let mut tasks = Vec::new();
    if pool.is_in_forked_child() || pool.runnable() == 0 {
        return tasks;
    }
    let most = usize::try_from(each_ns / QUEUED_NS).map_or(MOST_QUEUED, |most| most.min(MOST_QUEUED));
    // SAFETY: a `Peek` does not leave the closure to which a queue gives it, and this viewer is shown to none
    // but the policy's hook.
    if let Some(mut viewer) = unsafe { QueueViewer::new(most) } {
        pool.show_ready(&mut viewer);
        viewer.look(|task| {
            if task.queued || task.running {
                tasks.push(of_task(task));
            }
        });
    }
    tasks
}
