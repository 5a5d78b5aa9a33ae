//! Operations that block and cannot be given up, on a thread that does nothing else.
//!
//! The input and the output of a process may be terminals, files or pipes that it shares with other
//! processes. Such a description must not be made non-blocking, because that changes it for the others, too.
//! So a thread waits in the system. It belongs to no runtime: an end of a runtime does not wait for a key to
//! be pressed.
//!
//! # Invariants
//!
//! - One question at a time is with the thread. `AnswersState::asked` says which one.
//! - No caller has a right that others wait for: a future may be kept and not be polled, and the others
//!   continue. Each change wakes all that wait, and each of them looks.
//! - The answer to a question that no caller waits for is *late*: it is for the next caller that looks, and
//!   nothing is asked before.

use crate::sync::Notify;
use crate::sync::channel::{self, Sender};
use std::fmt;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use warpweft_platform::process::generation;
use warpweft_platform::sync::Mutex;
use warpweft_platform::thread::spawn_named;

/// A thread that answers one question after the other.
pub(super) struct AnsweringThread<Q, A> {
    questions: Sender<Q>,
    shared: Arc<SharedAnswers<A>>,
    here: u64,
}

/// What callers and the thread share.
struct SharedAnswers<A> {
    state: Mutex<AnswersState<A>>,
    changed: Notify,
}

struct AnswersState<A> {
    /// The question that is with the thread, and whether its caller waits.
    asked: Option<(u64, bool)>,
    /// The answers that are there for callers that wait, and have not looked yet.
    answers: Vec<(u64, io::Result<A>)>,
    late: Option<io::Result<A>>,
    /// The number of the next question.
    next: u64,
    /// The thread has ended by a panic.
    has_ended: bool,
}

/// What comes next for a caller.
pub(super) enum AskOutcome<'a, A> {
    /// The answer to a question whose caller did not wait for it.
    Late(io::Result<A>),
    /// The caller has asked.
    Asked(Question<'a, A>),
    /// The thread has a question.
    Busy,
}

/// A question whose caller waits. If it is dropped, the answer is late.
pub(super) struct Question<'a, A> {
    shared: &'a SharedAnswers<A>,
    number: u64,
}

impl<Q: Send + 'static, A: Send + 'static> AnsweringThread<Q, A> {
    /// Starts a thread that calls `answer` for each question.
    ///
    /// # Errors
    ///
    /// The system has no thread.
    pub(super) fn start(
        name: &str,
        mut answer: impl FnMut(Q) -> io::Result<A> + Send + 'static,
    ) -> io::Result<Self> {
        let (questions, asked) = channel::bounded(1);
        let shared = Arc::new(SharedAnswers {
            state: Mutex::new(AnswersState {
                asked: None,
                answers: Vec::new(),
                late: None,
                next: 0,
                has_ended: false,
            }),
            changed: Notify::of("io thread"),
        });
        let end = EndsAnswers(Arc::clone(&shared));
        // Detached: it ends with the process, or with the last handle.
        drop(spawn_named(name, None, move || {
            let shared = &end.0;
            while let Ok(question) = asked.recv().wait() {
                shared.answer(answer(question));
            }
        })?);
        Ok(Self {
            questions,
            shared,
            here: generation(),
        })
    }
}

impl<Q, A> AnsweringThread<Q, A> {
    /// Returns true if the thread stayed in the parent of this forked process: another one can be started.
    ///
    /// # Errors
    ///
    /// The thread was in the stream at the fork, or about to be. So the stream's lock in the standard library
    /// may be locked here for ever.
    pub(super) fn stayed_in_parent(&self) -> io::Result<bool> {
        if self.here == generation() {
            return Ok(false);
        }
        let state = self.shared.state.lock_unless_lost();
        if state.is_some_and(|state| state.asked.is_none() || state.has_ended) {
            return Ok(true);
        }
        Err(io::Error::new(
            ErrorKind::Unsupported,
            "a thread of the parent was in this stream when the process was forked, and its lock stays locked \
             here: use the descriptor by another handle, or fork while no task waits for the stream",
        ))
    }

    /// Waits until something has changed since this call.
    pub(super) fn changed(&self) -> impl Future<Output = ()> {
        self.shared.changed.notified()
    }

    /// Takes what is late, or else asks, and takes the question, if the thread has none.
    ///
    /// Both under one lock: a caller that sees the thread busy is woken by its answer.
    ///
    /// # Errors
    ///
    /// The thread has ended by a panic.
    pub(super) fn next(&self, question: &mut Option<Q>) -> io::Result<AskOutcome<'_, A>> {
        let number = {
            let mut state = self.shared.state.lock();
            if let Some(late) = state.late.take() {
                return Ok(AskOutcome::Late(late));
            }
            if state.has_ended {
                return Err(ended());
            }
            if state.asked.is_some() || question.is_none() {
                return Ok(AskOutcome::Busy);
            }
            let number = state.next;
            state.next += 1;
            state.asked = Some((number, true));
            number
        };
        let asked = Question {
            shared: &self.shared,
            number,
        };
        // There is room: the thread has taken the last one. If it has ended meanwhile, so has the channel.
        if let Some(question) = question.take() {
            self.questions.try_send(question).map_err(|_| ended())?;
        }
        Ok(AskOutcome::Asked(asked))
    }
}

impl<A> SharedAnswers<A> {
    /// The thread has the answer to the question that it has.
    fn answer(&self, answer: io::Result<A>) {
        let mut state = self.state.lock();
        match state.asked.take() {
            Some((number, true)) => state.answers.push((number, answer)),
            _ => state.be_late(answer),
        }
        drop(state);
        self.changed.notify_all();
    }
}

