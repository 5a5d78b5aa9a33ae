//! Runs a program on a simulated machine: each simulated thread is a coroutine on the caller's thread.

use crate::blocks::{self, Executed};
use crate::lines::{Access, Lines};
use crate::log::Step;
use crate::machine::{Machine, Model, TICKS};
use crate::owners::Owners;
use crate::report::{LineReport, Names, Report};
use crate::simulation::{Entered, Simulation, here};
use crate::world::{State, ThreadId, Why, World};
use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use std::any::Any;
use std::cell::RefCell;
use std::fmt::{self, Write as _};
use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};
use std::rc::Rc;

/// The stack of a thread that asks for none, as on Linux. Only the pages that it touches take memory.
const STACK: usize = 8 << 20;
/// How many accesses a thread that unwinds may be ahead: see [`Simulation::access`].
const UNWINDING: u32 = 10_000;

type Context = Coroutine<(), (), (), DefaultStack>;

/// How a simulation runs.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Settings {
    /// The machine.
    pub machine: Machine,
    /// The seed. It decides the order of what happens at the same time, and what varies by chance.
    pub seed: u64,
    /// How many steps of the log are kept as text.
    pub keep: usize,
    /// After this number of accesses the run fails, since it may never end.
    pub most_accesses: u64,
    /// How many lines the report has.
    pub lines: usize,
    /// The report says which core had those lines when.
    pub owners: bool,
    /// The code of the first thread takes no time, because it only starts what is simulated and waits for it.
    /// Its accesses cost what they cost.
    pub is_main_free: bool,
}

impl Settings {
    /// Makes the settings for a machine and a seed.
    #[must_use]
    pub fn new(machine: &Machine, seed: u64) -> Self {
        Self {
            machine: machine.clone(),
            seed,
            keep: 0,
            most_accesses: u64::MAX,
            lines: 10,
            owners: false,
            is_main_free: false,
        }
    }
}

/// Why a simulation gave no result.
pub enum Failure {
    /// The closure panicked.
    Panic(Box<dyn Any + Send>),
    /// All threads sleep, and nothing will wake them. The text says what each sleeps for.
    Deadlock(String),
    /// There were more accesses than [`Settings::most_accesses`].
    TooLong(u64),
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Panic(payload) => {
                let text = payload.downcast_ref::<&str>().copied();
                let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
                write!(f, "it panicked: {}", text.unwrap_or("(no text)"))
            }
            Self::Deadlock(threads) => write!(f, "all threads sleep for ever:\n{threads}"),
            Self::TooLong(most) => write!(f, "it did not end within {most} accesses"),
        }
    }
}

/// Runs a closure on a simulated machine, and returns its result and a report. The same seed and machine give
/// the same run.
///
/// ```
/// use warpweft_sim::{Machine, now_ns, run, sleep};
/// let machine = Machine::named("desktop").expect("it is built in");
/// let ((), report) = run(7, &machine, || sleep(3_600_000_000_000));
/// assert!(report.time_ns >= 3_600_000_000_000, "an hour of virtual time");
/// ```
///
/// # Panics
///
/// The closure's panic continues, after the seed was printed. So it does if all threads sleep for ever.
pub fn run<T: 'static>(seed: u64, machine: &Machine, closure: impl FnOnce() -> T + 'static) -> (T, Report) {
    match try_run(&Settings::new(machine, seed), closure) {
        Ok(result) => result,
        Err(failure) => {
            eprintln!(
                "the simulation failed with seed {seed} on machine {:?}; the same seed repeats it: {failure}",
                machine.name
            );
            match failure {
                Failure::Panic(payload) => resume_unwind(payload),
                failure => panic!("{failure}"),
            }
        }
    }
}

