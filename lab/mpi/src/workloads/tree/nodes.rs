//! The trees T1 and T3, and the nodes that are to be visited.

use serde::{Deserialize, Serialize};
use sha1::{Digest as _, Sha1};
use warpweft_mpi::Bag;

/// The nodes of one step: some 40 µs.
const STEP: usize = 200;

/// The published trees with some four million nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Geometric, of fixed shape: b = 4, depth 10, seed 19.
    T1,
    /// Binomial: 2000 children of the root, q = 0.124875, m = 8, seed 42.
    T3,
}

/// A tree, or its upper part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tree {
    pub(super) kind: Kind,
    /// Nodes at this depth have no children.
    pub(super) limit: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Node {
    state: [u8; 20],
    depth: u32,
}

impl Node {
    /// The bytes of a node in a message of plain MPI.
    pub(super) const BYTES: usize = 24;

    pub(super) fn write(&self, to: &mut Vec<u8>) {
        to.extend(self.state);
        to.extend(self.depth.to_le_bytes());
    }

    pub(super) fn read([state @ .., a, b, c, d]: &[u8; Self::BYTES]) -> Self {
        Self {
            state: *state,
            depth: u32::from_le_bytes([*a, *b, *c, *d]),
        }
    }
}

/// Nodes that are to be visited, and the count of those that were.
#[derive(Debug)]
pub(super) struct Nodes {
    pub(super) tree: Tree,
    pub(super) stack: Vec<Node>,
    pub(super) count: u64,
}

impl Tree {
    /// Returns the published number of nodes, or counts those of an upper part.
    pub(super) fn size(self) -> u64 {
        match self {
            Self {
                kind: Kind::T1,
                limit: None,
            } => 4_130_071,
            Self {
                kind: Kind::T3,
                limit: None,
            } => 4_112_897,
            _ => {
                let mut nodes = self.root();
                while nodes.visit() {}
                nodes.count
            }
        }
    }

    pub(super) fn limited(self, limit: u32) -> Self {
        Self {
            limit: Some(self.limit.map_or(limit, |own| own.min(limit))),
            ..self
        }
    }

    pub(super) fn with(self, stack: Vec<Node>) -> Nodes {
        Nodes {
            tree: self,
            stack,
            count: 0,
        }
    }

    pub(super) fn empty(self) -> Nodes {
        self.with(Vec::new())
    }

    pub(super) fn root(self) -> Nodes {
        let seed: u32 = match self.kind {
            Kind::T1 => 19,
            Kind::T3 => 42,
        };
        let mut text = [0; 20];
        text[16..].copy_from_slice(&seed.to_be_bytes());
        self.with(vec![Node {
            state: Sha1::digest(text).into(),
            depth: 0,
        }])
    }

    fn children(self, node: &Node) -> u32 {
        if self.limit.is_some_and(|limit| node.depth >= limit) {
            return 0;
        }
        let [.., a, b, c, d] = node.state;
        let random = f64::from(u32::from_be_bytes([a, b, c, d]) & 0x7fff_ffff) / 2_147_483_648.0;
        match self.kind {
            Kind::T1 if node.depth < 10 => {
                let p: f64 = 1.0 / (1.0 + 4.0);
                ((1.0 - random).ln() / (1.0 - p).ln()).floor().min(100.0) as u32
            }
            Kind::T1 => 0,
            Kind::T3 if node.depth == 0 => 2000,
            Kind::T3 => 8 * u32::from(random < 0.124_875),
        }
    }
}

impl Nodes {
    /// Visits some nodes. Returns false if none is left.
    pub(super) fn visit(&mut self) -> bool {
        for _ in 0..STEP {
            let Some(node) = self.stack.pop() else { break };
            self.count += 1;
            for number in 0..self.tree.children(&node) {
                let mut hash = Sha1::new();
                hash.update(node.state);
                hash.update(number.to_be_bytes());
                self.stack.push(Node {
                    state: hash.finalize().into(),
                    depth: node.depth + 1,
                });
            }
        }
        !self.stack.is_empty()
    }

    /// Gives away half of the nodes, at most as many as said. The oldest have the largest subtrees.
    pub(super) fn halve(&mut self, at_most: usize) -> Option<Vec<Node>> {
        let half = (self.stack.len() / 2).min(at_most);
        (half > 0).then(|| self.stack.drain(..half).collect())
    }
}

impl Bag for Nodes {
    type Work = Vec<Node>;

    fn step(&mut self) -> bool {
        self.visit()
    }

    fn split(&mut self) -> Option<Vec<Node>> {
        self.halve(usize::MAX)
    }

    fn take(&mut self, work: Vec<Node>) {
        self.stack = work;
    }
}

#[cfg(test)]
mod tests {
    use super::{Kind, Node, Tree};

    /// The nodes of the first depths, each counted by its own limit.
    fn sizes(kind: Kind) -> [u64; 4] {
        [1, 2, 3, 4].map(|limit| {
            Tree {
                kind,
                limit: Some(limit),
            }
            .size()
        })
    }

    #[test]
    fn the_first_levels_of_the_trees() {
        // The whole trees take a second in a release build. Each measure compares them with what was
        // published.
        assert_eq!(sizes(Kind::T1), [6, 65, 254, 944]);
        assert_eq!(sizes(Kind::T3), [2001, 3865, 5737, 7465]);
    }

    #[test]
    fn halves_have_all_nodes_between_them() {
        let tree = Tree {
            kind: Kind::T3,
            limit: Some(8),
        };
        let mut first = tree.root();
        first.visit();
        let half = first.halve(300).expect("there are 2000");
        assert_eq!(half.len(), 300);
        let mut second = tree.with(half);
        while first.visit() {}
        while second.visit() {}
        assert_eq!(first.count + second.count, tree.size());
    }

    #[test]
    fn a_node_survives_its_message() {
        let mut nodes = Tree {
            kind: Kind::T1,
            limit: None,
        }
        .root();
        nodes.visit();
        let mut bytes = Vec::new();
        nodes.stack[0].write(&mut bytes);
        let bytes: [u8; Node::BYTES] = bytes.try_into().expect("its length");
        assert_eq!(Node::read(&bytes), nodes.stack[0]);
    }
}
