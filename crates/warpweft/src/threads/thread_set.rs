//! The threads of a pool: one per worker, one spare per blocked frame, and a few spares in reserve. It also
//! has the threads for closures that block.
//!
//! # Invariants
//!
//! - A reserved spare is parked at its thread handle, and belongs to the thread that reserved it, until it is
//!   assigned a worker or released.
//! - No more than [`ThreadSet::KEPT`] spares stay for longer than [`ThreadSet::SURPLUS_NS`] when they are not
//!   needed, beside one for each worker that rests and has had a thread.
//! - There is a spare for each such worker, or a thread is on its way to become one: other uses take no spare
//!   that leaves too few.
//! - Every thread is joined by the thread that ends the pool, or by one that retires after it.

use super::affinity::Plan;
use super::blocking_threads::BlockingThreads;
use super::pool_ref::PoolRef;
use super::pool_thread::{PoolThread, ThreadEnd, ThreadHooks, ask};
use super::thread_handle::ThreadHandle;
use crate::threads::quantum::Quantum;
use std::convert::identity;
use std::io;
use std::mem::take;
use std::sync::Arc;
use warpweft_platform::affinity;
use warpweft_platform::sync::Mutex;
use warpweft_platform::thread::yield_now;
use warpweft_task::frame::Frame;
use warpweft_task::registry::Registry;

/// The numbers of a pool's threads, and what they do: a snapshot.
/// [`Runtime`](crate::Runtime#workers-and-threads) explains the limits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Threads {
    /// All threads that carry a worker, did, or may.
    pub all: usize,
    /// Threads that are parked and ready to take a worker over from a thread that has to wait.
    pub spare: usize,
    /// Threads in the middle of a task that waits, without a worker.
    pub blocked: usize,
    /// The largest number of threads at any time.
    pub most: usize,
    /// How often [`blocking`](crate::blocking) has given a worker away.
    pub handed_over: u64,
    /// How often the closure of such a call was done before the spare thread had come, and took the worker
    /// back.
    pub taken_back: u64,
    /// How often `blocking` kept its worker, because no spare thread was available.
    pub kept: u64,
    /// Threads that [`spawn_blocking`](crate::spawn_blocking) has started. They are not among `all`.
    pub blocking: usize,
    /// The idle ones of `blocking`.
    pub blocking_idle: usize,
    /// How often the system refused to move a thread to the CPUs of its worker, which it had allowed before.
    pub unpinned: u64,
    /// Closures of `spawn_blocking` that were admitted and wait for a thread.
    pub blocking_queued: usize,
}

/// An event of a frame of a task that waits, or of a closure that may block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ThreadEvent {
    /// It waits, and its thread carries no worker.
    Blocked,
    /// Its thread carries a worker again, or continues without one.
    Resumed,
    /// `blocking` gave its worker away.
    HandedOver,
    /// `blocking` took its worker back before the spare thread had come.
    TakenBack,
    /// `blocking` kept its worker.
    Kept,
}

/// How often a thread is looked for that is about to become a spare.
const TRIES: u32 = 10_000;

#[derive(Debug, Default)]
struct ThreadLists {
    spares: Vec<Arc<ThreadHandle>>,
    running: Vec<(usize, ThreadEnd)>,
    /// The number of threads for whose end the end of the pool waits. They are not in `running`.
    joining: usize,
    /// Threads that retired, to be joined: they are about to end.
    retired: Vec<ThreadEnd>,
    /// The handles of all threads that have not ended.
    thread_handles: Vec<(usize, Arc<ThreadHandle>)>,
    /// The number of the next thread.
    next: usize,
    /// The counted numbers. The lists have `all` and `spare`.
    counts: Threads,
    /// The number of workers that rest and have had a thread: as many spares are for them.
    resting: usize,
    /// The last worker has left: spares are not needed any more.
    over: bool,
}

impl ThreadLists {
    fn add(&mut self, number: usize, end: ThreadEnd, handle: &Arc<ThreadHandle>) {
        self.running.push((number, end));
        self.thread_handles.push((number, Arc::clone(handle)));
        self.counts.most = self.counts.most.max(self.running.len());
    }

    fn remove(&mut self, number: usize) -> Option<ThreadEnd> {
        self.thread_handles.retain(|(of, _)| *of != number);
        let place = self.running.iter().position(|(of, _)| *of == number);
        place.map(|place| self.running.swap_remove(place).1)
    }
}

