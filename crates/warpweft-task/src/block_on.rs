//! A thread waits for a future.

use crate::latch::Latch;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use warpweft_platform::park::Parker;
use warpweft_platform::process;
use warpweft_platform::thread_word;

/// Looks once for what somebody waits for; whether it is there.
pub type PollOnce<'a> = &'a mut dyn FnMut(&mut Context<'_>) -> bool;

/// How a stack of a thread of a pool waits.
#[derive(Debug)]
pub struct BlockingHooks {
    /// It returns when the signal is set, and meanwhile somebody else has its worker. `false`: the thread
    /// carries no worker, and may park like any other.
    pub wait: fn(&Latch) -> bool,
    /// Calls the closure until it says that it is done: at once, and whenever the waker that it is given has
    /// been called. `false`: this stack has no waker of its own, and the closure was not called.
    pub drive: fn(PollOnce<'_>) -> bool,
}

// Set by the runtime on its threads; it lives here because waiting asks for it.
thread_word!(static WAYS: Option<&'static BlockingHooks> = None);

/// Says how the calling thread waits from now on.
pub fn set_wait(hooks: Option<&'static BlockingHooks>) {
    WAYS.with(|word| word.set(hooks));
}

fn hooks() -> Option<&'static BlockingHooks> {
    WAYS.with(std::cell::Cell::get)
}

/// What the waker of a blocked thread does: it wakes the thread, or makes its token runnable.
#[derive(Default)]
struct Wakeup {
    latch: Latch,
    parker: Parker,
}

impl Wakeup {
    fn wait(&self) {
        match hooks() {
            Some(hooks) if (hooks.wait)(&self.latch) => {
                self.latch.take();
            }
            _ if process::generation() == 0 => self.parker.park(),
            _ => self.wait_in_child(),
        }
    }

    /// The thread sleeps in a forked child, where what it waits for may have stayed in the parent.
    #[cold]
    fn wait_in_child(&self) {
        if !self.parker.park_unless_alone() {
            process::refuse_wait(
                "a wait that nothing can end: this process was made by fork() and has one thread, and what could \
                 end the wait stayed in the parent",
            );
        }
    }
}

impl Wake for Wakeup {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Both: which of them the thread waits for may change from one wait to the next. What is left over
        // makes it look once too often.
        self.latch.set();
        self.parker.unpark();
    }
}

/// Runs `future` on this thread until it has a result; the thread sleeps while the future waits.
///
/// In a task, the thread gives its worker to another thread meanwhile, and goes on when a worker is given to
/// it. That costs two hand-overs between threads, some 10 to 20 µs, and a thread for each frame that waits:
/// await where you can.
///
/// # Panics
///
/// In a child made by `fork()` that has no other thread, if the future waits: nothing could end the wait.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    if let Some(hooks) = hooks() {
        let mut output = None;
        let mut poll = |cx: &mut Context<'_>| match future.as_mut().poll(cx) {
            Poll::Ready(value) => {
                output = Some(value);
                true
            }
            Poll::Pending => false,
        };
        if (hooks.drive)(&mut poll)
            && let Some(output) = output
        {
            return output;
        }
    }
    let wakeup = Arc::new(Wakeup::default());
    let waker = Waker::from(Arc::clone(&wakeup));
    let mut cx = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut cx) {
            return output;
        }
        wakeup.wait();
    }
}
