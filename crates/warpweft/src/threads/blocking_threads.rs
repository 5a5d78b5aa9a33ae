//! The threads for closures that block. They start when they are needed, up to a limit, and end when idle.
//!
//! ```text
//!   newcomers ──▶ queue ──▶ threads                 a closure goes straight into the queue if it has room,
//!                  ▲ room                           and its future waits for admission if not
//!   tasks that wait for admission, in order
//! ```
//!
//! # Invariants, kept under one lock
//!
//! - The queue is not empty only if there is a thread, or the pool is closed and a thread is about to look.
//!   So an admitted closure runs, or is ended. A thread that cannot be started is detected before admission.
//! - A task waits for admission only if queue and promises fill the room. When a place becomes free it is
//!   promised to the task that has waited longest. It is kept for that task, and passes to the next if the
//!   task leaves.
//! - A thread ends only when the queue is empty.

use super::pool_ref::PoolRef;
use crate::observe::raw::{RawWait, RawWhat};
use crate::observe::recorder::PoolRecorder;
use std::collections::VecDeque;
use std::io;
use std::mem::take;
use std::sync::Arc;
use std::task::Waker;
use warpweft_platform::panics::contain;
use warpweft_platform::process::end_child_if;
use warpweft_platform::sync::{Condvar, Mutex, MutexGuard};
use warpweft_platform::thread::{JoinHandle, spawn_named};
use warpweft_platform::{clock, delay, thread_word};
use warpweft_task::frame::{Frame, FrameKind, Who, set_here};
use warpweft_task::registry::Registry;
use warpweft_task::{Abandon, Ran, Runnable};

/// The reason why a closure is not admitted.
#[derive(Debug)]
pub(crate) enum RejectReason {
    /// The largest allowed number of closures waits already.
    Full,
    /// There is no thread, and none can be started.
    NoThread(io::Error),
    /// The pool closes.
    Closed,
}

/// A task that asks for admission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AdmissionWaiter {
    /// A task that has not waited.
    New,
    /// A task that waits under this number, and may have been promised a place.
    Waiting(u64),
}

/// The number of a closure among all that were admitted. It is not used again, as an address would be.
pub(crate) type AdmissionNumber = u64;

/// A task that waits for admission.
#[derive(Debug)]
struct AdmissionWait {
    number: u64,
    waker: Waker,
    since_ns: u64,
}

#[derive(Debug, Default)]
struct BlockingState {
    /// Closures that wait for a thread, each with its number.
    queue: VecDeque<(AdmissionNumber, Runnable)>,
    /// The tasks that wait for admission, the one that has waited longest first.
    waiting: VecDeque<AdmissionWait>,
    /// The number of promised places that have not been claimed yet.
    promised: usize,
    threads: Vec<(usize, JoinHandle<()>)>,
    /// The number of threads for whose end the end of the pool waits. They are not in `threads`.
    joining: usize,
    /// Threads that ended. The next one joins them, or the thread that ends the pool does.
    ended: Vec<JoinHandle<()>>,
    /// Threads that wait for work.
    idle: usize,
    /// The next number of a thread or waiter.
    next: u64,
    closed: bool,
    /// The number of closures that were ever admitted.
    admitted: u64,
}

#[derive(Debug)]
pub(crate) struct BlockingThreads {
    name: String,
    stack_bytes: Option<usize>,
    /// The largest number of threads.
    limit: usize,
    /// How long an idle thread stays, in nanoseconds.
    keep_ns: u64,
    state: Mutex<BlockingState>,
    work: Condvar,
    /// The closures that run.
    pub(crate) frames: Registry<Frame>,
}

/// A place in the queue for one task. The queue is locked meanwhile.
pub(crate) struct QueueSlot<'a> {
    threads: &'a BlockingThreads,
    state: MutexGuard<'a, BlockingState>,
}

/// The next action of a thread.
enum NextAction {
    Run(Runnable, Option<Waker>),
    /// The pool is closed: end what is left.
    End(VecDeque<(AdmissionNumber, Runnable)>, VecDeque<AdmissionWait>),
    /// There is nothing to do. Join these threads, which have ended before.
    Leave(Vec<JoinHandle<()>>),
}

