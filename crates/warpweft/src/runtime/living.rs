//! The runtimes that live, for a report of all of them.
//!
//! # Invariants
//!
//! - The list has no share of a pool. A report takes shares while it looks, and drops them outside of the
//!   lock: the end of a pool may run destructors of the program.
//! - An entry goes when no share of its pools is left, at the next change of the list.
//! - In a forked child the lock may be lost. Then no runtime is known, and none waits for the list.

use super::pool::Pool;
use crate::pool::dyn_pool::DynPool;
use std::sync::{Arc, Weak};
use warpweft_platform::process::generation;
#[cfg(not(any(warpweft_loom, warpweft_shuttle)))]
use {std::sync::OnceLock, warpweft_platform::sync::Mutex};

/// A runtime that was built.
struct BuiltRuntime {
    /// How many runtimes the process had built then, with this one.
    number: u64,
    pools: Vec<Weak<dyn DynPool>>,
}

impl BuiltRuntime {
    fn has_pools(&self) -> bool {
        self.pools.iter().any(|pool| pool.strong_count() > 0)
    }
}

#[derive(Default)]
struct RuntimeList {
    ever: u64,
    runtimes: Vec<BuiltRuntime>,
}

/// A runtime that lives.
pub(super) struct LivingRuntime {
    pub(super) number: u64,
    pub(super) pools: Vec<Pool>,
}

/// Keeps a runtime in the list. It is dropped after the runtime's own shares of its pools.
pub(super) struct Living {
    /// The generation of the process that built the runtime.
    generation: u64,
}

impl Living {
    /// Enters a runtime with these pools.
    pub(super) fn new(pools: &[Pool]) -> Self {
        change(|list| {
            list.ever += 1;
            list.runtimes.push(BuiltRuntime {
                number: list.ever,
                pools: pools.iter().map(|pool| Arc::downgrade(pool.any())).collect(),
            });
        });
        Self {
            generation: generation(),
        }
    }
}

impl Drop for Living {
    fn drop(&mut self) {
        // The runtimes of the parent stay in the list of a forked child: there is no need to wait for a lock
        // that may be lost.
        if self.generation == generation() {
            change(|_| ());
        }
    }
}

/// Returns the runtimes whose threads have not ended, in the order in which they were built.
pub(super) fn living() -> Vec<LivingRuntime> {
    let mut living = Vec::new();
    change(|list| {
        living.extend(list.runtimes.iter().map(|known| {
            let pools = known.pools.iter().filter_map(Weak::upgrade);
            LivingRuntime {
                number: known.number,
                pools: pools.map(Pool::new).collect(),
            }
        }));
    });
    living.retain(|runtime| !runtime.pools.iter().all(|pool| has_ended(&**pool.any())));
    living
}

/// Returns true if the pool has ended. A handle to it may be left.
fn has_ended(pool: &dyn DynPool) -> bool {
    // The lock of the threads may be lost in a forked child.
    !pool.is_in_forked_child() && pool.is_closing() && {
        let threads = pool.core().threads.snapshot();
        threads.all + threads.blocking == 0
    }
}

/// Calls `change` with the list, without what is gone. Under the checkers, where a static would outlive a
/// schedule, there is no list.
fn change(change: impl FnOnce(&mut RuntimeList)) {
    let change = |list: &mut RuntimeList| {
        list.runtimes.retain(BuiltRuntime::has_pools);
        change(list);
    };
    #[cfg(not(any(warpweft_loom, warpweft_shuttle)))]
    {
        static LIST: OnceLock<Mutex<RuntimeList>> = OnceLock::new();
        let list = LIST.get_or_init(|| Mutex::new(RuntimeList::default()));
        if let Some(mut list) = list.lock_unless_lost() {
            change(&mut list);
        }
    }
    #[cfg(any(warpweft_loom, warpweft_shuttle))]
    change(&mut RuntimeList::default());
}
