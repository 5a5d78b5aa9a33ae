//! Hostile programs in safe code: each tries to break memory safety or to make the process hang.
//!
//! Each program is a test. The test starts the program in a child process for each number of workers, because
//! a program may end in an abort, a hang or a sanitizer's exit. A program passes if its child ends as
//! expected within its limit. The programs forbid `unsafe` and use the public interface only. What needs
//! `unsafe` by its nature is in `system`.
//!
//! | module | what its programs attack |
//! |---|---|
//! | `task_refs` | a `TaskRef`, which a policy keeps, moves, swaps or drops |
//! | `foreign` | tasks of another pool |
//! | `hooks` | hooks of a policy that panic, lie or change their answers |
//! | `waiting_hooks` | hooks that wait, and hooks that start or end runtimes |
//! | `locals` | the state of a policy: how it is built and dropped, and forged policy words |
//! | `destructors` | code of a user that the runtime calls between two hooks |
//! | `wakers` | wakers that outlive their task, wake again or panic |
//! | `tasks` | futures, closures and their handles |
//! | `forks` | `join`, scopes and the right to fork |
//! | `fibers` | fibers, their stacks and their end |
//! | `effects` | handlers and continuations |
//! | `runtimes` | runtimes that start and end in odd places |
//! | `queues` | the lock-free queues by themselves |
//! | `locks` | locks, semaphores, channels |
//! | `waits` | timers, sockets and blocking closures |
//! | `streams` | parallel streams and pipelines |
//! | `processes` | `fork()`, sandboxes and refused threads |
//! | `acts` | a policy that acts in each of its hooks, and work that calls them all |
//! | `keepers` | a policy with a hook for each test, and the check that one thread at a time has its state |
//!
//! Variables: `WARPWEFT_ADVERSARY_SCALE` divides counts, `WARPWEFT_ADVERSARY_LIMIT` is the time limit in
//! seconds, and `WARPWEFT_ADVERSARY_WRAPPER` is a command that runs each child, such as valgrind with its
//! options.
#![cfg(all(
    feature = "net",
    target_os = "linux",
    not(any(warpweft_loom, warpweft_shuttle))
))]
#![allow(dropping_copy_types, reason = "a program drops all results in the same way")]

#[macro_use]
mod child;
mod acts;
mod destructors;
mod effects;
mod fibers;
mod foreign;
mod forks;
mod hooks;
mod keepers;
mod locals;
mod locks;
mod processes;
mod queues;
mod runtimes;
mod streams;
mod system;
mod task_refs;
mod tasks;
mod waiting_hooks;
mod waits;
mod wakers;