/// As [`run`], with more settings, and with failures as values.
///
/// # Errors
///
/// See [`Failure`].
///
/// # Panics
///
/// The caller is in a simulation already, or the system has no memory for a stack.
pub fn try_run<T: 'static>(
    settings: &Settings,
    closure: impl FnOnce() -> T + 'static,
) -> Result<(T, Report), Failure> {
    assert!(here(|_| ()).is_none(), "a simulation runs no simulation");
    let result = Rc::new(RefCell::new(None));
    let sim = Simulation {
        world: RefCell::new(World::new(
            Model::new(&settings.machine),
            settings.seed,
            settings.keep,
        )),
        yielders: RefCell::default(),
    };
    sim.world.borrow_mut().owners = settings.owners.then(Owners::default);
    sim.world.borrow_mut().is_main_free = settings.is_main_free;
    sim.world.borrow_mut().most_accesses = settings.most_accesses;
    let slot = Rc::clone(&result);
    let body = Box::new(move || {
        let ended = catch_unwind(AssertUnwindSafe(closure));
        *slot.borrow_mut() = Some(ended);
    });
    let entered = Entered::new(&sim);
    sim.world.borrow_mut().start(Some("main".into()), STACK, body, 0);
    let failure = sim.execute(settings);
    drop(entered);
    let report = sim.report(settings);
    let ended = result.borrow_mut().take();
    match (failure, ended) {
        (_, Some(Ok(value))) => Ok((value, report)),
        (_, Some(Err(payload))) => Err(Failure::Panic(payload)),
        (Some(failure), None) => Err(failure),
        (None, None) => unreachable!("without a failure the first thread has ended"),
    }
}

impl Simulation {
    /// Runs all threads until the first one has ended.
    fn execute(&self, settings: &Settings) -> Option<Failure> {
        let mut contexts: Vec<Option<Context>> = Vec::new();
        let failure = loop {
            let Some(thread) = self.world.borrow_mut().next() else {
                break Some(Failure::Deadlock(self.sleepers()));
            };
            if contexts.len() <= thread {
                contexts.resize_with(thread + 1, || None);
            }
            let context = contexts[thread].get_or_insert_with(|| self.context(thread));
            let result = context.resume(());
            debug_assert!(!blocks::count(), "the simulator's own code counts");
            if let CoroutineResult::Return(()) = result {
                contexts[thread] = None;
                if thread == 0 {
                    break None;
                }
            }
            if self.world.borrow().accesses > settings.most_accesses {
                break Some(Failure::TooLong(settings.most_accesses));
            }
        };
        // What has not ended stays as it is, as with a process that exits: its stacks hold values that
        // cannot be dropped here.
        contexts.into_iter().flatten().for_each(std::mem::forget);
        for thread in &mut self.world.borrow_mut().threads {
            std::mem::forget(thread.body.take());
        }
        failure
    }

    fn context(&self, thread: ThreadId) -> Context {
        let body = self.world.borrow_mut().threads[thread].body.take();
        let (body, bytes) = body.expect("a thread starts once");
        let stack = DefaultStack::new(bytes).expect("the system has memory for a stack");
        let sim = std::ptr::from_ref(self);
        Coroutine::with_stack(stack, move |yielder: &Yielder<(), ()>, ()| {
            // SAFETY: as in `here`: coroutines run while the simulation does.
            let sim = unsafe { &*sim };
            {
                let mut yielders = sim.yielders.borrow_mut();
                if yielders.len() <= thread {
                    yielders.resize(thread + 1, std::ptr::null());
                }
                yielders[thread] = std::ptr::from_ref(yielder);
            }
            if thread != 0 || !sim.world.borrow().is_main_free {
                blocks::go_on(Executed::start());
            }
            body();
            loop {
                // Their drops may use thread-locals again.
                let (locals, kept) = blocks::uncounted(|| {
                    let mut world = sim.world.borrow_mut();
                    let me = world.me();
                    (std::mem::take(&mut me.locals), std::mem::take(&mut me.kept))
                });
                if locals.is_empty() && kept.is_empty() {
                    break;
                }
                drop((kept, locals));
            }
            // From here on nothing counts: the host goes on in the simulator's code for another thread.
            let executed = blocks::pause();
            if blocks::COUNTED {
                sim.world.borrow_mut().execute(executed);
            }
            sim.turn();
            sim.world.borrow_mut().end();
        })
    }

