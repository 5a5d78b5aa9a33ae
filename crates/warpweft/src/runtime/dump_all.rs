//! A dump of all runtimes of the process.
//!
//! # Invariants
//!
//! - The pools that it looks at stay until it has finished, and no runtime waits for that: a runtime that
//!   ends meanwhile ends as usual, and the memory of its pools is freed a little later.
//! - Each pool has a name of its own in the dump, since the dump finds pools by their names.

use super::dump::{dyn_pools, look};
use super::living::{LivingRuntime, living};
use crate::observe::dump::Dump;

/// Returns what all tasks of all runtimes do, as [`Runtime::dump`](crate::Runtime::dump) does for one: the
/// runtimes of this process that were not dropped, and those that are left with threads that have not ended.
/// So it finds a circle of waits that leads through several runtimes, such as that of a task which joins one
/// of another runtime while that one waits for a lock of its own.
///
/// If there are several runtimes, the names of pools tell which is which. A runtime's first pool has the name
/// of the runtime, and each further one that name before its own: `main/index`. If runtimes have the same
/// name, a number follows it, such as `main (2)`: it counts the runtimes that the process has built.
///
/// The dump finds that [nothing runs](crate::Finding::NothingRuns) only if this is so in all runtimes.
///
/// It can be called wherever `Runtime::dump` can, and costs as much. No runtime is kept alive by it, nor does
/// its end wait for it. Without any runtime the dump has threads alone.
///
/// ```
/// use std::sync::Arc;
/// use warpweft::sync::{Barrier, Mutex};
/// use warpweft::{Finding, Runtime};
///
/// let network = Runtime::builder().workers(1).name("network").build()?;
/// let compute = Runtime::builder().workers(1).name("compute").build()?;
/// let (left, right) = (Arc::new(Mutex::new(())), Arc::new(Mutex::new(())));
/// let both = Arc::new(Barrier::new(2));
/// for (runtime, first, second) in [(&network, &left, &right), (&compute, &right, &left)] {
///     let (first, second, both) = (Arc::clone(first), Arc::clone(second), Arc::clone(&both));
///     let task = runtime.spawn(async move {
///         let _first = first.lock().await;
///         both.arrive().await;
///         drop(second.lock().await);
///     });
///     drop(task);
/// }
/// let is_circle = |finding: &Finding| matches!(finding, Finding::Cycle { tasks, .. } if tasks.len() == 2);
/// let dump = loop {
///     let dump = warpweft::dump_all();
///     if dump.findings.iter().any(is_circle) {
///         break dump;
///     }
/// };
/// assert!(dump.to_string().contains("in `network`"));
/// # Ok::<(), warpweft::BuildError>(())
/// ```
#[must_use]
pub fn dump_all() -> Dump {
    let runtimes = living();
    let names = names(&runtimes);
    let pools = || {
        let mut pools = Vec::new();
        for runtime in &runtimes {
            pools.extend(dyn_pools(&runtime.pools));
        }
        pools
    };
    look(true, names.as_deref(), &pools)
}

/// Returns the names of the pools of several runtimes, in which no name comes twice.
fn names(runtimes: &[LivingRuntime]) -> Option<Vec<String>> {
    if runtimes.len() < 2 {
        return None;
    }
    let name = |runtime: &LivingRuntime| runtime.pools.first().map(|pool| pool.name().to_owned());
    let all: Vec<String> = runtimes.iter().filter_map(name).collect();
    let mut names = Vec::new();
    for runtime in runtimes {
        let own = name(runtime).unwrap_or_default();
        let number = runtime.number;
        let of_runtime = match all.iter().filter(|other| **other == own).count() > 1 {
            true => format!("{own} ({number})"),
            false => own,
        };
        for (at, pool) in runtime.pools.iter().enumerate() {
            let mut full = match at {
                0 => of_runtime.clone(),
                _ => format!("{of_runtime}/{}", pool.name()),
            };
            // A program may give a runtime the name that another one gets here.
            while names.contains(&full) {
                full = format!("{full} ({number})");
            }
            names.push(full);
        }
    }
    Some(names)
}
