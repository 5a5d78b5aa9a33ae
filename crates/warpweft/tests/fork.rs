//! A forked child has a pool without workers: it says so, and does not hang.
#![cfg(all(target_os = "linux", not(any(warpweft_loom, warpweft_shuttle))))]

use warpweft::{JoinError, Runtime, SpawnError};

#[test]
fn a_forked_child_is_told_and_may_build_its_own_runtime() {
    let runtime = Runtime::builder().workers(2).build().expect("two workers");
    assert_eq!(runtime.spawn_job(|| 1).wait().expect("no panic"), 1);
    // SAFETY: this test binary runs one test; no thread of it holds a lock that the child needs.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        let told = matches!(runtime.try_spawn_job(|| 1).err(), Some(SpawnError::Forked))
            && matches!(runtime.spawn_job(|| 1).wait(), Err(JoinError::Forked));
        drop(runtime);
        let own = Runtime::builder()
            .workers(2)
            .build()
            .map(|own| own.spawn_job(|| 2).wait().ok());
        let works = matches!(own, Ok(Some(2)));
        // SAFETY: ends the child without running the parent's exit handlers.
        unsafe { libc::_exit(i32::from(!(told && works))) };
    }
    let mut status = 0;
    // SAFETY: waits for the child that was just made; `status` is valid for a write.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!((waited, status), (child, 0));
    assert_eq!(runtime.spawn_job(|| 3).wait().expect("no panic"), 3);
}
