//! Work that ranks share by stealing: a few random victims, then lifelines, as in X10's GLB (Saraswat et al.,
//! "Lifeline-based global load balancing", PPoPP 2011).
//!
//! ```text
//!   runner:  step ─ step ─ work is wanted: split ──▶ shelf ──▶ another runner of this rank, or the broker
//!              └─ no work left: take of the shelf, or wait
//!   broker:  all runners wait ─ ask a rank ─▶ work: to the shelf
//!                                           └▶ none: ask the next rank, and then the lifelines
//! ```
//!
//! Stealing is by messages alone. Each rank has one task as its broker, and one for each bag as its runner.
//!
//! # Invariants
//!
//! - *Credit* shows when no work is left. Each rank begins with the same amount. Work that moves to another
//!   rank takes half of its rank's credit along; a rank without work returns its credit to rank 0. When all
//!   credit is back there, no rank and no message has work.
//! - A rank has at most one question on its way, and each question is answered. So no message is left behind.
//! - The words of two pieces of work have different tags, if one follows the other: a rank may begin with the
//!   next while another still receives.
//! - A bag that panics leaves its rank as one without work, so the others come to their end.

use crate::broker::Broker;
use crate::comm::Comm;
use crate::error::{MpiError, MpiErrorKind};
use crate::progress::MpiProgress;
use crate::shelf::Shelf;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::any::Any;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

/// A part of some work, with the results that it has had so far. Each runner has one; work moves between
/// them.
pub trait Bag: Send + 'static {
    /// Work that moves to another runner, perhaps of another rank. It has no results.
    type Work: Serialize + DeserializeOwned + Send + 'static;

    /// Does some of the work. Returns false if nothing is left. Work moves between two steps, so 10 to
    /// 100 µs are a good length.
    fn step(&mut self) -> bool;

    /// Gives away about half of what is left, the oldest part if there is one. `None` if it is not worth it.
    fn split(&mut self) -> Option<Self::Work>;

    /// Adds work, to a bag that has none left.
    fn take(&mut self, work: Self::Work);
}

/// What [`Comm::share`] returns: the bags with their results, and how the work moved.
#[derive(Debug)]
#[non_exhaustive]
pub struct Shared<B> {
    /// The bags that were given, without work.
    pub bags: Vec<B>,
    /// How often work of another rank came to this one.
    pub stolen: u64,
    /// How often this rank asked another one.
    pub asked: u64,
}

/// The tag of results. The brokers have other tags: that of a slower rank may still receive.
const RESULTS: i32 = 2;

/// What a panic carries.
type Payload = Box<dyn Any + Send>;

impl Comm {
    /// Works on the bags of all ranks until no work is left anywhere. All ranks call this. This rank runs one
    /// task for each of its bags; as many as it has workers is a good number. Bags may be empty.
    ///
    /// A future that is dropped before its end, or fails, leaves the other ranks waiting. Its communicator
    /// shares no further work.
    ///
    /// # Errors
    ///
    /// MPI fails or was finalised; work of another rank cannot be read; the ranks share other work over this
    /// communicator, which is not over or has failed.
    ///
    /// # Panics
    ///
    /// If a bag of this rank does, with its panic, when no work is left anywhere. What that bag had is lost;
    /// if it was the rank's last one, so is work of other ranks that is on its way to this one. The other
    /// ranks get their bags. Outside of a task of a runtime it uses the default runtime.
    pub async fn share<B: Bag>(&self, bags: Vec<B>) -> Result<Shared<B>, MpiError> {
        match self.share_or_panic(bags).await? {
            Ok(shared) => Ok(shared),
            Err(panic) => resume_unwind(panic),
        }
    }

    /// As [`share`](Self::share), with the panic of a bag as a value.
    async fn share_or_panic<B: Bag>(&self, bags: Vec<B>) -> Result<Result<Shared<B>, Payload>, MpiError> {
        let mut work = self.take_work()?;
        let shelf = Arc::new(Shelf::new(bags.len()));
        let end = EndAtDrop(Arc::clone(&shelf));
        let runners: Vec<_> = bags
            .into_iter()
            .enumerate()
            .map(|(number, bag)| {
                let (progress, shelf) = (Arc::clone(&self.progress), Arc::clone(&shelf));
                warpweft::spawn(run(bag, Runner { number, shelf }, progress))
            })
            .collect();
        let served = Broker::new(work.comm.clone(), work.tag, shelf).serve().await;
        work.is_over = served.is_ok();
        drop(end);
        let mut ended = Vec::new();
        for runner in runners {
            match runner.await {
                Ok(bag) => ended.push(bag),
                Err(error) => match error.into_panic() {
                    // Nothing follows over this communicator.
                    Some(panic) if served.is_err() => resume_unwind(panic),
                    Some(panic) => return Ok(Err(panic)),
                    None => return Err(MpiError::finished()),
                },
            }
        }
        let (stolen, asked) = served?;
        Ok(Ok(Shared {
            bags: ended,
            stolen,
            asked,
        }))
    }

