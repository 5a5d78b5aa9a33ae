//! FIFO work stealing written by hand into the loop: no policy trait anywhere.
//!
//! It does what `Runtime` with `Fifo` does, with the same tasks, queues, event count and counters, so that
//! the difference of the two is the price of the trait. What any loop of this runtime must do for each task,
//! whatever says which task is next, it does, too: it reads anew which worker its thread carries, and looks
//! whether it still carries it where a task stays pending (hand-overs); it reads whether fibers are ready,
//! and keeps count of their turns; it notes the task's origin (reports of stuck workers), and takes note of
//! where a task wants to go that gave way (soft and hard yields). Nobody ever asks it for any of these, and
//! what would follow is not there: it is a baseline, not a runtime, and never shuts down before its tasks
//! have ended.
//!
//! What its pushes need beside the queue is out of line, and comes last, as in the runtime; and they are
//! inlined where tasks are spawned, which a free function of a library that knows no policy cannot have.
//!
//! What it has not: the guard by which a hook's own spawns and panics are told, the axes that are values, and
//! what is overdue in places that plain FIFO has not (the price of the trait and of its components).

use std::cell::{Cell, UnsafeCell};
use std::hint::black_box;
use std::panic::Location;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};
use std::thread;
use warpweft_platform::CachePadded;
use warpweft_platform::atomic::{AtomicBool, AtomicPtr, Ordering, spin_loop};
use warpweft_platform::barrier::Asymmetric;
use warpweft_platform::random::Rng;
use warpweft_platform::thread::{pause, with_exact_timer};
use warpweft_policy::{Count, Counters};
use warpweft_queue::{Amount, EventCount, Fifo, FifoThief, Full, Glance, Locked, Owner, Steal, Thief};
use warpweft_task::pool::{PoolHeader, PoolVtable};
use warpweft_task::spawn::{self, SpawnInfo};
use warpweft_task::{Header, JoinHandle, Pending, Ran, Runnable, Suspended, Why};

#[repr(C)]
pub(crate) struct HandPool {
    header: PoolHeader,
    thieves: Box<[FifoThief<Runnable>]>,
    injector: Locked<Runnable>,
    overflow: Locked<Runnable>,
    events: EventCount,
    closing: CachePadded<AtomicBool>,
    /// Once suspended, unfinished tasks.
    register: Mutex<Vec<usize>>,
    workers: Box<[CachePadded<Worker>]>,
}

struct Worker {
    id: usize,
    /// Set by the worker's own thread.
    pool: Cell<*const HandPool>,
    /// The origin of the task that it is in.
    running: AtomicPtr<()>,
    /// Where its running task wants to wait.
    gave_way: Cell<u8>,
    queue: UnsafeCell<Fifo<Runnable>>,
    declined: UnsafeCell<Vec<Option<Glance>>>,
    random: UnsafeCell<Rng>,
    counters: Counters,
}

// SAFETY: the cells of a worker are touched by its own thread only.
unsafe impl Sync for Worker {}
// SAFETY: a header's pointers are only used as the task crate demands.
unsafe impl Sync for HandPool {}
// SAFETY: as above.
unsafe impl Send for HandPool {}

/// What a thread knows of itself.
struct ThreadState {
    /// The worker that it carries.
    worker: Cell<*const Worker>,
    /// True if fibers of this thread are ready.
    ready: AtomicBool,
}

thread_local! { static CURRENT: Cell<*const Worker> = const { Cell::new(std::ptr::null()) }; }

static VTABLE: PoolVtable = PoolVtable {
    push,
    woken,
    dropped,
    panicked: |_, _| false,
    unregister,
};

unsafe fn pool_of<'a>(pool: NonNull<PoolHeader>) -> &'a HandPool {
    // SAFETY: headers of this table are the first field of a `HandPool` that outlives its tasks.
    unsafe { pool.cast::<HandPool>().as_ref() }
}

unsafe fn push(pool: NonNull<PoolHeader>, task: Runnable, why: Why) {
    // SAFETY: by the table's contract.
    unsafe { pool_of(pool) }.push(task, why);
}

