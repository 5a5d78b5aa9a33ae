//! Children whose handle was dropped before they ended: they are reaped when they end.
//!
//! A child that ended is a zombie until its parent asks for its status. An orphan is asked by the waker that
//! waits for its end: the thread that polls calls it. So it costs no task and no thread.
//!
//! # Invariants
//!
//! - The orphan's waker owns it, and the source of its [`Ending`] owns the waker. The circle is broken when
//!   the child has ended, or when the driver closes, which calls all wakers.
//! - Wake-ups are counted. The first one polls until no other came during its poll, so no end is missed, and
//!   no wake-up waits for another one: it may come from within the poll, at the end of its
//!   [budget](warpweft_task::budget).

use super::ending::Ending;
use std::process::Child;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker};
use warpweft_platform::atomic::{AtomicUsize, Ordering};
use warpweft_platform::sync::Mutex;

struct Orphan {
    child: Mutex<Option<(Child, Ending)>>,
    /// How many wake-ups came since a poll began; 0 if none is at work.
    woken: AtomicUsize,
}

impl Wake for Orphan {
    fn wake(self: Arc<Self>) {
        self.look();
    }
}

impl Orphan {
    fn look(self: &Arc<Self>) {
        // Ordering: AcqRel here and below, so that a poll sees what was announced before a wake-up that it
        // answers.
        if self.woken.fetch_add(1, Ordering::AcqRel) > 0 {
            return;
        }
        let waker = Waker::from(Arc::clone(self));
        let mut answered = 1;
        while !self.has_ended(&waker) {
            match self
                .woken
                .compare_exchange(answered, 0, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => return,
                Err(woken) => answered = woken,
            }
        }
        // Later wake-ups have nothing to do: the number stays above 0.
    }

    /// Reaps the child if it has ended, and returns true then.
    fn has_ended(&self, waker: &Waker) -> bool {
        let mut held = self.child.lock();
        let Some((child, ending)) = held.as_mut() else {
            return true;
        };
        let Poll::Ready(result) = ending.poll(&mut Context::from_waker(waker), child) else {
            return false;
        };
        let ended = held.take();
        // Outside of the lock: dropping it deletes a registration.
        drop(held);
        if let Some((child, _)) = ended.filter(|_| result.is_err()) {
            // The runtime has shut down.
            leave(child);
        }
        true
    }
}

/// Reaps `child` when it ends.
pub(super) fn adopt(child: Child, ending: Ending) {
    let orphan = Orphan {
        child: Mutex::new(Some((child, ending))),
        woken: AtomicUsize::new(0),
    };
    Arc::new(orphan).look();
}

/// Keeps a child whose end is not announced, until [`sweep`] finds that it has ended.
pub(super) fn leave(child: Child) {
    left().lock().push(child);
}

/// Children whose runtime has shut down before they ended.
fn left() -> &'static Mutex<Vec<Child>> {
    static LEFT: OnceLock<Mutex<Vec<Child>>> = OnceLock::new();
    LEFT.get_or_init(|| Mutex::new(Vec::new()))
}

/// Reaps those that have ended meanwhile.
pub(super) fn sweep() {
    // A child that another part of the program has reaped is an error, and gone.
    left()
        .lock()
        .retain_mut(|child| matches!(child.try_wait(), Ok(None)));
}
