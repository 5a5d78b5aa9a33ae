//! A program that enters a sandbox after its runtimes have started: the kernel's barrier, which worked
//! before, is refused. In a child process, because it cannot be undone.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![cfg(all(feature = "net", not(any(warpweft_loom, warpweft_shuttle))))]

#[path = "support/again.rs"]
mod again;

use again::in_child;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use warpweft::time::sleep;
use warpweft::{ForkCx, Runtime, block_on, fiber, yield_now};
use warpweft_platform::barrier::Asymmetric;

/// Makes these system calls fail with these errors, on all threads of this process. Returns false if the
/// kernel has no such filters.
fn forbid(calls: &[(libc::c_long, i32)]) -> bool {
    const AUDIT_ARCH_X86_64: u32 = 0xc000_003e;
    let instruction = |code: u32, jf: u8, k: u32| libc::sock_filter {
        code: code as u16,
        jt: 0,
        jf,
        k,
    };
    let load = |at: u32| instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, at);
    // If it is equal, the next instruction, else the one after that.
    let is = |k: u32| instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 1, k);
    let answer = |k: u32| instruction(libc::BPF_RET | libc::BPF_K, 0, k);
    // The architecture, after the number of the call. On another one everything is allowed.
    let mut filter = vec![load(4), is(AUDIT_ARCH_X86_64), load(0)];
    for &(call, error) in calls {
        filter.extend([is(call as u32), answer(libc::SECCOMP_RET_ERRNO | error as u32)]);
    }
    filter.push(answer(libc::SECCOMP_RET_ALLOW));
    let program = libc::sock_fprog {
        len: filter.len() as u16,
        filter: filter.as_mut_ptr(),
    };
    // SAFETY: it takes numbers by value, and sets a flag of this thread.
    let no_more = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    // SAFETY: the kernel copies the program, which is there until the call returns.
    let installed = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            libc::SECCOMP_FILTER_FLAG_TSYNC,
            &raw const program,
        )
    };
    no_more == 0 && installed == 0
}

fn fib(cx: ForkCx<'_>, n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let (a, b) = cx.join(|cx| fib(cx, n - 1), |cx| fib(cx, n - 2));
    a + b
}

/// Sleeps, wakes, offers forks and steals.
fn round(runtime: &Runtime, done: &AtomicUsize) {
    let jobs: Vec<_> = (0..20).map(|n| runtime.spawn_job(move || n)).collect();
    let futures: Vec<_> = (0..20)
        .map(|n| {
            runtime.spawn(async move {
                yield_now().await;
                sleep(Duration::from_micros(50 * n)).await;
            })
        })
        .collect();
    let fiber = runtime.spawn_fiber(|| {
        fiber::spawn(|| block_on(sleep(Duration::from_micros(200))))
            .wait()
            .expect("no panic");
    });
    assert_eq!(runtime.install(|cx| fib(cx, 12)).expect("it is open"), 144);
    // Long halves: the second one is taken.
    let pair = runtime.install(|cx| {
        let long = |_: ForkCx<'_>| {
            let start = Instant::now();
            while start.elapsed() < Duration::from_micros(300) {
                std::hint::spin_loop();
            }
            thread::current().id()
        };
        cx.join(long, long)
    });
    let (here, there) = pair.expect("it is open");
    done.fetch_add(usize::from(here != there), Ordering::Relaxed);
    for job in jobs {
        job.wait().expect("no panic");
    }
    for future in futures {
        future.wait().expect("no panic");
    }
    fiber.wait().expect("no panic");
    // The workers go to sleep.
    thread::sleep(Duration::from_millis(1));
}

fn exercise(runtimes: &[Runtime], long: Duration) -> usize {
    let start = Instant::now();
    let stolen = AtomicUsize::new(0);
    thread::scope(|scope| {
        for runtime in runtimes {
            scope.spawn(|| {
                while start.elapsed() < long {
                    round(runtime, &stolen);
                }
            });
        }
    });
    stolen.into_inner()
}

