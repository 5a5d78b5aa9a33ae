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

use crate::broker::Broker;
use crate::comm::Comm;
use crate::error::MpiError;
use crate::progress::MpiProgress;
use crate::shelf::Shelf;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::ops::Range;
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

impl Comm {
    /// Works on the bags of all ranks until no work is left anywhere. All ranks call this. This rank runs one
    /// task for each of its bags; as many as it has workers is a good number. Bags may be empty.
    ///
    /// # Errors
    ///
    /// MPI fails or was finalised; work of another rank cannot be read; the ranks share other work over this
    /// communicator, which is not over.
    ///
    /// # Panics
    ///
    /// If a bag does, with its panic. Outside of a task of a runtime it uses the default runtime.
    pub async fn share<B: Bag>(&self, bags: Vec<B>) -> Result<Shared<B>, MpiError> {
        let work = self.take_work()?;
        let shelf = Arc::new(Shelf::new(bags.len()));
        let runners: Vec<_> = bags
            .into_iter()
            .enumerate()
            .map(|(number, bag)| {
                let progress = Arc::clone(&self.progress);
                warpweft::spawn(run(number, bag, Arc::clone(&shelf), progress))
            })
            .collect();
        let served = Broker::new(work.comm.clone(), Arc::clone(&shelf)).serve().await;
        shelf.end();
        let mut ended = Vec::new();
        for runner in runners {
            match runner.await {
                Ok(bag) => ended.push(bag),
                Err(error) => match error.into_panic() {
                    Some(panic) => std::panic::resume_unwind(panic),
                    None => return Err(MpiError::finished()),
                },
            }
        }
        let (stolen, asked) = served?;
        Ok(Shared {
            bags: ended,
            stolen,
            asked,
        })
    }

    /// Maps the numbers of `range` and combines the results, on all ranks. All ranks call this with the same
    /// range; each begins with its share of it, and steals from the others when it is through. `map` is
    /// called with parts of at most `grain` numbers. Each rank gets the result of all.
    ///
    /// `combine` must be associative and commutative: stealing changes the order.
    ///
    /// # Errors
    ///
    /// As [`share`](Self::share); a result cannot be read.
    ///
    /// # Panics
    ///
    /// If `map` or `combine` does.
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
        let shared = self.share(bags.collect()).await?;
        let combine = &functions.1;
        let own = shared
            .bags
            .into_iter()
            .filter_map(|bag| bag.result)
            .reduce(combine);
        self.combine_all(own, combine).await
    }

    /// Combines one value of each rank on rank 0, and gives all ranks the result.
    async fn combine_all<T: Serialize + DeserializeOwned>(
        &self,
        own: Option<T>,
        combine: impl Fn(T, T) -> T,
    ) -> Result<Option<T>, MpiError> {
        let work = self.take_work()?;
        // The brokers have tag 0, and that of a slower rank may still receive.
        let port = work.comm.port::<Option<T>>(1);
        if self.rank() != 0 {
            port.send(0, &own).await?;
            return Ok(port.recv(0).await?.value);
        }
        let mut all = own;
        for _ in 1..self.size() {
            let theirs = port.recv(crate::Source::Any).await?.value;
            all = match (all, theirs) {
                (Some(a), Some(b)) => Some(combine(a, b)),
                (a, b) => a.or(b),
            };
        }
        for rank in 1..self.size() {
            port.send(rank, &all).await?;
        }
        Ok(all)
    }
}

/// Returns the part number `index` of `range` in `parts` parts.
fn part(range: &Range<u64>, index: u64, parts: u64) -> Range<u64> {
    let len = u128::from(range.end.saturating_sub(range.start));
    let at = |index: u64| range.start + (len * u128::from(index) / u128::from(parts)) as u64;
    at(index)..at(index + 1)
}

async fn run<B: Bag>(number: usize, mut bag: B, shelf: Arc<Shelf<B::Work>>, progress: Arc<MpiProgress>) -> B {
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
        match shelf.take(number).await {
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
