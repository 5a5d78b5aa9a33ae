//! A promise: one value, sent once.
//!
//! ```text
//!   word:   WAKER   the receiver has left its waker
//!           SENT    the value is there                 ┐ the side that sets the first of these
//!           GONE    the sender went without a value    ├ three bits decides which side has
//!           LEFT    the receiver has left              ┘ the waker and the value
//! ```
//!
//! # Invariants
//!
//! - The waker belongs to the receiver while WAKER is clear. While it is set, it belongs to the side whose
//!   bit comes first: the sender after SENT or GONE, the receiver after LEFT.
//! - The value belongs to the sender until SENT. After that it belongs to the receiver, unless LEFT was there
//!   first: then it still belongs to the sender.
//! - Both sides hold the memory until they have finished with it.
//! - A dump reads the word and what is beside the waker, and touches neither the waker nor the value.

use super::error::{Closed, SendError, TryRecvError};
use super::wakers::Wakers;
use crate::execution::block_on::block_on;
use crate::execution::current_task::current_task;
use crate::observe::listed::Listed;
use crate::observe::raw::{RawWait, RawWhat, Watched};
use std::fmt;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use warpweft_platform::atomic::{AtomicU32, Ordering};
use warpweft_platform::cell::UnsafeCell;
use warpweft_platform::clock::coarse_ns;
use warpweft_platform::counter::Gauge;
use warpweft_platform::delay;
use warpweft_platform::sync::Arc;
use warpweft_task::frame::Who;

const WAKER: u32 = 1;
const SENT: u32 = 2;
const GONE: u32 = 4;
const LEFT: u32 = 8;

struct Oneshot<T> {
    /// First, so that it is dropped first.
    listed: Listed,
    /// The address of the waker's data, for dumps.
    waiter: Gauge,
    /// What identifies the task that receives, for dumps.
    task: Gauge,
    made_at: &'static Location<'static>,
    /// When the receiver began to wait, on the coarse clock.
    since_ns: Gauge,
    word: AtomicU32,
    value: UnsafeCell<Option<T>>,
    waker: UnsafeCell<Option<Waker>>,
}

// SAFETY: one side at a time reaches the value and the waker, as the invariants say; the value moves between
// threads.
unsafe impl<T: Send> Send for Oneshot<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Oneshot<T> {}

