//! Futures polled by hand, with wakers that count or panic.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// Polls once with a waker that does nothing.
pub(crate) fn poll_once<F: Future>(future: &mut Pin<Box<F>>) -> Poll<F::Output> {
    future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

#[derive(Clone, Copy)]
#[allow(dead_code, reason = "not every file of tests needs both")]
pub(crate) enum Panics {
    InWake,
    InDrop,
}

struct Counting {
    wakes: Arc<AtomicUsize>,
    panics: Option<Panics>,
}

impl Wake for Counting {
    fn wake(self: Arc<Self>) {
        self.wakes.fetch_add(1, Ordering::Relaxed);
        assert!(!matches!(self.panics, Some(Panics::InWake)), "on purpose");
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        let now = matches!(self.panics, Some(Panics::InDrop)) && !std::thread::panicking();
        assert!(!now, "on purpose");
    }
}

/// One poll that finds nothing, with a waker that counts its calls, and may panic.
#[allow(dead_code, reason = "not every file of tests needs it")]
pub(crate) fn poll_counting<F: Future>(future: &mut Pin<Box<F>>, panics: Option<Panics>) -> Arc<AtomicUsize> {
    let wakes = Arc::new(AtomicUsize::new(0));
    let waker = Waker::from(Arc::new(Counting {
        wakes: Arc::clone(&wakes),
        panics,
    }));
    assert!(
        future
            .as_mut()
            .poll(&mut Context::from_waker(&waker))
            .is_pending()
    );
    wakes
}
