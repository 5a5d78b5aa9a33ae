//! The work of one rank that no runner has: runners with too much put it there, and those without take it.
//!
//! # Invariants
//!
//! - The rank is idle if all runners wait and the shelf is empty. Both are read under one lock, so work that
//!   is being taken is never overlooked.
//! - A runner that panicked is no runner any more. Without a runner the shelf is empty.

use std::future::poll_fn;
use std::task::{Poll, Waker};
use warpweft_platform::atomic::{AtomicBool, Ordering};
use warpweft_platform::sync::Mutex;

#[derive(Debug)]
pub(crate) struct Shelf<W> {
    state: Mutex<State<W>>,
    /// A runner or another rank waits for work, and none is here.
    wanted: AtomicBool,
}

#[derive(Debug)]
struct State<W> {
    runners: usize,
    work: Vec<W>,
    waiting: Vec<(usize, Waker)>,
    /// Other ranks that wait for an answer.
    askers: usize,
    broker: Option<Waker>,
    /// Something changed since the broker looked.
    changed: bool,
    ended: bool,
}

/// What a broker finds.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// All runners wait.
    Idle,
    /// There is work for other ranks.
    Work,
    /// The runners work.
    Busy,
}

impl<W> Shelf<W> {
    pub(crate) fn new(runners: usize) -> Self {
        Self {
            state: Mutex::new(State {
                runners,
                work: Vec::new(),
                waiting: Vec::new(),
                askers: 0,
                broker: None,
                changed: true,
                ended: false,
            }),
            wanted: AtomicBool::new(false),
        }
    }

    /// Returns true if a runner that can split should.
    pub(crate) fn is_wanted(&self) -> bool {
        // Ordering: Relaxed. It is a hint; the shelf's lock orders the work.
        self.wanted.load(Ordering::Relaxed)
    }

    /// Returns the number of runners.
    pub(crate) fn runners(&self) -> usize {
        self.state.lock().runners
    }

    /// Puts work there, and wakes the tasks that wait for it. Without a runner it is dropped.
    pub(crate) fn put(&self, work: W) {
        let (refused, wakers) = self.change(|state| {
            if state.runners == 0 {
                return (Some(work), Vec::new());
            }
            state.work.push(work);
            let mut wakers: Vec<Waker> = state.waiting.iter().map(|(_, waker)| waker.clone()).collect();
            wakers.extend(state.note());
            (None, wakers)
        });
        wakers.into_iter().for_each(Waker::wake);
        drop(refused);
    }

    /// The runner `number` has ended, perhaps by a panic. What was here for the last one is dropped.
    pub(crate) fn leave(&self, number: usize) {
        let (left, broker) = self.change(|state| {
            if state.ended {
                return (Vec::new(), None);
            }
            state.runners -= 1;
            state.waiting.retain(|(other, _)| *other != number);
            let left = match state.runners {
                0 => std::mem::take(&mut state.work),
                _ => Vec::new(),
            };
            (left, state.note())
        });
        broker.into_iter().for_each(Waker::wake);
        drop(left);
    }

    /// Takes work for the runner `number`. Waits until there is some. `None` is the end.
    pub(crate) async fn take(&self, number: usize) -> Option<W> {
        poll_fn(|cx| {
            let (found, broker) = self.change(|state| {
                state.waiting.retain(|(other, _)| *other != number);
                if let Some(work) = state.work.pop() {
                    return (Poll::Ready(Some(work)), None);
                }
                if state.ended {
                    return (Poll::Ready(None), None);
                }
                state.waiting.push((number, cx.waker().clone()));
                let idle = state.waiting.len() == state.runners;
                (Poll::Pending, idle.then(|| state.note()).flatten())
            });
            broker.into_iter().for_each(Waker::wake);
            found
        })
        .await
    }

    /// Says how many ranks wait for work. Returns what there is, and one piece of it if they do.
    pub(crate) fn look(&self, askers: usize) -> (Found, Option<W>) {
        self.change(|state| {
            state.changed = false;
            state.askers = askers;
            let work = (askers > 0).then(|| state.work.pop()).flatten();
            let found = if work.is_some() {
                state.askers -= 1;
                Found::Work
            } else if state.work.is_empty() && state.waiting.len() == state.runners {
                Found::Idle
            } else {
                Found::Busy
            };
            (found, work)
        })
    }

    /// Returns true if something changed since the last look. Otherwise `waker` is woken when it does.
    pub(crate) fn has_changed(&self, waker: &Waker) -> bool {
        let mut state = self.state.lock();
        if !state.changed {
            state.broker = Some(waker.clone());
        }
        state.changed
    }

    /// Ends the runners that wait.
    pub(crate) fn end(&self) {
        let wakers = self.change(|state| {
            state.ended = true;
            std::mem::take(&mut state.waiting)
        });
        wakers.into_iter().for_each(|(_, waker)| waker.wake());
    }

    fn change<R>(&self, change: impl FnOnce(&mut State<W>) -> R) -> R {
        let mut state = self.state.lock();
        let result = change(&mut state);
        let wanted = state.work.len() < state.waiting.len() + state.askers;
        self.wanted.store(wanted, Ordering::Relaxed);
        result
    }
}

impl<W> State<W> {
    /// Notes the change for the broker, and returns its waker.
    fn note(&mut self) -> Option<Waker> {
        self.changed = true;
        self.broker.take()
    }
}

#[cfg(test)]
mod tests {
    use super::{Found, Shelf};
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    #[test]
    fn a_rank_is_idle_when_all_of_its_runners_wait() {
        let shelf = Shelf::new(2);
        let mut cx = Context::from_waker(Waker::noop());
        let (mut a, mut b) = (pin!(shelf.take(0)), pin!(shelf.take(1)));
        assert!(a.as_mut().poll(&mut cx).is_pending());
        assert_eq!(shelf.look(0), (Found::Busy, None));
        assert!(b.as_mut().poll(&mut cx).is_pending());
        assert_eq!(shelf.look(0), (Found::Idle, None));
        assert!(shelf.is_wanted());
        shelf.put(7);
        assert_eq!(shelf.look(0), (Found::Busy, None), "a runner will take it");
        assert_eq!(a.as_mut().poll(&mut cx), Poll::Ready(Some(7)));
        assert_eq!(shelf.look(0), (Found::Busy, None));
        assert_eq!(shelf.look(1), (Found::Busy, None));
        shelf.put(8);
        assert_eq!(shelf.look(1), (Found::Work, Some(8)));
        shelf.end();
        assert_eq!(b.as_mut().poll(&mut cx), Poll::Ready(None));
    }

    #[test]
    fn a_runner_that_panics_is_not_waited_for() {
        let shelf = Shelf::new(2);
        let mut cx = Context::from_waker(Waker::noop());
        let mut a = pin!(shelf.take(0));
        assert!(a.as_mut().poll(&mut cx).is_pending());
        assert_eq!(shelf.look(0), (Found::Busy, None));
        shelf.leave(1);
        assert!(shelf.has_changed(Waker::noop()), "the broker looks again");
        assert_eq!((shelf.look(0), shelf.runners()), ((Found::Idle, None), 1));
        shelf.put(7);
        shelf.leave(0);
        assert_eq!(shelf.look(0), (Found::Idle, None), "nobody would take it");
        // An answer to a question of before.
        shelf.put(8);
        assert_eq!(shelf.look(1), (Found::Idle, None));
    }
}
