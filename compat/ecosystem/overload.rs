//! A server with three times the requests that it can answer: `cargo run --release --bin overload`, in
//! `compat/ecosystem`. It takes a minute and a half, and prints a table.
//!
//! Each handler computes for about a millisecond. The contestants, each in its own process:
//!
//! - `admission`: `warpweft_tokio::serve` with admission by delay;
//! - `open`: the same without;
//! - `tower`: axum on tokio, with tower's load shedding before a limit of concurrency. The handlers compute
//!   in `spawn_blocking`: one that computes in place is never beside another one, and never refused;
//! - `tokio`: axum on tokio, whose handlers compute where they are.
//!
//! The servers have CPU 0, and the clients, which are in this process, have CPU 1. So each server has one CPU
//! whatever its threads, and one worker unless the arguments say otherwise. Requests come at random times
//! that do not depend on the answers, and their time counts from then.

use axum::error_handling::HandleErrorLayer;
use axum::http::StatusCode;
use axum::{BoxError, Router, routing::get};
use std::error::Error;
use std::hint::black_box;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{env, fs, io};
use tower::ServiceBuilder;
use tower::limit::GlobalConcurrencyLimitLayer;
use warpweft::net::TcpStream;
use warpweft::time::{sleep_until, timeout};
use warpweft::{Pin, QueueDelay, Runtime};

const USAGE: &str = "usage: overload [WORKERS [CONTESTANT ...]]
       overload server CONTESTANT WORKERS STEPS";
const CONTESTANTS: [&str; 4] = ["admission", "open", "tower", "tokio"];
type Failed = Box<dyn Error + Send + Sync>;

/// How long a handler computes.
const TASK: Duration = Duration::from_millis(1);
/// The delay that the first contestant aims at.
const TARGET: Duration = Duration::from_millis(1);
/// How many requests a worker has at a time behind tower's limit.
const IN_FLIGHT: usize = 2;
/// How many connections the clients open at most.
const CONNECTIONS: usize = 1000;
const ANY: ([u8; 4], u16) = ([127, 0, 0, 1], 0);

/// Computes for that number of steps.
fn compute(steps: u64) -> u64 {
    (0..steps).fold(1, |sum: u64, number| sum.wrapping_mul(31) ^ black_box(number))
}

/// Returns the steps that take as long as a handler should.
fn calibrate() -> u64 {
    let steps = 200_000;
    let time = || {
        let start = Instant::now();
        black_box(compute(steps));
        start.elapsed()
    };
    let least = (0..50).map(|_| time()).min().unwrap_or(TASK);
    (steps as f64 * TASK.as_secs_f64() / least.as_secs_f64()) as u64
}

fn tell(address: SocketAddr) {
    println!("{address}");
}

async fn on_tokio(router: Router) -> Result<(), Failed> {
    let listener = tokio::net::TcpListener::bind(SocketAddr::from(ANY)).await?;
    tell(listener.local_addr()?);
    Ok(axum::serve(listener, router).await?)
}

fn server(contestant: &str, workers: usize, steps: u64) -> Result<(), Failed> {
    let inline = Router::new().route("/", get(async move || compute(steps).to_string()));
    let tokio = || {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(workers)
            .max_blocking_threads(workers)
            .enable_all()
            .build()
    };
    match contestant {
        "admission" | "open" => {
            let delay = QueueDelay::new().target(TARGET);
            let runtime = Runtime::builder().workers(workers).admission(delay).build()?;
            let admission = runtime.first().admission().ok_or("it is set")?;
            runtime.block_on(async {
                let listener = warpweft::net::TcpListener::bind(ANY)?;
                tell(listener.local_addr()?);
                let server = warpweft_tokio::serve(listener, inline);
                match contestant {
                    "open" => server.await?,
                    _ => server.admission(admission).await?,
                }
                Ok(())
            })
        }
        "tower" => {
            let handler = async move || {
                let computed = tokio::task::spawn_blocking(move || compute(steps)).await;
                computed.map_or_else(|error| error.to_string(), |sum| sum.to_string())
            };
            let shed = ServiceBuilder::new()
                .layer(HandleErrorLayer::new(async |_: BoxError| {
                    StatusCode::SERVICE_UNAVAILABLE
                }))
                .load_shed()
                .layer(GlobalConcurrencyLimitLayer::new(IN_FLIGHT * workers));
            let router = Router::new().route("/", get(handler)).layer(shed);
            tokio()?.block_on(async { tokio::spawn(on_tokio(router)).await? })
        }
        "tokio" => tokio()?.block_on(async { tokio::spawn(on_tokio(inline)).await? }),
        _ => Err(USAGE.into()),
    }
}

