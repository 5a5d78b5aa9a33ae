//! The waker of a blocked thread, and what a report sees of it.

use crate::latch::Latch;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::task::Wake;
use warpweft_platform::park::Parker;

/// The waker of a blocked thread: it unparks the thread, or pushes its runnable.
/// `repr(C)`: the address of the latch is that of the waker's data, by which a report knows the thread.
#[derive(Default)]
#[repr(C)]
pub(crate) struct Wakeup {
    pub(crate) latch: Latch,
    pub(crate) parker: Parker,
}

impl Wake for Wakeup {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Both: a thread may wait for another one of them each time. A wake-up that is left over makes it
        // poll once more.
        self.latch.set();
        self.parker.unpark();
    }
}

/// Returns how many wakers of a blocked thread exist, and whether it was woken. For reports.
///
/// # Safety
///
/// `key` is the key of a frame of the kind `FrameKind::Waits`, which is in a register that is locked for the
/// whole call.
pub(crate) unsafe fn look(key: usize) -> (u64, bool) {
    let wakeup = std::ptr::with_exposed_provenance::<Wakeup>(key);
    // SAFETY: by contract the thread is inside of `block_on::wait`, whose caller has two shares: that of the
    // waker with which it polls, and its own. This one is not given up.
    let wakeup = ManuallyDrop::new(unsafe { Arc::from_raw(wakeup) });
    let wakers = Arc::strong_count(&wakeup).saturating_sub(2);
    (wakers as u64, wakeup.latch.is_set())
}
