//! The state of a simulated machine: threads, CPUs, and what happens next.
//!
//! ```text
//!              wake, a CPU is idle                    falls asleep
//!   asleep ────────────────────────▶ runs on a CPU ─────────────────▶ asleep
//!      │                               ▲       │
//!      │ wake, all are busy            │ turn  │ its slice is over, and others wait
//!      └──────────────────▶ waits for a CPU ◀──┘
//! ```
//!
//! # Invariants
//!
//! - A CPU runs one thread at a time. A thread that runs, and is not the one that the host executes just now,
//!   has exactly one valid event: its next step.
//! - Events happen in the order of their times. Among equal times the seed decides.
//! - Time of a thread never goes back.

use crate::hooks::Hooks;
use crate::lines::Lines;
use crate::log::{Log, Step};
use crate::machine::Model;
use crate::owners::Owners;
use crate::report::Contention;
use std::any::Any;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::rc::Rc;

/// A thread by its number.
pub(crate) type ThreadId = usize;

/// Where a thread is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Runs,
    /// In the line of its CPU.
    Waits,
    Asleep,
    Ended,
}

/// What a thread is asleep for, for the report of a deadlock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    Nothing,
    Lock,
    Event,
    Join,
    Time,
}

pub(crate) struct Thread {
    pub(crate) name: Option<String>,
    pub(crate) state: State,
    pub(crate) now: u64,
    pub(crate) cpu: usize,
    /// The CPUs that it may use; `None` is all.
    pub(crate) allowed: Option<Rc<[usize]>>,
    /// Until then its stores are on their way; a read-modify-write and a fence wait for them.
    pub(crate) stores: u64,
    /// Until then its last stores and read-modify-writes take. Other code runs meanwhile.
    pub(crate) busy: u64,
    /// When its last store to a line that it has leaves the store buffer.
    pub(crate) retired: u64,
    /// What interrupts have taken, and it has not paid yet.
    pub(crate) debt: u64,
    /// Changes with each event of the thread, so that older ones are known.
    pub(crate) events: u32,
    /// It was woken, and not by the end of its time.
    pub(crate) woken: bool,
    pub(crate) why: Why,
    pub(crate) body: Option<(Box<dyn FnOnce()>, usize)>,
    pub(crate) locals: Vec<Option<Rc<dyn Any>>>,
    pub(crate) kept: Vec<Box<dyn Any>>,
    pub(crate) joiners: Vec<ThreadId>,
    /// Accesses while it unwinds: until there are many, it runs ahead.
    pub(crate) unwinding: u32,
    /// The named part of the program that it is in.
    pub(crate) hook: Option<usize>,
}

#[derive(Debug, Default, Clone)]
struct Cpu {
    runs: Option<ThreadId>,
    line: VecDeque<ThreadId>,
    slice_end: u64,
}

/// `(time, the seed's choice, thread, the thread's count of events)`.
type Event = Reverse<(u64, u32, ThreadId, u32)>;

pub(crate) struct World {
    pub(crate) model: Model,
    pub(crate) lines: Lines,
    pub(crate) threads: Vec<Thread>,
    cpus: Vec<Cpu>,
    events: BinaryHeap<Event>,
    pub(crate) random: fastrand::Rng,
    pub(crate) log: Log,
    pub(crate) contention: Contention,
    pub(crate) hooks: Hooks,
    /// The code of the first thread takes no time.
    pub(crate) is_main_free: bool,
    /// The arrivals of lines, if they are wanted.
    pub(crate) owners: Option<Owners>,
    pub(crate) current: ThreadId,
    pub(crate) switches: u64,
    pub(crate) wakes: u64,
    pub(crate) accesses: u64,
    /// After this number the run fails.
    pub(crate) most_accesses: u64,
    pub(crate) misses: u64,
    /// How long threads waited for lines and for their stores, in ticks.
    pub(crate) waited: u64,
}

