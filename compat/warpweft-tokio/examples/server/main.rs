//! An HTTP server, until Ctrl-C.
//!
//! ```text
//! cargo run --release -p warpweft-tokio --example server -- 127.0.0.1:7080 2
//! cargo run --release -p warpweft-tokio --example client -- http://127.0.0.1:7080/sum/1000000
//! ```

mod serve;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::{Request, Response, StatusCode};
use serve::{Answer, Server};
use std::net::SocketAddr;
use warpweft::{Runtime, signal};

/// `/` says hello; `/sum/N` computes in the midst of the other connections, on as many workers as there are.
async fn answer(request: Request<Incoming>) -> Answer {
    let path = request.uri().path();
    let (status, text) = match path.strip_prefix("/sum/").map(str::parse::<u32>) {
        None if path == "/" => (StatusCode::OK, Bytes::from_static(b"Hello, World!")),
        None => (
            StatusCode::NOT_FOUND,
            Bytes::from_static(b"there are / and /sum/N\n"),
        ),
        Some(Ok(n)) => (
            StatusCode::OK,
            Bytes::from(format!("{}\n", sum(0, u64::from(n) + 1))),
        ),
        Some(Err(error)) => (StatusCode::BAD_REQUEST, Bytes::from(format!("/sum/N: {error}\n"))),
    };
    let mut response = Response::new(Full::new(text));
    *response.status_mut() = status;
    Ok(response)
}

/// The sum of a range, in halves.
fn sum(from: u64, to: u64) -> u64 {
    if to - from < 1 << 14 {
        return (from..to).sum();
    }
    let middle = from.midpoint(to);
    let (left, right) = warpweft::join(|| sum(from, middle), || sum(middle, to));
    left + right
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let address: SocketAddr = words.next().as_deref().unwrap_or("127.0.0.1:7080").parse()?;
    let mut builder = Runtime::builder().name("http");
    if let Some(workers) = words.next() {
        builder = builder.workers(workers.parse()?);
    }
    let runtime = builder.build()?;
    runtime.block_on(async {
        let server = Server::start(address, answer)?;
        println!("listening at http://{}; Ctrl-C ends", server.address());
        signal::ctrl_c().await?;
        println!("waiting for the requests under way");
        server.stop().await;
        Ok::<_, std::io::Error>(())
    })?;
    println!("{:#?}", runtime.counters().total());
    Ok(())
}