unsafe fn woken(pool: NonNull<PoolHeader>, task: Runnable) {
    // SAFETY: by the table's contract.
    unsafe { pool_of(pool) }.push(task, Why::Woken);
}

unsafe fn dropped(_: NonNull<PoolHeader>, _: Runnable) {
    unreachable!("the baseline drops no runnable");
}

unsafe fn unregister(pool: NonNull<PoolHeader>, _: NonNull<Header>, place: usize) {
    // SAFETY: by the table's contract.
    let pool = unsafe { pool_of(pool) };
    pool.register.lock().expect("unpoisoned")[place] = 0;
}

impl HandPool {
    pub(crate) fn start(workers: usize) -> (Arc<Self>, Vec<thread::JoinHandle<()>>) {
        let thieves: Vec<Fifo<Runnable>> = (0..workers)
            .map(|_| Fifo::with_capacity(256).expect("room"))
            .collect();
        let pool = Arc::new(Self {
            header: PoolHeader::new(&VTABLE),
            thieves: thieves.iter().map(Owner::thief).collect(),
            injector: Locked::new(),
            overflow: Locked::new(),
            events: EventCount::new(workers, (workers / 2).max(1), Asymmetric::new()),
            closing: CachePadded::new(AtomicBool::new(false)),
            register: Mutex::new(Vec::new()),
            workers: thieves
                .into_iter()
                .enumerate()
                .map(|(id, queue)| {
                    CachePadded::new(Worker {
                        id,
                        pool: Cell::new(std::ptr::null()),
                        running: AtomicPtr::new(std::ptr::null_mut()),
                        gave_way: Cell::new(0),
                        queue: UnsafeCell::new(queue),
                        declined: UnsafeCell::new(vec![None; workers]),
                        random: UnsafeCell::new(Rng::seeded(0x9e37_79b9_7f4a_7c15 ^ id as u64)),
                        counters: Counters::default(),
                    })
                })
                .collect(),
        });
        let threads = (0..workers)
            .map(|id| {
                let pool = Arc::clone(&pool);
                thread::spawn(move || {
                    pool.workers[id].pool.set(&*pool);
                    CURRENT.with(|current| current.set(&*pool.workers[id]));
                    let thread = ThreadState {
                        worker: Cell::new(&*pool.workers[id]),
                        ready: AtomicBool::new(false),
                    };
                    // Escapes: what a task leaves there is not known when this is compiled.
                    run_loop(&pool, black_box(&thread));
                })
            })
            .collect();
        (pool, threads)
    }

    pub(crate) fn stop(&self, threads: Vec<thread::JoinHandle<()>>) {
        self.closing.store(true, Ordering::Release);
        self.events.notify_all();
        threads
            .into_iter()
            .for_each(|thread| thread.join().expect("a worker's thread"));
    }

    fn info(&self) -> SpawnInfo {
        SpawnInfo {
            pool: NonNull::from(self).cast(),
            location: Location::caller(),
            name: None,
        }
    }

    pub(crate) fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        // SAFETY: the baseline waits for its tasks before it goes.
        let (task, handle) = unsafe { spawn::future(future, self.info()) };
        self.push(task, Why::Spawned);
        handle
    }

    pub(crate) fn spawn_job<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        // SAFETY: the baseline waits for its tasks before it goes.
        let (task, handle) = unsafe { spawn::job(job, self.info()) };
        self.push(task, Why::Spawned);
        handle
    }

    #[inline(never)]
    fn push_from_outside(&self, task: Runnable) {
        self.injector.push(task);
        self.events.notify_one();
    }

    #[inline]
    fn push(&self, task: Runnable, why: Why) {
        // SAFETY: null, or the worker of this thread, which lives until the thread ends.
        let worker = unsafe { CURRENT.with(Cell::get).as_ref() };
        let Some(worker) = worker.filter(|worker| std::ptr::eq(worker.pool.get(), self)) else {
            return self.push_from_outside(task);
        };
        worker.push(self, task, why);
    }
}

