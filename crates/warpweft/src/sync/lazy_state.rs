//! The state of a primitive that has had a waiter: on the heap, where a dump finds it.
//!
//! A primitive may be moved while no task waits, and a wait may be leaked. So no dump follows a pointer to
//! the primitive itself. Its list of waiters has its own place, from the first wait until the primitive
//! is dropped.
//!
//! # Invariants
//!
//! - A node is in the register of objects from its creation until the primitive is dropped.
//! - Nothing is entered into that register, or removed from it, under the lock of a node.

use crate::observe::raw::{RawWait, Watched, objects};
use std::ptr::NonNull;
use std::sync::OnceLock;
use warpweft_platform::sync::Mutex;
use warpweft_task::registry::Entry;

/// The state behind the lock of a primitive.
pub(crate) trait WaitState: Send + 'static {
    /// What belongs to the state, and is written without the lock.
    type Beside: Default + Send + Sync;

    /// Returns the state before the first wait.
    fn empty(kind: &'static str) -> Self;

    /// Calls `see` for each waiter. `object` identifies the primitive.
    fn each(&self, beside: &Self::Beside, object: usize, see: &mut dyn FnMut(RawWait));
}

/// The state of a primitive, created at the first wait.
pub(crate) struct LazyState<S: WaitState> {
    kind: &'static str,
    node: OnceLock<(Box<WaitNode<S>>, Option<Entry>)>,
}

pub(crate) struct WaitNode<S: WaitState> {
    pub(crate) state: Mutex<S>,
    pub(crate) beside: S::Beside,
}

impl<S: WaitState> Watched for WaitNode<S> {
    fn look(&self, see: &mut dyn FnMut(RawWait)) {
        // In a forked child the lock may be lost.
        if let Some(state) = self.state.lock_unless_lost() {
            state.each(&self.beside, std::ptr::from_ref(self).addr(), see);
        }
    }
}

impl<S: WaitState> LazyState<S> {
    /// Returns the state, not yet created, of a primitive that dumps call `kind`.
    pub(crate) const fn new(kind: &'static str) -> Self {
        Self {
            kind,
            node: OnceLock::new(),
        }
    }

    /// Returns the state; the first call creates it.
    #[inline]
    pub(crate) fn node(&self) -> &WaitNode<S> {
        match self.node.get() {
            Some((node, _)) => node,
            None => self.create(),
        }
    }

    /// Returns what belongs to the state, if there is one.
    #[inline]
    pub(crate) fn beside(&self) -> Option<&S::Beside> {
        self.node.get().map(|(node, _)| &node.beside)
    }

    /// Returns what identifies the primitive in dumps: 0 before the first wait.
    pub(crate) fn object(&self) -> usize {
        self.node
            .get()
            .map_or(0, |(node, _)| std::ptr::from_ref(&**node).addr())
    }

    #[cold]
    #[inline(never)]
    fn create(&self) -> &WaitNode<S> {
        let create = || {
            let node = Box::new(WaitNode {
                state: Mutex::new(S::empty(self.kind)),
                beside: S::Beside::default(),
            });
            let object = NonNull::from(&*node) as NonNull<dyn Watched>;
            // SAFETY: the box stays where it is until `drop` removes the entry. The node is `Sync`.
            let entry = objects().map(|objects| unsafe { objects.insert(object) });
            (node, entry)
        };
        &self.node.get_or_init(create).0
    }
}

impl<S: WaitState> Drop for LazyState<S> {
    fn drop(&mut self) {
        if let Some((node, entry)) = self.node.take() {
            if let (Some(objects), Some(entry)) = (objects(), entry) {
                objects.remove(entry);
            }
            drop(node);
        }
    }
}