/// Returns a promise and the right to its value. Costs one allocation; sending costs one atomic
/// read-modify-write.
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
#[track_caller]
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let shared = Arc::new(Oneshot {
        listed: Listed::default(),
        waiter: Gauge::new(),
        task: Gauge::new(),
        made_at: Location::caller(),
        since_ns: Gauge::new(),
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

impl<T> Watched for Oneshot<T> {
    fn look(&self, see: &mut dyn FnMut(RawWait)) {
        // Ordering: Relaxed. What it reads is a hint.
        let word = self.word.load(Ordering::Relaxed);
        if word & (WAKER | LEFT) == WAKER {
            see(RawWait {
                waiter: self.waiter.get() as usize,
                task: self.task.get() as usize,
                object: std::ptr::from_ref(self).addr(),
                since_ns: Some(self.since_ns.get()),
                told: word & (SENT | GONE) != 0,
                what: RawWhat::Event {
                    kind: "oneshot channel",
                    last: Who::NOBODY,
                    made_at: Some(self.made_at),
                },
            });
        }
    }
}

impl<T> Oneshot<T> {
    /// # Safety
    ///
    /// The value belongs to the caller's side, as the invariants say.
    unsafe fn swap_value(&self, value: Option<T>) -> Option<T> {
        self.value.with_mut(|place| {
            // SAFETY: by contract only this side reaches the value.
            std::mem::replace(unsafe { &mut *place }, value)
        })
    }

    /// # Safety
    ///
    /// The waker belongs to the caller's side, as the invariants say.
    unsafe fn swap_waker(&self, waker: Option<Waker>) -> Option<Waker> {
        self.waker.with_mut(|place| {
            // SAFETY: by contract only this side reaches the waker.
            std::mem::replace(unsafe { &mut *place }, waker)
        })
    }

    /// Ends the sender's side with SENT or GONE. Returns true if the receiver is still there.
    fn end(&self, last: u32) -> bool {
        // Ordering: Release publishes the value; Acquire takes the waker, or what the receiver did before it
        // left.
        let before = self.word.fetch_or(last, Ordering::AcqRel);
        delay::point("oneshot.end: said");
        if before & (WAKER | LEFT) == WAKER {
            // SAFETY: WAKER was set, and the sender's bit came first.
            if let Some(waker) = unsafe { self.swap_waker(None) } {
                let mut wakers = Wakers::new();
                wakers.push(Some(waker));
                wakers.wake();
            }
        }
        before & LEFT == 0
    }
}

/// The right to send one value.
#[must_use = "dropping it tells the receiver that there will be no value"]
pub struct Sender<T> {
    /// `None` after it has sent.
    shared: Option<Arc<Oneshot<T>>>,
}

impl<T> Sender<T> {
    /// Sends the value. Does not wait.
    ///
    /// # Errors
    ///
    /// The receiver was dropped. The value is returned.
    pub fn send(mut self, value: T) -> Result<(), SendError<T>> {
        let Some(shared) = self.shared.take() else {
            unreachable!("a sender is used up when it sends")
        };
        // SAFETY: SENT is not set, so the value belongs to the sender.
        let before = unsafe { shared.swap_value(Some(value)) };
        debug_assert!(before.is_none());
        if shared.end(SENT) {
            return Ok(());
        }
        // SAFETY: LEFT was there before SENT, so the value still belongs to the sender.
        let value = unsafe { shared.swap_value(None) };
        value.map_or(Ok(()), |value| Err(SendError(value)))
    }

    /// Returns true if the receiver was dropped, so that sending would fail.
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

/// The right to one value: await it, or [`wait`](Receiver::wait) for it.
///
/// # Panics
///
/// Polling it again after it has returned its result panics, as with most futures.
#[must_use = "if it is dropped, the value is lost"]
pub struct Receiver<T> {
    shared: Arc<Oneshot<T>>,
    /// True after it has returned its result.
    over: bool,
}

impl<T> Receiver<T> {
    /// Blocks this thread until the value is there. In a task, another thread takes its worker meanwhile, as
    /// [`block_on`] explains.
    ///
    /// # Errors
    ///
    /// The sender was dropped without sending.
    pub fn wait(mut self) -> Result<T, Closed> {
        match self.try_recv() {
            Ok(value) => Ok(value),
            Err(TryRecvError::Closed) => Err(Closed),
            Err(TryRecvError::Empty) => block_on(self),
        }
    }

    /// Returns the value, if it is there.
    ///
    /// # Errors
    ///
    /// The value is not there yet, or will never be, or was taken already.
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

    /// Takes the result, after SENT or GONE.
    fn take(&mut self) -> Result<T, Closed> {
        self.over = true;
        // SAFETY: SENT or GONE came without LEFT, so the value belongs to the receiver.
        unsafe { self.shared.swap_value(None) }.ok_or(Closed)
    }

    /// Leaves `waker` for the sender. Returns `Err` if the sender has ended.
    fn leave(&self, waker: &Waker) -> Result<(), ()> {
        let word = &self.shared.word;
        // Ordering: Acquire on failure pairs with `end`; on success nothing is read that the sender wrote.
        if word.load(Ordering::Acquire) & WAKER != 0 {
            word.compare_exchange(WAKER, 0, Ordering::Relaxed, Ordering::Acquire)
                .map_err(drop)?;
        }
        let waker = Some(waker.clone());
        // SAFETY: both ends have a share of the memory, which stays until the entry is dropped with it.
        unsafe { self.shared.listed.register(&*self.shared) };
        let data = waker.as_ref().map_or(0, |waker| waker.data().addr());
        self.shared.waiter.set(data as u64);
        self.shared.task.set(current_task().id as u64);
        if self.shared.since_ns.get() == 0 {
            self.shared.since_ns.set(coarse_ns());
        }
        // SAFETY: WAKER is clear, so the waker belongs to the receiver.
        let old = unsafe { self.shared.swap_waker(waker) };
        // Ordering: Release gives the waker to the sender. This compare-and-swap is the second look, after
        // the entry: a sender that ended before it found no waker.
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
        // Ordering: Acquire takes the value; Release gives the sender the right to free the rest.
        let before = self.shared.word.fetch_or(LEFT, Ordering::AcqRel);
        if before & (SENT | GONE) != 0 {
            // SAFETY: the sender's bit came first, so the value belongs to the receiver.
            drop(unsafe { self.shared.swap_value(None) });
        } else {
            // SAFETY: LEFT came first, so the waker belongs to the receiver.
            drop(unsafe { self.shared.swap_waker(None) });
        }
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").field("over", &self.over).finish()
    }
}
