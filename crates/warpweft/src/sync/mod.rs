//! Waiting for each other: locks, events and channels for futures, jobs and threads alike.
//!
//! Every wait can be had in three forms. A future awaits; a closure, or a thread that is no worker, blocks;
//! and who does not want to wait tries:
//!
//! ```
//! use warpweft::sync::Mutex;
//!
//! # let _ = warpweft::block_on(async {
//! let mutex = Mutex::new(0);
//! *mutex.lock().await += 1; //  in a future
//! *mutex.lock().wait() += 1; // anywhere
//! assert!(mutex.try_lock().is_some()); // without waiting
//! # });
//! ```
//!
//! A job that blocks gives its worker to another thread meanwhile, so a pool with one worker does not wait
//! for itself. That costs some 10 to 20 µs and a thread for each that waits; what need not wait costs the
//! same in all forms.
//!
//! # Which one, when
//!
//! | you want | use |
//! |---|---|
//! | one at a time to change a value | [`Mutex`] |
//! | many readers, or one writer; reads take long | [`RwLock`]; if they are short, a [`Mutex`] is faster |
//! | at most so many at a time | [`Semaphore`] |
//! | a value that is made at its first use | [`OnceCell`] |
//! | to wait until a value under a [`Mutex`] is right | [`Condvar`] |
//! | to say that something happened, without a lock | [`Notify`] |
//! | a group to wait for each other | [`Barrier`] |
//! | one value, from one task to another | [`oneshot`], the promise; a spawned task's [`JoinHandle`](crate::JoinHandle) is one already |
//! | many values, each for one of the receivers | [`channel`]: [`bounded`](channel::bounded), so that senders do not run ahead |
//! | many values, each for all receivers | [`broadcast`] |
//! | the latest value, for all receivers | [`watch`] |
//!
//! # What is promised of all of them
//!
//! - **Order.** Who waits is served in the order in which they came. Only a [`Mutex`] may be taken by
//!   somebody who comes when it is just free; but each waiter is overtaken only while it is woken a bounded
//!   number of times, then it is its turn.
//! - **Cancelling.** A wait may be dropped at any point. It leaves its line, and what it had been granted
//!   already, a lock, a permit, a value or a notification, goes to the next.
//! - **Panics.** Nothing is poisoned. A waker that panics does so in whoever called it, after everybody else
//!   was woken.
//! - **Memory.** A waiter costs one slot in its line, less than 100 bytes and its value, from its first poll
//!   until it is over. Waking all costs time in proportion to how many they are.
//! - **Foreign code**, wakers and values, never runs under a lock of this module.
//!
//! # How it is made
//!
//! | file | job |
//! |---|---|
//! | `suspend` | the one waiting primitive: look, stand in line, look again, leave |
//! | `list` | those who wait, in order |
//! | `wakers` | who is to be woken after the lock |
//! | `wait` | `.await` or `.wait()` |
//! | `error` | errors that several have in common |
//! | others | one thing each, as it is called |
//!
//! A [`Mutex`], a [`Semaphore`] (and so a [`RwLock`] and a [`OnceCell`]) and a [`oneshot`] have a word in
//! front, so that what need not wait takes no lock.

pub(crate) mod barrier;
pub mod broadcast;
pub mod channel;
pub(crate) mod condvar;
pub(crate) mod error;
#[cfg(doctest)]
mod must_not_compile;
pub(crate) mod mutex;
pub(crate) mod notify;
pub(crate) mod once;
pub mod oneshot;
pub(crate) mod rwlock;
pub(crate) mod semaphore;
pub(crate) mod suspend;
pub(crate) mod wait;
pub(crate) mod wait_list;
pub(crate) mod wakers;
pub mod watch;

pub use barrier::{Arrival, Barrier};
pub use condvar::Condvar;
pub use error::{Closed, SendError, TryRecvError, TrySendError};
pub use mutex::{Mutex, MutexGuard};
pub use notify::Notify;
pub use once::OnceCell;
pub use rwlock::{RwLock, RwLockReadGuard, RwLockWriteGuard};
pub use semaphore::{Permit, Semaphore, TryAcquireError};
pub use wait::Wait;

/// A wait for permits of a semaphore.
pub(crate) type Claiming<'a> = suspend::Suspend<semaphore::Acquiring<'a>>;
