//! Many connections to an echo server, one message at a time on each; prints the round trips per second.
//!
//! ```text
//! cargo run --release --bin echo_client -- 127.0.0.1:7000 100 1000
//! ```
//!
//! The arguments are the address, the number of connections, and the messages on each.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use warpweft::Runtime;
use warpweft::net::TcpStream;

async fn talk(address: SocketAddr, messages: usize) -> io::Result<Duration> {
    let stream = TcpStream::connect_timeout(address, Duration::from_secs(5)).await?;
    stream.set_nodelay(true)?;
    let message = [b'x'; 64];
    let mut answer = [0; 64];
    let mut slowest = Duration::ZERO;
    for _ in 0..messages {
        let start = Instant::now();
        stream.write_all(&message).await?;
        stream.read_exact(&mut answer).await?;
        slowest = slowest.max(start.elapsed());
    }
    Ok(slowest)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let argument = |place: usize, default: &str| arguments.get(place).cloned().unwrap_or(default.to_owned());
    let address: SocketAddr = argument(0, "127.0.0.1:7000").parse()?;
    let (connections, messages): (usize, usize) = (argument(1, "100").parse()?, argument(2, "1000").parse()?);
    let runtime = Runtime::builder().name("clients").build()?;
    let start = Instant::now();
    let clients: Vec<_> = (0..connections)
        .map(|_| runtime.spawn(talk(address, messages)))
        .collect();
    let mut slowest = Duration::ZERO;
    for client in clients {
        slowest = slowest.max(client.wait()??);
    }
    let seconds = start.elapsed().as_secs_f64();
    let total = connections * messages;
    println!(
        "{total} round trips in {seconds:.3} s: {:.0} per second, the slowest {slowest:?}",
        total as f64 / seconds
    );
    Ok(())
}
