//! Starts a pool: checks its settings, builds its policy and starts its threads.

use crate::coroutine::stack::{LEAST_BYTES, MOST_BYTES, Stacks};
use crate::driver::owner::DriverOwner;
use crate::execution::forked;
use crate::pool::core::Parts;
use crate::pool::info::PoolInfo;
use crate::runtime::build_error::BuildError;
use crate::runtime::config::Config;
use crate::runtime::places::Places;
use crate::runtime::pool as handle;
use crate::scheduler::pool::Pool;
use crate::threads::affinity::{Pin, Plan};
use crate::threads::blocking_threads::BlockingThreads;
use crate::threads::monitor::Monitor;
use crate::threads::pool_ref::PoolRef;
use crate::threads::quantum::Quantum;
use crate::threads::thread_set::ThreadSet;
use std::sync::Arc;
use warpweft_platform::topology::Topology;
use warpweft_policy::{Policy, PolicySpec, PolicyVisitor, PoolEnv};

/// The largest number of workers of a pool.
const MOST_WORKERS: usize = 4096;
/// The smallest size of a thread's stack, in bytes: a worker's loop and a panic in it, with a margin.
const LEAST_STACK: usize = 64 << 10;

pub(crate) fn launch_spec(spec: PolicySpec, mut config: Config) -> Result<handle::Pool, BuildError> {
    struct Launch(Config);
    impl PolicyVisitor for Launch {
        type Output = Result<handle::Pool, BuildError>;

        fn visit<P: Policy>(self, policy: P) -> Self::Output {
            launch(&policy, self.0)
        }
    }
    config.policy = spec.to_string();
    spec.visit(Launch(config))
}

pub(crate) fn launch<P: Policy>(policy: &P, config: Config) -> Result<handle::Pool, BuildError> {
    let topology = match config.pin {
        // This reads some hundred files on a large machine, so only on request.
        Pin::Off => Topology::flat(&[]),
        Pin::PhysicalCores | Pin::Cpus(_) => Topology::here(),
    };
    let workers = config.workers.unwrap_or_else(|| config.pin.workers(&topology));
    if !(1..=MOST_WORKERS).contains(&workers) {
        return Err(BuildError::Workers {
            asked: workers,
            most: MOST_WORKERS,
        });
    }
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
    if config.capacity == Some(0) {
        return Err(BuildError::Capacity);
    }
    let quantum = Quantum::new(config.quantum).ok_or(BuildError::Quantum {
        asked: config.quantum,
        most: Quantum::MOST,
    })?;
    let plan = config.pin.plan(workers, &topology).map_err(BuildError::Pin)?;
    let places = plan.as_ref().map_or(&[][..], Plan::places);
    let compensating = config.watch.compensating(workers);
    let all = workers + compensating;
    let places = places.iter().cycle().take(all).copied().collect();
    let env = PoolEnv::new(all).with_places(places);
    let (shared, locals) = policy.build(&env).map_err(BuildError::Policy)?;
    if locals.len() != env.workers {
        return Err(BuildError::Locals {
            made: locals.len(),
            workers,
            compensating,
        });
    }
    forked::watch();
    let limit = config.max_threads.unwrap_or(usize::MAX).max(workers);
    let stacks = Stacks::new(config.fiber_stack_bytes, config.max_fiber_stacks);
    let driver = DriverOwner::new(config.io, config.name.clone());
    let blocking = BlockingThreads::new(
        config.name.clone(),
        config.stack_bytes,
        config.max_blocking_threads,
        u64::try_from(config.blocking_keep_alive.as_nanos()).unwrap_or(u64::MAX),
    );
    let threads = ThreadSet::new(
        config.name.clone(),
        config.stack_bytes,
        limit,
        blocking,
        plan,
        quantum,
    );
    let info = PoolInfo {
        name: config.name,
        policy: config.policy,
        priorities: policy.priorities(),
        workers,
        slots: all,
        order: config.order,
        places: config
            .capacity
            .map(|capacity| Box::new(Places::new(capacity)) as _),
    };
    let parts = Parts {
        info,
        threads,
        monitor: Monitor::new(config.watch, workers, all),
        stacks,
        driver,
    };
    let pool: Arc<Pool<P>> = Pool::new(shared, locals, parts);
    let any: Arc<dyn PoolRef> = Arc::clone(&pool) as _;
    for worker in 0..workers {
        match pool.core.threads.start(&any) {
            Ok(thread_handle) => {
                thread_handle.handoff.assign(Some(worker));
            }
            Err(source) => {
                pool.core.close();
                for absent in &pool.workers[worker..workers] {
                    // SAFETY: no thread carries this worker, now or later.
                    unsafe { absent.retire() };
                }
                // Workers without a thread are counted out, so that the last of the others ends the pool.
                pool.leave(workers - worker);
                pool.core.threads.join_all();
                return Err(BuildError::Thread {
                    worker,
                    workers,
                    source,
                });
            }
        }
    }
    if let Err(source) = pool.core.monitor.start(any, &pool.core.info.name) {
        pool.core.close();
        pool.core.threads.join_all();
        return Err(BuildError::Monitor { source });
    }
    Ok(handle::Pool::new(pool))
}
