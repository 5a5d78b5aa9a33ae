//! Threads for closures that block: started when they are wanted, no more than so many, ended when idle.
//!
//! ```text
//!   newcomers ──▶ queue ──▶ threads                 a closure goes straight into the queue if it has room,
//!                  ▲ room                           and its future waits for admission if not
//!   those who wait for admission, in order
//! ```
//!
//! # Invariants, kept under one lock
//!
//! - Something is in the queue only if there is a thread, or the pool is closed and one is about to look. So
//!   what was admitted runs, or is ended: a thread that cannot be started is found before.
//! - Somebody waits for admission only if queue and promises fill the room. A promise is made to who waits
//!   longest when a place becomes free; it is kept for them, and goes on to the next if they leave.
//! - A thread ends only when the queue is empty.

use super::pool_ref::PoolRef;
use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Waker;
use warpweft_platform::process::end_child_if;
use warpweft_platform::sync::{Condvar, Mutex, MutexGuard};
use warpweft_platform::thread::{JoinHandle, spawn_named};
use warpweft_platform::{clock, delay, thread_word};
use warpweft_task::{Abandon, Runnable};

/// Why a closure is not admitted.
#[derive(Debug)]
pub(crate) enum RejectReason {
    /// As many wait as may.
    Full,
    /// There is no thread, and none can be had.
    NoThread(io::Error),
    /// The pool closes.
    Closed,
}

/// Who asks to be admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waiter {
    /// Somebody who has not waited.
    New,
    /// Somebody who waits under this number, and was perhaps promised a place.
    Waiting(u64),
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Runnable>,
    /// Who waits for admission, the one who waits longest first.
    waiting: VecDeque<(u64, Waker)>,
    /// To whom a place was promised, and who have not come for it yet.
    promised: usize,
    threads: Vec<(usize, JoinHandle<()>)>,
    /// Threads that ended, to be joined by the next one or by who ends the pool.
    ended: Vec<JoinHandle<()>>,
    /// Threads that wait for work.
    idle: usize,
    /// Numbers of threads and guests.
    next: u64,
    closed: bool,
}

#[derive(Debug)]
pub(crate) struct BlockingThreads {
    name: String,
    stack_bytes: Option<usize>,
    /// The most threads that there may be.
    limit: usize,
    /// How long an idle one stays.
    keep_ns: u64,
    state: Mutex<State>,
    work: Condvar,
}

/// A place in the queue, for one task. The queue is locked meanwhile.
pub(crate) struct Place<'a> {
    threads: &'a BlockingThreads,
    state: MutexGuard<'a, State>,
}

/// What a thread does next.
enum Next {
    Run(Runnable, Option<Waker>),
    /// The pool is closed: what is left is to be ended.
    End(VecDeque<Runnable>, VecDeque<(u64, Waker)>),
    /// There is nothing to do; these have ended before.
    Leave(Vec<JoinHandle<()>>),
}

// Whose thread the calling one is; never followed.
thread_word!(static HERE: *const BlockingThreads = std::ptr::null());

impl BlockingThreads {
    pub(crate) fn new(name: String, stack_bytes: Option<usize>, limit: usize, keep_ns: u64) -> Self {
        Self {
            name,
            stack_bytes,
            limit,
            keep_ns,
            state: Mutex::new(State::default()),
            work: Condvar::new(),
        }
    }

    /// How many closures may wait for a thread: as many as there may be threads.
    pub(crate) fn room(&self) -> usize {
        self.limit.max(1)
    }

    /// Whether the calling thread is one of these.
    pub(crate) fn is_here(&self) -> bool {
        HERE.with(|here| std::ptr::eq(here.get(), self))
    }

