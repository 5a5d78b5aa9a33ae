//! Threads, their own variables, and time.

use crate::blocks;
use crate::lines::Access;
use crate::machine::TICKS;
use crate::simulation::{Simulation, here, here_declared};
use crate::sync::deadline;
use crate::world::{State, ThreadId, Why};
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The stack of a thread that asks for none.
const STACK: usize = 2 << 20;

/// What an outsider is told.
const OUTSIDE: &str = "Warpweft is built for the simulator (--cfg warpweft_sim): it starts threads and sleeps \
                       in `warpweft_sim::run` only";

/// The way to a thread's result, with the interface of `std::thread::JoinHandle`.
pub struct JoinHandle<T> {
    thread: ThreadId,
    result: Arc<Mutex<Option<std::thread::Result<T>>>>,
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle")
            .field("thread", &self.thread)
            .finish()
    }
}

impl<T> JoinHandle<T> {
    /// Waits for the thread's end.
    ///
    /// # Errors
    ///
    /// The payload of its panic.
    ///
    /// # Panics
    ///
    /// Outside of a simulation.
    pub fn join(self) -> std::thread::Result<T> {
        inside(|sim| {
            sim.turn();
            loop {
                let me = {
                    let mut world = sim.world.borrow_mut();
                    if world.threads[self.thread].state == State::Ended {
                        break;
                    }
                    let me = world.current;
                    world.threads[self.thread].joiners.push(me);
                    me
                };
                debug_assert_ne!(me, self.thread, "a thread that waits for itself");
                sim.sleep(Why::Join, None);
            }
        });
        let result = self.result.lock().unwrap_or_else(PoisonError::into_inner).take();
        result.expect("a thread that has ended has a result")
    }

    /// Returns true if the thread has ended.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        inside(|sim| {
            sim.turn();
            sim.world.borrow().threads[self.thread].state == State::Ended
        })
    }
}

fn inside<R>(f: impl FnOnce(&Simulation) -> R) -> R {
    here(f).expect(OUTSIDE)
}

/// Starts threads, with the interface of `std::thread::Builder`.
#[derive(Debug, Default)]
pub struct Builder {
    name: Option<String>,
    stack: Option<usize>,
}

impl Builder {
    /// Makes one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Names the thread.
    #[must_use]
    pub fn name(mut self, name: String) -> Self {
        self.name = Some(name);
        self
    }

    /// Gives it a stack of `bytes` bytes.
    #[must_use]
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.stack = Some(bytes);
        self
    }

    /// Starts it.
    ///
    /// # Errors
    ///
    /// The caller is in no simulation.
    pub fn spawn<T: Send + 'static>(
        self,
        body: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<JoinHandle<T>> {
        let result = Arc::new(Mutex::new(None));
        let slot = Arc::clone(&result);
        let run = Box::new(move || {
            let ended = catch_unwind(AssertUnwindSafe(body));
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(ended);
        });
        // A frame of this build takes more than one of the product.
        let stack = self.stack.unwrap_or(STACK).max(STACK);
        let started = here(|sim| {
            sim.pay(|model| model.thread_start);
            sim.turn();
            let mut world = sim.world.borrow_mut();
            let latency = world.model.wake_latency;
            let time = world.now() + latency;
            world.start(self.name, stack, run, time)
        });
        match started {
            Some(thread) => Ok(JoinHandle { thread, result }),
            None => Err(io::Error::new(io::ErrorKind::Unsupported, OUTSIDE)),
        }
    }
}

/// Starts a thread.
///
/// # Panics
///
/// Outside of a simulation.
pub fn spawn<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    Builder::new().spawn(body).expect("threads do not run out")
}

/// Gives the CPU to another thread that waits for it.
pub fn yield_now() {
    if here(Simulation::yield_now).is_none() {
        std::thread::yield_now();
    }
}

/// Sleeps for `ns` nanoseconds of virtual time.
///
/// # Panics
///
/// Outside of a simulation.
pub fn sleep(ns: u64) {
    inside(|sim| {
        sim.pay(|model| model.futex_wait);
        sim.turn();
        let end = deadline(sim, ns).unwrap_or(u64::MAX);
        sim.sleep(Why::Time, Some(end));
    });
}

