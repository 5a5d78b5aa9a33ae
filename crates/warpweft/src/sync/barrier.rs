//! A barrier: tasks wait until all of them have arrived.

use super::lazy_state::{LazyState, WaitState};
use super::suspend::{Suspend, WaitOp};
use super::wait::Wait;
use super::wait_list::WaitList;
use super::wakers::Wakers;
use crate::observe::raw::{RawWait, RawWhat};
use std::fmt;
use warpweft_platform::sync::Mutex;

/// A number of tasks wait here for each other, repeatedly.
///
/// A wait that is dropped before all have arrived does not count: another task may arrive in its stead.
///
/// ```
/// use std::sync::Arc;
/// use warpweft::{Runtime, sync::Barrier};
///
/// let runtime = Runtime::builder().workers(1).build()?;
/// let barrier = Arc::new(Barrier::new(2));
/// let other = Arc::clone(&barrier);
/// let job = runtime.spawn_job(move || other.arrive().wait());
/// let mine = barrier.arrive().wait();
/// assert_ne!(mine.is_leader(), job.wait()?.is_leader());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Barrier {
    size: usize,
    state: LazyState<BarrierState>,
}

#[derive(Debug)]
pub(super) struct BarrierState {
    /// The number of tasks that have arrived.
    here: usize,
    /// The barrier's size, once a task has arrived.
    size: usize,
    list: WaitList<()>,
}

impl WaitState for BarrierState {
    type Beside = ();

    fn empty(_kind: &'static str) -> Self {
        Self {
            here: 0,
            size: 0,
            list: WaitList::new(),
        }
    }

    fn each(&self, (): &(), object: usize, see: &mut dyn FnMut(RawWait)) {
        let what = |(): &()| RawWhat::Barrier {
            arrived: self.here,
            size: self.size,
        };
        self.list.each(object, what, see);
    }
}

impl Barrier {
    /// Returns a barrier for `size` tasks. With 0 or 1 no task waits.
    #[must_use]
    pub fn new(size: usize) -> Self {
        Self {
            size,
            state: LazyState::new("barrier"),
        }
    }

    /// Waits until all have arrived. The result says which arrival was the last one.
    pub fn arrive(&self) -> Wait<impl Future<Output = Arrival>> {
        Wait::new(Suspend::new(Arriving(self), ()))
    }
}

impl fmt::Debug for Barrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Barrier")
            .field("size", &self.size)
            .finish_non_exhaustive()
    }
}

/// The result of [`Barrier::arrive`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    leader: bool,
}

impl Arrival {
    /// Returns true for the last arrival. That is one task of all, so it may do what must be done once.
    #[must_use]
    pub fn is_leader(self) -> bool {
        self.leader
    }
}

struct Arriving<'a>(&'a Barrier);

impl WaitOp for Arriving<'_> {
    type State = BarrierState;
    type Item = ();
    type Output = Arrival;

    fn state(&self) -> &Mutex<BarrierState> {
        &self.0.state.node().state
    }

    fn list(state: &mut BarrierState) -> &mut WaitList<()> {
        &mut state.list
    }

    fn try_now(&self, (): ()) -> Result<Arrival, ()> {
        // The arrival itself needs the lock.
        Err(())
    }

    fn recheck(&self, state: &mut BarrierState, (): (), wakers: &mut Wakers) -> Result<Arrival, ()> {
        if state.here + 1 < self.0.size {
            state.here += 1;
            state.size = self.0.size;
            return Err(());
        }
        state.here = 0;
        wakers.reserve(state.list.at_most());
        while let Some(((), waker)) = state.list.grant_front() {
            wakers.push(waker);
        }
        Ok(Arrival { leader: true })
    }

    fn granted(&self, (): ()) -> Arrival {
        Arrival { leader: false }
    }

    fn left(&self, state: &mut BarrierState, (): (), granted: bool, _wakers: &mut Wakers) -> Option<()> {
        if !granted {
            state.here -= 1;
        }
        None
    }
}
