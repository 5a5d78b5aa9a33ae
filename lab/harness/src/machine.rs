//! The machine and the versions. Each record holds them, because its figures hold for them only.

use std::collections::BTreeMap;
use std::fs;
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::simulation::SimulatedMachine;

/// The machine on which a run was made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Machine {
    /// The processor's own name.
    pub(crate) processor: String,
    /// The processors that this process may use, its quota included.
    pub(crate) cpus: usize,
    /// Memory in MiB; 0 when unknown.
    pub(crate) memory_mib: u64,
    /// Operating system and release.
    pub(crate) system: String,
    /// Architecture.
    pub(crate) architecture: String,
}

/// The processors that this process may use.
pub fn cpus() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

impl Machine {
    /// Describes a simulated machine.
    pub(crate) fn simulated(machine: &SimulatedMachine) -> Self {
        Self {
            processor: format!("SIMULATED: {}", machine.name),
            cpus: machine.cpus,
            memory_mib: 0,
            system: String::from("simulated"),
            architecture: std::env::consts::ARCH.to_owned(),
        }
    }

    /// Describes this machine. Files that cannot be read leave "unknown" and 0.
    pub(crate) fn here() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let release = read("/proc/sys/kernel/osrelease");
        Self {
            processor: field(&read("/proc/cpuinfo"), "model name").unwrap_or_else(|| String::from("unknown")),
            cpus: cpus(),
            memory_mib: field(&read("/proc/meminfo"), "MemTotal").map_or(0, |total| kib(&total) / 1024),
            system: format!("{} {}", std::env::consts::OS, release.trim())
                .trim()
                .to_owned(),
            architecture: std::env::consts::ARCH.to_owned(),
        }
    }
}

/// The value of a `name : value` line.
fn field(text: &str, name: &str) -> Option<String> {
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| key.trim() == name)
        .map(|(_, value)| value.trim().to_owned())
}

/// The number in "24654020 kB".
fn kib(text: &str) -> u64 {
    text.split_whitespace()
        .next()
        .and_then(|number| number.parse().ok())
        .unwrap_or(0)
}

/// Resident memory of this process in bytes, or `None` where the system does not report it.
pub fn resident_bytes() -> Option<u64> {
    field(&fs::read_to_string("/proc/self/status").ok()?, "VmRSS").map(|value| kib(&value) * 1024)
}

/// Processor time that was used so far: by the whole machine, and by this process with the children it has
/// waited for. In ticks of the system's clock, of which only ratios are taken.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    machine: u64,
    own: u64,
    /// The time of all processors, used and idle.
    capacity: u64,
}

impl Usage {
    /// The usage up to now, or `None` where the system does not report it.
    pub fn now() -> Option<Self> {
        let stat = fs::read_to_string("/proc/stat").ok()?;
        let times: Vec<u64> = stat
            .lines()
            .next()?
            .split_whitespace()
            .skip(1)
            .take(8)
            .filter_map(|word| word.parse().ok())
            .collect();
        // user nice system idle iowait irq softirq steal
        let capacity: u64 = times.iter().sum();
        let idle: u64 = times.get(3..5)?.iter().sum();
        let own = fs::read_to_string("/proc/self/stat").ok()?;
        // After the name, which may hold anything and ends with the last parenthesis: the 12th to 15th fields
        // are the times of this process and of its children.
        let fields = own.rsplit_once(')')?.1.split_whitespace().skip(11).take(4);
        let own = fields.filter_map(|word| word.parse::<u64>().ok()).sum();
        Some(Self {
            machine: capacity - idle,
            own,
            capacity,
        })
    }

    /// The share of the machine that this process used since `earlier`, from 0 to 1.
    pub fn own_since(&self, earlier: &Self) -> Option<f64> {
        let capacity = self
            .capacity
            .checked_sub(earlier.capacity)
            .filter(|capacity| *capacity > 0)?;
        Some(self.own.saturating_sub(earlier.own) as f64 / capacity as f64)
    }

    /// The share of the machine that others used since `earlier`, from 0 to 1.
    pub fn others_since(&self, earlier: &Self) -> Option<f64> {
        let capacity = self
            .capacity
            .checked_sub(earlier.capacity)
            .filter(|capacity| *capacity > 0)?;
        let own = self.own.saturating_sub(earlier.own);
        let used = self.machine.saturating_sub(earlier.machine);
        Some(used.saturating_sub(own) as f64 / capacity as f64)
    }
}

/// The processor time of this process until now; `None` where the system does not report it.
pub fn process_cpu() -> Option<Duration> {
    #[cfg(unix)]
    return cpu(nix::sys::resource::UsageWho::RUSAGE_SELF);
    #[cfg(not(unix))]
    None
}

/// The processor time of all children that have been waited for.
pub(crate) fn children_cpu() -> Option<Duration> {
    #[cfg(unix)]
    return cpu(nix::sys::resource::UsageWho::RUSAGE_CHILDREN);
    #[cfg(not(unix))]
    None
}

#[cfg(unix)]
fn cpu(of: nix::sys::resource::UsageWho) -> Option<Duration> {
    let usage = nix::sys::resource::getrusage(of).ok()?;
    let time = |time: nix::sys::time::TimeVal| {
        let (seconds, micros) = (u64::try_from(time.tv_sec()), u64::try_from(time.tv_usec()));
        Some(Duration::from_secs(seconds.ok()?) + Duration::from_micros(micros.ok()?))
    };
    Some(time(usage.user_time())? + time(usage.system_time())?)
}

/// Compiler, allocator and the versions of the contestants that are built in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Versions {
    /// The compiler.
    pub(crate) rustc: String,
    /// "release" or "debug".
    pub(crate) profile: String,
    /// The allocator of all contestants.
    pub(crate) allocator: String,
    /// The contestants by name.
    #[serde(flatten)]
    pub(crate) peers: BTreeMap<String, String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_name() {
        let text = "processor\t: 0\nmodel name\t: Some CPU @ 2.0: GHz\nMemTotal:       2048 kB\n";
        assert_eq!(field(text, "model name").as_deref(), Some("Some CPU @ 2.0: GHz"));
        assert_eq!(field(text, "MemTotal").map(|total| kib(&total)), Some(2048));
        assert_eq!(field(text, "MemFree"), None);
    }

    #[test]
    fn the_share_of_others_leaves_out_our_own() {
        let before = Usage {
            machine: 100,
            own: 10,
            capacity: 1000,
        };
        let after = Usage {
            machine: 200,
            own: 60,
            capacity: 1200,
        };
        assert_eq!(after.others_since(&before), Some(0.25));
        assert_eq!(after.own_since(&before), Some(0.25));
        assert_eq!(after.own_since(&after), None);
        assert_eq!(after.others_since(&after), None);
        if cfg!(target_os = "linux") {
            assert!(Usage::now().is_some());
        }
    }

    #[test]
    fn this_machine_is_described() {
        let machine = Machine::here();
        assert!(machine.cpus >= 1 && !machine.architecture.is_empty());
    }
}
