//! The end of a runtime, for its owner: with a time limit or without.
//!
//! # Invariants
//!
//! - Each thread of a pool has a share of the pool. So a thread that stops waiting for it frees nothing that
//!   it uses.
//! - The threads are joined by one thread at most: the caller, or one that was started for that.
//! - A task of another runtime that waits here gives its worker away, and a fiber switches away.

use super::dump::FindingSet;
use super::handle::Runtime;
use super::pool::Pool;
use crate::execution::late_end::ends_late_for;
use crate::execution::stack_context::{self, StackContext};
use crate::observe::dump::Dump;
use crate::observe::stack::NoStack;
use crate::observe::stacks;
use crate::pool::dyn_pool::DynPool;
use crate::scheduler::pool::is_in_external_push;
use crate::threads::pool_thread::is_joined_by;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use warpweft_platform::clock::now_ns;
use warpweft_platform::panics::contain;
use warpweft_platform::sync::{Condvar, Mutex};
use warpweft_platform::thread::{pause, spawn_named};
use warpweft_task::Latch;

/// How often the threads are looked at if there is none that could join them.
const LOOK_NS: u64 = 1_000_000;

impl Runtime {
    /// Ends the runtime with all of its pools, and waits for the workers' threads. Spawns are refused, and
    /// every worker leaves after its current step. Tasks that have not ended are dropped, and their joiners
    /// get [`JoinError::Shutdown`](crate::JoinError::Shutdown). To let the work finish, wait for its handles
    /// first, or use [`shutdown_gracefully`](Runtime::shutdown_gracefully).
    ///
    /// [`shutdown_timeout`](Runtime::shutdown_timeout) waits for a limited time, and says what is in the way.
    ///
    /// If one of the runtime's own tasks calls it, or a destructor of a thread-local of its threads, it does
    /// not wait, since it would wait for itself. The threads then leave on their own. A task of another
    /// runtime gives its worker away while it waits.
    ///
    /// **It waits without a time limit** for each closure that runs at this moment:
    ///
    /// - a job, or one poll of a future, that does not return, be it that it waits in direct style for what
    ///   never comes (a fiber that waits is unwound);
    /// - a closure in [`blocking`](crate::blocking()), even one that waits in the system for ever;
    /// - a closure that [`spawn_blocking`](Runtime::spawn_blocking) has begun, even if its handle was
    ///   dropped. Closures that still wait for a thread are dropped.
    ///
    /// The first kind is [reported](crate::Builder::report_stalls_after) as a stall, also while the shutdown
    /// waits. Of the others nothing is written.
    ///
    /// No thread can be stopped from outside. So make sure that such closures end: close the socket or
    /// channel that they wait for, set a flag for them, or let them check in
    /// [`cooperative`](mod@crate::cooperative) code. A program that is about to end, and need not wait, leaks
    /// the runtime (`std::mem::forget(runtime)`) or calls [`std::process::exit`]: its threads end with the
    /// process. The [default runtime](crate::default_runtime) is never dropped, so its threads end this way,
    /// too.
    ///
    /// In a child made by `fork()` it does nothing, because the workers are the parent's.
    pub fn shutdown(&self) {
        if self.close(None) == Close::Wait {
            let pools = self.pools().to_vec();
            off_worker(self.name(), move || pools.iter().map(Pool::any).for_each(join));
        }
        self.write_stats();
    }

    /// As [`shutdown`](Runtime::shutdown), and returns within ten milliseconds of that time, or 50 more if a
    /// thread that is asked for its stack gets no CPU.
    ///
    /// If threads are left then, they are detached: each ends when its closure does, and the memory of its
    /// pool stays until then. Nothing waits for them any more. They may still use what their closures have,
    /// so a program that unloads a library or exits has to mind that itself.
    ///
    /// It costs a thread, which waits for the others. If the system gives none, it looks every millisecond.
    ///
    /// With the feature `stacks`, the result has the [stacks](Runtime::dump_with_stacks) of at most 64 of the
    /// tasks that are left, as far as they are read in that time. The names of their functions need the
    /// symbols of the program, which are read in the second half of the limit. If that takes longer, the
    /// names are looked up when the result is shown: see [`Stack`](crate::Stack).
    ///
    /// ```
    /// use std::time::Duration;
    /// use warpweft::Runtime;
    ///
    /// let runtime = Runtime::builder().workers(1).build()?;
    /// runtime.shutdown_timeout(Duration::from_secs(5)).expect("nothing runs");
    ///
    /// let runtime = Runtime::builder().workers(1).build()?;
    /// let (go, stuck) = std::sync::mpsc::channel::<()>();
    /// let (started, begun) = std::sync::mpsc::channel();
    /// drop(runtime.spawn_job(move || {
    ///     started.send(()).ok();
    ///     stuck.recv()
    /// }));
    /// begun.recv()?;
    /// let remaining = runtime.shutdown_timeout(Duration::from_millis(20)).unwrap_err();
    /// assert!(remaining.to_string().contains("job"));
    /// go.send(())?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Remaining`] if a thread has not ended in that time. It has a dump, and shows it in the panic of
    /// `expect`, too. If one of the runtime's own tasks calls this, it returns it at once, since it would
    /// wait for itself.
    pub fn shutdown_timeout(self, limit: Duration) -> Result<(), Remaining> {
        let begun_ns = now_ns();
        let limit_ns = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        self.end_by(begun_ns.saturating_add(limit_ns), begun_ns)
    }