/// Returns the nanoseconds since the start of the simulation; 0 outside of one.
#[must_use]
pub fn now_ns() -> u64 {
    here(|sim| {
        sim.pay(|model| model.clock);
        sim.world.borrow().now() / TICKS
    })
    .unwrap_or(0)
}

/// Returns the name of the calling thread.
#[must_use]
pub fn current_name() -> Option<String> {
    here(|sim| sim.world.borrow_mut().me().name.clone()).flatten()
}

/// Keeps a value until the calling thread ends.
pub fn keep_until_exit(value: Box<dyn Any>) {
    here(|sim| sim.world.borrow_mut().me().kept.push(value));
}

/// Returns a random number below `bound` from the simulation's source; 0 outside of one.
#[must_use]
pub fn random_below(bound: usize) -> usize {
    here(|sim| sim.world.borrow_mut().random.usize(..bound.max(1))).unwrap_or(0)
}

/// Computes for `ns` nanoseconds. They stand for the code since the last access, too.
pub fn compute(ns: u64) {
    here_declared(|sim| sim.compute(ns.saturating_mul(TICKS)));
}

/// Calls `f`, whose code takes no time: it is not the program's, or its time is charged otherwise. Accesses
/// in it cost what they cost.
pub fn uncounted<R>(f: impl FnOnce() -> R) -> R {
    blocks::uncounted(f)
}

/// Reads a range of memory: its lines come from where they are.
pub fn touch(range: &[u8]) {
    here(|sim| sim.touch(range.as_ptr().addr(), range.len(), Access::Load));
}

/// Writes a range of memory: its lines leave all other caches.
pub fn touch_to_write(range: &[u8]) {
    here(|sim| sim.touch(range.as_ptr().addr(), range.len(), Access::Store));
}

/// The place of a CPU: its core, its last-level cache, its socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuLocation {
    /// The core.
    pub core: usize,
    /// The last-level cache.
    pub cache: usize,
    /// The socket.
    pub socket: usize,
}

/// Returns the places of all CPUs of the simulated machine, by number; none outside of a simulation.
#[must_use]
pub fn places() -> Vec<CpuLocation> {
    here(|sim| {
        let world = sim.world.borrow();
        let model = &world.model;
        (0..model.cpus)
            .map(|cpu| {
                let core = cpu % model.cores;
                CpuLocation {
                    core,
                    cache: model.cache_of(core),
                    socket: model.socket_of(core),
                }
            })
            .collect()
    })
    .unwrap_or_default()
}

/// Returns the CPUs that the calling thread may use.
#[must_use]
pub fn allowed() -> Vec<usize> {
    here(|sim| {
        let mut world = sim.world.borrow_mut();
        let cpus = world.model.cpus;
        match &world.me().allowed {
            Some(allowed) => allowed.to_vec(),
            None => (0..cpus).collect(),
        }
    })
    .unwrap_or_default()
}

/// Restricts the calling thread, and those that it starts, to some CPUs. Returns false if the machine has
/// none of them.
#[must_use]
pub fn pin(cpus: &[usize]) -> bool {
    here(|sim| sim.pin(cpus)).unwrap_or(false)
}

/// A variable of which each simulated thread has its own; outside of simulations, each thread of the system.
pub struct LocalKey<T: 'static> {
    /// Its number plus 1; given at the first use.
    number: AtomicUsize,
    init: fn() -> T,
}

/// The next number of a [`LocalKey`].
static NUMBERS: AtomicUsize = AtomicUsize::new(1);

thread_local! {
    static LOCALS: RefCell<Vec<Option<Rc<dyn Any>>>> = const { RefCell::new(Vec::new()) };
}

