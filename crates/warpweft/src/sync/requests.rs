//! The requests for permits that wait, and what a dump sees of them.

use super::lazy_state::WaitState;
use super::owner::Holders;
use super::permit::MARK_SHIFT;
use super::semaphore::Semaphore;
use super::wait_list::WaitList;
use crate::observe::raw::{BOUNDED_SCOPE, LIMIT, POOL, RawWait, RawWhat};
use std::num::NonZeroUsize;
use std::sync::Arc;

/// How many permits a waiter wants, and what became of it, in one word: each waiter has two copies.
///
/// ```text
///   ┌─ mark ─┬─────┬─────────┬──────────── wanted ┐     REFUSED: it will get none
///   └────────┴─ 1 ─┴ REFUSED ┴────────────────────┘
/// ```
#[derive(Debug)]
pub(crate) struct PermitRequest(NonZeroUsize);

/// Always set: the word is never 0.
const SET: NonZeroUsize = NonZeroUsize::new(1 << (MARK_SHIFT - 1)).expect("a bit is set");
const REFUSED: usize = 1 << (MARK_SHIFT - 2);
const _: () = assert!(Semaphore::MAX_PERMITS < REFUSED);

impl PermitRequest {
    /// At most [`MAX_PERMITS`](Semaphore::MAX_PERMITS).
    #[inline]
    pub(super) fn new(wanted: usize) -> Self {
        Self(SET | wanted)
    }

    #[inline]
    pub(super) fn wanted(&self) -> usize {
        self.0.get() & (REFUSED - 1)
    }

    pub(super) fn refuse(&mut self) {
        self.0 |= REFUSED;
    }

    pub(super) fn is_refused(&self) -> bool {
        self.0.get() & REFUSED != 0
    }

    /// Notes that it was given permits which have the slot with that mark, or none.
    pub(super) fn give(&mut self, mark: u8) {
        self.0 |= usize::from(mark) << MARK_SHIFT;
    }

    /// Returns the mark of its slot, once it was given permits.
    pub(super) fn mark(&self) -> u8 {
        (self.0.get() >> MARK_SHIFT) as u8
    }
}

/// The requests that wait.
#[derive(Debug)]
pub(crate) struct Requests {
    pub(super) list: WaitList<PermitRequest>,
    /// How many permits were free when that was last computed; exact while a task waits.
    pub(super) free: usize,
    /// How many there are, as of the last wait.
    pub(super) all: usize,
    /// The marks of the slots that permits have, as of then.
    pub(super) marks: u8,
    /// Waiters that are given permits are noted. Not where the one that waits takes them for others.
    pub(super) notes_waiters: bool,
    kind: &'static str,
}

impl WaitState for Requests {
    type Beside = Holders;

    fn empty(kind: &'static str) -> Self {
        Self {
            list: WaitList::new(),
            free: 0,
            all: 0,
            marks: 0,
            notes_waiters: ![LIMIT, POOL, BOUNDED_SCOPE].contains(&kind),
            kind,
        }
    }

    fn each(&self, holders: &Holders, object: usize, see: &mut dyn FnMut(RawWait)) {
        let first = self.list.front().map_or(0, PermitRequest::wanted);
        let noted: Arc<[_]> = holders.marked(self.marks).collect();
        let what = |request: &PermitRequest| RawWhat::Permits {
            kind: self.kind,
            wanted: request.wanted(),
            free: self.free,
            // Where a task takes permits for others, it is not known which tasks have them.
            all: if holders.are_passed_on() { 0 } else { self.all },
            first,
            holders: Arc::clone(&noted),
        };
        self.list.each(object, what, see);
    }
}
