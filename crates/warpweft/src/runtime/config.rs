//! The settings of one pool of a runtime.

use super::build_error::BuildError;
use super::pool::Pool;
use crate::admission::settings::QueueDelay;
use crate::driver::Io;
use crate::observe::recorder::Settings;
use crate::pool::info::{Order, SettingSources};
use crate::pool::panics::Panics;
use crate::threads::affinity::Pin;
use crate::threads::monitor::Watch;
use crate::threads::pool_thread::ThreadHooks;
use std::time::Duration;

/// Starts a pool. The function knows the type of the policy.
pub(crate) type Launch = dyn FnOnce(Config) -> Result<Pool, BuildError> + Send;

/// The settings of one pool.
pub(crate) struct Config {
    pub(crate) workers: Option<usize>,
    pub(crate) max_workers: Option<usize>,
    /// How often the size is that of the machine; the outer `None` is the default.
    pub(crate) follow_cpus: Option<Option<Duration>>,
    pub(crate) name: String,
    pub(crate) stack_bytes: Option<usize>,
    pub(crate) max_threads: Option<usize>,
    pub(crate) fiber_stack_bytes: usize,
    pub(crate) max_fiber_stacks: usize,
    pub(crate) io: Io,
    pub(crate) max_blocking_threads: usize,
    pub(crate) blocking_keep_alive: Duration,
    pub(crate) pin: Pin,
    pub(crate) watch: Watch,
    pub(crate) quantum: u32,
    pub(crate) policy: String,
    /// Where the number of workers and the policy come from. The environment may replace defaults when the
    /// runtime is built.
    pub(crate) sources: SettingSources,
    pub(crate) capacity: Option<usize>,
    pub(crate) admission: Option<QueueDelay>,
    pub(crate) order: Order,
    pub(crate) hooks: ThreadHooks,
    pub(crate) panics: Panics,
    pub(crate) recorder: Settings,
}
