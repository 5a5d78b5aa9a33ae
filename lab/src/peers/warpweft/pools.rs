//! This project's runtime with several pools: stages, one behind the other, or silos, side by side.
//!
//! ```text
//!  staged:fifo/lifo          spawners, steps │ what takes long          mixer: participants │ mixers
//!  staged:fifo/lifo/fifo     spawners │ steps │ what takes long      mixer: starters │ participants │ mixers
//!  staged:fifo@1/fifo@2      the same as the first, and how many workers each has
//!  staged:fifo@1/fifo@2:1024/fifo@2     the same as the second; a spawner waits while 1024 of the steps
//!                                       have not begun
//!  silos:10:fifo             a conference and its members │ another one │ …
//! ```
//!
//! A task that begins a part is spawned on the pool of that part; one that begins where it is stays there.
//! Unless the text says how many workers each stage has, those that others have in one pool are shared out
//! evenly, those that are left over to the first pools. Where it does say, they may be more in all: the
//! record counts them (`workers_in_all`).

use std::future::Future;
use std::time::Instant;

use ::warpweft::{Builder, PolicySpec, Pool, Runtime, TaskBuilder};

use harness::{Counters, LabError, MOST_WORKERS, Outcome, Request};

use super::policies::one_policy;
use super::{Api as Plain, Handle, builder, counters_of};
use crate::idioms::channels::Sleeps;
use crate::idioms::{Idiom, Joined, Part, SpawnApi, TaskPool};
use crate::program::{Parts, Program, measured};

/// How several pools are written, for the list.
pub(super) const GRAMMAR: &str = "packet-bimodal and mixer take several pools, one behind the other: staged:POLICY/POLICY, perhaps with a third one and with the workers of each, staged:fifo@1/fifo@2; mixer also takes pools side by side: silos:N:POLICY";
/// The first word of stages.
const STAGED: &str = "staged:";
/// The meaning of the word alone.
const USUAL: &str = "fifo/fifo";
/// The first word of silos.
const SILOS: &str = "silos:";
/// A bound beyond this is none.
const MOST_PLACES: usize = 1 << 30;
/// The names of stages.
const STAGES: [&str; 3] = ["spawners", "steps", "long"];

/// A stage: its policy, how many workers it has if the text says so, and how many tasks from other stages it
/// takes at a time if it has a bound.
struct Stage {
    policy: PolicySpec,
    workers: Option<usize>,
    capacity: Option<usize>,
}

impl Stage {
    fn parse(text: &str) -> Result<Self, LabError> {
        let Some((policy, workers)) = text.split_once('@') else {
            return Ok(Self {
                policy: one_policy(text)?,
                workers: None,
                capacity: None,
            });
        };
        let (workers, capacity) = match workers.split_once(':') {
            None => (workers, None),
            Some((workers, capacity)) => {
                let places = count_of(capacity, MOST_PLACES).ok_or_else(|| {
                    LabError::Usage(format!(
                        "`{text}`: a stage with a bound has 1 to {MOST_PLACES} places, not `{capacity}`"
                    ))
                })?;
                (workers, Some(places))
            }
        };
        let workers = count_of(workers, MOST_WORKERS).ok_or_else(|| {
            LabError::Usage(format!(
                "`{text}`: a stage has 1 to {MOST_WORKERS} workers, not `{workers}`"
            ))
        })?;
        Ok(Self {
            policy: one_policy(policy)?,
            workers: Some(workers),
            capacity,
        })
    }
}

/// Several pools, as a policy's text describes them.
enum Shape {
    /// One behind the other, each for a part of the workload.
    Stages(Vec<Stage>),
    /// This number of pools side by side, each for some of the keys.
    Silos(usize, PolicySpec),
}

/// Returns true if this policy is one of several pools.
pub(super) fn are_several(policy: &str) -> bool {
    policy == "staged" || policy.starts_with(STAGED) || policy.starts_with(SILOS)
}

/// Checks the text of such a policy.
pub(crate) fn check(text: &str) -> Result<(), LabError> {
    Shape::parse(text).map(drop)
}

