//! Timers, sockets and closures that block.
#![forbid(unsafe_code)]

use crate::keepers::{all_answer, eventually};
use std::future::Future;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};
use warpweft::io::Async;
use warpweft::net::{TcpListener, TcpStream, UdpSocket, UnixDatagram, UnixStream};
use warpweft::time::{interval, interval_at, sleep, sleep_until, timeout};
use warpweft::{JoinError, block_on, blocking, fiber, fs, join_async, spawn_blocking, yield_now};

/// Tries: timers of the largest duration, of none, in the past, reset again and again while others poll them.
/// Expected: those that are over end; the others can be dropped.
#[test]
fn timers_at_the_ends_of_time() {
    program!(|world| {
        let runtime = world.runtime();
        runtime.block_on(async {
            sleep(Duration::ZERO).await;
            sleep_until(Instant::now() - Duration::from_secs(1)).await;
            for long in [
                Duration::MAX,
                Duration::from_secs(u64::MAX),
                Duration::from_nanos(u64::MAX),
            ] {
                let elapsed = timeout(Duration::from_micros(100), sleep(long)).await;
                assert!(elapsed.is_err());
                assert_eq!(timeout(long, async { 7 }).await, Ok(7));
                let mut timed_park = Box::pin(sleep(long));
                assert!(timeout(Duration::ZERO, timed_park.as_mut()).await.is_err());
                timed_park.as_mut().get_mut().reset(Instant::now());
                timed_park.await;
            }
            assert!(
                timeout(Duration::ZERO, std::future::pending::<()>())
                    .await
                    .is_err()
            );
        });
        for period in [Duration::ZERO, Duration::MAX, Duration::from_nanos(1)] {
            let made = catch_unwind(AssertUnwindSafe(|| {
                runtime.block_on(async {
                    let mut ticks = interval(period);
                    let first = timeout(Duration::from_millis(1), ticks.tick()).await;
                    drop(timeout(Duration::from_micros(100), ticks.tick()).await);
                    first.is_ok()
                })
            }));
            assert!(made.is_err() || made.is_ok_and(|first| first), "{period:?}");
        }
        let mut ticks = interval_at(Instant::now() - Duration::from_secs(3600), Duration::from_secs(1));
        runtime.block_on(ticks.tick());
    });
}

/// Tries: thousands of timers that are set, reset, dropped and leaked by several tasks, polled with foreign
/// wakers. Expected: each that is awaited ends.
#[test]
fn storms_of_timers() {
    struct Nothing;
    impl Wake for Nothing {
        fn wake(self: Arc<Self>) {}
    }
    program!(|world| {
        let (runtime, other) = (world.runtime(), world.runtime());
        let handles: Vec<_> = (0..8)
            .map(|seed| {
                let body = async move {
                    let mut timed_parks = Vec::new();
                    for n in 0..world.count(500) as u64 {
                        let mut timed_park = Box::pin(sleep(Duration::from_micros((n * 7919 + seed) % 500)));
                        let waker = Waker::from(Arc::new(Nothing));
                        let _ = timed_park.as_mut().poll(&mut Context::from_waker(&waker));
                        match n % 5 {
                            0 => drop(timed_park),
                            1 => timed_park
                                .as_mut()
                                .get_mut()
                                .reset(Instant::now() + Duration::from_micros(n % 90)),
                            2 => std::mem::forget(timed_park),
                            3 => timed_park.await,
                            _ => timed_parks.push(timed_park),
                        }
                    }
                    for timed_park in timed_parks {
                        timed_park.await;
                    }
                };
                if seed % 2 == 0 {
                    runtime.spawn(body)
                } else {
                    other.spawn_fiber(move || block_on(body))
                }
            })
            .collect();
        assert_eq!(all_answer(handles).done, 8);
    });
}

/// Tries: sockets that are dropped while others read and write, shut down, and used on another runtime.
/// Expected: results or errors, and no wait without an end.
#[test]
fn sockets_go_in_the_middle() {
    program!(|world| {
        let (runtime, other) = (world.runtime(), world.runtime());
        for round in 0..world.count(30) {
            let (a, b) = runtime
                .block_on(async { UnixStream::pair() })
                .expect("descriptors");
            let a = Arc::new(a);
            let readers: Vec<_> = (0..6)
                .map(|n| {
                    let a = Arc::clone(&a);
                    let future = async move {
                        let mut buffer = vec![0; 64];
                        if n % 3 == 0 {
                            let _ = timeout(Duration::from_micros(100), a.read(&mut buffer)).await;
                        }
                        while a.read(&mut buffer).await.is_ok_and(|read| read > 0) {}
                        let _ = a.write_all(b"late").await;
                    };
                    match n % 3 {
                        0 => runtime.spawn(future),
                        1 => other.spawn(future),
                        _ => runtime.spawn_fiber(move || fiber::wait(future)),
                    }
                })
                .collect();
            let writer = other.spawn(async move {
                for _ in 0..20 {
                    let _ = b.write_all(&[7; 100]).await;
                    yield_now().await;
                }
                let _ = b.shutdown(std::net::Shutdown::Both);
            });
            if round % 4 == 0 {
                readers.iter().for_each(|reader| {
                    reader.cancel();
                });
            }
            writer.wait().expect("no panic");
            assert_eq!(all_answer(readers).all(), 6);
        }
    });
}

