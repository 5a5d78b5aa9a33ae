//! The pool that a thread has entered, because it is the first thread of that pool.

use crate::registry::Registry;
use std::cell::RefCell;
use std::sync::Arc;
use warpweft::EnteredThread;

thread_local! {
    /// The registry, by its address, and what leaves it when it is dropped.
    static ENTERED: RefCell<Option<(*const Registry, EnteredThread)>> = const { RefCell::new(None) };
}

/// Keeps the calling thread in the pool of that registry.
pub(crate) fn keep(registry: &Arc<Registry>, entered: EnteredThread) {
    ENTERED.set(Some((Arc::as_ptr(registry), entered)));
}

/// Lets the calling thread leave the pool of that registry, if it has entered that.
pub(crate) fn leave(registry: &Registry) {
    let entered = ENTERED.with_borrow_mut(|entered| entered.take_if(|(of, _)| std::ptr::eq(*of, registry)));
    if entered.is_some() {
        registry.let_start();
        drop(entered);
    }
}
