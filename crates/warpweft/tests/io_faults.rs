//! What the system does to a program that waits: no more descriptors, interrupted calls, a forked child. Each
//! test has a child process, because limits, timers and forks affect the whole process.
#![cfg(target_os = "linux")]
#![cfg(all(
    feature = "net",
    feature = "signal",
    not(any(warpweft_loom, warpweft_shuttle))
))]

#[path = "support/again.rs"]
mod again;
#[path = "support/inout.rs"]
mod support;

use again::in_child;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::time::{Duration, Instant};
use support::both_ways;
use warpweft::net::{TcpListener, TcpStream, UnixStream};
use warpweft::time::{sleep, timeout};
use warpweft::{Io, Runtime, block_on, spawn};

const HERE: ([u8; 4], u16) = ([127, 0, 0, 1], 0);
fn limit_descriptors(now: u64, most: u64) {
    let limit = libc::rlimit {
        rlim_cur: now,
        rlim_max: most,
    };
    // SAFETY: it reads the structure and changes a limit of this process, a child of the test's.
    let set = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
    assert_eq!(set, 0);
}

/// Some errors are named by an address: the system's is their source.
fn no_more(error: &std::io::Error) -> bool {
    let source = error.get_ref().and_then(|named| named.source());
    let system = source.and_then(|source| source.downcast_ref()).unwrap_or(error);
    system.raw_os_error() == Some(libc::EMFILE)
}

#[test]
fn a_listener_survives_the_end_of_descriptors() {
    in_child("a_listener_survives_the_end_of_descriptors", || {
        limit_descriptors(40, 40);
        let runtime = Runtime::builder().workers(2).build().expect("workers");
        runtime.block_on(async {
            let listener = TcpListener::bind(HERE).expect("room for one");
            let address = listener.local_addr().expect("it is bound");
            // Both ends are in this process: first the clients take all there are but one, …
            let mut clients = Vec::new();
            let error = loop {
                match TcpStream::connect(address).await {
                    Ok(client) => clients.push(client),
                    Err(error) => break error,
                }
            };
            assert!(no_more(&error), "{error}");
            clients.pop();
            // …so that of the connections that wait one is accepted, and then none.
            let first = listener.accept().await.expect("there is one descriptor");
            for _ in 0..3 {
                let error = listener.accept().await.expect_err("there is none");
                assert!(no_more(&error), "{error}");
            }
            drop(first);
            drop(clients.pop());
            let (stream, _) = listener
                .accept()
                .await
                .expect("the listener is as usable as before");
            drop(stream);
        });
    });
}

#[test]
fn a_poller_that_cannot_be_had_is_an_error() {
    in_child("a_poller_that_cannot_be_had_is_an_error", || {
        for io in [Io::Inline, Io::Thread] {
            let runtime = Runtime::builder().workers(1).io(io).build().expect("a worker");
            let (one, _other) = std::os::unix::net::UnixStream::pair().expect("two descriptors");
            let clone = one.try_clone().expect("a third");
            let mut taken = Vec::new();
            limit_descriptors(30, 1024);
            while let Ok(file) = std::fs::File::open("/dev/null") {
                taken.push(file);
            }
            let error = runtime
                .block_on(async { UnixStream::from_std(one) })
                .expect_err("there is no descriptor for a poller");
            assert!(no_more(&error), "{error}");
            // It is not remembered.
            drop(taken);
            limit_descriptors(1024, 1024);
            runtime
                .block_on(async { UnixStream::from_std(clone) })
                .expect("now there is");
            runtime.block_on(sleep(Duration::from_millis(1)));
        }
    });
}

