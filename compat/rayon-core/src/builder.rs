//! [`ThreadPoolBuilder`]: the settings of a pool, and its start.

use crate::entered;
use crate::global;
use crate::registry::{OnPanic, OnThread, Registry, User, leave_current};
use crate::starts::{Phase, Starts};
use crate::thread_builder::{CustomSpawn, DefaultSpawn, ThreadBuilder, ThreadSpawn};
use crate::{MOST_THREADS, ThreadPool};
use std::any::{Any, type_name};
use std::env;
use std::error::Error;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use warpweft::policy::Amount;
use warpweft::policy::Stealing;
use warpweft::policy::order::StackOrder;
use warpweft::{BuildError, Pool, Runtime};

/// The reason why a pool was not built.
#[derive(Debug)]
pub struct ThreadPoolBuildError(Reason);

#[derive(Debug)]
enum Reason {
    AlreadyInitialized,
    CurrentThreadInUse,
    Io(io::Error),
}

impl ThreadPoolBuildError {
    pub(crate) fn already_initialized() -> Self {
        Self(Reason::AlreadyInitialized)
    }
}

impl From<io::Error> for ThreadPoolBuildError {
    fn from(error: io::Error) -> Self {
        Self(Reason::Io(error))
    }
}

impl From<BuildError> for ThreadPoolBuildError {
    fn from(error: BuildError) -> Self {
        Self(Reason::Io(io::Error::other(error)))
    }
}

impl fmt::Display for ThreadPoolBuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Reason::AlreadyInitialized => f.write_str("The global thread pool has already been initialized."),
            Reason::CurrentThreadInUse => {
                f.write_str("The current thread is already part of another thread pool.")
            }
            Reason::Io(error) => error.fmt(f),
        }
    }
}

impl Error for ThreadPoolBuildError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.0 {
            Reason::Io(error) => Some(error),
            Reason::AlreadyInitialized | Reason::CurrentThreadInUse => None,
        }
    }
}

type Handler = Arc<dyn Fn(usize) + Send + Sync>;

/// Configures and builds a [`ThreadPool`].
///
/// ```
/// let pool = rayon_core::ThreadPoolBuilder::new().num_threads(2).build()?;
/// assert_eq!(pool.install(rayon_core::current_num_threads), 2);
/// # Ok::<(), rayon_core::ThreadPoolBuildError>(())
/// ```
pub struct ThreadPoolBuilder<S = DefaultSpawn> {
    num_threads: usize,
    use_current_thread: bool,
    on_panic: OnPanic,
    thread_name: Option<Box<dyn FnMut(usize) -> String>>,
    stack_size: Option<usize>,
    start_handler: Option<Handler>,
    exit_handler: Option<Handler>,
    breadth_first: bool,
    spawn: S,
}

impl Default for ThreadPoolBuilder {
    fn default() -> Self {
        Self {
            num_threads: 0,
            use_current_thread: false,
            on_panic: OnPanic::default(),
            thread_name: None,
            stack_size: None,
            start_handler: None,
            exit_handler: None,
            breadth_first: false,
            spawn: DefaultSpawn,
        }
    }
}

impl ThreadPoolBuilder {
    /// Returns a builder with the default settings.
    pub fn new() -> Self {
        Self::default()
    }

    /// Builds a pool of threads that may borrow, and calls `with_pool` with it. Each thread calls `wrapper`
    /// with its [`ThreadBuilder`], whose `run` `wrapper` calls. Returns when all threads have ended.
    ///
    /// # Errors
    ///
    /// As [`build`](Self::build).
    pub fn build_scoped<W, F, R>(self, wrapper: W, with_pool: F) -> Result<R, ThreadPoolBuildError>
    where
        W: Fn(ThreadBuilder) + Sync,
        F: FnOnce(&ThreadPool) -> R,
    {
        thread::scope(|scope| {
            let pool = self
                .spawn_handler(|thread| {
                    let mut builder = thread::Builder::new();
                    if let Some(name) = thread.name() {
                        builder = builder.name(name.to_owned());
                    }
                    if let Some(bytes) = thread.stack_size() {
                        builder = builder.stack_size(bytes);
                    }
                    builder.spawn_scoped(scope, || wrapper(thread)).map(drop)
                })
                .build()?;
            Ok(with_pool(&pool))
        })
    }
}

impl<S: ThreadSpawn> ThreadPoolBuilder<S> {
    /// Builds a pool and starts its threads.
    ///
    /// # Errors
    ///
    /// The system starts no more threads, or a stack of the asked size cannot be had.
    ///
    /// # Panics
    ///
    /// If the function of [`thread_name`](Self::thread_name) does. The threads that were started have ended
    /// then, or are about to end.
    pub fn build(self) -> Result<ThreadPool, ThreadPoolBuildError> {
        self.build_registry().map(ThreadPool::new_of)
    }

