//! [`Builder`]: the settings of a runtime, and its start.

mod admission;
mod debug;
mod launch;
mod panics;
mod size;
mod stalls;
mod threads;

use super::build_error::{BuildError, unique};
use super::config::{Config, Launch};
use super::environment;
use super::handle::Runtime;
use super::small_stack;
use super::stats::{self, Stats};
use crate::coroutine::stack::USUAL_BYTES;
use crate::io::Io;
use crate::observe::recorder::Settings;
use crate::pool::info::{Order, SettingSource, SettingSources};
use crate::pool::panics::{CloseAll, Panics};
use crate::threads::affinity::Pin;
use crate::threads::monitor::Watch;
use crate::threads::pool_thread::ThreadHooks;
use crate::threads::quantum::Quantum;
use launch::{launch, launch_spec};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::Duration;
use warpweft_policy::{Policy, PolicySpec};

/// The defaults of [`Builder::max_blocking_threads`] and [`Builder::blocking_keep_alive`].
const BLOCKING_THREADS: usize = 512;
const BLOCKING_KEEP_ALIVE: Duration = Duration::from_secs(10);

/// Configures and builds a [`Runtime`].
///
/// # Environment
///
/// Two variables replace the defaults of [`build`](Self::build):
///
/// | variable | its text |
/// |---|---|
/// | `WARPWEFT_WORKERS` | a number of workers, as for [`workers`](Self::workers) |
/// | `WARPWEFT_POLICY` | a policy as text, as for [`policy_spec`](Self::policy_spec) |
///
/// So a program that sets neither is tried with other policies without a change. A value that the program
/// sets wins, and then the variable is not read, unless it is set as a
/// [default](Self::default_policy). With several pools, the variables count for **each** pool
/// for which the program has not set the value. A text that means nothing is an error of `build`,
/// [`BuildError::Environment`]. The `Debug` output of a builder, of a runtime and of a pool says which value
/// it is, and where it comes from.
///
/// A third variable, `WARPWEFT_STATS`, names a file. Each pool then appends one line of JSON to it when its
/// runtime has shut down, and otherwise when the process ends by `exit` or by the return of `main` (on Unix):
/// after an abort, a signal or `_exit` there is none. A build that fails appends a line, too. Fields may be
/// added; `counters` has those of [`PoolCounters::total`](crate::PoolCounters::total). Without the variable
/// nothing is done.
///
/// ```text
/// {"warpweft":1,"pid":71,"runtime":1,"pool":"io","policy":"lifo","policy_from":"WARPWEFT_POLICY","workers":2,
///  "max_workers":2,"workers_from":"default","written":"shutdown","seconds":1.25,"threads":4,"stalls":0,
///  "counters":{"spawned":9}}
/// {"warpweft":1,"pid":72,"error":"the environment variable WARPWEFT_POLICY is `lifoo`, …"}
/// ```
///
/// With `WARPWEFT_MEASURE_STEPS=1` steps are [measured](crate::Recorder::measure_steps) from the beginning,
/// which costs some 10 ns each. The lines then have `queue_delay`, `wake_to_run` and `run_time`, each as
/// `{"count":7,"p50_ns":900,"p99_ns":21000,"buckets":[[900,6],[21000,1]]}`, of all classes together. A bucket
/// is its upper end in nanoseconds and a count, so the lines of several pools and processes can be added up.
/// Lines of a program that measures by itself have them, too.
///
/// `policy_from` and `workers_from` are `program`, `default`, or the name of a variable. `written` is
/// `shutdown` or `exit`. A runtime that one of its own tasks shuts down is not waited for: its line has what
/// was counted until then. `warpweft try -- ./program` runs a program under several policies and reads these
/// lines.
///
/// ```
/// use warpweft::{PolicySpec, Runtime};
/// let runtime = Runtime::builder()
///     .name("io")
///     .workers(2)
///     .policy_spec("lifo+steal=one".parse::<PolicySpec>()?)
///     .build()?;
/// assert_eq!(runtime.workers(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a builder builds nothing until `build`"]
pub struct Builder {
    pub(super) config: Config,
    /// `None` if the program has not set the policy.
    launch: Option<Box<Launch>>,
    /// The other pools, if there are several.
    next: Vec<(Config, Option<Box<Launch>>)>,
    /// The name of each group of silos, and the indices of its pools.
    silos: Vec<(String, Vec<usize>)>,
}

impl Runtime {
    /// Returns a builder with the default settings.
    pub fn builder() -> Builder {
        Builder::new()
    }
}

impl Default for Builder {
    fn default() -> Self {
        Self::new()
    }
}

