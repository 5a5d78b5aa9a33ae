//! Spawning with a permit of a bounded pool, after a wait for it; and what the functions that wait share with
//! those that fail: a permit, and admission by delay.

use super::admission::Starts;
use super::local::run_local;
use super::pool::Pool;
use super::pool_error::EnterError;
use super::priority::Rank;
use super::spawn_error::SpawnError;
use super::task_builder::TaskBuilder;
use crate::admission::controller::Admitted;
use crate::cancel_tree::node::Node;
use crate::coroutine::stack::Reserved;
use crate::execution::fiber_start::StartOn;
use crate::execution::token::{inherited, start, with_token};
use crate::observe::tasks;
use crate::pool::transfer_request::Destination;
use std::sync::Arc;
use warpweft_task::JoinHandle;

/// What a task needs to come into a pool: its permit, if the pool is bounded, and the admission that says
/// when the task starts, if the pool admits by delay.
pub(super) struct Entry {
    destination: Destination,
    admitted: Option<Admitted>,
}

impl Entry {
    /// A permit without admission.
    pub(super) fn unasked(destination: Destination) -> Self {
        Self {
            destination,
            admitted: None,
        }
    }
}

impl Pool {
    /// Takes what a task of that rank needs, without waiting.
    pub(super) fn try_entry(&self, rank: Option<Rank>) -> Result<Entry, SpawnError> {
        let admitted = self.ask(rank)?;
        let destination = self.try_permit()?;
        Ok(Entry {
            destination,
            admitted,
        })
    }

    /// Takes what a task of that rank needs, and waits for a permit.
    async fn entry(&self, rank: Option<Rank>) -> Result<Entry, EnterError> {
        self.check().map_err(EnterError::of)?;
        let destination = match self.claim()? {
            Some(claim) => {
                claim.await.map_err(|_| EnterError::Closed)?.forget();
                let destination = Destination::new(Arc::clone(self.any()), true);
                // The pool may have closed since it gave the permit.
                self.check().map_err(EnterError::of)?;
                destination
            }
            None => Destination::new(Arc::clone(self.any()), false),
        };
        // Not before the wait: that is not a delay of the pool's workers.
        let admitted = self.ask(rank).map_err(EnterError::of)?;
        Ok(Entry {
            destination,
            admitted,
        })
    }

    /// Reserves the stack of a fiber.
    pub(super) fn reserve_stack(&self) -> Result<Reserved, SpawnError> {
        let reserved = self.any().core().stacks.reserve();
        reserved.map_err(|_| SpawnError::NoStack)
    }
}