    /// Closes all pools, and waits for their threads until that time. The shutdown began at `begun_ns`.
    pub(super) fn end_by(mut self, end_ns: u64, begun_ns: u64) -> Result<(), Remaining> {
        // Half of the time is for what runs, and the other half for what is said of it.
        let reports_by_ns = end_ns - end_ns.saturating_sub(begun_ns) / 2;
        let left = match self.close(Some(reports_by_ns)) {
            Close::InParent => None,
            Close::IsOwn => Some(FindingSet::nothing()),
            Close::Wait => {
                let (name, pools) = (self.name().to_owned(), self.pools().to_vec());
                off_worker(self.name(), move || join_until(&name, &pools, end_ns))
            }
        };
        self.write_stats();
        let Some(found) = left else {
            return Ok(());
        };
        let dump = Dump::of_remaining(self.pools(), &found);
        self.is_left = true;
        Err(Remaining {
            name: self.name().to_owned(),
            waited: Duration::from_nanos(now_ns().saturating_sub(begun_ns)),
            dump,
        })
    }

    /// Closes all pools. Their ends wait for no report after `reports_by_ns`.
    fn close(&self, reports_by_ns: Option<u64>) -> Close {
        if self.any().is_in_forked_child() {
            return Close::InParent;
        }
        // All of them close before the first is waited for, since its tasks may wait for those of another.
        let pools = || self.pools().iter().map(Pool::any);
        if let Some(by_ns) = reports_by_ns {
            pools().for_each(|pool| pool.core().monitor.report_by(by_ns));
        }
        pools().for_each(|pool| pool.core().close());
        if self.any().is_in_forked_child() {
            // A waker has forked, and this is the child.
            return Close::InParent;
        }
        if self.is_own_thread() {
            Close::IsOwn
        } else {
            Close::Wait
        }
    }

    /// Returns true if the caller is one of the runtime's [own threads](is_own_thread), or an external thread
    /// in the middle of a push, for which the pool waits.
    pub(super) fn is_own_thread(&self) -> bool {
        let mut pools = self.pools().iter().map(Pool::any);
        is_in_external_push() || pools.any(|pool| is_own_thread(&**pool))
    }

    /// Writes the figures, if the environment asks for them.
    fn write_stats(&self) {
        if let Some(stats) = self.stats.as_ref().filter(|_| !self.any().is_in_forked_child()) {
            stats.write();
        }
    }
}

/// Returns true if the end of the pool waits for the calling thread: a worker's, a blocking one, or the
/// poller's, which calls wakers; one of these that destroys its thread-locals; or an external thread that
/// ends a task which came too late.
pub(super) fn is_own_thread(pool: &dyn DynPool) -> bool {
    stack_context::is_of(pool.header())
        || is_joined_by(pool.header())
        || ends_late_for(pool.header().as_ptr().cast_const().cast())
        || pool.core().driver.is_here()
        || pool.core().monitor.is_here()
        || pool.core().threads.blocking().is_here()
}

/// Calls `wait`, which sleeps in the system. In a task of another runtime, a thread that is started for it
/// does, and the task waits for that one as for a fork: its worker, and the other fibers of its thread, go on
/// meanwhile. The runtime that ends may wait for what they do.
pub(super) fn off_worker<R: Send + 'static>(name: &str, wait: impl Fn() -> R + Send + Sync + 'static) -> R {
    // A hook of a policy cannot wait without its worker, and a forked child has nothing that would go on.
    let keeps = |context: &&StackContext| context.is_in_policy() || context.stayed_in_parent();
    let Some(context) = stack_context::here().filter(|context| !keeps(context)) else {
        return wait();
    };
    let shared = Arc::new((wait, Mutex::new(None), Latch::new()));
    let waits = Arc::clone(&shared);
    let body = move || {
        let (wait, result, latch) = &*waits;
        contain(|| *result.lock() = Some(wait()));
        latch.set();
    };
    let (wait, result, latch) = &*shared;
    if let Ok(thread) = spawn_named(&format!("{name}-wait"), None, body) {
        context.wait_for_fork(latch);
        // It is about to end, with its share of what `wait` has.
        drop(thread.join());
    }
    let result = result.lock().take();
    result.unwrap_or_else(wait)
}