/// Returns the reason if this request cannot be run on several pools.
pub(crate) fn refusal(request: &Request, policy: &str, parts: Parts) -> Result<Option<String>, LabError> {
    let shape = Shape::parse(policy)?;
    let fits = match (&shape, parts) {
        (_, Parts::StagesAndSilos) if request.params.is("style", "fibers") => {
            Some("fibers confer in one pool: see style=futures")
        }
        (Shape::Stages(stages), Parts::StagesAndSilos)
            if stages.iter().any(|stage| stage.capacity.is_some()) =>
        {
            Some("its tasks are all there from the beginning: no stage of it has a bound")
        }
        (_, Parts::StagesAndSilos) | (Shape::Stages(_), Parts::Stages) => None,
        (Shape::Stages(_), _) => Some(
            "only packet-bimodal and mixer have parts that may be stages; what else there is has one pool",
        ),
        (Shape::Silos(..), _) => {
            Some("only mixer has silos, for its conferences; what else there is has one pool")
        }
    };
    Ok(fits
        .map(str::to_owned)
        .or_else(|| shape.shares(request.workers).err()))
}

impl Shape {
    fn parse(text: &str) -> Result<Self, LabError> {
        if let Some(silos) = text.strip_prefix(SILOS) {
            let wrong = |found: &str| {
                LabError::Usage(format!(
                    "`{text}`: silos are {SILOS}COUNT:POLICY, with a count from 1 to {MOST_WORKERS}, such as silos:10:fifo; {found}"
                ))
            };
            let (count, policy) = silos
                .split_once(':')
                .ok_or_else(|| wrong("there is no second colon"))?;
            let count =
                count_of(count, MOST_WORKERS).ok_or_else(|| wrong(&format!("`{count}` is no such count")))?;
            return Ok(Self::Silos(count, one_policy(policy)?));
        }
        let stages: Vec<&str> = text.strip_prefix(STAGED).unwrap_or(USUAL).split('/').collect();
        if !(2..=STAGES.len()).contains(&stages.len()) {
            return Err(LabError::Usage(format!(
                "`{text}`: 2 or 3 policies with slashes between them are stages, such as {STAGED}{USUAL}; {} were found",
                stages.len()
            )));
        }
        let asked: Vec<Stage> = stages.into_iter().map(Stage::parse).collect::<Result<_, _>>()?;
        let said = asked.iter().filter(|stage| stage.workers.is_some()).count();
        if said > 0 && said < asked.len() {
            return Err(LabError::Usage(format!(
                "`{text}`: either each stage says how many workers it has, or none does"
            )));
        }
        // A task that waits for a place must not have one, nor be in the same pool; and what takes long is
        // not waited for.
        let bounded = asked.iter().position(|stage| stage.capacity.is_some());
        if bounded.is_some_and(|at| asked.len() < STAGES.len() || at != 1)
            || asked.last().is_some_and(|last| last.capacity.is_some())
        {
            return Err(LabError::Usage(format!(
                "`{text}`: only the second of three stages can have a bound: it is the one for which spawners wait"
            )));
        }
        Ok(Self::Stages(asked))
    }

    /// The workers of each pool, of `workers` for all; or why that cannot be.
    fn shares(&self, workers: usize) -> Result<Vec<usize>, String> {
        let (pools, what) = match self {
            Self::Stages(asked) => {
                if let Some(said) = asked.iter().map(|stage| stage.workers).collect() {
                    return Ok(said);
                }
                (asked.len(), "stages")
            }
            Self::Silos(count, _) => (*count, "silos"),
        };
        if workers < pools {
            return Err(format!("{pools} {what} need as many workers at least"));
        }
        Ok((0..pools)
            .map(|at| workers / pools + usize::from(at < workers % pools))
            .collect())
    }

    /// Each pool's name and what it is to be, in order, but for its workers.
    fn pools(&self, builder: impl Fn() -> Builder) -> Vec<(String, Builder)> {
        let of = |policy: &PolicySpec| builder().policy_spec(policy.clone());
        match self {
            // Where there are two, the first has the spawners and the steps.
            Self::Stages(asked) => {
                let behind = &STAGES[STAGES.len() + 1 - asked.len()..];
                let names = STAGES[..1].iter().chain(behind);
                names
                    .zip(asked)
                    .map(|(name, stage)| {
                        let mut pool = of(&stage.policy);
                        if let Some(places) = stage.capacity {
                            pool = pool.capacity(places);
                        }
                        ((*name).to_owned(), pool)
                    })
                    .collect()
            }
            Self::Silos(count, policy) => (0..*count)
                .map(|number| (format!("silo-{number}"), of(policy)))
                .collect(),
        }
    }
}