#[derive(Debug)]
pub(crate) struct ThreadSet {
    name: String,
    stack_bytes: Option<usize>,
    /// The largest number of threads at a time.
    limit: usize,
    state: Mutex<ThreadLists>,
    blocking: BlockingThreads,
    /// The frames of its threads that wait or block.
    frames: Registry<Frame>,
    /// The CPUs of the workers, if they are pinned.
    plan: Option<Plan>,
    /// How much cooperative code a thread runs between two switches.
    quantum: Quantum,
    hooks: ThreadHooks,
}

impl ThreadSet {
    /// The number of spares that wait for the next blocked frame without a limit of time.
    const KEPT: usize = 2;
    /// How long the other spares wait, in nanoseconds. Where many frames block repeatedly, threads would
    /// otherwise be created and ended with each of them: with 32 tasks on 2 workers it took twice as long.
    const SURPLUS_NS: u64 = 100_000_000;

    pub(crate) fn new(
        name: String,
        stack_bytes: Option<usize>,
        limit: usize,
        blocking: BlockingThreads,
        plan: Option<Plan>,
        quantum: Quantum,
        hooks: ThreadHooks,
    ) -> Self {
        Self {
            name,
            stack_bytes,
            limit,
            state: Mutex::new(ThreadLists::default()),
            blocking,
            frames: Registry::new(),
            plan,
            quantum,
            hooks,
        }
    }

    pub(crate) fn quantum(&self) -> Quantum {
        self.quantum
    }

    pub(crate) fn hooks(&self) -> &ThreadHooks {
        &self.hooks
    }

    /// Moves the calling thread to the CPUs of `worker`, which it carries from now on, unless it has them as
    /// the CPUs of worker `at` already. Returns the worker whose CPUs it has now.
    pub(crate) fn settle(&self, worker: usize, at: Option<usize>) -> Option<usize> {
        let plan = self.plan.as_ref()?;
        let cpus = plan.cpus(worker);
        if at.is_some_and(|at| at == worker || plan.cpus(at) == cpus) || self.move_to(cpus) {
            Some(worker)
        } else {
            at
        }
    }

    /// Lets the calling thread run anywhere, although its creator is pinned. It carries no worker and never
    /// will.
    pub(crate) fn settle_anywhere(&self) {
        if let Some(plan) = &self.plan {
            self.move_to(plan.everywhere());
        }
    }

    fn move_to(&self, cpus: &[usize]) -> bool {
        let moved = affinity::pin(cpus).is_ok();
        if !moved {
            self.state.lock().counts.unpinned += 1;
        }
        moved
    }

    /// Returns the frames of its threads that wait or block.
    pub(crate) fn frames(&self) -> &Registry<Frame> {
        &self.frames
    }

    pub(crate) fn blocking(&self) -> &BlockingThreads {
        &self.blocking
    }

    /// Starts a thread that waits at a thread handle for its first worker.
    ///
    /// # Errors
    ///
    /// The system gives no more threads, the limit is reached, or a function of the program panics.
    pub(crate) fn start(&self, pool: &Arc<dyn PoolRef>) -> io::Result<Arc<ThreadHandle>> {
        let number = {
            let mut state = self.state.lock();
            self.has_room(&state)?;
            state.next += 1;
            state.next - 1
        };
        let thread_handle = ThreadHandle::new(pool, number);
        let name = match self.hooks.name_of(number)? {
            Some(name) => name,
            None => format!("{}-{number}", self.name),
        };
        let thread = PoolThread::new(name, self.stack_bytes, pool, &thread_handle);
        let mut state = self.state.lock();
        self.has_room(&state)?;
        let Some(starter) = self.hooks.starter.as_deref() else {
            state.add(number, thread.spawn()?, &thread_handle);
            return Ok(thread_handle);
        };
        let ended = thread.ended();
        state.add(number, ThreadEnd::Told(ended.clone()), &thread_handle);
        drop(state);
        // Not under the lock: this is the program's code.
        let started = ask("that starts the pool's threads", || starter(thread)).and_then(identity);
        if started.is_ok() && ended.rely() {
            return Ok(thread_handle);
        }
        self.state.lock().remove(number);
        Err(started.err().unwrap_or_else(|| {
            io::Error::other("the function that starts the pool's threads has dropped this one")
        }))
    }

