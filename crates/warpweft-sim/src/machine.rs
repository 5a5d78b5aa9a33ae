//! Machines: how many CPUs there are, what they share, and what each step costs, with the source of each
//! number.

use serde::Deserialize;
use std::fmt;
use std::ops::Deref;
use std::thread;

/// The parts of the virtual clock's unit in a nanosecond.
pub(crate) const TICKS: u64 = 16;
/// Blocks are that much shorter than ticks.
const PARTS: u64 = 64;
/// A line's readers are kept in as many bits.
pub(crate) const MOST_CORES: usize = 256;

/// A machine as its file describes it.
///
/// ```
/// let machine = warpweft_sim::Machine::named("epyc-7702x2").expect("it is built in");
/// assert_eq!(machine.cores(), 128);
/// assert_eq!(machine.cpus(), 256);
/// ```
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// The machine's name.
    pub name: String,
    /// What there is.
    pub shape: Shape,
    /// What each step costs.
    pub cost: Costs,
}

/// How many parts the machine has.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// Sockets; each has memory of its own.
    pub sockets: usize,
    /// Last-level caches of a socket.
    pub caches: usize,
    /// Cores of a last-level cache.
    pub cores: usize,
    /// Hardware threads of a core.
    pub threads: usize,
    /// Where that is written.
    pub source: String,
}

/// A number, and where it comes from.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cost {
    /// Nanoseconds; for `smt` and `jitter` a plain number.
    pub value: f64,
    /// Where it is written or how it was measured; `assumed` says that it is a guess.
    pub source: String,
}

impl Cost {
    fn in_parts(&self, parts: f64) -> u64 {
        (self.value * parts).round() as u64
    }
}

