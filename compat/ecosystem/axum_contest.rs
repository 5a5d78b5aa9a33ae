//! One axum router under load, on three servers: `warpweft_tokio::serve`, `axum::serve` in a pool with a
//! context of tokio, and `axum::serve` on tokio's own runtime. `cargo xtask tokio load` runs them in turns,
//! each in its own process, and compares.
//!
//! - `axum_contest server CONTESTANT WORKERS` prints its address and serves until it is ended.
//! - `axum_contest clients ADDRESS CONNECTIONS MILLISECONDS` asks, and prints a line of numbers: requests,
//!   seconds, and the time of a request in microseconds at the median and at the 99th percentile.

use axum::extract::Path;
use axum::routing::{get, post};
use axum::{Json, Router};
use std::error::Error;
use std::hint::black_box;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use warpweft::Runtime;
use warpweft_tokio::{BuilderExt as _, serve};

const USAGE: &str = "usage: axum_contest server serve|axum|tokio WORKERS
       axum_contest clients ADDRESS CONNECTIONS MILLISECONDS";

type Failed = Box<dyn Error + Send + Sync>;

/// How long the clients ask before they count.
const WARM_UP: Duration = Duration::from_millis(200);

async fn sum(Json(numbers): Json<Vec<u64>>) -> Json<u64> {
    Json(numbers.iter().sum())
}

/// Computes for some ten microseconds.
async fn compute(Path(n): Path<u64>) -> String {
    (0..n)
        .fold(0u64, |sum, number| sum.wrapping_mul(31) ^ black_box(number))
        .to_string()
}

/// Waits for a timer of tokio.
async fn pause() -> &'static str {
    tokio::time::sleep(Duration::from_millis(1)).await;
    "later"
}

/// The router, which knows of no contestant.
fn router() -> Router {
    Router::new()
        .route("/", get(|| async { "Hello, World!" }))
        .route("/sum", post(sum))
        .route("/compute/{n}", get(compute))
        .route("/pause", get(pause))
}

fn tell(address: SocketAddr) {
    println!("listening at {address}");
}

/// Any free port.
const ANY: ([u8; 4], u16) = ([127, 0, 0, 1], 0);

/// axum's own server.
async fn on_tokio() -> Result<(), std::io::Error> {
    let listener = TcpListener::bind(SocketAddr::from(ANY)).await?;
    tell(listener.local_addr()?);
    axum::serve(listener, router()).await
}

fn server(contestant: &str, workers: usize) -> Result<(), Failed> {
    let ours = || -> Result<Runtime, Failed> {
        let builder = Runtime::builder().name("contest").workers(workers);
        Ok(builder.tokio_context()?.build()?)
    };
    match contestant {
        "serve" => ours()?.block_on(async {
            let listener = warpweft::net::TcpListener::bind(ANY)?;
            tell(listener.local_addr()?);
            Ok(serve(listener, router()).await?)
        }),
        "axum" => ours()?.block_on(async { Ok(tokio::spawn(on_tokio()).await??) }),
        "tokio" => {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(workers)
                .enable_all()
                .build()?;
            // The accepting loop is a task, as it is on the others.
            runtime.block_on(async { Ok(tokio::spawn(on_tokio()).await??) })
        }
        _ => Err(USAGE.into()),
    }
}

/// What a connection asks in turn, and what the answer's body must be.
const REQUESTS: [(&str, &str); 8] = [
    ("GET / HTTP/1.1\r\nHost: x\r\n\r\n", "Hello, World!"),
    (SUM, "15"),
    ("GET / HTTP/1.1\r\nHost: x\r\n\r\n", "Hello, World!"),
    ("GET /compute/10000 HTTP/1.1\r\nHost: x\r\n\r\n", ""),
    ("GET / HTTP/1.1\r\nHost: x\r\n\r\n", "Hello, World!"),
    (SUM, "15"),
    ("GET / HTTP/1.1\r\nHost: x\r\n\r\n", "Hello, World!"),
    ("GET /pause HTTP/1.1\r\nHost: x\r\n\r\n", "later"),
];
const SUM: &str = "POST /sum HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 11\r\n\r\n\
                   [1,2,3,4,5]";

/// Asks on one connection from `start` to `end`, and returns the times in microseconds.
async fn client(address: SocketAddr, first: usize, start: Instant, end: Instant) -> Result<Vec<u32>, Failed> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let mut stream = BufReader::new(stream);
    let (mut times, mut line, mut body) = (Vec::new(), String::new(), Vec::new());
    for (request, expected) in REQUESTS.into_iter().cycle().skip(first % REQUESTS.len()) {
        let asked = Instant::now();
        if asked >= end {
            break;
        }
        stream.get_mut().write_all(request.as_bytes()).await?;
        let mut length = None;
        for number in 0.. {
            line.clear();
            if stream.read_line(&mut line).await? == 0 {
                return Err("the server has closed a connection".into());
            }
            let text = line.trim_end();
            if number == 0 && text != "HTTP/1.1 200 OK" {
                return Err(format!("the server answers: {text}").into());
            }
            if text.is_empty() {
                break;
            }
            if let Some((name, value)) = text.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = Some(value.trim().parse()?);
            }
        }
        body.resize(length.ok_or("an answer without its length")?, 0);
        stream.read_exact(&mut body).await?;
        if !expected.is_empty() && body != expected.as_bytes() {
            return Err(format!("a wrong answer: {}", String::from_utf8_lossy(&body)).into());
        }
        if asked >= start {
            times.push(u32::try_from(asked.elapsed().as_micros())?);
        }
    }
    Ok(times)
}

/// Asks on many connections, from one thread.
fn clients(address: SocketAddr, connections: usize, time: Duration) -> Result<(), Failed> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let times = runtime.block_on(async {
        let start = Instant::now() + WARM_UP;
        let clients: Vec<_> = (0..connections)
            .map(|number| tokio::spawn(client(address, number, start, start + time)))
            .collect();
        let mut all = Vec::new();
        for client in clients {
            all.append(&mut client.await??);
        }
        Ok::<_, Failed>(all)
    });
    let mut times = times?;
    if times.is_empty() {
        return Err("no request was answered: ask for longer".into());
    }
    times.sort_unstable();
    let at = |percent: usize| times[(times.len() - 1) * percent / 100];
    println!("{} {} {} {}", times.len(), time.as_secs_f64(), at(50), at(99));
    Ok(())
}

fn main() -> Result<(), Failed> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["server", contestant, workers] => server(contestant, workers.parse()?),
        ["clients", address, connections, time] => clients(
            address.parse()?,
            connections.parse()?,
            Duration::from_millis(time.parse()?),
        ),
        _ => Err(USAGE.into()),
    }
}