#[test]
fn interrupted_calls_go_on() {
    in_child("interrupted_calls_go_on", || {
        extern "C" fn nothing(_: libc::c_int) {}
        // SAFETY: an all-zero `sigaction` is a valid one: no flags, so that system calls are interrupted, and
        // an empty mask.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as libc::sighandler_t;
        // SAFETY: the handler does nothing, which is allowed in a handler.
        let set = unsafe { libc::sigaction(libc::SIGALRM, &raw const action, std::ptr::null_mut()) };
        assert_eq!(set, 0);
        let process = std::process::id();
        both_ways(|runtime| {
            let stop = std::sync::atomic::AtomicBool::new(false);
            std::thread::scope(|scope| {
                // Interrupts every thread of this process, again and again.
                scope.spawn(|| {
                    while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                        for task in std::fs::read_dir("/proc/self/task").expect("threads").flatten() {
                            let number = task.file_name().to_string_lossy().parse::<libc::pid_t>();
                            let number = number.expect("a number");
                            // SAFETY: it sends a signal, which has a handler, to a thread of this process.
                            unsafe { libc::syscall(libc::SYS_tgkill, process, number, libc::SIGALRM) };
                        }
                        std::thread::sleep(Duration::from_micros(200));
                    }
                });
                let start = Instant::now();
                runtime.block_on(async {
                    let listener = TcpListener::bind(HERE).expect("an address");
                    let client = spawn(TcpStream::connect(listener.local_addr().expect("bound")));
                    let (there, _) = listener.accept().await.expect("a client");
                    let here = client.await.expect("no panic").expect("connected");
                    let echo = spawn(async move {
                        let mut byte = [0];
                        while there.read(&mut byte).await.expect("no error") == 1 {
                            there.write_all(&byte).await.expect("no error");
                        }
                    });
                    for round in 0..50_u8 {
                        sleep(Duration::from_millis(1)).await;
                        here.write_all(&[round]).await.expect("no error");
                        let mut byte = [0];
                        here.read_exact(&mut byte).await.expect("no error");
                        assert_eq!(byte, [round]);
                    }
                    drop(here);
                    echo.await.expect("no panic");
                });
                assert!(
                    start.elapsed() >= Duration::from_millis(50),
                    "no sleep was cut short"
                );
                stop.store(true, std::sync::atomic::Ordering::Relaxed);
            });
        });
    });
}

#[test]
fn a_forked_child_is_told_and_harms_nobody() {
    in_child("a_forked_child_is_told_and_harms_nobody", || {
        for io in [Io::Inline, Io::Thread] {
            let runtime = Runtime::builder().workers(2).io(io).build().expect("workers");
            let (here, there) = runtime.block_on(async { UnixStream::pair() }).expect("a pair");
            let (halved, other) = runtime.block_on(async { UnixStream::pair() }).expect("a pair");
            let (reads, writes) = halved.into_split();
            // SAFETY: the child touches only what is its own, as far as a test can, and leaves by `_exit`.
            let child = unsafe { libc::fork() };
            assert!(child >= 0);
            if child == 0 {
                let refused = |error: std::io::Error| {
                    error.kind() == ErrorKind::Unsupported && error.to_string().contains("forked")
                };
                let read = block_on(here.read(&mut [0])).is_err_and(refused);
                let made = runtime.block_on(async { UnixStream::pair() }).is_err_and(refused);
                // Their registrations are the parent's, and stay.
                drop((here, there));
                // The connection of these is the parent's, too.
                drop((reads, writes, other));
                // SAFETY: ends the child at once.
                unsafe { libc::_exit(i32::from(!read) + 2 * i32::from(!made)) };
            }
            let mut status = 0;
            // SAFETY: waits for the child that was just made; `status` is valid for a write.
            let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
            assert_eq!((waited, status), (child, 0));
            block_on(writes.write_all(&[8])).expect("the half has not ended");
            let mut byte = [0];
            block_on(other.read_exact(&mut byte)).expect("a byte");
            assert_eq!(byte, [8]);
            drop(reads);
            let reader = runtime.spawn(async move {
                let mut byte = [0];
                let read = timeout(Duration::from_secs(20), here.read_exact(&mut byte)).await;
                read.expect("the registration is still there").expect("a byte");
                byte[0]
            });
            std::thread::sleep(Duration::from_millis(5));
            block_on(there.write_all(&[7])).expect("room");
            assert_eq!(reader.wait().expect("no panic"), 7);
        }
    });
}

