//! The settings of a builder that are about reports of stuck workers.

use super::Builder;
use crate::observe::recorder::snapshot::Snapshot;
use crate::threads::monitor::StackSignal;
use crate::threads::stall::Stall;
use crate::threads::stall_record::RecordTo;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

impl Builder {
    /// Sets after how long in one task a worker is reported on the standard error stream. With `None` it is
    /// not. The default is 200 ms, or the time of [`stuck_after`](Self::stuck_after) if that was set, but
    /// at least 10 ms. It is never reported before `stuck_after`, and not at all without a monitor.
    ///
    /// The report is a [`Stall`]: the task, what its thread does, what waits behind it, and, with the feature
    /// `stacks`, the stack. If the names of its functions take long, they follow. Of tasks with the same
    /// spawn site and name there are pauses of 1, 2, 4 and up to 64 seconds between the reports. The process
    /// writes at most one a second of those, and one a second, or eight at once, of new spawn sites and
    /// names. A report says how many were left out. Code that is meant to take long says so by
    /// [`expect_long`](crate::expect_long). Time counts from when the worker had no fork on offer: a worker
    /// that computes a part of a [`join`](crate::join) and offers another part is not reported. Time in which
    /// the whole process was stopped does not count. What holds up the [end](crate::Runtime::shutdown) of the
    /// runtime is reported, too.
    ///
    /// ```
    /// use std::time::Duration;
    /// let runtime = warpweft::Runtime::builder()
    ///     .report_stalls_after(Some(Duration::from_secs(1)))
    ///     .build()?;
    /// # Ok::<(), warpweft::BuildError>(())
    /// ```
    pub fn report_stalls_after(mut self, time: Option<Duration>) -> Self {
        self.config.watch.report_after = Some(time);
        self
    }

    /// Calls `report` for each worker that is found [stuck](Self::stuck_after), on the monitor's thread. Then
    /// nothing is written to the standard error stream, and none is left out except where
    /// [`expect_long`](crate::expect_long) says so. A panic in `report` is ignored. While `report` runs, no
    /// further worker is found stuck. It is called while the runtime ends, too, and after a shutdown that has
    /// left threads behind.
    ///
    /// With the feature `stacks` the report comes when the stack was read, in about a millisecond. For the
    /// first one the symbols of the program are read, which takes a tenth of a second or more. It begins when
    /// a worker has been in a task for half of [`stuck_after`](Self::stuck_after).
    ///
    /// ```
    /// use std::time::Duration;
    /// let runtime = warpweft::Runtime::builder()
    ///     .stuck_after(Some(Duration::from_millis(50)))
    ///     .on_stall(|stall| eprintln!("{stall}"))
    ///     .build()?;
    /// # Ok::<(), warpweft::BuildError>(())
    /// ```
    pub fn on_stall(mut self, report: impl Fn(&Stall) + Send + Sync + 'static) -> Self {
        self.config.watch.on_stall = Some(Box::new(report));
        self
    }

    /// Writes what the flight recorder has to a file when a stall is reported: what this pool's workers did
    /// before, in the format of Perfetto. See [`Snapshot::write_perfetto`](crate::Snapshot::write_perfetto).
    ///
    /// A stall is reported as [`report_stalls_after`](Self::report_stalls_after) or
    /// [`on_stall`](Self::on_stall) says, and not at all without a monitor. There is at most one snapshot in
    /// 10 seconds, and the latest takes the place of the one before. Until it is complete, the file is called
    /// `PATH.PID.partial`.
    ///
    /// A separate thread writes it, some 100 ms for the largest one. The monitor does not wait for that,
    /// and nothing happens on the thread that is stuck. An error is told on the standard error stream. Rare
    /// events are always there, the steps of tasks only if they [are
    /// recorded](crate::Recorder::record_steps); with [`recorder_bytes(0)`](Self::recorder_bytes) there are
    /// neither.
    ///
    /// # Errors
    ///
    /// [`build`](Self::build) returns [`BuildError::Record`](crate::BuildError::Record) if a file cannot be
    /// made there.
    ///
    /// ```
    /// let path = std::env::temp_dir().join("web.pftrace");
    /// let runtime = warpweft::Runtime::builder().record_on_stall(path).build()?;
    /// # Ok::<(), warpweft::BuildError>(())
    /// ```
    pub fn record_on_stall(mut self, path: impl Into<PathBuf>) -> Self {
        self.config.watch.record_to = Some(RecordTo::File(path.into()));
        self
    }

    /// As [`record_on_stall`](Self::record_on_stall), but gives the snapshot to the program, on a thread of
    /// its own that ends afterwards. A panic in `tell` ends that thread only.
    ///
    /// ```
    /// let runtime = warpweft::Runtime::builder()
    ///     .record_on_stall_with(|snapshot| eprintln!("{} events", snapshot.events().count()))
    ///     .build()?;
    /// # Ok::<(), warpweft::BuildError>(())
    /// ```
    pub fn record_on_stall_with(mut self, tell: impl Fn(Snapshot) + Send + Sync + 'static) -> Self {
        self.config.watch.record_to = Some(RecordTo::Program(Arc::new(tell)));
        self
    }

    /// Sets the number of the signal by which the stack of a stuck thread is asked for, with the feature
    /// `stacks`. The default is `SIGURG`, unless the program has a handler for it. With `None` no signal is
    /// sent, and reports have no stack.
    ///
    /// The handler is set at the first report. It passes signals on that are not its own, to the handler that
    /// was there before. A signal that the program sets a handler for later is not used any more, and reports
    /// say so; so they do if the signal cannot be handled. The signal goes to a stuck thread only. System
    /// calls that are not restarted after a signal, such as `poll`, return `EINTR` there.
    ///
    /// ```
    /// # #[cfg(target_os = "linux")]
    /// let runtime = warpweft::Runtime::builder().stack_signal(Some(10)).build()?; // SIGUSR1
    /// # Ok::<(), warpweft::BuildError>(())
    /// ```
    pub fn stack_signal(mut self, signal: Option<i32>) -> Self {
        self.config.watch.stack_signal = signal.map_or(StackSignal::Off, StackSignal::Number);
        self
    }
}
