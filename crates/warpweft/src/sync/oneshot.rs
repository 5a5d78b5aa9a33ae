//! One value, once: a promise.
//!
//! ```text
//!   word:   WAKER   the receiver has left its waker
//!           SENT    the value is there                 ┐ whoever sets the first of these three
//!           GONE    the sender went without a value    ├ bits decides for both who has
//!           LEFT    the receiver has left              ┘ the waker and the value
//! ```
//!
//! # Invariants
//!
//! - The waker is the receiver's while WAKER is clear. While it is set, it is whose bit comes first: the
//!   sender's after SENT or GONE, the receiver's after LEFT.
//! - The value is the sender's until SENT. After that it is the receiver's, unless LEFT was there first: then
//!   it is the sender's still.
//! - Both hold the memory until they are done with it.

use super::error::{Closed, SendError, TryRecvError};
use crate::execution::listen::block_on;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use warpweft_platform::atomic::{AtomicU32, Ordering};
use warpweft_platform::cell::UnsafeCell;
use warpweft_platform::delay;
use warpweft_platform::sync::Arc;

const WAKER: u32 = 1;
const SENT: u32 = 2;
const GONE: u32 = 4;
const LEFT: u32 = 8;

struct Shared<T> {
    word: AtomicU32,
    value: UnsafeCell<Option<T>>,
    waker: UnsafeCell<Option<Waker>>,
}

// SAFETY: one side at a time reaches the value and the waker, as the invariants say; the value moves between
// threads.
unsafe impl<T: Send> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Shared<T> {}

/// A promise and the right to its value. One allocation; sending costs one atomic read-modify-write.
///
/// ```
/// use warpweft::sync::{Closed, oneshot};
///
/// let (sender, receiver) = oneshot::channel();
/// sender.send(5)?;
/// assert_eq!(receiver.wait(), Ok(5));
///
/// let (sender, receiver) = oneshot::channel::<i32>();
/// drop(sender);
/// assert_eq!(warpweft::block_on(receiver), Err(Closed));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let shared = Arc::new(Shared {
        word: AtomicU32::new(0),
        value: UnsafeCell::new(None),
        waker: UnsafeCell::new(None),
    });
    let sender = Sender {
        shared: Some(Arc::clone(&shared)),
    };
    let receiver = Receiver { shared, over: false };
    (sender, receiver)
}

impl<T> Shared<T> {
    /// # Safety
    ///
    /// The value is the caller's.
    unsafe fn swap_value(&self, value: Option<T>) -> Option<T> {
        self.value.with_mut(|place| {
            // SAFETY: by contract.
            std::mem::replace(unsafe { &mut *place }, value)
        })
    }

    /// # Safety
    ///
    /// The waker is the caller's.
    unsafe fn swap_waker(&self, waker: Option<Waker>) -> Option<Waker> {
        self.waker.with_mut(|place| {
            // SAFETY: by contract.
            std::mem::replace(unsafe { &mut *place }, waker)
        })
    }

    /// The sender's last word: SENT or GONE. Whether the receiver is still there.
    fn end(&self, last: u32) -> bool {
        // Ordering: Release publishes the value; Acquire takes the waker, or what the receiver did before it
        // left.
        let before = self.word.fetch_or(last, Ordering::AcqRel);
        delay::point("oneshot.end: said");
        if before & (WAKER | LEFT) == WAKER {
            // SAFETY: WAKER was set, and the sender's bit came first.
            if let Some(waker) = unsafe { self.swap_waker(None) } {
                waker.wake();
            }
        }
        before & LEFT == 0
    }
}

/// The right to send one value.
#[must_use = "dropping it tells the receiver that there will be no value"]
pub struct Sender<T> {
    /// `None`: it has sent.
    shared: Option<Arc<Shared<T>>>,
}

impl<T> Sender<T> {
    /// Sends the value. Does not wait.
    ///
    /// # Errors
    ///
    /// The receiver has left: the value comes back.
    pub fn send(mut self, value: T) -> Result<(), SendError<T>> {
        let Some(shared) = self.shared.take() else {
            unreachable!("a sender is used up when it sends")
        };
        // SAFETY: SENT is not set, so the value is the sender's.
        let before = unsafe { shared.swap_value(Some(value)) };
        debug_assert!(before.is_none());
        if shared.end(SENT) {
            return Ok(());
        }
        // SAFETY: LEFT was there before SENT, so the value is the sender's still.
        let value = unsafe { shared.swap_value(None) };
        value.map_or(Ok(()), |value| Err(SendError(value)))
    }