impl<T: 'static> LocalKey<T> {
    /// Makes one.
    #[must_use]
    pub const fn new(init: fn() -> T) -> Self {
        Self {
            number: AtomicUsize::new(0),
            init,
        }
    }

    fn number(&self) -> usize {
        let known = self.number.load(Ordering::Relaxed);
        if known != 0 {
            return known - 1;
        }
        let new = NUMBERS.fetch_add(1, Ordering::Relaxed);
        let order = Ordering::Relaxed;
        match self.number.compare_exchange(0, new, order, order) {
            Ok(_) => new - 1,
            Err(other) => other - 1,
        }
    }

    fn known(&self, locals: &[Option<Rc<dyn Any>>]) -> Option<Rc<dyn Any>> {
        locals.get(self.number()).cloned().flatten()
    }

    /// Makes the value while nothing is borrowed: what makes it may use the simulator, and this key, too.
    #[cold]
    fn make(&self) -> Rc<dyn Any> {
        let new: Rc<dyn Any> = Rc::new((self.init)());
        let keep = |locals: &mut Vec<Option<Rc<dyn Any>>>| {
            let number = self.number();
            if locals.len() <= number {
                locals.resize(number + 1, None);
            }
            // One that came meanwhile stays.
            Rc::clone(locals[number].get_or_insert_with(|| Rc::clone(&new)))
        };
        here(|sim| keep(&mut sim.world.borrow_mut().me().locals))
            .unwrap_or_else(|| LOCALS.with_borrow_mut(keep))
    }

    /// Calls `f` with the calling thread's value.
    ///
    /// # Panics
    ///
    /// Never: the value has the key's type.
    pub fn with<R>(&'static self, f: impl FnOnce(&T) -> R) -> R {
        let known = here(|sim| self.known(&sim.world.borrow_mut().me().locals));
        let known = known.unwrap_or_else(|| LOCALS.with_borrow(|locals| self.known(locals)));
        let value = known.unwrap_or_else(|| blocks::uncounted(|| self.make()));
        let known = blocks::uncounted(|| value.downcast_ref().expect("it has the key's type"));
        let result = f(known);
        blocks::uncounted(|| drop(value));
        result
    }
}

impl<T: 'static> LocalKey<Cell<T>> {
    /// Sets the value.
    pub fn set(&'static self, value: T) {
        self.with(|cell| cell.set(value));
    }

    /// Returns the value.
    #[must_use]
    pub fn get(&'static self) -> T
    where
        T: Copy,
    {
        self.with(Cell::get)
    }

    /// Replaces the value.
    pub fn replace(&'static self, value: T) -> T {
        self.with(|cell| cell.replace(value))
    }

    /// Takes the value.
    pub fn take(&'static self) -> T
    where
        T: Default,
    {
        self.with(Cell::take)
    }
}

/// Ends a part when it is dropped.
#[derive(Debug)]
#[must_use = "the part ends when it is dropped"]
pub struct InHook {
    /// The part and when it began; `None` outside of a simulation.
    began: Option<(usize, u64)>,
    outer: Option<usize>,
}

/// The calling thread is in the part of that name until the result is dropped.
///
/// ```
/// use warpweft_sim::{AtomicU64, Machine, Ordering, in_hook, run};
/// let machine = Machine::named("desktop").expect("it is built in");
/// let ((), report) = run(1, &machine, || {
///     let _within = in_hook("count");
///     AtomicU64::new(0).fetch_add(1, Ordering::Relaxed);
/// });
/// assert_eq!((report.hooks[0].name.as_str(), report.hooks[0].misses), ("count", 1));
/// ```
pub fn in_hook(name: &'static str) -> InHook {
    let entered = here(|sim| {
        let mut world = sim.world.borrow_mut();
        let number = world.hooks.begins(name);
        let now = world.now();
        let outer = world.me().hook.replace(number);
        (Some((number, now)), outer)
    });
    let (began, outer) = entered.unwrap_or_default();
    InHook { began, outer }
}

impl Drop for InHook {
    fn drop(&mut self) {
        let Some((number, start)) = self.began else {
            return;
        };
        here(|sim| {
            let mut world = sim.world.borrow_mut();
            let took = world.now().saturating_sub(start);
            world.hooks.ends(number, took);
            world.me().hook = self.outer;
        });
    }
}
