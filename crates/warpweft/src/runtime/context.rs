//! What free functions find on this thread: the worker that it carries, or the pool that it visits.

use super::build_error::BuildError;
use super::handle::try_default_runtime;
use super::pool::AnyPool;
use super::seat;
use crate::compose::Wish;
use crate::io::Driver;
use std::cell::Cell;
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;
use warpweft_platform::thread_word;
use warpweft_policy::{Counters, YieldTo};
use warpweft_task::pool::PoolHeader;
use warpweft_task::{Runnable, Why};

/// What free functions know of the place where they are called, whatever the policy: a worker, whose first field it is,
/// or a visitor of a pool.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Front {
    pub(crate) pool: NonNull<PoolHeader>,
    pub(crate) ops: &'static FrontOps,
    /// As [`FrontOps::push`] with [`Why::Spawned`]; a worker's is called only while it [takes](Front::takes) tasks. Not among the others: one
    /// load less for each task; and which it is depends on the policy's settings.
    spawned: unsafe fn(&Self, Runnable),
    /// The pool whose tasks the worker takes from its own thread. It is the worker's own; nobody's while a hook of the policy is on that
    /// thread's stack; and never a visitor's. One question instead of three, for each task that is spawned or woken.
    takes: Cell<Option<NonNull<PoolHeader>>>,
    /// The number of the worker; a visitor has none.
    pub(crate) worker: Option<usize>,
    /// Whether the running task gave way of its own accord.
    pub(crate) yielding: Cell<GaveWay>,
    /// Where the running task wants to go on.
    pub(crate) wish: Wish,
    /// Of the worker.
    pub(crate) counters: Counters,
}

/// Whether a task gave way, and where it wants to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GaveWay {
    No,
    /// Where the policy wants it.
    AsUsual,
    To(YieldTo),
}

/// What a worker can be asked to do by its own thread, and a visitor by its.
#[derive(Debug)]
pub(crate) struct FrontOps {
    /// Puts a runnable task where the policy wants it.
    ///
    /// # Safety
    ///
    /// The front is a worker's of this table, and the calling thread carries that worker.
    pub(crate) push: unsafe fn(&Front, Runnable, Why),
    /// Whether the policy says that nothing else is ready for this worker.
    ///
    /// # Safety
    ///
    /// As for `push`.
    pub(crate) alone: unsafe fn(&Front) -> bool,
    /// Runs one task, if there is one.
    ///
    /// # Safety
    ///
    /// As for `push`.
    pub(crate) step: unsafe fn(&Front) -> bool,
    /// The driver of the pool.
    ///
    /// # Safety
    ///
    /// The front is of this table, and its pool is alive.
    pub(crate) driver: unsafe fn(&Front) -> io::Result<Arc<Driver>>,
    /// The pool, for who wants to keep it.
    ///
    /// # Safety
    ///
    /// As for `driver`.
    pub(crate) keep: unsafe fn(&Front) -> Arc<dyn AnyPool>,
}

impl Front {
    pub(crate) fn new(
        pool: NonNull<PoolHeader>,
        ops: &'static FrontOps,
        spawned: unsafe fn(&Self, Runnable),
        worker: Option<usize>,
    ) -> Self {
        Self {
            pool,
            ops,
            spawned,
            worker,
            takes: Cell::new(worker.map(|_| pool)),
            yielding: Cell::new(GaveWay::No),
            wish: Wish::default(),
            counters: Counters::new(),
        }
    }

    pub(crate) fn push(&self, task: Runnable, why: Why) {
        debug_assert!(is_current(self));
        // SAFETY: fronts are reached through `with_current` only, so the calling thread carries the worker.
        unsafe { (self.ops.push)(self, task, why) };
    }

    /// The pool whose tasks go to this worker: its own, unless a hook of the policy is on the stack. A visitor takes none.
    #[inline]
    pub(crate) fn takes(&self) -> Option<NonNull<PoolHeader>> {
        self.takes.get()
    }

    /// Whether a hook of the policy is on the stack of the thread that carries the worker.
    #[inline]
    pub(crate) fn is_in_policy(&self) -> bool {
        self.worker.is_some() && self.takes().is_none()
    }

    /// A hook of the policy begins on the thread that carries the worker.
    #[inline]
    pub(super) fn begin_hook(&self) {
        self.takes.set(None);
    }