// The set to which the calling thread belongs. The pointer is never followed.
thread_word!(static HERE: *const BlockingThreads = std::ptr::null());

impl BlockingThreads {
    pub(crate) fn new(name: String, stack_bytes: Option<usize>, limit: usize, keep_ns: u64) -> Self {
        Self {
            name,
            stack_bytes,
            limit,
            keep_ns,
            state: Mutex::new(BlockingState::default()),
            work: Condvar::new(),
            frames: Registry::new(),
        }
    }

    /// Returns how many closures may wait for a thread: the limit of threads.
    pub(crate) fn room(&self) -> usize {
        self.limit.max(1)
    }

    /// Returns true if the calling thread belongs to this set.
    pub(crate) fn is_here(&self) -> bool {
        HERE.with(|here| std::ptr::eq(here.get(), self))
    }

    /// Asks for a place in the queue, and makes sure that there is a thread for it. `pool` is called if one
    /// has to be started.
    ///
    /// # Errors
    ///
    /// [`RejectReason`]. A waiter that was promised a place loses it, unless it is still waiting and the
    /// reason is `Full`.
    pub(crate) fn place(
        &self,
        pool: impl FnOnce() -> Arc<dyn PoolRef>,
        waiter: AdmissionWaiter,
    ) -> Result<QueueSlot<'_>, RejectReason> {
        let mut state = self.state.lock();
        if state.closed {
            let left = state.quit(waiter);
            let others = state.tell_all();
            drop(state);
            drop(left);
            others.into_iter().for_each(|waits| waits.waker.wake());
            return Err(RejectReason::Closed);
        }
        let promised = matches!(waiter, AdmissionWaiter::Waiting(number) if !state.is_waiting(number));
        if !promised && !state.has_room(self.room()) {
            return Err(RejectReason::Full);
        }
        if state.idle <= state.queue.len()
            && let Err(error) = self.start(&mut state, pool())
            && state.threads.is_empty()
        {
            let left = state.quit(waiter);
            // The next waiter may succeed, or receives the error, too.
            let next = state.promise(self.room());
            drop(state);
            drop(left);
            next.into_iter().for_each(Waker::wake);
            return Err(RejectReason::NoThread(error));
        }
        if promised {
            state.promised -= 1;
        }
        Ok(QueueSlot { threads: self, state })
    }

    /// Registers `waker`, which is woken when it is worth asking again. Returns the number to ask under, or
    /// `None` if there is room by now.
    pub(crate) fn wait_for_place(&self, waiter: AdmissionWaiter, waker: &Waker) -> Option<u64> {
        // A waker is foreign code: it is cloned before the lock, and the old one is dropped after it.
        let waker = waker.clone();
        let mut state = self.state.lock();
        if let AdmissionWaiter::Waiting(number) = waiter {
            let place = state.place_of(number)?;
            let old = std::mem::replace(&mut state.waiting[place].waker, waker);
            drop(state);
            drop(old);
            return Some(number);
        }
        if state.closed || state.has_room(self.room()) {
            drop(state);
            return None;
        }
        let number = state.number();
        state.waiting.push_back(AdmissionWait {
            number,
            waker,
            since_ns: clock::coarse_ns(),
        });
        Some(number)
    }

    /// Removes a waiter that stops waiting without a place.
    pub(crate) fn leave(&self, number: u64) {
        let (left, next) = {
            let mut state = self.state.lock();
            let left = state.quit(AdmissionWaiter::Waiting(number));
            (left, state.promise(self.room()))
        };
        drop(left);
        next.into_iter().for_each(Waker::wake);
    }

    /// Starts a thread, if the limit allows one more.
    fn start(&self, state: &mut BlockingState, pool: Arc<dyn PoolRef>) -> io::Result<()> {
        if state.threads.len() >= self.limit {
            return Err(io::Error::new(
                io::ErrorKind::QuotaExceeded,
                format!(
                    "the runtime may have {} threads for closures that block",
                    self.limit
                ),
            ));
        }
        let number = state.number() as usize;
        let body = move || pool.run_blocking_thread(number);
        let thread = spawn_named(&format!("{}-b{number}", self.name), self.stack_bytes, body)?;
        state.threads.push((number, thread));
        Ok(())
    }

    /// Runs the calling thread, which has that number, until it ends.
    pub(crate) fn run_thread(&self, pool: &dyn PoolRef, recorder: &PoolRecorder, number: usize) {
        HERE.with(|here| here.set(self));
        loop {
            match self.next(number) {
                NextAction::Run(task, promised) => {
                    promised.into_iter().for_each(wake);
                    end_child_if(pool.is_in_forked_child());
                    delay::point("blocking: taken");
                    // A closure ends in one step, whatever becomes of it.
                    drop(self.run(task, recorder));
                    end_child_if(pool.is_in_forked_child());
                }
                NextAction::End(tasks, waiting) => {
                    for (_, task) in tasks {
                        task.abandon(Abandon::Shutdown);
                        end_child_if(pool.is_in_forked_child());
                    }
                    waiting.into_iter().for_each(|waits| wake(waits.waker));
                    end_child_if(pool.is_in_forked_child());
                }
                NextAction::Leave(others) => break join(others),
            }
        }
    }

    /// Runs a closure, while a report sees it.
    fn run(&self, task: Runnable, recorder: &PoolRecorder) -> Ran {
        let who = Who {
            id: task.id_word(),
            origin: task.origin_word(),
        };
        let frame = Frame::new(0, who, FrameKind::SpawnedBlocking);
        set_here(who);
        let recorded = recorder.blocking_begins(&task);
        let ran = frame.during(&self.frames, || task.run());
        if let Some(word) = recorded {
            recorder.blocking_ended(word);
        }
        set_here(Who::NOBODY);
        ran
    }

    /// Returns the next action of the thread with this number. Sleeps until there is one.
    fn next(&self, number: usize) -> NextAction {
        let mut state = self.state.lock();
        let mut deadline = None;
        loop {
            if state.closed && !(state.queue.is_empty() && state.waiting.is_empty()) {
                let waiting = state.tell_all();
                return NextAction::End(take(&mut state.queue), waiting);
            }
            if let Some((_, task)) = state.queue.pop_front() {
                let promised = state.promise(self.room());
                return NextAction::Run(task, promised);
            }
            let now = clock::now_ns();
            let patience = deadline
                .get_or_insert(now.saturating_add(self.keep_ns))
                .saturating_sub(now);
            if state.closed || patience == 0 {
                return state.end(number);
            }
            state.idle += 1;
            state = self.work.wait_for(state, patience);
            state.idle -= 1;
        }
    }

    /// Closes admission. The threads end what waits.
    pub(crate) fn close(&self) {
        self.state.lock().closed = true;
        self.work.notify_all();
    }

    pub(crate) fn join_all(&self) {
        loop {
            let (threads, ended) = {
                let mut state = self.state.lock();
                state.joining += state.threads.len();
                (take(&mut state.threads), take(&mut state.ended))
            };
            if threads.is_empty() && ended.is_empty() {
                return;
            }
            for (_, thread) in threads {
                join(vec![thread]);
                self.state.lock().joining -= 1;
            }
            join(ended);
        }
    }

    /// Calls `see` for each task that waits for admission and each closure that waits for a thread, and
    /// `queued` for the latter. Returns true if no thread is free, and there may be no further one.
    pub(crate) fn each(&self, see: &mut dyn FnMut(RawWait), queued: &mut dyn FnMut(&Runnable)) -> bool {
        let Some(state) = self.state.lock_unless_lost() else {
            return false;
        };
        let mut waits = |waiter, since_ns| {
            see(RawWait {
                waiter,
                task: 0,
                object: self.object(),
                since_ns,
                told: false,
                what: RawWhat::BlockingPlace,
            });
        };
        for waiting in &state.waiting {
            waits(waiting.waker.data().addr(), Some(waiting.since_ns));
        }
        for (_, task) in &state.queue {
            waits(task.id_word(), None);
            queued(task);
        }
        state.idle == 0 && state.threads.len() >= self.room()
    }

    /// Ends the closure with this number, if it still waits for a thread: its token is cancelled. In a forked
    /// child the queue may be lost.
    #[cold]
    pub(crate) fn evict(&self, number: AdmissionNumber) {
        let Some(mut state) = self.state.lock_unless_lost() else {
            return;
        };
        let Ok(place) = state.queue.binary_search_by_key(&number, |&(number, _)| number) else {
            return;
        };
        let evicted = state.queue.remove(place);
        let next = state.promise(self.room());
        drop(state);
        next.into_iter().for_each(wake);
        if let Some((_, task)) = evicted {
            task.abandon(Abandon::Cancelled);
        }
    }

    /// Identifies the set in a report.
    pub(crate) fn object(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Returns the number of closures that were ever admitted.
    pub(crate) fn admitted(&self) -> u64 {
        self.state.lock().admitted
    }

    /// Returns true if no closure runs or waits for a thread.
    pub(crate) fn is_idle(&self) -> bool {
        let state = self.state.lock();
        state.queue.is_empty() && state.threads.len() == state.idle
    }

    /// Returns the numbers of threads, of idle threads, and of closures that wait for a thread. All are 0 in
    /// a forked child where the lock is lost.
    pub(crate) fn snapshot(&self) -> (usize, usize, usize) {
        let state = self.state.lock_unless_lost();
        state.map_or((0, 0, 0), |state| {
            (state.threads.len() + state.joining, state.idle, state.queue.len())
        })
    }
}

