#![forbid(unsafe_code)]
#![doc = include_str!("../README.md")]

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use harness::{BucketCounts, Delays, Plan, Ran, Setting, Tried, process_cpu, usual_workers};
use warpweft::{BuildError, ClassMetrics, Distribution, ParsePolicyError, PolicySpec, Runtime};

pub use harness::{LabError, Trial};

/// The policies that are tried if none are named: those that differ most.
const USUAL: [&str; 7] = [
    "shortest",
    "fifo",
    "fifo+steal=one",
    "lifo",
    "lifo+steal=one",
    "slot:4",
    "adaptive",
];

/// Runs a closure under policies and numbers of workers: see [the crate](crate).
#[derive(Clone, Debug)]
pub struct Explorer {
    name: String,
    policies: Vec<String>,
    workers: Vec<usize>,
    rounds: usize,
    budget: Option<Duration>,
    despite_load: bool,
    measures: bool,
}

impl Explorer {
    /// An explorer of something with that name: eleven rounds of the usual policies on one, half and all of
    /// the machine's workers, in a minute.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            policies: USUAL.map(str::to_owned).to_vec(),
            workers: Vec::new(),
            rounds: 11,
            budget: Some(Duration::from_secs(60)),
            despite_load: false,
            measures: true,
        }
    }

    /// Sets the policies, as text. The default policy is always measured, too.
    #[must_use]
    pub fn policies<P: Into<String>>(mut self, policies: impl IntoIterator<Item = P>) -> Self {
        self.policies = policies.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the numbers of workers. The default is one, half of the machine's, and all of them.
    #[must_use]
    pub fn workers(mut self, workers: impl IntoIterator<Item = usize>) -> Self {
        self.workers = workers.into_iter().collect();
        self
    }

    /// Sets the largest number of rounds. The first is not counted unless it is the only one. Fewer than
    /// seven tell nothing apart, and with twenty settings fewer than eleven.
    #[must_use]
    pub fn rounds(mut self, rounds: usize) -> Self {
        self.rounds = rounds;
        self
    }

    /// Sets after which time no round but the first is begun. `None` is no limit.
    #[must_use]
    pub fn budget(mut self, budget: Option<Duration>) -> Self {
        self.budget = budget;
        self
    }

    /// Gives advice even if other processes use the machine.
    #[must_use]
    pub fn despite_load(mut self) -> Self {
        self.despite_load = true;
        self
    }

    /// Does not measure how long steps take and wait. To measure it costs each step some 10 ns.
    #[must_use]
    pub fn without_delays(mut self) -> Self {
        self.measures = false;
        self
    }

    /// Runs the closure in each setting, round by round, each time with a fresh runtime. The times are those
    /// of the closure; building the runtime and its end are not counted.
    ///
    /// A closure that panics under a setting ends that setting, and the others continue: see
    /// [`Trial::failures`]. Progress is on the standard error stream.
    ///
    /// # Errors
    ///
    /// A text is no policy, or no runtime can be built with a number of workers.
    pub fn run(&self, mut body: impl FnMut(&Runtime)) -> Result<Trial, LabError> {
        let mut settings = vec![Setting::default()];
        for policy in &self.policies {
            spec(policy)?;
        }
        let counts = if self.workers.is_empty() {
            usual_workers()
        } else {
            self.workers.clone()
        };
        let default = Runtime::builder().build().map_err(|error| refused(&error))?;
        for workers in counts {
            for policy in &self.policies {
                let same_policy = spec(policy)?.to_string() == default.policy();
                if !same_policy || workers != default.workers() {
                    settings.push(Setting {
                        policy: Some(policy.clone()),
                        workers: Some(workers),
                    });
                }
            }
        }
        let name = USUAL
            .iter()
            .find(|name| spec(name).is_ok_and(|spec| spec.to_string() == default.policy()));
        let detail = format!(
            "`{}` on {} workers",
            name.copied().unwrap_or_else(|| default.policy()),
            default.workers()
        );
        drop(default);
        let mut plan = Plan::new(self.name.clone(), settings, self.budget);
        plan.rounds = self.rounds.max(1);
        plan.measures = self.measures;
        plan.despite = "`Explorer::despite_load`";
        if self.despite_load {
            plan.most_load = 1.0;
        }
        let mut trial = Trial::run(&plan, |setting, measures| attempt(setting, measures, &mut body))?;
        trial.describe_baseline(detail);
        Ok(trial)
    }
}

fn spec(policy: &str) -> Result<PolicySpec, LabError> {
    policy
        .parse()
        .map_err(|error: ParsePolicyError| LabError::Usage(error.to_string()))
}

fn refused(error: &BuildError) -> LabError {
    LabError::Usage(error.to_string())
}

/// One run in a fresh runtime.
fn attempt(setting: &Setting, measures: bool, body: &mut impl FnMut(&Runtime)) -> Result<Tried, LabError> {
    let mut builder = Runtime::builder();
    if let Some(workers) = setting.workers {
        builder = builder.workers(workers);
    }
    if let Some(policy) = &setting.policy {
        builder = builder.policy_spec(spec(policy)?);
    }
    let runtime = builder.build().map_err(|error| refused(&error))?;
    runtime.recorder().measure_steps(measures);
    let (start, cpu) = (Instant::now(), process_cpu());
    // Unwind: the closure is the user's, and the user gets the panic; the next run has a fresh runtime.
    let ended = catch_unwind(AssertUnwindSafe(|| body(&runtime)));
    let (wall, after) = (start.elapsed(), process_cpu());
    if let Err(panic) = ended {
        return Ok(Tried::Failed(format!("it panicked: {}", message(&*panic))));
    }
    let counters = runtime.counters().total();
    let counters = counters
        .fields()
        .map(|(name, count)| (name.to_owned(), count as f64));
    Ok(Tried::Ran(Ran {
        wall,
        cpu: cpu.zip(after).map(|(before, after)| after.saturating_sub(before)),
        counters: counters.collect(),
        delays: delays(&runtime),
    }))
}

/// How long the steps of the runtime took and waited, as far as they were measured.
fn delays(runtime: &Runtime) -> Delays {
    let metrics = runtime.metrics();
    let sum = |measure: fn(&ClassMetrics) -> &Distribution| -> BucketCounts {
        let classes = metrics.pools.iter().flat_map(|pool| &pool.classes);
        let buckets = classes.flat_map(|class| measure(class).buckets());
        let ns = |end: Duration| u64::try_from(end.as_nanos()).unwrap_or(u64::MAX);
        buckets.map(|(end, count)| (ns(end), count)).collect()
    };
    Delays {
        queue_delay: sum(|class| &class.queue_delay),
        wake_to_run: sum(|class| &class.wake_to_run),
        run_time: sum(|class| &class.run_time),
    }
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("(no text)")
}