/// A server in its own process, which ends with this.
struct Server {
    process: Child,
    address: SocketAddr,
}

impl Server {
    fn start(contestant: &str, workers: usize, steps: u64) -> Result<Self, Failed> {
        let mut process = Command::new("taskset")
            .args(["--cpu-list", "0"])
            .arg(env::current_exe()?)
            .args(["server", contestant, &workers.to_string(), &steps.to_string()])
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        let output = process.stdout.take().ok_or("it is piped")?;
        BufReader::new(output).read_line(&mut line)?;
        let address = line.trim().parse();
        let address = address.map_err(|_| format!("the server `{contestant}` says `{}`", line.trim()))?;
        Ok(Self { process, address })
    }

    /// Returns the resident memory, in MiB.
    fn memory(&self) -> Result<f64, Failed> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<f64>().ok());
        Ok(kilobytes.ok_or("no VmRSS")? / 1024.0)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Asks on a connection, and returns the status.
async fn ask(stream: &TcpStream) -> io::Result<u16> {
    stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await?;
    let (mut buffer, mut filled) = ([0; 1024], 0);
    loop {
        let read = stream.read(&mut buffer[filled..]).await?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        filled += read;
        let text = String::from_utf8_lossy(&buffer[..filled]);
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let field = |name: &str| {
            let mut fields = head.lines().filter_map(|line| line.split_once(':'));
            fields.find_map(|(key, value)| key.eq_ignore_ascii_case(name).then(|| value.trim().to_owned()))
        };
        let length = field("content-length")
            .and_then(|length| length.parse().ok())
            .unwrap_or(0);
        if body.len() >= length {
            let status = head.get(9..12).and_then(|status| status.parse().ok());
            return status.ok_or_else(|| io::ErrorKind::InvalidData.into());
        }
    }
}

/// What the clients have seen.
#[derive(Default)]
struct Answers {
    /// The times of the requests that were answered, in milliseconds.
    answered: Vec<f64>,
    refused: Vec<f64>,
    failed: usize,
    /// Requests that came while all connections waited.
    unsent: usize,
    open: usize,
    idle: Vec<TcpStream>,
}

fn quantile(times: &mut [f64], q: f64) -> f64 {
    times.sort_unstable_by(f64::total_cmp);
    let at = (times.len() as f64 * q) as usize;
    times
        .get(at.min(times.len().saturating_sub(1)))
        .copied()
        .unwrap_or(f64::NAN)
}

fn note(seen: &mut Answers, answer: io::Result<u16>, since: Instant) {
    let time = since.elapsed().as_secs_f64() * 1e3;
    match answer {
        Ok(200) => seen.answered.push(time),
        Ok(503) => seen.refused.push(time),
        _ => seen.failed += 1,
    }
}

/// So many clients ask, each again as soon as it is answered. Returns what they have seen.
async fn closed(address: SocketAddr, clients: usize, time: Duration) -> Result<Answers, Failed> {
    let end = Instant::now() + time;
    let clients: Vec<_> = (0..clients)
        .map(|_| {
            warpweft::spawn(async move {
                let mut seen = Answers::default();
                let stream = TcpStream::connect(address).await?;
                while Instant::now() < end {
                    let start = Instant::now();
                    note(&mut seen, ask(&stream).await, start);
                }
                Ok::<_, io::Error>(seen)
            })
        })
        .collect();
    let mut all = Answers::default();
    for client in clients {
        let seen = client.await.map_err(|error| error.to_string())??;
        all.answered.extend(seen.answered);
        all.refused.extend(seen.refused);
        all.failed += seen.failed;
    }
    Ok(all)
}

