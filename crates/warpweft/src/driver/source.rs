//! The state of a source: for each direction, whether it may be ready and which tasks wait for it.
//!
//! ```text
//!   word:  63               3   2      1      0
//!         ┌──────────────────┬──────┬──────┬───────┐   event:   tick + 1, READY          (the poller)
//!         │       tick       │MARKED│CLOSED│ READY │   drained: READY off, if the word is
//!         └──────────────────┴──────┴──────┴───────┘            still what it was before the attempt
//! ```
//!
//! # Invariants
//!
//! - A direction that is not READY and has a waiter will have an event: the poller reports it anyway, or
//!   `check` has armed it before the waiter came. READY goes off only after an attempt that would have
//!   blocked, and only if no event came since before the attempt. The tick shows that: it has 61 bits and
//!   never repeats.
//! - A short read of a TCP stream counts as such an attempt unless the direction is MARKED. MARKED means that
//!   an event has reported the stream's end, an error, or urgent data. These come after the bytes that were
//!   read, and have had their edge already. MARKED stays.
//! - A waiter looks at the word under the lock of the waiters. A thread that sets READY takes the waiters
//!   afterwards. So one of them sees the other.
//! - No waker is called, cloned or dropped under the lock.

use crate::observe::raw::{RawWait, RawWhat};
use std::collections::HashSet;
use std::io;
use std::task::{Context, Poll, Waker, ready};
use warpweft_platform::atomic::{AtomicU64, Ordering};
use warpweft_platform::clock::coarse_ns;
use warpweft_platform::sync::Mutex;
use warpweft_task::budget::poll_budget;

const READY: u64 = 1;
const CLOSED: u64 = 2;
/// More than bytes has arrived: a short read does not show that there is nothing after it.
const MARKED: u64 = 4;
const TICK: u64 = 8;

/// The number of different wakers that may wait for a direction without a `SourceWaiter`, at first. One more
/// makes all of them look again: those of tasks that are gone do not come back. If half of them do, there may
/// be twice as many.
const ANONYMOUS: usize = 8;
/// How many addresses of called wakers are remembered at least.
const REMEMBERED: usize = 1 << 12;

/// The direction of the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// Input: also new connections, and the end of the stream.
    In,
    /// Output: also the end of a connection attempt.
    Out,
}

/// One registered source.
#[derive(Debug)]
pub(crate) struct Source {
    hooks: [WaitQueue; 2],
    /// The number of the descriptor, or [`UNKNOWN`]. For reports.
    descriptor: AtomicU64,
}

/// The descriptor is not known.
const UNKNOWN: u64 = u64::MAX;

#[derive(Debug)]
struct WaitQueue {
    word: AtomicU64,
    waiting: Mutex<DirectionWaiters>,
}

/// The waiters of a direction.
#[derive(Debug, Default)]
struct DirectionWaiters {
    /// Those with a place, each at the index of its place.
    placed: Vec<Option<SourceWaker>>,
    /// The indices of places that were given up.
    free: Vec<u32>,
    last_number: u64,
    /// Those without a place.
    anonymous: Vec<SourceWaker>,
    /// Present once there were too many of those.
    crowd: Option<Box<Crowd>>,
}

/// Where a waiter is found again.
#[derive(Debug, Default)]
struct WaiterPlace {
    /// 0 before the first wait. No other waiter of the direction ever has it, so a place that another waiter
    /// has got meanwhile is not mistaken for its own.
    number: u64,
    index: u32,
}

/// What is known of the waiters without a place, where there were many.
#[derive(Debug)]
struct Crowd {
    /// How many there may be.
    most: usize,
    /// The addresses of the wakers that were called because there were too many, since that number was set.
    called: HashSet<usize>,
}

#[derive(Debug)]
struct SourceWaker {
    /// That of its place; 0 if it has none.
    number: u64,
    waker: Waker,
    /// Since when it waits, on the coarse clock. For reports.
    since_ns: u64,
}

