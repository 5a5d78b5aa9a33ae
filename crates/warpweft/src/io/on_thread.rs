//! Operations that block and cannot be given up, on a thread that does nothing else.
//!
//! The input and the output of a process may be terminals, files or pipes that it shares with other
//! processes. Such a description must not be made non-blocking, because that changes it for the others, too.
//! So a thread waits in the system. It belongs to no runtime: an end of a runtime does not wait for a key to
//! be pressed.
//!
//! # Invariants
//!
//! - One question at a time is with the thread. `QuestionGuard::asked` says that one is, or that its answer
//!   was not fetched.
//! - A caller that is dropped leaves `asked` set. The next one fetches that answer first.

use crate::sync::channel::{self, Receiver, Sender};
use crate::sync::{Mutex, MutexGuard};
use std::fmt;
use std::io::{self, ErrorKind};
use warpweft_platform::process::generation;
use warpweft_platform::thread::spawn_named;

/// A thread that answers one question after the other.
pub(super) struct OnThread<Q, A> {
    questions: Sender<Q>,
    answers: Receiver<io::Result<A>>,
    access: Mutex<bool>,
    here: u64,
}

/// The right to ask.
pub(super) struct QuestionGuard<'a, Q, A> {
    lane: &'a OnThread<Q, A>,
    /// A question was asked whose answer was not fetched.
    asked: MutexGuard<'a, bool>,
}

impl<Q: Send + 'static, A: Send + 'static> OnThread<Q, A> {
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
        let (answers, answered) = channel::bounded(1);
        // Detached: it ends with the process, or with the last handle.
        drop(spawn_named(name, None, move || {
            while let Ok(question) = asked.recv().wait() {
                if answers.send(answer(question)).wait().is_err() {
                    return;
                }
            }
        })?);
        Ok(Self {
            questions,
            answers: answered,
            access: Mutex::new(false),
            here: generation(),
        })
    }

    /// Returns true if the thread stayed in the parent of this forked process.
    pub(super) fn stayed_in_parent(&self) -> bool {
        self.here != generation()
    }

    /// Waits for the right to ask.
    pub(super) async fn access(&self) -> QuestionGuard<'_, Q, A> {
        QuestionGuard {
            lane: self,
            asked: self.access.lock().await,
        }
    }
}

impl<Q, A> QuestionGuard<'_, Q, A> {
    /// Waits for the answer to an earlier question whose caller was dropped. Returns `None` if there is none.
    pub(super) async fn late(&mut self) -> Option<io::Result<A>> {
        if *self.asked {
            Some(self.fetch().await)
        } else {
            None
        }
    }

    /// Asks, and waits for the answer. The answer to an earlier question was fetched.
    pub(super) async fn ask(&mut self, question: Q) -> io::Result<A> {
        self.lane.questions.try_send(question).map_err(|_| ended())?;
        *self.asked = true;
        self.fetch().await
    }

    async fn fetch(&mut self) -> io::Result<A> {
        let answer = self.lane.answers.recv().await;
        *self.asked = false;
        answer.unwrap_or_else(|_| Err(ended()))
    }
}

fn ended() -> io::Error {
    io::Error::new(
        ErrorKind::BrokenPipe,
        "the thread for this stream has ended by a panic",
    )
}

impl<Q, A> fmt::Debug for OnThread<Q, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnThread").finish_non_exhaustive()
    }
}

#[cfg(all(test, not(any(warpweft_loom, warpweft_shuttle))))]
mod tests {
    use super::OnThread;
    use crate::block_on;
    use crate::sync::channel;
    use std::future::poll_fn;
    use std::io;
    use std::pin::pin;
    use std::task::Poll;

    /// Polls a future once, and drops it.
    async fn begin<F: Future>(future: F) {
        let mut future = pin!(future);
        poll_fn(|cx| {
            let _ = future.as_mut().poll(cx);
            Poll::Ready(())
        })
        .await;
    }

    #[test]
    fn an_answer_is_not_lost_with_its_caller() {
        // The first answer comes when its caller is gone, and not before.
        let (allow, allowed) = channel::bounded(2);
        let double = move |number: u32| {
            let allowed = allowed.recv().wait();
            allowed.map(|()| 2 * number).map_err(io::Error::other)
        };
        let doubled = OnThread::start("doubles", double).expect("a thread");
        block_on(async {
            assert_eq!(doubled.access().await.late().await.map(Result::ok), None);
            begin(async { doubled.access().await.ask(4).await }).await;
            for _ in 0..2 {
                allow.try_send(()).expect("there is room");
            }
            let mut access = doubled.access().await;
            assert_eq!(access.late().await.map(Result::ok), Some(Some(8)));
            assert_eq!(access.late().await.map(Result::ok), None);
            assert_eq!(access.ask(5).await.ok(), Some(10));
        });
    }

    #[test]
    fn a_panic_ends_in_errors() {
        let fails = OnThread::start("fails", |(): ()| -> io::Result<()> { panic!("as asked") });
        let fails = fails.expect("a thread");
        block_on(async {
            for _ in 0..2 {
                let error = fails.access().await.ask(()).await.expect_err("it ended");
                assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
            }
        });
    }
}