    /// It has returned. `pool` is the worker's own.
    #[inline]
    pub(super) fn end_hook(&self, pool: NonNull<PoolHeader>) {
        debug_assert_eq!(pool, self.pool);
        self.takes.set(Some(pool));
    }

    pub(crate) fn alone(&self) -> bool {
        debug_assert!(is_current(self));
        // SAFETY: as above.
        unsafe { (self.ops.alone)(self) }
    }

    pub(crate) fn step(&self) -> bool {
        debug_assert!(is_current(self));
        // SAFETY: as above.
        unsafe { (self.ops.step)(self) }
    }

    pub(crate) fn driver(&self) -> io::Result<Arc<Driver>> {
        debug_assert!(is_current(self));
        // SAFETY: fronts are reached through `with_current` only, which finds those of living pools.
        unsafe { (self.ops.driver)(self) }
    }

    /// The pool.
    pub(crate) fn keep(&self) -> Arc<dyn AnyPool> {
        debug_assert!(is_current(self));
        // SAFETY: fronts are reached through `with_current` only, which finds those of pools that are alive.
        unsafe { (self.ops.keep)(self) }
    }
}

/// What is there where no worker is carried and no pool visited: so that who spawns or wakes asks one question, and not first whether there
/// is anything to ask.
struct Nobody(Front);

// SAFETY: its cells are never written: `with_current`, by which fronts are reached, does not give it to anybody, and hooks are called for
// workers only.
unsafe impl Sync for Nobody {}

impl Nobody {
    const OPS: FrontOps = FrontOps {
        push: |_, task, why| task.push(why),
        alone: |_| false,
        step: |_| false,
        driver: |_| unreachable!("nobody is asked for a driver"),
        keep: |_| unreachable!("nobody is asked for a pool"),
    };

    /// Of somebody who spawns tasks of whatever pool, and tells it as `spawned` does.
    const fn new(spawned: unsafe fn(&Front, Runnable)) -> Self {
        Self(Front {
            pool: NonNull::dangling(),
            takes: Cell::new(None),
            ops: &Self::OPS,
            spawned,
            worker: None,
            yielding: Cell::new(GaveWay::No),
            wish: Wish::none(),
            counters: Counters::new(),
        })
    }
}

/// Spawns from outside of the task's pool.
static NOBODY: Nobody = Nobody::new(|_, task| task.push(Why::Injected));
/// Spawns from within a hook of the policy of the task's pool, whose worker does not take it.
static HOOK: Nobody = Nobody::new(|_, task| task.push(Why::Spawned));

thread_word!(static CURRENT: *const Front = &raw const NOBODY.0);

fn is_current(front: &Front) -> bool {
    is(front)
}

/// Whether that is what free functions find here.
#[inline]
pub(crate) fn is(front: *const Front) -> bool {
    std::ptr::eq(CURRENT.with(Cell::get), or_nobody(front))
}

/// What free functions find here; null: nothing.
#[inline]
pub(crate) fn get() -> *const Front {
    let front = CURRENT.with(Cell::get);
    if std::ptr::eq(front, &raw const NOBODY.0) {
        std::ptr::null()
    } else {
        front
    }
}

/// Makes it what free functions find here. It stays alive until the next call.
#[inline]
pub(crate) fn set(front: *const Front) {
    CURRENT.with(|current| current.set(or_nobody(front)));
}

#[inline]
fn or_nobody(front: *const Front) -> *const Front {
    if front.is_null() {
        &raw const NOBODY.0
    } else {
        front
    }
}

/// Calls `f` with the worker that this thread carries, if it takes tasks of `pool`.
#[inline]
pub(crate) fn with_taker<R>(pool: NonNull<PoolHeader>, f: impl FnOnce(Option<&Front>) -> R) -> R {
    // SAFETY: as in `with_current`; or it is `NOBODY`, which is there for ever.
    let front = unsafe { &*CURRENT.with(Cell::get) };
    // Not an `Option` that is made first: it would be asked once more whether it is there.
    if front.takes() == Some(pool) {
        f(Some(front))
    } else {
        f(None)
    }
}

/// Who spawns a task, and of which pool it is to be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spawner {
    front: *const Front,
    pool: NonNull<PoolHeader>,
}

