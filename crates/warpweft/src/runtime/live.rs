//! The life of a thread of the pool, and the loop of the worker that it carries.
//!
//! ```text
//!   ┌─▶ overdue (every INTERVAL tasks) ─▶ next ─▶ overdue ─▶ search … scan, sleep ─┐
//!   └──────────── suspended / pushed again / ended ◀── run ◀──────────────────────┘
//! ```
//!
//! # Invariants
//!
//! - The loop makes one indirect call per task: the task's body.
//! - Which worker the thread carries is read anew before each task.

use super::engine::Pace;
use super::forked::end_if;
use super::pool::{AnyPool as _, Pool};
use super::seat::Seat;
use super::worker::{Work, Worker};
use std::panic::{AssertUnwindSafe, catch_unwind};
use warpweft_policy::{Count, Policy};
use warpweft_task::TaskRef;

/// How many fibers a worker without tasks resumes until it asks for one again.
const FIBERS: u32 = 16;

/// Takes tasks and runs them until the pool closes, or the thread gives its worker to another one.
///
/// # Safety
///
/// The calling thread sits in `seat`, a seat of `pool`, and no hook of the policy is on its stack.
// Not inlined, so that its one indirect call can be counted in the assembly.
#[inline(never)]
unsafe fn run_loop<P: Policy>(pool: &Pool<P>, seat: &Seat) {
    let mut pace = Pace::new(P::INTERVAL);
    let mut until_pause = pace.stretch();
    let mut fibers = 1;
    let mut helped = false;
    let berth = &**seat.berth();
    // Read anew for each task: one that waited may have come back with another worker.
    'turns: while let Some(front) = seat.front() {
        if pool.life.is_closing() {
            return;
        }
        // SAFETY: the seat's fronts are its pool's workers, so of this type.
        let worker = unsafe { Worker::<P>::from_front(front) };
        // A fiber and a task take turns, where there are tasks.
        if berth.may_be_ready() {
            let ran = seat.home().run_ready(seat, front, fibers.min(until_pause));
            fibers = 1;
            if !seat.carries(worker.front()) {
                continue;
            }
            until_pause -= ran.saturating_sub(1);
        }
        until_pause -= 1;
        // A block, and no variable that is filled later: its old value would be looked at, and dropped, for each task.
        let task = 'found: {
            if until_pause == 0 {
                // SAFETY: the seat says that this thread carries the worker; here and below, tasks and hooks return before the next hook is
                // called.
                let seen = unsafe { look_up(pool, worker, &mut pace, &mut helped, seat) };
                until_pause = pace.stretch();
                match seen {
                    Seen::Nothing => {}
                    Seen::Task(task) => break 'found task,
                    Seen::Elsewhere => continue 'turns,
                    Seen::Over => return,
                }
            }
            // SAFETY: as above.
            if let Some(task) = unsafe { worker.call_in(pool, P::next) } {
                worker.counters().add(Count::LocalPops, 1);
                break 'found task;
            }
            if berth.may_be_ready() {
                // It has work of its own, and asks for others' when that is overdue.
                fibers = FIBERS;
                continue 'turns;
            }
            if worker.shares() {
                // SAFETY: as above.
                if let Some(task) = unsafe { ask_overdue(worker) } {
                    break 'found task;
                }
            }
            if worker.stands_in {
                // SAFETY: as above.
                match unsafe { worker.glean(berth) } {
                    Some(Work::Task(task)) => break 'found task,
                    Some(_) => continue 'turns,
                    None => return,
                }
            }
            // SAFETY: as above.
            match unsafe { worker.wait(seat) } {
                Some(Work::Task(task)) => task,
                Some(Work::Fork(fork)) => {
                    worker.run_fork(fork, seat);
                    continue 'turns;
                }
                Some(Work::Lost(task)) => {
                    pool.end_one_lost(task);
                    continue 'turns;
                }
                Some(Work::Fiber | Work::Woken) => continue 'turns,
                None => return,
            }
        };
        // SAFETY: as above.
        unsafe { worker.run(pool, task, seat) };
    }
}

/// What a worker sees that looks up from its own tasks.
enum Seen {
    Nothing,
    Task(TaskRef),
    /// The thread carries another worker now, or none.
    Elsewhere,
    /// The stand-in is not needed any more.
    Over,
}