impl SourceWaker {
    fn new(number: u64, waker: Waker) -> Self {
        Self {
            number,
            waker,
            since_ns: coarse_ns(),
        }
    }
}

/// A place among the waiters for a direction. Dropping it gives the place up.
#[derive(Debug)]
pub(crate) struct SourceWaiter<'a> {
    source: &'a Source,
    direction: Direction,
    place: WaiterPlace,
}

impl Source {
    /// Creates a source that is ready in both directions until an attempt shows otherwise.
    pub(crate) fn new() -> Self {
        let direction = || WaitQueue {
            word: AtomicU64::new(READY),
            waiting: Mutex::new(DirectionWaiters::default()),
        };
        Self {
            hooks: [direction(), direction()],
            descriptor: AtomicU64::new(UNKNOWN),
        }
    }

    /// Notes the number of the descriptor, for reports.
    #[cfg(unix)]
    pub(crate) fn set_descriptor(&self, descriptor: u64) {
        self.descriptor.store(descriptor, Ordering::Relaxed);
    }

    /// Calls `see` for each task that waits for it.
    pub(super) fn each(&self, see: &mut dyn FnMut(RawWait)) {
        let descriptor = self.descriptor.load(Ordering::Relaxed);
        for (queue, write) in self.hooks.iter().zip([false, true]) {
            let Some(waiting) = queue.waiting.lock_unless_lost() else {
                continue;
            };
            for SourceWaker { waker, since_ns, .. } in waiting.all() {
                see(RawWait {
                    waiter: waker.data().addr(),
                    task: 0,
                    object: std::ptr::from_ref(self).addr(),
                    since_ns: Some(*since_ns),
                    told: false,
                    what: RawWhat::Socket {
                        descriptor: (descriptor != UNKNOWN).then_some(descriptor),
                        write,
                    },
                });
            }
        }
    }

    fn direction(&self, direction: Direction) -> &WaitQueue {
        &self.hooks[direction as usize]
    }

    /// Notes an event of the poller: the direction is ready. `marked` says that more than bytes has arrived.
    /// The waiters are added to `wakers`.
    pub(crate) fn happened(&self, direction: Direction, marked: bool, wakers: &mut Vec<Waker>) {
        let direction = self.direction(direction);
        let flags = if marked { READY | MARKED } else { READY };
        let mut word = direction.word.load(Ordering::Relaxed);
        // Ordering: Release, so that a thread that sees READY also sees what the poller saw.
        while let Err(now) = direction.word.compare_exchange_weak(
            word,
            word.wrapping_add(TICK) | flags,
            Ordering::Release,
            Ordering::Relaxed,
        ) {
            word = now;
        }
        direction.take(wakers);
    }

    /// Closes the source: no thread will poll it any more, and attempts are errors from now on.
    pub(crate) fn close(&self, wakers: &mut Vec<Waker>) {
        for direction in &self.hooks {
            direction.word.fetch_or(CLOSED, Ordering::Release);
            direction.take(wakers);
        }
    }