/// Waits for all threads of these pools, until that time. Returns `None` if they have ended, and else what
/// was found by a look at them some time before, so that what is found at the end can be compared.
fn join_until(name: &str, pools: &[Pool], end_ns: u64) -> Option<FindingSet> {
    let left_ns = || end_ns.saturating_sub(now_ns());
    let mut found = FindingSet::nothing();
    let joined: Vec<_> = pools.iter().map(|pool| Arc::clone(pool.any())).collect();
    let ended = Arc::new((Mutex::new(false), Condvar::new()));
    let tells = Arc::clone(&ended);
    let body = move || {
        joined.iter().for_each(join);
        // The memory of the pools is gone before the owner hears of it, unless others have a share.
        drop(joined);
        *tells.0.lock() = true;
        tells.1.notify_all();
    };
    let Ok(joins) = spawn_named(&format!("{name}-end"), None, body) else {
        while has_threads(pools) {
            match left_ns() {
                0 => return Some(found),
                left => pause(left.min(LOOK_NS)),
            }
        }
        return None;
    };
    // Waits until that much time is left. Returns true if the threads have ended.
    let wait_until = |then_ns: u64| {
        let mut is_over = ended.0.lock();
        while !*is_over {
            match left_ns().saturating_sub(then_ns) {
                0 => break,
                wait_ns => is_over = ended.1.wait_for(is_over, wait_ns),
            }
        }
        *is_over
    };
    let half_ns = left_ns() / 2;
    if !wait_until(half_ns) {
        // The names for the stacks of what is left, so that they are there then.
        stacks::prepare();
        if half_ns >= FindingSet::BEFORE_NS && !wait_until(FindingSet::BEFORE_NS) {
            found = FindingSet::first(pools);
        }
        if !wait_until(0) {
            return Some(found);
        }
    }
    // It is about to end, and has caught nothing that could panic.
    drop(joins.join());
    None
}

/// Returns true if a thread of a pool is not about to end.
fn has_threads(pools: &[Pool]) -> bool {
    pools.iter().any(|pool| {
        let threads = pool.any().core().threads.snapshot();
        threads.all + threads.blocking > 0
    })
}

/// Says if the caller waits for the threads of a runtime that it has closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Close {
    Wait,
    /// It is one of them.
    IsOwn,
    /// This process was made by `fork()`.
    InParent,
}

fn join(pool: &Arc<dyn DynPool>) {
    let core = pool.core();
    // The monitor reports what holds them up.
    core.threads.join_all();
    core.monitor.end();
    core.monitor.join();
    // One that the monitor has sent meanwhile.
    core.threads.join_all();
    core.driver.join();
}

/// Shuts the runtime down as [`shutdown`](Runtime::shutdown) does: waits for running closures without a
/// limit.
impl Drop for Runtime {
    fn drop(&mut self) {
        if !self.is_left {
            self.shutdown();
        }
    }
}

/// What was left of a runtime when [`Runtime::shutdown_timeout`] or
/// [`shutdown_gracefully`](Runtime::shutdown_gracefully) met its limit.
///
/// As text, also in the panic of `expect`, it has the names, the spawn sites and what each task does or waits
/// for.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Remaining {
    /// The runtime's name.
    pub name: String,
    /// For how long its threads were waited for.
    pub waited: Duration,
    /// What its tasks did when the time was over.
    pub dump: Dump,
}

impl fmt::Display for Remaining {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, waited, dump } = self;
        let waited = waited.as_millis();
        writeln!(
            f,
            "the runtime `{}` has not ended in {waited} ms: what runs cannot be stopped, and is left behind with \
             what waits for its threads",
            name.escape_debug()
        )?;
        if stacks::why_none() == Some(NoStack::NotBuilt) {
            writeln!(
                f,
                "for the stacks of what is left: build with warpweft = {{ features = [\"stacks\"] }}"
            )?;
        }
        fmt::Display::fmt(dump, f)
    }
}

/// The same as the text, since `expect` shows this one.
impl fmt::Debug for Remaining {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Remaining {}
