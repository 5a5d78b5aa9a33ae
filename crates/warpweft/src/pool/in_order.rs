//! Closures that begin in the order in which they came, whatever the order of the policy is: each is put into
//! a queue, and pushed is a job that takes the oldest one.

use std::collections::VecDeque;
use std::sync::Arc;
use warpweft_platform::sync::Mutex;

/// A queue of closures, one for each job that was made for it and has not taken one.
pub(crate) struct InOrder<C>(Mutex<VecDeque<C>>);

impl<C> InOrder<C> {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new(VecDeque::new())))
    }

    /// Enters a closure. Whoever runs the job that is returned calls [`ClosureClaim::take`].
    pub(crate) fn enter(self: &Arc<Self>, closure: C) -> ClosureClaim<C> {
        self.0.lock().push_back(closure);
        ClosureClaim(Some(Arc::clone(self)))
    }
}

/// The right to take the oldest closure. If it is dropped, that closure is.
pub(crate) struct ClosureClaim<C>(Option<Arc<InOrder<C>>>);

impl<C> ClosureClaim<C> {
    /// Takes the oldest closure, and the queue that it comes from.
    pub(crate) fn take(mut self) -> (C, Arc<InOrder<C>>) {
        self.oldest()
            .unwrap_or_else(|| unreachable!("there is a closure for each job"))
    }

    fn oldest(&mut self) -> Option<(C, Arc<InOrder<C>>)> {
        let queue = self.0.take()?;
        // Not in one expression: the lock would be held until its end.
        let oldest = queue.0.lock().pop_front();
        oldest.map(|oldest| (oldest, queue))
    }
}

impl<C> Drop for ClosureClaim<C> {
    fn drop(&mut self) {
        drop(self.oldest());
    }
}
