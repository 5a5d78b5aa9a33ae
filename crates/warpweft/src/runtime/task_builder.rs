//! [`TaskBuilder`]: the one place where tasks are spawned. The free functions, `Runtime`, `Pool` and the
//! limits call it.

use super::deadline::Deadline;
use super::default::default_runtime;
use super::handle::Runtime;
use super::local::run_local;
use super::pool::Pool;
use super::priority::{Priority, Rank};
use super::spawn_error::SpawnError;
use super::under_token::Inherits;
use crate::execution::fiber_start::FiberStart;
use crate::execution::stack_context;
use crate::execution::token::{inherited, start};
use crate::observe::tasks;
use crate::pool::current::Spawner;
use crate::pool::transfer_request::Destination;
use std::borrow::Cow;
use std::cell::Cell;
use std::panic::Location;
use warpweft_task::spawn::{SpawnInfo, TaskAlloc};
use warpweft_task::{JoinHandle, Runnable, Why};

/// Spawns tasks with a name, on a chosen runtime, or with a [priority](Runtime::priority) or a
/// [deadline](Runtime::deadline).
///
/// ```
/// use warpweft::{Runtime, TaskBuilder};
/// let runtime = Runtime::builder().workers(1).build()?;
/// let handle = TaskBuilder::new().name("answer").on(&runtime).spawn(async { 42 });
/// assert_eq!(handle.info().name(), Some("answer"));
/// assert_eq!(handle.wait().ok(), Some(42));
/// # Ok::<(), warpweft::BuildError>(())
/// ```
#[derive(Debug)]
#[must_use = "a task builder spawns nothing by itself"]
pub struct TaskBuilder<'a> {
    name: Option<Cow<'static, str>>,
    location: &'static Location<'static>,
    pool: Option<&'a Pool>,
    rank: Option<Rank>,
}

impl Default for TaskBuilder<'_> {
    #[track_caller]
    fn default() -> Self {
        Self::new()
    }
}

impl<'a> TaskBuilder<'a> {
    /// Builds a task of the calling task's pool, without a name. Its spawn site is the caller of this
    /// function: one that returns builders should be `#[track_caller]`, so that it is its own caller's.
    #[track_caller]
    #[inline]
    pub fn new() -> Self {
        Self::at(Location::caller())
    }

    /// The same with a spawn site that is known already.
    #[inline]
    pub(crate) fn at(location: &'static Location<'static>) -> Self {
        Self {
            name: None,
            location,
            pool: None,
            rank: None,
        }
    }

    /// Names the task. Costs one more allocation, and two short locks.
    ///
    /// The name appears in [`JoinHandle::info`], in the policy's [`TaskInfo`](crate::TaskInfo), in the
    /// reports of [stuck workers](crate::Stall) and of [panics](crate::PanicReport), in the text of the
    /// [`JoinError`](crate::JoinError) of a panic, and in the report of an overflow of a fiber's stack.
    pub fn name(mut self, name: impl Into<Cow<'static, str>>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Spawns on `runtime`, on its [first pool](Runtime::first), wherever the caller is.
    #[inline]
    pub fn on(self, runtime: &'a Runtime) -> Self {
        self.on_pool(runtime.first())
    }

    /// Spawns on `pool`, wherever the caller is.
    #[inline]
    pub fn on_pool(mut self, pool: &'a Pool) -> Self {
        self.pool = Some(pool);
        self
    }

    /// Sets the task's priority. A priority of another pool or runtime is ignored. Without one the task has
    /// that of the task that spawns it, if that is of the same pool; see [`Runtime::priority`].
    #[inline]
    pub fn priority(mut self, priority: Priority) -> Self {
        self.rank = Some(priority.rank());
        self
    }

    /// Sets the task's [deadline](Runtime::deadline). A deadline of another runtime is ignored. A task has a
    /// priority or a deadline; the last one that is set counts.
    #[inline]
    pub fn deadline(mut self, deadline: Deadline) -> Self {
        self.rank = Some(deadline.rank());
        self
    }

    /// Spawns a future.
    ///
    /// If the pool is shutting down, the handle returns [`JoinError::Shutdown`](crate::JoinError::Shutdown).
    ///
    /// # Panics
    ///
    /// As [`spawn`](crate::spawn).
    #[inline]
    pub fn spawn<F>(self, future: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        let future = Inherits::new(inherited(), future);
        // SAFETY: a runtime's pool ends its tasks before itself.
        self.place(|info| unsafe { tasks::future(future, info) })
    }

    /// Spawns a closure.
    ///
    /// If the pool is shutting down, the handle returns [`JoinError::Shutdown`](crate::JoinError::Shutdown).
    ///
    /// # Panics
    ///
    /// As [`spawn`](crate::spawn).
    #[inline]
    pub fn spawn_job<T, F>(self, job: F) -> JoinHandle<T>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        if let Some(node) = inherited() {
            return self.spawn_job_with_token(node, job);
        }
        // SAFETY: a runtime's pool ends its tasks before itself.
        self.place(|info| unsafe { tasks::job(job, info) })
    }