fn count_of(text: &str, most: usize) -> Option<usize> {
    let count = text.parse().ok()?;
    (1..=most).contains(&count).then_some(count)
}

/// The calls of a task, of which those that it starts belong to one pool.
#[derive(Clone, Copy)]
struct Api(&'static Pool);

impl SpawnApi for Api {
    type Handle<T: Send + 'static> = Handle<T>;

    #[inline]
    fn spawn<T: Send + 'static>(self, future: impl Future<Output = T> + Send + 'static) -> Handle<T> {
        Joined(self.0.spawn(future))
    }

    #[inline]
    fn spawn_job<T: Send + 'static>(self, job: impl FnOnce() -> T + Send + 'static) -> Handle<T> {
        Joined(self.0.spawn_job(job))
    }

    #[inline]
    fn launch(self, future: impl Future<Output = ()> + Send + 'static) {
        self.0.spawn(future).detach();
    }

    #[inline]
    fn launch_job(self, job: impl FnOnce() + Send + 'static) {
        TaskBuilder::new().on_pool(self.0).spawn_detached(job);
    }

    async fn launch_when_free(self, job: impl FnOnce() + Send + 'static) {
        if self.0.capacity().is_none() {
            return self.launch_job(job);
        }
        let task = self.0.spawn_with_permit(async move { job() }).await;
        task.expect("the stage is behind the spawner's, and open as long as that is")
            .detach();
    }

    #[inline]
    fn yield_now(self) -> impl Future<Output = ()> + Send + 'static {
        Plain.yield_now()
    }
}

impl Sleeps for Api {
    fn sleep_until(deadline: Instant) -> impl Future<Output = ()> + Send {
        Plain::sleep_until(deadline)
    }
}

/// The runtime, and which of its pools has which part, or key.
struct Pools {
    runtime: Runtime,
    api: Vec<Api>,
    silos: bool,
}

impl Pools {
    fn new(
        shape: &Shape,
        shares: &[usize],
        builder: impl Fn() -> Builder,
    ) -> Result<Self, ::warpweft::BuildError> {
        let mut pools = shape
            .pools(builder)
            .into_iter()
            .zip(shares)
            .map(|((name, pool), share)| (name, pool.workers(*share)));
        let (name, first) = pools
            .next()
            .unwrap_or_else(|| (String::from(STAGES[0]), Runtime::builder()));
        let runtime = pools
            .fold(first.name(name), |chain, (name, pool): (_, Builder)| {
                chain.then(name, pool)
            })
            .build()?;
        let api = runtime
            .pools()
            .iter()
            // A process makes one run.
            .map(|pool| Api(Box::leak(Box::new(pool.clone()))))
            .collect();
        let silos = matches!(shape, Shape::Silos(..));
        Ok(Self { runtime, api, silos })
    }
}

impl TaskPool for Pools {
    type Tasks = Api;

    fn tasks(&self) -> Api {
        self.at(Part::Steps, 0)
    }

    fn at(&self, part: Part, key: u64) -> Api {
        let pools = self.api.len();
        self.api[match part {
            _ if self.silos => (key % pools as u64) as usize,
            Part::Steps => pools - 2,
            Part::Last => pools - 1,
        }]
    }

    fn start(&self, root: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(root).detach();
    }

    fn submit<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> Handle<T> {
        Joined(self.runtime.spawn_job(job))
    }

    fn submit_and_forget(&self, job: impl FnOnce() + Send + 'static) {
        TaskBuilder::new().on(&self.runtime).spawn_detached(job);
    }

    fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    /// Of all pools, one after the other.
    fn counters(&self) -> Option<Counters> {
        let pools = self.runtime.pools().iter();
        pools
            .map(|pool| counters_of(&pool.counters()))
            .reduce(Counters::beside)
    }
}

