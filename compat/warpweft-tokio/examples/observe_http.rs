//! A server whose cost `cargo xtask observe` compares: with and without recorded steps, and in a build whose
//! recorder is left out. Each request is answered by thirteen bytes.
//!
//! ```text
//! observe_http COUNT on|off     prints nanoseconds: of the requests, and of the worker's CPU in that time
//! ```
//!
//! The client is a process of its own, so that counts of instructions have the server only. It has 50
//! connections, and half of them always have a request under way.

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use std::convert::Infallible;
use std::error::Error;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::Instant;
use warpweft::Runtime;
use warpweft::net::TcpListener;
use warpweft::sync::oneshot;
use warpweft_platform::clock::thread_cpu_ns;
use warpweft_tokio::serve_hyper;

const CONNECTIONS: u64 = 50;
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: observe\r\n\r\n";
const BODY: &[u8] = b"Hello, World!";

type Failure = Box<dyn Error>;

async fn hello(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::from(BODY)))
}

/// Reads one answer, which ends with the body.
fn read(stream: &mut TcpStream) -> Result<(), Failure> {
    let (mut answer, mut length) = ([0; 1024], 0);
    while !answer[..length].ends_with(BODY) {
        match stream.read(&mut answer[length..])? {
            0 => return Err("the server closed a connection".into()),
            more => length += more,
        }
    }
    Ok(())
}

/// Sends that many requests, and waits for all answers.
fn client(address: SocketAddr, count: u64) -> Result<(), Failure> {
    let connect = || {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok::<_, Failure>(stream)
    };
    let mut streams = (0..CONNECTIONS)
        .map(|_| connect())
        .collect::<Result<Vec<_>, _>>()?;
    let (first, second) = streams.split_at_mut(CONNECTIONS as usize / 2);
    let halves = [first, second];
    halves[0]
        .iter_mut()
        .try_for_each(|stream| stream.write_all(REQUEST))?;
    // While one half is read, the other one is under way.
    for round in 0..count.div_ceil(CONNECTIONS / 2) as usize {
        halves[(round + 1) % 2]
            .iter_mut()
            .try_for_each(|stream| stream.write_all(REQUEST))?;
        halves[round % 2].iter_mut().try_for_each(read)?;
    }
    Ok(())
}

fn server(count: u64, steps: bool) -> Result<(), Failure> {
    let runtime = Runtime::builder().workers(1).stuck_after(None).build()?;
    runtime.recorder().record_steps(steps);
    let listener = runtime.block_on(async { TcpListener::bind(([127, 0, 0, 1], 0)) })?;
    let address = listener.local_addr()?;
    let (stop, stopped) = oneshot::channel::<()>();
    let served = serve_hyper(listener, service_fn(hello)).with_graceful_shutdown(async {
        // An error: the sender was dropped.
        let _ = stopped.await;
    });
    let served = runtime.spawn(served.into_future());
    let cpu = || -> Result<u64, Failure> {
        let ns = runtime.spawn_job(thread_cpu_ns).wait()?;
        ns.ok_or_else(|| "the system does not count CPU time".into())
    };
    let (cpu_before, start) = (cpu()?, Instant::now());
    let mut client = Command::new(std::env::current_exe()?);
    let client = client.args(["client", &address.to_string(), &count.to_string()]);
    if !client.status()?.success() {
        return Err("the client failed".into());
    }
    let (time, cpu_after) = (start.elapsed(), cpu()?);
    drop(stop);
    served.wait()??;
    println!("{} {}", time.as_nanos(), cpu_after - cpu_before);
    Ok(())
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["client", address, count] => client(address.parse()?, count.parse()?),
        [count, steps @ ("on" | "off")] => server(count.parse()?, steps == "on"),
        _ => Err("usage: observe_http COUNT on|off".into()),
    }
}
