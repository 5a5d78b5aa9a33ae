//! The default runtime cannot be built: each way to it ends in an error or in a panic that is caught here,
//! with the reason. The program goes on, and finds the runtime when threads can be had again. Alone in its
//! process.
#![cfg(all(
    feature = "net",
    feature = "signal",
    not(any(warpweft_loom, warpweft_shuttle))
))]

use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use warpweft::net::{TcpListener, TcpStream, UdpSocket, UnixListener, UnixStream};
use warpweft::stream::ParStream;
use warpweft::time::{interval, sleep, timeout};
use warpweft::{BuildError, TaskBuilder, block_on, effect, fiber, stream};
use warpweft_platform::thread::{available_cpus, grant};

/// What became of a call: it needs no runtime; an error; a panic.
#[derive(Debug, PartialEq)]
enum End {
    Fine,
    Error(String),
    Panic(String),
}

fn failed(error: &io::Error) -> End {
    End::Error(error.to_string())
}

fn said(panic: &(dyn Any + Send)) -> String {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => (*text).to_owned(),
        (_, Some(text)) => text.clone(),
        _ => "no text".to_owned(),
    }
}

fn end_of<T>(result: io::Result<T>) -> End {
    match result {
        Ok(_) => End::Fine,
        Err(error) => failed(&error),
    }
}

/// Counts the closures and futures that were dropped, or run.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

