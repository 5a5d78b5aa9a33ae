//! Calls of functions on other ranks.
//!
//! One task of each rank, the mover, sends the batches of the outbox and receives those of other ranks. Each
//! call that comes runs as another task, whose answer goes back through the outbox.
//!
//! # Invariants
//!
//! - An entry of `Answers` lasts until its answer came or the mover ended, also if the call was dropped.
//!   So a rank without entries owes nothing and waits for nothing.
//! - Ranks end after a barrier which each enters without entries. No word is on its way then.

use crate::comm::{Comm, Source};
use crate::error::{MpiError, MpiErrorKind};
use crate::functions::{Answer, Function, Functions, Registry, mark_of};
use crate::outbox::Outbox;
use crate::request::Request;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fmt;
use std::future::{Future, poll_fn};
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use warpweft::JoinHandle;
use warpweft::sync::oneshot;
use warpweft_platform::sync::Mutex;

const TAG: i32 = 0;
/// The number of bytes that MPI counts in one message at most.
const MOST_BYTES: usize = i32::MAX as usize;
/// After so many messages in one go the mover lets other tasks run.
const IN_ONE_GO: usize = 64;

#[derive(Debug, Serialize, Deserialize)]
enum Word {
    Call {
        id: u64,
        function: u64,
        argument: Vec<u8>,
    },
    Answer {
        id: u64,
        answer: Answer,
    },
}

/// The functions of all ranks, ready to be called: see [`Comm::serve`]. Clones are the same.
#[derive(Clone)]
pub struct Calls {
    shared: Arc<Shared>,
}

struct Shared {
    comm: Comm,
    registry: Registry,
    outbox: Outbox,
    answers: Mutex<Answers>,
    mover: Mutex<Option<JoinHandle<()>>>,
}

/// Calls of this rank that have no answer yet.
struct Answers {
    last: u64,
    waiting: HashMap<u64, oneshot::Sender<Result<Answer, MpiError>>>,
    /// Woken when there are none.
    closer: Option<Waker>,
    /// Why there are no calls any more.
    ended: Option<MpiError>,
    /// No rank calls any more.
    stop: bool,
    mover: Option<Waker>,
}

impl Comm {
    /// Begins to run `functions` for the other ranks, and checks that all ranks have the same ones. All ranks
    /// call this, and later [`Calls::close`].
    ///
    /// Takes a communicator of its own, as [`duplicate`](Self::duplicate).
    ///
    /// # Errors
    ///
    /// The ranks have different functions: all of them get the same text, which names the function and the
    /// ranks. As [`duplicate`](Self::duplicate).
    ///
    /// # Panics
    ///
    /// Never. Outside of a task of a runtime it uses the default runtime.
    pub async fn serve(&self, functions: Functions) -> Result<Calls, MpiError> {
        let comm = self.duplicate()?;
        let registry = functions.agree(&comm).await?;
        let shared = Arc::new(Shared {
            outbox: Outbox::new(comm.size()),
            comm,
            registry,
            answers: Mutex::new(Answers {
                last: 0,
                waiting: HashMap::new(),
                closer: None,
                ended: None,
                stop: false,
                mover: None,
            }),
            mover: Mutex::new(None),
        });
        let mover = warpweft::spawn(move_words(Arc::clone(&shared)));
        *shared.mover.lock() = Some(mover);
        Ok(Calls { shared })
    }
}

impl Calls {
    /// Calls `function` on the rank `rank`. The call is on its way when this returns; the result is a future.
    ///
    /// Calls that one rank makes of another run at the same time, in no order. Calls that are made in one go
    /// travel in one message. Costs a task there, and two allocations here.
    ///
    /// # Errors
    ///
    /// The future fails if there is no such rank, the function was not among those of [`Comm::serve`], the
    /// function panicked (the error has the text), a value cannot be carried, the calls were closed, or MPI
    /// fails.
    pub fn call<A, R>(&self, rank: usize, function: Function<A, R>, argument: &A) -> Call<R>
    where
        A: Serialize,
        R: DeserializeOwned,
    {
        Call {
            answer: self.begin(rank, function, argument),
            rank,
            function: function.name,
            of: PhantomData,
        }
    }

    fn begin<A: Serialize, R>(
        &self,
        rank: usize,
        function: Function<A, R>,
        argument: &A,
    ) -> Result<oneshot::Receiver<Result<Answer, MpiError>>, MpiError> {
        let Shared {
            comm,
            registry,
            outbox,
            answers,
            ..
        } = &*self.shared;
        let name = function.name;
        comm.check(Some(rank), None)?;
        let function = mark_of(name);
        if !registry.has(function) {
            return Err(MpiError::new(
                MpiErrorKind::Argument,
                format!("`{name}` is not among the functions that `Comm::serve` was given"),
            ));
        }
        let argument = postcard::to_allocvec(argument).map_err(|error| {
            MpiError::new(
                MpiErrorKind::Type,
                format!("the argument of `{name}` cannot be sent: {error}"),
            )
        })?;
        let (sender, receiver) = oneshot::channel();
        let id = answers.lock().next_id()?;
        let call = Word::Call {
            id,
            function,
            argument,
        };
        let word = encoded(&call, MOST_BYTES).map_err(|why| {
            let text = format!("the call of `{name}` cannot be sent: {why}");
            MpiError::new(MpiErrorKind::Type, text)
        })?;
        answers.lock().add(id, sender)?;
        outbox.push(rank, &word);
        Ok(receiver)
    }

