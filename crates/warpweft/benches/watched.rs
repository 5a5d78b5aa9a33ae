//! What the monitor costs: pools with it against pools without, in turns.
//!
//! ```text
//! cargo bench -p warpweft --bench watched
//! ```
//!
//! - *ping-pong*: two tasks over two channels of one place, nanoseconds per round trip.
//! - *echo*: 16 connections over loopback within the pool, nanoseconds per echo; the pool polls, and tasks
//!   end soon.
//!
//! Each figure is the median of the rounds; the ratio is the median of the ratios within a round, with its
//! quartiles.

use std::future::Future;
use std::io;
use std::time::{Duration, Instant};
use warpweft::net::{TcpListener, TcpStream};
use warpweft::sync::channel;
use warpweft::{JoinHandle, Runtime, spawn};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const ROUNDS: usize = 31;
const TRIPS: u32 = 300_000;
const CONNECTIONS: u32 = 16;
const ECHOES: u32 = 2_000;

fn main() {
    println!("nanoseconds per operation, {ROUNDS} rounds: with, without, ratio [quartiles]");
    for workers in [1, 2] {
        compare("ping-pong", workers, TRIPS, ping_pong);
        compare("echo", workers, CONNECTIONS * ECHOES, echo);
    }
}

fn compare<F: Future<Output = ()>>(name: &str, workers: usize, operations: u32, program: fn() -> F) {
    let (mut with, mut without, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let on = time(workers, true, program) / f64::from(operations);
        let off = time(workers, false, program) / f64::from(operations);
        with.push(on);
        without.push(off);
        ratios.push(on / off);
    }
    for figures in [&mut with, &mut without, &mut ratios] {
        figures.sort_by(f64::total_cmp);
    }
    let (middle, quarter) = (ROUNDS / 2, ROUNDS / 4);
    println!(
        "{name:>9}, {workers} workers: {:8.1} {:8.1}   {:.4} [{:.4}, {:.4}]",
        with[middle],
        without[middle],
        ratios[middle],
        ratios[quarter],
        ratios[ROUNDS - 1 - quarter]
    );
}

/// How many nanoseconds the program takes on a pool of its own.
fn time<F: Future<Output = ()>>(workers: usize, watched: bool, program: fn() -> F) -> f64 {
    let builder = Runtime::builder().workers(workers);
    let builder = if watched {
        builder
    } else {
        builder.stuck_after(None)
    };
    let runtime = builder.build().expect("threads");
    let took = runtime.block_on(async {
        let start = Instant::now();
        program().await;
        start.elapsed()
    });
    runtime.shutdown();
    took.max(Duration::from_nanos(1)).as_secs_f64() * 1e9
}

async fn ping_pong() {
    let (there, arrived) = channel::bounded::<u32>(1);
    let (back, returned) = channel::bounded::<u32>(1);
    let near: JoinHandle<()> = spawn(async move {
        for trip in 0..TRIPS {
            there.send(trip).await.expect("it is open");
            assert_eq!(returned.recv().await, Ok(trip));
        }
    });
    let far: JoinHandle<()> = spawn(async move {
        while let Ok(trip) = arrived.recv().await {
            back.send(trip).await.expect("it is open");
        }
    });
    near.await.expect("no panic");
    far.await.expect("no panic");
}

async fn echo() {
    let listener = TcpListener::bind(([127, 0, 0, 1], 0)).expect("a port");
    let address = listener.local_addr().expect("it is bound");
    let clients: Vec<JoinHandle<io::Result<()>>> = (0..CONNECTIONS)
        .map(|_| {
            spawn(async move {
                let stream = TcpStream::connect(address).await?;
                let mut byte = [7];
                for _ in 0..ECHOES {
                    stream.write_all(&byte).await?;
                    stream.read_exact(&mut byte).await?;
                }
                Ok(())
            })
        })
        .collect();
    for _ in 0..CONNECTIONS {
        let (stream, _) = listener.accept().await.expect("a client");
        drop(spawn(async move {
            let mut byte = [0];
            while stream.read_exact(&mut byte).await.is_ok() && stream.write_all(&byte).await.is_ok() {}
        }));
    }
    for client in clients {
        client.await.expect("no panic").expect("it is served");
    }
}
