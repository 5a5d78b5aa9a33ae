//! The CPUs that this process may use, and what they share: cores, caches, memory.
//!
//! ```text
//!   node 0 ┬ cache 0 ┬ core 0 ─ CPU 0, CPU 4      to the system, two threads of one core are two CPUs
//!          │         └ core 1 ─ CPU 1, CPU 5
//!          └ cache 1 ┬ core 2 ─ CPU 2, CPU 6
//!                    └ core 3 ─ CPU 3, CPU 7
//! ```
//!
//! Between a core and a last-level cache there is often a second-level cache, of the core alone or of a few.
//!
//! Linux reports this in files (`/sys/devices/system`). If a file cannot be read, or makes no sense, the
//! machine is taken as flat. Then a CPU is its own core, with its own second-level cache, and all share one
//! last-level cache and one node. Nothing here fails.
//!
//! # Invariants
//!
//! - CPUs are in ascending order, each once, and there is at least one.
//! - Numbers of cores, caches and nodes are dense, in the order of their first CPU.

use std::collections::BTreeMap;

/// The parts of the machine that a CPU uses. CPUs with equal numbers share that part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct CoreLocation {
    /// The physical core.
    pub core: usize,
    /// The second-level cache.
    pub l2: usize,
    /// The last-level cache.
    pub cache: usize,
    /// The memory node.
    pub node: usize,
}

impl CoreLocation {
    /// Makes the place of a core, its last-level cache, and its memory node. The second-level cache is the
    /// core's own.
    #[must_use]
    pub fn new(core: usize, cache: usize, node: usize) -> Self {
        let l2 = core;
        Self {
            core,
            l2,
            cache,
            node,
        }
    }

    /// Changes the second-level cache.
    #[must_use]
    pub fn with_l2(self, l2: usize) -> Self {
        Self { l2, ..self }
    }
}

/// A CPU in the system's sense: a hardware thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Cpu {
    /// Its number.
    pub number: usize,
    /// Where it is.
    pub place: CoreLocation,
    /// Its speed among the CPUs of this machine: 1024 for the fastest.
    pub capacity: u32,
}

/// The CPUs that may be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology(Vec<Cpu>);

/// The capacity of the fastest CPU, and of a CPU about which nothing is known.
const FULL: u32 = 1024;
/// The assumed capacity of an efficient core of an Intel processor. The kernel reports which cores are
/// efficient, but not their speed.
const ATOM: u32 = 512;
/// Linux supports no machine with more.
const MOST_CPUS: usize = 1 << 16;

impl Topology {
    /// Reads the topology of this machine, as far as the calling thread's affinity mask allows.
    #[must_use]
    pub fn here() -> Self {
        #[cfg(warpweft_sim)]
        if let Some(simulated) = Self::simulated() {
            return simulated;
        }
        match crate::affinity::allowed() {
            Some(allowed) => Self::read(&allowed, &|file| {
                std::fs::read_to_string(format!("/sys/devices/{file}")).ok()
            }),
            None => Self::flat(&(0..crate::thread::available_cpus()).collect::<Vec<_>>()),
        }
    }

    /// The CPUs of the simulated machine that the calling thread may use.
    #[cfg(warpweft_sim)]
    fn simulated() -> Option<Self> {
        let places = warpweft_sim::places();
        let cpu = |number: usize| {
            let place = places.get(number)?;
            Some(Cpu {
                number,
                place: CoreLocation::new(place.core, place.cache, place.socket),
                capacity: FULL,
            })
        };
        let cpus: Vec<_> = warpweft_sim::allowed().into_iter().filter_map(cpu).collect();
        (!cpus.is_empty()).then_some(Self(cpus))
    }

    /// Makes a topology in which only the numbers of these CPUs are known.
    #[must_use]
    pub fn flat(allowed: &[usize]) -> Self {
        Self::read(allowed, &|_| None)
    }