impl BlockingState {
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn has_room(&self, room: usize) -> bool {
        self.queue.len() + self.promised < room
    }

    fn is_waiting(&self, number: u64) -> bool {
        self.place_of(number).is_some()
    }

    /// Finds a waiter. They came in the order of their numbers.
    fn place_of(&self, number: u64) -> Option<usize> {
        self.waiting
            .binary_search_by_key(&number, |waits| waits.number)
            .ok()
    }

    /// Promises a place to the task that has waited longest, if there is one. The caller wakes it without the
    /// lock.
    fn promise(&mut self, room: usize) -> Option<Waker> {
        if !self.has_room(room) {
            return None;
        }
        let AdmissionWait { waker, .. } = self.waiting.pop_front()?;
        self.promised += 1;
        Some(waker)
    }

    /// Removes a waiter that neither waits any more nor comes for a promised place. The caller drops it
    /// without the lock.
    fn quit(&mut self, waiter: AdmissionWaiter) -> Option<AdmissionWait> {
        let AdmissionWaiter::Waiting(number) = waiter else {
            return None;
        };
        let Some(place) = self.place_of(number) else {
            self.promised -= 1;
            return None;
        };
        self.waiting.remove(place)
    }

    /// Takes all waiters because the pool is closed. Each counts as promised until it has asked again.
    fn tell_all(&mut self) -> VecDeque<AdmissionWait> {
        self.promised += self.waiting.len();
        take(&mut self.waiting)
    }

    /// Ends the thread with this number.
    fn end(&mut self, number: usize) -> NextAction {
        let others = take(&mut self.ended);
        // `join_all` may have taken it already.
        if let Some(place) = self.threads.iter().position(|(other, _)| *other == number) {
            self.ended.push(self.threads.swap_remove(place).1);
        }
        NextAction::Leave(others)
    }
}

impl QueueSlot<'_> {
    /// Returns the number of the closure that is put here.
    pub(crate) fn number(&self) -> AdmissionNumber {
        self.state.admitted + 1
    }

    pub(crate) fn put(mut self, task: Runnable) {
        let number = self.number();
        self.state.queue.push_back((number, task));
        self.state.admitted = number;
        drop(self.state);
        self.threads.work.notify_one();
    }
}

/// Wakes a waiter from a thread of this set. A panic of the waker must not end the thread.
fn wake(waker: Waker) {
    contain(|| waker.wake());
}

fn join(threads: Vec<JoinHandle<()>>) {
    for thread in threads {
        // Such a thread catches every panic, so its result says nothing.
        let _ = thread.join();
    }
}