    /// Ends the calls of this rank, and waits until no rank calls any more. All ranks call this once. A call
    /// that was dropped is waited for, too.
    ///
    /// # Errors
    ///
    /// MPI failed; the calls were closed before.
    pub async fn close(self) -> Result<(), MpiError> {
        let shared = &*self.shared;
        let Some(mover) = shared.mover.lock().take() else {
            return Err(closed());
        };
        poll_fn(|cx| shared.answers.lock().none_is_left(cx)).await?;
        shared.comm.barrier().await?;
        let waker = {
            let mut answers = shared.answers.lock();
            answers.stop = true;
            answers.mover.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
        mover.await.map_err(|_| MpiError::finished())?;
        match &shared.answers.lock().ended {
            Some(error) if *error != closed() => Err(error.clone()),
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Calls")
            .field("comm", &self.shared.comm)
            .finish_non_exhaustive()
    }
}

/// A call on its way: a future of its result. The function runs also if this is dropped.
#[must_use = "its result says whether the function ran"]
pub struct Call<R> {
    answer: Result<oneshot::Receiver<Result<Answer, MpiError>>, MpiError>,
    rank: usize,
    function: &'static str,
    of: PhantomData<fn() -> R>,
}

impl<R: DeserializeOwned> Call<R> {
    /// Waits in direct style: a fiber is suspended, and any other thread releases its worker.
    ///
    /// # Errors
    ///
    /// As [`Calls::call`].
    pub fn wait(self) -> Result<R, MpiError> {
        warpweft::block_on(self)
    }
}

impl<R: DeserializeOwned> Future for Call<R> {
    type Output = Result<R, MpiError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = match &mut self.answer {
            Ok(answer) => ready!(Pin::new(answer).poll(cx)),
            Err(error) => return Poll::Ready(Err(error.clone())),
        };
        let answer = answer.unwrap_or_else(|_| Err(closed()));
        let failed = |why: &str| {
            MpiError::new(
                MpiErrorKind::Remote,
                format!("`{}` on rank {} gave no result: {why}", self.function, self.rank),
            )
        };
        Poll::Ready(answer.and_then(|answer| {
            let bytes = answer.map_err(|why| failed(&why))?;
            postcard::from_bytes(&bytes).map_err(|error| failed(&format!("it cannot be read ({error})")))
        }))
    }
}

impl<R> fmt::Debug for Call<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Call({} on rank {})", self.function, self.rank)
    }
}

impl Answers {
    fn check(&self) -> Result<(), MpiError> {
        self.ended.clone().map_or(Ok(()), Err)
    }

    fn next_id(&mut self) -> Result<u64, MpiError> {
        self.check()?;
        self.last += 1;
        Ok(self.last)
    }

    /// Adds a call, whose answer goes to that sender.
    fn add(&mut self, id: u64, sender: oneshot::Sender<Result<Answer, MpiError>>) -> Result<(), MpiError> {
        self.check()?;
        self.waiting.insert(id, sender);
        Ok(())
    }

    fn none_is_left(&mut self, cx: &Context<'_>) -> Poll<Result<(), MpiError>> {
        if let Some(error) = &self.ended {
            return Poll::Ready(Err(error.clone()));
        }
        if self.waiting.is_empty() {
            return Poll::Ready(Ok(()));
        }
        self.closer = Some(cx.waker().clone());
        Poll::Pending
    }
}

/// The mover of a rank: it ends after [`Calls::close`], or when MPI fails.
async fn move_words(shared: Arc<Shared>) {
    let error = match Mover::new(&shared).run().await {
        Ok(()) => closed(),
        Err(error) => error,
    };
    let (waiting, closer) = {
        let mut answers = shared.answers.lock();
        answers.ended = Some(error.clone());
        (std::mem::take(&mut answers.waiting), answers.closer.take())
    };
    for sender in waiting.into_values() {
        // Its caller may be gone.
        let _ = sender.send(Err(error.clone()));
    }
    if let Some(waker) = closer {
        waker.wake();
    }
}

struct Mover<'shared> {
    shared: &'shared Arc<Shared>,
    receive: Request<crate::comm::Message>,
    /// The message to each rank that is on its way.
    sent: Vec<Option<Request<Vec<u8>>>>,
}

impl<'shared> Mover<'shared> {
    fn new(shared: &'shared Arc<Shared>) -> Self {
        Self {
            shared,
            receive: shared.comm.recv_any_length(Source::Any, TAG),
            sent: (0..shared.comm.size()).map(|_| None).collect(),
        }
    }

