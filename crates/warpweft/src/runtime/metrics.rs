//! [`Runtime::metrics`]: what a runtime does, in numbers.

use super::handle::Runtime;
use super::pool::Pool;
use crate::driver::core::Driver;
use crate::observe::metrics::{ClassMetrics, Depths, Metrics, PoolMetrics, TaskCounts, ThreadCounts};

impl Runtime {
    /// Returns what the runtime does, in numbers: tasks, queues, threads, busy time, counters and, if steps
    /// are [measured](crate::Recorder::measure_steps), how long tasks ran and waited.
    ///
    /// Costs some microseconds for each worker. It stops no worker, and takes short locks of the poller, the
    /// timers and the blocking threads.
    ///
    /// ```
    /// let runtime = warpweft::Runtime::builder().workers(1).build()?;
    /// runtime.recorder().measure_steps(true);
    /// runtime.spawn_job(|| ()).wait()?;
    /// let metrics = runtime.metrics();
    /// assert_eq!(metrics.pools[0].tasks.runnable, 0);
    /// println!("{metrics}");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        Metrics {
            pools: self.pools().iter().map(Pool::metrics).collect(),
        }
    }
}

impl Pool {
    /// Returns what the pool does, in numbers: see [`Runtime::metrics`].
    #[must_use]
    pub fn metrics(&self) -> PoolMetrics {
        let core = self.any().core();
        let threads = self.threads();
        let (searching, sleeping) = self.idle_workers();
        let (busy, age) = core.recorder.busy(self.workers());
        let (sockets, timers) = core.driver.get().map_or((0, 0), Driver::lens);
        let classes = core.recorder.times().into_iter().enumerate();
        PoolMetrics {
            name: self.name().to_owned(),
            policy: self.policy().to_owned(),
            age,
            tasks: TaskCounts {
                runnable: self.any().runnable(),
                futures: core.owned_tasks.len(),
                fibers: core.stacks.snapshot().live,
                blocking: threads.blocking.saturating_sub(threads.blocking_idle),
            },
            depths: Depths {
                blocking: threads.blocking_queued,
                timers,
                sockets,
            },
            threads: ThreadCounts {
                all: threads.all,
                blocked: threads.blocked,
                spare: threads.spare,
                blocking: threads.blocking,
                searching,
                sleeping,
            },
            stalls: self.stalls(),
            busy,
            counters: self.counters(),
            classes: classes
                .map(|(class, [queue_delay, wake_to_run, run_time])| ClassMetrics {
                    priority: class
                        .checked_sub(1)
                        .and_then(|priority| u8::try_from(priority).ok()),
                    queue_delay,
                    wake_to_run,
                    run_time,
                })
                .collect(),
        }
    }
}
