//! A pool without policy or workers, and values that count their drops.
//!
//! - [`Pool`] keeps what is pushed to it; the test runs it, step by step.
//! - [`Count`] counts events; [`Guard`] counts its own drop.
//! - [`Task`] makes the task's allocation aligned like no other, so that [`tasks_alive`] can count such
//!   allocations.

#![allow(dead_code, reason = "each of the test binaries uses its part")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::panic::Location;
use std::pin::Pin;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use warpweft_platform::sync::Mutex;
use warpweft_task::pool::{PoolHeader, PoolVtable};
use warpweft_task::spawn::{self, SpawnInfo};
use warpweft_task::{Abandon, Header, JoinHandle, Ran, Runnable, Suspended, Why};

/// How often something happened. Not an atomic of the model checker: counting must not order anything.
#[derive(Clone, Default)]
pub(crate) struct Count(Arc<AtomicUsize>);

impl Count {
    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// A value whose drop is counted here.
    pub(crate) fn guard(&self) -> Guard {
        Guard(self.clone())
    }
}

/// Counts its drop.
pub(crate) struct Guard(Count);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.add();
    }
}

/// Work in an allocation with an alignment that nothing else has.
#[repr(align(256))]
pub(crate) struct Task<W>(pub(crate) W);

const MARK: usize = 256;

impl<F: Future + Unpin> Future for Task<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        Pin::new(&mut self.0).poll(cx)
    }
}

/// The system's allocator. It counts tasks, and overwrites what is freed, so that a use after free fails.
struct Counting;

static ALIVE: AtomicIsize = AtomicIsize::new(0);

/// While it lives, no other test of this binary makes tasks: [`tasks_alive`] counts for all of them.
#[expect(
    clippy::disallowed_types,
    reason = "it is held around a whole model, so it must not be the checker's"
)]
pub(crate) fn alone() -> std::sync::MutexGuard<'static, ()> {
    static ONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Returns how many tasks made of a [`Task`] have not been freed. Exact for the thread that is [`alone`].
pub(crate) fn tasks_alive() -> isize {
    ALIVE.load(Ordering::Relaxed)
}

// SAFETY: everything is left to the system's allocator; the memory that is overwritten is about to be freed.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() == MARK {
            ALIVE.fetch_add(1, Ordering::Relaxed);
        }
        // SAFETY: the caller's promise about `layout` is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        if layout.align() == MARK {
            ALIVE.fetch_sub(1, Ordering::Relaxed);
            for offset in 0..layout.size() {
                // SAFETY: the block is of this size.
                let byte = unsafe { place.add(offset) };
                // Volatile, because the compiler knows that no thread reads memory that is about to be freed.
                // SAFETY: by the caller's promise no thread uses the block any more.
                unsafe { byte.write_volatile(0xDD) };
            }
        }
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// A pool that keeps what is pushed, for the test to run. [`Pool::open`] makes it, [`Pool::close`] ends it.
#[repr(C)]
pub(crate) struct Pool {
    header: PoolHeader,
    queue: Mutex<Vec<Runnable>>,
    /// How often a runnable was pushed.
    pub(crate) pushed: Count,
    /// How many runnables a policy dropped instead of handing them out.
    pub(crate) dropped: Count,
    /// How many tasks were unregistered.
    pub(crate) unregistered: Count,
}

static VTABLE: PoolVtable = PoolVtable {
    push,
    // SAFETY: the contracts are the same.
    woken: |header, token| unsafe { push(header, token, Why::Woken) },
    dropped,
    panicked: |_, _| false,
    unregister,
};

/// # Safety
///
/// `header` is the front of a pool that [`Pool::open`] made and [`Pool::close`] has not yet ended.
unsafe fn pool<'a>(header: NonNull<PoolHeader>) -> &'a Pool {
    // SAFETY: the header comes from `Pool::info`, which made it from a pointer to the whole, live pool.
    unsafe { header.cast::<Pool>().as_ref() }
}

unsafe fn push(header: NonNull<PoolHeader>, token: Runnable, _why: Why) {
    // SAFETY: by the contract of `PoolVtable`.
    let pool = unsafe { pool(header) };
    pool.pushed.add();
    pool.queue.lock().push(token);
}