impl World {
    pub(crate) fn new(model: Model, seed: u64, keep: usize) -> Self {
        Self {
            lines: Lines::new(&model),
            threads: Vec::new(),
            cpus: vec![Cpu::default(); model.cpus],
            events: BinaryHeap::new(),
            random: fastrand::Rng::with_seed(seed),
            log: Log::new(keep),
            contention: Contention::default(),
            hooks: Hooks::default(),
            is_main_free: false,
            owners: None,
            current: 0,
            switches: 0,
            wakes: 0,
            accesses: 0,
            most_accesses: u64::MAX,
            misses: 0,
            waited: 0,
            model,
        }
    }

    pub(crate) fn me(&mut self) -> &mut Thread {
        &mut self.threads[self.current]
    }

    /// The present time of the thread that the host executes.
    pub(crate) fn now(&self) -> u64 {
        self.threads[self.current].now
    }

    /// The core of that thread.
    pub(crate) fn core(&self) -> usize {
        self.threads[self.current].cpu % self.model.cores
    }

    /// Returns true if the other hardware thread of its core runs.
    pub(crate) fn has_busy_sibling(&self) -> bool {
        if self.model.cpus == self.model.cores {
            return false;
        }
        let cpu = self.threads[self.current].cpu;
        self.cpus[(cpu + self.model.cores) % self.model.cpus]
            .runs
            .is_some()
    }

    /// The time of the first event of another thread.
    pub(crate) fn first_event(&mut self) -> u64 {
        while let Some(&Reverse((time, _, thread, events))) = self.events.peek() {
            if self.threads[thread].events == events {
                return time;
            }
            self.events.pop();
        }
        u64::MAX
    }

    /// Sets the next event of a thread; those before it are void.
    pub(crate) fn set_event(&mut self, thread: ThreadId, time: u64) {
        let choice = self.random.u32(..);
        let state = &mut self.threads[thread];
        state.events = state.events.wrapping_add(1);
        self.events.push(Reverse((time, choice, thread, state.events)));
    }

    fn void_events(&mut self, thread: ThreadId) {
        let state = &mut self.threads[thread];
        state.events = state.events.wrapping_add(1);
    }

    /// Returns the thread that is to be executed next; `None` if none ever will be.
    pub(crate) fn next(&mut self) -> Option<ThreadId> {
        loop {
            let Reverse((time, _, thread, events)) = self.events.pop()?;
            if self.threads[thread].events != events {
                continue;
            }
            match self.threads[thread].state {
                State::Runs => {
                    if self.gives_way(thread, time) {
                        continue;
                    }
                    let state = &mut self.threads[thread];
                    state.now = state.now.max(time);
                    self.switches += 1;
                    self.current = thread;
                    return Some(thread);
                }
                // Its time is over.
                State::Asleep => self.make_ready(thread, time),
                State::Waits | State::Ended => {}
            }
        }
    }

    /// Returns true if the slice of a thread is over and another one takes its CPU.
    fn gives_way(&mut self, thread: ThreadId, time: u64) -> bool {
        let cpu = self.threads[thread].cpu;
        if self.cpus[cpu].line.is_empty() || time < self.cpus[cpu].slice_end {
            return false;
        }
        self.requeue(thread, time);
        true
    }

    /// Puts a thread that runs to the end of its CPU's line.
    pub(crate) fn requeue(&mut self, thread: ThreadId, time: u64) {
        let cpu = self.threads[thread].cpu;
        let state = &mut self.threads[thread];
        state.state = State::Waits;
        state.now = state.now.max(time);
        self.void_events(thread);
        self.cpus[cpu].line.push_back(thread);
        self.cpus[cpu].runs = None;
        self.next_of(cpu, time);
    }

    /// How many wait for the CPU of the present thread.
    pub(crate) fn waiting_here(&self) -> usize {
        self.cpus[self.threads[self.current].cpu].line.len()
    }

