//! A thread waits for a future.

use crate::signal::Signal;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use warpweft_platform::park::Parker;
use warpweft_platform::thread_word;

/// How a thread of a pool waits: it returns when the signal is set, and meanwhile somebody else has its worker.
/// `false`: the thread carries no worker, and may park like any other.
pub type Wait = fn(&Signal) -> bool;

// Set by the runtime on its threads; it lives here because waiting asks for it.
thread_word!(static WAIT: Option<Wait> = None);

/// Says how the calling thread waits from now on.
pub fn set_wait(wait: Option<Wait>) {
    WAIT.with(|word| word.set(wait));
}

/// What the waker of a blocked thread does: it wakes the thread, or makes its token runnable.
#[derive(Default)]
struct Wakeup {
    signal: Signal,
    parker: Parker,
}

impl Wakeup {
    fn wait(&self) {
        match WAIT.with(std::cell::Cell::get) {
            Some(wait) if wait(&self.signal) => {
                self.signal.take();
            }
            _ => self.parker.park(),
        }
    }
}

impl Wake for Wakeup {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Both: which of them the thread waits for may change from one wait to the next. What is left over makes it
        // look once too often.
        self.signal.set();
        self.parker.unpark();
    }
}

/// Runs `future` on this thread until it has a result; the thread sleeps while the future waits.
///
/// In a task, the thread gives its worker to another thread meanwhile, and goes on when a worker is given to it. That
/// costs two hand-overs between threads, some 10 to 20 µs, and a thread for each frame that waits: await where you can.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let wakeup = Arc::new(Wakeup::default());
    let waker = Waker::from(Arc::clone(&wakeup));
    let mut cx = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut cx) {
            return output;
        }
        wakeup.wait();
    }
}
