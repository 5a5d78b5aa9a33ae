//! The task of a rank that asks other ranks for work, and answers them. See `bag.rs` for what the
//! credit is.

use crate::comm::{Comm, Message, Source};
use crate::error::{MpiError, MpiErrorKind};
use crate::request::Request;
use crate::shelf::{Found, Shelf};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

/// The credit of a rank at the beginning.
const CREDIT: u64 = 1 << 32;
/// How many random ranks are asked before the lifelines.
const RANDOM: usize = 2;
/// With less credit than this a rank asks for more before it gives work away.
const LEAST_CREDIT: u64 = 2;

#[derive(Debug, Serialize, Deserialize)]
enum Word {
    /// Asks for work. With a lifeline the answer may come later, too.
    Question {
        lifeline: bool,
    },
    None,
    Work {
        credit: u64,
        /// False if it answers a lifeline, whose question was answered before.
        answers: bool,
        bytes: Vec<u8>,
    },
    Returned {
        credit: u64,
    },
    MoreCredit,
    Credit {
        credit: u64,
    },
    Done,
}

pub(crate) struct Broker<W> {
    comm: Comm,
    /// That of its words.
    tag: i32,
    shelf: Arc<Shelf<W>>,
    credit: u64,
    /// Rank 0 only: all the credit that there is, and how much of it came back.
    made: u64,
    returned: u64,
    /// Ranks whose question has no answer yet, and whether it is a lifeline.
    askers: VecDeque<(usize, bool)>,
    /// Ranks that get work when there is some.
    lifelines: VecDeque<usize>,
    /// A question of this rank is on its way.
    asking: bool,
    wants_credit: bool,
    failures: usize,
    done: bool,
    sent: Vec<Request<Vec<u8>>>,
    random: u64,
    stolen: u64,
    asked: u64,
}

impl<W: Serialize + DeserializeOwned> Broker<W> {
    pub(crate) fn new(comm: Comm, tag: i32, shelf: Arc<Shelf<W>>) -> Self {
        let (rank, size) = (comm.rank() as u64, comm.size() as u64);
        Self {
            comm,
            tag,
            shelf,
            credit: CREDIT,
            made: CREDIT * size,
            returned: 0,
            askers: VecDeque::new(),
            lifelines: VecDeque::new(),
            asking: false,
            wants_credit: false,
            failures: 0,
            done: false,
            sent: Vec::new(),
            random: (rank + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15),
            stolen: 0,
            asked: 0,
        }
    }

    /// Serves until no rank has work. Returns how often work came, and how often this rank asked.
    pub(crate) async fn serve(mut self) -> Result<(u64, u64), MpiError> {
        let mut words = self.comm.recv_any_length(Source::Any, self.tag);
        let mut end = None;
        loop {
            self.look()?;
            if self.done && !self.asking && !self.wants_credit && end.is_none() {
                // The others may still ask. When all ranks are here, none does, and no answer is on its way.
                end = Some(self.comm.barrier());
            }
            let shelf = Arc::clone(&self.shelf);
            let next = poll_fn(|cx| {
                if let Poll::Ready(word) = Pin::new(&mut words).poll(cx) {
                    return Poll::Ready(Some(word));
                }
                if let Some(end) = &mut end
                    && let Poll::Ready(result) = Pin::new(end).poll(cx)
                {
                    return Poll::Ready(result.err().map(Err));
                }
                if !self.done && shelf.has_changed(cx.waker()) {
                    return Poll::Ready(Some(Ok(Message {
                        source: usize::MAX,
                        tag: self.tag,
                        bytes: Vec::new(),
                    })));
                }
                Poll::Pending
            });
            match next.await.transpose()? {
                None => break,
                Some(message) if message.source == usize::MAX => {}
                Some(message) => {
                    words = self.comm.recv_any_length(Source::Any, self.tag);
                    self.receive(&message)?;
                }
            }
        }
        for sent in std::mem::take(&mut self.sent) {
            sent.await?;
        }
        Ok((self.stolen, self.asked))
    }

    fn receive(&mut self, message: &Message) -> Result<(), MpiError> {
        let word = postcard::from_bytes(&message.bytes);
        match word.map_err(|error| unreadable(message.source, &error))? {
            Word::Question { lifeline } => self.askers.push_back((message.source, lifeline)),
            Word::None => {
                self.asking = false;
                self.failures += 1;
            }
            Word::Work {
                credit,
                answers,
                bytes,
            } => {
                self.asking &= !answers;
                self.failures = 0;
                self.credit += credit;
                self.stolen += 1;
                let work = postcard::from_bytes(&bytes);
                self.shelf
                    .put(work.map_err(|error| unreadable(message.source, &error))?);
            }
            Word::Returned { credit } => self.returned += credit,
            Word::MoreCredit => {
                self.made += CREDIT;
                self.send(message.source, &Word::Credit { credit: CREDIT })?;
            }
            Word::Credit { credit } => {
                self.credit += credit;
                self.wants_credit = false;
            }
            Word::Done => self.done = true,
        }
        Ok(())
    }

    /// Answers the questions that it can, and asks if this rank has no work.
    fn look(&mut self) -> Result<(), MpiError> {
        self.sent.retain(|sent| !sent.is_over());
        if self.done {
            while let Some((rank, _)) = self.askers.pop_front() {
                self.send(rank, &Word::None)?;
            }
            return Ok(());
        }
        loop {
            let mut askers = self.askers.len() + self.lifelines.len();
            if askers > 0 && !self.can_give()? {
                askers = 0;
            }
            match self.shelf.look(askers) {
                (Found::Work, Some(work)) => self.give(&work)?,
                (Found::Idle, _) => return self.idle(),
                _ => return Ok(()),
            }
        }
    }

