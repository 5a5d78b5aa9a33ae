//! Synchronisation: locks, events and channels for futures, jobs and threads alike.
//!
//! Every wait has three forms. A future awaits; a closure, or a thread that is no worker, blocks; and a
//! caller that must not wait tries:
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
//! A job that blocks passes its worker to another thread meanwhile, so a pool with one worker does not wait
//! for itself. That costs some 10 to 20 µs, and a thread for each waiter. An operation that need not wait
//! costs the same in all forms.
//!
//! # Which one to use
//!
//! | you want | use |
//! |---|---|
//! | to let one task at a time change a value | [`Mutex`] |
//! | many readers, or one writer; reads take long | [`RwLock`]; if they are short, a [`Mutex`] is faster |
//! | to limit how many tasks do something at a time | [`Semaphore`] |
//! | a value that is made at its first use | [`OnceCell`] |
//! | to wait until a value under a [`Mutex`] is right | [`Condvar`] |
//! | to signal an event, without a lock | [`Notify`] |
//! | a group of tasks that wait for each other | [`Barrier`] |
//! | to pass one value from one task to another | [`oneshot`], a promise; the [`JoinHandle`](crate::JoinHandle) of a spawned task is one already |
//! | many values, each for one of the receivers | [`channel`]: [`bounded`](channel::bounded), so that senders do not run ahead |
//! | many values, each for all receivers | [`broadcast`] |
//! | the latest value, for all receivers | [`watch`] |
//!
//! # What is promised of all of them
//!
//! - **Order.** Waiters are served in order of arrival. Only a [`Mutex`] may be taken by a later caller just
//!   when it becomes free. The first waiter is overtaken a bounded number of times, and then gets the lock.
//! - **Cancelling.** A wait may be dropped at any point. It leaves its list, and what it had been granted
//!   already (a lock, a permit, a value or a notification) goes to the next waiter.
//! - **Panics.** Nothing is poisoned. The panic of a waker continues in the thread that called it, after all
//!   other waiters were woken. What the call would have returned, such as a received value, is lost then.
//! - **Memory.** A waiter costs one slot in its list, less than 100 bytes and its value, from its first poll
//!   until it is over. Waking all takes time in proportion to their number.
//! - **Foreign code**, such as wakers and values, never runs under a lock of this module.
//! - **Forked children.** If a thread that stayed in the parent was changing something at the fork, then in a
//!   child of a process with a runtime all that ends a wait does nothing, destructors too, and the rest
//!   panics.
//!
//! # Files
//!
//! | file | job |
//! |---|---|
//! | `suspend` | the one waiting primitive: look, enter the list, look again, leave |
//! | `wait_list` | the waiters, in order |
//! | `lazy_state` | the list of a primitive, where a dump finds it |
//! | `wakers` | the wakers to call after the lock |
//! | `wait` | `.await` or `.wait()` |
//! | `error` | errors that several have in common |
//! | `mutex`, `rwlock`, `semaphore`, `once`, `condvar`, `notify`, `barrier` | locks and events |
//! | `channel`, `oneshot`, `broadcast`, `watch` | channels |
//! | `feed` | what `broadcast` and `watch` share |
//! | `describe_wait` | words for the wait of a future of another crate |
//! | `owner`, `permit`, `marks`, `requests` | who has a lock or permits; permits; the word; the requests |
//! | others | one primitive each, by name |
//!
//! A [`Mutex`] and a [`Semaphore`] (and so a [`RwLock`] and a [`OnceCell`]) have an atomic word besides the
//! list, so that an operation that need not wait takes no lock. A [`oneshot`] has an atomic word and no list,
//! because it has one waiter.

pub(crate) mod barrier;
pub mod broadcast;
pub mod channel;
pub(crate) mod condvar;
pub(crate) mod describe_wait;
pub(crate) mod error;
mod feed;
pub(crate) mod lazy_state;
mod marks;
#[cfg(doctest)]
mod must_not_compile;
pub(crate) mod mutex;
pub(crate) mod notify;
pub(crate) mod once;
pub mod oneshot;
pub(crate) mod owner;
pub(crate) mod permit;
pub(crate) mod requests;
pub(crate) mod rwlock;
pub(crate) mod semaphore;
pub(crate) mod suspend;
pub(crate) mod wait;
pub(crate) mod wait_list;
pub(crate) mod wakers;
pub mod watch;

pub use barrier::{Arrival, Barrier};
pub use condvar::Condvar;
pub use error::{Closed, SendError, TryAcquireError, TryRecvError, TrySendError};
pub use mutex::{Mutex, MutexGuard};
pub use notify::Notify;
pub use once::OnceCell;
pub use permit::Permit;
pub use rwlock::{RwLock, RwLockReadGuard, RwLockWriteGuard};
pub use semaphore::Semaphore;
pub use wait::Wait;

/// A wait for permits of a semaphore.
pub(crate) type Claiming<'a> = suspend::Suspend<semaphore::Acquiring<'a>>;