impl Worker {
    #[expect(
        clippy::mut_from_ref,
        reason = "the worker's own thread asks, one use at a time"
    )]
    fn queue(&self) -> &mut Fifo<Runnable> {
        // SAFETY: only the worker's own thread is here, and no other borrow is alive during a use.
        unsafe { &mut *self.queue.get() }
    }

    #[inline]
    fn push(&self, pool: &HandPool, task: Runnable, why: Why) {
        self.counters.pushed(why);
        // What is more than that comes last, and is out of line, as in the runtime.
        match self.queue().push(task) {
            Ok(()) if pool.events.is_wanted() => self.wake_one(pool),
            Ok(()) => {}
            Err(Full(task)) => self.no_room(pool, task),
        }
    }

    #[cold]
    #[inline(never)]
    fn wake_one(&self, pool: &HandPool) {
        if pool.events.notify_one() {
            self.counters.add(Count::Wakes, 1);
        }
    }

    #[cold]
    #[inline(never)]
    fn no_room(&self, pool: &HandPool, task: Runnable) {
        self.counters.add(Count::Grown, 1);
        if self.queue().grow().is_ok() {
            match self.queue().push(task) {
                Ok(()) => {}
                Err(Full(task)) => pool.overflow.push(task),
            }
        } else {
            pool.overflow.push(task);
        }
        self.wake_one(pool);
    }

    #[cold]
    fn wait(&self, pool: &HandPool) -> Option<Runnable> {
        self.counters.add(Count::Searches, 1);
        let rounds = if pool.workers.len() == 1 { 1 } else { 14 };
        let nobody_sleeps = pool.events.snapshot().1 == 0;
        let mut registered = !nobody_sleeps && pool.events.try_search();
        let mut searching = nobody_sleeps || registered;
        let mut declined = self.counters.get(Count::StealsDeclined);
        loop {
            if pool.closing.load(Ordering::Acquire) {
                if registered && pool.events.found() {
                    pool.events.notify_one();
                }
                return None;
            }
            if searching
                && let Some(task) = self
                    .search_for_long(pool, rounds)
                    .or_else(|| self.search_timed(pool, rounds, &mut declined))
            {
                if registered && pool.events.found() {
                    pool.events.notify_one();
                }
                return Some(task);
            }
            pool.events.prepare(self.id, registered);
            if pool.closing.load(Ordering::Acquire) {
                pool.events.cancel(self.id);
            } else if let Some(task) = self.scan(pool) {
                pool.events.cancel(self.id);
                if pool.events.found() {
                    pool.events.notify_one();
                }
                return Some(task);
            } else {
                self.counters.add(Count::Parks, 1);
                pool.events.park(self.id);
            }
            registered = true;
            searching = true;
        }
    }

    fn search_for_long(&self, pool: &HandPool, rounds: u32) -> Option<Runnable> {
        let mut hints = 4;
        for round in 1..=rounds {
            let task = self.search(pool);
            if task.is_some() {
                return task;
            }
            if round < rounds {
                (0..hints).for_each(|_| spin_loop());
                hints = (hints * 4).min(256);
            }
        }
        None
    }

    /// As the runtime's searchers do that see lone tasks.
    fn search_timed(&self, pool: &HandPool, rounds: u32, declined: &mut u64) -> Option<Runnable> {
        let mut leaves = || {
            let now = self.counters.get(Count::StealsDeclined);
            std::mem::replace(declined, now) != now
        };
        if rounds == 1 || !leaves() {
            return None;
        }
        let (mut left, mut in_vain) = (40, 0);
        while left > 0 && in_vain < 4 && !pool.closing.load(Ordering::Relaxed) {
            with_exact_timer(|| pause(50_000));
            let found = self.search(pool);
            if found.is_some() {
                return found;
            }
            left -= 1;
            in_vain = if leaves() { 0 } else { in_vain + 1 };
        }
        None
    }

    fn search(&self, pool: &HandPool) -> Option<Runnable> {
        if let Some(task) = pool.injector.pop().or_else(|| pool.overflow.pop()) {
            return Some(task);
        }
        // SAFETY: only the worker's own thread is here.
        let first = unsafe { &mut *self.random.get() }.below(pool.thieves.len());
        // SAFETY: only the worker's own thread is here.
        let declined = unsafe { &mut *self.declined.get() };
        (first..pool.thieves.len()).chain(0..first).find_map(|victim| {
            let glance = pool.thieves[victim].glance();
            if victim == self.id || glance.len == 0 {
                return None;
            }
            if glance.len == 1 && declined[victim] != Some(glance) {
                declined[victim] = Some(glance);
                self.counters.add(Count::StealsDeclined, 1);
                return None;
            }
            self.counters.add(Count::StealAttempts, 1);
            let Steal::Taken { first, moved } = pool.thieves[victim].steal_into(self.queue(), Amount::Half)
            else {
                return None;
            };
            self.counters.add(Count::Steals, 1);
            self.counters.add(Count::Stolen, moved as u64 + 1);
            Some(first)
        })
    }

    fn scan(&self, pool: &HandPool) -> Option<Runnable> {
        let near = self
            .queue()
            .pop()
            .or_else(|| pool.injector.pop())
            .or_else(|| pool.overflow.pop());
        near.or_else(|| {
            pool.thieves.iter().find_map(|queue| {
                loop {
                    match queue.steal_one() {
                        Steal::Taken { first, .. } => return Some(first),
                        Steal::Empty | Steal::Few(_) => return None,
                        Steal::Lost => spin_loop(),
                    }
                }
            })
        })
    }
}