    /// Returns true if there is credit to give along. Otherwise asks rank 0 for more.
    fn can_give(&mut self) -> Result<bool, MpiError> {
        if self.credit >= LEAST_CREDIT {
            return Ok(true);
        }
        if self.comm.rank() == 0 {
            self.made += CREDIT;
            self.credit += CREDIT;
            return Ok(true);
        }
        if !self.wants_credit {
            self.wants_credit = true;
            self.send(0, &Word::MoreCredit)?;
        }
        Ok(false)
    }

    fn give(&mut self, work: &W) -> Result<(), MpiError> {
        let asker = self.askers.pop_front().map(|(rank, _)| rank);
        let Some(rank) = asker.or_else(|| self.lifelines.pop_front()) else {
            unreachable!("work is taken for a rank that asked")
        };
        let half = self.credit / 2;
        self.credit -= half;
        let bytes = postcard::to_allocvec(work)
            .map_err(|error| MpiError::new(MpiErrorKind::Type, format!("work cannot be sent: {error}")))?;
        let word = Word::Work {
            credit: half,
            answers: asker.is_some(),
            bytes,
        };
        self.send(rank, &word)
    }

    fn idle(&mut self) -> Result<(), MpiError> {
        while let Some((rank, lifeline)) = self.askers.pop_front() {
            if lifeline && !self.lifelines.contains(&rank) {
                self.lifelines.push_back(rank);
            }
            self.send(rank, &Word::None)?;
        }
        let credit = std::mem::take(&mut self.credit);
        if self.comm.rank() == 0 {
            self.returned += credit;
            if self.returned == self.made {
                self.done = true;
                return (1..self.comm.size()).try_for_each(|rank| self.send(rank, &Word::Done));
            }
        } else if credit > 0 {
            self.send(0, &Word::Returned { credit })?;
        }
        self.ask()
    }

    /// Asks a few random ranks, one after the other, and then the lifelines: the ranks 1, 2, 4 ... further.
    fn ask(&mut self) -> Result<(), MpiError> {
        let (rank, size) = (self.comm.rank(), self.comm.size());
        let lifelines = (size - 1).checked_ilog2().map_or(0, |log| log as usize + 1);
        // Without a runner its work would only wait.
        let has_runners = self.shelf.runners() > 0;
        if self.asking || size == 1 || !has_runners || self.failures >= RANDOM + lifelines {
            return Ok(());
        }
        let lifeline = self.failures.checked_sub(RANDOM);
        let further = match lifeline {
            Some(number) => 1 << number,
            None => {
                // xorshift
                self.random ^= self.random << 13;
                self.random ^= self.random >> 7;
                self.random ^= self.random << 17;
                1 + (self.random % (size as u64 - 1)) as usize
            }
        };
        self.asking = true;
        self.asked += 1;
        let word = Word::Question {
            lifeline: lifeline.is_some(),
        };
        self.send((rank + further) % size, &word)
    }

    fn send(&mut self, rank: usize, word: &Word) -> Result<(), MpiError> {
        let bytes = postcard::to_allocvec(word)
            .map_err(|error| MpiError::new(MpiErrorKind::Type, format!("a word cannot be sent: {error}")))?;
        self.sent.push(self.comm.send(rank, self.tag, bytes));
        Ok(())
    }
}

fn unreadable(rank: usize, error: &postcard::Error) -> MpiError {
    MpiError::new(
        MpiErrorKind::Type,
        format!("the work of rank {rank} cannot be read ({error}): do all ranks run the same program?"),
    )
}

#[cfg(test)]
mod tests {
    use super::{Broker, Word};
    use crate::api::fake;
    use crate::comm::Comm;
    use crate::op::RawComm;
    use crate::progress::MpiProgress;
    use crate::shelf::Shelf;
    use std::future::Future as _;
    use std::pin::pin;
    use std::sync::Arc;
    use std::task::{Context, Waker};
    use warpweft::io::Progress as _;

    /// How often this rank asked for credit.
    fn asked() -> usize {
        let words = fake::with(|fake| fake.sent.clone());
        let words = words
            .iter()
            .map(|word| postcard::from_bytes(word).expect("a word"));
        words.filter(|word| matches!(word, Word::MoreCredit)).count()
    }

    #[test]
    fn a_rank_asks_for_credit_to_give_it_and_waits_for_it() {
        let progress = Arc::new(MpiProgress::new(fake::api()));
        let comm = Comm::new(Arc::clone(&progress), RawComm(std::ptr::null_mut()), 1, 2);
        let mut serve = pin!(Broker::new(comm, 0, Arc::new(Shelf::<u64>::new(0))).serve());
        let mut cx = Context::from_waker(Waker::noop());
        let mut poll = |word: Option<Word>| {
            let bytes = word.map(|word| (0, postcard::to_allocvec(&word).expect("bytes")));
            fake::with(|fake| fake.incoming.extend(bytes));
            progress.turn(&mut Vec::new());
            serve.as_mut().poll(&mut cx).is_ready()
        };
        // It has no work, and so it gives its credit back.
        assert!(!poll(None));
        assert!(!poll(Some(Word::None)));
        assert_eq!(asked(), 0, "nobody asked it");
        assert!(!poll(Some(Word::Question { lifeline: false })));
        assert_eq!(asked(), 1);
        assert!(!poll(Some(Word::Done)));
        let barriers = || fake::with(|fake| fake.barriers);
        assert_eq!(barriers(), 0, "the credit is on its way, and would be left");
        let ended = poll(Some(Word::Credit { credit: 1 }));
        assert_eq!(barriers(), 1);
        assert!(ended || poll(None));
    }
}
