//! The loop of a worker.
//!
//! ```text
//!   ┌─▶ poll_global (every INTERVAL tasks) ─▶ next ─▶ poll_global ─▶ search … scan, sleep ─┐
//!   └──────────── suspended / pushed again / ended ◀── run ◀───────────────────────────────┘
//! ```
//!
//! # Invariants
//!
//! - The loop makes one indirect call per task: the task's body.
//! - Which worker the thread carries is read anew before each task.

use super::poll_interval::PollInterval;
use super::pool::TypedPool;
use super::worker::{Work, Worker};
use crate::execution::stack_context::StackContext;
use std::panic::{AssertUnwindSafe, catch_unwind};
use warpweft_platform::panics::discard;
use warpweft_policy::{Count, Policy};
use warpweft_task::TaskRef;

/// The number of turns of fibers that a worker without tasks runs until it asks for a task again.
const FIBERS: u32 = 16;

/// How the loop ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LoopEnd {
    /// The pool closes, or the thread has no worker, or the worker must rest.
    Over,
    /// Steps are recorded from now on, or not any more: the other instance of the loop continues.
    RecordingChanged,
}

/// Takes tasks and runs them until the pool closes, or the thread gives its worker away.
///
/// There are two instances, so that the steps of tasks cost nothing more while they are not recorded.
///
/// # Safety
///
/// The calling thread occupies `context`, a stack context of `pool`, and no hook of the policy is on its
/// stack.
// Not inlined, so that its one indirect call can be counted in the assembly.
#[inline(never)]
unsafe fn run_loop<P: Policy, const RECORDED: bool>(pool: &TypedPool<P>, context: &StackContext) -> LoopEnd {
    let mut poll_interval = PollInterval::new(P::INTERVAL, P::INHERITS_PRIORITY);
    let mut until_pause = poll_interval.stretch();
    let mut fibers = 1;
    let mut helped = false;
    let thread_handle = &**context.thread_handle();
    let mailbox = &**thread_handle.mailbox();
    // Read anew for each task: after a wait the thread may carry another worker.
    'turns: while let Some(worker_ref) = context.worker_ref() {
        if pool.core.lifecycle.is_closing() {
            return LoopEnd::Over;
        }
        // SAFETY: the stack context's worker references are its pool's workers, so of this type.
        let worker = unsafe { Worker::<P>::from_ref(worker_ref) };
        // Fibers and tasks take turns, where there are tasks.
        if mailbox.may_be_ready() {
            let most = if P::INHERITS_PRIORITY && context.fibers().have_classes() {
                context.fibers().order_by_class();
                1
            } else {
                fibers.min(until_pause)
            };
            let ran = if RECORDED {
                // SAFETY: the stack context says that this thread carries the worker.
                unsafe { worker.run_fibers_recorded(pool, context, most) }
            } else {
                context.fibers().run_ready(context, worker_ref, most)
            };
            fibers = 1;
            if !context.carries(worker.worker_ref()) {
                continue;
            }
            until_pause -= ran.saturating_sub(1);
        }
        until_pause -= 1;
        // A block instead of a variable that is filled later: its old value would be read, and dropped, for
        // each task.
        let task = 'found: {
            if until_pause == 0 {
                // SAFETY: the stack context says that this thread carries the worker; here and below, tasks
                // and hooks return before the next hook is called.
                let seen = unsafe {
                    between_stretches::<P, RECORDED>(pool, worker, &mut poll_interval, &mut helped, context)
                };
                until_pause = poll_interval.stretch();
                match seen {
                    LookResult::Nothing => {}
                    LookResult::Task(task) => break 'found task,
                    LookResult::Elsewhere => continue 'turns,
                    LookResult::Over => return LoopEnd::Over,
                    LookResult::RecordingChanged => return LoopEnd::RecordingChanged,
                }
            }
            // SAFETY: as above.
            if let Some(task) = unsafe { worker.call_in(pool, P::next) } {
                worker.counters().add(Count::LocalPops, 1);
                break 'found task;
            }
            if RECORDED {
                // SAFETY: as above.
                unsafe { worker.close_recorded(pool) };
            }
            if mailbox.may_be_ready() {
                // It has its own work, and looks for other tasks when they are overdue.
                fibers = FIBERS;
                continue 'turns;
            }
            if worker.shares() {
                // SAFETY: as above.
                if let Some(task) = unsafe { call_poll_global(worker) } {
                    break 'found task;
                }
            }
            if worker.is_compensating {
                // SAFETY: as above.
                match unsafe { worker.find_work(thread_handle) } {
                    Some(Work::Task(task)) => break 'found task,
                    Some(_) => continue 'turns,
                    None => return LoopEnd::Over,
                }
            }
            // SAFETY: as above.
            match unsafe { worker.wait_recorded::<RECORDED>(pool, context) } {
                Some(Work::Task(task)) => task,
                Some(Work::Fork(fork)) => {
                    // SAFETY: as above.
                    unsafe { worker.run_fork_recorded(fork, context) };
                    continue 'turns;
                }
                Some(Work::Lost(task)) => {
                    pool.core.end_one_lost(task);
                    continue 'turns;
                }
                Some(Work::RecordingChanged) => return LoopEnd::RecordingChanged,
                Some(Work::Fiber | Work::Woken) => continue 'turns,
                None => return LoopEnd::Over,
            }
        };
        // SAFETY: as above.
        unsafe { worker.run::<RECORDED>(pool, task, context) };
    }
    LoopEnd::Over
}

