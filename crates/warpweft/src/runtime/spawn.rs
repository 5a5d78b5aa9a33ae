//! Spawning: from a task, from outside, and with a name.

use super::default::default_runtime;
use super::handle::Runtime;
use super::pool::Pool;
use super::priority::Priority;
use super::spawn_error::SpawnError;
use crate::execution::fiber_start::{Start, StartOn};
use crate::execution::stack_context;
use crate::observe::tasks;
use crate::pool::current::Spawner;
use std::borrow::Cow;
use std::cell::Cell;
use std::panic::Location;
use warpweft_task::spawn::{SpawnInfo, TaskAlloc};
use warpweft_task::{JoinHandle, Runnable};

/// Spawns a future on the pool of the calling task, or outside of any pool on the [default
/// runtime](default_runtime).
///
/// Costs one allocation. Dropping the handle detaches the task.
///
/// # Panics
///
/// Outside of any pool, if the default runtime cannot be built.
///
/// ```
/// let runtime = warpweft::Runtime::builder().workers(2).build()?;
/// let sum = runtime.block_on(async {
///     let parts: Vec<_> = (0..10u64).map(|n| warpweft::spawn(async move { n * n })).collect();
///     let mut sum = 0;
///     for part in parts {
///         sum += part.await?;
///     }
///     Ok::<_, warpweft::JoinError>(sum)
/// });
/// assert_eq!(sum.ok(), Some(285));
/// # Ok::<(), warpweft::BuildError>(())
/// ```
#[track_caller]
pub fn spawn<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    TaskBuilder::new().spawn(future)
}

/// Spawns a closure on the pool of the calling task, or outside of any pool on the [default
/// runtime](default_runtime).
///
/// Costs one allocation. Dropping the handle detaches the task.
///
/// # Panics
///
/// Outside of any pool, if the default runtime cannot be built.
#[track_caller]
pub fn spawn_job<T, F>(job: F) -> JoinHandle<T>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    TaskBuilder::new().spawn_job(job)
}

/// Spawns a closure without a handle, on the pool of the calling task, or outside of any pool on the [default
/// runtime](default_runtime).
///
/// This is the cheapest form: its end costs no atomic read-modify-write. The panic hook reports its panics.
///
/// # Panics
///
/// Outside of any pool, if the default runtime cannot be built.
#[track_caller]
pub fn spawn_detached<F>(job: F)
where
    F: FnOnce() + Send + 'static,
{
    TaskBuilder::new().spawn_detached(job);
}

/// Spawns tasks with a name, on a chosen runtime, or with a [priority](Runtime::priority).
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
    priority: Option<Priority>,
}

impl Default for TaskBuilder<'_> {
    #[track_caller]
    fn default() -> Self {
        Self::new()
    }
}