    /// Builds the global pool, which functions outside of any pool use.
    ///
    /// # Errors
    ///
    /// As [`build`](Self::build), and if the global pool was built before.
    pub fn build_global(self) -> Result<(), ThreadPoolBuildError> {
        global::build(self).map(drop)
    }

    pub(crate) fn build_registry(mut self) -> Result<User, ThreadPoolBuildError> {
        if self.use_current_thread && Pool::current_worker().is_some() {
            return Err(ThreadPoolBuildError(Reason::CurrentThreadInUse));
        }
        let threads = self.threads();
        let starts = Arc::new(Starts::new(self.stack_size));
        let registry = Registry::open(threads, self.on_panic.clone(), Arc::clone(&starts));
        let runtime = self.runtime(threads, &registry, Arc::clone(&starts))?;
        registry.set_runtime(runtime);
        let next = if S::STARTS_MORE && !self.use_current_thread {
            Phase::Start
        } else {
            Phase::Refuse
        };
        let collected = starts.next(next);
        // Dropped behind the threads that were not started, also if a function of the program panics.
        let leaves = entered::LeavesOnDrop::new(&registry);
        for (index, thread) in collected.into_iter().enumerate() {
            if index == 0 && self.use_current_thread {
                entered::enter(&registry, thread);
                continue;
            }
            // On an error the remaining threads are dropped, which closes the pool.
            self.spawn.spawn(ThreadBuilder {
                name: self.thread_name.as_mut().map(|name| name(index)),
                stack_size: self.stack_size,
                index,
                thread,
            })?;
        }
        leaves.keep();
        Ok(registry)
    }

    fn runtime(
        &self,
        threads: usize,
        registry: &Registry,
        starts: Arc<Starts>,
    ) -> Result<Runtime, BuildError> {
        let registry = registry.weak();
        let (panics, late_panics) = (self.on_panic.clone(), self.on_panic.clone());
        let (on_start, on_exit) = (self.start_handler.clone(), self.exit_handler.clone());
        let builder = Runtime::builder().name("rayon");
        let builder = match self.threads_of_rayon() {
            Some(_) => builder.workers(threads),
            None => builder.default_workers(threads),
        };
        builder
            .default_policy(OwnPolicy::with_order(StackOrder).steal(Amount::One))
            // Not more threads than asked for run closures at a time.
            .stuck_after(None)
            .thread_context(move |_role| OnThread::enter(&registry))
            .on_thread_start(move |index| {
                // The thread that builds the pool is not started by it.
                if !entered::is_here() {
                    handle(on_start.as_ref(), index, &panics);
                }
            })
            .on_thread_stop(move |index| {
                leave_current();
                if !entered::is_here() {
                    handle(on_exit.as_ref(), index, &late_panics);
                }
            })
            .start_threads(move |thread| starts.start(thread))
            .build()
    }

    /// Returns the number of threads: the one that was set, or that of the environment, or of the processors.
    fn threads(&self) -> usize {
        let asked = self
            .threads_of_rayon()
            .or_else(|| {
                env::var(WORKERS)
                    .ok()?
                    .trim()
                    .parse()
                    .ok()
                    .filter(|number| *number > 0)
            })
            .unwrap_or_else(processors);
        asked.min(MOST_THREADS)
    }

    /// Returns the number of threads that was set as in the original.
    fn threads_of_rayon(&self) -> Option<usize> {
        if self.num_threads > 0 {
            return Some(self.num_threads);
        }
        match number_from("RAYON_NUM_THREADS") {
            Some(0) => Some(processors()),
            Some(number) => Some(number),
            None => number_from("RAYON_RS_NUM_CPUS").filter(|number| *number > 0),
        }
    }
}

/// The policy of a pool of this crate, unless the environment names another one.
type OwnPolicy = Stealing<StackOrder>;

/// Returns true if the pool has the policy of this crate.
pub(crate) fn has_own_order(pool: &Pool) -> bool {
    pool.policy() == type_name::<OwnPolicy>()
}

/// The variable that the runtime's builder reads, too. It refuses a text that is no number of workers.
const WORKERS: &str = "WARPWEFT_WORKERS";

fn number_from(variable: &str) -> Option<usize> {
    env::var(variable).ok()?.parse().ok()
}

fn processors() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Calls a handler of the program, and handles its panic as that of a spawned closure.
fn handle(handler: Option<&Handler>, index: usize, on_panic: &OnPanic) {
    let Some(handler) = handler else { return };
    // Unwind: the panic is handled here.
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| handler(index))) {
        on_panic.handle(panic);
    }
}