impl Builder {
    /// Returns the default settings: the policy `shortest`, and one worker for each CPU that this process may
    /// use, also [when that changes](Self::follow_cpus), unless the [environment](Self#environment) says
    /// otherwise.
    pub fn new() -> Self {
        let config = Config {
            workers: None,
            max_workers: None,
            follow_cpus: None,
            name: String::from("warpweft"),
            stack_bytes: None,
            max_threads: None,
            fiber_stack_bytes: USUAL_BYTES,
            max_fiber_stacks: usize::MAX,
            io: Io::Inline,
            max_blocking_threads: BLOCKING_THREADS,
            blocking_keep_alive: BLOCKING_KEEP_ALIVE,
            pin: Pin::Off,
            watch: Watch::default(),
            quantum: Quantum::USUAL,
            policy: String::new(),
            sources: SettingSources {
                workers: SettingSource::Default,
                policy: SettingSource::Default,
            },
            capacity: None,
            admission: None,
            order: Order {
                runtime: Arc::new(()),
                index: 0,
            },
            hooks: ThreadHooks::default(),
            panics: Panics::default(),
            recorder: Settings::default(),
        };
        Self {
            config,
            launch: None,
            next: Vec::new(),
            silos: Vec::new(),
        }
    }

    /// Sets the runtime's name. Its threads are called `name-0`, `name-1`, …. Linux shows the first 15 bytes.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.config.name = name.into();
        self
    }

    /// Sets the stack size of the workers' threads in bytes, at least 64 KiB. The system's default is 2 MiB.
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.config.stack_bytes = Some(bytes);
        self
    }

    /// Sets the largest number of threads at a time, at least one per worker. The default is no limit.
    ///
    /// Besides the workers' threads, there is one for each frame of a task that waits without awaiting
    /// ([`block_on`](crate::block_on), [`JoinHandle::wait`](crate::JoinHandle::wait)), and for each
    /// [`blocking`](crate::blocking) closure. If no thread can be had for the next such frame, its thread
    /// keeps its worker and runs other tasks on top of the frame. The counter `stacked` counts these. It may
    /// deadlock if those tasks need what the frame holds. A `blocking` closure then only keeps the worker.
    pub fn max_threads(mut self, threads: usize) -> Self {
        self.config.max_threads = Some(threads);
        self
    }

    /// Sets the size of a fiber's stack in bytes, its guard page included: 16 KiB to 1 GiB, rounded up to
    /// whole pages. The default is 64 KiB. This reserves address space; memory is used only as far as the
    /// stack grows.
    pub fn fiber_stack_size(mut self, bytes: usize) -> Self {
        self.config.fiber_stack_bytes = bytes;
        self
    }

    /// Sets the largest number of stacks in use at a time by fibers and by bodies with an effect
    /// [handler](crate::effect). The default is no limit. A fiber that would need one more ends with
    /// [`JoinError::NoStack`](crate::JoinError::NoStack). A fiber's stack is free shortly after its handle is
    /// done. Each thread keeps up to 80 free stacks for its next fibers and bodies.
    pub fn max_fiber_stacks(mut self, stacks: usize) -> Self {
        self.config.max_fiber_stacks = stacks;
        self
    }

    /// Sets which threads poll for sockets and timers: the workers, which is the default, or a separate
    /// thread. Nothing is created before the first socket or timer.
    ///
    /// ```
    /// use warpweft::{Io, Runtime};
    /// let runtime = Runtime::builder().workers(2).io(Io::Thread).build()?;
    /// # Ok::<(), warpweft::BuildError>(())
    /// ```
    pub fn io(mut self, io: Io) -> Self {
        self.config.io = io;
        self
    }

    /// Sets the largest number of threads that [`spawn_blocking`](crate::spawn_blocking) starts. The default
    /// is 512. As many closures again may wait for a thread, and further callers wait for admission. So
    /// memory is bounded however many closures are spawned.
    ///
    /// With 0 there is no such thread, and each `spawn_blocking` is refused.
    pub fn max_blocking_threads(mut self, threads: usize) -> Self {
        self.config.max_blocking_threads = threads;
        self
    }

    /// Sets how long an idle thread of [`spawn_blocking`](crate::spawn_blocking) lives. The default is 10
    /// seconds.
    pub fn blocking_keep_alive(mut self, time: Duration) -> Self {
        self.config.blocking_keep_alive = time;
        self
    }

    /// Pins each worker to its own core or CPU: see [`Pin`]. The default is no pinning.
    ///
    /// Only workers are pinned. A thread moves to the CPU of the worker that it carries. A thread without a
    /// worker, in the middle of a task that waits, stays where it was. Threads that tasks start outside of
    /// this runtime inherit the worker's CPUs.
    pub fn pin(mut self, pin: Pin) -> Self {
        self.config.pin = pin;
        self
    }

    /// Sets after how long in one task a worker counts as *stuck*, if it sleeps in the kernel. Another thread
    /// then runs the tasks behind it, until it continues. The default is 10 ms, and the minimum is 200 µs.
    /// With `None` there is no monitor and no thread for it.
    ///
    /// A worker that computes has a CPU, and another thread would take that from it. It counts as stuck after
    /// ten times this time, and is replaced only if all other workers are stuck as well. Until then other
    /// workers steal what waits behind it, if they have nothing to do. (Where the system does not report what
    /// a thread does, each counts as asleep. Linux does.)
    ///
    /// A stuck worker is noticed within one and a half times this time. A pool of N workers can replace N/2
    /// stuck ones at a time, at least one and at most four. Tasks of other workers continue. The fibers that
    /// the stuck thread has started wait for it, and so do all forks of the stuck task but the oldest one.
    ///
    /// While the workers compute for long without a look at sockets and timers, one compensating worker more
    /// is the *standby poller*: it sleeps in the poller, and also runs what it wakes there. So the pool may
    /// run one task more at a time than it has workers, although none is stuck. It takes nothing from the
    /// workers, however many are stuck, and returns what it has to them after a task that took long. If what
    /// it woke takes long, another compensating worker is the standby poller, if one is left.
    ///
    /// The monitor is one thread, which looks twice in that time while any worker is awake. It costs nothing
    /// on the path of a task. Compensating workers have numbers from [`max_workers`](Runtime::max_workers)
    /// on, which policies and closures see.
    pub fn stuck_after(mut self, time: Option<Duration>) -> Self {
        self.config.watch.stuck_after = time;
        self
    }

    /// Sets how many statements of [cooperative](mod@crate::cooperative) code a thread runs until that code
    /// yields: 1 to 2³¹ - 1. The default is 30 000, which takes some 10 to 50 µs.
    pub fn quantum(mut self, statements: u32) -> Self {
        self.config.quantum = statements;
        self
    }

    /// Sets the scheduling policy by type: one of ours or your own. `WARPWEFT_POLICY` has no effect then.
    pub fn policy<P: Policy>(mut self, policy: P) -> Self {
        self = self.default_policy(policy);
        self.config.sources.policy = SettingSource::Program;
        self
    }

    /// Sets the policy, by type, that the pool has unless `WARPWEFT_POLICY` says otherwise: see
    /// [above](Self#environment).
    ///
    /// ```
    /// use warpweft::{Lifo, Runtime};
    /// let runtime = Runtime::builder().workers(1).default_policy(Lifo::new()).build()?;
    /// # Ok::<(), warpweft::BuildError>(())
    /// ```
    pub fn default_policy<P: Policy>(mut self, policy: P) -> Self {
        self.config.policy = String::from(std::any::type_name::<P>());
        self.config.sources.policy = SettingSource::Default;
        self.launch = Some(Box::new(move |config| launch(&policy, config)));
        self
    }

    /// Sets the scheduling policy from its text form. It costs nothing at run time: each policy has a worker
    /// loop compiled for its type.
    pub fn policy_spec(mut self, spec: PolicySpec) -> Self {
        self.config.policy = spec.to_string();
        self.config.sources.policy = SettingSource::Program;
        self.launch = Some(by_spec(spec));
        self
    }

    /// Bounds the pool to at most this many tasks from elsewhere at a time, at least 1. The default is no
    /// bound.
    ///
    /// A task takes a permit when it [enters](crate::compose::Pool::enter), when a closure is
    /// [run](crate::compose::Pool::run) here from another pool, or when it is spawned by
    /// [`try_spawn`](crate::compose::Pool::try_spawn) or
    /// [`spawn_with_permit`](crate::compose::Pool::spawn_with_permit), and their kin. It keeps the permit
    /// until it enters another pool or ends. Other spawns need no permit, so tasks of the pool itself can
    /// always spawn.
    pub fn capacity(mut self, tasks: usize) -> Self {
        self.config.capacity = Some(tasks);
        self
    }

    /// Adds another pool, with its own workers, policy and settings, after the pools that were added before.
    /// If `pool` itself has further pools, they are added, too. See [`compose`](crate::compose).
    ///
    /// ```
    /// use warpweft::{Lifo, Runtime};
    /// let runtime = Runtime::builder()
    ///     .workers(2)
    ///     .then("index", Runtime::builder().workers(1).policy(Lifo::new()))
    ///     .build()?;
    /// let job = runtime.pool("index")?.spawn_job(|| 6 * 7);
    /// assert_eq!(job.wait()?, 42);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn then(mut self, name: impl Into<String>, pool: Self) -> Self {
        let Self {
            config,
            launch,
            next,
            silos,
        } = pool.name(name);
        let index = 1 + self.next.len();
        self.next.push((config, launch));
        self.next.extend(next);
        let behind = silos
            .into_iter()
            .map(|(name, pools)| (name, pools.iter().map(|pool| pool + index).collect()));
        self.silos.extend(behind);
        self
    }

    /// Adds `count` pools, called `name-0`, `name-1` and so on, with the settings that `describe` returns for
    /// each. They are the *silos* of that name: pools for tasks that belong together and should stay near
    /// each other's data. See [`Silos`](crate::Silos).
    ///
    /// ```
    /// use warpweft::{Lifo, Runtime};
    /// let runtime = Runtime::builder()
    ///     .workers(1)
    ///     .silos("room", 3, |_| Runtime::builder().workers(1).policy(Lifo::new()))
    ///     .build()?;
    /// let rooms = runtime.silos("room")?;
    /// let task = rooms.of("alice").spawn(async { "mixed" });
    /// assert_eq!(task.wait()?, "mixed");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn silos(
        mut self,
        name: impl Into<String>,
        count: usize,
        mut describe: impl FnMut(usize) -> Self,
    ) -> Self {
        let name = name.into();
        let mut pools = Vec::new();
        for silo in 0..count {
            pools.push(1 + self.next.len());
            self = self.then(format!("{name}-{silo}"), describe(silo));
        }
        self.silos.push((name, pools));
        self
    }

    /// Builds the runtime and starts its workers' threads.
    ///
    /// # Errors
    ///
    /// The number of workers is out of range, the policy cannot be built, the system starts no more threads,
    /// two pools have the same name, or a variable of the [environment](Self#environment) has a text that
    /// means nothing or names a file that cannot be written. Whatever was started is ended again.
    pub fn build(self) -> Result<Runtime, BuildError> {
        if small_stack::is_here() {
            return small_stack::on_own_thread(|| self.build());
        }
        let Some(file) = environment::stats_file()? else {
            return self.build_measured();
        };
        match self.build_measured() {
            Ok(runtime) => {
                let stats = Stats::list(file, runtime.pools());
                Ok(runtime.with_stats(stats))
            }
            Err(error) => {
                stats::write_error(&file, &error);
                Err(error)
            }
        }
    }

    /// Builds the runtime, which measures its steps if the environment says so.
    fn build_measured(self) -> Result<Runtime, BuildError> {
        let measures = environment::measures_steps()?;
        let runtime = self.build_pools()?;
        if measures {
            runtime.recorder().measure_steps(true);
        }
        Ok(runtime)
    }

    fn build_pools(self) -> Result<Runtime, BuildError> {
        let Self {
            config,
            launch,
            next,
            silos,
        } = self;
        if let Some((name, _)) = silos.iter().find(|(_, pools)| pools.is_empty()) {
            let silos = name.clone();
            return Err(BuildError::NoSilos { silos });
        }
        unique(
            std::iter::once(&config)
                .chain(next.iter().map(|(config, _)| config))
                .map(|config| &config.name),
        )?;
        unique(silos.iter().map(|(name, _)| name))?;
        let several = !next.is_empty();
        // Before any pool starts: a wrong variable concerns the runtime, and no thread need be ended for it.
        let described = std::iter::once((config, launch))
            .chain(next)
            .map(|(mut config, launch)| {
                environment::complete_workers(&mut config)?;
                let launch = environment::complete_policy(&mut config, launch, by_spec)?;
                Ok((config, launch))
            })
            .collect::<Result<Vec<_>, BuildError>>()?;
        let runtime = Arc::new(());
        let close_all = Arc::new(CloseAll::new());
        let mut pools = Vec::new();
        for (index, (mut config, launch)) in described.into_iter().enumerate() {
            let name = config.name.clone();
            let runtime = Arc::clone(&runtime);
            config.order = Order { runtime, index };
            config.panics.close_all = Arc::clone(&close_all);
            // Unwind: if building a policy panics, the threads of the pools before it are ended, too.
            let launched = catch_unwind(AssertUnwindSafe(|| launch(config))).unwrap_or_else(|panic| {
                if index > 0 {
                    drop(Runtime::new(std::mem::take(&mut pools), Vec::new()));
                }
                resume_unwind(panic)
            });
            match launched {
                Ok(pool) => pools.push(pool),
                Err(error) => {
                    if index > 0 {
                        // This ends the pools before it.
                        drop(Runtime::new(pools, Vec::new()));
                    }
                    let error = Box::new(error);
                    return Err(if several {
                        BuildError::Pool { name, error }
                    } else {
                        *error
                    });
                }
            }
        }
        panics::set_close_all(&close_all, &pools);
        Ok(Runtime::new(pools, silos))
    }
}

fn by_spec(spec: PolicySpec) -> Box<Launch> {
    Box::new(|config| launch_spec(spec, config))
}
