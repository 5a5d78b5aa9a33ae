//! The end of a task in a child made by `fork()`. The task that forked continues there, alone, and its end is
//! the end of the child.
//!
//! ```text
//!   parent   worker ──task── fork() ──task──▶ loop: other tasks, fibers, forks, timers …
//!                              │
//!   child                      └─ the thread's worker is taken from it ──task──▶ the task ends: `_exit`
//! ```
//!
//! The child is a copy of the process with one thread, the one that forked. The queues of its pools are full
//! of the parent's tasks, and the loop that would run them is below the task on the thread's stack. The hot
//! paths must not ask whether they are in a child. But after each task, after each fiber and before each wait
//! they read which worker the thread carries. So the handler of the fork takes the worker away. From then on
//! the hot paths see a thread like one in [`blocking`](crate::blocking): its spawns come from outside, and
//! its waits have no worker to give away. When the task of such a thread is over, which is off the hot paths,
//! [`end_child_if`](process::end_child_if) detects the child.
//!
//! # Invariants
//!
//! - In the child no thread carries a worker of a pool of the parent. So no task of the parent runs, no fiber
//!   of it is resumed, and no destructor of a queued task is called.
//! - A fiber of the parent does not switch away in the child, so nothing else runs on its thread: it waits as
//!   a thread does.
//! - A hook of a policy does not return in the child: the loop would run the task that the hook gives.

use super::fiber::Fiber;
use super::stack_context::{self, StackContext};
use crate::pool::core::PoolCore;
use warpweft_platform::process::{self, Awaited};
use warpweft_platform::thread::pause;
use warpweft_queue::Word;
use warpweft_task::{Abandon, Pending, Ran, Runnable, Suspended, Why};

/// Makes forked children known from now on.
pub(crate) fn watch() {
    process::watch_forks(in_child);
}

/// Takes the worker away. Called in the child before `fork()` returns there, on its only thread.
fn in_child() {
    if let Some(context) = stack_context::here() {
        if context.is_in_policy() {
            process::fail_child("fork() in a hook of a policy: the child cannot go on, as its worker would");
        }
        context.lose_worker();
    }
}

/// Ends a task of that pool, on a thread of the pool. Its destructor may fork: then the child ends here.
pub(crate) fn abandon(pool: &PoolCore, task: Runnable, why: Abandon) {
    task.abandon(why);
    process::end_child_if(pool.is_in_forked_child());
}

/// The message of a wait that needs a worker that stayed in the parent.
const TAKEN: &str = "a wait that nothing can end: a worker had taken a half of this join, or a job of this scope, and \
                     stayed in the parent of this forked process";

impl StackContext {
    /// Returns true if the thread's pool stayed in the parent of this process.
    pub(crate) fn stayed_in_parent(&self) -> bool {
        process::generation() != 0 && self.fibers().pool().is_in_forked_child()
    }

    /// Ends a wait for the thief of a fork of this stack, in a forked child.
    #[cold]
    pub(crate) fn refuse_wait_for_fork(&self) -> ! {
        process::refuse_wait(TAKEN)
    }
}

/// Refuses a task that is pushed to a pool of the parent.
#[cold]
pub(crate) fn refuse(task: Runnable, why: Why) {
    match why {
        // It was spawned in the child.
        Why::Spawned | Why::Injected | Why::Forked => task.abandon(Abandon::Forked),
        // The task belongs to the parent, or is the one that continues here. It is not abandoned: only the
        // parent may run its destructors.
        Why::Woken | Why::Yielded => wake(task),
    }
}

/// The message about a future that nothing can wake.
const STUCK: &str = "a task cannot go on: it forked, and what it awaits in the child stayed in the parent";

/// The future that forked, while it sleeps: its runnable, when it was woken.
static SLEEPER: Awaited = Awaited::nothing();

fn wake(task: Runnable) {
    // From here on the runnable is a word, which stays until the sleeper takes it.
    SLEEPER.give(task.into_word().get());
}

/// How long the thread sleeps between two looks for the runnable of its future, in nanoseconds. No thread of
/// a pool polls for it, and what wakes it is rare.
const LOOK_NS: u64 = 200_000;
/// The number of looks after which it checks whether it is the only thread. The first look checks, too.
const LOOKS: u32 = 100;

/// Lets a future wait on a thread that has no worker any more: the pool closes, or this is the child that the
/// future has forked.
// Not inlined: it would make the loop read the worker once more after each task.
#[cold]
#[inline(never)]
pub(crate) fn cannot_go_on(pool: &PoolCore, pending: Pending) {
    if pool.is_in_forked_child() {
        go_on(pending);
    }
    pending.into_task().abandon(Abandon::Shutdown);
}

/// Runs the future that forked to its end, in the child, after a step. The future continues while something
/// wakes it: the future itself, or threads that it has started here.
fn go_on(mut pending: Pending) -> ! {
    loop {
        // Before it can be woken.
        SLEEPER.want(pending.register_entry().addr().get());
        let token = match pending.suspend() {
            Suspended::Again(token) => token,
            Suspended::Asleep => sleep(),
            Suspended::Cancelled => process::fail_child(STUCK),
        };
        pending = match token.run() {
            Ran::Ended => process::end_child(),
            Ran::Pending(pending) => pending,
        };
    }
}

fn sleep() -> Runnable {
    let mut looks = 0;
    loop {
        // In this order: a thread may wake it, and end.
        let over = looks % LOOKS == 0 && process::is_alone();
        if let Some(word) = SLEEPER.take() {
            // SAFETY: `wake` made the word of a runnable, and it is taken out once.
            return unsafe { Runnable::from_word(word) };
        }
        if over {
            process::fail_child(STUCK);
        }
        pause(LOOK_NS);
        looks += 1;
    }
}

impl Fiber {
    /// Waits until its waker is notified, in a forked child, where it does not switch away. No other thread
    /// looks at its mailbox.
    #[cold]
    pub(crate) fn listen_in_child(&self) {
        let mut looks = 0;
        loop {
            // In this order: a thread may notify, and end.
            let over = looks % LOOKS == 0 && process::is_alone();
            if self.fiber_waker.was_entered() {
                return;
            }
            if over {
                process::refuse_wait(
                    "a wait that nothing can end: a fiber forked, and what it waits for in the child stayed in the parent",
                );
            }
            pause(LOOK_NS);
            looks += 1;
        }
    }
}
