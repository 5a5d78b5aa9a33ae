//! Starts a pool: checks its settings, builds its policy and starts its threads.

use crate::admission::controller::Controller;
use crate::coroutine::stack::{LEAST_BYTES, MOST_BYTES, Stacks};
use crate::driver::owner::DriverOwner;
use crate::execution::forked_child;
use crate::pool::at_close::AtClose;
use crate::pool::core::PoolParts;
use crate::pool::dyn_pool::DynPool;
use crate::pool::info::{PoolInfo, SettingSource};
use crate::pool::size::Follow;
use crate::pool::size::MOST_WORKERS;
use crate::runtime::build_error::BuildError;
use crate::runtime::config::Config;
use crate::runtime::places::PlacePermits;
use crate::runtime::pool::Pool;
use crate::scheduler::pool::TypedPool;
use crate::threads::affinity::{Pin, Plan};
use crate::threads::blocking_threads::BlockingThreads;
use crate::threads::monitor::Monitor;
use crate::threads::pool_ref::PoolRef;
use crate::threads::quantum::Quantum;
use crate::threads::thread_set::ThreadSet;
use std::sync::Arc;
use std::time::Duration;
use warpweft_platform::thread::{available_cpus, machine_cpus};
use warpweft_platform::topology::Topology;
use warpweft_policy::{Policy, PolicySpec, PolicyVisitor, PoolEnv};

/// How often a pool whose size comes from the machine looks for a new one, by default.
const FOLLOW_EVERY: Duration = Duration::from_secs(2);

/// The smallest size of a thread's stack, in bytes: a worker's loop and a panic in it, with a margin.
const LEAST_STACK: usize = 64 << 10;

pub(crate) fn launch_spec(spec: PolicySpec, mut config: Config) -> Result<Pool, BuildError> {
    struct Launch(Config);
    impl PolicyVisitor for Launch {
        type Output = Result<Pool, BuildError>;

        fn visit<P: Policy>(self, policy: P) -> Self::Output {
            launch(&policy, self.0)
        }
    }
    config.policy = spec.to_string();
    spec.visit(Launch(config))
}

pub(crate) fn launch<P: Policy>(policy: &P, config: Config) -> Result<Pool, BuildError> {
    let setup = Setup::new(config)?;
    let (shared, locals) = policy.build(&setup.env).map_err(BuildError::Policy)?;
    if locals.len() != setup.env.workers {
        return Err(BuildError::Locals {
            made: locals.len(),
            workers: setup.workers,
            compensating: setup.env.workers - setup.workers,
        });
    }
    let parts = setup.into_parts(policy.priorities(), policy.uses_deadlines());
    start_threads(TypedPool::<P>::new(shared, locals, parts))
}

/// The checked settings of a pool.
struct Setup {
    config: Config,
    /// The number of workers at first.
    first: usize,
    /// The largest number.
    workers: usize,
    follow: Option<Follow>,
    quantum: Quantum,
    plan: Option<Plan>,
    env: PoolEnv,
}

