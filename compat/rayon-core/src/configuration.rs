//! The names that the builder had before version 1.0 of the original.
#![allow(deprecated, reason = "the original still has them")]

use crate::{ThreadPool, ThreadPoolBuilder};
use std::any::Any;
use std::error::Error;

/// The former name of [`ThreadPoolBuilder`].
#[deprecated(note = "Use `ThreadPoolBuilder`")]
#[derive(Debug, Default)]
pub struct Configuration {
    builder: ThreadPoolBuilder,
}

impl Configuration {
    /// As [`ThreadPoolBuilder::new`].
    pub fn new() -> Self {
        Self::default()
    }

    /// As [`ThreadPoolBuilder::build`].
    pub fn build(self) -> Result<ThreadPool, Box<dyn Error + 'static>> {
        self.builder.build().map_err(Into::into)
    }

    pub(crate) fn into_builder(self) -> ThreadPoolBuilder {
        self.builder
    }

    fn map(self, change: impl FnOnce(ThreadPoolBuilder) -> ThreadPoolBuilder) -> Self {
        Self {
            builder: change(self.builder),
        }
    }

    /// As [`ThreadPoolBuilder::thread_name`].
    #[must_use]
    pub fn thread_name<F>(self, closure: F) -> Self
    where
        F: FnMut(usize) -> String + 'static,
    {
        self.map(|builder| builder.thread_name(closure))
    }

    /// As [`ThreadPoolBuilder::num_threads`].
    #[must_use]
    pub fn num_threads(self, num_threads: usize) -> Self {
        self.map(|builder| builder.num_threads(num_threads))
    }

    /// As [`ThreadPoolBuilder::panic_handler`].
    #[must_use]
    pub fn panic_handler<H>(self, panic_handler: H) -> Self
    where
        H: Fn(Box<dyn Any + Send>) + Send + Sync + 'static,
    {
        self.map(|builder| builder.panic_handler(panic_handler))
    }

    /// As [`ThreadPoolBuilder::stack_size`].
    #[must_use]
    pub fn stack_size(self, stack_size: usize) -> Self {
        self.map(|builder| builder.stack_size(stack_size))
    }

    /// As [`ThreadPoolBuilder::breadth_first`].
    #[must_use]
    pub fn breadth_first(self) -> Self {
        self.map(ThreadPoolBuilder::breadth_first)
    }

    /// As [`ThreadPoolBuilder::start_handler`].
    #[must_use]
    pub fn start_handler<H>(self, start_handler: H) -> Self
    where
        H: Fn(usize) + Send + Sync + 'static,
    {
        self.map(|builder| builder.start_handler(start_handler))
    }

    /// As [`ThreadPoolBuilder::exit_handler`].
    #[must_use]
    pub fn exit_handler<H>(self, exit_handler: H) -> Self
    where
        H: Fn(usize) + Send + Sync + 'static,
    {
        self.map(|builder| builder.exit_handler(exit_handler))
    }
}

/// The former name of [`ThreadPoolBuilder::build_global`].
#[deprecated(note = "use `ThreadPoolBuilder::build_global`")]
pub fn initialize(config: Configuration) -> Result<(), Box<dyn Error>> {
    config.into_builder().build_global().map_err(Into::into)
}