    /// Gives the host to another thread. The caller has set an event, or sleeps.
    fn suspend(&self) {
        let thread = self.world.borrow().current;
        let yielder = self.yielders.borrow()[thread];
        // SAFETY: the yielder lives at the base of the thread's stack, which is there while the thread runs.
        // Suspending from another stack, of a fiber of the thread, is as good: the registers are saved where
        // the stack pointer is, and restored from there.
        let yielder = unsafe { &*yielder };
        yielder.suspend(());
    }

    /// Waits until nothing happens before the caller's present time.
    pub(crate) fn turn(&self) {
        {
            let mut world = self.world.borrow_mut();
            let now = world.now();
            if now < world.first_event() {
                return;
            }
            let thread = world.current;
            world.set_event(thread, now);
        }
        self.suspend();
    }

    /// Lets the caller compute for a while; others get its CPU when its slice is over.
    pub(crate) fn compute(&self, mut ticks: u64) {
        loop {
            {
                let mut world = self.world.borrow_mut();
                let left = match world.slice_end() {
                    Some(end) => end.saturating_sub(world.now()),
                    None => u64::MAX,
                };
                let part = ticks.min(left);
                world.advance(part);
                ticks -= part;
                if ticks == 0 {
                    return;
                }
                let (thread, now) = (world.current, world.now());
                world.set_event(thread, now);
            }
            self.suspend();
        }
    }

    /// Charges an access to the word at an address, and returns when it takes place: the caller executes it
    /// at once.
    ///
    /// A thread that unwinds does not give the host away, because `std::thread::panicking` belongs to the
    /// host's thread. Only one that makes many accesses meanwhile does, since it may wait for others.
    pub(crate) fn access(&self, address: usize, access: Access, site: &'static Location<'static>) {
        let mut world = self.world.borrow_mut();
        world.accesses += 1;
        if !blocks::COUNTED {
            let step = world.model.step;
            world.advance(step);
        }
        if access == Access::Rmw {
            world.drain_stores();
        }
        let ahead = std::thread::panicking() && {
            let me = world.me();
            me.unwinding += 1;
            me.unwinding < UNWINDING
        };
        if world.accesses > world.most_accesses && !ahead {
            // The run ends here, also if no other thread ever has a turn.
            let (thread, now) = (world.current, world.now());
            world.set_event(thread, now);
            drop(world);
            self.suspend();
            world = self.world.borrow_mut();
        }
        let line = world.lines.number(address);
        let mut turn = ahead;
        loop {
            let (now, core, first) = (world.now(), world.core(), world.first_event());
            let is_first = turn || now < first;
            let thread = world.current;
            if world.lines.is_hit(line, core, access, now) {
                let slack = if world.has_busy_sibling() {
                    0
                } else {
                    world.model.slack
                };
                if is_first || now < first.saturating_add(slack) {
                    let step = match access {
                        Access::Load => Step::Load,
                        Access::Store => Step::Store,
                        Access::Rmw => Step::Rmw,
                    };
                    world.log.note(step, thread, line, now);
                    world.finish(access);
                    return;
                }
            } else if is_first {
                let arrival = world.request(line, access, now);
                let late = arrival - now;
                world.contention.note(line, Lines::offset(address), site, late);
                if access == Access::Store {
                    // It goes into the store buffer, and the core goes on.
                    world.lines.arrive_at_once(line, core, access);
                    let me = world.me();
                    me.stores = me.stores.max(arrival);
                    world.finish(access);
                    return;
                }
                world.me().now = arrival;
                if arrival >= first && !ahead {
                    world.set_event(thread, arrival);
                    drop(world);
                    self.suspend();
                    world = self.world.borrow_mut();
                }
                world.lines.arrive(line, core, access);
                world.finish(access);
                return;
            }
            world.set_event(thread, now);
            drop(world);
            self.suspend();
            world = self.world.borrow_mut();
            turn = true;
        }
    }

