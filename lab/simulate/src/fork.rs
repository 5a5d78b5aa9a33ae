//! *fork*: trees of joins, of the shape of `fib`: each node has a larger and a smaller child.
//!
//! A spawner forks one tree after the other. So the forks of a tree are offered by few workers, and all
//! others look for them.

use crate::figures::Figures;
use warpweft::sim::{compute, now_ns};
use warpweft::{Runtime, join};

/// A node's own work besides its join: assumed, some twenty instructions.
const NODE_NS: u64 = 5;
/// A leaf's work besides `--spin`: assumed, as for a node.
const LEAF_NS: u64 = 5;

/// How the workload runs.
#[derive(Debug, Clone)]
pub(crate) struct Fork {
    /// Leaves over all spawners.
    pub(crate) n: u64,
    /// Leaves of all trees that are under way.
    pub(crate) window: u64,
    pub(crate) spawners: u64,
    pub(crate) spin: u64,
}

/// Computes the leaves of a tree, and returns how many there were.
fn tree(leaves: u64, spin: u64) -> u64 {
    if leaves < 2 {
        compute(LEAF_NS + spin);
        return leaves;
    }
    compute(NODE_NS);
    // As the Fibonacci numbers grow.
    let larger = (leaves * 618 / 1000).clamp(1, leaves - 1);
    let (a, b) = join(|| tree(larger, spin), || tree(leaves - larger, spin));
    a + b
}

impl Fork {
    /// Runs the workload, after a tenth of it to warm up, and checks its result.
    pub(crate) fn run(&self, runtime: &Runtime) -> Result<Figures, String> {
        self.measured(runtime, self.n / 10)?;
        self.measured(runtime, self.n)
    }

    fn measured(&self, runtime: &Runtime, n: u64) -> Result<Figures, String> {
        let share = (n / self.spawners).max(1);
        let size = (self.window / self.spawners).clamp(1, share);
        let spin = self.spin;
        let start = now_ns();
        let spawners: Vec<_> = (0..self.spawners)
            .map(|_| {
                runtime.spawn_job(move || {
                    let (mut done, mut latencies) = (0, Vec::new());
                    while done < share {
                        let started = now_ns();
                        done += tree(size.min(share - done), spin);
                        latencies.push(now_ns() - started);
                    }
                    (done, latencies)
                })
            })
            .collect();
        let (mut items, mut latencies_ns) = (0, Vec::new());
        for spawner in spawners {
            let (done, mut latencies) = spawner.wait().map_err(|error| error.to_string())?;
            items += done;
            latencies_ns.append(&mut latencies);
        }
        let elapsed_ns = now_ns() - start;
        let expected = share * self.spawners;
        if items != expected {
            return Err(format!("{items} leaves were computed, and not {expected}"));
        }
        latencies_ns.sort_unstable();
        Ok(Figures {
            items,
            elapsed_ns,
            latencies_ns,
        })
    }
}
