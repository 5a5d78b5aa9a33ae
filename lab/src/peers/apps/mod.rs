//! The idiom of concurrent programs of the old kind: mailboxes, semaphores and locks, a task per actor.
//!
//! | verbs | warpweft | its fibers | tokio | smol | may | threads |
//! |---|---|---|---|---|---|---|
//! | mailbox | `channel::bounded` | the same, `.wait()` | `mpsc::channel` | `async_channel::bounded` | `mpsc::channel` and a semaphore | `sync_channel` |
//! | semaphore | `sync::Semaphore` | the same, `.wait()` | `sync::Semaphore` | `async_lock::Semaphore` | `sync::Semphore` | a mutex and a condition variable |
//! | lock | `sync::Mutex` | the same, `.wait()` | `sync::Mutex` | `async_lock::Mutex` | `sync::Mutex` | `std::sync::Mutex` |
//! | buffer | the same channel | the same channel | of a textbook | the same channel | `mpmc::channel` and a semaphore | of a textbook |
//!
//! All are the contestant's own: how fast its tasks wait and wake is what these programs are about. may's
//! channels have no bound, so a semaphore counts the room; the standard library has no semaphore, so one is
//! made of what it has. A buffer is emptied by several: who has channels with several receivers takes one, as
//! Go does (smol does not for units without a value: semaphores are faster there); for the others it is made
//! of their semaphores and their lock.

use std::future::Future;

use super::Tasks;

mod fibers;
mod may;
mod smol;
mod textbook;
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

    /// What several fill and several empty.
    type Buffer<T: Unit>: Store<T>;

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

/// What several fill and several empty, in the order in which it was filled.
pub(crate) trait Store<T>: Send + Sync + 'static {
    /// An empty one with room for `room` units.
    fn with_room(room: usize) -> Self;

    /// Puts a unit into it, once there is room.
    fn put(&self, unit: T) -> impl Future<Output = ()> + Send;

    /// Takes the oldest unit out of it, once there is one.
    fn take(&self) -> impl Future<Output = T> + Send;
}

/// What a buffer holds: numbers, or units of what has no other property.
pub(crate) trait Unit: Copy + Default + Send + 'static {}

impl<T: Copy + Default + Send + 'static> Unit for T {}

/// Nobody closes a semaphore or a channel of these programs.
const OPEN: &str = "nobody closes it";
