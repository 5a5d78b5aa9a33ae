//! Operations that are always ready do not keep a future from what is beside and behind it.

use crate::in_time::in_time;
use futures_io::AsyncRead;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use warpweft::fiber::spawn_here;
use warpweft::io::Lines;
use warpweft::net::UdpSocket;
use warpweft::sync::{broadcast, channel, watch};
use warpweft::time::{MissedTicks, interval, sleep, timeout};
use warpweft::{JoinError, Runtime, spawn};

const SHORT: Duration = Duration::from_millis(20);

fn one_worker() -> Runtime {
    Runtime::builder().workers(1).build().expect("a worker")
}

/// Sends to itself for ever. The system drops what has no room, so no send ever waits.
async fn sends() -> io::Result<()> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    let to = socket.local_addr()?;
    loop {
        socket.send_to(b"x", to).await?;
    }
}

async fn passes_on() {
    let (sender, receiver) = channel::bounded(1);
    loop {
        sender.send(1).await.expect("it is open");
        assert_eq!(receiver.recv().await, Ok(1));
    }
}

async fn tells_many() {
    let (sender, mut receiver) = broadcast::channel(1);
    loop {
        sender.send(1).expect("a receiver");
        assert_eq!(receiver.recv().await, Ok(1));
    }
}

async fn changes() {
    let (sender, mut receiver) = watch::channel(1);
    loop {
        sender.send(1).expect("a receiver");
        receiver.changed().await.expect("it is open");
    }
}

async fn sleeps_for_no_time() {
    loop {
        sleep(Duration::ZERO).await;
    }
}

/// Its work takes longer than its period, so each tick is late.
async fn ticks_too_late() {
    let mut interval = interval(Duration::from_micros(10)).missed_ticks(MissedTicks::Delay);
    loop {
        interval.tick().await;
        let start = Instant::now();
        while start.elapsed() < Duration::from_micros(20) {
            std::hint::spin_loop();
        }
    }
}

#[cfg(unix)]
async fn sends_to_nowhere() {
    let socket = warpweft::net::UnixDatagram::unbound().expect("a socket");
    loop {
        assert!(socket.send_to(b"x", "/no/such/socket").await.is_err());
    }
}

async fn reads_lines() {
    struct Endless;
    impl AsyncRead for Endless {
        fn poll_read(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            buffer: &mut [u8],
        ) -> Poll<io::Result<usize>> {
            buffer.fill(b'\n');
            Poll::Ready(Ok(buffer.len()))
        }
    }
    let mut lines = Lines::new(Endless);
    while let Some(line) = lines.next().await.expect("no error") {
        assert_eq!(line, "");
    }
}

#[test]
fn a_time_limit_ends_them() {
    in_time(|| {
        let runtime = one_worker();
        assert!(runtime.block_on(timeout(SHORT, sends())).is_err());
        assert!(runtime.block_on(timeout(SHORT, passes_on())).is_err());
        assert!(runtime.block_on(timeout(SHORT, tells_many())).is_err());
        assert!(runtime.block_on(timeout(SHORT, changes())).is_err());
        assert!(runtime.block_on(timeout(SHORT, reads_lines())).is_err());
        assert!(runtime.block_on(timeout(SHORT, sleeps_for_no_time())).is_err());
        assert!(runtime.block_on(timeout(SHORT, ticks_too_late())).is_err());
        #[cfg(unix)]
        assert!(runtime.block_on(timeout(SHORT, sends_to_nowhere())).is_err());
        let all = runtime.spawn(async {
            let sends = timeout(SHORT, sends()).await.is_err();
            let passes_on = timeout(SHORT, passes_on()).await.is_err();
            sends && passes_on && timeout(SHORT, reads_lines()).await.is_err()
        });
        assert!(all.wait().expect("no panic"));
    });
}

#[test]
fn a_cancellation_reaches_them_and_others_run_beside_them() {
    in_time(|| {
        let runtime = one_worker();
        let task = runtime.spawn(sends());
        let other = runtime.spawn(async { spawn(async { 1 }).await });
        assert!(matches!(other.wait(), Ok(Ok(1))));
        task.cancel();
        assert!(matches!(task.wait(), Err(JoinError::Cancelled)));
    });
}

#[test]
fn the_end_of_the_runtime_ends_them() {
    in_time(|| {
        let runtime = one_worker();
        let task = runtime.spawn(passes_on());
        drop(runtime);
        assert!(matches!(task.wait(), Err(JoinError::Shutdown)));
    });
}

/// Also in direct style: the fibers of a thread run on that thread alone.
#[test]
fn fibers_let_others_of_their_thread_run() {
    in_time(|| {
        let runtime = one_worker();
        let fiber = runtime.spawn_fiber(|| {
            let over = Arc::new(AtomicBool::new(false));
            let ends = Arc::clone(&over);
            let other = spawn_here(move || ends.store(true, Ordering::Relaxed));
            let (sender, receiver) = channel::bounded(1);
            while !over.load(Ordering::Relaxed) {
                sender.send(1).wait().expect("it is open");
                assert_eq!(receiver.recv().wait(), Ok(1));
            }
            other.wait().expect("no panic");
        });
        fiber.wait().expect("no panic");
    });
}

/// The budget of a thread is used up now and then, and a value that is there counts nevertheless.
#[test]
fn a_value_that_is_there_counts_after_the_limit() {
    let (sender, receiver) = channel::unbounded();
    one_worker().block_on(async {
        for n in 0..1000 {
            sender.try_send(n).expect("a receiver");
            let value = timeout(Duration::ZERO, receiver.recv()).await;
            assert!(matches!(value, Ok(Ok(got)) if got == n), "{n}");
        }
    });
}