    /// Attempts `operation` until it does not block, within the [budget](warpweft_task::budget). `place` is
    /// the caller's meanwhile, if it keeps one. `check` prepares the poller for a wait. It returns an
    /// error if that would never end. `emptied` returns true if a result shows that the next attempt would
    /// block.
    fn poll<R>(
        &self,
        direction: Direction,
        cx: &Context<'_>,
        mut place: Option<&mut WaiterPlace>,
        check: impl Fn() -> io::Result<()>,
        mut operation: impl FnMut() -> io::Result<R>,
        emptied: impl Fn(&R) -> bool,
    ) -> Poll<io::Result<R>> {
        ready!(poll_budget(cx));
        let direction = self.direction(direction);
        loop {
            // Ordering: Acquire pairs with the Release in `happened`. The word is read before the attempt: an
            // event after this point changes it, and `drained` will not undo that.
            let word = direction.word.load(Ordering::Acquire);
            if word & CLOSED != 0 {
                return Poll::Ready(Err(super::shut_down()));
            }
            if word & READY == 0 {
                check()?;
                if direction.wait(cx, place.as_deref_mut()) {
                    return Poll::Pending;
                }
                continue;
            }
            match operation() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => direction.drained(word),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Poll::Ready(Err(error)),
                Ok(result) => {
                    if word & MARKED == 0 && emptied(&result) {
                        direction.drained(word);
                    }
                    return Poll::Ready(Ok(result));
                }
            }
        }
    }

    /// Attempts `operation` for a task that may stop waiting without notice.
    pub(crate) fn poll_anonymous<R>(
        &self,
        direction: Direction,
        cx: &Context<'_>,
        check: impl Fn() -> io::Result<()>,
        operation: impl FnMut() -> io::Result<R>,
        emptied: impl Fn(&R) -> bool,
    ) -> Poll<io::Result<R>> {
        self.poll(direction, cx, None, check, operation, emptied)
    }

    /// Creates a place for a task that may have to wait.
    pub(crate) fn waiter_id(&self, direction: Direction) -> SourceWaiter<'_> {
        SourceWaiter {
            source: self,
            direction,
            place: WaiterPlace::default(),
        }
    }

    #[cfg(all(test, not(any(warpweft_loom, warpweft_shuttle))))]
    pub(crate) fn waiting(&self, direction: Direction) -> usize {
        self.direction(direction).waiting.lock().all().count()
    }
}

impl SourceWaiter<'_> {
    /// Attempts `operation`, and keeps the place if it would block.
    pub(crate) fn poll<R>(
        &mut self,
        cx: &Context<'_>,
        check: impl Fn() -> io::Result<()>,
        operation: impl FnMut() -> io::Result<R>,
        emptied: impl Fn(&R) -> bool,
    ) -> Poll<io::Result<R>> {
        self.source.poll(
            self.direction,
            cx,
            Some(&mut self.place),
            check,
            operation,
            emptied,
        )
    }
}

impl Drop for SourceWaiter<'_> {
    fn drop(&mut self) {
        if self.place.number != 0 {
            let queue = self.source.direction(self.direction);
            // In a forked child the lock may be lost, with the waiters.
            let Some(mut waiting) = queue.waiting.lock_unless_lost() else {
                return;
            };
            let waker = waiting.leave(&self.place);
            drop(waiting);
            drop(waker);
        }
    }
}

