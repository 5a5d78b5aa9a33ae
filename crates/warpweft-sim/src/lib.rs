//! A simulated machine with virtual time.
//!
//! A program that takes atomics, locks, threads and time from this crate runs on a machine that is described
//! by a file. The machine has cores, caches, sockets, distances between them, and a system that puts threads
//! onto CPUs. Each access costs what the machine takes for it: a hit, or the transfer of a cache line from
//! where it is, behind those who want it, too.
//!
//! All simulated threads are coroutines on the caller's thread, and only time is simulated: what the program
//! calculates is real. The same seed gives the same run, step by step.
//!
//! | file | job |
//! |---|---|
//! | `machine` | machines and their files; distances |
//! | `lines` | the state of each cache line, and when a request for it is answered |
//! | `world` | threads, CPUs, slices, what happens next |
//! | `run` | runs a program; the order of accesses |
//! | `atomic`, `sync`, `thread` | what programs use in place of `std` |
//! | `log`, `report` | what happened: its hash, and the lines that were waited for |
//! | `simulation`, `charge` | how a program comes in, and what its code and accesses cost |
//! | `blocks` | how much code runs between two accesses |
//! | `hooks`, `owners` | parts of the program by name; which core had which line when |
//!
//! # Invariants
//!
//! - Accesses take place in the order of virtual time. A thread runs ahead of others only by hits, and by
//!   less than the shortest time in which another core could have taken the line.
//! - Nothing depends on addresses, on the host's time, or on its hash maps' order.
//!
//! # Example
//!
//! ```
//! use std::sync::Arc;
//! use std::sync::atomic::Ordering::Relaxed;
//! use warpweft_sim::{AtomicU64, Machine, run, spawn};
//!
//! let machine = Machine::named("epyc-7702x2").expect("it is built in");
//! let (sum, report) = run(1, &machine, || {
//!     let sum = Arc::new(AtomicU64::new(0));
//!     let threads = [(); 4].map(|()| {
//!         let sum = Arc::clone(&sum);
//!         spawn(move || (0..100).for_each(|_| { sum.fetch_add(1, Relaxed); }))
//!     });
//!     threads.map(|thread| thread.join().expect("no panic"));
//!     sum.load(Relaxed)
//! });
//! assert_eq!(sum, 400);
//! assert!(report.misses > 0, "the line went from core to core");
//! ```

mod atomic;
mod blocks;
mod charge;
mod hooks;
mod lines;
mod log;
mod machine;
mod owners;
mod report;
mod run;
mod simulation;
mod sync;
mod thread;
mod world;

pub use atomic::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence, plain, spin_loop,
};
pub use hooks::HookReport;
pub use machine::{Cost, Costs, Machine, MachineError, Shape};
pub use owners::{Arrival, LineOwners};
pub use report::{AccessSite, LineReport, Report};
pub use run::{Failure, Settings, run, try_run};
pub use sync::{Arc, Condvar, LockResult, Mutex, MutexGuard, TryLockError, TryLockResult, barrier};
pub use thread::{
    Builder, CpuLocation, InHook, JoinHandle, LocalKey, allowed, compute, current_name, in_hook,
    keep_until_exit, now_ns, pin, places, random_below, sleep, spawn, touch, touch_to_write, uncounted,
    yield_now,
};
