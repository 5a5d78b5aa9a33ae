//! The requests for permits that wait, and what a report sees of them.

use super::lazy_state::WaitState;
use super::owner::Holder;
use super::wait_list::WaitList;
use crate::observe::raw::{RawWait, RawWhat};

/// How many permits a waiter wants, or that it will get none.
#[derive(Debug)]
pub(crate) struct PermitRequest {
    pub(super) wanted: usize,
    pub(super) refused: bool,
    /// It was given permits while all were free.
    pub(super) is_sole: bool,
}

/// The requests that wait.
#[derive(Debug)]
pub(crate) struct Requests {
    pub(super) list: WaitList<PermitRequest>,
    /// How many permits were free when that was last computed; exact while a task waits.
    pub(super) free: usize,
    /// How many there are, as of the last wait.
    pub(super) all: usize,
    kind: &'static str,
}

impl WaitState for Requests {
    type Beside = Holder;

    fn empty(kind: &'static str) -> Self {
        Self {
            list: WaitList::new(),
            free: 0,
            all: 0,
            kind,
        }
    }

    fn each(&self, holder: &Holder, object: usize, see: &mut dyn FnMut(RawWait)) {
        let first = self.list.front().map_or(0, |request| request.wanted);
        let (holder, held) = holder.get();
        let what = |request: &PermitRequest| RawWhat::Permits {
            kind: self.kind,
            wanted: request.wanted,
            free: self.free,
            all: self.all,
            first,
            holder,
            held,
        };
        self.list.each(object, what, see);
    }
}
