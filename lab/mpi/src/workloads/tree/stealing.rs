//! A search over all ranks in plain MPI, the usual way: a rank without nodes asks a random one, which answers
//! between two steps with half of its oldest nodes, or with none. A token that goes round the ranks finds the
//! end.
//!
//! # Invariants
//!
//! - The end is found by Safra's rule. A rank counts the messages with nodes that it sent, less those that it
//!   received; one that received is black. The token goes down the ranks when they are idle, and adds up. If
//!   it comes back white and the sum is zero, with rank 0 white, no node is left or on its way.
//! - Each receive ends: a question is always answered, the last word of a rank is a question that says so,
//!   and the last token goes round once.

use super::nodes::{Node, Nodes, Tree};
use crate::idioms::TestLoop;
use crate::work::Random;
use warpweft_mpi::raw::RawRequest;

const QUESTION: i32 = 1;
const NODES: i32 = 2;
const TOKEN: i32 = 3;
/// The nodes of one message at most.
const MOST: usize = 4096;

/// What a question says.
const ASK: u8 = 0;
const BYE: u8 = 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct EndToken {
    sum: i64,
    is_black: bool,
    /// All is done.
    is_last: bool,
}

impl EndToken {
    const BYTES: usize = 10;

    fn to_bytes(self) -> Vec<u8> {
        let mut bytes = self.sum.to_le_bytes().to_vec();
        bytes.extend([u8::from(self.is_black), u8::from(self.is_last)]);
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Self {
        let (sum, rest) = bytes.split_first_chunk().expect("a token has its length");
        Self {
            sum: i64::from_le_bytes(*sum),
            is_black: rest[0] != 0,
            is_last: rest[1] != 0,
        }
    }
}

struct Rank<'mpi, T> {
    on: &'mpi T,
    nodes: Nodes,
    /// The next question of each other rank, until its last one.
    questions: Vec<Option<RawRequest>>,
    /// The answer to the own question.
    answer: Option<RawRequest>,
    /// The next token, or that of rank 0 which is on its way.
    token: Option<RawRequest>,
    /// A token that waits here until the rank is idle.
    held: Option<EndToken>,
    sends: Vec<RawRequest>,
    /// Messages with nodes: sent, less received.
    balance: i64,
    is_black: bool,
    random: Random,
}

/// Searches the tree, whose root is on rank 0. Returns how many nodes this rank visited.
pub(super) fn search<T: TestLoop>(on: &T, tree: Tree) -> u64 {
    let (rank, size) = (on.rank(), on.size());
    let mut own = Rank {
        on,
        nodes: if rank == 0 { tree.root() } else { tree.empty() },
        questions: (0..size)
            .map(|other| (other != rank).then(|| on.post_recv(other, QUESTION, vec![0])))
            .collect(),
        answer: None,
        token: (rank > 0).then(|| on.post_recv((rank + 1) % size, TOKEN, vec![0; EndToken::BYTES])),
        held: None,
        sends: Vec::new(),
        balance: 0,
        is_black: false,
        random: Random(rank as u64 + 1),
    };
    while !own.is_done() {
        if own.nodes.visit() {
            own.answer_questions();
        } else {
            own.steal();
        }
    }
    own.leave();
    own.nodes.count
}