    /// Charges a range of memory that is read or written as a whole.
    pub(crate) fn touch(&self, address: usize, bytes: usize, access: Access) {
        self.turn();
        let mut world = self.world.borrow_mut();
        let world = &mut *world;
        let (thread, core, now) = (world.current, world.core(), world.now());
        let range = (address, bytes);
        let time = world
            .lines
            .touch(&world.model, &mut world.random, core, range, access, now);
        world.log.note(Step::Touch, thread, bytes, now);
        world.me().now += time;
    }

    /// A full fence: waits for the caller's stores.
    pub(crate) fn fence(&self) {
        let mut world = self.world.borrow_mut();
        let cost = world.model.fence;
        world.drain_stores();
        world.advance(cost);
    }

    /// Sleeps until another thread wakes the caller, or until a deadline. Returns true if it was woken. The
    /// caller has the turn.
    pub(crate) fn sleep(&self, why: Why, deadline: Option<u64>) -> bool {
        self.world.borrow_mut().fall_asleep(why, deadline);
        self.suspend();
        self.world.borrow_mut().me().woken
    }

    /// Charges the call of the kernel that wakes threads, and waits for the caller's turn.
    pub(crate) fn pay(&self, cost: impl FnOnce(&Model) -> u64) {
        let mut world = self.world.borrow_mut();
        let ticks = cost(&world.model);
        world.advance(ticks);
    }

    /// Gives the CPU to another thread that waits for it.
    pub(crate) fn yield_now(&self) {
        self.pay(|model| model.yield_cpu);
        self.turn();
        {
            let mut world = self.world.borrow_mut();
            if world.waiting_here() == 0 {
                return;
            }
            let (thread, now) = (world.current, world.now());
            world.requeue(thread, now);
        }
        self.suspend();
    }

    /// Restricts the caller to some CPUs; false if there are none of that number.
    pub(crate) fn pin(&self, cpus: &[usize]) -> bool {
        self.turn();
        let moved = {
            let mut world = self.world.borrow_mut();
            let before = world.me().cpu;
            if !world.pin(cpus) {
                return false;
            }
            !cpus.contains(&before)
        };
        if moved {
            self.suspend();
        }
        true
    }

    fn sleepers(&self) -> String {
        let world = self.world.borrow();
        let mut text = String::new();
        for (number, thread) in world.threads.iter().enumerate() {
            if thread.state != State::Ended {
                let name = thread.name.as_deref().unwrap_or("");
                let _ = writeln!(text, "  thread {number} {name:?}: sleeps for {:?}", thread.why);
            }
        }
        text
    }

    fn report(&self, settings: &Settings) -> Report {
        let world = self.world.borrow();
        let mut names = Names::default();
        let ended = world.threads.iter().skip(1);
        let lines = world.contention.lines(settings.lines, &mut |site| names.of(site));
        let first = |line: &LineReport| {
            line.places
                .first()
                .map_or_else(String::new, |place| place.name.clone())
        };
        let named: Vec<_> = lines.iter().map(|line| (line.number, first(line))).collect();
        Report {
            machine: settings.machine.name.clone(),
            seed: settings.seed,
            time_ns: world.threads.first().map_or(0, |main| main.now) / TICKS,
            steps: world.log.steps(),
            hash: world.log.hash(),
            log: world.log.text(),
            accesses: world.accesses,
            misses: world.misses,
            switches: world.switches,
            wakes: world.wakes,
            left: ended.filter(|thread| thread.state != State::Ended).count(),
            waited_ns: world.waited / TICKS,
            hooks: world.hooks.report(),
            owners: world
                .owners
                .as_ref()
                .map(|owners| owners.of(&named))
                .unwrap_or_default(),
            lines,
        }
    }
}
