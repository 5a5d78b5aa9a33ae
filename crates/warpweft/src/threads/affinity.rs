//! The CPUs on which the workers run.
//!
//! A *worker* is pinned, not a thread: a thread that takes a worker moves to the worker's CPUs
//! (`ThreadSet::settle`). See `docs/decisions/0015-topology-and-pinning.md` for why a worker has a whole
//! core, and for the second hardware threads.

use std::fmt;
use std::io;
use warpweft_platform::affinity;
use warpweft_platform::thread::available_cpus;
use warpweft_platform::topology::{CoreLocation, Cpu, Topology};

/// The choice of CPUs for the workers.
///
/// ```
/// use warpweft::{Pin, Runtime};
/// // One worker for each physical core.
/// let runtime = Runtime::builder().pin(Pin::PhysicalCores).build()?;
/// assert!(runtime.workers() >= 1);
/// # Ok::<(), warpweft::BuildError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Pin {
    /// The system decides where threads run, and moves them freely.
    #[default]
    Off,
    /// Each worker has a physical core, the fastest first, and may use all hardware threads of it. No other
    /// worker of the runtime does. If the number of workers is not given, there is one per core, though no
    /// more than by default. More workers than cores are an error.
    PhysicalCores,
    /// Worker 0 has the first of these CPUs, worker 1 the second, and so on. To let two workers share a CPU,
    /// name it twice. If the number of workers is not given, there is one per entry. Entries beyond the
    /// number of workers are not used, and too few are an error.
    Cpus(Vec<usize>),
}

/// The reason why workers cannot be pinned as requested.
#[derive(Debug)]
#[non_exhaustive]
pub enum PinError {
    /// There are fewer physical cores than workers.
    Cores {
        /// The requested number of workers.
        workers: usize,
        /// The number of cores that this process may use.
        cores: usize,
    },
    /// The list names fewer CPUs than there are workers.
    List {
        /// The requested number of workers.
        workers: usize,
        /// The number of CPUs in the list.
        cpus: usize,
    },
    /// This process, or the calling thread, may not use that CPU: its affinity mask forbids it, or there is
    /// no such CPU.
    Forbidden {
        /// The CPU.
        cpu: usize,
        /// The CPUs that may be used.
        allowed: Vec<usize>,
    },
    /// The system does not pin threads.
    System(io::Error),
}

impl fmt::Display for PinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cores { workers, cores } => write!(
                f,
                "{workers} workers on physical cores, and this process may use {cores}: ask for at most {cores}, or do not pin"
            ),
            Self::List { workers, cpus } => write!(
                f,
                "{workers} workers, and a list of {cpus} CPUs to pin them to: name one for each (a CPU may be named twice)"
            ),
            Self::Forbidden { cpu, allowed } => {
                write!(f, "CPU {cpu} may not be used; those that may are {allowed:?}")
            }
            Self::System(error) => write!(f, "threads cannot be pinned here: {error}"),
        }
    }
}

impl std::error::Error for PinError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::System(error) => Some(error),
            _ => None,
        }
    }
}

/// The CPUs and places of the workers of a pool.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// For each worker the CPUs that it may use, all at the same place.
    cpus: Vec<Vec<usize>>,
    places: Vec<CoreLocation>,
    /// All CPUs that the process may use.
    allowed: Vec<usize>,
}

impl Plan {
    /// Returns the CPUs of a worker. A compensating worker may run anywhere, because the stuck thread
    /// occupies its own CPU.
    pub(crate) fn cpus(&self, worker: usize) -> &[usize] {
        self.cpus.get(worker).unwrap_or(&self.allowed)
    }

    /// Returns all CPUs that the process may use.
    pub(crate) fn everywhere(&self) -> &[usize] {
        &self.allowed
    }

    pub(crate) fn places(&self) -> &[CoreLocation] {
        &self.places
    }
}

impl Pin {
    /// Returns the number of workers if the builder gives none.
    pub(crate) fn workers(&self, topology: &Topology) -> usize {
        match self {
            Self::Off => available_cpus(),
            Self::PhysicalCores => topology.cores().len().min(available_cpus()),
            Self::Cpus(list) => list.len(),
        }
    }

