//! A node of the tree of tokens: a flag, the children to pass it on to, and the wakers of those that wait.
//!
//! ```text
//!   root ◀── strong ── child ◀── strong ── grandchild      each has a place in the lists of its parents
//!     └─── weak ────────▶ └──── weak ────────▶              cancel: downwards; drop: leaves the place
//! ```
//!
//! # Invariants
//!
//! - The flag is set once, under the lock. A thread that finds it clear under the lock may enter the lists;
//!   afterwards nothing enters, and the lists are empty. So no child and no waker is missed.
//! - A node leaves the lists of its parents when it is dropped: a long-lived parent keeps nothing of it.
//! - No foreign code runs under a lock: wakers are cloned before it is taken, and called and dropped after it
//!   is released. No two locks are held at a time.
//! - Neither a cancellation nor a drop recurses, so a chain may be as long as memory allows.

use super::deadline_waits::{DeadlineWaits, task_of};
use super::slab::Slab;
use std::any::Any;
use std::collections::HashSet;
use std::fmt;
use std::mem;
use std::sync::{Arc, Weak};
use std::task::Waker;
use warpweft_platform::atomic::{AtomicU32, Ordering};
use warpweft_platform::delay;
use warpweft_platform::panics;
use warpweft_platform::sync::Mutex;

/// Not cancelled.
const LIVE: u32 = 0;

/// Why a token is cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    /// By a call.
    Asked = 1,
    /// Its deadline has passed.
    Deadline = 2,
}

/// What a node is made with, and its children inherit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// When it is cancelled by itself; `u64::MAX`: never.
    pub(crate) deadline_ns: u64,
    /// How long a future may continue after the request.
    pub(crate) grace_ns: u64,
}

pub(crate) struct Node {
    /// A [`Reason`], or [`LIVE`].
    reason: AtomicU32,
    limits: Limits,
    lists: Mutex<Lists>,
    /// The wakers once more, for reports.
    deadline_waits: DeadlineWaits,
}

#[derive(Default)]
struct Lists {
    children: Slab<Weak<Node>>,
    wakers: Slab<Waker>,
    /// Its parents, and its place in each.
    parents: [Option<(Arc<Node>, usize)>; 2],
    /// The timer of its deadline.
    timer: Option<Box<dyn Any + Send>>,
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node")
            .field("reason", &self.reason())
            .finish_non_exhaustive()
    }
}

impl Node {
    pub(crate) fn root(limits: Limits) -> Arc<Self> {
        Arc::new(Self {
            reason: AtomicU32::new(LIVE),
            limits,
            lists: Mutex::default(),
            deadline_waits: DeadlineWaits::default(),
        })
    }

    /// Creates a node that is cancelled when one of its parents is. If one of them is already, it is, too.
    pub(crate) fn child(parents: [Option<&Arc<Self>>; 2], limits: Limits) -> Arc<Self> {
        let node = Self::root(limits);
        let links = parents.map(|parent| {
            let parent = parent?;
            let place = parent.enter(|lists| lists.children.insert(Arc::downgrade(&node)));
            match place {
                Ok(place) => Some((Arc::clone(parent), place)),
                Err(reason) => {
                    node.cancel(reason);
                    None
                }
            }
        });
        node.lists.lock().parents = links;
        node
    }

    /// Calls `enter` under the lock, unless the node is cancelled. In a forked child the lists may be lost:
    /// then nothing enters, either.
    fn enter<R>(&self, enter: impl FnOnce(&mut Lists) -> R) -> Result<R, Reason> {
        let mut lists = self.lists.lock_unless_lost().ok_or(Reason::Asked)?;
        match self.reason() {
            None => Ok(enter(&mut lists)),
            Some(reason) => Err(reason),
        }
    }

    pub(crate) fn limits(&self) -> Limits {
        self.limits
    }

    #[inline]
    pub(crate) fn is_cancelled(&self) -> bool {
        self.reason().is_some()
    }

