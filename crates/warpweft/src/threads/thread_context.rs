//! Contexts: values that a program wants on each thread while it runs code of a pool.
//!
//! # Invariants
//!
//! - A thread enters the contexts before it runs code of the pool, in the order in which they were added, and
//!   leaves them after that code, in the reverse order.
//! - A context is made, kept and dropped on one thread, below all frames that run in it. So it need not be
//!   `Send`, and those that are entered meanwhile have been left before it is.

use std::any::Any;
use std::sync::Arc;
use warpweft_platform::panics::contain;

/// What a thread does for a pool: see [`Builder::thread_context`](crate::Builder::thread_context).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ThreadRole {
    /// It carries workers, and has the one of this number first.
    Worker(usize),
    /// It runs closures of [`spawn_blocking`](crate::spawn_blocking). These threads are counted from 1, and
    /// share their numbers with the closures that wait for one.
    Blocking(usize),
    /// It is not of the pool, and runs a future in [`Runtime::block_on`](crate::Runtime::block_on) or
    /// [`Pool::block_on`](crate::Pool::block_on).
    BlockOn,
}

/// Enters a context, and returns what leaves it when it is dropped.
type EnterContext = dyn Fn(ThreadRole) -> Box<dyn Any> + Send + Sync;

/// The contexts of a pool.
#[derive(Clone, Default)]
pub(crate) struct ThreadContexts(Vec<Arc<EnterContext>>);

impl ThreadContexts {
    pub(crate) fn add<C: 'static>(&mut self, enter: impl Fn(ThreadRole) -> C + Send + Sync + 'static) {
        self.0.push(Arc::new(move |role| Box::new(enter(role))));
    }

    /// Enters all of them on the calling thread. Costs nothing if there are none.
    pub(crate) fn enter(&self, role: ThreadRole) -> EnteredContexts {
        let mut entered = EnteredContexts(Vec::new());
        for enter in &self.0 {
            // The panic hook has reported a panic, and the thread is needed.
            contain(|| entered.0.push(enter(role)));
        }
        entered
    }
}

/// The contexts that the calling thread has entered. Dropping it leaves them.
#[must_use = "dropping it leaves the contexts"]
pub(crate) struct EnteredContexts(Vec<Box<dyn Any>>);

impl EnteredContexts {
    /// No context.
    pub(crate) fn none() -> Self {
        Self(Vec::new())
    }
}

impl Drop for EnteredContexts {
    fn drop(&mut self) {
        while let Some(context) = self.0.pop() {
            // As above, and the contexts below must be left, too.
            contain(|| drop(context));
        }
    }
}
