//! The state of each cache line, and how long an access to it takes.
//!
//! ```text
//!            load miss: the owner's copy becomes shared          store or RMW: every other copy goes
//!  exclusive ─────────────────────────────────────▶ shared ────────────────────────────────▶ exclusive
//! ```
//!
//! A miss has two phases. At the request the line's home notes it, behind those before it, and calculates
//! when the line leaves its owner and when it arrives. At the arrival the copy changes hands, and the access
//! takes place. Until the line leaves, its owner goes on.
//!
//! ```text
//!  request ──── half the distance ────▶ leaves the owner ──── the other half ────▶ arrives
//!     ├─ behind one that has the line and only clears other copies:
//!     │                                 leaves once that one's access is over
//!     └─ behind one to which the line moves: that one holds it for a while, and the home is told first
//!             arrival + hold ─────────▶ leaves ───────────── the whole distance ────▶ arrives
//! ```
//!
//! # Invariants
//!
//! - Lines are numbered in the order of their first access: addresses decide nothing.
//! - Requests for the same line are answered in the order in which they were made.
//! - Caches have no end: a line leaves a core only because another one wants it.

use crate::machine::Model;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

/// The bits of an address within a line.
const LINE_BITS: u32 = 6;
/// No core.
const NOBODY: u16 = u16::MAX;

/// What an access does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Load,
    Store,
    Rmw,
}

/// A set of cores.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Cores([u64; 4]);

impl Cores {
    fn only(core: usize) -> Self {
        let mut cores = Self::default();
        cores.add(core);
        cores
    }

    fn add(&mut self, core: usize) {
        self.0[core / 64] |= 1 << (core % 64);
    }

    fn has(&self, core: usize) -> bool {
        self.0[core / 64] & 1 << (core % 64) != 0
    }

    fn iter(&self) -> impl Iterator<Item = usize> {
        self.0.iter().enumerate().flat_map(|(part, &bits)| {
            let mut left = bits;
            std::iter::from_fn(move || {
                let bit = (left != 0).then(|| left.trailing_zeros() as usize)?;
                left &= left - 1;
                Some(64 * part + bit)
            })
        })
    }
}

/// One line.
#[derive(Debug, Clone)]
pub(crate) struct CacheLine {
    /// The core that wrote last, or read first; it answers requests.
    owner: u16,
    /// Only the owner has a copy.
    exclusive: bool,
    /// The cores that have a copy, the owner among them.
    sharers: Cores,
    /// The home answers the next request from then on.
    home_free: u64,
    /// The last exclusive request.
    last: Exclusive,
    /// When the line leaves its owner for each request that has not arrived, and whether every copy goes.
    leaves: VecDeque<(u64, bool)>,
}

/// A request for a line with which all other copies go.
#[derive(Debug, Clone, Copy)]
struct Exclusive {
    core: u16,
    arrival: u64,
    /// The core had no copy, and so the line moves.
    moves: bool,
}

impl CacheLine {
    fn new() -> Self {
        Self {
            owner: NOBODY,
            exclusive: false,
            sharers: Cores::default(),
            home_free: 0,
            last: Exclusive {
                core: NOBODY,
                arrival: 0,
                moves: false,
            },
            leaves: VecDeque::new(),
        }
    }

    /// Returns true if the core has at `now` what it needs for the access.
    fn is_hit(&self, core: usize, access: Access, now: u64) -> bool {
        if access == Access::Load {
            let has_gone = |&(leaves, all): &(u64, bool)| all && leaves <= now;
            self.sharers.has(core) && !self.leaves.iter().any(has_gone)
        } else {
            let has_gone = |&(leaves, _): &(u64, bool)| leaves <= now;
            self.exclusive && usize::from(self.owner) == core && !self.leaves.front().is_some_and(has_gone)
        }
    }

    /// The arrival of a line at `core`: it gets its copy.
    fn arrive(&mut self, core: usize, access: Access) {
        if access == Access::Load {
            if self.owner == NOBODY {
                self.owner = core as u16;
            }
            self.sharers.add(core);
            // The first reader has it alone, and may write without asking.
            self.exclusive = self.sharers == Cores::only(core) && usize::from(self.owner) == core;
        } else {
            self.owner = core as u16;
            self.exclusive = true;
            self.sharers = Cores::only(core);
        }
    }
}

/// Mixes addresses; the standard library's hash would take longer than the model.
#[derive(Debug, Default)]
pub(crate) struct Mix(u64);

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_usize(byte.into()));
    }

    fn write_usize(&mut self, number: usize) {
        let mixed = (self.0 ^ number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ mixed >> 29;
    }
}

/// All lines that were accessed.
#[derive(Debug)]
pub(crate) struct Lines {
    numbers: HashMap<usize, u32, BuildHasherDefault<Mix>>,
    lines: Vec<CacheLine>,
    /// The links between sockets, by the pair: free from then on.
    links: Vec<u64>,
    sockets: usize,
}

