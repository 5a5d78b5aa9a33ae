//! Concurrent programs of the old kind, a task per actor: token rings, buffers, chains, a city; and tasks
//! alone, pictures, products.
//!
//! They are the test suite with which Negele, Friedrich, Oh and Egger compare a cooperative scheduler with
//! two operating systems ("On the Design and Implementation of an Efficient Lock-Free Scheduler", section 5),
//! in the sizes of their table 1; the programs go back to Bläser's thesis (2007). What they measure is "the
//! schedulers and synchronization primitives under heavy load": each contestant uses its own, and the
//! standard library's lock where its documentation says so.
//!
//! | program | actors | wait for |
//! |---|---|---|
//! | `token-ring` | players in a ring | the one token |
//! | `producer` | pairs of producer and consumer | room and goods in one buffer for all |
//! | `news` | reporters and customers | room and news in each customer's mailbox |
//! | `city` | houses and a power plant | power, room for it, and the river |
//! | `eratosthenes` | a sieve for each prime | room and numbers in the next one's mailbox |
//! | `create` | empty tasks | nothing |
//! | `switch` | tasks that yield | their turn |
//! | `mandelbrot` | parts of a picture | nothing |
//! | `matrix` | rows of a product | nothing |
//!
//! A run begins with the first actor's creation and ends when the last one has ended: the mailboxes, buffers
//! and semaphores are there before.

use std::future::Future;
use std::time::Duration;

use harness::cpus;

use crate::prelude::*;
use crate::program::of;

/// Actors of one program at most: each may be a thread of the system.
pub(crate) const MOST_ACTORS: u64 = 20_000;

/// The substitutes in a Go program.
pub(crate) const GO_CHANNELS: &str = "channels are its mailboxes, its buffer and its semaphores";
/// The substitutes in a Java program.
pub(crate) const JAVA_QUEUES: &str =
    "blocking queues are its mailboxes; a last message stands for closing them";

/// The reason that contestants that only join have no part in this.
const NONE: &str = "it has no tasks that wait for each other";

/// A program of actors. It is a [`Program`] in this idiom alone.
pub trait ActorProgram: Clone + Send + 'static {
    /// See [`Program::ABOUT`].
    const ABOUT: About;

    /// The counts of its actors.
    type Counted: Send + 'static;

    /// Reads the parameters.
    fn load(request: &Request) -> Self;

    /// See [`Program::CAVEATS`].
    const CAVEATS: &[(&str, Caveat)] = &[];

    /// See [`Program::caveat`].
    fn caveat(_request: &Request) -> Option<Caveat> {
        None
    }

    /// See [`Program::fit`].
    fn fit(_request: &mut Request) {}

    /// The part that is not measured.
    fn warm_up(&self) -> Self;

    /// Plays it; says how long it took.
    fn play<A: Actors>(self, tasks: A) -> impl Future<Output = (Duration, Self::Counted)> + Send + 'static;

    /// Checks what was counted.
    ///
    /// # Errors
    ///
    /// It is wrong.
    fn outcome(&self, elapsed: Duration, counted: Self::Counted) -> Result<Outcome, LabError>;
}

impl<T: ActorProgram> Program for T {
    const ABOUT: About = About {
        explored: &["warpweft", "tokio", "smol", "may", "threads", "go"],
        ..<T as ActorProgram>::ABOUT
    };

    const IDIOM: Idiom = Idiom::Actors;
    const CAVEATS: &[(&str, Caveat)] = <T as ActorProgram>::CAVEATS;
    const ALSO: &[&str] = &["go", "java"];
    const REFUSALS: &[(&str, &str)] = &[("chili", NONE), ("forte", NONE), ("sequential", NONE)];

    fn load(request: &Request) -> Result<Self, LabError> {
        Ok(<T as ActorProgram>::load(request))
    }

    fn fit(request: &mut Request) {
        <T as ActorProgram>::fit(request);
    }

    fn caveat(request: &Request) -> Option<Caveat> {
        <T as ActorProgram>::caveat(request).or_else(|| of(Self::CAVEATS, &request.runtime))
    }

    fn warm_up(&self) -> Option<Self> {
        Some(<T as ActorProgram>::warm_up(self))
    }

    fn actors<P: TaskPool<Tasks: Actors>>(&self, pool: &P) -> Result<Outcome, LabError> {
        let (elapsed, counted) = inside(pool, self.clone().play(pool.tasks()))?;
        ActorProgram::outcome(self, elapsed, counted)
    }
}

/// The remark on programs whose tasks compute for long.
pub(crate) fn long_parts(request: &Request) -> Option<Caveat> {
    let few = request.runtime == "warpweft" && request.workers < cpus();
    few.then_some(Caveat::other(
        "if all workers compute in one part for more than 100 ms, a compensating worker comes, with a CPU of its own",
    ))
}

/// The outcome of a program of `count` steps, with the time of each.
pub(crate) fn per_step(count: u64, elapsed: Duration, measure: &str) -> Outcome {
    let nanos = elapsed.as_nanos() as f64 / count as f64;
    Outcome::new(count, elapsed).with_measure(measure, nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_a_compensating_worker_there_is_more_than_one_worker() {
        let told = |runtime: &str, workers| {
            long_parts(&Request {
                runtime: runtime.to_owned(),
                workers,
                ..Request::default()
            })
        };
        assert_eq!(told("warpweft", cpus()), None);
        assert_eq!(
            told("warpweft", 1).is_some_and(|caveat| caveat.differs),
            cpus() > 1
        );
        assert_eq!(told("tokio", 1), None);
    }
}