impl<'a> TaskBuilder<'a> {
    /// Spawns a future, after waiting for a permit if the pool is [bounded](crate::Builder::capacity). Then
    /// it asks for [admission](crate::Builder::admission), if the pool has it. Does nothing until it is
    /// awaited.
    ///
    /// Without a chosen pool it is that of the caller of this function. See
    /// [`Pool::spawn_with_permit`](crate::compose::Pool::spawn_with_permit), also for a caller that is a task
    /// of the same pool.
    ///
    /// # Errors
    ///
    /// [`EnterError`] if the pool is shutting down or overloaded, or if waiting for a permit there could last
    /// for ever. The future was dropped.
    ///
    /// # Panics
    ///
    /// As [`spawn`](crate::spawn).
    ///
    /// ```
    /// use warpweft::{EnterError, Runtime, TaskBuilder, policy::Negele};
    /// let builder = Runtime::builder().workers(1).policy(Negele::new());
    /// let runtime = builder.capacity(2).build()?;
    /// let urgent = runtime.priority(0)?;
    /// let sum = runtime.block_on(async {
    ///     let builder = TaskBuilder::new().on(&runtime).priority(urgent);
    ///     let task = builder.spawn_with_permit(async { 42 }).await?;
    ///     Ok::<_, EnterError>(task.await)
    /// })?;
    /// assert_eq!(sum?, 42);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn spawn_with_permit<F>(
        self,
        future: F,
    ) -> impl Future<Output = Result<JoinHandle<F::Output>, EnterError>>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        self.spawn_with_permit_under(inherited(), future)
    }

    /// The same under that token, which is that of the call, as for each spawn, and not of what awaits the
    /// permit.
    pub(crate) fn spawn_with_permit_under<F>(
        self,
        token: Option<Arc<Node>>,
        future: F,
    ) -> impl Future<Output = Result<JoinHandle<F::Output>, EnterError>>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        let pool = self.pool_or_here();
        self.after_wait(token, pool, |builder, pool, entry| {
            Ok(builder.enter_future(pool, entry, future))
        })
    }

    /// Waits for what a task needs to come into `pool`, and calls `spawn` with it, under that token.
    async fn after_wait<T>(
        self,
        token: Option<Arc<Node>>,
        pool: Pool,
        spawn: impl FnOnce(Self, &Pool, Entry) -> Result<T, EnterError>,
    ) -> Result<T, EnterError> {
        let entry = pool.entry(self.rank()).await?;
        with_token(token.as_ref(), || spawn(self, &pool, entry))
    }

    /// Spawns a closure, after waiting for a permit as [`spawn_with_permit`](Self::spawn_with_permit) does.
    /// For a wait with a limit await it in [`timeout`](crate::time::timeout).
    ///
    /// # Errors
    ///
    /// As `spawn_with_permit`; the closure was dropped.
    ///
    /// # Panics
    ///
    /// As [`spawn`](crate::spawn).
    pub fn spawn_job_with_permit<T, F>(
        self,
        job: F,
    ) -> impl Future<Output = Result<JoinHandle<T>, EnterError>>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let (token, pool) = (inherited(), self.pool_or_here());
        self.after_wait(token, pool, |builder, pool, entry| {
            Ok(builder.enter_job(pool, entry, job))
        })
    }

    /// Spawns a [fiber](crate::fiber) with its stack, after waiting for a permit as
    /// [`spawn_with_permit`](Self::spawn_with_permit) does. It does not wait for a stack.
    ///
    /// # Errors
    ///
    /// As `spawn_with_permit`, and [`EnterError::NoStack`]; `body` was dropped.
    ///
    /// # Panics
    ///
    /// As [`spawn`](crate::spawn).
    pub fn spawn_fiber_with_permit<T, F>(
        self,
        body: F,
    ) -> impl Future<Output = Result<JoinHandle<T>, EnterError>>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let (token, pool) = (inherited(), self.pool_or_here());
        self.after_wait(token, pool, |builder, pool, entry| {
            let reserved = pool.reserve_stack().map_err(EnterError::of)?;
            Ok(builder.enter_fiber(pool, entry, reserved, body))
        })
    }

    /// Spawns a future that is not `Send`, after waiting for a permit: see the free
    /// [`spawn_local`](crate::spawn_local), and [`spawn_fiber_with_permit`](Self::spawn_fiber_with_permit).
    ///
    /// # Errors
    ///
    /// As `spawn_fiber_with_permit`; `make` was dropped.
    ///
    /// # Panics
    ///
    /// As [`spawn`](crate::spawn).
    pub fn spawn_local_with_permit<M, F>(
        self,
        make: M,
    ) -> impl Future<Output = Result<JoinHandle<F::Output>, EnterError>>
    where
        M: FnOnce() -> F + Send + 'static,
        F: Future<Output: Send + 'static> + 'static,
    {
        self.spawn_fiber_with_permit(move || run_local(make()))
    }

    /// Creates the task of a future that may enter `pool`, and pushes it.
    pub(super) fn enter_future<F>(self, pool: &Pool, entry: Entry, future: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        match entry.admitted {
            None => self.admit_future(pool, entry.destination, future),
            Some(admitted) => self.admit_future(pool, entry.destination, Starts::new(admitted, future)),
        }
    }

    /// Creates the task of a closure that may enter `pool`, and pushes it.
    pub(super) fn enter_job<T, F>(self, pool: &Pool, entry: Entry, job: F) -> JoinHandle<T>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let job = starts(entry.admitted, job);
        // SAFETY: a runtime's pool ends its tasks before itself.
        self.admit(pool, entry.destination, |info| unsafe { tasks::job(job, info) })
    }

    /// Creates a fiber that may enter `pool`, and pushes it.
    pub(super) fn enter_fiber<T, F>(
        self,
        pool: &Pool,
        entry: Entry,
        reserved: Reserved,
        body: F,
    ) -> JoinHandle<T>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let body = starts(entry.admitted, body);
        // SAFETY: a runtime's pool ends its tasks before itself.
        let make = |info| unsafe { tasks::on_stack_job(body, StartOn(reserved), info) };
        self.admit(pool, entry.destination, make)
    }
}

/// Returns the closure under the token that counts here, which first says that it starts.
fn starts<T>(
    admitted: Option<Admitted>,
    body: impl FnOnce() -> T + Send + 'static,
) -> impl FnOnce() -> T + Send + 'static {
    let node = inherited();
    let body = move || {
        if let Some(admitted) = admitted {
            admitted.start();
        }
        body()
    };
    // What is cancelled before does not start.
    move || start(node, body)
}
