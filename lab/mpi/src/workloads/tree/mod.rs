//! *t1*, *t3*: unbalanced tree search, with all the work on rank 0 at the beginning.
//!
//! The shape of such a tree is not known before (Olivier et al., "UTS: an unbalanced tree search benchmark",
//! LCPC 2006). A node is the SHA-1 of its parent and its number among its siblings.

mod nodes;
mod stealing;

use crate::idioms::{Calls, TestLoop, WarpweftTasks};
use crate::work::numbers;
use crate::workload::{Figure, Setting, Workload};
use nodes::{Kind, Nodes, Tree};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

#[derive(Debug, Clone)]
pub(crate) struct TreeSearch {
    tree: Tree,
}

const JOBS: &[(usize, usize)] = &[(1, 2), (2, 1), (4, 1)];
/// A part of the tree that warms up.
const WARM_UP: u32 = 4;

impl Workload for TreeSearch {
    const SETTINGS: &'static [Setting] = &[
        Setting {
            name: "t1",
            about: "the geometric tree T1 of 4,130,071 nodes; the amount limits its depth",
            amount: 0,
            smoke: 5,
            jobs: JOBS,
        },
        Setting {
            name: "t3",
            about: "the binomial tree T3 of 4,112,897 nodes; the amount limits its depth",
            amount: 0,
            smoke: 5,
            jobs: JOBS,
        },
    ];

    fn new(setting: &'static Setting, amount: usize) -> Self {
        let kind = if setting.name == "t1" { Kind::T1 } else { Kind::T3 };
        let limit = u32::try_from(amount).ok().filter(|limit| *limit > 0);
        Self {
            tree: Tree { kind, limit },
        }
    }

    fn lacks(&self, contestant: &str, ranks: usize, _: usize) -> Option<&'static str> {
        match contestant {
            "tokio" => Some("has no work that others steal: it moves tasks, not parts of a search"),
            "rayon" if ranks > 1 => Some("has no steals between ranks: its jobs answer no other rank"),
            "plain" if ranks == 1 => Some("has no second worker: it computes on one thread by rank"),
            "blocking" => Some("has no steals: a rank that computes cannot answer without MPI_Test"),
            _ => None,
        }
    }

    async fn warpweft<W: WarpweftTasks>(self, on: W) -> Vec<Figure> {
        let search = async |tree: Tree| {
            on.barrier().await;
            let begin = Instant::now();
            let mut bags: Vec<_> = (0..on.workers()).map(|_| tree.empty()).collect();
            if on.rank() == 0 {
                bags[0] = tree.root();
            }
            let shared = on.comm().share(bags).await.expect("MPI does not fail");
            let took = begin.elapsed();
            let own: u64 = shared.bags.iter().map(|bag| bag.count).sum();
            let counts = numbers(&on.all_gather(own.to_le_bytes().to_vec()).await);
            (took, counts)
        };
        search(self.tree.limited(WARM_UP)).await;
        let (took, counts) = search(self.tree).await;
        self.figures(took, &counts)
    }

    fn plain<T: TestLoop>(self, on: &T) -> Vec<Figure> {
        let search = |tree: Tree| {
            on.barrier();
            let begin = Instant::now();
            let own = stealing::search(on, tree);
            let took = begin.elapsed();
            (
                took,
                numbers(&on.wait(on.post_all_gather(own.to_le_bytes().to_vec()))),
            )
        };
        search(self.tree.limited(WARM_UP));
        let (took, counts) = search(self.tree);
        self.figures(took, &counts)
    }

    fn rayon<C: Calls>(self, on: &C) -> Vec<Figure> {
        let search = |tree: Tree| {
            on.barrier();
            let begin = Instant::now();
            let count = in_one_pool(tree);
            (begin.elapsed(), [count])
        };
        search(self.tree.limited(WARM_UP));
        let (took, counts) = search(self.tree);
        self.figures(took, &counts)
    }
}

impl TreeSearch {
    fn figures(&self, took: Duration, counts: &[u64]) -> Vec<Figure> {
        let all: u64 = counts.iter().sum();
        assert_eq!(all, self.tree.size(), "the number of nodes is known");
        let (seconds, extra) = (took.as_secs_f64(), format!("{all} nodes, by rank {counts:?}"));
        vec![Figure::more("rate", all as f64 / seconds / 1e6, "M nodes/s").extra(extra)]
    }
}

/// Searches on the pool of rayon that this is called in. A job splits while there are few jobs.
fn in_one_pool(tree: Tree) -> u64 {
    struct Search {
        count: AtomicU64,
        jobs: AtomicUsize,
    }
    fn work<'scope>(scope: &rayon::Scope<'scope>, mut nodes: Nodes, search: &'scope Search) {
        while nodes.visit() {
            let is_wanted = search.jobs.load(Ordering::Relaxed) < 2 * rayon::current_num_threads();
            if let Some(half) = is_wanted.then(|| nodes.halve(usize::MAX)).flatten() {
                search.jobs.fetch_add(1, Ordering::Relaxed);
                let half = nodes.tree.with(half);
                scope.spawn(move |scope| work(scope, half, search));
            }
        }
        search.count.fetch_add(nodes.count, Ordering::Relaxed);
        search.jobs.fetch_sub(1, Ordering::Relaxed);
    }
    let search = Search {
        count: AtomicU64::new(0),
        jobs: AtomicUsize::new(1),
    };
    rayon::scope(|scope| work(scope, tree.root(), &search));
    search.count.into_inner()
}

#[cfg(test)]
mod tests {
    use super::in_one_pool;
    use super::nodes::{Kind, Tree};

    #[test]
    fn a_pool_finds_as_many_nodes_as_one_thread() {
        for kind in [Kind::T1, Kind::T3] {
            let tree = Tree { kind, limit: Some(6) };
            assert_eq!(in_one_pool(tree), tree.size());
        }
    }
}