impl Setup {
    fn new(config: Config) -> Result<Self, BuildError> {
        let topology = match config.pin {
            // This reads some hundred files on a large machine, so only on request.
            Pin::Off => Topology::flat(&[]),
            Pin::PhysicalCores | Pin::Cpus(_) => Topology::here(),
        };
        let first = config.workers.unwrap_or_else(|| config.pin.workers(&topology));
        // Pinned workers have CPUs, which are chosen once.
        let follows = config.workers.is_none() && config.pin == Pin::Off;
        let usual = if follows {
            machine_cpus().min(MOST_WORKERS)
        } else {
            first
        };
        let workers = config.max_workers.unwrap_or(usual.max(first));
        for asked in [first, workers] {
            if !(1..=MOST_WORKERS).contains(&asked) {
                return Err(BuildError::Workers {
                    asked,
                    most: MOST_WORKERS,
                });
            }
        }
        // A default gives way to what the program says.
        let is_default = config.sources.workers == SettingSource::Default;
        let first = if is_default { first.min(workers) } else { first };
        if first > workers {
            return Err(BuildError::MaxWorkers { first, most: workers });
        }
        let every = config.follow_cpus.unwrap_or(follows.then_some(FOLLOW_EVERY));
        let follow = every.map(|every| Follow {
            every,
            cpus: available_cpus,
        });
        if !(LEAST_BYTES..=MOST_BYTES).contains(&config.fiber_stack_bytes) {
            return Err(BuildError::FiberStack {
                asked: config.fiber_stack_bytes,
                least: LEAST_BYTES,
                most: MOST_BYTES,
            });
        }
        if let Some(asked) = config.stack_bytes.filter(|&bytes| bytes < LEAST_STACK) {
            return Err(BuildError::Stack {
                asked,
                least: LEAST_STACK,
            });
        }
        if let Some(to) = &config.watch.record_to {
            to.check()
                .map_err(|(path, source)| BuildError::Record { path, source })?;
        }
        if config.capacity == Some(0) {
            return Err(BuildError::Capacity);
        }
        if let Some(delay) = config.admission {
            delay.check().map_err(BuildError::Admission)?;
        }
        let quantum = Quantum::new(config.quantum).ok_or(BuildError::Quantum {
            asked: config.quantum,
            most: Quantum::MOST,
        })?;
        let plan = config.pin.plan(workers, &topology).map_err(BuildError::Pin)?;
        let places = plan.as_ref().map_or(&[][..], Plan::places);
        let all = workers + config.watch.compensating(workers);
        let places = places.iter().cycle().take(all).copied().collect();
        Ok(Self {
            config,
            first,
            workers,
            follow,
            quantum,
            plan,
            env: PoolEnv::new(all).with_places(places),
        })
    }

    /// Makes what a pool has beside its policy.
    fn into_parts(self, priorities: u8, deadlines: bool) -> PoolParts {
        let Self {
            config,
            first,
            workers,
            follow,
            ..
        } = self;
        let slots = self.env.workers;
        forked_child::watch();
        let blocking = BlockingThreads::new(
            config.name.clone(),
            config.stack_bytes,
            config.max_blocking_threads,
            u64::try_from(config.blocking_keep_alive.as_nanos()).unwrap_or(u64::MAX),
        );
        let threads = ThreadSet::new(
            config.name.clone(),
            config.stack_bytes,
            config.max_threads.unwrap_or(usize::MAX).max(workers),
            blocking,
            self.plan,
            self.quantum,
            config.hooks,
        );
        let places = config.capacity.map(PlacePermits::new);
        let controller = |delay| Arc::new(Controller::new(config.name.clone(), delay, priorities));
        let admission = config.admission.map(controller);
        PoolParts {
            first,
            follow,
            threads,
            monitor: Monitor::new(config.watch, workers, slots),
            stacks: Stacks::new(config.fiber_stack_bytes, config.max_fiber_stacks),
            driver: DriverOwner::new(config.io, config.name.clone()),
            panics: config.panics,
            recorder: config.recorder,
            info: PoolInfo {
                name: config.name,
                policy: config.policy,
                sources: config.sources,
                priorities,
                deadlines,
                workers,
                slots,
                order: config.order,
                places: places.map(|places| Box::new(places) as _),
                admission,
                at_close: AtClose::new(),
            },
        }
    }
}

/// Starts the threads of a pool. If one cannot be started, it closes the pool, ends the workers that have no
/// thread, and waits for the other threads.
fn start_threads(pool: Arc<dyn DynPool>) -> Result<Pool, BuildError> {
    let any: Arc<dyn PoolRef> = Arc::clone(&pool) as _;
    let core = pool.core();
    let workers = core.size.now();
    for worker in 0..workers {
        match core.threads.start(&any) {
            Ok(thread_handle) => {
                thread_handle.handoff.assign(Some(worker));
            }
            Err(source) => {
                core.close();
                for absent in worker..workers {
                    // SAFETY: no thread carries this worker, now or later.
                    unsafe { pool.retire_worker(absent) };
                }
                // Workers without a thread are counted out, so that the last of the others ends the pool.
                pool.leave(workers - worker);
                core.threads.join_all();
                return Err(BuildError::Thread {
                    worker,
                    workers,
                    source,
                });
            }
        }
    }
    core.monitor.start(any, &core.info.name).map_err(|source| {
        core.close();
        core.threads.join_all();
        BuildError::Monitor { source }
    })?;
    Ok(Pool::new(pool))
}