    /// Spawns a [fiber](crate::fiber).
    ///
    /// If the pool is shutting down, the handle returns
    /// [`JoinError::Shutdown`](crate::JoinError::Shutdown); if there is no stack for the
    /// fiber when it starts, [`JoinError::NoStack`](crate::JoinError::NoStack).
    ///
    /// # Panics
    ///
    /// As [`spawn`](crate::spawn).
    pub fn spawn_fiber<T, F>(self, body: F) -> JoinHandle<T>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let node = inherited();
        let body = move || start(node, body);
        // SAFETY: a runtime's pool ends its tasks before itself.
        self.place(|info| unsafe { tasks::on_stack_job(body, FiberStart, info) })
    }

    /// Spawns a fiber that starts on the thread of the calling one: see
    /// [`fiber::spawn_here`](crate::fiber::spawn_here). If the caller is not a fiber of the chosen pool,
    /// this is [`spawn_fiber`](Self::spawn_fiber).
    ///
    /// The policy does not decide where it starts, so a [priority](Self::priority) has no effect.
    ///
    /// # Panics
    ///
    /// As [`spawn`](crate::spawn).
    pub fn spawn_fiber_here<T, F>(self, body: F) -> JoinHandle<T>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let pool = self.pool.map(Pool::header);
        let Some(context) = stack_context::here().filter(|context| context.may_adopt(pool)) else {
            return self.spawn_fiber(body);
        };
        let info = SpawnInfo {
            pool: context.pool(),
            location: self.location,
            name: self.name,
        };
        let node = inherited();
        let body = move || start(node, body);
        // SAFETY: a runtime's pool ends its tasks before itself.
        let (task, handle) = unsafe { tasks::on_stack_job(body, FiberStart, info) };
        context.adopt(task);
        handle
    }

    /// Spawns a future, with a permit if the pool is [bounded](crate::Builder::capacity), or fails. Asks for
    /// [admission](crate::Builder::admission), if the pool has it.
    ///
    /// # Errors
    ///
    /// The pool is shutting down, full or overloaded; the future was dropped.
    ///
    /// # Panics
    ///
    /// As [`spawn`](crate::spawn).
    pub fn try_spawn<F>(self, future: F) -> Result<JoinHandle<F::Output>, SpawnError>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        let pool = self.pool_or_here();
        let entry = pool.try_entry(self.rank)?;
        Ok(self.enter_future(&pool, entry, future))
    }

    /// Spawns a closure, with a permit if the pool is [bounded](crate::Builder::capacity), or fails. Asks for
    /// [admission](crate::Builder::admission), if the pool has it.
    ///
    /// # Errors
    ///
    /// The pool is shutting down, full or overloaded; the closure was dropped.
    ///
    /// # Panics
    ///
    /// As [`spawn`](crate::spawn).
    pub fn try_spawn_job<T, F>(self, job: F) -> Result<JoinHandle<T>, SpawnError>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let pool = self.pool_or_here();
        let entry = pool.try_entry(self.rank)?;
        Ok(self.enter_job(&pool, entry, job))
    }

    /// Spawns a [fiber](crate::fiber), with a permit if the pool is [bounded](crate::Builder::capacity), and
    /// with its stack, or fails. Asks for [admission](crate::Builder::admission), if the pool has it.
    ///
    /// # Errors
    ///
    /// The pool is shutting down, full or overloaded, or there is no stack; `body` was dropped.
    ///
    /// # Panics
    ///
    /// As [`spawn`](crate::spawn).
    pub fn try_spawn_fiber<T, F>(self, body: F) -> Result<JoinHandle<T>, SpawnError>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let pool = self.pool_or_here();
        let entry = pool.try_entry(self.rank)?;
        let reserved = pool.reserve_stack()?;
        Ok(self.enter_fiber(&pool, entry, reserved, body))
    }

    /// Spawns a future that is not `Send`: see the free [`spawn_local`](crate::spawn_local).
    ///
    /// # Panics
    ///
    /// As [`spawn`](crate::spawn).
    pub fn spawn_local<M, F>(self, make: M) -> JoinHandle<F::Output>
    where
        M: FnOnce() -> F + Send + 'static,
        F: Future<Output: Send + 'static> + 'static,
    {
        self.spawn_fiber(move || run_local(make()))
    }

    /// As [`spawn_local`](Self::spawn_local), or fails as [`try_spawn_fiber`](Self::try_spawn_fiber) does.
    ///
    /// # Errors
    ///
    /// The pool is shutting down, full or overloaded, or there is no stack; `make` was dropped.
    ///
    /// # Panics
    ///
    /// As [`spawn`](crate::spawn).
    pub fn try_spawn_local<M, F>(self, make: M) -> Result<JoinHandle<F::Output>, SpawnError>
    where
        M: FnOnce() -> F + Send + 'static,
        F: Future<Output: Send + 'static> + 'static,
    {
        self.try_spawn_fiber(move || run_local(make()))
    }

    /// Spawns a closure without a handle.
    ///
    /// If the pool is shutting down, the closure is dropped.
    ///
    /// # Panics
    ///
    /// As [`spawn`](crate::spawn).
    #[inline]
    pub fn spawn_detached<F>(self, job: F)
    where
        F: FnOnce() + Send + 'static,
    {
        if let Some(node) = inherited() {
            return self.spawn_detached_with_token(node, job);
        }
        // SAFETY: a runtime's pool ends its tasks before itself.
        self.place(|info| (unsafe { tasks::detached_job(job, info) }, ()));
    }

    /// Spawns a closure that only this worker of the chosen pool runs, or of the default runtime. A busy
    /// worker runs it between two tasks, after at most 61 of them. Priorities have no effect.
    ///
    /// # Panics
    ///
    /// If the pool has never had a worker with that number, however large it may become, or if the default
    /// runtime cannot be built.
    ///
    /// ```
    /// use warpweft::{Pool, Runtime, TaskBuilder};
    /// let runtime = Runtime::builder().workers(2).build()?;
    /// let job = TaskBuilder::new().on(&runtime).spawn_pinned(1, Pool::current_worker);
    /// assert_eq!(job.wait()?, Some(1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn spawn_pinned<T, F>(self, worker: usize, job: F) -> JoinHandle<T>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let node = inherited();
        let job = move || start(node, job);
        // SAFETY: a runtime's pool ends its tasks before itself.
        self.pin(worker, |info| unsafe { tasks::job(job, info) })
    }

    /// Spawns a future that is not `Send`, on the thread that carries this worker of the chosen pool, or of
    /// the default runtime: see the free [`spawn_local`](crate::spawn_local). It stays on that thread, also
    /// when the worker moves to another one. A busy worker starts it between two tasks, after at most 61 of
    /// them. Priorities have no effect.
    ///
    /// # Panics
    ///
    /// If the pool has never had a worker with that number, however large it may become, or if the default
    /// runtime cannot be built.
    ///
    /// ```
    /// use warpweft::{Runtime, TaskBuilder, current_worker};
    /// let runtime = Runtime::builder().workers(2).build()?;
    /// let task = TaskBuilder::new().on(&runtime).spawn_pinned_local(1, || async { current_worker() });
    /// assert_eq!(task.wait()?, Some(1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn spawn_pinned_local<M, F>(self, worker: usize, make: M) -> JoinHandle<F::Output>
    where
        M: FnOnce() -> F + Send + 'static,
        F: Future<Output: Send + 'static> + 'static,
    {
        let node = inherited();
        let body = move || start(node, || run_local(make()));
        // SAFETY: a runtime's pool ends its tasks before itself.
        self.pin(worker, |info| unsafe {
            tasks::on_stack_job(body, FiberStart, info)
        })
    }

    /// Returns the chosen pool, or the one that free functions use here.
    pub(crate) fn pool_or_here(&self) -> Pool {
        match self.pool {
            Some(pool) => pool.clone(),
            None => Pool::current().unwrap_or_else(|| default_runtime().first().clone()),
        }
    }

    /// Returns the chosen pool.
    pub(crate) fn chosen(&self) -> Option<&'a Pool> {
        self.pool
    }

    /// Returns the priority or the deadline that was set.
    pub(super) fn rank(&self) -> Option<Rank> {
        self.rank
    }

    /// Returns a builder of the same task on that pool, without a priority or a deadline.
    pub(crate) fn copy_on<'b>(&self, pool: &'b Pool) -> TaskBuilder<'b> {
        TaskBuilder {
            name: self.name.clone(),
            location: self.location,
            pool: Some(pool),
            rank: None,
        }
    }

    fn pin<H>(self, worker: usize, make: impl FnOnce(SpawnInfo) -> (Runnable, H)) -> H {
        let pool = self.pool.unwrap_or_else(|| default_runtime().first());
        pool.assert_has(worker);
        let (task, handle) = make(SpawnInfo {
            pool: pool.header(),
            location: self.location,
            name: self.name,
        });
        pool.any().push_pinned(worker, task);
        handle
    }

    /// Creates the task with `make`, and pushes it with its permit. The destination is `pool`.
    pub(crate) fn admit<H>(
        self,
        pool: &Pool,
        destination: Destination,
        make: impl FnOnce(SpawnInfo) -> (Runnable, H),
    ) -> H {
        let (task, handle) = make(SpawnInfo {
            pool: pool.header(),
            location: self.location,
            name: self.name,
        });
        // SAFETY: `make` has just made it, so no other thread has seen it.
        let mut task = unsafe { destination.settle_fresh(task) };
        if let Some(rank) = self.rank {
            rank.set(&mut task, pool.header());
        }
        task.push(if pool.is_here() {
            Why::Spawned
        } else {
            Why::Injected
        });
        handle
    }

    /// Creates the task with `make`, and pushes it to its pool.
    #[inline]
    pub(super) fn place<H>(self, make: impl FnOnce(PoolAlloc<'_>) -> (Runnable, H)) -> H {
        let spawner = Cell::new(Spawner::NO_WORKER);
        let rank = self.rank;
        let (mut task, handle) = make(PoolAlloc {
            builder: self,
            spawner: &spawner,
        });
        let spawner = spawner.into_inner();
        if let Some(rank) = rank {
            rank.set(&mut task, spawner.pool());
        }
        // SAFETY: the spawner was found on this thread, inside this function.
        unsafe { spawner.push(task) };
        handle
    }
}

/// Finds the spawner of a task, and with it the pool, when the task is allocated.
pub(super) struct PoolAlloc<'a> {
    builder: TaskBuilder<'a>,
    /// The spawner that was found.
    spawner: &'a Cell<Spawner>,
}

impl TaskAlloc for PoolAlloc<'_> {
    #[inline]
    fn info(self) -> SpawnInfo {
        let TaskBuilder {
            name, location, pool, ..
        } = self.builder;
        let spawner = Spawner::find(pool.map(Pool::header), || default_runtime().first().header());
        self.spawner.set(spawner);
        SpawnInfo {
            pool: spawner.pool(),
            location,
            name,
        }
    }

    fn site(&self) -> (Option<&str>, &'static Location<'static>) {
        (self.builder.name.as_deref(), self.builder.location)
    }
}