    #[inline]
    pub(crate) fn reason(&self) -> Option<Reason> {
        // Ordering: Acquire pairs with `close`: what came before the cancellation is visible.
        match self.reason.load(Ordering::Acquire) {
            LIVE => None,
            reason if reason == Reason::Deadline as u32 => Some(Reason::Deadline),
            _ => Some(Reason::Asked),
        }
    }

    /// Cancels the node and everything below it, and wakes what waits for that. Returns true if this call did
    /// it. When it returns, every node that was below before is cancelled, unless another call is about to.
    ///
    /// # Panics
    ///
    /// With the panic of the first waker that panicked, after the others were woken.
    pub(crate) fn cancel(self: &Arc<Self>, reason: Reason) -> bool {
        let (mut below, mut wakers) = (Vec::new(), Vec::new());
        if !self.close(reason, &mut below, &mut wakers) {
            return false;
        }
        while let Some(node) = below.pop() {
            node.close(reason, &mut below, &mut wakers);
        }
        panics::for_each(wakers, Waker::wake);
        true
    }

    /// Cancels the node, and all above it whose deadline has passed at that moment. Their timers may not have
    /// been looked at.
    ///
    /// # Panics
    ///
    /// As [`cancel`](Self::cancel).
    pub(crate) fn cancel_due(self: &Arc<Self>, now_ns: u64) {
        let (mut nodes, mut due) = (vec![Arc::clone(self)], Vec::new());
        // As in `is_below`.
        let mut seen = HashSet::new();
        while let Some(node) = nodes.pop() {
            if node.limits.deadline_ns > now_ns || !seen.insert(Arc::as_ptr(&node)) {
                continue;
            }
            if let Some(lists) = node.lists.lock_unless_lost() {
                let parents = lists.parents.iter().flatten();
                nodes.extend(parents.map(|(parent, _)| Arc::clone(parent)));
            }
            due.push(node);
        }
        for node in due {
            node.cancel(Reason::Deadline);
        }
    }

    fn close(&self, reason: Reason, below: &mut Vec<Arc<Self>>, wakers: &mut Vec<Waker>) -> bool {
        let lists = self.enter(|lists| {
            // Ordering: Release publishes what the caller did before.
            self.reason.store(reason as u32, Ordering::Release);
            (
                mem::take(&mut lists.children),
                mem::take(&mut lists.wakers),
                lists.timer.take(),
            )
        });
        let Ok((children, waiting, _timer)) = lists else {
            return false;
        };
        delay::point("cancel: closed");
        below.extend(children.into_values().filter_map(|child| child.upgrade()));
        wakers.extend(waiting.into_values());
        true
    }

    /// Enters a waker, which is called once, when the node is cancelled. `None`: it is cancelled already.
    pub(crate) fn insert_waker(&self, waker: Waker) -> Option<usize> {
        let task = task_of(&waker);
        let mut waker = Some(waker);
        // A waker that did not enter is dropped after the lock is released.
        let place = self.enter(|lists| waker.take().map(|waker| lists.wakers.insert(waker)));
        let place = place.ok().flatten()?;
        self.deadline_waits.note(self.limits.deadline_ns, place, task);
        Some(place)
    }

    /// Replaces the waker in that place, unless it wakes the same task.
    pub(crate) fn renew_waker(&self, place: usize, waker: &Waker) {
        let same = self.enter(|lists| {
            let there = lists.wakers.get_mut(place);
            there.is_none_or(|there| there.will_wake(waker))
        });
        if same == Ok(false) {
            let mut waker = waker.clone();
            self.deadline_waits
                .note(self.limits.deadline_ns, place, task_of(&waker));
            let _ = self.enter(|lists| {
                if let Some(there) = lists.wakers.get_mut(place) {
                    mem::swap(there, &mut waker);
                }
            });
        }
    }