unsafe fn dropped(header: NonNull<PoolHeader>, token: Runnable) {
    // SAFETY: by the contract of `PoolVtable`.
    unsafe { pool(header) }.dropped.add();
    token.abandon(Abandon::Dropped);
}

unsafe fn unregister(header: NonNull<PoolHeader>, _task: NonNull<Header>, place: usize) {
    assert_eq!(place, Pool::PLACE, "the task was registered elsewhere");
    // SAFETY: by the contract of `PoolVtable`.
    unsafe { pool(header) }.unregistered.add();
}

impl Pool {
    /// The place in the register of every task that is registered.
    pub(crate) const PLACE: usize = 7;

    /// A pool that lives until [`close`](Pool::close).
    pub(crate) fn open() -> &'static Self {
        Box::leak(Box::new(Self {
            header: PoolHeader::new(&VTABLE),
            queue: Mutex::new(Vec::new()),
            pushed: Count::default(),
            dropped: Count::default(),
            unregistered: Count::default(),
        }))
    }

    fn info(&'static self) -> SpawnInfo {
        let pool = NonNull::from(self).cast();
        SpawnInfo {
            pool,
            location: Location::caller(),
            name: None,
        }
    }

    /// A task that drives `future`. Its allocation is counted.
    pub(crate) fn future<F>(&'static self, future: F) -> (Runnable, JoinHandle<F::Output>)
    where
        F: Future<Output: Send + 'static> + Send + Unpin + 'static,
    {
        // SAFETY: the tests close the pool when its tasks have ended.
        unsafe { spawn::future(Task(future), self.info()) }
    }

    /// A task that calls `closure`. Its allocation is counted.
    pub(crate) fn job<T: Send + 'static>(
        &'static self,
        closure: impl FnOnce() -> T + Send + 'static,
    ) -> (Runnable, JoinHandle<T>) {
        let work = Task(closure);
        // SAFETY: the tests close the pool when its tasks have ended.
        unsafe {
            spawn::job(
                move || {
                    let work = work;
                    (work.0)()
                },
                self.info(),
            )
        }
    }

    /// As [`job`](Pool::job), but without a handle.
    pub(crate) fn detached_job(&'static self, closure: impl FnOnce() + Send + 'static) -> Runnable {
        let work = Task(closure);
        // SAFETY: the tests close the pool when its tasks have ended.
        unsafe {
            spawn::detached_job(
                move || {
                    let work = work;
                    (work.0)();
                },
                self.info(),
            )
        }
    }

    /// Runs one step; a task that waits is put to sleep, or goes to the queue if it was woken meanwhile.
    pub(crate) fn step(&self, token: Runnable) {
        if let Ran::Pending(pending) = token.run()
            && let Suspended::Again(token) = pending.suspend()
        {
            self.queue.lock().push(token);
        }
    }

    /// Runs what was pushed, until nothing is left.
    pub(crate) fn run(&self) {
        loop {
            // The lock is not held while the task runs.
            let token = self.queue.lock().pop();
            let Some(token) = token else { return };
            self.step(token);
        }
    }

    /// The runnable that was pushed last.
    pub(crate) fn take(&self) -> Option<Runnable> {
        self.queue.lock().pop()
    }

    /// Ends the pool: nothing is queued, and no task of it is alive.
    pub(crate) fn close(&'static self) {
        assert!(self.queue.lock().is_empty(), "a runnable task was left");
        assert_eq!(tasks_alive(), 0, "a task was not freed");
        let pool = std::ptr::from_ref(self).cast_mut();
        // SAFETY: `open` made it from a box, every task has been freed, and the test is over.
        drop(unsafe { Box::from_raw(pool) });
    }
}

/// A waker that counts how often it wakes, and whose clones can be counted.
#[derive(Default)]
pub(crate) struct CountingWaker {
    pub(crate) wakes: Count,
}

impl Wake for CountingWaker {
    fn wake(self: Arc<Self>) {
        self.wakes.add();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.wakes.add();
    }
}

/// A waker, and what it counts. When the waker and its clones are gone, the strong count is 1.
pub(crate) fn counting_waker() -> (Waker, Arc<CountingWaker>) {
    let counts = Arc::new(CountingWaker::default());
    (Waker::from(Arc::clone(&counts)), counts)
}
