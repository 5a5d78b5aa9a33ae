//! How the threads of a pool are started.

use std::fmt;
use std::io;
use std::thread;
use warpweft::PoolThread;

/// A thread of a pool that is to be started: see
/// [`ThreadPoolBuilder::spawn_handler`](crate::ThreadPoolBuilder::spawn_handler).
///
/// If it is dropped without having run, its pool closes.
pub struct ThreadBuilder {
    pub(crate) name: Option<String>,
    pub(crate) stack_size: Option<usize>,
    pub(crate) index: usize,
    pub(crate) thread: PoolThread,
}

impl ThreadBuilder {
    /// Returns the index of the thread in its pool.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Returns the name that the thread should have.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Returns the size in bytes that the thread's stack should have.
    pub fn stack_size(&self) -> Option<usize> {
        self.stack_size
    }

    /// Runs the pool's closures on the calling thread. Returns when the pool was dropped.
    pub fn run(self) {
        self.thread.run();
    }
}

impl fmt::Debug for ThreadBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadBuilder")
            .field("name", &self.name)
            .field("stack_size", &self.stack_size)
            .field("index", &self.index)
            .finish_non_exhaustive()
    }
}

/// A way to start threads.
pub trait ThreadSpawn {
    /// True if it can start more threads when the pool is built.
    const STARTS_MORE: bool;

    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// There are no more threads.
    fn spawn(&mut self, thread: ThreadBuilder) -> io::Result<()>;
}

/// Starts threads of the standard library.
#[derive(Debug, Default)]
pub struct DefaultSpawn;

impl ThreadSpawn for DefaultSpawn {
    const STARTS_MORE: bool = true;

    fn spawn(&mut self, thread: ThreadBuilder) -> io::Result<()> {
        start(thread.name.clone(), thread.stack_size, move || thread.run())
    }
}

/// Starts a thread of the standard library.
pub(crate) fn start(
    name: Option<String>,
    stack_size: Option<usize>,
    body: impl FnOnce() + Send + 'static,
) -> io::Result<()> {
    let mut builder = thread::Builder::new();
    if let Some(name) = name {
        builder = builder.name(name);
    }
    if let Some(bytes) = stack_size {
        builder = builder.stack_size(bytes);
    }
    builder.spawn(body).map(drop)
}

/// Starts threads by a function of the program.
#[derive(Debug)]
pub struct CustomSpawn<F>(F);

impl<F> CustomSpawn<F> {
    pub(crate) fn new(spawn: F) -> Self {
        Self(spawn)
    }
}

impl<F: FnMut(ThreadBuilder) -> io::Result<()>> ThreadSpawn for CustomSpawn<F> {
    const STARTS_MORE: bool = false;

    fn spawn(&mut self, thread: ThreadBuilder) -> io::Result<()> {
        (self.0)(thread)
    }
}
