//! Words to other ranks that wait for the sender. Those to one rank go together, in one message.
//!
//! While a message to a rank is on its way, further words to it gather here. So no rank has more than one on
//! its way, and a batch grows with the load. Nothing is held back otherwise.

use std::collections::VecDeque;
use std::task::Waker;
use warpweft_platform::sync::Mutex;

/// A batch ends when it has this many bytes: the receiver begins with the first while the next one comes.
const BATCH: usize = 1 << 16;

#[derive(Debug)]
pub(crate) struct Outbox {
    state: Mutex<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    batches: Vec<VecDeque<Vec<u8>>>,
    /// Ranks to which something was pushed since the sender looked.
    pushed: Vec<usize>,
    sender: Option<Waker>,
}

impl Outbox {
    pub(crate) fn new(ranks: usize) -> Self {
        Self {
            state: Mutex::new(Waiting {
                batches: (0..ranks).map(|_| VecDeque::new()).collect(),
                pushed: Vec::new(),
                sender: None,
            }),
        }
    }

    /// Adds a word to the batch for that rank, and wakes the sender.
    pub(crate) fn push(&self, rank: usize, word: &[u8]) {
        let waker = {
            let mut state = self.state.lock();
            let batches = &mut state.batches[rank];
            match batches.back_mut() {
                Some(batch) if batch.len() + word.len() <= BATCH => batch.extend_from_slice(word),
                _ => batches.push_back(word.to_vec()),
            }
            state.pushed.push(rank);
            state.sender.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Returns the ranks to which something was pushed since the last call, and wakes `sender` at the next
    /// push.
    pub(crate) fn pushed(&self, sender: &Waker) -> Vec<usize> {
        let mut state = self.state.lock();
        if state.sender.as_ref().is_none_or(|waker| !waker.will_wake(sender)) {
            state.sender = Some(sender.clone());
        }
        let mut pushed = std::mem::take(&mut state.pushed);
        pushed.sort_unstable();
        pushed.dedup();
        pushed
    }

    /// Takes the oldest batch for that rank.
    pub(crate) fn take(&self, rank: usize) -> Option<Vec<u8>> {
        self.state.lock().batches[rank].pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::{BATCH, Outbox};
    use std::task::Waker;

    #[test]
    fn words_to_one_rank_go_together_and_in_order() {
        let outbox = Outbox::new(2);
        for word in [b"a", b"b", b"c"] {
            outbox.push(1, word);
        }
        outbox.push(0, b"x");
        assert_eq!(outbox.pushed(Waker::noop()), [0, 1]);
        assert!(outbox.pushed(Waker::noop()).is_empty());
        assert_eq!(outbox.take(1), Some(b"abc".to_vec()));
        assert_eq!(outbox.take(1), None);
        assert_eq!(outbox.take(0), Some(b"x".to_vec()));
    }

    #[test]
    fn a_batch_has_an_end_and_a_large_word_is_whole() {
        let outbox = Outbox::new(1);
        outbox.push(0, &[1; BATCH]);
        outbox.push(0, &[2; 3 * BATCH]);
        outbox.push(0, &[3]);
        let lens = std::iter::from_fn(|| outbox.take(0)).map(|batch| batch.len());
        assert_eq!(lens.collect::<Vec<_>>(), [BATCH, 3 * BATCH, 1]);
    }
}
