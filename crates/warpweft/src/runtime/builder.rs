//! What a runtime may be asked to be, and starting it.

mod launch;

use super::build_error::{BuildError, unique};
use super::config::{Config, Launch};
use super::handle::Runtime;
use super::small_stack;
use crate::coroutine::stack::USUAL_BYTES;
use crate::io::Io;
use crate::pool::info::Order;
use crate::threads::affinity::Pin;
use crate::threads::monitor::{Stall, Watch};
use crate::threads::quantum::Quantum;
use launch::{launch, launch_spec};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::Duration;
use warpweft_policy::{Policy, PolicySpec};

/// What [`Builder::max_blocking_threads`] and [`Builder::blocking_keep_alive`] are if nobody says anything.
const BLOCKING_THREADS: usize = 512;
const BLOCKING_KEEP_ALIVE: Duration = Duration::from_secs(10);

/// Asks for a runtime.
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
    config: Config,
    launch: Box<Launch>,
    /// The other pools, if there are to be several.
    next: Vec<(Config, Box<Launch>)>,
    /// What silos are called, and which of the pools they are.
    silos: Vec<(String, Vec<usize>)>,
}

impl Runtime {
    /// What a runtime may be asked to be.
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
    /// One worker for each CPU that this process may use, and the default policy, FIFO.
    pub fn new() -> Self {
        let config = Config {
            workers: None,
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
            capacity: None,
            order: Order {
                runtime: Arc::new(()),
                index: 0,
            },
        };
        let default = PolicySpec::default();
        Self {
            config,
            launch: Box::new(|config| launch_spec(default, config)),
            next: Vec::new(),
            silos: Vec::new(),
        }
    }

    /// How many workers: 1 to 4096. The default is the number of CPUs that this process may use, its affinity
    /// mask and its cgroup quota included. Neither the number of threads nor the highest number of a worker:
    /// see [`Runtime`](Runtime#workers-and-threads).
    pub fn workers(mut self, workers: usize) -> Self {
        self.config.workers = Some(workers);
        self
    }