#[test]
fn ctrl_c_is_told_to_everyone_who_waits() {
    in_child("ctrl_c_is_told_to_everyone_who_waits", || {
        both_ways(|runtime| {
            runtime.block_on(async {
                // Once polled, it no longer ends this process, even when no task waits.
                let early = timeout(Duration::from_millis(1), warpweft::signal::ctrl_c()).await;
                assert!(early.is_err(), "nobody has pressed it");
                let interrupt = || {
                    // SAFETY: it sends a signal, which has a handler, to this process.
                    let sent = unsafe { libc::kill(std::process::id().cast_signed(), libc::SIGINT) };
                    assert_eq!(sent, 0);
                };
                interrupt();
                let waiting: Vec<_> = (0..3).map(|_| spawn(warpweft::signal::ctrl_c())).collect();
                for task in waiting {
                    while !task.is_finished() {
                        interrupt();
                        sleep(Duration::from_millis(1)).await;
                    }
                    task.await.expect("no panic").expect("no error");
                }
            });
        });
    });
}

#[test]
fn each_signal_is_heard_by_each_listener_also_between_two_waits() {
    use warpweft::signal::{Signal, Signals, hangup, terminate};
    in_child(
        "each_signal_is_heard_by_each_listener_also_between_two_waits",
        || {
            both_ways(|runtime| {
                runtime.block_on(async {
                    let send = |signal| {
                        // SAFETY: it sends a signal, which has a handler, to this process.
                        let sent = unsafe { libc::kill(std::process::id().cast_signed(), signal) };
                        assert_eq!(sent, 0);
                    };
                    let all = Signals::new(&Signal::ALL).expect("descriptors");
                    let one = Signals::new(&[Signal::Terminate]).expect("descriptors");
                    let early = timeout(Duration::from_millis(1), all.next()).await;
                    assert!(early.is_err(), "nobody has sent one");
                    // Each before somebody waits.
                    for (number, signal) in [
                        (libc::SIGINT, Signal::Interrupt),
                        (libc::SIGTERM, Signal::Terminate),
                        (libc::SIGHUP, Signal::Hangup),
                        (libc::SIGQUIT, Signal::Quit),
                        (libc::SIGUSR1, Signal::User1),
                        (libc::SIGUSR2, Signal::User2),
                    ] {
                        send(number);
                        assert_eq!(all.next().await.expect("a signal"), signal);
                    }
                    assert_eq!(one.next().await.expect("a signal"), Signal::Terminate);
                    let others = timeout(Duration::from_millis(1), one.next()).await;
                    assert!(others.is_err(), "it hears its own signal alone");
                    for (number, wait) in [
                        (libc::SIGTERM, spawn(terminate())),
                        (libc::SIGHUP, spawn(hangup())),
                    ] {
                        while !wait.is_finished() {
                            send(number);
                            sleep(Duration::from_millis(1)).await;
                        }
                        wait.await.expect("no panic").expect("no error");
                    }
                });
            });
        },
    );
}

#[test]
fn a_flood_of_signals_hides_no_other() {
    use warpweft::signal::{Signal, Signals};
    in_child("a_flood_of_signals_hides_no_other", || {
        const MANY: usize = 20_000;
        both_ways(|runtime| {
            runtime.block_on(async {
                let none = Signals::new(&[]).expect_err("it would hear nothing");
                assert_eq!(none.kind(), ErrorKind::InvalidInput);
                assert!(none.to_string().contains("give at least one"), "{none}");
                let signals = Signals::new(&Signal::ALL).expect("descriptors");
                let twice = Signals::new(&[Signal::Hangup; 2]).expect("descriptors");
                let raise = |signal| {
                    // SAFETY: it sends a signal, which has a handler, to this thread. It returns afterwards.
                    assert_eq!(unsafe { libc::raise(signal) }, 0);
                };
                (0..MANY).for_each(|_| raise(libc::SIGHUP));
                raise(libc::SIGTERM);
                let first = timeout(Duration::from_secs(20), signals.next()).await;
                assert_eq!(first.expect("in time").expect("a signal"), Signal::Terminate);
                for listener in [&signals, &twice] {
                    for _ in 0..MANY {
                        assert_eq!(listener.next().await.expect("a signal"), Signal::Hangup);
                    }
                    let more = timeout(Duration::from_millis(1), listener.next()).await;
                    assert!(more.is_err(), "each is heard once: {more:?}");
                }
            });
        });
    });
}

