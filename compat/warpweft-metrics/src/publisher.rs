//! [`Publisher`]: gives the metrics of pools to a recorder of the facade.

use metrics::{Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};
use std::time::Duration;
use warpweft::{ClassMetrics, Distribution, Pool, PoolMetrics, Runtime};

/// The most values that a publication records in one histogram.
pub const MOST: u64 = 4096;

/// Publishes the metrics of pools. See the [crate](crate).
///
/// It keeps the memory of the pools, and their last distributions. It can be used after the runtime has shut
/// down: then it publishes the last values.
#[derive(Debug, Clone)]
pub struct Publisher {
    pools: Vec<Published>,
}

/// A pool, and what was published of each of its classes.
#[derive(Debug, Clone)]
struct Published {
    pool: Pool,
    classes: Vec<[Distribution; 3]>,
}

impl Publisher {
    /// Returns a publisher for all pools of the runtime.
    ///
    /// What was measured before counts as new, so the first publication has it.
    #[must_use]
    pub fn new(runtime: &Runtime) -> Self {
        Self::of_pools(runtime.pools().iter().cloned())
    }

    /// Returns a publisher for these pools.
    #[must_use]
    pub fn of_pools(pools: impl IntoIterator<Item = Pool>) -> Self {
        let published = |pool| Published {
            pool,
            classes: Vec::new(),
        };
        Self {
            pools: pools.into_iter().map(published).collect(),
        }
    }

    /// Gives the present metrics to the recorder that the facade has on this thread. Without one it does
    /// nothing.
    ///
    /// It costs what [`Pool::metrics`] costs, and a look-up for each name in the [table](crate#names), which
    /// is about 100 microseconds for most recorders. It does not block.
    pub fn publish(&mut self) {
        for Published { pool, classes } in &mut self.pools {
            let now = pool.metrics();
            publish_gauges(&now);
            publish_counters(&now);
            classes.resize_with(now.classes.len().max(classes.len()), Default::default);
            for (class, before) in now.classes.iter().zip(classes) {
                publish_class(&now.name, class, before);
            }
        }
    }

    /// Publishes now, and then again and again after each `interval`. The future never ends: spawn it on the
    /// runtime, and it ends with that, or when its handle is cancelled.
    ///
    /// ```no_run
    /// # let runtime = warpweft::Runtime::builder().build()?;
    /// let publisher = warpweft_metrics::Publisher::new(&runtime);
    /// let task = runtime.spawn(publisher.every(std::time::Duration::from_secs(1)));
    /// # drop(task);
    /// # Ok::<(), warpweft::BuildError>(())
    /// ```
    ///
    /// An `interval` of zero counts as a millisecond.
    ///
    /// # Panics
    ///
    /// The future panics if it is polled where no timer can be had: see [`warpweft::time::sleep`].
    pub async fn every(mut self, interval: Duration) {
        let interval = interval.max(Duration::from_millis(1));
        loop {
            self.publish();
            warpweft::time::sleep(interval).await;
        }
    }
}

fn count(value: usize) -> f64 {
    value as f64
}