/// Tries: listeners, datagrams and names with odd addresses, and connections that are cancelled.
/// Expected: errors, and no wait without an end.
#[test]
fn odd_addresses_and_cancelled_connections() {
    program!(|world| {
        let runtime = world.runtime();
        let done = runtime.spawn(async move {
            let listener = TcpListener::bind(([127, 0, 0, 1], 0)).expect("a port");
            let address = listener.local_addr().expect("its address");
            for n in 0..world.count(30) {
                let (client, server) = join_async(
                    async move {
                        timeout(Duration::from_micros(20 * n as u64), TcpStream::connect(address)).await
                    },
                    async { Ok::<_, std::io::Error>(()) },
                )
                .await;
                drop((client, server));
                let accepted = timeout(Duration::from_micros(300), listener.accept()).await;
                drop(accepted);
            }
            drop(listener);
            assert!(TcpStream::connect(address).await.is_err());
            assert!(TcpStream::connect("").await.is_err());
            assert!(TcpStream::connect("no port").await.is_err());
            assert!(UnixStream::connect("/nonexistent/socket").await.is_err());
            assert!(UnixStream::connect("x".repeat(5000)).await.is_err());
            let udp = UdpSocket::bind(([127, 0, 0, 1], 0)).expect("a port");
            assert!(
                timeout(Duration::from_micros(100), udp.recv(&mut []))
                    .await
                    .is_err()
            );
            assert!(udp.send_to(&vec![0; 1 << 20], ([127, 0, 0, 1], 9)).await.is_err());
            let (a, b) = UnixDatagram::pair().expect("descriptors");
            drop(b);
            assert!(a.send(b"nobody").await.is_err());
        });
        done.wait().expect("no panic");
    });
}

/// Gives another descriptor at each call, though it is one object.
struct Shifty(Vec<std::os::unix::net::UnixStream>, AtomicUsize);

impl AsFd for Shifty {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0[self.1.fetch_add(1, Ordering::Relaxed) % self.0.len()].as_fd()
    }
}

/// Tries: an object whose descriptor changes from call to call, and one that is taken out and registered
/// twice. Expected: wrong readiness or an error at worst.
#[test]
fn descriptors_that_change() {
    program!(|world| {
        let runtime = world.runtime();
        for _ in 0..world.count(20) {
            let pairs: Vec<_> = (0..3)
                .map(|_| std::os::unix::net::UnixStream::pair().expect("descriptors"))
                .collect();
            let (here, mut there): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
            let made = runtime.block_on(async { Async::new(Shifty(here, AtomicUsize::new(0))) });
            let Ok(shifty) = made else { continue };
            there
                .iter_mut()
                .for_each(|end| end.write_all(b"x").expect("room"));
            let read = runtime.spawn(async move {
                let read = shifty.read_with(|shifty| {
                    let mut byte = [0];
                    (&shifty.0[0]).read(&mut byte)
                });
                let _ = timeout(Duration::from_millis(1), read).await;
                let _ = timeout(Duration::from_millis(1), shifty.readable()).await;
                let inner = shifty.into_inner();
                let again = Async::new(inner).map(|again| drop(again.into_inner()));
                drop(again);
            });
            assert_eq!(all_answer([read]).all(), 1);
        }
        let pair = runtime.block_on(async { UnixStream::pair() }).expect("a pair");
        let byte = runtime.spawn(async move {
            pair.0.write_all(b"y").await.expect("room");
            pair.1.read(&mut [0]).await.expect("a byte")
        });
        assert_eq!(byte.wait().expect("no panic"), 1);
    });
}

/// Tries: operations of sockets that panic in the middle, are polled in two tasks at once, and wait inside of
/// themselves. Expected: the panic is the caller's; the socket still works.
#[test]
fn operations_that_panic_and_wait() {
    program!(|world| {
        let runtime = world.runtime();
        for _ in 0..world.count(20) {
            let (a, b) = runtime.block_on(async { UnixStream::pair() }).expect("a pair");
            let a = Arc::new(a);
            let handles: Vec<_> = (0..4)
                .map(|n| {
                    let a = Arc::clone(&a);
                    runtime.spawn(async move {
                        let operation =
                            a.as_async()
                                .read_with(|_: &std::os::unix::net::UnixStream| match n {
                                    0 => panic!("an operation panics"),
                                    1 => {
                                        block_on(sleep(Duration::from_micros(20)));
                                        Err::<(), _>(std::io::ErrorKind::WouldBlock.into())
                                    }
                                    2 => Err(std::io::ErrorKind::Interrupted.into()),
                                    _ => Err(std::io::ErrorKind::WouldBlock.into()),
                                });
                        let _ = timeout(Duration::from_millis(1), operation).await;
                    })
                })
                .collect();
            if let Err(error) = runtime.block_on(b.write_all(b"hello")) {
                panic!("{error}");
            }
            let answers = runtime.spawn(async {
                sleep(Duration::from_millis(3)).await;
            });
            all_answer([answers]);
            for handle in &handles {
                handle.cancel();
            }
            assert_eq!(all_answer(handles).all(), 4);
        }
    });
}