    /// # Errors
    ///
    /// The limit of threads is reached.
    fn has_room(&self, state: &ThreadLists) -> io::Result<()> {
        if state.running.len() < self.limit {
            return Ok(());
        }
        Err(io::Error::new(
            io::ErrorKind::QuotaExceeded,
            format!("the pool has as many threads as it may have, {}", self.limit),
        ))
    }

    /// Reserves a spare thread for a worker that is about to be given away.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub(crate) fn reserve(&self, pool: &Arc<dyn PoolRef>) -> io::Result<Arc<ThreadHandle>> {
        let spare = {
            let mut state = self.state.lock();
            let is_free = state.spares.len() > state.resting;
            is_free.then(|| state.spares.pop()).flatten()
        };
        spare.map_or_else(|| self.start(pool), Ok)
    }

    /// Reserves a thread for a worker whose rest has ended. If the worker has `had_thread`, there is one for
    /// it.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub(crate) fn reserve_for_worker(
        &self,
        pool: &Arc<dyn PoolRef>,
        had_thread: bool,
    ) -> io::Result<Arc<ThreadHandle>> {
        let rested = usize::from(had_thread);
        let spare = {
            let mut state = self.state.lock();
            let is_free = had_thread || state.spares.len() > state.resting;
            state.resting -= rested;
            is_free.then(|| state.spares.pop()).flatten()
        };
        if let Some(spare) = spare {
            return Ok(spare);
        }
        let mut started = self.start(pool);
        for _ in 0..TRIES {
            if started.is_ok() || !had_thread {
                break;
            }
            // A thread has just given its worker to the spare that was for this one, and becomes spare now.
            yield_now();
            if let Some(spare) = self.state.lock().spares.pop() {
                started = Ok(spare);
            }
        }
        if started.is_err() {
            self.state.lock().resting += rested;
        }
        started
    }

    pub(crate) fn release(&self, spare: &Arc<ThreadHandle>) {
        let kept = {
            let mut state = self.state.lock();
            // A thread with fibers is always needed: they are bound to it while they live.
            let few = state.spares.len() < Self::KEPT + state.resting;
            let kept = !state.over && (few || spare.fibers() > 0);
            if kept {
                state.spares.push(Arc::clone(spare));
            }
            kept
        };
        if kept {
            // Another thread may have asked for a worker while the spare was reserved.
            spare.ask_if_needed(false);
        } else {
            // It calls `rest` again, to learn how long it should wait.
            spare.handoff.assign(None);
        }
    }

    /// Waits for a worker at the calling thread's handle. Returns `None` if the thread is not needed any
    /// more, and ends.
    pub(crate) fn rest(&self, thread_handle: &Arc<ThreadHandle>) -> Option<Option<usize>> {
        self.rest_with(thread_handle, None::<fn()>)
    }

    /// As [`rest`](Self::rest), for a thread whose worker rests, too: `rest_worker` begins that rest, as soon
    /// as the thread is among the spares.
    pub(crate) fn rest_after(
        &self,
        thread_handle: &Arc<ThreadHandle>,
        rest_worker: impl FnOnce(),
    ) -> Option<Option<usize>> {
        self.rest_with(thread_handle, Some(rest_worker))
    }

    fn rest_with(
        &self,
        thread_handle: &Arc<ThreadHandle>,
        rest_worker: Option<impl FnOnce()>,
    ) -> Option<Option<usize>> {
        thread_handle.handoff.list(true);
        let surplus = {
            let mut state = self.state.lock();
            if state.over {
                thread_handle.handoff.list(false);
                return None;
            }
            state.spares.push(Arc::clone(thread_handle));
            state.resting += usize::from(rest_worker.is_some());
            // A thread with fibers stays while they live.
            state.spares.len() > Self::KEPT + state.resting && thread_handle.fibers() == 0
        };
        if let Some(rest_worker) = rest_worker {
            rest_worker();
        }
        thread_handle.ask_if_needed(false);
        if !surplus {
            return Some(thread_handle.handoff.wait());
        }
        let assigned = thread_handle.handoff.wait_for(Self::SURPLUS_NS);
        if assigned.is_some() {
            return assigned;
        }
        if self.withdraw_surplus(thread_handle) {
            thread_handle.handoff.list(false);
            return None;
        }
        // Another thread has reserved it in the meantime.
        Some(thread_handle.handoff.wait())
    }

    /// Takes a thread out of the spares; the caller assigns a worker to it or ends it. Returns `false` if it
    /// is no spare, or is reserved.
    pub(crate) fn withdraw(&self, thread_handle: &Arc<ThreadHandle>) -> bool {
        let spares = &mut self.state.lock().spares;
        let place = spares.iter().position(|spare| Arc::ptr_eq(spare, thread_handle));
        place.map(|place| spares.remove(place)).is_some()
    }

    /// Does the same, unless the spares that remained would be too few for the workers that rest.
    fn withdraw_surplus(&self, thread_handle: &Arc<ThreadHandle>) -> bool {
        let mut state = self.state.lock();
        if state.spares.len() <= state.resting && !state.over {
            return false;
        }
        let spares = &mut state.spares;
        let place = spares.iter().position(|spare| Arc::ptr_eq(spare, thread_handle));
        place.map(|place| spares.remove(place)).is_some()
    }

    /// Returns the kernel's number of the thread that carries that worker. For reports.
    pub(crate) fn thread_with(&self, worker: usize) -> Option<u32> {
        let handles = self.state.lock().thread_handles.clone();
        handles
            .iter()
            .find_map(|(_, thread_handle)| thread_handle.thread_with(worker))
    }

    pub(crate) fn note(&self, note: ThreadEvent) {
        let mut state = self.state.lock();
        let counts = &mut state.counts;
        match note {
            ThreadEvent::Blocked => counts.blocked += 1,
            ThreadEvent::Resumed => counts.blocked -= 1,
            ThreadEvent::HandedOver => {
                counts.blocked += 1;
                counts.handed_over += 1;
            }
            ThreadEvent::TakenBack => {
                counts.blocked -= 1;
                counts.taken_back += 1;
            }
            ThreadEvent::Kept => counts.kept += 1,
        }
    }

    /// Ends the spares, and each thread that becomes spare: the last worker has left.
    pub(crate) fn dismiss(&self) {
        let (spares, thread_handles) = {
            let mut state = self.state.lock();
            state.over = true;
            (take(&mut state.spares), take(&mut state.thread_handles))
        };
        for spare in spares {
            spare.handoff.assign(None);
        }
        // Threads in the middle of a task unwind their fibers, for which other tasks may wait.
        for (_, thread_handle) in thread_handles {
            thread_handle.end();
        }
    }

    /// Offers a worker to all threads that sleep in the middle of a task. Returns true if one took it.
    #[cold]
    pub(crate) fn offer_to_any(&self, worker: usize) -> bool {
        let state = self.state.lock();
        let mut handles = state.thread_handles.iter();
        handles.any(|(_, thread_handle)| thread_handle.handoff.offer(Some(worker)))
    }

    /// Notes that the calling thread is about to end.
    pub(crate) fn retire(&self, thread: &ThreadHandle) {
        let number = thread.number();
        let ended = {
            let mut state = self.state.lock();
            let own = state.remove(number);
            let ended = take(&mut state.retired);
            state.retired.extend(own);
            ended
        };
        join(ended);
    }

    /// Waits for all threads, those that are started meanwhile included.
    pub(crate) fn join_all(&self) {
        loop {
            let (running, retired) = {
                let mut state = self.state.lock();
                state.joining += state.running.len();
                (take(&mut state.running), take(&mut state.retired))
            };
            if running.is_empty() && retired.is_empty() {
                return self.blocking.join_all();
            }
            for (_, thread) in running {
                thread.wait();
                self.state.lock().joining -= 1;
            }
            join(retired);
        }
    }

    /// Returns the numbers of threads; 0 in a forked child where a lock is lost.
    pub(crate) fn snapshot(&self) -> Threads {
        let (blocking, blocking_idle, blocking_queued) = self.blocking.snapshot();
        let of_workers = self.state.lock_unless_lost().map(|state| Threads {
            all: state.running.len() + state.joining,
            spare: state.spares.len(),
            ..state.counts
        });
        Threads {
            blocking,
            blocking_idle,
            blocking_queued,
            ..of_workers.unwrap_or_default()
        }
    }
}

fn join(threads: Vec<ThreadEnd>) {
    threads.into_iter().for_each(ThreadEnd::wait);
}