/// The result of a look that a worker takes between two stretches of tasks.
enum LookResult {
    Nothing,
    Task(TaskRef),
    /// The thread carries another worker now, or none.
    Elsewhere,
    /// The worker must rest.
    Over,
    /// See [`LoopEnd::RecordingChanged`].
    RecordingChanged,
}

/// Ends a stretch of tasks, and handles what is overdue.
///
/// # Safety
///
/// As [`Worker::call`]; the thread occupies `context`. `helped` is true if the last look took a task from
/// behind a stuck worker.
// Not inlined: its registers would be taken from the loop for each task.
#[inline(never)]
unsafe fn between_stretches<P: Policy, const RECORDED: bool>(
    pool: &TypedPool<P>,
    worker: &Worker<P>,
    poll_interval: &mut PollInterval,
    helped: &mut bool,
    context: &StackContext,
) -> LookResult {
    if RECORDED {
        // SAFETY: by contract this thread carries the worker, and no hook is on its stack.
        unsafe { worker.close_recorded(pool) };
    }
    if pool.core.recorder.mode().is_on() != RECORDED {
        return LookResult::RecordingChanged;
    }
    if worker.must_rest(pool) {
        // What only it may run comes first.
        return worker
            .core
            .pinned
            .pop()
            .map_or(LookResult::Over, LookResult::Task);
    }
    let recorder = &pool.core.recorder;
    // SAFETY: by contract the calling thread carries the worker.
    unsafe { recorder.worker(worker.id()).compare(recorder, worker.counters()) };
    let before = RECORDED.then(|| context.fibers().line_end());
    let (woke_ns, looks) = (
        worker.core.sleep_history.woke_ns(),
        worker.yield_interval.take_looks(),
    );
    let core = &pool.core;
    let poll_global = poll_interval.end_stretch(&core.driver, &core.idle, &core.monitor, woke_ns, looks);
    if let Some(before) = before
        && context.fibers().line_end() != before
    {
        // SAFETY: by contract; what the driver wakes does not run here.
        unsafe { worker.woke_recorded(pool, context, (0, before)) };
    }
    if worker.is_compensating && pool.core.monitor.must_retire(poll_interval.was_long()) {
        return LookResult::Over;
    }
    if !poll_global || !worker.shares() {
        return LookResult::Nothing;
    }
    // A task that ends may wait in its `Drop`, and then the thread may carry another worker.
    pool.core.end_lost();
    if !context.carries(worker.worker_ref()) {
        return LookResult::Elsewhere;
    }
    // SAFETY: by contract, and the thread still carries the worker.
    unsafe { worker.evict() };
    if !context.carries(worker.worker_ref()) {
        return LookResult::Elsewhere;
    }
    // Tasks that always yield never run out, and no other worker may look for the tasks behind a stuck one.
    // So every other look is for those.
    let waits = waits_for_one_that_is_stuck(pool, worker);
    if !*helped && (waits || pool.core.monitor.is_any_stuck()) {
        // SAFETY: by contract this thread carries the worker, and no hook is on its stack.
        if let Some(task) = unsafe { worker.call(P::steal_from_stuck) } {
            *helped = true;
            return LookResult::Task(task);
        }
    }
    *helped = false;
    if !worker.core.pinned.is_empty()
        && let Some(task) = worker.core.pinned.pop()
    {
        worker.counters().add(Count::GlobalPolls, 1);
        return LookResult::Task(task);
    }
    // SAFETY: by contract this thread carries the worker, and no hook is on its stack.
    unsafe { call_poll_global(worker) }.map_or(LookResult::Nothing, LookResult::Task)
}

