//! Children whose handle was dropped before they ended: they are reaped when they end.
//!
//! A child that ended is a zombie until its parent asks for its status. An orphan is asked by the waker that
//! waits for its end: the thread that polls calls it. So it costs no task and no thread.
//!
//! # Invariants
//!
//! - The orphan's waker owns it, and the source of its [`Ending`] owns the waker. The circle is broken when
//!   the child has ended, or when the driver closes, which calls all wakers.
//! - A wake-up takes the orphan's lock. It waits for a poll that has begun, and then polls again. So no end
//!   is missed.

use super::ending::Ending;
use std::process::Child;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker};
use warpweft_platform::sync::Mutex;

struct Orphan(Mutex<Option<(Child, Ending)>>);

impl Wake for Orphan {
    fn wake(self: Arc<Self>) {
        self.look();
    }
}

impl Orphan {
    fn look(self: &Arc<Self>) {
        let waker = Waker::from(Arc::clone(self));
        let mut held = self.0.lock();
        let Some((child, ending)) = held.as_mut() else {
            return;
        };
        let polled = ending.poll(&mut Context::from_waker(&waker), child);
        let Poll::Ready(result) = polled else {
            return;
        };
        let ended = held.take();
        // Outside of the lock: dropping it deletes a registration.
        drop(held);
        if let Some((child, _)) = ended.filter(|_| result.is_err()) {
            // The runtime has shut down.
            left().lock().push(child);
        }
    }
}

/// Reaps `child` when it ends.
pub(super) fn adopt(child: Child, ending: Ending) {
    Arc::new(Orphan(Mutex::new(Some((child, ending))))).look();
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
