//! A forked child has a pool without workers: it says so, and does not hang.
#![cfg(all(target_os = "linux", not(any(warpweft_loom, warpweft_shuttle))))]

use warpweft::{BlockingError, JoinError, Runtime, SpawnError, blocking};

#[test]
fn a_forked_child_is_told_and_may_build_its_own_runtime() {
    let runtime = Runtime::builder().workers(2).build().expect("two workers");
    assert_eq!(runtime.spawn_job(|| 1).wait().expect("no panic"), 1);
    // SAFETY: this test binary runs one test; no thread of it holds a lock that the child needs.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        let told = matches!(runtime.try_spawn_job(|| 1).err(), Some(SpawnError::Forked))
            && matches!(runtime.spawn_job(|| 1).wait(), Err(JoinError::Forked))
            && matches!(runtime.spawn_blocking(|| 1).wait(), Err(JoinError::Forked));
        let refused = runtime.try_spawn_blocking(|| 1).err();
        let told = told && refused.is_some_and(|refused| matches!(refused.error(), BlockingError::Forked));
        drop(runtime);
        let own = Runtime::builder()
            .workers(2)
            .build()
            .map(|own| own.spawn_job(|| 2).wait().ok());
        let works = matches!(own, Ok(Some(2)));
        // SAFETY: ends the child without running the parent's exit handlers.
        unsafe { libc::_exit(i32::from(!(told && works))) };
    }
    assert_eq!(end_of(child), 0);

    // A task that forks: in the child its thread is alone, and there is nobody to give its worker to.
    let forks = || {
        // SAFETY: as above.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let called = blocking(|| 1) == 1;
            // SAFETY: as above.
            unsafe { libc::_exit(i32::from(!called)) };
        }
        child
    };
    let child = runtime.spawn_job(forks).wait().expect("no panic");
    assert!(child > 0);
    assert_eq!(end_of(child), 0);
    assert_eq!(runtime.spawn_job(|| 3).wait().expect("no panic"), 3);
}

fn end_of(child: libc::pid_t) -> i32 {
    let mut status = 0;
    // SAFETY: waits for a child of this process; `status` is valid for a write.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(waited, child);
    status
}