impl<T: TestLoop> Rank<'_, T> {
    /// Looks whether all is done, if this rank is idle and has the token.
    fn is_done(&mut self) -> bool {
        if !self.nodes.stack.is_empty() {
            return false;
        }
        let (rank, size) = (self.on.rank(), self.on.size());
        if let Some(bytes) = self.on.take(&mut self.token) {
            self.held = Some(EndToken::from_bytes(&bytes));
        }
        if rank > 0 {
            let Some(token) = self.held.take() else {
                return false;
            };
            if !token.is_last {
                self.token = Some(
                    self.on
                        .post_recv((rank + 1) % size, TOKEN, vec![0; EndToken::BYTES]),
                );
            }
            if !token.is_last || rank > 1 {
                self.pass(EndToken {
                    sum: token.sum + self.balance,
                    is_black: token.is_black || self.is_black,
                    ..token
                });
            }
            return token.is_last;
        }
        if self.token.is_some() {
            return false;
        }
        let came = self.held.take();
        let is_last =
            came.is_some_and(|came| !came.is_black && !self.is_black && came.sum + self.balance == 0);
        self.pass(EndToken {
            sum: 0,
            is_black: false,
            is_last,
        });
        if !is_last {
            self.token = Some(self.on.post_recv(1, TOKEN, vec![0; EndToken::BYTES]));
        }
        is_last
    }

    /// Sends the token down the ranks. This rank is white from here.
    fn pass(&mut self, token: EndToken) {
        let (rank, size) = (self.on.rank(), self.on.size());
        self.is_black = false;
        let below = (rank + size - 1) % size;
        self.sends.push(self.on.post_send(below, TOKEN, token.to_bytes()));
    }

    fn answer_questions(&mut self) {
        for other in 0..self.questions.len() {
            let Some(question) = self.on.take(&mut self.questions[other]) else {
                continue;
            };
            if question == [BYE] {
                continue;
            }
            self.questions[other] = Some(self.on.post_recv(other, QUESTION, vec![0]));
            let half = self.nodes.halve(MOST).unwrap_or_default();
            self.balance += i64::from(!half.is_empty());
            let bytes = write_nodes(&half);
            self.sends.push(self.on.post_send(other, NODES, bytes));
        }
        // What has arrived needs no more looks.
        let on = self.on;
        self.sends.retain_mut(|send| !on.test(send));
    }

    /// Asks another rank, or takes what it gives.
    fn steal(&mut self) {
        self.answer_questions();
        if self.answer.is_none() {
            let (rank, size) = (self.on.rank(), self.on.size());
            let victim = (rank + 1 + self.random.below(size - 1)) % size;
            let room = vec![0; 4 + MOST * Node::BYTES];
            self.answer = Some(self.on.post_recv(victim, NODES, room));
            self.sends.push(self.on.post_send(victim, QUESTION, vec![ASK]));
        }
        self.take_answer();
        if self.nodes.stack.is_empty() {
            self.on.idle();
        }
    }

    fn take_answer(&mut self) {
        let Some(bytes) = self.on.take(&mut self.answer) else {
            return;
        };
        let nodes = read_nodes(&bytes);
        if !nodes.is_empty() {
            self.balance -= 1;
            self.is_black = true;
            self.nodes.stack = nodes;
        }
    }

    /// Waits for the own answer and the last question of each rank, and for what is on its way.
    fn leave(&mut self) {
        while self.answer.is_some() {
            self.answer_questions();
            self.take_answer();
        }
        for other in (0..self.on.size()).filter(|other| *other != self.on.rank()) {
            self.sends.push(self.on.post_send(other, QUESTION, vec![BYE]));
        }
        while !self.sends.is_empty() || self.questions.iter().any(Option::is_some) {
            self.answer_questions();
            self.on.idle();
        }
    }
}

/// The number of nodes goes first: a receive does not say how long its message was.
fn write_nodes(nodes: &[Node]) -> Vec<u8> {
    let mut bytes = (nodes.len() as u32).to_le_bytes().to_vec();
    nodes.iter().for_each(|node| node.write(&mut bytes));
    bytes
}

fn read_nodes(bytes: &[u8]) -> Vec<Node> {
    let (count, rest) = bytes.split_first_chunk().expect("a message has its length");
    let (nodes, _) = rest.as_chunks();
    let count = u32::from_le_bytes(*count) as usize;
    nodes.iter().take(count).map(Node::read).collect()
}

#[cfg(test)]
mod tests {
    use super::super::nodes::{Kind, Tree};
    use super::{EndToken, read_nodes, write_nodes};

    #[test]
    fn messages_are_read_as_they_were_written() {
        let token = EndToken {
            sum: -3,
            is_black: true,
            is_last: false,
        };
        assert_eq!(EndToken::from_bytes(&token.to_bytes()), token);
        let mut nodes = Tree {
            kind: Kind::T3,
            limit: None,
        }
        .root();
        nodes.visit();
        let some = &nodes.stack[..17];
        let mut bytes = write_nodes(some);
        // The buffer of a receive is longer.
        bytes.resize(bytes.len() + 1000, 0);
        assert_eq!(read_nodes(&bytes), some);
        assert!(read_nodes(&write_nodes(&[])).is_empty());
    }
}