#[test]
fn a_sandbox_entered_later() {
    in_child("a_sandbox_entered_later", || {
        let build = |workers: usize, policy: &str| {
            let builder = Runtime::builder().workers(workers);
            let policy = policy.parse().expect("a policy");
            builder.policy_spec(policy).build().expect("workers")
        };
        let runtimes = [build(1, "fifo"), build(2, "fifo"), build(4, "lifo")];
        exercise(&runtimes, Duration::from_millis(100));
        if !Asymmetric::new().is_process_wide() {
            eprintln!("skipped: this kernel has no process-wide barrier");
            return;
        }
        thread::scope(|scope| {
            // In the middle of work, …
            scope.spawn(|| {
                thread::sleep(Duration::from_millis(50));
                if !forbid(&[(libc::SYS_membarrier, libc::EPERM)]) {
                    eprintln!("skipped: this kernel installs no filter of system calls");
                }
            });
            exercise(&runtimes, Duration::from_millis(400));
        });
        // …and afterwards, with runtimes of before and one that is built in the sandbox.
        // On a busy machine the other worker may be late for each of them.
        let stolen = (0..10).any(|_| exercise(&runtimes, Duration::from_millis(300)) > 0);
        assert!(stolen, "forks are taken as before");
        // The monitor has gone to sleep with the workers, and is woken by the first one that wakes up.
        for runtime in &runtimes {
            thread::sleep(Duration::from_millis(150));
            let before = runtime.stalls();
            let start = Instant::now();
            while runtime.stalls() == before {
                assert!(
                    start.elapsed() < Duration::from_secs(60),
                    "a stuck worker is noticed"
                );
                let hog = runtime.spawn_job(|| thread::sleep(Duration::from_millis(40)));
                hog.wait().expect("no panic");
            }
        }
        let inside = build(2, "prows");
        exercise(std::slice::from_ref(&inside), Duration::from_millis(100));
        assert!(!Asymmetric::new().is_process_wide() || !refused());
        drop(runtimes);
        drop(inside);
    });
}

/// A system limit refuses threads: there is no default runtime, and the program continues. An existing
/// runtime works with the threads that it has.
#[test]
fn threads_forbidden_later() {
    in_child("threads_forbidden_later", || {
        let runtime = Runtime::builder().workers(2).build().expect("workers");
        // Without `clone3` the C library falls back to `clone`.
        if !forbid(&[(libc::SYS_clone3, libc::ENOSYS), (libc::SYS_clone, libc::EAGAIN)]) {
            eprintln!("skipped: this kernel installs no filter of system calls");
            return;
        }
        let hooks: [fn(); 5] = [
            || assert_eq!(warpweft::join(|| 1, || 2), (1, 2)),
            || warpweft::scope(|scope| scope.spawn(|_| ())),
            || warpweft::par_for(0..10, 1, |_| ()),
            || warpweft::spawn(async {}).detach(),
            || block_on(sleep(Duration::from_millis(1))),
        ];
        for way in hooks {
            let panic = std::panic::catch_unwind(way).expect_err("no threads");
            let said = panic.downcast_ref::<String>().expect("a reason");
            assert!(said.contains("no thread for worker 0"), "{said}");
        }
        assert!(warpweft::try_default_runtime().is_err());
        assert!(warpweft::net::UnixStream::pair().is_err());
        assert!(Runtime::builder().workers(1).build().is_err());
        // Joins that are taken, sleeps, fibers: with two workers, and no thread for waits.
        let stolen = AtomicUsize::new(0);
        for _ in 0..20 {
            round(&runtime, &stolen);
        }
    });
}

/// Returns true if `membarrier` is forbidden here.
fn refused() -> bool {
    // SAFETY: it takes numbers by value. Command 0 returns the supported commands.
    let answer = unsafe { libc::syscall(libc::SYS_membarrier, 0, 0, 0) };
    answer < 0
}
