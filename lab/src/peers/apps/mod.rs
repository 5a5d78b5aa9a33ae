//! The idiom of concurrent programs of the old kind: mailboxes, semaphores and locks, a task per actor.
//!
//! | verbs | warpweft | its fibers | tokio | smol | may | threads |
//! |---|---|---|---|---|---|---|
//! | mailbox | `channel::bounded` | the same, `.wait()` | `mpsc::channel` | `async_channel::bounded` | `mpsc::channel` and a semaphore | `sync_channel` |
//! | semaphore | `sync::Semaphore` | the same, `.wait()` | `sync::Semaphore` | `async_lock::Semaphore` | `sync::Semphore` | a mutex and a condition variable |
//! | lock | `sync::Mutex` | the same, `.wait()` | `sync::Mutex` | `async_lock::Mutex` | `sync::Mutex` | `std::sync::Mutex` |
//!
//! All are the contestant's own: how fast its tasks wait and wake is what these programs are about. may's channels have no bound, so
//! a semaphore counts the room; the standard library has no semaphore, so one is made of what it has.

use std::future::Future;

use super::Tasks;

mod fibers;
mod may;
mod smol;
pub(super) mod threads;
mod tokio;
mod warpweft;

/// From inside a pool whose tasks are the actors of a concurrent program.
pub(crate) trait Apps: Tasks {
    /// The sending end of a mailbox; several may send.
    type Sender<T: Send + 'static>: Clone + Send + Sync + 'static;
    /// The receiving end of a mailbox; one receives.
    type Receiver<T: Send + 'static>: Send + 'static;
    /// Permits that tasks wait for.
    type Semaphore: Send + Sync + 'static;
    /// A value that one task at a time may change.
    type Lock<T: Send + 'static>: Send + Sync + 'static;

    /// A mailbox with room for `room` values.
    fn mailbox<T: Send + 'static>(room: usize) -> (Self::Sender<T>, Self::Receiver<T>);

    /// Sends, once there is room. False if nobody will receive.
    fn send<T: Send + 'static>(to: &Self::Sender<T>, value: T) -> impl Future<Output = bool> + Send;

    /// Receives; nothing if nobody will send.
    fn recv<T: Send + 'static>(from: &mut Self::Receiver<T>) -> impl Future<Output = Option<T>> + Send;

    /// A semaphore with so many permits.
    fn semaphore(permits: usize) -> Self::Semaphore;

    /// Waits for a permit and uses it up.
    fn acquire(semaphore: &Self::Semaphore) -> impl Future<Output = ()> + Send;

    /// Adds a permit.
    fn release(semaphore: &Self::Semaphore);

    /// A lock around a value.
    fn lock<T: Send + 'static>(value: T) -> Self::Lock<T>;

    /// Locks, changes the value, unlocks.
    fn with<T: Send + 'static, R: Send>(
        lock: &Self::Lock<T>,
        change: impl FnOnce(&mut T) -> R + Send,
    ) -> impl Future<Output = R> + Send;
}

/// Nobody closes a semaphore of these programs.
const OPEN: &str = "the semaphore is open";
