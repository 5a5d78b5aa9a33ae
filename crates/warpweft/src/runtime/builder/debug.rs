//! The settings of a builder as text, each that the environment may replace with where it comes from.

use crate::pool::info::SettingSource;
use crate::runtime::builder::Builder;
use crate::runtime::config::Config;
use crate::runtime::environment::Unset;
use std::fmt;

/// The number of workers and the policy are followed by where they come from.
impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Config { workers, sources, .. } = &self.config;
        let workers = match (workers, sources.workers) {
            (Some(workers), SettingSource::Program) => format!("{workers} ({})", SettingSource::Program),
            (workers, _) => Unset::workers(*workers).to_string(),
        };
        let default = self.launch.as_ref().map(|_| self.config.policy.as_str());
        let policy = match (default, sources.policy) {
            (Some(policy), SettingSource::Program) => format!("{policy} ({})", SettingSource::Program),
            (policy, _) => Unset::policy(policy).to_string(),
        };
        f.debug_struct("Builder")
            .field("workers", &format_args!("{workers}"))
            .field("name", &self.config.name)
            .field("stack_size", &self.config.stack_bytes)
            .field("max_threads", &self.config.max_threads)
            .field("fiber_stack_size", &self.config.fiber_stack_bytes)
            .field("io", &self.config.io)
            .field("max_blocking_threads", &self.config.max_blocking_threads)
            .field("blocking_keep_alive", &self.config.blocking_keep_alive)
            .field("pin", &self.config.pin)
            .field("stuck_after", &self.config.watch.stuck_after)
            .field("quantum", &self.config.quantum)
            .field("policy", &format_args!("{policy}"))
            .field("capacity", &self.config.capacity)
            .field("panic_policy", &self.config.panics.policy)
            .field("pools_behind", &self.next.len())
            .finish()
    }
}