    /// Plans the CPUs of `workers` workers. Returns `None` if they may run anywhere.
    pub(crate) fn plan(&self, workers: usize, topology: &Topology) -> Result<Option<Plan>, PinError> {
        let allowed: Vec<_> = topology.cpus().iter().map(|cpu| cpu.number).collect();
        let mut cpus = match self {
            Self::Off => return Ok(None),
            Self::PhysicalCores => {
                let cores = topology.cores();
                if workers > cores.len() {
                    let cores = cores.len();
                    return Err(PinError::Cores { workers, cores });
                }
                cores
            }
            Self::Cpus(list) => {
                let known = |&cpu: &usize| match topology.cpu(cpu) {
                    Some(&cpu) => Ok(vec![cpu]),
                    None => Err(PinError::Forbidden {
                        cpu,
                        allowed: allowed.clone(),
                    }),
                };
                let cpus = list.iter().map(known).collect::<Result<Vec<_>, _>>()?;
                if workers > cpus.len() {
                    let cpus = cpus.len();
                    return Err(PinError::List { workers, cpus });
                }
                cpus
            }
        };
        cpus.truncate(workers);
        // Check that the system can pin threads: ask for the present state.
        affinity::pin(&affinity::allowed().unwrap_or_default()).map_err(PinError::System)?;
        let numbers = |cpus: &Vec<Cpu>| cpus.iter().map(|cpu| cpu.number).collect();
        Ok(Some(Plan {
            places: cpus.iter().map(|cpus| cpus[0].place).collect(),
            cpus: cpus.iter().map(numbers).collect(),
            allowed,
        }))
    }
}

#[cfg(all(test, not(any(warpweft_loom, warpweft_shuttle))))]
mod tests {
    use super::{Pin, PinError, Plan};
    use warpweft_platform::topology::{CoreLocation, Topology};

    /// Four cores of two threads each, of which CPU 6 may not be used; the last two cores are slow.
    fn machine() -> Topology {
        Topology::read(&[0, 1, 2, 3, 4, 5, 7], &|file| {
            let number: Option<usize> = file
                .strip_prefix("system/cpu/cpu")
                .and_then(|rest| rest.split_once('/'))
                .and_then(|(number, _)| number.parse().ok());
            match (number, file) {
                (Some(n), file) if file.ends_with("thread_siblings_list") => {
                    Some(format!("{}-{}", n / 2 * 2, n / 2 * 2 + 1))
                }
                (None, "cpu_atom/cpus") => Some(String::from("0-3")),
                _ => None,
            }
        })
    }

    fn cpus_of(plan: &Plan, workers: usize) -> Vec<Vec<usize>> {
        (0..workers).map(|worker| plan.cpus(worker).to_vec()).collect()
    }

    #[test]
    fn a_worker_has_a_core_and_no_core_has_two() {
        let plan = Pin::PhysicalCores.plan(4, &machine()).expect("4 cores");
        let plan = plan.expect("pinned");
        assert_eq!(cpus_of(&plan, 4), [vec![4, 5], vec![7], vec![0, 1], vec![2, 3]]);
        assert_eq!(
            plan.places(),
            [2, 3, 0, 1].map(|core| CoreLocation::new(core, 0, 0))
        );
        assert_eq!(plan.everywhere(), [0, 1, 2, 3, 4, 5, 7]);
        let error = Pin::PhysicalCores.plan(5, &machine()).expect_err("4 cores");
        assert!(matches!(error, PinError::Cores { workers: 5, cores: 4 }));
        assert!(error.to_string().contains("at most 4"), "{error}");
    }

    #[test]
    fn a_list_is_taken_as_it_is() {
        let pin = Pin::Cpus(vec![7, 0, 7]);
        assert_eq!(pin.workers(&machine()), 3);
        let plan = pin.plan(3, &machine()).expect("allowed").expect("pinned");
        assert_eq!(cpus_of(&plan, 3), [[7], [0], [7]]);
        let plan = pin.plan(1, &machine()).expect("allowed").expect("pinned");
        assert_eq!(plan.places().len(), 1);
        let error = pin.plan(4, &machine()).expect_err("too few");
        assert!(matches!(error, PinError::List { workers: 4, cpus: 3 }));
    }

    #[test]
    fn a_cpu_that_is_not_allowed_is_named() {
        let error = Pin::Cpus(vec![0, 6]).plan(2, &machine()).expect_err("not 6");
        assert_eq!(
            error.to_string(),
            "CPU 6 may not be used; those that may are [0, 1, 2, 3, 4, 5, 7]"
        );
        assert_eq!(Pin::Off.plan(9, &machine()).expect("anywhere"), None);
    }
}
