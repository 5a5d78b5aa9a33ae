//! A plain thread waits for a future.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use warpweft_platform::park::Parker;
use warpweft_platform::thread_word;

// Whether this thread is a worker at the moment. Set by the runtime; it lives here because waiting asks for it.
thread_word!(static WORKER: bool = false);

/// Says whether the calling thread is a worker from now on: a worker does not block on a future.
pub fn set_worker_thread(is_worker: bool) {
    WORKER.with(|worker| worker.set(is_worker));
}

struct Unpark(Parker);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs `future` on this thread until it has a result; the thread sleeps while the future waits.
///
/// # Panics
///
/// On a worker's thread: the worker would be missing from its pool, and with one worker would wait for itself.
#[track_caller]
pub fn block_on<F: Future>(future: F) -> F::Output {
    assert!(
        !WORKER.with(std::cell::Cell::get),
        "a worker thread cannot block on a future: await it instead (`handle.await`), or block on a thread of your own"
    );
    let unpark = Arc::new(Unpark(Parker::new()));
    let waker = Waker::from(Arc::clone(&unpark));
    let mut cx = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut cx) {
            return output;
        }
        unpark.0.park();
    }
}
