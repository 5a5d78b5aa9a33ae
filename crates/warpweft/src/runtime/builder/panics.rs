//! The settings of a builder that are about panics.

use super::Builder;
use crate::pool::panics::{CloseAll, PanicPolicy, PanicReport};
use crate::runtime::pool::Pool;
use std::sync::{Arc, Weak};

/// Prepares the end of all pools of a runtime, for the first panic that asks for it.
pub(super) fn set_close_all(close_all: &CloseAll, pools: &[Pool]) {
    let pools: Vec<_> = pools.iter().map(|pool| Arc::downgrade(pool.any())).collect();
    let close = move || {
        // As at `Runtime::shutdown`: all of them close before anything waits for one.
        let pools = pools.iter().filter_map(Weak::upgrade);
        pools.for_each(|pool| pool.core().close());
    };
    let first = close_all.set(Box::new(close));
    debug_assert!(first.is_ok(), "a runtime is built once");
}

impl Builder {
    /// Sets a function that is told of each panic of a task of this pool: with the task's kind, name and
    /// spawn site, the pool, and the message. The default is none.
    ///
    /// It is called once for each future, job, fiber and blocking closure that ends by a panic, before its
    /// joiner is woken, **whether or not its handle was dropped**, and also for a panic by
    /// [`resume_unwind`](std::panic::resume_unwind), which runs no panic hook. A panic in the destructor of a
    /// future or closure counts, too. A panic in a closure that a frame waits for, in
    /// [`join`](crate::join()), [`scope`](crate::scope()), [`blocking`](crate::blocking()) or
    /// [`install`](crate::Runtime::install), continues in that frame, and is reported with the task of the
    /// frame, unless the frame catches it. If a second panic has no place to continue, because a first one
    /// has, it is reported as a [fork](crate::TaskKind::Fork). A joiner that continues a panic makes it a
    /// panic of its own task.
    ///
    /// Without such a function, a panic of a task whose handle was dropped is one line on the standard error.
    ///
    /// The function runs on the thread of the task, and should not wait. If it panics, nothing else happens.
    ///
    /// ```
    /// use std::sync::{Arc, Mutex};
    /// use warpweft::{Runtime, TaskBuilder};
    /// let told = Arc::new(Mutex::new(Vec::new()));
    /// let log = Arc::clone(&told);
    /// let runtime = Runtime::builder()
    ///     .workers(1)
    ///     .on_panic(move |panic| log.lock().unwrap().push(panic.to_string()))
    ///     .build()?;
    /// let job = TaskBuilder::new().name("beans").on(&runtime).spawn_job(|| panic!("no more beans"));
    /// assert!(job.wait().is_err());
    /// let told = told.lock().unwrap();
    /// assert!(told[0].starts_with("pool `warpweft`: the job `beans`, spawned at "));
    /// assert!(told[0].ends_with(" panicked: no more beans"));
    /// # Ok::<(), warpweft::BuildError>(())
    /// ```
    pub fn on_panic(mut self, report: impl Fn(&PanicReport<'_>) + Send + Sync + 'static) -> Self {
        self.config.panics.hook = Some(Arc::new(report));
        self
    }

    /// Sets what else happens when a task of this pool panics: see [`PanicPolicy`]. The default is
    /// [`PanicPolicy::Continue`]. It counts for the panics that [`on_panic`](Self::on_panic) is told of, and
    /// follows the report. Without a report, `ShutDown` and `Abort` write one line to the standard error.
    ///
    /// ```
    /// use warpweft::{JoinError, PanicPolicy, Runtime};
    /// let runtime = Runtime::builder().workers(1).panic_policy(PanicPolicy::ShutDown).build()?;
    /// let waits = runtime.spawn(std::future::pending::<()>());
    /// let panics = runtime.spawn_job(|| panic!("no more beans"));
    /// assert!(matches!(panics.wait(), Err(JoinError::Panicked(_))));
    /// assert!(matches!(waits.wait(), Err(JoinError::Shutdown)));
    /// # Ok::<(), warpweft::BuildError>(())
    /// ```
    pub fn panic_policy(mut self, policy: PanicPolicy) -> Self {
        self.config.panics.policy = policy;
        self
    }
}
