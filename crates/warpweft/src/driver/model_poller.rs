//! The poller of the model checkers and of the simulator. It accepts no descriptors of the system. Under the
//! checkers a model fires the events, and time passes when a wait with a time-out ends. In the simulator time
//! is the machine's.

use super::pollable::Pollable;
use super::source::Direction;
use super::sources::Ready;
use std::io;
use warpweft_platform::sync::{Condvar, Mutex};

#[derive(Debug, Default)]
struct PollerState {
    notified: bool,
    fired: Vec<Ready>,
    #[cfg(not(warpweft_sim))]
    now_ns: u64,
}

#[derive(Debug)]
pub(crate) struct Poller {
    state: Mutex<PollerState>,
    wakeup: Condvar,
}

#[derive(Debug)]
pub(crate) struct Events(Vec<Ready>);

/// True if the poller sets [`Ready::marked`].
#[cfg(feature = "net")]
pub(crate) const TELLS_ENDS: bool = true;

impl Events {
    pub(crate) fn new() -> Self {
        Self(Vec::new())
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Ready> {
        self.0.iter().copied()
    }
}

impl Poller {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            state: Mutex::new(PollerState::default()),
            wakeup: Condvar::new(),
        })
    }

    /// # Safety
    ///
    /// None: only the system's poller has conditions.
    pub(crate) unsafe fn add(&self, _io: Pollable<'_>, _key: usize) -> io::Result<()> {
        Err(io::Error::new(
            io::ErrorKind::Unsupported,
            if cfg!(warpweft_sim) {
                "the simulator (--cfg warpweft_sim) has no sockets, files or signals, only timers"
            } else {
                "under the model checkers there are no descriptors, only pipes of `io::model`"
            },
        ))
    }

    pub(crate) fn delete(&self, _io: Pollable<'_>, _key: usize) -> io::Result<()> {
        Ok(())
    }

    #[allow(
        clippy::unused_self,
        clippy::unnecessary_wraps,
        reason = "as the system's poller"
    )]
    pub(crate) fn arm(&self, _io: Pollable<'_>, _key: usize, _direction: Direction) -> io::Result<()> {
        Ok(())
    }

    pub(crate) fn wait(&self, events: &mut Events, ns: Option<u64>) -> io::Result<()> {
        let mut state = self.state.lock();
        while !state.notified && state.fired.is_empty() {
            match ns {
                None => state = self.wakeup.wait(state),
                #[cfg(warpweft_sim)]
                Some(ns) => {
                    state = self.wakeup.wait_for(state, ns);
                    break;
                }
                #[cfg(not(warpweft_sim))]
                Some(ns) => {
                    state.now_ns = state.now_ns.saturating_add(ns);
                    break;
                }
            }
        }
        state.notified = false;
        events.0.append(&mut state.fired);
        Ok(())
    }

    pub(crate) fn notify(&self) {
        self.state.lock().notified = true;
        self.wakeup.notify_one();
    }

    pub(crate) fn now_ns(&self) -> u64 {
        #[cfg(warpweft_sim)]
        return warpweft_platform::clock::now_ns();
        #[cfg(not(warpweft_sim))]
        self.state.lock().now_ns
    }

    /// Fires an event, in place of the system.
    #[cfg(warpweft_shuttle)]
    pub(crate) fn fire(&self, ready: Ready) {
        self.state.lock().fired.push(ready);
        self.wakeup.notify_one();
    }
}