/// A stretch is over: looks after what is overdue, if that is due.
///
/// # Safety
///
/// As [`Worker::call`]; the thread sits in `seat`. `helped`: whether it looked after somebody stuck the last time.
// Not inlined: what it needs would be kept from the loop's registers for each task.
#[inline(never)]
unsafe fn look_up<P: Policy>(
    pool: &Pool<P>,
    worker: &Worker<P>,
    pace: &mut Pace,
    helped: &mut bool,
    seat: &Seat,
) -> Seen {
    let overdue = pace.look_up(&pool.engine, &pool.idle, &pool.monitor);
    if worker.stands_in && pool.monitor.relieves(pace.was_long()) {
        return Seen::Over;
    }
    if !overdue || !worker.shares() {
        return Seen::Nothing;
    }
    // What ends may wait in its `Drop`, and then the thread may carry another worker.
    pool.end_lost();
    if !seat.carries(worker.front()) {
        return Seen::Elsewhere;
    }
    // SAFETY: by contract, and the thread still carries the worker.
    unsafe { worker.evict() };
    if !seat.carries(worker.front()) {
        return Seen::Elsewhere;
    }
    // Who has tasks that always yield has always work of his own, and what waits behind a stuck worker nobody else: it is
    // looked for every other time.
    if !*helped && pool.monitor.is_somebody_stuck() {
        // SAFETY: by contract.
        if let Some(task) = unsafe { worker.call(P::relieve) } {
            *helped = true;
            return Seen::Task(task);
        }
    }
    *helped = false;
    if !worker.errands.is_empty()
        && let Some(task) = worker.errands.pop()
    {
        worker.counters().add(Count::Overdue, 1);
        return Seen::Task(task);
    }
    // SAFETY: by contract.
    unsafe { ask_overdue(worker) }.map_or(Seen::Nothing, Seen::Task)
}

/// Asks the policy for what is overdue.
///
/// # Safety
///
/// As [`Worker::call`].
#[cold]
unsafe fn ask_overdue<P: Policy>(worker: &Worker<P>) -> Option<TaskRef> {
    // SAFETY: by contract.
    let task = unsafe { worker.call(P::overdue) };
    worker.counters().add(Count::Overdue, u64::from(task.is_some()));
    task
}

/// Runs tasks until the thread has to give its worker back, or has given it away.
fn work<P: Policy>(pool: &Pool<P>, seat: &Seat) {
    loop {
        // Unwind: tasks keep their panics to themselves, so this one is the policy's: the pool closes.
        // SAFETY: this thread sits in `seat`, and nothing of the policy is on its stack.
        if catch_unwind(AssertUnwindSafe(|| unsafe { run_loop(pool, seat) })).is_err() {
            pool.close_for(&"its policy panicked");
        }
        // SAFETY: the seat's fronts are its pool's workers, so of this type.
        let worker = seat
            .front()
            .map(|front| unsafe { Worker::<P>::from_front(front) });
        let Some(stand_in) = worker.filter(|worker| worker.stands_in && !pool.life.is_closing()) else {
            return;
        };
        // Unwind: as above; the policy is not called any more.
        // SAFETY: the seat says that this thread carries the worker, and no hook is on its stack.
        match catch_unwind(AssertUnwindSafe(|| unsafe { stand_in.give_back() })) {
            Ok(false) => {}
            Ok(true) | Err(_) => return,
        }
    }
}

/// The pool closes: the worker that the calling thread carries, if it does, is retired. The last one ends the pool.
///
/// # Safety
///
/// The calling thread sits in `seat`, a seat of `pool`, and no hook of the policy is on its stack.
pub(crate) unsafe fn leave<P: Policy>(pool: &Pool<P>, seat: &Seat) {
    if let Some(id) = seat.lay_down() {
        // What the tasks' and the policy's `Drop` spawn or wake from here on comes from outside.
        seat.take_up(None);
        // SAFETY: the worker was in this thread's hands, no hook is on its stack, and this is its last use.
        unsafe { pool.workers[id].retire() };
        end_if(pool.is_forked());
        pool.leave(1);
    }
}

/// The life of a thread of the pool: it waits for a worker, carries it until it gives it away or the pool closes, and
/// becomes a spare.
pub(crate) fn live<P: Policy>(pool: &Pool<P>, seat: &Seat) {
    let mut assigned = Some(seat.berth().hand.wait());
    while let Some(carried) = assigned {
        seat.take_up(carried);
        work(pool, seat);
        end_if(pool.is_forked());
        if pool.life.is_closing() {
            // SAFETY: this thread sits in `seat`; if a hook has panicked it is not on the stack any more.
            unsafe { leave(pool, seat) };
        } else if let Some(stand_in) = seat.lay_down() {
            // Workers that were asked for stay until the pool closes.
            pool.stood_down(stand_in);
        }
        end_if(pool.is_forked());
        assigned = pool.crew().rest(seat.berth());
    }
    // Nobody gives this thread a worker any more: the pool has ended, or it has no fibers.
    seat.home().unwind_all(seat);
    // It may have been a visitor who sent this thread on its way, and who is still inside the pool.
    if pool.life.is_closing() {
        pool.life.no_visitors();
    }
}
