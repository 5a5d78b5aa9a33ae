//! *treesum*: the sum over a binary tree whose nodes are on the heap, with a join at every node. The tree is
//! sparse: the shape is that of a search tree with random keys, in which a third of the nodes has one child
//! only.

use std::hint;
use std::time::Duration;

use fastrand::Rng;

use super::{Timed, nanos_each};
use crate::kit::host;
use crate::prelude::*;

/// Simulated: a node besides its join; assumed, some ten instructions, with the node in the cache.
const NODE_NS: u64 = 3;

/// Nodes that a run visits when nothing else is said: some 20 ms of plain calls, at least.
const VISITS: u64 = 20_000_000;

/// Returns how often a tree of n nodes is summed up to make a run of some length.
pub(super) fn enough(n: u64) -> u64 {
    VISITS.div_ceil(n.max(1))
}

/// A node.
struct Node {
    value: u64,
    left: Option<Box<Node>>,
    right: Option<Box<Node>>,
}

/// The sum over a tree that may be empty.
struct Sum<'a>(Option<&'a Node>);

impl Branch for Sum<'_> {
    type Out = u64;

    fn run<F: Fork>(self, mut cx: F) -> u64 {
        self.0.map_or(0, |node| sum(&mut cx, node))
    }
}

/// The sum over a node and what is below it.
#[inline(always)]
fn sum<F: Fork>(cx: &mut F, node: &Node) -> u64 {
    host::takes(NODE_NS);
    let (left, right) = cx.join(Sum(node.left.as_deref()), Sum(node.right.as_deref()));
    node.value.wrapping_add(left).wrapping_add(right)
}

/// The sum over a tree, many times, added up.
struct Again<'a> {
    tree: &'a Node,
    times: u64,
}

impl Branch for Again<'_> {
    type Out = u64;

    fn run<F: Fork>(self, mut cx: F) -> u64 {
        // The compiler must not know that it is the same tree each time.
        (0..self.times).fold(0, |total: u64, _| {
            total.wrapping_add(sum(&mut cx, hint::black_box(self.tree)))
        })
    }
}

/// A tree of n nodes: the root first, and the others to its left and right at random. Its depth is
/// logarithmic.
fn tree(random: &mut Rng, n: usize) -> Option<Box<Node>> {
    let others = n.checked_sub(1)?;
    let left = random.usize(..=others);
    Some(Box::new(Node {
        value: u64::from(random.u32(..)),
        left: tree(random, left),
        right: tree(random, others - left),
    }))
}

/// The nodes of a tree and the sum over them, without recursion.
fn walk(tree: &Node) -> (u64, u64) {
    let (mut nodes, mut sum) = (0, 0);
    let mut open = vec![tree];
    while let Some(node) = open.pop() {
        nodes += 1;
        sum += node.value;
        open.extend(node.left.as_deref().into_iter().chain(node.right.as_deref()));
    }
    (nodes, sum)
}

/// Sums up a tree of n nodes, n from 1, as often as `times` says.
pub(super) fn run<P: ForkPool>(pool: &P, n: usize, times: u64) -> Result<Outcome, LabError> {
    let tree = tree(&mut Rng::with_seed(0x7ee5), n)
        .ok_or_else(|| LabError::Usage(String::from("a tree has one node at least")))?;
    let (total, elapsed) = pool.run(Timed(Again { tree: &tree, times }));
    let (nodes, sum) = walk(&tree);
    check("nodes", &nodes, &(n as u64))?;
    check("total", &total, &sum.wrapping_mul(times))?;
    Ok(outcome(nodes, times, elapsed))
}

fn outcome(nodes: u64, times: u64, elapsed: Duration) -> Outcome {
    Outcome::new(nodes * times, elapsed)
        .with_measure("ns_per_node", nanos_each(elapsed, nodes * times))
        .with_measure("ns_per_sum", nanos_each(elapsed, times))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn depth(node: &Option<Box<Node>>) -> usize {
        node.as_ref()
            .map_or(0, |node| 1 + depth(&node.left).max(depth(&node.right)))
    }

    #[test]
    fn trees_have_as_many_nodes_as_asked_for_and_are_sparse_but_not_deep() {
        let mut random = Rng::with_seed(3);
        for n in (1..200).chain([100_000]) {
            let tree = tree(&mut random, n);
            assert_eq!(walk(tree.as_ref().unwrap()).0, n as u64);
            assert!(
                depth(&tree) <= 8 + 5 * n.ilog2() as usize,
                "{} of {n}",
                depth(&tree)
            );
        }
        assert!(tree(&mut random, 0).is_none());
    }

    #[test]
    fn a_run_visits_enough_nodes_whatever_the_size() {
        for n in [1, 7, 1000, 100_000, 10_000_000] {
            assert!(enough(n) * n >= VISITS && enough(n) * n <= VISITS + n);
        }
    }
}