    async fn run(mut self) -> Result<(), MpiError> {
        while !poll_fn(|cx| self.step(cx)).await? {
            warpweft::yield_now().await;
        }
        for sent in self.sent.into_iter().flatten() {
            sent.await?;
        }
        Ok(())
    }

    /// Moves what can be moved. Returns true at the end, and false if there is more.
    fn step(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool, MpiError>> {
        for rank in self.shared.outbox.pushed(cx.waker()) {
            self.send(rank, cx)?;
        }
        for rank in 0..self.sent.len() {
            if self.sent[rank].is_some() {
                self.send(rank, cx)?;
            }
        }
        for _ in 0..IN_ONE_GO {
            let Poll::Ready(message) = Pin::new(&mut self.receive).poll(cx) else {
                let mut answers = self.shared.answers.lock();
                if answers.stop {
                    return Poll::Ready(Ok(true));
                }
                answers.mover = Some(cx.waker().clone());
                return Poll::Pending;
            };
            let message = message?;
            self.receive = self.shared.comm.recv_any_length(Source::Any, TAG);
            self.receive_all(message.source, &message.bytes)?;
        }
        Poll::Ready(Ok(false))
    }

    /// Sends the next batches to that rank, unless one is on its way.
    fn send(&mut self, rank: usize, cx: &mut Context<'_>) -> Result<(), MpiError> {
        loop {
            if let Some(sent) = &mut self.sent[rank] {
                match Pin::new(sent).poll(cx) {
                    Poll::Pending => return Ok(()),
                    Poll::Ready(result) => drop(result?),
                }
                self.sent[rank] = None;
            }
            let Some(batch) = self.shared.outbox.take(rank) else {
                return Ok(());
            };
            self.sent[rank] = Some(self.shared.comm.send(rank, TAG, batch));
        }
    }

    fn receive_all(&self, source: usize, mut bytes: &[u8]) -> Result<(), MpiError> {
        while !bytes.is_empty() {
            let (word, rest) = postcard::take_from_bytes(bytes).map_err(|error| {
                MpiError::new(
                    MpiErrorKind::Type,
                    format!(
                        "a call of rank {source} cannot be read ({error}): do all ranks run the same program?"
                    ),
                )
            })?;
            bytes = rest;
            match word {
                Word::Call {
                    id,
                    function,
                    argument,
                } => {
                    let shared = Arc::clone(self.shared);
                    let run = async move {
                        let answer = shared.registry.run(function, argument).await;
                        shared.outbox.push(source, &answer_word(id, answer, MOST_BYTES));
                    };
                    drop(warpweft::spawn(run));
                }
                Word::Answer { id, answer } => self.give(id, answer),
            }
        }
        Ok(())
    }

    fn give(&self, id: u64, answer: Answer) {
        let (sender, closer) = {
            let mut answers = self.shared.answers.lock();
            let sender = answers.waiting.remove(&id);
            let closer = answers
                .waiting
                .is_empty()
                .then(|| answers.closer.take())
                .flatten();
            (sender, closer)
        };
        if let Some(sender) = sender {
            // Its caller may be gone.
            let _ = sender.send(Ok(answer));
        }
        if let Some(closer) = closer {
            closer.wake();
        }
    }
}

/// Returns the bytes of a word, or why it cannot be sent: a message carries `most` bytes.
fn encoded(word: &Word, most: usize) -> Result<Vec<u8>, String> {
    let bytes = postcard::to_allocvec(word).map_err(|why| why.to_string())?;
    if bytes.len() > most {
        let len = bytes.len();
        return Err(format!(
            "it has {len} bytes, and a message carries {most} at most"
        ));
    }
    Ok(bytes)
}

/// Returns the word that answers a call. If it cannot be sent, the word has that error instead: the caller
/// waits.
fn answer_word(id: u64, answer: Answer, most: usize) -> Vec<u8> {
    let refused = match encoded(&Word::Answer { id, answer }, most) {
        Ok(word) => return word,
        Err(why) => Err(format!("it cannot be sent: {why}")),
    };
    encoded(&Word::Answer { id, answer: refused }, usize::MAX)
        .unwrap_or_else(|_| unreachable!("a number and a short text"))
}

fn closed() -> MpiError {
    MpiError::new(
        MpiErrorKind::Finished,
        "the calls are closed: no function is called any more",
    )
}

#[cfg(test)]
mod tests {
    use super::{Word, answer_word, encoded};

    #[test]
    fn a_word_that_is_too_long_is_refused_and_an_answer_says_so() {
        let call = Word::Call {
            id: 1,
            function: 2,
            argument: vec![0; 100],
        };
        assert!(encoded(&call, 200).is_ok());
        let refused = encoded(&call, 100).expect_err("it is longer than its argument");
        assert!(refused.ends_with("a message carries 100 at most"), "{refused}");

        let answer = |most| {
            let word = answer_word(7, Ok(vec![0; 100]), most);
            match postcard::from_bytes(&word) {
                Ok(Word::Answer { id: 7, answer }) => answer,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(answer(200).map(|bytes| bytes.len()), Ok(100));
        assert!(answer(100).is_err_and(|why| why.contains("a message carries 100 at most")));
    }
}