    /// The end of the present thread's slice, if others wait for its CPU.
    pub(crate) fn slice_end(&self) -> Option<u64> {
        let cpu = &self.cpus[self.threads[self.current].cpu];
        (!cpu.line.is_empty()).then_some(cpu.slice_end)
    }

    /// An idle CPU takes the next thread of its line, or of the longest line of another CPU.
    fn next_of(&mut self, cpu: usize, time: u64) {
        let thread = match self.cpus[cpu].line.pop_front() {
            Some(thread) => thread,
            None => match self.pull(cpu) {
                Some(thread) => thread,
                None => return,
            },
        };
        let start = time.max(self.threads[thread].now) + self.model.switch;
        self.run_on(thread, cpu, start);
    }

    fn pull(&mut self, cpu: usize) -> Option<ThreadId> {
        let may = |world: &Self, thread: ThreadId| {
            let allowed = &world.threads[thread].allowed;
            allowed.as_ref().is_none_or(|cpus| cpus.contains(&cpu))
        };
        let longest = (0..self.cpus.len())
            .filter(|&other| self.cpus[other].line.iter().any(|&thread| may(self, thread)))
            .max_by_key(|&other| (self.cpus[other].line.len(), Reverse(other)))?;
        let place = self.cpus[longest]
            .line
            .iter()
            .position(|&thread| may(self, thread))?;
        self.cpus[longest].line.remove(place)
    }

    fn run_on(&mut self, thread: ThreadId, cpu: usize, start: u64) {
        debug_assert!(self.cpus[cpu].runs.is_none(), "a CPU runs one thread");
        self.cpus[cpu].runs = Some(thread);
        self.cpus[cpu].slice_end = start + self.model.slice;
        let state = &mut self.threads[thread];
        state.state = State::Runs;
        state.cpu = cpu;
        state.now = start;
        self.log.note(Step::Switch, thread, cpu, start);
        self.set_event(thread, start);
    }

    /// Gives a thread that has slept a CPU, or a place in a line.
    fn make_ready(&mut self, thread: ThreadId, time: u64) {
        self.void_events(thread);
        let time = time.max(self.threads[thread].now);
        match self.idle_cpu(thread) {
            Some(cpu) => self.run_on(thread, cpu, time),
            None => {
                let cpu = self.shortest_line(thread);
                let state = &mut self.threads[thread];
                state.state = State::Waits;
                state.now = time;
                state.cpu = cpu;
                self.cpus[cpu].line.push_back(thread);
            }
        }
    }

    /// The idle CPU that the system would choose: where the thread was; a core of its own, as near as
    /// possible; else half a core.
    fn idle_cpu(&self, thread: ThreadId) -> Option<usize> {
        let state = &self.threads[thread];
        let (cores, cpus) = (self.model.cores, self.model.cpus);
        let is_idle = |cpu: usize| self.cpus[cpu].runs.is_none();
        let is_free = |cpu: usize| is_idle(cpu) && (cpus == cores || is_idle((cpu + cores) % cpus));
        let last = state.cpu;
        let distance = |cpu: usize| (self.model.distance(last % cores, cpu % cores), cpu);
        match &state.allowed {
            Some(allowed) => allowed
                .iter()
                .copied()
                .filter(|&cpu| is_idle(cpu))
                .min_by_key(|&cpu| (!is_free(cpu), distance(cpu))),
            None if is_free(last) => Some(last),
            None => (0..cpus)
                .filter(|&cpu| is_idle(cpu))
                .min_by_key(|&cpu| (!is_free(cpu), distance(cpu))),
        }
    }

    fn shortest_line(&self, thread: ThreadId) -> usize {
        let length = |cpu: usize| (self.cpus[cpu].line.len(), cpu);
        let all = 0..self.model.cpus;
        let shortest = match &self.threads[thread].allowed {
            Some(allowed) => allowed.iter().copied().min_by_key(|&cpu| length(cpu)),
            None => all.min_by_key(|&cpu| length(cpu)),
        };
        shortest.unwrap_or(0)
    }