/// Requests come at random times, with that rate a second. Those of the first second do not count.
async fn open(address: SocketAddr, rate: f64, time: Duration) -> Answers {
    let seen = Arc::new(Mutex::new(Answers::default()));
    let lock = |seen: &Mutex<Answers>, change: &mut dyn FnMut(&mut Answers)| {
        change(&mut seen.lock().unwrap_or_else(PoisonError::into_inner));
    };
    let start = Instant::now();
    let (mut next, mut random) = (start, 0x9e37_79b9_7f4a_7c15_u64);
    let mut counts = false;
    let mut tasks = Vec::new();
    while next < start + Duration::from_secs(1) + time {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let equal = ((random >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
        next += Duration::from_secs_f64(-equal.ln() / rate);
        if next > Instant::now() {
            sleep_until(next).await;
        }
        if !counts && next >= start + Duration::from_secs(1) {
            counts = true;
            lock(&seen, &mut |seen| {
                *seen = Answers {
                    open: seen.open,
                    idle: std::mem::take(&mut seen.idle),
                    ..Answers::default()
                };
            });
        }
        let (mut stream, mut may_open) = (None, false);
        lock(&seen, &mut |seen| {
            stream = seen.idle.pop();
            if stream.is_none() && seen.open < CONNECTIONS {
                seen.open += 1;
                may_open = true;
            }
            seen.unsent += usize::from(stream.is_none() && !may_open);
        });
        if stream.is_none() && !may_open {
            continue;
        }
        let (seen, came) = (Arc::clone(&seen), next);
        tasks.push(warpweft::spawn(async move {
            let asked = async {
                let stream = match stream {
                    Some(stream) => stream,
                    None => TcpStream::connect(address).await?,
                };
                let answer = ask(&stream).await;
                Ok::<_, io::Error>((answer, stream))
            };
            let (answer, stream) = match asked.await {
                Ok((answer, stream)) => (answer, Some(stream)),
                Err(error) => (Err(error), None),
            };
            let is_good = answer.is_ok();
            let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            note(&mut seen, answer, came);
            match stream.filter(|_| is_good) {
                Some(stream) => seen.idle.push(stream),
                None => seen.open -= 1,
            }
        }));
    }
    // What has not been answered by now is not counted.
    let mut end = Answers::default();
    lock(&seen, &mut |seen| end = std::mem::take(seen));
    end
}

fn contest(contestant: &str, workers: usize, steps: u64) -> Result<(), Failed> {
    let clients = Runtime::builder().pin(Pin::Cpus(vec![1])).build()?;
    let server = Server::start(contestant, workers, steps)?;
    let address = server.address;
    let time = Duration::from_secs(5);
    let contestant = contestant.to_owned();
    let program = async move {
        let mut alone = closed(address, 1, Duration::from_secs(3)).await?;
        let busy = closed(address, IN_FLIGHT * workers, Duration::from_secs(3)).await?;
        let capacity = busy.answered.len() as f64 / 3.0;
        let mut light = open(address, capacity / 4.0, time).await;
        let before = server.memory()?;
        let mut crowd = open(address, capacity * 3.0, time).await;
        let (answered, refused) = (crowd.answered.len() as f64, crowd.refused.len() as f64);
        println!(
            "| {contestant} | {capacity:.0}/s | {:.2}, {:.2} | {:.2}, {:.2} | {:.0}/s = {:.2} | {:.2}, {:.2} | {:.0}/s | {:.2}, \
             {:.2} | {}, {} | {before:.1} → {:.1} |",
            quantile(&mut alone.answered, 0.5),
            quantile(&mut alone.answered, 0.99),
            quantile(&mut light.answered, 0.5),
            quantile(&mut light.answered, 0.99),
            answered / time.as_secs_f64(),
            answered / time.as_secs_f64() / capacity,
            quantile(&mut crowd.answered, 0.5),
            quantile(&mut crowd.answered, 0.99),
            refused / time.as_secs_f64(),
            quantile(&mut crowd.refused, 0.5),
            quantile(&mut crowd.refused, 0.99),
            crowd.unsent,
            crowd.failed,
            server.memory()?,
        );
        Ok::<_, Failed>(())
    };
    // On the worker, because this thread may be on any CPU.
    let program = clients.spawn(timeout(Duration::from_secs(120), program));
    program.wait().map_err(|error| error.to_string())??
}

fn main() -> Result<(), Failed> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    if let [mode, contestant, workers, steps] = &*arguments
        && mode == "server"
    {
        return server(contestant, workers.parse()?, steps.parse()?);
    }
    let workers = arguments.first().map_or(Ok(1), |workers| workers.parse());
    let workers: usize = workers.map_err(|_| USAGE)?;
    let mut chosen: Vec<&str> = arguments.iter().skip(1).map(String::as_str).collect();
    if chosen.is_empty() {
        chosen.extend(CONTESTANTS);
    }
    let steps = calibrate();
    println!("handlers of {steps} steps, {workers} workers, a target of {TARGET:?}; times in ms: p50, p99");
    println!(
        "| server | capacity | one client | a quarter of it | three times it: answered | their time | refused | their time | \
         unsent, failed | memory, MiB |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    for contestant in chosen {
        contest(contestant, workers, steps)?;
    }
    Ok(())
}