impl Lines {
    pub(crate) fn new(model: &Model) -> Self {
        let sockets = model.machine.shape.sockets;
        Self {
            numbers: HashMap::default(),
            lines: Vec::new(),
            links: vec![0; sockets * sockets],
            sockets,
        }
    }

    /// Returns the number of the line at an address.
    pub(crate) fn number(&mut self, address: usize) -> usize {
        let next = self.lines.len();
        let number = *self.numbers.entry(address >> LINE_BITS).or_insert(next as u32) as usize;
        if number == next {
            self.lines.push(CacheLine::new());
        }
        number
    }

    /// The number of bytes of an address within its line.
    pub(crate) fn offset(address: usize) -> usize {
        address & ((1 << LINE_BITS) - 1)
    }

    /// The addresses of the lines of a range.
    pub(crate) fn of_range(address: usize, bytes: usize) -> impl Iterator<Item = usize> {
        let last = address.saturating_add(bytes.saturating_sub(1)) >> LINE_BITS;
        (address >> LINE_BITS..=last)
            .take(if bytes == 0 { 0 } else { usize::MAX })
            .map(|line| line << LINE_BITS)
    }

    /// Returns true if the core has at `now` what it needs.
    pub(crate) fn is_hit(&self, line: usize, core: usize, access: Access, now: u64) -> bool {
        self.lines[line].is_hit(core, access, now)
    }

    /// Notes a request of a core that misses, at `now`, and returns when the line arrives.
    pub(crate) fn request(
        &mut self,
        model: &Model,
        random: &mut fastrand::Rng,
        line: usize,
        core: usize,
        access: Access,
        now: u64,
    ) -> u64 {
        let state = &mut self.lines[line];
        let start = now.max(state.home_free);
        state.home_free = start + model.occupancy;
        let last = state.last;
        let is_behind = last.arrival > now;
        let from = if is_behind { last.core } else { state.owner };
        let distance = if from == NOBODY {
            model.memory
        } else if access == Access::Load || state.exclusive || is_behind {
            model.distance(from.into(), core)
        } else {
            // Every other copy must go, and the most distant one decides.
            let distances = state.sharers.iter().map(|sharer| model.distance(sharer, core));
            distances.max().unwrap_or(0)
        };
        let distance = model.vary(distance, random).max(2);
        let mut leaves = start + distance / 2;
        let mut transit = distance - distance / 2;
        if is_behind && last.moves {
            leaves = leaves.max(last.arrival + model.hold);
            transit = distance;
        } else if is_behind {
            leaves = leaves.max(last.arrival + model.rmw_hit);
        }
        if from != NOBODY && self.sockets > 1 {
            let (a, b) = (model.socket_of(from.into()), model.socket_of(core));
            if a != b {
                let link = &mut self.links[a * self.sockets + b];
                leaves = leaves.max(*link);
                *link = leaves + model.link;
            }
        }
        let arrival = leaves + transit;
        if access != Access::Load {
            state.last = Exclusive {
                core: core as u16,
                arrival,
                // A copy that it has goes by the request before.
                moves: is_behind || !state.sharers.has(core),
            };
        }
        state.leaves.push_back((leaves, access != Access::Load));
        arrival
    }

    /// The line of the first request arrives.
    pub(crate) fn arrive(&mut self, line: usize, core: usize, access: Access) {
        let state = &mut self.lines[line];
        state.leaves.pop_front();
        state.arrive(core, access);
    }

    /// The core that has just made a request goes on as if its line had arrived; its own time says when.
    pub(crate) fn arrive_at_once(&mut self, line: usize, core: usize, access: Access) {
        let state = &mut self.lines[line];
        state.leaves.pop_back();
        state.arrive(core, access);
    }

    /// Takes a range of lines for a core, all at once, and returns how long that takes.
    pub(crate) fn touch(
        &mut self,
        model: &Model,
        random: &mut fastrand::Rng,
        core: usize,
        range: (usize, usize),
        access: Access,
        now: u64,
    ) -> u64 {
        let (mut farthest, mut time) = (0, 0);
        for address in Self::of_range(range.0, range.1) {
            let line = self.number(address);
            if self.is_hit(line, core, access, now + time) {
                time += model.load_hit / 2;
                continue;
            }
            let arrival = self.request(model, random, line, core, access, now + time);
            self.arrive_at_once(line, core, access);
            farthest = farthest.max(arrival - (now + time));
            time += model.stream;
        }
        time + farthest
    }
}

#[cfg(test)]
mod tests {
    use super::{Access, Lines};
    use crate::machine::{Machine, Model, TICKS};

    fn model() -> Model {
        let mut machine = Machine::named("epyc-7702x2").expect("built in");
        for (name, value) in [
            ("occupancy", 4.0),
            ("link", 0.0),
            ("rmw_hit", 5.0),
            ("hold", 10.0),
            ("jitter", 0.0),
        ] {
            machine.set(name, value).expect("it makes sense");
        }
        Model::new(&machine)
    }