/// Runs a request on a fresh runtime.
pub(crate) fn run<P: Program>(request: &Request, program: &P, policy: &str) -> Result<Outcome, LabError> {
    let shape = Shape::parse(policy)?;
    let shares = shape.shares(request.workers).map_err(LabError::Usage)?;
    let pools = Pools::new(&shape, &shares, || builder(request)).map_err(|error| request.failed(&error))?;
    let outcome = measured(
        program,
        || pools.counters(),
        |program| match P::idiom(&request.params) {
            Idiom::Sleeps => program.sleeps(&pools),
            _ => program.tasks(&pools),
        },
    )?;
    let workers: usize = shares.iter().sum();
    Ok(outcome.with_measure("workers_in_all", workers as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pools(text: &str, workers: usize) -> Pools {
        let shape = Shape::parse(text).unwrap();
        let shares = shape.shares(workers).unwrap();
        Pools::new(&shape, &shares, Runtime::builder).unwrap()
    }

    #[test]
    fn pools_share_the_workers_and_have_their_policies() {
        for (text, workers, shares) in [
            ("staged", 2, vec![("spawners", 1), ("long", 1)]),
            ("staged:fifo/lifo", 3, vec![("spawners", 2), ("long", 1)]),
            (
                "staged:fifo/lifo/fifo",
                5,
                vec![("spawners", 2), ("steps", 2), ("long", 1)],
            ),
            ("staged:fifo@1/lifo@3", 2, vec![("spawners", 1), ("long", 3)]),
            ("silos:2:lifo", 3, vec![("silo-0", 2), ("silo-1", 1)]),
            ("silos:1:lifo", 1, vec![("silo-0", 1)]),
        ] {
            let pools = pools(text, workers);
            let found: Vec<(&str, usize)> = pools
                .runtime
                .pools()
                .iter()
                .map(|pool| (pool.name(), pool.workers()))
                .collect();
            assert_eq!(found, shares, "{text}");
            let in_all = shares.iter().map(|(_, workers)| workers).sum::<usize>();
            assert_eq!(pools.counters().unwrap().workers.len(), in_all);
            let name = |part, key| pools.at(part, key).0.name().to_owned();
            if pools.silos {
                for key in 0..5 {
                    let silo = format!("silo-{}", key % shares.len() as u64);
                    assert_eq!(
                        (name(Part::Steps, key), name(Part::Last, key)),
                        (silo.clone(), silo)
                    );
                }
            } else {
                let steps = if shares.len() == 3 { "steps" } else { "spawners" };
                assert_eq!(
                    (name(Part::Steps, 7), name(Part::Last, 7)),
                    (steps.into(), "long".into())
                );
            }
        }
        let stages = pools("staged:fifo/lifo", 2);
        let policies: Vec<&str> = stages.runtime.pools().iter().map(Pool::policy).collect();
        assert!(
            policies[0].contains("fifo") && policies[1].contains("lifo"),
            "{policies:?}"
        );
    }

    #[test]
    fn wrong_pools_say_what_would_be_right() {
        for (text, reason) in [
            ("staged:fifo", "2 or 3 policies"),
            ("staged:fifo/lifo/fifo/lifo", "2 or 3 policies"),
            ("staged:fifo/filo", "fifo"),
            ("staged:fifo/", "fifo"),
            ("staged:fifo@0/fifo@1", "1 to 4096 workers"),
            ("staged:fifo@one/fifo@1", "not `one`"),
            ("staged:fifo@1/fifo", "or none does"),
            ("staged:fifo@1/fifo@1:0/fifo@1", "places, not `0`"),
            ("staged:fifo@1/fifo@1:9", "second of three"),
            ("staged:fifo@1:9/fifo@1/fifo@1", "second of three"),
            ("staged:fifo@1/fifo@1:9/fifo@1:9", "second of three"),
            ("silos:0:fifo", "`0` is no such count"),
            ("silos:ten:fifo", "`ten` is no such count"),
            ("silos:fifo", "no second colon"),
            ("silos:2:filo", "fifo"),
        ] {
            let error = check(text).unwrap_err().to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
        let shares = |text| Shape::parse(text).unwrap().shares(1);
        assert!(shares("staged").is_err_and(|reason| reason.contains("2 stages")));
        assert!(shares("silos:3:fifo").is_err_and(|reason| reason.contains("3 silos")));
        assert_eq!(shares("staged:fifo@2/fifo@1"), Ok(vec![2, 1]));
    }
}
