//! How long requests take, without and with a background that never ends.
//! `cargo run --release --bin classes`.

use std::io::{Read as _, Write as _};
use std::thread;
use std::time::{Duration, Instant};
use warpweft::net::TcpListener;
use warpweft::{JoinError, Runtime, TaskBuilder, spawn, time::sleep, yield_now};

type Failed = Box<dyn std::error::Error>;

/// What each request and each task of the background computes, and the time between two requests.
const REQUEST: Duration = Duration::from_micros(50);
const TASK: Duration = Duration::from_micros(200);
const PAUSE: Duration = Duration::from_millis(1);

fn main() -> Result<(), Failed> {
    let requests = std::env::args().nth(1).map_or(Ok(1_000), |text| text.parse())?;
    // Level 0 is the foreground. The background has a tenth of the time, if it needs that.
    let runtime = Runtime::builder().policy_spec("priority:0/10".parse()?).build()?;
    let (front, back) = (runtime.priority(0)?, runtime.priority(1)?);
    let task = || TaskBuilder::new().on(&runtime).priority(front);
    for beside in ["alone", "beside the background"] {
        let outside = (0..requests).map(|_| {
            thread::sleep(PAUSE);
            let ready = Instant::now();
            task().spawn_job(move || serve(ready)).wait()
        });
        print("Outside", beside, outside.collect::<Result<_, _>>()?);
        // A child has the priority of its parent.
        print("Inside", beside, task().spawn(inside(requests)).wait()??);
        print("Timer", beside, task().spawn(timer(requests)).wait()?);
        let listener = runtime.block_on(async { TcpListener::bind(([127, 0, 0, 1], 0)) })?;
        let mut client = std::net::TcpStream::connect(listener.local_addr()?)?;
        task().spawn(echo(listener)).detach();
        let socket = (0..requests).map(|_| {
            thread::sleep(PAUSE);
            let ready = Instant::now();
            client
                .write_all(&[1])
                .and_then(|()| client.read_exact(&mut [0]))?;
            Ok(ready.elapsed())
        });
        print("Socket", beside, socket.collect::<std::io::Result<_>>()?);
        for _ in 0..8 * runtime.workers() {
            let background = async {
                loop {
                    burn(TASK);
                    yield_now().await;
                }
            };
            TaskBuilder::new()
                .on(&runtime)
                .priority(back)
                .spawn(background)
                .detach();
        }
    }
    Ok(()) // the end of the runtime drops the background
}

async fn inside(requests: usize) -> Result<Vec<Duration>, JoinError> {
    let mut took = Vec::new();
    for _ in 0..requests {
        sleep(PAUSE).await;
        let ready = Instant::now();
        took.push(spawn(async move { serve(ready) }).await?);
    }
    Ok(took)
}

async fn timer(requests: usize) -> Vec<Duration> {
    let mut took = Vec::new();
    for _ in 0..requests {
        let ready = Instant::now() + PAUSE;
        sleep(PAUSE).await;
        took.push(serve(ready));
    }
    took
}

/// Answers each byte of a client, until it is gone.
async fn echo(listener: TcpListener) -> std::io::Result<()> {
    let (stream, _) = listener.accept().await?;
    let mut byte = [0];
    loop {
        stream.read_exact(&mut byte).await?;
        burn(REQUEST);
        stream.write_all(&byte).await?;
    }
}

/// Computes, and returns the time since the request was ready.
fn serve(ready: Instant) -> Duration {
    burn(REQUEST);
    ready.elapsed()
}

fn burn(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
}

fn print(source: &str, beside: &str, mut took: Vec<Duration>) {
    took.sort_unstable();
    let [p50, p99] = [50, 99].map(|percent| took[took.len() * percent / 100]);
    println!("{source}, {beside}: p50 {p50:?}, p99 {p99:?}");
}
