//! The pool that a thread has entered, because it is the first thread of that pool.

use crate::registry::{Registry, User};
use std::cell::{Cell, RefCell};
use warpweft::{EnteredThread, PoolThread};

/// What a thread keeps while it is in a pool. It keeps the pool open, too: free functions of this crate find
/// it through the thread.
struct Entered {
    registry: User,
    thread: Option<EnteredThread>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        // Another thread takes its place, if there is one to be had.
        self.registry.let_start();
        drop(self.thread.take());
        IS_HERE.set(false);
    }
}

thread_local! {
    static ENTERED: RefCell<Option<Entered>> = const { RefCell::new(None) };
    /// The thread enters a pool, is in it, or leaves it.
    static IS_HERE: Cell<bool> = const { Cell::new(false) };
}

/// Returns true on a thread that has entered a pool, and was not started for it.
pub(crate) fn is_here() -> bool {
    IS_HERE.get()
}

/// Lets the calling thread enter the pool of that registry, until it leaves or ends.
pub(crate) fn enter(registry: &User, thread: PoolThread) {
    let mut entered = Entered {
        registry: User::clone(registry),
        thread: None,
    };
    IS_HERE.set(true);
    entered.thread = Some(thread.enter());
    ENTERED.set(Some(entered));
}

/// Lets the calling thread leave the pool of that registry, if it has entered that and may leave here.
pub(crate) fn leave(registry: &Registry) {
    // The other variable may be gone in a destructor of a thread-local.
    if !is_here() {
        return;
    }
    // In a closure of the pool the thread stays, until it ends.
    let is_that = |entered: &mut Entered| {
        let may_leave = entered.thread.as_ref().is_none_or(EnteredThread::may_leave);
        may_leave && std::ptr::eq(&raw const *entered.registry, registry)
    };
    drop(ENTERED.with_borrow_mut(|entered| entered.take_if(is_that)));
}

/// Lets the calling thread leave the pool again, unless it is kept.
pub(crate) struct LeavesOnDrop(Option<User>);

impl LeavesOnDrop {
    pub(crate) fn new(registry: &User) -> Self {
        Self(Some(User::clone(registry)))
    }

    pub(crate) fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for LeavesOnDrop {
    fn drop(&mut self) {
        if let Some(registry) = self.0.take() {
            leave(&registry);
        }
    }
}