/// Tries: closures that block, are refused, panic, are cancelled in the queue, and end their own runtime's
/// queue. Expected: each joiner gets a result.
#[test]
fn closures_that_block() {
    program!(|world| {
        for round in 0..world.count(20) {
            let runtime = world
                .builder()
                .max_blocking_threads(2)
                .build()
                .expect("a runtime");
            let (open, gate) = mpsc::channel::<()>();
            let gate = Arc::new(std::sync::Mutex::new(gate));
            let plugs: Vec<_> = (0..2)
                .filter_map(|_| {
                    let gate = Arc::clone(&gate);
                    let plug = move || drop(gate.lock().expect("a lock").recv());
                    runtime.try_spawn_blocking(plug).ok()
                })
                .collect();
            let queued: Vec<_> = (0..10)
                .filter_map(|n| {
                    let handle = runtime.try_spawn_blocking(move || {
                        blocking(|| block_on(async {}));
                        assert_ne!(n, 3, "a closure panics");
                    });
                    handle.ok()
                })
                .collect();
            queued.iter().step_by(4).for_each(|handle| {
                handle.cancel();
            });
            let waiting = runtime.spawn(async { spawn_blocking(|| 7).await.is_ok() });
            let file = runtime.spawn(async { fs::read("/proc/self/status").await.is_ok() });
            if round % 2 == 0 {
                drop(open);
            } else {
                let opener = thread::spawn(move || {
                    thread::sleep(Duration::from_millis(1));
                    drop(open);
                });
                drop(runtime);
                opener.join().expect("no panic");
            }
            assert_eq!(all_answer(plugs).all(), 2);
            all_answer(queued);
            all_answer([waiting, file]);
        }
    });
}

/// Tries: the use of timers, sockets and files outside of any runtime, and after the end of the one that made
/// them. Expected: the default runtime serves them, or an error.
#[test]
fn waits_outside_of_runtimes() {
    program!(|world| {
        block_on(sleep(Duration::from_micros(10)));
        let (a, b) = UnixStream::pair().expect("the default runtime");
        block_on(a.write_all(b"x")).expect("room");
        assert_eq!(block_on(b.read(&mut [0; 4])).expect("a byte"), 1);
        let runtime = world.runtime();
        let (c, d) = runtime.block_on(async { UnixStream::pair() }).expect("a pair");
        let timed_park = runtime.block_on(async {
            let mut timed_park = Box::pin(sleep(Duration::from_secs(3600)));
            assert!(timeout(Duration::ZERO, timed_park.as_mut()).await.is_err());
            Some(timed_park)
        });
        let mut timed_park = timed_park.expect("a timer");
        drop(runtime);
        let late = catch_unwind(AssertUnwindSafe(|| block_on(c.read(&mut [0; 4]))));
        assert!(late.is_err() || late.is_ok_and(|read| read.is_err()));
        let late = catch_unwind(AssertUnwindSafe(|| {
            block_on(timeout(Duration::from_millis(1), timed_park.as_mut()))
        }));
        drop(late);
        drop((d.into_split(), timed_park));
    });
}

/// Tries: tasks that wait for everything at once, cancelled and shut down at random moments, with one thread
/// that polls. Expected: each joiner gets a result, and the descriptors come back.
#[test]
fn everything_at_once_against_the_end() {
    program!(|world| {
        let descriptors = || std::fs::read_dir("/proc/self/fd").expect("descriptors").count();
        let before = descriptors();
        for round in 0..world.count(20) {
            let io = if round % 2 == 0 {
                warpweft::Io::Thread
            } else {
                warpweft::Io::Inline
            };
            let runtime = world.builder().io(io).build().expect("a runtime");
            let handles: Vec<_> = (0..20)
                .map(|_| {
                    runtime.spawn(async {
                        let (a, b) = UnixStream::pair().expect("a pair");
                        let mut byte = [0];
                        let read = timeout(Duration::from_millis(5), b.read(&mut byte));
                        let write = async move {
                            sleep(Duration::from_micros(100)).await;
                            let _ = a.write_all(b"x").await;
                            a
                        };
                        let (_, _) = (timeout(Duration::from_millis(1), read).await, write.await);
                    })
                })
                .collect();
            thread::sleep(Duration::from_micros(100 * round as u64));
            handles.iter().step_by(3).for_each(|handle| {
                handle.cancel();
            });
            drop(runtime);
            for handle in handles {
                let end = handle.wait();
                assert!(matches!(
                    end,
                    Ok(()) | Err(JoinError::Shutdown | JoinError::Cancelled | JoinError::Panicked(_))
                ));
            }
        }
        eventually("all descriptors are closed", || descriptors() <= before);
    });
}
