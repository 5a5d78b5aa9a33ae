//! The settings of a builder that are about the number of workers.

use super::Builder;
use crate::pool::info::SettingSource;
use std::time::Duration;

impl Builder {
    /// Sets the number of workers, from 1 to 4096. The default is the number of CPUs that this process may
    /// use, limited by its affinity mask and its cgroup quota; a fraction of a CPU is rounded down, but to 1
    /// at least. It is neither the number of threads nor a bound on worker numbers: see
    /// [`Runtime`](crate::Runtime#workers-and-threads). `WARPWEFT_WORKERS` replaces the default: see
    /// [above](Self#environment).
    pub fn workers(mut self, workers: usize) -> Self {
        self.config.workers = Some(workers);
        self.config.sources.workers = SettingSource::Program;
        self
    }

    /// Sets the number of workers that the pool has unless `WARPWEFT_WORKERS` says otherwise: see
    /// [above](Self#environment).
    ///
    /// ```
    /// let runtime = warpweft::Runtime::builder().default_workers(2).build()?;
    /// # Ok::<(), warpweft::BuildError>(())
    /// ```
    pub fn default_workers(mut self, workers: usize) -> Self {
        self.config.workers = Some(workers);
        self.config.sources.workers = SettingSource::Default;
        self
    }

    /// Sets the largest number of workers that the pool may be [resized](crate::compose::Pool::resize) to,
    /// from 1 to 4096 and at least as many as it begins with. The policy's queues are made for so many. A
    /// worker beyond the present size has no thread of its own.
    ///
    /// The default is the number of workers; where that comes from the machine, the number of its CPUs, so
    /// that the pool can follow a larger quota.
    ///
    /// ```
    /// let runtime = warpweft::Runtime::builder().workers(1).max_workers(4).build()?;
    /// assert_eq!((runtime.workers(), runtime.max_workers()), (1, 4));
    /// # Ok::<(), warpweft::BuildError>(())
    /// ```
    pub fn max_workers(mut self, workers: usize) -> Self {
        self.config.max_workers = Some(workers);
        self
    }

    /// Sets how often the pool looks how many CPUs the process may use, by its affinity mask and its cgroup
    /// quota, and becomes as large; `None` is never. The default is 2 seconds if the number of workers comes
    /// from the machine and they are not pinned, and otherwise never.
    ///
    /// The [monitor](Self::stuck_after) looks, when it is awake anyway: a pool without work is not woken for
    /// it, and looks soon after it has some. A look opens a few files, which takes some 20 to 100 µs. Without
    /// a monitor nothing is followed. After a call of [`resize`](crate::compose::Pool::resize) the pool has
    /// the size that the program gave it.
    ///
    /// ```
    /// use std::time::Duration;
    /// let runtime = warpweft::Runtime::builder()
    ///     .workers(1)
    ///     .max_workers(8)
    ///     .follow_cpus(Some(Duration::from_secs(1)))
    ///     .build()?;
    /// # Ok::<(), warpweft::BuildError>(())
    /// ```
    pub fn follow_cpus(mut self, every: Option<Duration>) -> Self {
        self.config.follow_cpus = Some(every);
        self
    }
}
