//! The name and the settings of a pool, and its places if it is bounded.
//!
//! # Places
//!
//! A bounded pool has a fixed number of places. A task that came from elsewhere has one until it leaves or
//! ends. It is among the pool's owned tasks from the moment in which it is admitted. The thread that removes
//! it there gives the place back.
//!
//! A task with a place in one bounded pool may wait for a place in another only if that pool comes later in
//! the same runtime. So no circle of tasks wait for each other's places.

use super::at_close::AtClose;
use crate::admission::controller::Controller;
use std::any::Any;
use std::fmt;
use std::sync::Arc;
use warpweft_platform::panics::contain;

#[derive(Debug)]
pub(crate) struct PoolInfo {
    pub(crate) name: String,
    /// The policy, as text.
    pub(crate) policy: String,
    pub(crate) priorities: u8,
    /// True if the policy uses deadlines.
    pub(crate) deadlines: bool,
    /// The requested number of workers.
    pub(crate) workers: usize,
    /// The largest number of workers, compensating workers included.
    pub(crate) slots: usize,
    pub(crate) sources: SettingSources,
    pub(crate) order: Order,
    pub(crate) places: Option<Box<dyn PlaceLimit>>,
    /// What decides whether tasks that ask for it are admitted, by how long others waited.
    pub(crate) admission: Option<Arc<Controller>>,
    /// What closes with the pool.
    pub(crate) at_close: AtClose,
}

/// Where a setting comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SettingSource {
    Program,
    /// This environment variable.
    Environment(&'static str),
    Default,
}

impl SettingSource {
    /// Returns one word: `program`, `default`, or the name of the variable.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Program => "program",
            Self::Environment(variable) => variable,
            Self::Default => "default",
        }
    }
}

impl fmt::Display for SettingSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Program => f.write_str("set by the program"),
            Self::Environment(variable) => write!(f, "from {variable}"),
            Self::Default => f.write_str("the default"),
        }
    }
}

/// Where the settings come from that the environment may replace.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SettingSources {
    pub(crate) workers: SettingSource,
    pub(crate) policy: SettingSource,
}

/// The position of a pool in its runtime.
#[derive(Debug, Clone)]
pub(crate) struct Order {
    pub(crate) runtime: Arc<()>,
    pub(crate) index: usize,
}

/// The places of a bounded pool: a task from elsewhere has one while it is there.
pub(crate) trait PlaceLimit: Any + fmt::Debug + Send + Sync {
    /// Gives the place of one task back.
    fn give_back(&self);
    /// Returns what identifies the places in reports: 0 if no task has waited for one.
    fn object(&self) -> usize;
    /// Returns how many places there are.
    fn capacity(&self) -> usize;
    /// Closes admission with the pool: tasks that wait for places are woken.
    fn close(&self);
}

impl PoolInfo {
    /// Returns true if a task that has a place here may wait for one there.
    pub(crate) fn may_wait_for(&self, there: &Self) -> bool {
        self.places.is_none()
            || Arc::ptr_eq(&self.order.runtime, &there.order.runtime) && self.order.index < there.order.index
    }

    pub(crate) fn give_back(&self) {
        if let Some(places) = &self.places {
            // The waiting tasks may have foreign wakers, and the caller ends a task or moves it.
            contain(|| places.give_back());
        }
    }

    pub(crate) fn close(&self) {
        if let Some(places) = &self.places {
            // As above; the pool continues to close.
            contain(|| places.close());
        }
        self.at_close.close();
    }
}