#[test]
fn a_signal_that_asks_for_a_dump_is_heard_by_a_listener_too() {
    use warpweft::signal::{Signal, Signals, dump_on_signal, record_on_signal};
    in_child("a_signal_that_asks_for_a_dump_is_heard_by_a_listener_too", || {
        both_ways(|runtime| {
            let (tell, told) = std::sync::mpsc::channel();
            let told_too = tell.clone();
            let _dumps = dump_on_signal(runtime, move |_| tell.send(Signal::User2).expect("it waits"));
            let _snapshots =
                record_on_signal(runtime, move |_| told_too.send(Signal::User1).expect("it waits"));
            let signals = runtime.block_on(async { Signals::new(&Signal::ALL) });
            let signals = signals.expect("descriptors");
            for (number, signal) in [(libc::SIGUSR1, Signal::User1), (libc::SIGUSR2, Signal::User2)] {
                // SAFETY: it sends a signal, which has a handler, to this thread.
                assert_eq!(unsafe { libc::raise(number) }, 0);
                assert_eq!(runtime.block_on(signals.next()).expect("a signal"), signal);
                assert_eq!(told.recv_timeout(Duration::from_secs(20)), Ok(signal));
            }
        });
    });
}

/// An idle pool makes no system calls, with sockets and far timers too: its threads' context switches say so.
#[test]
fn an_idle_pool_sleeps() {
    in_child("an_idle_pool_sleeps", || {
        for io in [Io::Inline, Io::Thread] {
            let runtime = Runtime::builder()
                .workers(2)
                .name("silent")
                .io(io)
                .build()
                .expect("workers");
            let (here, there) = runtime.block_on(async { UnixStream::pair() }).expect("a pair");
            let reader = runtime.spawn(async move { here.read(&mut [0]).await });
            let sleeper = runtime.spawn(sleep(Duration::from_secs(3600)));
            // The monitor sleeps some ticks after the workers.
            std::thread::sleep(Duration::from_millis(300));
            // On a busy machine one of them may be on its way to sleep for longer. In a pool that polls, a
            // thread wakes up in each window.
            let mut seen = Vec::new();
            let is_quiet = (0..20).any(|_| {
                let before = switches();
                std::thread::sleep(Duration::from_millis(500));
                seen.push((before, switches()));
                seen.last().is_some_and(|(before, after)| before == after)
            });
            assert!(is_quiet, "{seen:?}");
            block_on(there.write_all(&[1])).expect("room");
            assert_eq!(reader.wait().expect("no panic").expect("a byte"), 1);
            drop(sleeper);
        }
    });
}

/// Returns how often each thread of the pool has gone to sleep.
fn switches() -> Vec<(String, String)> {
    let read = |path: std::path::PathBuf| {
        let mut text = String::new();
        let file = std::fs::File::open(path);
        file.and_then(|mut file| file.read_to_string(&mut text))
            .map(|_| text)
            .unwrap_or_default()
    };
    let tasks = std::fs::read_dir("/proc/self/task").expect("threads").flatten();
    let mut found: Vec<_> = tasks
        .map(|task| read(task.path().join("status")))
        .filter(|status| status.contains("silent"))
        .filter_map(|status| {
            let of = |key: &str| {
                status
                    .lines()
                    .find(|line| line.starts_with(key))
                    .map(str::to_owned)
            };
            Some((of("Pid")?, of("voluntary_ctxt_switches")?))
        })
        .collect();
    found.sort();
    assert!(!found.is_empty());
    found
}

#[test]
fn no_descriptor_is_left_behind() {
    in_child("no_descriptor_is_left_behind", || {
        let open = || std::fs::read_dir("/proc/self/fd").expect("descriptors").count();
        let once = |round: u8| {
            for io in [Io::Inline, Io::Thread] {
                let runtime = Runtime::builder().workers(2).io(io).build().expect("workers");
                let (here, mut there) = runtime.block_on(async {
                    let (here, there) = UnixStream::pair().expect("a pair");
                    (here, there.into_std())
                });
                assert!(here.as_async().get_ref().as_raw_fd() > 2);
                let reader = runtime.spawn(async move { here.read(&mut [0]).await });
                if round.is_multiple_of(2) {
                    there.write_all(&[1]).expect("room");
                    assert_eq!(reader.wait().expect("no panic").expect("a byte"), 1);
                }
            }
        };
        once(0);
        let before = open();
        (1..20).for_each(once);
        assert_eq!(open(), before);
    });
}