    /// Maps the numbers of `range` and combines the results, on all ranks. All ranks call this with the same
    /// range; each begins with its share of it, and steals from the others when it is through. `map` is
    /// called with parts of at most `grain` numbers. Each rank gets the result of all.
    ///
    /// `combine` must be associative and commutative: stealing changes the order.
    ///
    /// # Errors
    ///
    /// As [`share`](Self::share); a result cannot be read; `map` or `combine` panicked on another rank.
    ///
    /// # Panics
    ///
    /// If `map` or `combine` does on this rank, with its panic.
    pub async fn map_reduce<T, M, C>(
        &self,
        range: Range<u64>,
        grain: u64,
        runners: usize,
        map: M,
        combine: C,
    ) -> Result<Option<T>, MpiError>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
        M: Fn(Range<u64>) -> T + Send + Sync + 'static,
        C: Fn(T, T) -> T + Send + Sync + 'static,
    {
        let functions = Arc::new((map, combine));
        let own = part(&range, self.rank() as u64, self.size() as u64);
        let bags = (0..runners.max(1)).map(|runner| Span {
            left: part(&own, runner as u64, runners.max(1) as u64),
            grain: grain.max(1),
            functions: Arc::clone(&functions),
            result: None,
        });
        let shared = self.share_or_panic(bags.collect()).await?;
        let combine = &functions.1;
        let own = shared.and_then(|shared| {
            let results = shared.bags.into_iter().filter_map(|bag| bag.result);
            caught(|| results.reduce(combine))
        });
        self.combine_all(own, combine).await
    }

    /// Combines one value of each rank on rank 0, and gives all ranks the result. A rank that panicked takes
    /// part, because the others wait for it.
    async fn combine_all<T: Serialize + DeserializeOwned>(
        &self,
        own: Result<Option<T>, Payload>,
        combine: impl Fn(T, T) -> T,
    ) -> Result<Option<T>, MpiError> {
        let mut work = self.take_work()?;
        // The error is the rank that panicked.
        let port = work.comm.port::<Result<Option<T>, usize>>(RESULTS);
        let (mut all, mut panic) = match own {
            Ok(own) => (Ok(own), None),
            Err(panic) => (Err(self.rank()), Some(panic)),
        };
        if self.rank() == 0 {
            for _ in 1..self.size() {
                let theirs = port.recv(crate::Source::Any).await?.value;
                all = match (all, theirs) {
                    (Ok(Some(a)), Ok(Some(b))) => match caught(|| combine(a, b)) {
                        Ok(both) => Ok(Some(both)),
                        Err(payload) => {
                            panic = Some(payload);
                            Err(self.rank())
                        }
                    },
                    (Ok(a), Ok(b)) => Ok(a.or(b)),
                    (Err(rank), _) | (_, Err(rank)) => Err(rank),
                };
            }
            for rank in 1..self.size() {
                port.send(rank, &all).await?;
            }
        } else {
            port.send(0, &all).await?;
            all = port.recv(0).await?.value;
        }
        work.is_over = true;
        drop(work);
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
        all.map_err(|rank| {
            MpiError::new(
                MpiErrorKind::Remote,
                format!("there is no result: `map` or `combine` panicked on rank {rank}"),
            )
        })
    }
}

/// Calls `f`. Its panic is a value.
fn caught<R>(f: impl FnOnce() -> R) -> Result<R, Payload> {
    catch_unwind(AssertUnwindSafe(f))
}

/// Ends the runners, also if the future that works on a shelf is dropped.
struct EndAtDrop<W>(Arc<Shelf<W>>);

impl<W> Drop for EndAtDrop<W> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// A runner, until it ends or its bag panics.
struct Runner<W> {
    number: usize,
    shelf: Arc<Shelf<W>>,
}

impl<W> Drop for Runner<W> {
    fn drop(&mut self) {
        self.shelf.leave(self.number);
    }
}

/// Returns the part number `index` of `range` in `parts` parts.
fn part(range: &Range<u64>, index: u64, parts: u64) -> Range<u64> {
    let len = u128::from(range.end.saturating_sub(range.start));
    let at = |index: u64| range.start + (len * u128::from(index) / u128::from(parts)) as u64;
    at(index)..at(index + 1)
}

async fn run<B: Bag>(mut bag: B, runner: Runner<B::Work>, progress: Arc<MpiProgress>) -> B {
    let shelf = &runner.shelf;
    loop {
        while bag.step() {
            if shelf.is_wanted()
                && let Some(work) = bag.split()
            {
                shelf.put(work);
            }
            // The broker has its turn, if there is a word for it.
            progress.glance();
            warpweft::yield_now().await;
        }
        match shelf.take(runner.number).await {
            Some(work) => bag.take(work),
            None => return bag,
        }
    }
}

/// A range of numbers.
struct Span<T, M, C> {
    left: Range<u64>,
    grain: u64,
    functions: Arc<(M, C)>,
    result: Option<T>,
}

impl<T, M, C> Bag for Span<T, M, C>
where
    T: Send + 'static,
    M: Fn(Range<u64>) -> T + Send + Sync + 'static,
    C: Fn(T, T) -> T + Send + Sync + 'static,
{
    type Work = Range<u64>;

    fn step(&mut self) -> bool {
        if self.left.is_empty() {
            return false;
        }
        let end = self.left.end.min(self.left.start.saturating_add(self.grain));
        let mapped = (self.functions.0)(self.left.start..end);
        self.left.start = end;
        self.result = Some(match self.result.take() {
            Some(result) => (self.functions.1)(result, mapped),
            None => mapped,
        });
        !self.left.is_empty()
    }

    fn split(&mut self) -> Option<Range<u64>> {
        let len = self.left.end - self.left.start;
        if len <= self.grain {
            return None;
        }
        let middle = self.left.end - len / 2;
        let half = middle..self.left.end;
        self.left.end = middle;
        Some(half)
    }

    fn take(&mut self, work: Range<u64>) {
        self.left = work;
    }
}

#[cfg(test)]
mod tests {
    use super::part;

    #[test]
    fn parts_are_the_whole() {
        for (range, parts) in [(0..10, 3), (5..5, 2), (0..u64::MAX, 7), (1..3, 5)] {
            let mut at = range.start;
            for index in 0..parts {
                let part = part(&range, index, parts);
                assert_eq!(part.start, at);
                at = part.end;
            }
            assert_eq!(at, range.end);
        }
    }
}