    /// Whether the receiver has left, so that sending is in vain.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.shared
            .as_ref()
            .is_none_or(|shared| shared.word.load(Ordering::Relaxed) & LEFT != 0)
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.take() {
            shared.end(GONE);
        }
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender")
            .field("closed", &self.is_closed())
            .finish()
    }
}

/// The right to one value: a future of it, or [`wait`](Receiver::wait) for it.
///
/// # Panics
///
/// Polling it again after it has given its result panics, as with most futures.
#[must_use = "dropping it tells the sender that nobody wants the value"]
pub struct Receiver<T> {
    shared: Arc<Shared<T>>,
    /// It has given its result.
    over: bool,
}

impl<T> Receiver<T> {
    /// Blocks this thread until the value is there. In a task, its worker goes to another thread meanwhile,
    /// as [`block_on`] says.
    ///
    /// # Errors
    ///
    /// The sender went without sending.
    pub fn wait(mut self) -> Result<T, Closed> {
        match self.try_recv() {
            Ok(value) => Ok(value),
            Err(TryRecvError::Closed) => Err(Closed),
            Err(TryRecvError::Empty) => block_on(self),
        }
    }

    /// The value, if it is there.
    ///
    /// # Errors
    ///
    /// It is not there yet, or will never be; also if it was taken already.
    pub fn try_recv(&mut self) -> Result<T, TryRecvError> {
        if self.over {
            return Err(TryRecvError::Closed);
        }
        // Ordering: Acquire pairs with `end`.
        if self.shared.word.load(Ordering::Acquire) & (SENT | GONE) == 0 {
            return Err(TryRecvError::Empty);
        }
        self.take().map_err(|Closed| TryRecvError::Closed)
    }

    /// After SENT or GONE.
    fn take(&mut self) -> Result<T, Closed> {
        self.over = true;
        // SAFETY: SENT or GONE came without LEFT, so the value is the receiver's.
        unsafe { self.shared.swap_value(None) }.ok_or(Closed)
    }

    /// Leaves `waker` for the sender. `Err`: the sender has ended.
    fn leave(&self, waker: &Waker) -> Result<(), ()> {
        let word = &self.shared.word;
        // Ordering: Acquire on failure pairs with `end`; on success nothing of the sender's is read.
        if word.load(Ordering::Acquire) & WAKER != 0 {
            word.compare_exchange(WAKER, 0, Ordering::Relaxed, Ordering::Acquire)
                .map_err(drop)?;
        }
        let waker = Some(waker.clone());
        // SAFETY: WAKER is clear, so the waker is the receiver's.
        let old = unsafe { self.shared.swap_waker(waker) };
        // Ordering: Release gives the waker to the sender. This compare-and-swap is the second look, after
        // the entry: a sender that ended before it found nobody to wake.
        let result = word.compare_exchange(0, WAKER, Ordering::Release, Ordering::Acquire);
        drop(old);
        result.map(drop).map_err(drop)
    }
}

impl<T> Future for Receiver<T> {
    type Output = Result<T, Closed>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        assert!(!self.over, "a receiver was polled after it had given its result");
        // Ordering: Acquire pairs with `end`.
        let ended = self.shared.word.load(Ordering::Acquire) & (SENT | GONE) != 0;
        if ended || self.leave(cx.waker()).is_err() {
            return Poll::Ready(self.take());
        }
        Poll::Pending
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        // Ordering: Acquire takes the value; Release gives the sender the right to free what is left.
        let before = self.shared.word.fetch_or(LEFT, Ordering::AcqRel);
        if before & (SENT | GONE) != 0 {
            // SAFETY: the sender's bit came first, so the value is the receiver's.
            drop(unsafe { self.shared.swap_value(None) });
        } else {
            // SAFETY: LEFT came first, so the waker is the receiver's.
            drop(unsafe { self.shared.swap_waker(None) });
        }
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").field("over", &self.over).finish()
    }
}
