//! [`Runtime::metrics`]: what a runtime does, in numbers.

use super::dump_tasks::kind;
use super::handle::Runtime;
use super::pool::Pool;
use crate::driver::core::Driver;
use crate::observe::metrics::{ClassMetrics, Depths, Metrics, PoolMetrics, TaskCounts, ThreadCounts};
use crate::pool::dyn_pool::DynPool;
use std::collections::HashSet;
use warpweft_task::TaskKind;
use warpweft_task::frame::Who;

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
        let (injector, local) = self.any().depths();
        let begun = BegunWork::of(&**self.any());
        let classes = core.recorder.times().into_iter().enumerate();
        PoolMetrics {
            name: self.name().to_owned(),
            policy: self.policy().to_owned(),
            age,
            tasks: TaskCounts {
                jobs: begun.jobs.len(),
                forks: begun.forks,
                runnable: self.any().runnable(),
                futures: core.owned_tasks.len(),
                fibers: core.stacks.snapshot().live,
                blocking: threads.blocking.saturating_sub(threads.blocking_idle),
            },
            depths: Depths {
                injector,
                local,
                forks: (0..core.info.slots)
                    .filter(|&worker| core.offer_board.offers(worker))
                    .count(),
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

/// What has begun and has not ended, and is in no other register.
#[derive(Default)]
struct BegunWork {
    /// The addresses of jobs. One that began to wait while it was looked for is found twice.
    jobs: HashSet<usize>,
    /// The number of forks. Several of a scope have the address of the scope.
    forks: usize,
}

impl BegunWork {
    /// Looks at what each worker runs, and at the frames of threads that wait.
    fn of(pool: &dyn DynPool) -> Self {
        let mut begun = Self::default();
        let core = pool.core();
        for worker in 0..core.info.slots {
            begun.add(pool.worker(worker).worker_ref.running.get());
        }
        // In a forked child their stacks may be those of other threads by now.
        if !core.is_in_forked_child() {
            core.threads.frames().for_each(|frame| begun.add(frame.who));
        }
        begun
    }

    fn add(&mut self, who: Who) {
        match kind(who) {
            Some(TaskKind::Job) => {
                self.jobs.insert(who.id);
            }
            Some(TaskKind::Fork) => self.forks += 1,
            _ => {}
        }
    }
}