macro_rules! costs {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// What each step costs, in nanoseconds.
        #[derive(Debug, Clone, PartialEq, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct Costs {
            $($(#[$doc])* pub $name: Cost,)*
        }

        impl Costs {
            /// All numbers by name.
            pub fn all(&self) -> impl Iterator<Item = (&'static str, &Cost)> {
                [$((stringify!($name), &self.$name)),*].into_iter()
            }

            fn all_mut(&mut self) -> impl Iterator<Item = (&'static str, &mut Cost)> {
                [$((stringify!($name), &mut self.$name)),*].into_iter()
            }

            fn ticks(&self) -> Ticks {
                Ticks { $($name: self.$name.in_parts(TICKS as f64)),* }
            }
        }

        /// The costs in ticks.
        #[derive(Debug, Clone)]
        pub(crate) struct Ticks {
            $($(#[$doc])* pub(crate) $name: u64,)*
        }
    };
}

costs! {
    /// Other instructions between two accesses, in a program that does not report its blocks.
    step,
    /// A basic block, in a program that reports them.
    block,
    /// A wrong guess of the branch predictor, in such a program.
    wrong_guess,
    /// A load that finds the line in the core's cache.
    load_hit,
    /// A store that finds the line there.
    store_hit,
    /// A read-modify-write that finds the line there.
    rmw_hit,
    /// A full fence.
    fence,
    /// A spin-loop hint.
    pause,
    /// A transfer between two cores of one last-level cache.
    same_cache,
    /// A transfer between two last-level caches of a socket.
    same_socket,
    /// A transfer between sockets.
    other_socket,
    /// A load from memory.
    memory,
    /// How long a core keeps a line that has moved to it, if others wait.
    hold,
    /// How long one request keeps a line's home from the next.
    occupancy,
    /// How long one line keeps the link between sockets from the next.
    link,
    /// Each further line of a range, whose transfers overlap.
    stream,
    /// A reading of the clock.
    clock,
    /// A system call that gives way, without a switch.
    yield_cpu,
    /// A switch from one thread to another on a CPU.
    switch,
    /// The call by which a thread falls asleep.
    futex_wait,
    /// The call that wakes a thread, for the caller.
    futex_wake,
    /// From that call until the sleeper runs on an idle CPU.
    wake_latency,
    /// The start of a thread, for the caller.
    thread_start,
    /// The call of a process-wide barrier, for the caller.
    barrier,
    /// Its interrupt, for each CPU that runs.
    interrupt,
    /// How long a thread runs if others wait for its CPU.
    slice,
    /// The factor of computing on a core whose other hardware thread runs, too.
    smt,
    /// How much transfers and wake-ups vary by chance: 0.05 is up to 5 % less or more.
    jitter,
}

/// A machine's file makes no sense.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineError(String);

impl fmt::Display for MachineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for MachineError {}

/// The machines that are built in.
const BUILT_IN: [(&str, &str); 4] = [
    ("epyc-7702x2", include_str!("../machines/epyc-7702x2.toml")),
    ("epyc-7662x2", include_str!("../machines/epyc-7662x2.toml")),
    ("xeon-8160x4", include_str!("../machines/xeon-8160x4.toml")),
    ("desktop", include_str!("../machines/desktop.toml")),
];

impl Machine {
    /// Reads a machine's file.
    ///
    /// # Errors
    ///
    /// The text is no such file, a number is missing, has no source, or makes no sense.
    pub fn parse(text: &str) -> Result<Self, MachineError> {
        // On a thread of its own. The parser's tables have a random order, and so has what they free. In the
        // heap of this thread that would decide which objects of a simulated program share a line, and a seed
        // would not give the same run again.
        let read = || basic_toml::from_str::<Self>(text).map_err(|error| error.to_string());
        let machine = thread::scope(|scope| {
            let reader = thread::Builder::new().spawn_scoped(scope, read);
            let reader = reader.map_err(|error| format!("a thread to read the machine: {error}"))?;
            reader
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        let machine = machine.map_err(MachineError)?;
        machine.check()?;
        Ok(machine)
    }

    /// Returns a machine that is built in.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let (_, text) = BUILT_IN.iter().find(|(built_in, _)| *built_in == name)?;
        Self::parse(text).ok()
    }

    /// Returns the names of the machines that are built in.
    #[must_use]
    pub fn names() -> Vec<&'static str> {
        BUILT_IN.iter().map(|(name, _)| *name).collect()
    }

    /// Returns the number of cores.
    #[must_use]
    pub fn cores(&self) -> usize {
        self.shape.sockets * self.shape.caches * self.shape.cores
    }

    /// Returns the number of CPUs: of hardware threads. CPUs `0..cores` are the first of each core.
    #[must_use]
    pub fn cpus(&self) -> usize {
        self.cores() * self.shape.threads
    }

    /// Changes a number, for a study of what depends on it.
    ///
    /// # Errors
    ///
    /// There is no such number, or the machine makes no sense with it.
    pub fn set(&mut self, name: &str, value: f64) -> Result<(), MachineError> {
        let known = self.cost.all_mut().find(|(known, _)| *known == name);
        let Some((_, cost)) = known else {
            let names: Vec<_> = self.cost.all_mut().map(|(known, _)| known).collect();
            let text = format!("there is no cost {name:?}; the costs are {}", names.join(", "));
            return Err(MachineError(text));
        };
        *cost = Cost {
            value,
            source: "set by hand".into(),
        };
        self.check()
    }

    fn check(&self) -> Result<(), MachineError> {
        let wrong = |text: String| Err(MachineError(format!("machine {:?}: {text}", self.name)));
        let shape = &self.shape;
        let parts = [shape.sockets, shape.caches, shape.cores, shape.threads];
        if parts.contains(&0) || parts.iter().any(|&part| part > MOST_CORES) {
            return wrong(format!("each part of the shape is from 1 to {MOST_CORES}"));
        }
        if self.cores() > MOST_CORES || shape.threads > 2 {
            return wrong(format!(
                "at most {MOST_CORES} cores of at most 2 threads are simulated"
            ));
        }
        for (name, cost) in self.cost.all() {
            if !(cost.value.is_finite() && (0.0..=1e9).contains(&cost.value)) {
                return wrong(format!("{name} is {}, and not from 0 to 1e9", cost.value));
            }
            if cost.source.trim().is_empty() {
                return wrong(format!("{name} has no source"));
            }
        }
        let cost = &self.cost;
        if cost.same_cache.value <= 0.0
            || cost.same_cache.value > cost.same_socket.value
            || cost.same_socket.value > cost.other_socket.value
        {
            return wrong(format!(
                "0 < same_cache <= same_socket <= other_socket does not hold: they are {}, {} and {}",
                cost.same_cache.value, cost.same_socket.value, cost.other_socket.value
            ));
        }
        if cost.smt.value < 1.0 || cost.jitter.value > 0.5 || cost.slice.value < 1000.0 {
            return wrong("smt is at least 1, jitter at most 0.5, and a slice at least 1000 ns".into());
        }
        Ok(())
    }
}

/// What the model calculates with: the costs in ticks, `block` in 1/64 of one, `smt` and `jitter` in 1/1024.
#[derive(Debug, Clone)]
pub(crate) struct Model {
    pub(crate) machine: Machine,
    pub(crate) cores: usize,
    pub(crate) cpus: usize,
    ticks: Ticks,
    /// The shortest time from a request until the line leaves its owner: so far a thread may run ahead on
    /// hits.
    pub(crate) slack: u64,
}

impl Deref for Model {
    type Target = Ticks;

    fn deref(&self) -> &Ticks {
        &self.ticks
    }
}

impl Model {
    pub(crate) fn new(machine: &Machine) -> Self {
        let mut ticks = machine.cost.ticks();
        // These take time, or a loop of them would never let others proceed.
        for ticks in [
            &mut ticks.step,
            &mut ticks.same_cache,
            &mut ticks.clock,
            &mut ticks.yield_cpu,
            &mut ticks.wake_latency,
        ] {
            *ticks = (*ticks).max(1);
        }
        ticks.block = machine.cost.block.in_parts((TICKS * PARTS) as f64).max(PARTS / 2);
        ticks.smt = machine.cost.smt.in_parts(1024.0);
        ticks.jitter = machine.cost.jitter.in_parts(1024.0);
        Self {
            cores: machine.cores(),
            cpus: machine.cpus(),
            slack: (ticks.same_cache - ticks.same_cache * ticks.jitter / 1024) / 2,
            ticks,
            machine: machine.clone(),
        }
    }

    /// The number of a core's last-level cache.
    pub(crate) fn cache_of(&self, core: usize) -> usize {
        core / self.machine.shape.cores
    }

    /// The number of a core's socket.
    pub(crate) fn socket_of(&self, core: usize) -> usize {
        self.cache_of(core) / self.machine.shape.caches
    }

    /// How long a line takes from one core to another.
    pub(crate) fn distance(&self, from: usize, to: usize) -> u64 {
        if from == to {
            0
        } else if self.cache_of(from) == self.cache_of(to) {
            self.same_cache
        } else if self.socket_of(from) == self.socket_of(to) {
            self.same_socket
        } else {
            self.other_socket
        }
    }

    /// The time of this number of blocks.
    pub(crate) fn of_blocks(&self, blocks: u64) -> u64 {
        (blocks * self.block + PARTS / 2) / PARTS
    }

    /// A time that varies by chance.
    pub(crate) fn vary(&self, ticks: u64, random: &mut fastrand::Rng) -> u64 {
        if self.jitter == 0 {
            return ticks;
        }
        let part = random.u64(0..=2 * self.jitter);
        ticks + ticks * part / 1024 - ticks * self.jitter / 1024
    }
}

#[cfg(test)]
mod tests {
    use super::{Machine, Model};

    #[test]
    fn each_machine_that_is_built_in_is_read_and_names_its_sources() {
        for name in Machine::names() {
            let machine = Machine::named(name).unwrap_or_else(|| panic!("{name} is not read"));
            assert!(machine.cost.all().all(|(_, cost)| !cost.source.is_empty()));
        }
        assert_eq!(Machine::named("none"), None);
    }

    #[test]
    fn distances_follow_the_shape() {
        let model = Model::new(&Machine::named("epyc-7702x2").expect("built in"));
        let ns = |from, to| model.distance(from, to) / super::TICKS;
        assert_eq!((ns(5, 5), ns(0, 3), ns(3, 4), ns(63, 64)), (0, 24, 94, 197));
        assert_eq!((model.socket_of(63), model.socket_of(64)), (0, 1));
    }

    #[test]
    fn what_makes_no_sense_is_an_error_that_says_what() {
        let text = include_str!("../machines/desktop.toml");
        let error = |from: &str, to: &str| {
            assert!(text.contains(from), "{from}");
            Machine::parse(&text.replacen(from, to, 1))
                .expect_err("wrong")
                .to_string()
        };
        assert!(error("[cost.pause]", "[cost.paus]").contains("paus"));
        assert!(error("sockets = 1", "sockets = 0").contains("shape"));
        assert!(error("threads = 2", "threads = 3").contains("2 threads"));
        let mut machine = Machine::parse(text).expect("it is right");
        for (name, value) in [
            ("pause", -1.0),
            ("same_cache", 0.0),
            ("pause", f64::NAN),
            ("smt", 0.5),
        ] {
            let mut wrong = machine.clone();
            assert!(wrong.set(name, value).is_err(), "{name} = {value}");
        }
        assert!(machine.set("none", 1.0).is_err());
        machine.set("memory", 90.0).expect("it makes sense");
        assert_eq!(machine.cost.memory.source, "set by hand");
    }
}
