//! Blocks a thread until a future has its result.

use crate::frame::{Frame, FrameKind, here};
use crate::latch::Latch;
use crate::wakeup::Wakeup;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use warpweft_platform::counter::Replaceable;
use warpweft_platform::process;
use warpweft_platform::thread_word;

/// Polls once. Returns true if the wait is over.
pub type PollOnce<'a> = &'a mut dyn FnMut(&mut Context<'_>) -> bool;

/// How a stack of a pool's thread blocks.
#[derive(Debug)]
pub struct BlockingHooks {
    /// Returns when the latch is set; another thread has the worker meanwhile. Returns false if the thread
    /// carries no worker, and may park like any other.
    pub wait: fn(&Latch) -> bool,
    /// Calls the closure at once, and again whenever the waker that it was given is called, until it returns
    /// true. Returns false, without a call, if this stack has no waker.
    pub drive: fn(PollOnce<'_>) -> bool,
}

/// Waits for a handle where the wait may be stopped. Returns false, without a call, where it may not.
pub type StoppableWait = fn(PollOnce<'_>) -> bool;

static NEVER_STOPS: StoppableWait = |_| false;

static STOPPABLE_WAIT: Replaceable<StoppableWait> = Replaceable::new(&NEVER_STOPS);

/// Makes all handles of the process ask `wait` from now on, before they block a thread.
pub fn set_stoppable_wait(wait: &'static StoppableWait) {
    STOPPABLE_WAIT.set(wait);
}

// The runtime sets it on its threads. It is here because waiting reads it.
thread_word!(static WAYS: Option<&'static BlockingHooks> = None);

/// Sets how the calling thread blocks from now on.
pub fn set_wait(hooks: Option<&'static BlockingHooks>) {
    WAYS.with(|word| word.set(hooks));
}

fn hooks() -> Option<&'static BlockingHooks> {
    WAYS.with(std::cell::Cell::get)
}

fn wait(wakeup: &Arc<Wakeup>) {
    // A report may look at it: see `wakeup::look`.
    let key = Arc::as_ptr(wakeup).expose_provenance();
    match hooks() {
        Some(hooks) if (hooks.wait)(&wakeup.latch) => {
            wakeup.latch.take();
        }
        _ if process::generation() == 0 => {
            let frame = Frame::new(key, here(), FrameKind::Waits);
            frame.during_outside(|| wakeup.parker.park());
            // For reports: the next wait is another one. A wake that sets it again also unparks.
            wakeup.latch.take();
        }
        _ => wait_in_child(wakeup),
    }
}

/// Parks the thread in a forked child, where the source of the wake-up may have stayed in the parent.
#[cold]
fn wait_in_child(wakeup: &Wakeup) {
    if !wakeup.parker.park_unless_alone() {
        process::refuse_wait(
            "a wait that nothing can end: this process was made by fork() and has one thread, and what could \
             end the wait stayed in the parent",
        );
    }
}

/// Runs `future` on this thread until it has a result; the thread sleeps while the future waits.
///
/// In a task, the thread gives its worker to another thread meanwhile, and continues when it is given a
/// worker. That costs two hand-overs between threads, some 10 to 20 µs, and a thread for each frame that
/// waits. Await where you can.
///
/// # Panics
///
/// In a child made by `fork()` that has no other thread, if the future waits: nothing could end the wait.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let mut output = None;
    let mut future = pin!(future);
    block_until(&mut poll_into(future.as_mut(), &mut output));
    output.unwrap_or_else(|| unreachable!("the wait ends with the output"))
}

/// Waits as [`block_on`] does, until the closure returns true.
///
/// # Panics
///
/// As [`block_on`].
pub fn block_until(look: PollOnce<'_>) {
    if hooks().is_some_and(|hooks| (hooks.drive)(look)) {
        return;
    }
    let wakeup = Arc::new(Wakeup::default());
    let waker = Waker::from(Arc::clone(&wakeup));
    let mut cx = Context::from_waker(&waker);
    while !look(&mut cx) {
        wait(&wakeup);
    }
}

/// As [`block_on`], but unwinds if the code that waits is stopped.
pub(crate) fn block_stoppably<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    through(*STOPPABLE_WAIT.get(), future.as_mut()).unwrap_or_else(|| block_on(future))
}

/// Lets `wait` wait for the future. `None`: it does not, and the future was not polled.
fn through<F: Future>(wait: fn(PollOnce<'_>) -> bool, future: Pin<&mut F>) -> Option<F::Output> {
    let mut output = None;
    wait(&mut poll_into(future, &mut output));
    output
}

/// Returns a closure that polls `future`, until its result is in `output`: then it returns true. What waits
/// for the closure is compiled once, and not for each type of a future.
pub fn poll_into<F: Future>(
    mut future: Pin<&mut F>,
    output: &mut Option<F::Output>,
) -> impl FnMut(&mut Context<'_>) -> bool {
    move |cx| match future.as_mut().poll(cx) {
        Poll::Ready(value) => {
            *output = Some(value);
            true
        }
        Poll::Pending => false,
    }
}
