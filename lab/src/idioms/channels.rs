//! The idioms of tasks that wait for each other, and for the clock: channels, locks, promises, semaphores,
//! sleeps.
//!
//! | call | warpweft | its fibers | tokio | smol | may | threads |
//! |---|---|---|---|---|---|---|
//! | channel | `sync::channel::bounded` | the same, `.wait()` | `mpsc::channel` | `async_channel::bounded` | `mpsc::channel`, unbounded | `sync_channel` |
//! | mailbox | a channel | a channel | a channel | a channel | a channel and a semaphore for the room in it | a channel |
//! | lock | `sync::Mutex` | the same, `.wait()` | `sync::Mutex` | `async_lock::Mutex` | `sync::Mutex` | `std::sync::Mutex` |
//! | promise | `sync::oneshot` | the same, `.wait()` | `sync::oneshot` | a channel of one place | a channel | |
//! | semaphore | `sync::Semaphore` | the same, `.wait()` | `sync::Semaphore` | `async_lock::Semaphore` | `sync::Semphore` | a mutex and a condition |
//! | buffer | a channel | a channel | the textbook's | the faster of both | a channel and a semaphore | the textbook's |
//! | sleep | `time::sleep_until` | | `time::sleep_until` | | `coroutine::sleep` | |
//!
//! A workload is written once, with `await`. For fibers, coroutines and threads, which wait in direct style,
//! each call waits before it returns, and the future that they run never sees anything pending.

use std::future::Future;
use std::time::Instant;

use super::SpawnApi;

/// From inside a pool whose tasks send to each other, and lock.
pub trait Channels: SpawnApi {
    /// The sending end of a channel; several may send.
    type Sender<T: Send + 'static>: Clone + Send + Sync + 'static;
    /// The receiving end of a channel; one receives.
    type Receiver<T: Send + 'static>: Send + 'static;
    /// A value that one task at a time may change.
    type Lock<T: Send + 'static>: Send + Sync + 'static;

    /// A channel with room for `room` values, where channels have bounds.
    fn channel<T: Send + 'static>(room: usize) -> (Self::Sender<T>, Self::Receiver<T>);

    /// A channel with room for `room` values.
    fn mailbox<T: Send + 'static>(room: usize) -> (Self::Sender<T>, Self::Receiver<T>) {
        Self::channel(room)
    }

    /// Sends, once there is room. False if the receiver is gone.
    fn send<T: Send + 'static>(to: &Self::Sender<T>, value: T) -> impl Future<Output = bool> + Send;

    /// Receives; nothing if all senders are gone.
    fn recv<T: Send + 'static>(from: &mut Self::Receiver<T>) -> impl Future<Output = Option<T>> + Send;

    /// A lock around a value.
    fn lock<T: Send + 'static>(value: T) -> Self::Lock<T>;

    /// Locks, changes the value, unlocks.
    fn with<T: Send + 'static, R: Send>(
        lock: &Self::Lock<T>,
        change: impl FnOnce(&mut T) -> R + Send,
    ) -> impl Future<Output = R> + Send;
}

/// From inside a pool whose tasks promise each other values.
pub trait Promises: Channels {
    /// The end that keeps a promise.
    type Promise: Send + 'static;
    /// The end that waits for it.
    type Promised: Send + 'static;

    /// A promise of one number.
    fn promise() -> (Self::Promise, Self::Promised);

    /// Keeps a promise.
    fn keep(promise: Self::Promise, number: u64);

    /// Returns the value that was promised, or `None` if it never comes.
    fn promised(promised: Self::Promised) -> impl Future<Output = Option<u64>> + Send;
}

/// From inside a pool whose tasks sleep.
pub trait Sleeps: SpawnApi {
    /// Sleeps until then.
    fn sleep_until(deadline: Instant) -> impl Future<Output = ()> + Send;
}

/// From inside a pool whose tasks are the actors of a concurrent program.
pub trait Actors: Channels {
    /// Permits that tasks wait for.
    type Semaphore: Send + Sync + 'static;
    /// A buffer that several fill and several empty.
    type Buffer<T: Unit>: Store<T>;

    /// True if its documentation advises the standard library's lock for what is changed in a moment.
    const ADVISES_STD: bool = false;

    /// A semaphore with this number of permits.
    fn semaphore(permits: usize) -> Self::Semaphore;

    /// Waits for a permit and uses it up.
    fn acquire(semaphore: &Self::Semaphore) -> impl Future<Output = ()> + Send;

    /// Adds a permit.
    fn release(semaphore: &Self::Semaphore);
}

/// A queue that several fill and several empty, first in, first out.
pub trait Store<T>: Send + Sync + 'static {
    /// An empty one with room for `room` units.
    fn with_room(room: usize) -> Self;

    /// Puts a unit into it, once there is room.
    fn put(&self, unit: T) -> impl Future<Output = ()> + Send;

    /// Takes the oldest unit out of it, once there is one.
    fn take(&self) -> impl Future<Output = T> + Send;
}

/// An entry of a buffer: a number, or a unit without a value.
pub trait Unit: Copy + Default + Send + 'static {}

impl<T: Copy + Default + Send + 'static> Unit for T {}

/// The semaphores and channels of these programs are never closed.
pub(crate) const OPEN: &str = "it is never closed";

/// Implements [`Channels`] by channels and locks whose waits are futures. `|received|` is what a receiver
/// returned.
macro_rules! async_channels {
    ($api:ty, $channel:ident::$make:ident, $lock:ident, |$received:ident| $value:expr) => {
        impl $crate::idioms::channels::Channels for $api {
            type Sender<T: Send + 'static> = $channel::Sender<T>;
            type Receiver<T: Send + 'static> = $channel::Receiver<T>;
            type Lock<T: Send + 'static> = $lock<T>;

            fn channel<T: Send + 'static>(room: usize) -> (Self::Sender<T>, Self::Receiver<T>) {
                $channel::$make(room)
            }

            #[inline]
            async fn send<T: Send + 'static>(to: &Self::Sender<T>, value: T) -> bool {
                to.send(value).await.is_ok()
            }

            #[inline]
            async fn recv<T: Send + 'static>(from: &mut Self::Receiver<T>) -> Option<T> {
                let $received = from.recv().await;
                $value
            }

            fn lock<T: Send + 'static>(value: T) -> $lock<T> {
                $lock::new(value)
            }

            #[inline]
            async fn with<T: Send + 'static, R: Send>(
                lock: &$lock<T>,
                change: impl FnOnce(&mut T) -> R + Send,
            ) -> R {
                change(&mut *lock.lock().await)
            }
        }
    };
}

/// Implements [`Promises`] by channels of one value whose receiver is a future.
macro_rules! oneshot_promises {
    ($api:ty, $oneshot:ident) => {
        impl $crate::idioms::channels::Promises for $api {
            type Promise = $oneshot::Sender<u64>;
            type Promised = $oneshot::Receiver<u64>;

            #[inline]
            fn promise() -> (Self::Promise, Self::Promised) {
                $oneshot::channel()
            }

            #[inline]
            fn keep(promise: Self::Promise, number: u64) {
                // The task that asked waits for exactly this.
                promise.send(number).unwrap_or_default();
            }

            #[inline]
            async fn promised(promised: Self::Promised) -> Option<u64> {
                promised.await.ok()
            }
        }
    };
}

pub(crate) use {async_channels, oneshot_promises};
