//! Foreground beside a background that never ends: `cargo run --release --bin classes`.
//!
//! It prints how long foreground tasks take from the moment in which they are ready, without and with the
//! background, and which share of the time the background gets while the foreground has always work, too.

use std::io::{Read as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};
use warpweft::net::TcpListener;
use warpweft::{JoinHandle, Priority, Runtime, TaskBuilder, time::sleep};

type Failed = Box<dyn std::error::Error>;

/// What the foreground computes for each request.
const REQUEST: Duration = Duration::from_micros(50);
/// What each task of the background takes.
const TASK: Duration = Duration::from_micros(200);
/// The time between two requests.
const PAUSE: Duration = Duration::from_millis(1);
/// The least share of the background, in percent.
const SHARE: u8 = 10;

fn main() -> Result<(), Failed> {
    let requests = std::env::args().nth(1).map_or(Ok(1_000), |text| text.parse())?;
    let workers = thread::available_parallelism()?.get();
    // Level 0 is the foreground. Tasks without a priority are on it, too.
    let policy = format!("priority:0/{SHARE}");
    let runtime = Runtime::builder()
        .workers(workers)
        .policy_spec(policy.parse()?)
        .build()?;
    let (front, back) = (runtime.priority(0)?, runtime.priority(1)?);
    println!(
        "{workers} workers; a request takes {REQUEST:?}, a background task {TASK:?}, {requests} requests"
    );
    for source in [Source::Outside, Source::Inside, Source::Timer, Source::Socket] {
        let alone = quantiles(source.measure(&runtime, front, requests)?);
        let background = Background::start(&runtime, back, workers);
        let beside = quantiles(source.measure(&runtime, front, requests)?);
        background.stop();
        println!(
            "{source:?}: p50 {:?} and p99 {:?} alone, p50 {:?} and p99 {:?} beside the background",
            alone.0, alone.1, beside.0, beside.1
        );
    }
    let [foreground, background] = [front, back].map(|class| Background::start(&runtime, class, workers));
    thread::sleep(Duration::from_secs(1));
    let [foreground, background] = [foreground.stop(), background.stop()];
    println!(
        "the background got {:.1} % of the time; its least share is {SHARE} %",
        100.0 * background as f64 / (foreground + background) as f64
    );
    Ok(())
}

/// Where a request comes from.
#[derive(Debug, Clone, Copy)]
enum Source {
    Outside,
    Inside,
    Timer,
    Socket,
}

impl Source {
    /// Returns how long each request took from the moment in which it was ready, or could be read.
    fn measure(self, runtime: &Runtime, class: Priority, requests: u32) -> Result<Vec<Duration>, Failed> {
        let task = || TaskBuilder::new().on(runtime).priority(class);
        match self {
            Self::Outside => (0..requests)
                .map(|_| {
                    thread::sleep(PAUSE);
                    let ready = Instant::now();
                    Ok(task().spawn_job(move || serve(ready)).wait()?)
                })
                .collect(),
            Self::Inside => {
                // A child has the priority of its parent.
                let parent = task().spawn(async move {
                    let mut took = Vec::new();
                    for _ in 0..requests {
                        sleep(PAUSE).await;
                        let ready = Instant::now();
                        took.push(warpweft::spawn(async move { serve(ready) }).await?);
                    }
                    Ok::<_, warpweft::JoinError>(took)
                });
                Ok(parent.wait()??)
            }
            Self::Timer => {
                let timer = task().spawn(async move {
                    let mut took = Vec::new();
                    for _ in 0..requests {
                        let ready = Instant::now() + PAUSE;
                        sleep(PAUSE).await;
                        took.push(serve(ready));
                    }
                    took
                });
                Ok(timer.wait()?)
            }
            Self::Socket => {
                let listener = TcpListener::bind(([127, 0, 0, 1], 0))?;
                let address = listener.local_addr()?;
                let server = task().spawn(async move {
                    let (stream, _) = listener.accept().await?;
                    let mut byte = [0];
                    while stream.read_exact(&mut byte).await.is_ok() {
                        serve(Instant::now());
                        stream.write_all(&byte).await?;
                    }
                    Ok::<_, std::io::Error>(())
                });
                let mut client = std::net::TcpStream::connect(address)?;
                client.set_nodelay(true)?;
                let mut took = Vec::new();
                for _ in 0..requests {
                    thread::sleep(PAUSE);
                    let ready = Instant::now();
                    client.write_all(&[1])?;
                    client.read_exact(&mut [0])?;
                    took.push(ready.elapsed());
                }
                drop(client);
                server.wait()??;
                Ok(took)
            }
        }
    }
}

/// Computes, and returns the time since then.
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

/// The median and the 99th percentile.
fn quantiles(mut took: Vec<Duration>) -> (Duration, Duration) {
    took.sort_unstable();
    let at = |percent: usize| took.get(took.len() * percent / 100).copied().unwrap_or_default();
    (at(50), at(99))
}

/// Tasks of a class that always have something to compute: eight for each worker.
struct Background {
    tasks: Vec<JoinHandle<()>>,
    ended: Arc<AtomicBool>,
    ran: Arc<AtomicU64>,
}

impl Background {
    fn start(runtime: &Runtime, class: Priority, workers: usize) -> Self {
        let (ended, ran) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let tasks = (0..8 * workers).map(|_| {
            let (ended, ran) = (Arc::clone(&ended), Arc::clone(&ran));
            TaskBuilder::new().on(runtime).priority(class).spawn(async move {
                while !ended.load(Relaxed) {
                    burn(TASK);
                    ran.fetch_add(1, Relaxed);
                    warpweft::yield_now().await;
                }
            })
        });
        Self {
            tasks: tasks.collect(),
            ended,
            ran,
        }
    }

    /// Ends it, and returns how many tasks of it ran.
    fn stop(self) -> u64 {
        let ran = self.ran.load(Relaxed);
        self.ended.store(true, Relaxed);
        for task in self.tasks {
            // Its only error is the end of the runtime.
            let _ = task.wait();
        }
        ran
    }
}