impl<S> ThreadPoolBuilder<S> {
    /// Sets the function that starts the pool's threads: each calls [`ThreadBuilder::run`].
    ///
    /// Such a pool has exactly these threads: one that waits runs other closures on its stack.
    pub fn spawn_handler<F>(self, spawn: F) -> ThreadPoolBuilder<CustomSpawn<F>>
    where
        F: FnMut(ThreadBuilder) -> io::Result<()>,
    {
        ThreadPoolBuilder {
            num_threads: self.num_threads,
            use_current_thread: self.use_current_thread,
            on_panic: self.on_panic,
            thread_name: self.thread_name,
            stack_size: self.stack_size,
            start_handler: self.start_handler,
            exit_handler: self.exit_handler,
            breadth_first: self.breadth_first,
            spawn: CustomSpawn::new(spawn),
        }
    }

    /// Sets the function that names each thread, by its index. Threads that are started later, for frames
    /// that wait, are called `rayon-N`.
    pub fn thread_name<F>(mut self, closure: F) -> Self
    where
        F: FnMut(usize) -> String + 'static,
    {
        self.thread_name = Some(Box::new(closure));
        self
    }

    /// Sets the number of threads, at most [`max_num_threads`](crate::max_num_threads). 0, the default, is
    /// the number in the environment variable `RAYON_NUM_THREADS`, where 0 is that of the processors. Without
    /// this variable it is the number in `RAYON_RS_NUM_CPUS`, or else in `WARPWEFT_WORKERS`, or else that of
    /// the processors.
    pub fn num_threads(mut self, num_threads: usize) -> Self {
        self.num_threads = num_threads;
        self
    }

    /// Makes the calling thread the first of the pool's threads, until it drops the pool or ends. It runs
    /// closures of the pool only while it waits in the pool, or yields. The start and exit handlers are not
    /// called there.
    pub fn use_current_thread(mut self) -> Self {
        self.use_current_thread = true;
        self
    }

    /// Sets the function that gets the panics of closures that nobody waits for. Without one such a panic
    /// aborts the process; so does a panic of the function.
    pub fn panic_handler<H>(mut self, panic_handler: H) -> Self
    where
        H: Fn(Box<dyn Any + Send>) + Send + Sync + 'static,
    {
        self.on_panic = OnPanic(Some(Arc::new(panic_handler)));
        self
    }

    /// Sets the size of the threads' stacks in bytes.
    pub fn stack_size(mut self, stack_size: usize) -> Self {
        self.stack_size = Some(stack_size);
        self
    }

    /// Has no effect here: each thread runs its youngest closure first. Use
    /// [`spawn_fifo`](crate::spawn_fifo) and [`scope_fifo`](crate::scope_fifo).
    #[deprecated(note = "use `scope_fifo` and `spawn_fifo` for similar effect")]
    pub fn breadth_first(mut self) -> Self {
        self.breadth_first = true;
        self
    }

    /// Sets the function that each thread calls first, with its index. A thread that is started for a frame
    /// that waits calls it with the index that it has at first.
    pub fn start_handler<H>(mut self, start_handler: H) -> Self
    where
        H: Fn(usize) + Send + Sync + 'static,
    {
        self.start_handler = Some(Arc::new(start_handler));
        self
    }

    /// Sets the function that each thread calls last, with the index that it has called the start handler
    /// with. The thread has left the pool then: [`current_thread_index`](crate::current_thread_index) is
    /// `None`, where the original still has one.
    pub fn exit_handler<H>(mut self, exit_handler: H) -> Self
    where
        H: Fn(usize) + Send + Sync + 'static,
    {
        self.exit_handler = Some(Arc::new(exit_handler));
        self
    }
}

impl<S> fmt::Debug for ThreadPoolBuilder<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadPoolBuilder")
            .field("num_threads", &self.num_threads)
            .field("use_current_thread", &self.use_current_thread)
            .field("thread_name", &self.thread_name.is_some())
            .field("panic_handler", &self.on_panic.0.is_some())
            .field("stack_size", &self.stack_size)
            .field("start_handler", &self.start_handler.is_some())
            .field("exit_handler", &self.exit_handler.is_some())
            .field("breadth_first", &self.breadth_first)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_source_of_an_error_of_the_system_is_that_error() {
        let error = ThreadPoolBuildError::from(io::Error::from_raw_os_error(11));
        let source = error
            .source()
            .and_then(|source| source.downcast_ref::<io::Error>());
        assert_eq!(source.and_then(io::Error::raw_os_error), Some(11));
        assert!(ThreadPoolBuildError::already_initialized().source().is_none());
    }
}
