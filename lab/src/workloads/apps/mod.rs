//! Concurrent programs of the old kind, a task per actor: rings, buffers, chains, a city; and tasks alone,
//! pictures, products.
//!
//! They are the test suite with which Negele, Friedrich, Oh and Egger compare a cooperative scheduler with
//! two operating systems ("On the Design and Implementation of an Efficient Lock-Free Scheduler", section 5),
//! in the sizes of their table 1; the programs go back to Bläser's thesis (2007). What they measure is "the
//! schedulers and synchronization primitives under heavy load": each contestant uses its own.
//!
//! | program | actors | wait for |
//! |---|---|---|
//! | [`token_ring`] | players in a ring | the one token |
//! | [`producer`] | pairs of producer and consumer | room and goods in one buffer for all |
//! | [`news`] | reporters and customers | room and news in each customer's mailbox |
//! | [`city`] | houses and a power plant | power, room for it, and the river |
//! | [`eratosthenes`] | a sieve for each prime | room and numbers in the next one's mailbox |
//! | [`create`] | empty tasks | nothing |
//! | [`switch`] | tasks that yield | their turn |
//! | [`mandelbrot`] | parts of a picture | nothing |
//! | [`matrix`] | rows of a product | nothing |
//!
//! A run begins with the first actor's creation and ends when the last one has ended: the mailboxes, buffers
//! and semaphores are there before.

use std::future::Future;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::params::Params;
use super::{Remark, inside, measured};
use crate::error::LabError;
use crate::harness::machine::cpus;
use crate::harness::record::Outcome;
use crate::peers::apps::Apps;
use crate::peers::{Runtime, TaskPool};

pub(super) mod city;
pub(super) mod create;
pub(super) mod eratosthenes;
pub(super) mod mandelbrot;
pub(super) mod matrix;
pub(super) mod news;
pub(super) mod producer;
pub(super) mod switch;
pub(super) mod token_ring;

/// Actors of one program at most: each may be a thread of the system.
const MOST_ACTORS: u64 = 20_000;

/// Which of the programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Name {
    TokenRing,
    Producer,
    News,
    City,
    Eratosthenes,
    Create,
    Switch,
    Mandelbrot,
    Matrix,
}

/// A program, sized.
trait App: Clone {
    /// What its actors counted.
    type Tally: Send + 'static;

    /// The part that is not measured.
    fn warm_up(&self) -> Self;

    /// Plays it; says how long it took.
    fn play<W: Apps>(self, tasks: W) -> impl Future<Output = (Duration, Self::Tally)> + Send + 'static;

    /// Checks what was counted.
    fn outcome(&self, elapsed: Duration, tally: Self::Tally) -> Result<Outcome, LabError>;
}

/// A program, ready to run.
pub(crate) enum Plan {
    TokenRing(token_ring::Plan),
    Producer(producer::Plan),
    News(news::Plan),
    City(city::Plan),
    Eratosthenes(eratosthenes::Plan),
    Create(create::Plan),
    Switch(switch::Plan),
    Mandelbrot(mandelbrot::Plan),
    Matrix(matrix::Plan),
}

impl Plan {
    /// Reads the parameters.
    pub(super) fn new(name: Name, params: &Params) -> Self {
        match name {
            Name::TokenRing => Self::TokenRing(token_ring::Plan::new(params)),
            Name::Producer => Self::Producer(producer::Plan::new(params)),
            Name::News => Self::News(news::Plan::new(params)),
            Name::City => Self::City(city::Plan::new(params)),
            Name::Eratosthenes => Self::Eratosthenes(eratosthenes::Plan::new(params)),
            Name::Create => Self::Create(create::Plan::new(params)),
            Name::Switch => Self::Switch(switch::Plan::new(params)),
            Name::Mandelbrot => Self::Mandelbrot(mandelbrot::Plan::new(params)),
            Name::Matrix => Self::Matrix(matrix::Plan::new(params)),
        }
    }

    /// Warms up, and runs it.
    pub(super) fn run<P: TaskPool<Tasks: Apps>>(&self, pool: &P) -> Result<Outcome, LabError> {
        match self {
            Self::TokenRing(app) => run(app, pool),
            Self::Producer(app) => run(app, pool),
            Self::News(app) => run(app, pool),
            Self::City(app) => run(app, pool),
            Self::Eratosthenes(app) => run(app, pool),
            Self::Create(app) => run(app, pool),
            Self::Switch(app) => run(app, pool),
            Self::Mandelbrot(app) => run(app, pool),
            Self::Matrix(app) => run(app, pool),
        }
    }
}

fn run<A: App, P: TaskPool<Tasks: Apps>>(app: &A, pool: &P) -> Result<Outcome, LabError> {
    let once = |app: &A| {
        let (elapsed, tally) = inside(pool, app.clone().play(pool.tasks()))?;
        app.outcome(elapsed, tally)
    };
    measured(|| pool.counters(), || once(&app.warm_up()), || once(app))
}

/// Why this runtime cannot run these programs, if so.
pub(super) fn refusal(runtime: Runtime) -> Option<String> {
    let reason = match runtime {
        Runtime::Warpweft | Runtime::Tokio | Runtime::Smol | Runtime::May | Runtime::Threads => return None,
        Runtime::Rayon | Runtime::RayonFifo | Runtime::StealOne => {
            "its jobs cannot wait without holding a worker"
        }
        Runtime::TokioRayon => "two pools, one that waits and one that joins: see mixed and http",
        Runtime::Go | Runtime::Java => return runtime.missing(),
        _ => "it has no tasks that wait for each other",
    };
    Some(reason.to_owned())
}

/// Whether this runtime cannot have as many tasks as this program may ask for. (One at a time it could, but a
/// task takes it 10 to 100 us.)
pub(super) fn bounded(name: Name, runtime: Runtime) -> bool {
    name == Name::Create && matches!(runtime, Runtime::Threads | Runtime::May)
}

/// What a reader of this contestant's figures must know.
pub(super) fn remark(name: Name, runtime: Runtime, workers: usize) -> Option<Remark> {
    let mut differs = bounded(name, runtime);
    let text = match (name, runtime) {
        (Name::Mandelbrot | Name::Matrix, Runtime::Warpweft) if workers < cpus() => {
            differs = true;
            "a worker that is in one part for more than 10 ms gets a compensating worker, which has a CPU of its own"
        }
        (Name::Create, Runtime::Threads) => "a thread per task; n is bounded",
        (Name::Create, Runtime::May) => "two mappings per task; n is bounded",
        (Name::Producer | Name::News | Name::City | Name::Eratosthenes | Name::TokenRing, Runtime::Go) => {
            "channels are its mailboxes, its buffer and its semaphores"
        }
        (Name::Create, Runtime::Java) => "its bytes are also those that its collector has not freed yet",
        (Name::Producer, Runtime::Java) => "a blocking queue is its buffer",
        (Name::TokenRing, Runtime::Java) => "blocking queues are its mailboxes",
        (Name::News | Name::Eratosthenes, Runtime::Java) => {
            "blocking queues are its mailboxes; a last message stands for closing them"
        }
        (Name::Producer | Name::City, Runtime::Tokio) => {
            "its own mutex, which is dearer than the standard library's"
        }
        (_, Runtime::Threads) => "a thread per task",
        _ => return None,
    };
    Some(Remark { text, differs })
}

/// The outcome of a program of `count` steps, with the time of each.
fn per_step(count: u64, elapsed: Duration, measure: &str) -> Outcome {
    let nanos = elapsed.as_nanos() as f64 / count as f64;
    Outcome::new(count, elapsed).with_measure(measure, nanos)
}