impl WaitQueue {
    /// Clears READY after an attempt that would have blocked, or whose successor would. The attempt began
    /// when the word was `seen`.
    fn drained(&self, seen: u64) {
        // Ordering: Relaxed. It publishes nothing. If it fails, an event came, and the next attempt sees it.
        let _ = self
            .word
            .compare_exchange(seen, seen & !READY, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Adds the caller to the waiters. Returns `false` if there is nothing to wait for.
    fn wait(&self, cx: &Context<'_>, place: Option<&mut WaiterPlace>) -> bool {
        let waker = cx.waker().clone();
        let mut waiting = self.waiting.lock();
        // Ordering: Relaxed. A thread that changes the word takes the lock afterwards: if its change is not
        // seen here, it finds the waker.
        if self.word.load(Ordering::Relaxed) & (READY | CLOSED) != 0 {
            return false;
        }
        let replaced = match place {
            Some(place) => waiting.enter(waker, place).map(Replaced::Same),
            None => waiting.enter_without_place(waker),
        };
        drop(waiting);
        match replaced {
            Some(Replaced::Same(waker)) => drop(waker),
            Some(Replaced::Crowd(wakers)) => wakers.into_iter().for_each(Waker::wake),
            None => {}
        }
        true
    }

    fn take(&self, wakers: &mut Vec<Waker>) {
        let mut waiting = self.waiting.lock();
        let waiting = &mut *waiting;
        let placed = waiting.placed.drain(..).flatten();
        wakers.extend(
            placed
                .chain(waiting.anonymous.drain(..))
                .map(|waiter| waiter.waker),
        );
        waiting.free.clear();
    }
}

enum Replaced {
    /// The old waker of the same waiter.
    Same(Waker),
    /// One waiter too many: the tasks of the others look again and join again.
    Crowd(Vec<Waker>),
}

impl DirectionWaiters {
    fn all(&self) -> impl Iterator<Item = &SourceWaker> {
        self.placed.iter().flatten().chain(&self.anonymous)
    }

    /// Returns the waiter with that place, if no event has taken it.
    fn at(&mut self, place: &WaiterPlace) -> Option<&mut Option<SourceWaker>> {
        let waiter = self.placed.get_mut(place.index as usize)?;
        let is_it = waiter
            .as_ref()
            .is_some_and(|waiter| waiter.number == place.number);
        is_it.then_some(waiter)
    }

    /// Adds a waiter, or replaces its waker. Returns the old one.
    ///
    /// # Panics
    ///
    /// 2³² tasks wait for one direction already.
    fn enter(&mut self, waker: Waker, place: &mut WaiterPlace) -> Option<Waker> {
        if let Some(Some(waiter)) = self.at(place) {
            return Some(std::mem::replace(&mut waiter.waker, waker));
        }
        self.last_number += 1;
        let waiter = Some(SourceWaker::new(self.last_number, waker));
        let index = match self.free.pop() {
            Some(index) => {
                self.placed[index as usize] = waiter;
                index
            }
            None => {
                self.placed.push(waiter);
                u32::try_from(self.placed.len() - 1).unwrap_or_else(|_| {
                    panic!("2^32 tasks wait for one direction of a socket, which is the most")
                })
            }
        };
        *place = WaiterPlace {
            number: self.last_number,
            index,
        };
        None
    }

    /// Removes the waiter with that place, if no event has taken it.
    fn leave(&mut self, place: &WaiterPlace) -> Option<Waker> {
        let waiter = self.at(place)?.take();
        self.free.push(place.index);
        waiter.map(|waiter| waiter.waker)
    }

    /// Adds a waiter that keeps no place, unless its waker is there. It takes time in proportion to their
    /// number.
    fn enter_without_place(&mut self, waker: Waker) -> Option<Replaced> {
        let same = |waiter: &&mut SourceWaker| waiter.waker.will_wake(&waker);
        if let Some(waiter) = self.anonymous.iter_mut().find(same) {
            return Some(Replaced::Same(std::mem::replace(&mut waiter.waker, waker)));
        }
        let called = self.call_crowd();
        self.anonymous.push(SourceWaker::new(0, waker));
        called.map(Replaced::Crowd)
    }

    /// Takes the wakers without a place, if there are as many as there may be. The caller calls them.
    fn call_crowd(&mut self) -> Option<Vec<Waker>> {
        let most = self.crowd.as_ref().map_or(ANONYMOUS, |crowd| crowd.most);
        if self.anonymous.len() < most {
            return None;
        }
        let address = |waiter: &SourceWaker| waiter.waker.data().addr();
        let crowd = self.crowd.get_or_insert_with(|| {
            Box::new(Crowd {
                most,
                called: HashSet::new(),
            })
        });
        let is_back = |waiter: &&SourceWaker| crowd.called.contains(&address(waiter));
        if self.anonymous.iter().filter(is_back).count() >= most / 2 {
            crowd.most = most * 2;
            crowd.called.clear();
            return None;
        }
        if crowd.called.len() >= REMEMBERED {
            crowd.called.clear();
        }
        crowd.called.extend(self.anonymous.iter().map(address));
        Some(self.anonymous.drain(..).map(|waiter| waiter.waker).collect())
    }
}