/// Returns true if the worker only yields while another one is in a task that takes long. Called once per
/// look, on the thread that carries the worker.
fn waits_for_one_that_is_stuck<P: Policy>(pool: &TypedPool<P>, worker: &Worker<P>) -> bool {
    let own = (worker.core.steps(), worker.counters().get(Count::Yields));
    let steps_of = |id| {
        let is_awake = pool.core.idle.is_awake(id);
        is_awake.then(|| pool.workers[id].core.steps())
    };
    worker
        .neighbour
        .is_stuck(worker.id(), pool.core.asked, own, steps_of)
}

/// Calls the policy's hook for what is overdue.
/// Contract: as [`Worker::call`].
#[cold]
unsafe fn call_poll_global<P: Policy>(worker: &Worker<P>) -> Option<TaskRef> {
    // SAFETY: by contract this thread carries the worker, and no hook is on its stack.
    let task = unsafe { worker.call(P::poll_global) };
    worker
        .counters()
        .add(Count::GlobalPolls, u64::from(task.is_some()));
    task
}

/// Runs tasks until the thread has to give its worker back, or has given it away.
pub(super) fn work<P: Policy>(pool: &TypedPool<P>, context: &StackContext) {
    loop {
        let run_loop = || {
            if Worker::<P>::adapt_to_recorder(pool, context) {
                // SAFETY: this thread occupies `context`, and nothing of the policy is on its stack.
                unsafe { run_loop::<P, true>(pool, context) }
            } else {
                // SAFETY: as above.
                unsafe { run_loop::<P, false>(pool, context) }
            }
        };
        // Unwind: tasks catch their panics, so this one belongs to the policy: the pool closes.
        match catch_unwind(AssertUnwindSafe(run_loop)) {
            Ok(LoopEnd::RecordingChanged) => continue,
            Ok(LoopEnd::Over) => {}
            Err(payload) => {
                discard(payload);
                pool.core.close_for(&"its policy panicked");
            }
        }
        // SAFETY: the stack context's worker references are its pool's workers, so of this type.
        let worker = context
            .worker_ref()
            .map(|worker_ref| unsafe { Worker::<P>::from_ref(worker_ref) });
        if let Some(worker) = worker {
            // SAFETY: the stack context says that this thread carries the worker.
            unsafe { worker.close_recorded(pool) };
        }
        let Some(worker) = worker.filter(|_| !pool.core.lifecycle.is_closing()) else {
            return;
        };
        if !worker.is_compensating && !worker.must_rest(pool) {
            // The pool has become larger again meanwhile.
            continue;
        }
        // Unwind: as above; the policy is not called any more.
        // SAFETY: the stack context says that this thread carries the worker, and no hook is on its stack.
        match catch_unwind(AssertUnwindSafe(|| unsafe { worker.give_back() })) {
            Ok(false) => {}
            Ok(true) => return,
            Err(payload) => return discard(payload),
        }
    }
}