impl Spawner {
    /// Nobody who spawns a task of no pool.
    pub(crate) const NOBODY: Self = Self {
        front: &raw const NOBODY.0,
        pool: NonNull::dangling(),
    };

    /// Who spawns a task of `pool` here; or of the pool that is found here, or else of the one that `otherwise` says.
    #[inline]
    pub(crate) fn find(
        pool: Option<NonNull<PoolHeader>>,
        otherwise: impl FnOnce() -> NonNull<PoolHeader>,
    ) -> Self {
        let front = CURRENT.with(Cell::get);
        // SAFETY: as in `with_taker`.
        match unsafe { &*front }.takes() {
            Some(takes) if pool.is_none_or(|pool| pool == takes) => Self { front, pool: takes },
            _ => Self::find_otherwise(front, pool, otherwise),
        }
    }

    /// The same where no worker of this thread takes the task.
    #[inline(never)]
    fn find_otherwise(
        found: *const Front,
        pool: Option<NonNull<PoolHeader>>,
        otherwise: impl FnOnce() -> NonNull<PoolHeader>,
    ) -> Self {
        let somebody = !std::ptr::eq(found, &raw const NOBODY.0);
        // SAFETY: as in `with_taker`.
        let here = unsafe { &*found };
        let (front, pool) = match pool {
            Some(pool) if !somebody || pool != here.pool => (&raw const NOBODY.0, pool),
            None if !somebody => (&raw const NOBODY.0, otherwise()),
            // A visitor; or the worker is in its policy.
            _ if here.worker.is_none() => (found, here.pool),
            _ => (&raw const HOOK.0, here.pool),
        };
        Self { front, pool }
    }

    /// Of which pool.
    #[inline]
    pub(crate) fn pool(self) -> NonNull<PoolHeader> {
        self.pool
    }

    /// Pushes the task, which is of that pool.
    ///
    /// # Safety
    ///
    /// It was found on this thread, which has done nothing since but make the task.
    #[inline]
    pub(crate) unsafe fn push(self, task: Runnable) {
        // SAFETY: by contract what was found here is still here.
        let front = unsafe { &*self.front };
        // SAFETY: the calling thread carries the worker, and no hook is on its stack; or it visits the pool; or it is nobody's front, which
        // asks for nothing.
        unsafe { (front.spawned)(front, task) };
    }
}

/// A thread visits a pool: free functions find it for as long as the value lives.
#[derive(Debug)]
pub(crate) struct Visiting<'a> {
    front: &'a Front,
    /// The visit in which this one began; `None` if there was none.
    before: Option<*const Front>,
}

impl<'a> Visiting<'a> {
    /// # Safety
    ///
    /// The visitor's pool stays alive. The value is dropped on this thread, in reverse order of several, and not leaked.
    pub(crate) unsafe fn new(front: &'a Front) -> Self {
        let before = get();
        let visited = before != seat::found_here();
        set(front);
        Self {
            front,
            before: visited.then_some(before),
        }
    }
}

impl Drop for Visiting<'_> {
    fn drop(&mut self) {
        debug_assert!(is_current(self.front));
        // The thread may carry another worker than when the visit began: it waited.
        set(self.before.unwrap_or_else(seat::found_here));
    }
}

/// The driver of the pool that this thread works for or visits, and the number of its worker; outside of any, of the default
/// runtime.
///
/// # Errors
///
/// The pool is shutting down, this is a forked child, the system gives no poller, or the default runtime
/// cannot be built.
pub(crate) fn current_driver() -> io::Result<(Arc<Driver>, Option<usize>)> {
    let (driver, worker) = with_current(|front| match front {
        Some(front) => Ok::<_, io::Error>((front.driver()?, front.worker)),
        None => Ok((
            try_default_runtime().map_err(BuildError::into_io)?.driver()?,
            None,
        )),
    })?;
    driver.check()?;
    Ok((driver, worker))
}

/// Calls `f` with the worker that this thread carries, or the pool that it visits, if any.
#[inline]
pub(crate) fn with_current<R>(f: impl FnOnce(Option<&Front>) -> R) -> R {
    // SAFETY: null; or of a visit of this thread, whose borrow of the front is still alive; or of its seat's pool, which
    // the seat keeps alive.
    f(unsafe { get().as_ref() })
}