    /// Not used by a model without jitter.
    fn chance() -> fastrand::Rng {
        fastrand::Rng::with_seed(1)
    }

    /// Accesses a line, and returns how long the miss takes in nanoseconds; 0 for a hit.
    fn access(lines: &mut Lines, model: &Model, core: usize, access: Access, now_ns: u64) -> u64 {
        let (line, now) = (lines.number(0x1000), now_ns * TICKS);
        if lines.is_hit(line, core, access, now) {
            return 0;
        }
        let arrival = lines.request(model, &mut chance(), line, core, access, now);
        lines.arrive(line, core, access);
        (arrival - now) / TICKS
    }

    #[test]
    fn a_line_comes_from_memory_once_and_then_from_its_owner() {
        let (model, mut lines) = (model(), Lines::new(&model()));
        let mut at = |core, access_, now| access(&mut lines, &model, core, access_, now);
        assert_eq!(at(0, Access::Load, 0), 128);
        assert_eq!(at(0, Access::Rmw, 1_000), 0, "the only reader may write");
        assert_eq!(at(1, Access::Load, 2_000), 24);
        assert_eq!(at(4, Access::Load, 3_000), 94);
        assert_eq!(at(64, Access::Load, 4_000), 197);
        assert_eq!(at(4, Access::Load, 5_000), 0);
        assert_eq!(at(0, Access::Rmw, 6_000), 197, "the most distant sharer");
        assert_eq!(at(1, Access::Rmw, 7_000), 24);
        assert_eq!(at(0, Access::Load, 8_000), 24, "it is gone from there");
    }

    #[test]
    fn requests_queue_up_and_the_owner_goes_on_until_the_first_arrives() {
        let (model, mut lines) = (model(), Lines::new(&model()));
        access(&mut lines, &model, 0, Access::Rmw, 0);
        let line = lines.number(0x1000);
        let now = 10_000 * TICKS;
        let request = |lines: &mut Lines, core| {
            lines.request(&model, &mut chance(), line, core, Access::Rmw, now) - now
        };
        let first = request(&mut lines, 1);
        let second = request(&mut lines, 2);
        assert_eq!(first, 24 * TICKS);
        assert_eq!(
            second - first,
            (10 + 24) * TICKS,
            "the first one holds it for a while"
        );
        let rmw = |lines: &Lines, core, at| lines.is_hit(line, core, Access::Rmw, now + at);
        assert!(rmw(&lines, 0, 12 * TICKS - 1), "it has not gone yet");
        assert!(
            !rmw(&lines, 0, 12 * TICKS) && !rmw(&lines, 1, 12 * TICKS),
            "it is on its way"
        );
        lines.arrive(line, 1, Access::Rmw);
        assert!(rmw(&lines, 1, first) && rmw(&lines, 1, first + 10 * TICKS - 1));
        assert!(!rmw(&lines, 1, first + 10 * TICKS), "the next one has it");
        lines.arrive(line, 2, Access::Rmw);
        assert!(rmw(&lines, 2, u64::MAX - now) && !rmw(&lines, 1, second));
    }

    #[test]
    fn behind_a_core_that_only_clears_copies_the_snoop_waits_there_already() {
        let (model, mut lines) = (model(), Lines::new(&model()));
        access(&mut lines, &model, 0, Access::Load, 0);
        access(&mut lines, &model, 1, Access::Load, 1_000);
        let line = lines.number(0x1000);
        let now = 10_000 * TICKS;
        let first = lines.request(&model, &mut chance(), line, 0, Access::Rmw, now) - now;
        let second = lines.request(&model, &mut chance(), line, 1, Access::Load, now) - now;
        assert_eq!((first, second - first), (24 * TICKS, (5 + 12) * TICKS));
    }

    #[test]
    fn readers_of_one_line_wait_for_its_home_and_not_for_each_other() {
        let (model, mut lines) = (model(), Lines::new(&model()));
        access(&mut lines, &model, 0, Access::Rmw, 0);
        let line = lines.number(0x1000);
        let now = 10_000 * TICKS;
        let arrivals: Vec<u64> = (1..4)
            .map(|core| lines.request(&model, &mut chance(), line, core, Access::Load, now) - now)
            .collect();
        assert_eq!(arrivals, [24 * TICKS, 28 * TICKS, 32 * TICKS]);
    }

    #[test]
    fn a_range_costs_its_farthest_line_and_the_stream_of_all() {
        let (model, mut lines) = (model(), Lines::new(&model()));
        let stream = model.stream;
        let first = lines.touch(&model, &mut chance(), 0, (0x1004, 256), Access::Store, 0);
        assert_eq!(
            first,
            5 * stream + model.memory,
            "five lines, for it begins within one"
        );
        let later = lines.touch(&model, &mut chance(), 64, (0x1004, 256), Access::Load, 100_000);
        assert_eq!(later, 5 * stream + model.other_socket);
        assert_eq!(
            lines.touch(&model, &mut chance(), 64, (0x1004, 0), Access::Load, 200_000),
            0
        );
    }
}
