//! The pool that a thread has entered, because it is the first thread of that pool.

use crate::registry::Registry;
use std::cell::RefCell;
use std::sync::Arc;
use warpweft::EnteredThread;

/// What a thread keeps while it is in a pool. It keeps the registry, too: free functions of this crate find
/// it through the thread.
struct Entered {
    registry: Arc<Registry>,
    thread: Option<EnteredThread>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        // Another thread takes its place, if there is one to be had.
        self.registry.let_start();
        drop(self.thread.take());
    }
}

thread_local! {
    static ENTERED: RefCell<Option<Entered>> = const { RefCell::new(None) };
}

/// Keeps the calling thread in the pool of that registry, until it leaves or ends.
pub(crate) fn keep(registry: &Arc<Registry>, thread: EnteredThread) {
    ENTERED.set(Some(Entered {
        registry: Arc::clone(registry),
        thread: Some(thread),
    }));
}

/// Lets the calling thread leave the pool of that registry, if it has entered that.
pub(crate) fn leave(registry: &Registry) {
    let is_that = |entered: &mut Entered| std::ptr::eq(Arc::as_ptr(&entered.registry), registry);
    drop(ENTERED.with_borrow_mut(|entered| entered.take_if(is_that)));
}