    /// Asks for a place in the queue, and sees to it that there is a thread for it. `pool` is asked for if
    /// one has to be started.
    ///
    /// # Errors
    ///
    /// [`RejectReason`]. A guest who was promised a place has none any more, unless it is still waiting and
    /// this is `Full`.
    pub(crate) fn place(
        &self,
        pool: impl FnOnce() -> Arc<dyn PoolRef>,
        waiter: Waiter,
    ) -> Result<Place<'_>, RejectReason> {
        let mut state = self.state.lock();
        if state.closed {
            state.quit(waiter);
            let others = state.tell_all();
            drop(state);
            others.into_iter().for_each(|(_, waker)| waker.wake());
            return Err(RejectReason::Closed);
        }
        let promised = matches!(waiter, Waiter::Waiting(number) if !state.is_waiting(number));
        if !promised && !state.has_room(self.room()) {
            return Err(RejectReason::Full);
        }
        if state.idle <= state.queue.len()
            && let Err(error) = self.start(&mut state, pool())
            && state.threads.is_empty()
        {
            state.quit(waiter);
            // The next one may be luckier, and hears of it if not.
            let next = state.promise(self.room());
            drop(state);
            next.into_iter().for_each(Waker::wake);
            return Err(RejectReason::NoThread(error));
        }
        if promised {
            state.promised -= 1;
        }
        Ok(Place { threads: self, state })
    }

    /// Waits for a place: `waker` is woken when it is worth asking again. The number to ask under; `None` if
    /// there is room by now.
    pub(crate) fn wait_for_place(&self, waiter: Waiter, waker: &Waker) -> Option<u64> {
        let mut state = self.state.lock();
        if let Waiter::Waiting(number) = waiter {
            let place = state.waiting.iter_mut().find(|(other, _)| *other == number);
            return place.map(|(number, own)| {
                own.clone_from(waker);
                *number
            });
        }
        if state.closed || state.has_room(self.room()) {
            return None;
        }
        let number = state.number();
        state.waiting.push_back((number, waker.clone()));
        Some(number)
    }

    /// Somebody who waited for a place goes away without one.
    pub(crate) fn leave(&self, number: u64) {
        let next = {
            let mut state = self.state.lock();
            state.quit(Waiter::Waiting(number));
            state.promise(self.room())
        };
        next.into_iter().for_each(Waker::wake);
    }

    /// Starts a thread, if there may be one more.
    fn start(&self, state: &mut State, pool: Arc<dyn PoolRef>) -> io::Result<()> {
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

    /// The life of the thread of that number, which is the calling one.
    pub(crate) fn run_thread(&self, pool: &dyn PoolRef, number: usize) {
        HERE.with(|here| here.set(self));
        loop {
            match self.next(number) {
                Next::Run(task, promised) => {
                    promised.into_iter().for_each(wake);
                    end_child_if(pool.is_forked());
                    delay::point("blocking: taken");
                    // A closure ends in one step, whatever becomes of it.
                    drop(task.run());
                    end_child_if(pool.is_forked());
                }
                Next::End(tasks, waiting) => {
                    for task in tasks {
                        task.abandon(Abandon::Shutdown);
                        end_child_if(pool.is_forked());
                    }
                    waiting.into_iter().for_each(|(_, waker)| wake(waker));
                    end_child_if(pool.is_forked());
                }
                Next::Leave(others) => break join(others),
            }
        }
    }

    /// What the thread of this number does next; sleeps until there is something.
    fn next(&self, number: usize) -> Next {
        let mut state = self.state.lock();
        let mut deadline = None;
        loop {
            if state.closed && !(state.queue.is_empty() && state.waiting.is_empty()) {
                let waiting = state.tell_all();
                return Next::End(std::mem::take(&mut state.queue), waiting);
            }
            if let Some(task) = state.queue.pop_front() {
                let promised = state.promise(self.room());
                return Next::Run(task, promised);
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

    /// Nothing is admitted any more; what waits is ended by the threads.
    pub(crate) fn close(&self) {
        self.state.lock().closed = true;
        self.work.notify_all();
    }

    /// Waits for all threads.
    pub(crate) fn join_all(&self) {
        loop {
            let threads: Vec<_> = {
                let mut state = self.state.lock();
                let State { threads, ended, .. } = &mut *state;
                let ended = std::mem::take(ended);
                let threads = std::mem::take(threads).into_iter();
                threads.map(|(_, thread)| thread).chain(ended).collect()
            };
            if threads.is_empty() {
                return;
            }
            join(threads);
        }
    }

    /// How many threads there are, how many of them are idle, and how many closures wait for one.
    pub(crate) fn snapshot(&self) -> (usize, usize, usize) {
        let state = self.state.lock();
        (state.threads.len(), state.idle, state.queue.len())
    }
}

impl State {
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn has_room(&self, room: usize) -> bool {
        self.queue.len() + self.promised < room
    }

    fn is_waiting(&self, number: u64) -> bool {
        self.waiting.iter().any(|(other, _)| *other == number)
    }

    /// Promises a place to who waits longest, if there is one: to be woken, without the lock.
    fn promise(&mut self, room: usize) -> Option<Waker> {
        if !self.has_room(room) {
            return None;
        }
        let (_, waker) = self.waiting.pop_front()?;
        self.promised += 1;
        Some(waker)
    }

    /// A guest neither waits any more nor comes for a promised place.
    fn quit(&mut self, waiter: Waiter) {
        let Waiter::Waiting(number) = waiter else { return };
        match self.waiting.iter().position(|(other, _)| *other == number) {
            Some(place) => drop(self.waiting.remove(place)),
            None => self.promised -= 1,
        }
    }

    /// The pool is closed: all who wait are to be told, which is as good as a promise.
    fn tell_all(&mut self) -> VecDeque<(u64, Waker)> {
        self.promised += self.waiting.len();
        std::mem::take(&mut self.waiting)
    }

    /// The thread of this number ends.
    fn end(&mut self, number: usize) -> Next {
        let others = std::mem::take(&mut self.ended);
        // Whoever joins all may have taken it already.
        if let Some(place) = self.threads.iter().position(|(other, _)| *other == number) {
            self.ended.push(self.threads.swap_remove(place).1);
        }
        Next::Leave(others)
    }
}

impl Place<'_> {
    /// Takes the place.
    pub(crate) fn put(mut self, task: Runnable) {
        self.state.queue.push_back(task);
        drop(self.state);
        self.threads.work.notify_one();
    }
}

/// Wakes somebody from a thread of ours, which must not end by what others' wakers do.
fn wake(waker: Waker) {
    // Unwind: the panic hook has reported it, and nothing here was touched.
    let _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
}

fn join(threads: Vec<JoinHandle<()>>) {
    for thread in threads {
        // It ends every panic itself; there is nothing to learn from its result.
        let _ = thread.join();
    }
}
