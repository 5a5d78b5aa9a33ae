//! Unbalanced tree search (UTS): trees whose shape nobody knows before, by the definition of Olivier et al.,
//! "UTS: an unbalanced tree search benchmark" (LCPC 2006). A node is the SHA-1 of its parent and its number.

use serde::{Deserialize, Serialize};
use sha1::{Digest as _, Sha1};
use warpweft_mpi::Bag;

/// The nodes of one step.
const STEP: usize = 200;

/// The published trees with some four million nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tree {
    /// Geometric, of fixed shape: b = 4, depth 10, seed 19.
    T1,
    /// Binomial: 2000 children of the root, q = 0.124875, m = 8, seed 42.
    T3,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Node {
    state: [u8; 20],
    depth: u32,
}

/// Nodes that are to be visited, and the count of those that were.
pub(crate) struct Nodes {
    tree: Tree,
    stack: Vec<Node>,
    pub(crate) count: u64,
}

impl Tree {
    /// Returns the published number of nodes.
    pub(crate) fn size(self) -> u64 {
        match self {
            Self::T1 => 4_130_071,
            Self::T3 => 4_112_897,
        }
    }

    pub(crate) fn empty(self) -> Nodes {
        Nodes {
            tree: self,
            stack: Vec::new(),
            count: 0,
        }
    }

    pub(crate) fn root(self) -> Nodes {
        let seed: u32 = match self {
            Self::T1 => 19,
            Self::T3 => 42,
        };
        let mut text = [0; 20];
        text[16..].copy_from_slice(&seed.to_be_bytes());
        let root = Node {
            state: Sha1::digest(text).into(),
            depth: 0,
        };
        Nodes {
            tree: self,
            stack: vec![root],
            count: 0,
        }
    }

    fn children(self, node: &Node) -> u32 {
        let [.., a, b, c, d] = node.state;
        let random = f64::from(u32::from_be_bytes([a, b, c, d]) & 0x7fff_ffff) / 2_147_483_648.0;
        match self {
            Self::T1 if node.depth < 10 => {
                let p: f64 = 1.0 / (1.0 + 4.0);
                ((1.0 - random).ln() / (1.0 - p).ln()).floor().min(100.0) as u32
            }
            Self::T1 => 0,
            Self::T3 if node.depth == 0 => 2000,
            Self::T3 => 8 * u32::from(random < 0.124_875),
        }
    }
}

impl Bag for Nodes {
    type Work = Vec<Node>;

    fn step(&mut self) -> bool {
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

    fn split(&mut self) -> Option<Vec<Node>> {
        let half = self.stack.len() / 2;
        // The oldest are the largest subtrees.
        (half > 0).then(|| self.stack.drain(..half).collect())
    }

    fn take(&mut self, work: Vec<Node>) {
        self.stack = work;
    }
}