    /// Removes the waker from that place. After a cancellation there is none.
    pub(crate) fn remove_waker(&self, place: usize) {
        // First: then the place may be another waker's.
        self.deadline_waits.forget(place);
        let waker = self.enter(|lists| lists.wakers.remove(place));
        drop(waker);
    }

    /// Keeps what cancels the node at its deadline until the node is cancelled or dropped.
    pub(crate) fn keep_timer(&self, timer: Box<dyn Any + Send>) {
        let mut timer = Some(timer);
        let _ = self.enter(|lists| mem::swap(&mut lists.timer, &mut timer));
    }

    /// Returns true if `other` is this node or above it. Looks at each node above it once or twice.
    pub(crate) fn is_below(self: &Arc<Self>, other: *const Self) -> bool {
        let mut nodes = vec![Arc::clone(self)];
        // Two ways that part at a node with two parents may meet again. Such a node is looked at once: from
        // nested ones there are as many ways as powers of two. This node keeps all of them alive.
        let mut seen = HashSet::new();
        while let Some(node) = nodes.pop() {
            if std::ptr::eq(Arc::as_ptr(&node), other) {
                return true;
            }
            let Some(lists) = node.lists.lock_unless_lost() else {
                continue;
            };
            if lists.parents.iter().all(Option::is_some) && !seen.insert(Arc::as_ptr(&node)) {
                continue;
            }
            nodes.extend(
                lists
                    .parents
                    .iter()
                    .flatten()
                    .map(|(parent, _)| Arc::clone(parent)),
            );
        }
        false
    }

    /// Leaves the lists of the parents, and returns them.
    fn unlink(&self) -> impl Iterator<Item = Arc<Self>> + use<> {
        let lists = self.lists.lock_unless_lost();
        let parents = lists
            .map(|mut lists| mem::take(&mut lists.parents))
            .unwrap_or_default();
        parents.into_iter().flatten().map(|(parent, place)| {
            let child = parent.enter(|lists| lists.children.remove(place));
            drop(child);
            parent
        })
    }

    #[cfg(all(test, not(any(warpweft_loom, warpweft_shuttle))))]
    pub(crate) fn places(&self) -> usize {
        self.lists.lock().children.places()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let mut above: Vec<_> = self.unlink().collect();
        while let Some(node) = above.pop() {
            if let Some(node) = Arc::into_inner(node) {
                above.extend(node.unlink());
            }
        }
    }
}

#[cfg(all(test, not(any(warpweft_loom, warpweft_shuttle))))]
mod tests {
    use super::{Limits, Node, Reason};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use std::task::{Wake, Waker};

    const NONE: Limits = Limits {
        deadline_ns: u64::MAX,
        grace_ns: 0,
    };

    fn child(parent: &Arc<Node>) -> Arc<Node> {
        Node::child([Some(parent), None], NONE)
    }

    /// Counts its calls.
    #[derive(Default)]
    struct Counts(AtomicUsize);

    impl Wake for Counts {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    #[test]
    fn a_cancellation_goes_down_and_not_up_or_sideways() {
        let root = Node::root(NONE);
        let (left, right) = (child(&root), child(&root));
        let below = child(&left);
        let lowest = child(&below);
        assert!(left.cancel(Reason::Asked));
        assert!(!left.cancel(Reason::Deadline), "once");
        assert_eq!(below.reason(), Some(Reason::Asked));
        assert_eq!(lowest.reason(), Some(Reason::Asked));
        assert!(!root.is_cancelled() && !right.is_cancelled());
        assert!(child(&below).is_cancelled(), "born below a cancelled one");
        assert!(below.is_below(Arc::as_ptr(&below)) && right.is_below(Arc::as_ptr(&root)));
        assert!(!root.is_below(Arc::as_ptr(&right)));
    }