type Direction = (&'static str, fn(Counted) -> End);

fn numbers() -> impl futures_core::Stream<Item = u32> {
    struct Three(u32);
    impl futures_core::Stream for Three {
        type Item = u32;
        fn poll_next(
            mut self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<u32>> {
            self.0 += 1;
            std::task::Poll::Ready((self.0 < 4).then_some(self.0))
        }
    }
    Three(0)
}

struct Ask;

impl effect::Effect for Ask {
    type Answer = u32;
}

const HERE: ([u8; 4], u16) = ([127, 0, 0, 1], 0);
const MS: Duration = Duration::from_millis(1);

/// Ways that need a runtime, and give nothing through which an error could come: a panic.
const PANICS: &[Direction] = &[
    ("default_runtime", |_counted| {
        let _ = warpweft::default_runtime();
        End::Fine
    }),
    ("spawn", |counted| {
        warpweft::spawn(async move { drop(counted) }).detach();
        End::Fine
    }),
    ("spawn_job", |counted| {
        warpweft::spawn_job(move || drop(counted)).detach();
        End::Fine
    }),
    ("spawn_detached", |counted| {
        warpweft::spawn_detached(move || drop(counted));
        End::Fine
    }),
    ("spawn_blocking", |counted| {
        let _ = block_on(warpweft::spawn_blocking(move || drop(counted)));
        End::Fine
    }),
    ("try_spawn_blocking", |counted| {
        let _ = warpweft::try_spawn_blocking(move || drop(counted));
        End::Fine
    }),
    ("TaskBuilder::spawn", |counted| {
        let builder = TaskBuilder::new().name("named");
        builder.spawn(async move { drop(counted) }).detach();
        End::Fine
    }),
    ("TaskBuilder::spawn_job", |counted| {
        let builder = TaskBuilder::new().name(String::from("named"));
        builder.spawn_job(move || drop(counted)).detach();
        End::Fine
    }),
    ("TaskBuilder::spawn_detached", |counted| {
        TaskBuilder::new().spawn_detached(move || drop(counted));
        End::Fine
    }),
    ("TaskBuilder::spawn_fiber", |counted| {
        TaskBuilder::new().spawn_fiber(move || drop(counted)).detach();
        End::Fine
    }),
    ("TaskBuilder::spawn_fiber_here", |counted| {
        let builder = TaskBuilder::new();
        builder.spawn_fiber_here(move || drop(counted)).detach();
        End::Fine
    }),
    ("TaskBuilder::try_spawn_fiber", |counted| {
        let _ = TaskBuilder::new().try_spawn_fiber(move || drop(counted));
        End::Fine
    }),
    ("fiber::spawn", |counted| {
        fiber::spawn(move || drop(counted)).detach();
        End::Fine
    }),
    ("fiber::spawn_here", |counted| {
        fiber::spawn_here(move || drop(counted)).detach();
        End::Fine
    }),
    ("fiber::scope", |counted| {
        fiber::scope(move |scope| scope.spawn(move |_| drop(counted)));
        End::Fine
    }),
    ("join", |counted| {
        warpweft::join(move || drop(counted), || ());
        End::Fine
    }),
    ("scope", |counted| {
        warpweft::scope(move |scope| scope.spawn(move |_| drop(counted)));
        End::Fine
    }),
    ("par_for", |counted| {
        warpweft::par_for(0..10, 1, |_| {
            let _ = &counted;
        });
        End::Fine
    }),
    ("par_chunks_mut", |counted| {
        warpweft::par_chunks_mut(&mut [0; 10], 1, |_, _| {
            let _ = &counted;
        });
        End::Fine
    }),
    ("time::sleep", |_counted| {
        block_on(sleep(MS));
        End::Fine
    }),
    ("time::sleep of a joiner", |_counted| {
        std::thread::scope(|scope| {
            let end = scope.spawn(|| block_on(sleep(MS))).join();
            end.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        });
        End::Fine
    }),
    ("time::timeout", |_counted| {
        let _ = block_on(timeout(MS, std::future::pending::<()>()));
        End::Fine
    }),
    ("time::interval", |_counted| {
        let mut ticks = interval(MS);
        block_on(async {
            ticks.tick().await;
            ticks.tick().await;
        });
        End::Fine
    }),
    ("fs::read", |_counted| {
        let _ = block_on(warpweft::fs::call(|| std::fs::metadata(".")));
        End::Fine
    }),
    ("net::lookup", |_counted| {
        let _ = block_on(warpweft::net::lookup("localhost:80"));
        End::Fine
    }),
    ("join_async", |counted| {
        block_on(warpweft::join_async(async move { drop(counted) }, async {}));
        End::Fine
    }),
    ("scope_async", |counted| {
        block_on(warpweft::scope_async(|scope| async move {
            drop(scope.spawn(async move { drop(counted) }));
        }));
        End::Fine
    }),
    ("par_buffered", |counted| {
        let futures = numbers().map_each(move |n| {
            let _ = &counted;
            async move { n }
        });
        let mut results = futures.par_buffered(2).expect("a limit");
        assert_eq!(block_on(stream::next(&mut results)).expect("three").ok(), Some(1));
        End::Fine
    }),
    ("par_unordered", |counted| {
        let futures = numbers().map_each(move |n| {
            let _ = &counted;
            async move { n }
        });
        let mut results = futures.par_buffered_unordered(2).expect("a limit");
        while let Some(n) = block_on(stream::next(&mut results)) {
            assert!(n.is_ok());
        }
        End::Fine
    }),
    ("pipeline", |counted| {
        let counted = Arc::new(counted);
        let pipeline = stream::pipeline(numbers()).stage(2, move |n| {
            let counted = Arc::clone(&counted);
            async move {
                drop(counted);
                n
            }
        });
        let mut run = pipeline.build().expect("room");
        assert_eq!(block_on(stream::next(&mut run)).expect("three").ok(), Some(1));
        End::Fine
    }),
];

/// Ways whose result can say it: an error.
const ERRORS: &[Direction] = &[
    (
        "try_default_runtime",
        |_counted| match warpweft::try_default_runtime() {
            Ok(_) => End::Fine,
            Err(error) => {
                assert!(matches!(
                    error,
                    BuildError::Thread { .. } | BuildError::Monitor { .. }
                ));
                End::Error(error.to_string())
            }
        },
    ),
    ("TcpListener::bind", |_counted| end_of(TcpListener::bind(HERE))),
    ("TcpStream::connect", |_counted| {
        let there = std::net::TcpListener::bind("127.0.0.1:0").expect("an address");
        end_of(block_on(TcpStream::connect(there.local_addr().expect("bound"))))
    }),
    ("UdpSocket::bind", |_counted| end_of(UdpSocket::bind(HERE))),
    ("UnixStream::pair", |_counted| end_of(UnixStream::pair())),
    ("UnixListener::bind", |_counted| {
        let name = format!("warpweft-no-default-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let end = end_of(UnixListener::bind(&path));
        let _ = std::fs::remove_file(path);
        end
    }),
    ("Async::new", |_counted| {
        let (one, _other) = std::os::unix::net::UnixStream::pair().expect("descriptors");
        end_of(warpweft::io::Async::new(one))
    }),
    ("signal::ctrl_c", |_counted| {
        let nobody = async { std::future::ready(()).await };
        let mut wait = pin!(warpweft::signal::ctrl_c());
        block_on(nobody);
        match wait
            .as_mut()
            .poll(&mut std::task::Context::from_waker(std::task::Waker::noop()))
        {
            std::task::Poll::Ready(end) => end_of(end),
            std::task::Poll::Pending => End::Fine,
        }
    }),
];

/// What needs no runtime works without one.
const FINE: &[Direction] = &[
    ("sleep of no time, and a timeout that is over", |_counted| {
        block_on(sleep(Duration::ZERO));
        match block_on(timeout(Duration::ZERO, std::future::pending::<()>())) {
            Err(_) => End::Fine,
            Ok(()) => End::Error(String::from("it does not end")),
        }
    }),
    ("yield_now", |_counted| {
        block_on(warpweft::yield_now());
        End::Fine
    }),
    ("yield_hard", |_counted| {
        block_on(warpweft::yield_hard());
        End::Fine
    }),
    ("fiber::yield_now", |_counted| {
        fiber::yield_now();
        End::Fine
    }),
    ("blocking", |counted| {
        warpweft::blocking(move || drop(counted));
        End::Fine
    }),
    ("Pool::current", |_counted| {
        assert!(warpweft::Pool::current().is_none());
        End::Fine
    }),
    ("a mutex", |_counted| {
        *warpweft::sync::Mutex::new(1).lock().wait() += 1;
        End::Fine
    }),
    ("effect::handle", |_counted| {
        let handler = effect::Handler::new().on::<Ask, _>(|_, k| k.resume(6));
        assert_eq!(effect::handle(|| effect::perform(Ask) + 1, handler), 7);
        End::Fine
    }),
];

/// Takes each way while no thread can be had beyond the first `granted`.
fn each_way(granted: usize) {
    let expected = "as a test has asked for";
    let dropped = Arc::new(AtomicUsize::new(0));
    let mut count = 0;
    let mut call = |(name, way): &Direction| {
        eprintln!("{granted} threads: {name}");
        grant(Some(granted));
        let counted = Counted(Arc::clone(&dropped));
        // A panic that is caught, or the end of the process.
        let end = catch_unwind(AssertUnwindSafe(|| way(counted)));
        grant(None);
        count += 1;
        assert_eq!(
            dropped.load(Ordering::Relaxed),
            count,
            "{name}: the closure is dropped, once"
        );
        end.unwrap_or_else(|panic| End::Panic(said(&*panic)))
    };
    for way in PANICS {
        let end = call(way);
        assert!(
            matches!(&end, End::Panic(why) if why.contains(expected)),
            "{}: {end:?}",
            way.0
        );
    }
    for way in ERRORS {
        let end = call(way);
        assert!(
            matches!(&end, End::Error(why) if why.contains(expected)),
            "{}: {end:?}",
            way.0
        );
    }
    for way in FINE {
        assert_eq!(call(way), End::Fine, "{}", way.0);
    }
}

/// One test, because of what it changes.
#[test]
fn each_way_to_a_runtime_that_cannot_be_had() {
    let threads = || std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count);
    let before = threads();
    // A worker, or behind all of them the monitor, does not come.
    for granted in 0..=available_cpus() {
        each_way(granted);
        let start = Instant::now();
        while threads() > before {
            assert!(
                start.elapsed() < Duration::from_secs(10),
                "what was tried in vain leaves no threads"
            );
            std::thread::sleep(MS);
        }
    }
    // Threads can be had again.
    for (name, way) in PANICS.iter().chain(ERRORS).chain(FINE) {
        let counted = Counted(Arc::default());
        assert_eq!(way(counted), End::Fine, "{name}");
    }
    assert_eq!(warpweft::default_runtime().name(), "warpweft");
    assert_eq!(warpweft::spawn_job(|| 7).wait().expect("no panic"), 7);
}
