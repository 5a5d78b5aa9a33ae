//! The idiom of tasks that wait for each other, and for the clock: channels, promises, locks, sleeps.
//!
//! | verbs | warpweft | its fibers | tokio | smol | may |
//! |---|---|---|---|---|---|
//! | channel | `sync::channel::bounded` | the same, `.wait()` | `mpsc::channel` | `async_channel::bounded` | `mpsc::channel`, unbounded |
//! | promise | `sync::oneshot` | the same, `.wait()` | `sync::oneshot` | a channel of one place | a channel |
//! | mutex | `sync::Mutex` | the same, `.wait()` | `sync::Mutex` | `async_lock::Mutex` | `sync::Mutex` |
//! | sleep | `time::sleep_until` | | `time::sleep_until` | | `coroutine::sleep` |
//!
//! A workload is written once, with `await`. For fibers and coroutines, which wait in direct style, each verb
//! waits before it returns, and the future that they run never sees anything pending.

use std::future::Future;
use std::time::Instant;

use super::Tasks;

mod fibers;
mod may;
mod smol;
mod tokio;
mod warpweft;

pub(super) use fibers::{FiberPool, FiberVerbs};

/// From inside a pool whose tasks wait for each other.
pub(crate) trait Waits: Tasks {
    /// The sending end of a channel; several may send.
    type Sender<T: Send + 'static>: Clone + Send + Sync + 'static;
    /// The receiving end of a channel; one receives.
    type Receiver<T: Send + 'static>: Send + 'static;
    /// Who promised a value.
    type Promise: Send + 'static;
    /// Who was promised one.
    type Promised: Send + 'static;
    /// A number that one task at a time may change.
    type Mutex: Send + Sync + 'static;

    /// A channel with room for `capacity` values.
    fn channel<T: Send + 'static>(capacity: usize) -> (Self::Sender<T>, Self::Receiver<T>);

    /// Sends, once there is room. False if nobody will receive.
    fn send<T: Send + 'static>(to: &Self::Sender<T>, value: T) -> impl Future<Output = bool> + Send;

    /// Receives; nothing if nobody will send.
    fn recv<T: Send + 'static>(from: &mut Self::Receiver<T>) -> impl Future<Output = Option<T>> + Send;

    /// A promise of one number.
    fn promise() -> (Self::Promise, Self::Promised);

    /// Keeps a promise.
    fn keep(promise: Self::Promise, number: u64);

    /// What was promised; nothing if it never comes.
    fn promised(promised: Self::Promised) -> impl Future<Output = Option<u64>> + Send;

    /// A mutex around 0.
    fn mutex() -> Self::Mutex;

    /// Locks, adds one, unlocks.
    fn add(mutex: &Self::Mutex) -> impl Future<Output = ()> + Send;

    /// The number, when all is over.
    fn total(mutex: &Self::Mutex) -> impl Future<Output = u64> + Send;
}

/// From inside a pool whose tasks sleep.
pub(crate) trait Sleeps: Tasks {
    /// Sleeps until then.
    fn sleep_until(deadline: Instant) -> impl Future<Output = ()> + Send;
}