    /// A name for the runtime; its threads are called `name-0`, `name-1`, …. Linux shows the first 15 bytes.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.config.name = name.into();
        self
    }

    /// The size of a worker's stack in bytes, 64 KiB at least; the system's default is 2 MiB.
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.config.stack_bytes = Some(bytes);
        self
    }

    /// The most threads that there may be at a time; at least one per worker. The default is no limit.
    ///
    /// Beyond the workers' there is a thread for each frame of a task that waits without awaiting
    /// ([`block_on`](crate::block_on), [`JoinHandle::wait`](crate::JoinHandle::wait)), and for each
    /// [`blocking`](crate::blocking) closure. Where no thread can be had for the next one, the frame's thread
    /// keeps its worker and runs other tasks on top of the frame, which is counted as `stacked`: it may
    /// deadlock if they need what the frame holds. A `blocking` closure just keeps the worker then.
    pub fn max_threads(mut self, threads: usize) -> Self {
        self.config.max_threads = Some(threads);
        self
    }

    /// The size of a fiber's stack in bytes, its guard page included: 16 KiB to 1 GiB, rounded up to whole
    /// pages. The default is 64 KiB. It is address space; memory is used as far as the stack is.
    pub fn fiber_stack_size(mut self, bytes: usize) -> Self {
        self.config.fiber_stack_bytes = bytes;
        self
    }

    /// The most stacks that fibers, and bodies with an effect [handler](crate::effect), may use at a time.
    /// The default is no limit. A fiber that would need one more ends with
    /// [`JoinError::NoStack`](crate::JoinError::NoStack). A fiber's stack is not in use any more just after
    /// its handle is done. Each thread keeps up to 80 stacks that are not in use for its next fibers and
    /// bodies.
    pub fn max_fiber_stacks(mut self, stacks: usize) -> Self {
        self.config.max_fiber_stacks = stacks;
        self
    }

    /// Who waits for sockets and timers: the workers, which is the default, or a thread of its own. Either
    /// way nothing is made before the first socket or timer.
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

    /// The most threads that [`spawn_blocking`](crate::spawn_blocking) may start; the default is 512. As many
    /// closures again may wait for a thread, and more than that wait for admission: so memory is bounded,
    /// whoever spawns.
    ///
    /// With 0 there is no such thread, and each `spawn_blocking` is refused.
    pub fn max_blocking_threads(mut self, threads: usize) -> Self {
        self.config.max_blocking_threads = threads;
        self
    }

    /// How long a thread of [`spawn_blocking`](crate::spawn_blocking) stays when it has nothing to do; the
    /// default is 10 seconds.
    pub fn blocking_keep_alive(mut self, time: Duration) -> Self {
        self.config.blocking_keep_alive = time;
        self
    }

    /// Whether each worker has a core or a CPU of its own: see [`Pin`]. The default is not.
    ///
    /// Only workers are pinned. A thread goes where the worker belongs that it carries; one without a worker,
    /// in the middle of a task that waits, stays where it was. Threads that tasks start by other means than
    /// this runtime's inherit the worker's CPUs.
    pub fn pin(mut self, pin: Pin) -> Self {
        self.config.pin = pin;
        self
    }

    /// A worker that has been in one task for so long is *stuck*: another thread takes over what waits behind
    /// it, until it goes on. The default is 10 ms; below 200 µs counts as 200 µs. `None`: nobody looks, and
    /// there is no thread for it.
    ///
    /// It is noticed within one and a half times this time. A pool of N workers has N/2 compensating workers,
    /// at least one and at most four: so many stuck workers are made up for at a time. Tasks of others,
    /// sockets and timers go on; the started fibers of the stuck thread wait for it. Costs a thread that
    /// looks twice in that time while anybody is awake, and nothing on the way of a task. Long computations
    /// count as stuck, too: they keep their thread, and share the CPUs with the tasks that would wait for
    /// them. Compensating workers are workers with numbers from [`workers`](Runtime::workers) on, for
    /// policies and closures.
    pub fn stuck_after(mut self, time: Option<Duration>) -> Self {
        self.config.watch.stuck_after = time;
        self
    }

    /// How many statements of [cooperative](mod@crate::cooperative) code a thread runs until that code gives
    /// way: 1 to 2³¹ - 1. The default is 30 000, some 10 to 50 µs.
    pub fn quantum(mut self, statements: u32) -> Self {
        self.config.quantum = statements;
        self
    }

    /// Calls `report` once for each time that a worker is found stuck, on the monitor's thread. A report that
    /// panics is ignored.
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

    /// The scheduling policy, as a type: one of ours or your own.
    pub fn policy<P: Policy>(mut self, policy: P) -> Self {
        self.config.policy = String::from(std::any::type_name::<P>());
        self.launch = Box::new(move |config| launch(&policy, config));
        self
    }

    /// The scheduling policy, from its text form. Costs nothing at run time: each policy has a pool of its
    /// own type.
    pub fn policy_spec(mut self, spec: PolicySpec) -> Self {
        self.config.policy = spec.to_string();
        self.launch = Box::new(|config| launch_spec(spec, config));
        self
    }

    /// Bounds the pool: at most so many tasks from elsewhere have a place in it at a time, 1 at least. The
    /// default is no bound.
    ///
    /// A task gets a place when it [enters](compose::Pool::enter), when a closure is
    /// [run](compose::Pool::run) here from another pool, or when it is spawned by
    /// [`try_spawn`](compose::Pool::try_spawn) or [`spawn_with_permit`](compose::Pool::spawn_when_free); it
    /// has it until it enters another pool or ends. What is spawned without asking has none: tasks of the
    /// pool itself can go on spawning.
    pub fn capacity(mut self, tasks: usize) -> Self {
        self.config.capacity = Some(tasks);
        self
    }

    /// Adds another pool, with its own workers, policy and settings: the next one behind those that were
    /// asked for. If it has pools behind itself, they come along. See [`compose`].
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

    /// Adds `count` pools, `name-0`, `name-1` and so on, as `describe` says of each: the *silos* of that
    /// name, for tasks that belong together and are to stay with each other's data. See
    /// [`Silos`](crate::Silos).
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

    /// Starts the workers' threads.
    ///
    /// # Errors
    ///
    /// The number of workers is out of range, the policy cannot be built, or the system gives no more
    /// threads; of several pools, two have the same name. What was started is ended again.
    pub fn build(self) -> Result<Runtime, BuildError> {
        if small_stack::is_here() {
            return small_stack::on_own_thread(|| self.build());
        }
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
        let runtime = Arc::new(());
        let mut pools = Vec::new();
        for (index, (mut config, launch)) in std::iter::once((config, launch)).chain(next).enumerate() {
            let name = config.name.clone();
            let runtime = Arc::clone(&runtime);
            config.order = Order { runtime, index };
            // Unwind: a policy that panics as it is built does not leave the threads of the pools before it
            // behind.
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
                        // Ends those before it.
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
        Ok(Runtime::new(pools, silos))
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("workers", &self.config.workers)
            .field("name", &self.config.name)
            .field("stack_size", &self.config.stack_bytes)
            .field("max_threads", &self.config.max_threads)
            .field("fiber_stack_size", &self.config.fiber_stack_bytes)
            .field("io", &self.config.io)
            .field("max_blocking_threads", &self.config.max_blocking_threads)
            .field("blocking_keep_alive", &self.config.blocking_keep_alive)
            .field("pin", &self.config.pin)
            .field("stuck_after", &self.config.watch.stuck_after)
            .field("quantum", &self.config.quantum)
            .field("policy", &self.config.policy)
            .field("capacity", &self.config.capacity)
            .field("pools_behind", &self.next.len())
            .finish()
    }
}