#[inline(never)]
fn run_loop(pool: &HandPool, thread: &ThreadState) {
    let mut until_overdue = 61;
    let mut fibers = 1;
    // SAFETY: null, or a worker of `hand`.
    while let Some(worker) = unsafe { thread.worker.get().as_ref() } {
        if pool.closing.load(Ordering::Acquire) {
            return;
        }
        if thread.ready.load(Ordering::Acquire) {
            black_box(fibers);
        }
        fibers = 1;
        until_overdue -= 1;
        let task = 'found: {
            if until_overdue == 0 {
                until_overdue = 61;
                if let Some(task) = pool.injector.pop().or_else(|| pool.overflow.pop()) {
                    worker.counters.add(Count::GlobalPolls, 1);
                    break 'found task;
                }
            }
            if let Some(task) = worker.queue().pop() {
                worker.counters.add(Count::LocalPops, 1);
                break 'found task;
            }
            if thread.ready.load(Ordering::Acquire) {
                fibers = 16;
            }
            match worker.wait(pool) {
                Some(task) => task,
                None => return,
            }
        };
        worker.counters.add(Count::Ran, 1);
        worker
            .running
            .store(task.origin_word().cast_mut(), Ordering::Relaxed);
        if let Ran::Pending(pending) = task.run() {
            // SAFETY: as above.
            let Some(worker) = (unsafe { thread.worker.get().as_ref() }) else {
                return;
            };
            worker.suspend(pool, pending);
        }
    }
}

impl Worker {
    /// The step left the task pending.
    #[inline(always)]
    fn suspend(&self, pool: &HandPool, mut pending: Pending) {
        if pending.is_notified() {
            return self.go_on(pool, pending);
        }
        self.gave_way.set(0);
        self.counters.add(Count::Suspensions, 1);
        if !pending.is_registered() {
            let mut register = pool.register.lock().expect("unpoisoned");
            register.push(1);
            // SAFETY: this pool never ends while it has tasks, and looks at no place when one is struck off.
            unsafe { pending.register(register.len() - 1) };
        }
        if let Suspended::Again(task) = pending.suspend() {
            self.push_again(pool, task, 0);
        }
    }

    #[inline(never)]
    fn go_on(&self, pool: &HandPool, pending: Pending) {
        let gave_way = self.gave_way.replace(0);
        if let Suspended::Again(task) = pending.suspend() {
            self.push_again(pool, task, gave_way);
        }
    }

    #[inline(never)]
    fn push_again(&self, pool: &HandPool, task: Runnable, gave_way: u8) {
        let why = if gave_way == 0 { Why::Woken } else { Why::Yielded };
        self.push(pool, task, why);
    }
}