    /// Reads the files under `/sys/devices` through `file`, which returns `None` for one that cannot be read.
    #[must_use]
    pub fn read(allowed: &[usize], file: &dyn Fn(&str) -> Option<String>) -> Self {
        let list = |name: &str| file(name).and_then(|text| parse_list(&text));
        let mut numbers = allowed.to_vec();
        numbers.sort_unstable();
        numbers.dedup();
        if let Some(online) = list("system/cpu/online") {
            let all = numbers.clone();
            numbers.retain(|number| online.contains(number));
            if numbers.is_empty() {
                // The affinity mask decides.
                numbers = all;
            }
        }
        if numbers.is_empty() {
            numbers.push(0);
        }
        let nodes: Vec<_> = list("system/node/online")
            .unwrap_or_default()
            .into_iter()
            .filter_map(|node| list(&format!("system/node/node{node}/cpulist")))
            .collect();
        let atoms = list("cpu_atom/cpus").unwrap_or_default();
        let (mut cores, mut seconds) = (Dense::default(), Dense::default());
        let (mut caches, mut memories) = (Dense::default(), Dense::default());
        let cpus = numbers.into_iter().map(|number| {
            let folder = format!("system/cpu/cpu{number}");
            // A list that its own CPU is not in makes no sense.
            let group = |name: &str| list(&format!("{folder}/{name}")).filter(|list| list.contains(&number));
            let first = |group: Option<Vec<usize>>| group.and_then(|cpus| cpus.into_iter().min());
            let core = first(group("topology/thread_siblings_list")).unwrap_or(number);
            let known = data_caches(&folder, file, &group);
            let l2 = known.iter().find(|(level, _)| *level == 2);
            let l2 = first(l2.map(|(_, cpus)| cpus.clone())).unwrap_or(core);
            let last = known.into_iter().max_by_key(|(level, _)| *level);
            let cache =
                first(last.map(|(_, cpus)| cpus)).or_else(|| first(group("topology/core_siblings_list")));
            let node = nodes.iter().position(|cpus| cpus.contains(&number));
            let capacity = file(&format!("{folder}/cpu_capacity"))
                .and_then(|text| text.trim().parse().ok())
                .filter(|capacity| (1..=FULL).contains(capacity));
            Cpu {
                number,
                place: CoreLocation {
                    core: cores.number(core),
                    l2: seconds.number(l2),
                    cache: caches.number(cache.unwrap_or(usize::MAX)),
                    node: memories.number(node.unwrap_or(usize::MAX)),
                },
                capacity: capacity.unwrap_or(if atoms.contains(&number) { ATOM } else { FULL }),
            }
        });
        Self(cpus.collect())
    }

    /// Returns the CPUs, in ascending order.
    #[must_use]
    pub fn cpus(&self) -> &[Cpu] {
        &self.0
    }

    /// Returns the CPU of that number, if it may be used.
    #[must_use]
    pub fn cpu(&self, number: usize) -> Option<&Cpu> {
        self.0.iter().find(|cpu| cpu.number == number)
    }

    /// Returns the physical cores, the fastest first, otherwise in the order of their first CPU. Each is a
    /// list of the CPUs that may be used.
    #[must_use]
    pub fn cores(&self) -> Vec<Vec<Cpu>> {
        let mut cores: BTreeMap<usize, Vec<Cpu>> = BTreeMap::new();
        for &cpu in &self.0 {
            cores.entry(cpu.place.core).or_default().push(cpu);
        }
        let mut cores: Vec<_> = cores.into_values().collect();
        cores.sort_by_key(|cpus| std::cmp::Reverse(cpus[0].capacity));
        cores
    }
}

/// Numbers things in the order in which they are first seen.
#[derive(Default)]
struct Dense(Vec<usize>);

impl Dense {
    fn number(&mut self, key: usize) -> usize {
        self.0.iter().position(|&seen| seen == key).unwrap_or_else(|| {
            self.0.push(key);
            self.0.len() - 1
        })
    }
}

/// Returns the caches that hold data: the level of each, and the CPUs that share it.
fn data_caches(
    folder: &str,
    file: &dyn Fn(&str) -> Option<String>,
    group: &dyn Fn(&str) -> Option<Vec<usize>>,
) -> Vec<(u32, Vec<usize>)> {
    let cache = |index: usize| {
        let about = |name: &str| file(&format!("{folder}/cache/index{index}/{name}"));
        let level: u32 = about("level")?.trim().parse().ok()?;
        let holds_data = about("type")?.trim() != "Instruction";
        let cpus = group(&format!("cache/index{index}/shared_cpu_list"))?;
        holds_data.then_some((level, cpus))
    };
    (0..10).filter_map(cache).collect()
}

/// Parses the kernel's lists of numbers: `0-3,8,10-11`. Returns `None` for any other text.
fn parse_list(text: &str) -> Option<Vec<usize>> {
    let text = text.trim();
    if text.is_empty() {
        return Some(Vec::new());
    }
    let mut numbers = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        if first > last || last >= MOST_CPUS {
            return None;
        }
        numbers.extend(first..=last);
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use super::parse_list;

    #[test]
    fn lists_of_the_kernel() {
        assert_eq!(parse_list("0-3,8,10-11\n"), Some(vec![0, 1, 2, 3, 8, 10, 11]));
        assert_eq!(parse_list("\n"), Some(vec![]));
        for wrong in [
            "x",
            "0-",
            "-1",
            "3-1",
            "0,,1",
            "0 1",
            "0-4294967295",
            "99999999999999999999",
        ] {
            assert_eq!(parse_list(wrong), None, "{wrong:?}");
        }
    }
}