    #[test]
    fn either_of_two_parents_cancels() {
        for which in [0, 1] {
            let parents = [Node::root(NONE), Node::root(NONE)];
            let node = Node::child([Some(&parents[0]), Some(&parents[1])], NONE);
            assert!(parents.iter().all(|parent| node.is_below(Arc::as_ptr(parent))));
            parents[which].cancel(Reason::Deadline);
            assert_eq!(node.reason(), Some(Reason::Deadline));
            assert!(!parents[1 - which].is_cancelled());
        }
    }

    /// There are 2⁶⁴ ways from the lowest node to the root.
    #[test]
    fn nodes_with_two_parents_are_looked_at_once() {
        let other = Node::root(NONE);
        let mut node = Node::root(NONE);
        for _ in 0..64 {
            let (left, right) = (child(&node), child(&node));
            node = Node::child([Some(&left), Some(&right)], NONE);
        }
        let (send, receive) = std::sync::mpsc::channel();
        let looks = std::thread::Builder::new();
        let looks = looks.spawn(move || send.send(node.is_below(Arc::as_ptr(&other))));
        looks.expect("a thread");
        let found = receive.recv_timeout(std::time::Duration::from_secs(20));
        assert_eq!(found, Ok(false), "it looks at each way");
    }

    #[test]
    fn a_waker_is_called_once_or_removed() {
        let root = Node::root(NONE);
        let counts: [_; 3] = std::array::from_fn(|_| Arc::new(Counts::default()));
        let wakers = counts.each_ref().map(|count| Waker::from(Arc::clone(count)));
        let places = [0, 1].map(|n| root.insert_waker(wakers[n].clone()).expect("live"));
        root.renew_waker(places[0], &wakers[2]);
        root.remove_waker(places[1]);
        root.cancel(Reason::Asked);
        root.cancel(Reason::Asked);
        assert_eq!(counts.each_ref().map(|count| count.0.load(Relaxed)), [0, 0, 1]);
        assert_eq!(root.insert_waker(wakers[0].clone()), None);
        root.remove_waker(places[0]);
        drop(wakers);
        assert_eq!(counts.each_ref().map(Arc::strong_count), [1; 3], "none is kept");
    }

    #[test]
    fn a_million_children_leave_nothing_behind() {
        let root = Node::root(NONE);
        for _ in 0..1_000_000 {
            drop(child(&root));
        }
        assert!(root.places() <= 64, "one place was used again and again");
        let children: Vec<_> = (0..100_000).map(|_| child(&root)).collect();
        assert!(root.places() >= 100_000);
        drop(children);
        assert!(root.places() <= 64);
        assert_eq!(Arc::strong_count(&root), 1);
        assert_eq!(Arc::weak_count(&root), 0);
    }

    #[test]
    fn a_long_chain_is_cancelled_and_dropped_without_recursion() {
        let root = Node::root(NONE);
        let mut last = Arc::clone(&root);
        for _ in 0..200_000 {
            last = child(&last);
        }
        let small = std::thread::Builder::new().stack_size(128 << 10);
        let end = small.spawn(move || {
            root.cancel(Reason::Asked);
            assert!(last.is_cancelled());
            drop((root, last));
        });
        end.expect("a thread").join().expect("a small stack is enough");
    }

    #[test]
    fn a_waker_that_panics_keeps_no_other_from_being_called() {
        struct Panics;
        impl Wake for Panics {
            fn wake(self: Arc<Self>) {
                std::panic::resume_unwind(Box::new("a waker"));
            }
        }
        let (root, count) = (Node::root(NONE), Arc::new(Counts::default()));
        let below = child(&root);
        root.insert_waker(Waker::from(Arc::new(Panics))).expect("live");
        root.insert_waker(Waker::from(Arc::clone(&count))).expect("live");
        below.insert_waker(Waker::from(Arc::clone(&count))).expect("live");
        let cancel = std::panic::AssertUnwindSafe(|| root.cancel(Reason::Asked));
        assert!(std::panic::catch_unwind(cancel).is_err());
        assert_eq!(count.0.load(Relaxed), 2);
        assert!(below.is_cancelled());
    }
}