fn publish_gauges(now: &PoolMetrics) {
    let set = |name: &'static str, label: &'static str, values: &[(&'static str, usize)]| {
        for &(kind, value) in values {
            gauge!(name, "pool" => now.name.clone(), label => kind).set(count(value));
        }
    };
    let (tasks, depths, threads) = (&now.tasks, &now.depths, &now.threads);
    set(
        "warpweft_tasks",
        "kind",
        &[
            ("runnable", tasks.runnable),
            ("future", tasks.futures),
            ("fiber", tasks.fibers),
            ("job", tasks.jobs),
            ("fork", tasks.forks),
            ("blocking", tasks.blocking),
        ],
    );
    set(
        "warpweft_waiting",
        "on",
        &[
            ("timer", depths.timers),
            ("socket", depths.sockets),
            ("blocking_thread", depths.blocking),
            ("thief", depths.forks),
        ],
    );
    set(
        "warpweft_threads",
        "state",
        &[
            ("all", threads.all),
            ("blocked", threads.blocked),
            ("spare", threads.spare),
            ("blocking", threads.blocking),
        ],
    );
    set(
        "warpweft_workers",
        "state",
        &[
            ("all", now.busy.len()),
            ("searching", threads.searching),
            ("sleeping", threads.sleeping),
        ],
    );
    let length = |queue: String, length: Option<usize>| {
        if let Some(length) = length {
            let pool = now.name.clone();
            gauge!("warpweft_queue_length", "pool" => pool, "queue" => queue).set(count(length));
        }
    };
    length("injector".to_owned(), depths.injector);
    for (worker, &local) in depths.local.iter().enumerate() {
        length(worker.to_string(), local);
    }
}

fn publish_counters(now: &PoolMetrics) {
    let pool = || now.name.clone();
    counter!("warpweft_stalls_total", "pool" => pool()).absolute(now.stalls as u64);
    for (worker, busy) in now.busy.iter().enumerate() {
        let micros = u64::try_from(busy.as_micros()).unwrap_or(u64::MAX);
        let worker = worker.to_string();
        counter!("warpweft_busy_microseconds_total", "pool" => pool(), "worker" => worker).absolute(micros);
    }
    for (name, value) in now.counters.total().fields() {
        counter!(format!("warpweft_{name}_total"), "pool" => pool()).absolute(value);
    }
}

fn publish_class(pool: &str, now: &ClassMetrics, before: &mut [Distribution; 3]) {
    let class = now
        .priority
        .map_or_else(|| "none".to_owned(), |priority| priority.to_string());
    let measures = [
        ("run_time", "warpweft_run_time_seconds", &now.run_time),
        ("queue_delay", "warpweft_queue_delay_seconds", &now.queue_delay),
        ("wake_to_run", "warpweft_wake_to_run_seconds", &now.wake_to_run),
    ];
    for ((what, name, now), before) in measures.into_iter().zip(before) {
        let (pool, class) = (pool.to_owned(), class.clone());
        let total = counter!(
            "warpweft_measured_total", "pool" => pool.clone(), "class" => class.clone(), "what" => what
        );
        total.absolute(now.count());
        let histogram = histogram!(name, "pool" => pool, "class" => class);
        for (value, times) in sample(&now.since(before), MOST) {
            histogram.record_many(value.as_secs_f64(), times);
        }
        *before = now.clone();
    }
}

/// Returns at most `most` of the values, spread evenly over their order: each, and how often.
fn sample(new: &Distribution, most: u64) -> impl Iterator<Item = (Duration, usize)> {
    let all = u128::from(new.count());
    let kept = all.min(u128::from(most));
    let mut below = 0;
    new.buckets().filter_map(move |(value, times)| {
        // Of the first `n` values in order, `n * kept / all` are kept, rounded down.
        let before = below * kept / all;
        below += u128::from(times);
        let times = usize::try_from(below * kept / all - before).unwrap_or(usize::MAX);
        (times > 0).then_some((value, times))
    })
}

/// Registers units and descriptions of the [names](crate#names). Optional; exporters show them.
pub fn describe() {
    describe_gauge!("warpweft_tasks", "Tasks that have not ended, by kind");
    describe_gauge!("warpweft_queue_length", "Tasks in a queue of the policy");
    describe_gauge!("warpweft_waiting", "What is waited for outside of tasks");
    describe_gauge!("warpweft_threads", "Threads of the pool, by state");
    describe_gauge!("warpweft_workers", "Workers of the pool, by state");
    describe_counter!(
        "warpweft_stalls_total",
        "Times that a worker was found stuck in a task"
    );
    describe_counter!(
        "warpweft_busy_microseconds_total",
        Unit::Microseconds,
        "How long a worker was awake"
    );
    for event in warpweft::policy::Count::ALL {
        describe_counter!(
            format!("warpweft_{}_total", event.name()),
            "Events of the scheduler"
        );
    }
    describe_counter!(
        "warpweft_measured_total",
        "Values of the histograms before sampling"
    );
    for (name, about) in [
        ("warpweft_run_time_seconds", "How long the steps of tasks took"),
        (
            "warpweft_queue_delay_seconds",
            "From the push of a new task to its first step",
        ),
        (
            "warpweft_wake_to_run_seconds",
            "From a wake to the step that follows",
        ),
    ] {
        describe_histogram!(name, Unit::Seconds, about);
    }
}