impl<A> AnswersState<A> {
    /// Keeps an answer for the next caller that looks; of several the first error.
    fn be_late(&mut self, answer: io::Result<A>) {
        if !matches!(self.late, Some(Err(_))) {
            self.late = Some(answer);
        }
    }

    fn take_answer(&mut self, number: u64) -> Option<io::Result<A>> {
        let place = self.answers.iter().position(|(of, _)| *of == number)?;
        Some(self.answers.swap_remove(place).1)
    }
}

impl<A> Question<'_, A> {
    /// Takes the answer, if it is there.
    pub(super) fn answer(&self) -> Option<io::Result<A>> {
        let mut state = self.shared.state.lock();
        let answer = state.take_answer(self.number);
        answer.or_else(|| state.has_ended.then(|| Err(ended())))
    }
}

impl<A> Drop for Question<'_, A> {
    fn drop(&mut self) {
        // In a forked child the lock may be lost, and no thread answers there.
        let Some(mut state) = self.shared.state.lock_unless_lost() else {
            return;
        };
        match &mut state.asked {
            Some((number, waits)) if *number == self.number => *waits = false,
            _ => {
                if let Some(answer) = state.take_answer(self.number) {
                    state.be_late(answer);
                }
            }
        }
    }
}

/// Its drop says that the thread has ended.
struct EndsAnswers<A>(Arc<SharedAnswers<A>>);

impl<A> Drop for EndsAnswers<A> {
    fn drop(&mut self) {
        self.0.state.lock().has_ended = true;
        self.0.changed.notify_all();
    }
}

fn ended() -> io::Error {
    io::Error::new(
        ErrorKind::BrokenPipe,
        "the thread for this stream has ended by a panic",
    )
}

impl<Q, A> fmt::Debug for AnsweringThread<Q, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnsweringThread").finish_non_exhaustive()
    }
}

#[cfg(all(test, not(any(warpweft_loom, warpweft_shuttle))))]
mod tests {
    use super::{AnsweringThread, AskOutcome, Question};
    use crate::block_on;
    use crate::sync::channel;
    use std::future::poll_fn;
    use std::io;
    use std::pin::{Pin, pin};
    use std::task::Poll;

    /// Asks as soon as it can, and waits for the answer.
    async fn ask<Q: Send + 'static, A: Send + 'static>(
        thread: &AnsweringThread<Q, A>,
        question: Q,
    ) -> io::Result<A> {
        let (mut question, mut asked) = (Some(question), None);
        loop {
            let change = thread.changed();
            if asked.is_none() {
                match thread.next(&mut question)? {
                    AskOutcome::Late(_) => continue,
                    AskOutcome::Asked(one) => asked = Some(one),
                    AskOutcome::Busy => {}
                }
            }
            if let Some(answer) = asked.as_ref().and_then(Question::answer) {
                return answer;
            }
            change.await;
        }
    }

    /// Polls a future once.
    async fn begin<F: Future>(mut future: Pin<&mut F>) {
        poll_fn(|cx| {
            let _ = future.as_mut().poll(cx);
            Poll::Ready(())
        })
        .await;
    }

    /// A thread that doubles as many numbers as it is allowed to.
    fn doubles() -> (channel::Sender<()>, AnsweringThread<u32, u32>) {
        let (allow, allowed) = channel::bounded(4);
        let double = move |number: u32| {
            let allowed = allowed.recv().wait();
            allowed.map(|()| 2 * number).map_err(io::Error::other)
        };
        (
            allow,
            AnsweringThread::start("doubles", double).expect("a thread"),
        )
    }

    #[test]
    fn an_answer_is_not_lost_with_its_caller() {
        // The first answer comes when its caller is gone, and not before.
        let (allow, doubled) = doubles();
        block_on(async {
            begin(pin!(ask(&doubled, 4))).await;
            let change = doubled.changed();
            for _ in 0..2 {
                allow.try_send(()).expect("there is room");
            }
            change.await;
            let mut seven = Some(7);
            let late = doubled.next(&mut seven).expect("it runs");
            assert!(
                matches!(late, AskOutcome::Late(Ok(8))) && seven.is_some(),
                "before anything is asked"
            );
            assert_eq!(ask(&doubled, 5).await.ok(), Some(10));
            // This one is dropped when the answer is there, and was not looked at.
            let mut asks = Box::pin(ask(&doubled, 6));
            begin(asks.as_mut()).await;
            let change = doubled.changed();
            allow.try_send(()).expect("there is room");
            change.await;
            drop(asks);
            let late = doubled.next(&mut Some(7)).expect("it runs");
            assert!(matches!(late, AskOutcome::Late(Ok(12))));
        });
    }

    /// A future that is kept and not polled has no right that others wait for, and loses nothing.
    #[test]
    fn a_caller_that_does_not_look_stops_no_other() {
        let (allow, doubled) = doubles();
        block_on(async {
            let (mut first, mut second) = (pin!(ask(&doubled, 1)), pin!(ask(&doubled, 2)));
            begin(first.as_mut()).await;
            begin(second.as_mut()).await;
            for _ in 0..4 {
                allow.try_send(()).expect("there is room");
            }
            assert_eq!(ask(&doubled, 3).await.ok(), Some(6));
            assert_eq!(second.await.ok(), Some(4));
            assert_eq!(ask(&doubled, 5).await.ok(), Some(10));
            assert_eq!(first.await.ok(), Some(2));
        });
    }

    #[test]
    fn a_panic_ends_in_errors() {
        let fails = AnsweringThread::start("fails", |(): ()| -> io::Result<()> { panic!("as asked") });
        let fails = fails.expect("a thread");
        block_on(async {
            for _ in 0..2 {
                let error = ask(&fails, ()).await.expect_err("it ended");
                assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
            }
        });
    }
}
