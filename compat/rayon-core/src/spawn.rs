//! `spawn`: closures that nobody waits for.
//!
//! rayon knows no cancellation, so they are under no token, also if the caller is. A token would drop those
//! that wait, and unwind the others at their next join. No frame waits for them, so none would get that.

use crate::fifo::QueueIndex;
use crate::global::with_target;
use crate::registry::{OnPanic, Registry, Target, User};
use std::panic::{AssertUnwindSafe, catch_unwind};
use warpweft::{Pool, TaskBuilder};

/// Puts a closure into the queue of the calling thread; on a thread of no pool, into the global pool. The
/// newest one of a thread runs first; other threads take the oldest. Those from outside have no order, where
/// the original has their own: see [`spawn_fifo`].
///
/// # Panics
///
/// If the closure panics, the pool's [panic handler](crate::ThreadPoolBuilder::panic_handler) is called.
/// Without one the process is aborted.
pub fn spawn<F>(func: F)
where
    F: FnOnce() + Send + 'static,
{
    with_target(|target| spawn_in(&target, func));
}

/// As [`spawn`], but those of one thread run oldest first, and so do those from outside.
pub fn spawn_fifo<F>(func: F)
where
    F: FnOnce() + Send + 'static,
{
    with_target(|target| spawn_fifo_in(&target, func));
}

pub(crate) fn spawn_in(target: &Target<'_>, func: impl FnOnce() + Send + 'static) {
    let target = &target.open();
    let job = guarded(target, func);
    // A token that counts here is none of the closure's: see the module.
    warpweft::cancel::detached(|| TaskBuilder::new().on_pool(target.pool).spawn_detached(job));
}

pub(crate) fn spawn_fifo_in(target: &Target<'_>, func: impl FnOnce() + Send + 'static) {
    // A task of a Warpweft runtime: its policy is the user's.
    let Some(registry) = target.registry else {
        return spawn_in(target, func);
    };
    let thread = Pool::current_worker().filter(|_| registry.is_here());
    let place = registry.fifos().push(thread, Box::new(func));
    spawn_in(target, move || run_oldest(place));
}

fn run_oldest(place: QueueIndex) {
    crate::registry::with_current(|current| match current.and_then(|target| target.registry) {
        Some(registry) => registry.fifos().run_oldest(place),
        None => unreachable!("the job was spawned in a pool of this crate"),
    });
}

/// Wraps a closure: it keeps its pool, and its panic is handled.
pub(crate) fn guarded(
    target: &Target<'_>,
    func: impl FnOnce() + Send + 'static,
) -> impl FnOnce() + Send + 'static {
    let guarded = Guarded {
        func,
        user: target.registry.map(Registry::use_it),
    };
    move || guarded.run()
}

/// The order of the fields drops the closure before the pool may end.
struct Guarded<F> {
    func: F,
    user: Option<User>,
}

impl<F: FnOnce()> Guarded<F> {
    fn run(self) {
        let Self { func, user } = self;
        // Unwind: the panic is handled here.
        if let Err(panic) = catch_unwind(AssertUnwindSafe(func)) {
            match &user {
                Some(registry) => registry.on_panic().handle(panic),
                None => OnPanic::default().handle(panic),
            }
        }
    }
}