impl<'a> TaskBuilder<'a> {
    /// Builds a task of the calling task's pool, without a name. Its spawn site is the caller of this
    /// function.
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
            priority: None,
        }
    }

    /// Names the task. Costs one more allocation, and two short locks.
    ///
    /// The name appears in [`JoinHandle::info`], in the policy's [`TaskInfo`](crate::TaskInfo), in the
    /// reports of [stuck workers](crate::Stall), and in the report of an overflow of a fiber's stack. A
    /// [`JoinError`](crate::JoinError) does not carry it.
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

    /// Sets the task's priority. A priority of another runtime is ignored.
    #[inline]
    pub fn priority(mut self, priority: Priority) -> Self {
        self.priority = Some(priority);
        self
    }

    /// Spawns a future.
    ///
    /// If the pool is shutting down, the handle returns [`JoinError::Shutdown`](crate::JoinError::Shutdown).
    ///
    /// # Panics
    ///
    /// As [`spawn`].
    #[inline]
    pub fn spawn<F>(self, future: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        // SAFETY: a runtime's pool ends its tasks before itself.
        self.place(|info| unsafe { tasks::future(future, info) })
    }

    /// Spawns a closure.
    ///
    /// If the pool is shutting down, the handle returns [`JoinError::Shutdown`](crate::JoinError::Shutdown).
    ///
    /// # Panics
    ///
    /// As [`spawn`].
    #[inline]
    pub fn spawn_job<T, F>(self, job: F) -> JoinHandle<T>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
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
    /// As [`spawn`].
    pub fn spawn_fiber<T, F>(self, body: F) -> JoinHandle<T>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        // SAFETY: a runtime's pool ends its tasks before itself.
        self.place(|info| unsafe { tasks::on_stack_job(body, Start, info) })
    }

    /// Spawns a fiber that starts on the thread of the calling one: see
    /// [`fiber::spawn_local`](crate::fiber::spawn_local). If the caller is not a fiber of the chosen pool,
    /// this is [`spawn_fiber`](Self::spawn_fiber).
    ///
    /// The policy does not decide where it starts, so a [priority](Self::priority) has no effect.
    ///
    /// # Panics
    ///
    /// As [`spawn`].
    pub fn spawn_fiber_local<T, F>(self, body: F) -> JoinHandle<T>
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
        // SAFETY: a runtime's pool ends its tasks before itself.
        let (task, handle) = unsafe { tasks::on_stack_job(body, Start, info) };
        context.adopt(task);
        handle
    }

    /// Spawns a [fiber](crate::fiber), and reserves its stack at once.
    ///
    /// # Errors
    ///
    /// [`SpawnError::NoStack`]; `body` was dropped.
    ///
    /// # Panics
    ///
    /// As [`spawn`].
    pub fn try_spawn_fiber<T, F>(self, body: F) -> Result<JoinHandle<T>, SpawnError>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let here =
            stack_context::here().filter(|context| self.pool.is_none_or(|pool| context.is_of(pool.header())));
        let reserved = match here {
            Some(context) => context.fibers().pool().core().stacks.reserve(),
            None => self
                .pool
                .unwrap_or_else(|| default_runtime().first())
                .any()
                .core()
                .stacks
                .reserve(),
        };
        let reserved = reserved.map_err(|_| SpawnError::NoStack)?;
        // SAFETY: a runtime's pool ends its tasks before itself.
        Ok(self.place(|info| unsafe { tasks::on_stack_job(body, StartOn(reserved), info) }))
    }

    /// Spawns a closure without a handle.
    ///
    /// If the pool is shutting down, the closure is dropped.
    ///
    /// # Panics
    ///
    /// As [`spawn`].
    #[inline]
    pub fn spawn_detached<F>(self, job: F)
    where
        F: FnOnce() + Send + 'static,
    {
        // SAFETY: a runtime's pool ends its tasks before itself.
        self.place(|info| (unsafe { tasks::detached_job(job, info) }, ()));
    }

    /// Spawns a closure that only this worker of the chosen pool runs, or of the default runtime. A busy worker
    /// runs it between two tasks, after at most 61 of them. Priorities have no effect.
    ///
    /// # Panics
    ///
    /// If the pool has no worker with that number, or if the default runtime cannot be built.
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
        let pool = self.pool.unwrap_or_else(|| default_runtime().first());
        pool.assert_has(worker);
        let info = SpawnInfo {
            pool: pool.header(),
            location: self.location,
            name: self.name,
        };
        // SAFETY: a runtime's pool ends its tasks before itself.
        let (task, handle) = unsafe { tasks::job(job, info) };
        pool.any().push_pinned(worker, task);
        handle
    }

    /// Creates the task with `make`, and pushes it to its pool.
    #[inline]
    fn place<H>(self, make: impl FnOnce(PoolAlloc<'_>) -> (Runnable, H)) -> H {
        let spawner = Cell::new(Spawner::NO_WORKER);
        let priority = self.priority;
        let (mut task, handle) = make(PoolAlloc {
            builder: self,
            spawner: &spawner,
        });
        let spawner = spawner.into_inner();
        if let Some(priority) = priority {
            priority.set(&mut task, spawner.pool());
        }
        // SAFETY: the spawner was found on this thread, inside this function.
        unsafe { spawner.push(task) };
        handle
    }
}

/// Finds the spawner of a task, and with it the pool, when the task is allocated.
struct PoolAlloc<'a> {
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

impl Runtime {
    /// Spawns a future on this runtime. Dropping the handle detaches the task.
    ///
    /// If the runtime is shutting down, the handle returns
    /// [`JoinError::Shutdown`](crate::JoinError::Shutdown).
    #[track_caller]
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        self.first().spawn(future)
    }

    /// Spawns a closure on this runtime. Dropping the handle detaches the task.
    ///
    /// If the runtime is shutting down, the handle returns
    /// [`JoinError::Shutdown`](crate::JoinError::Shutdown).
    #[track_caller]
    pub fn spawn_job<T, F>(&self, job: F) -> JoinHandle<T>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        self.first().spawn_job(job)
    }

    /// Spawns a [fiber](crate::fiber) on this runtime. Dropping the handle detaches it.
    ///
    /// If the runtime is shutting down, the handle returns
    /// [`JoinError::Shutdown`](crate::JoinError::Shutdown); if there is no stack for the fiber,
    /// [`JoinError::NoStack`](crate::JoinError::NoStack).
    #[track_caller]
    pub fn spawn_fiber<T, F>(&self, body: F) -> JoinHandle<T>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        TaskBuilder::new().on(self).spawn_fiber(body)
    }

    /// Spawns a [fiber](crate::fiber), unless the runtime is shutting down or has no stack for it.
    ///
    /// # Errors
    ///
    /// [`SpawnError`]; `body` was dropped.
    #[track_caller]
    pub fn try_spawn_fiber<T, F>(&self, body: F) -> Result<JoinHandle<T>, SpawnError>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        self.first().check()?;
        TaskBuilder::new().on(self).try_spawn_fiber(body)
    }

    /// Spawns a future, unless the runtime is shutting down, or its pool is
    /// [bounded](crate::Builder::capacity) and full.
    ///
    /// # Errors
    ///
    /// [`SpawnError`]; the future is dropped.
    #[track_caller]
    pub fn try_spawn<F>(&self, future: F) -> Result<JoinHandle<F::Output>, SpawnError>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        self.first().try_spawn(future)
    }

    /// Spawns a closure, unless the runtime is shutting down, or its pool is
    /// [bounded](crate::Builder::capacity) and full.
    ///
    /// # Errors
    ///
    /// [`SpawnError`]; the closure is dropped.
    #[track_caller]
    pub fn try_spawn_job<T, F>(&self, job: F) -> Result<JoinHandle<T>, SpawnError>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        self.first().try_spawn_job(job)
    }
}