    /// Adds a thread that begins at `time`.
    pub(crate) fn start(
        &mut self,
        name: Option<String>,
        stack: usize,
        body: Box<dyn FnOnce()>,
        time: u64,
    ) -> ThreadId {
        let thread = self.threads.len();
        let (allowed, cpu) = self
            .threads
            .get(self.current)
            .map_or((None, 0), |parent| (parent.allowed.clone(), parent.cpu));
        self.threads.push(Thread {
            name,
            state: State::Asleep,
            now: time,
            cpu,
            allowed,
            stores: 0,
            busy: 0,
            retired: 0,
            debt: 0,
            events: 0,
            woken: false,
            why: Why::Nothing,
            body: Some((body, stack)),
            locals: Vec::new(),
            kept: Vec::new(),
            joiners: Vec::new(),
            unwinding: 0,
            hook: None,
        });
        self.log.note(Step::Start, thread, cpu, time);
        self.make_ready(thread, time);
        thread
    }

    /// The present thread falls asleep, until it is woken or, if given, until `deadline`. The caller suspends
    /// it.
    pub(crate) fn fall_asleep(&mut self, why: Why, deadline: Option<u64>) {
        let (thread, now) = (self.current, self.now());
        self.log.note(Step::Sleep, thread, why as usize, now);
        let me = self.me();
        me.state = State::Asleep;
        me.woken = false;
        me.why = why;
        self.void_events(thread);
        if let Some(deadline) = deadline {
            self.set_event(thread, deadline.max(now + 1));
        }
        self.leave_cpu(now);
    }

    fn leave_cpu(&mut self, now: u64) {
        let cpu = self.threads[self.current].cpu;
        self.cpus[cpu].runs = None;
        self.next_of(cpu, now);
    }

    /// Wakes a thread that is asleep, or has just reached its deadline; the caller has paid for the call.
    pub(crate) fn wake(&mut self, thread: ThreadId) {
        if self.threads[thread].state != State::Asleep {
            // Its time is over, and it has not run since. It tells of this call, which wakes nobody else and
            // would be lost.
            self.threads[thread].woken = true;
            return;
        }
        let now = self.now();
        self.wakes += 1;
        self.log.note(Step::Wake, self.current, thread, now);
        let latency = self.model.vary(self.model.wake_latency, &mut self.random).max(1);
        self.threads[thread].woken = true;
        self.make_ready(thread, now + latency);
    }

    /// The present thread ends.
    pub(crate) fn end(&mut self) {
        let (thread, now) = (self.current, self.now());
        self.log.note(Step::End, thread, 0, now);
        self.me().state = State::Ended;
        self.void_events(thread);
        let joiners = std::mem::take(&mut self.me().joiners);
        for joiner in joiners {
            self.wake(joiner);
        }
        self.leave_cpu(now);
    }

    /// Changes the CPUs that the present thread may use, and moves it there. Returns false if there are none.
    pub(crate) fn pin(&mut self, cpus: &[usize]) -> bool {
        let known: Rc<[usize]> = cpus
            .iter()
            .copied()
            .filter(|&cpu| cpu < self.model.cpus)
            .collect();
        if known.is_empty() {
            return false;
        }
        let (thread, now) = (self.current, self.now());
        let stays = known.contains(&self.threads[thread].cpu);
        self.me().allowed = Some(known);
        if !stays {
            self.me().state = State::Asleep;
            self.leave_cpu(now);
            let start = now + self.model.switch;
            self.make_ready(thread, start);
        }
        true
    }

    /// Interrupts every CPU that runs, but the present one.
    pub(crate) fn interrupt_all(&mut self) {
        let here = self.threads[self.current].cpu;
        for cpu in (0..self.cpus.len()).filter(|&cpu| cpu != here) {
            if let Some(thread) = self.cpus[cpu].runs {
                self.threads[thread].debt += self.model.interrupt;
            }
        }
    }
}
