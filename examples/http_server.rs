//! An HTTP server by hyper that computes in its handlers, and ends gracefully at Ctrl-C:
//! `cargo run --release --bin http_server -- 127.0.0.1:7080`.

use bytes::Bytes;
use http_body_util::Full;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode, body::Incoming};
use std::{convert::Infallible, error::Error, net::SocketAddr};
use warpweft::{Runtime, net::TcpListener, signal};
use warpweft_tokio::serve_hyper;

/// `/` says hello, and `/sum/N` computes on all workers beside other connections.
async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let path = request.uri().path();
    let (status, text) = match path.strip_prefix("/sum/").map(str::parse::<u32>) {
        Some(Ok(n)) => (StatusCode::OK, format!("{}\n", sum(0, u64::from(n) + 1))),
        None if path == "/" => (StatusCode::OK, "Hello, World!".to_owned()),
        _ => (StatusCode::NOT_FOUND, "there are / and /sum/N\n".to_owned()),
    };
    let response = Response::builder().status(status).body(Full::from(text));
    Ok(response.expect("the parts are valid"))
}

fn sum(from: u64, to: u64) -> u64 {
    if to - from < 1 << 14 {
        return (from..to).sum();
    }
    let middle = from.midpoint(to);
    let (left, right) = warpweft::join(|| sum(from, middle), || sum(middle, to));
    left + right
}

fn main() -> Result<(), Box<dyn Error>> {
    let text = std::env::args().nth(1);
    let address: SocketAddr = text.as_deref().unwrap_or("127.0.0.1:7080").parse()?;
    let runtime = Runtime::builder().name("http").build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(address)?;
        println!("listening at http://{}; Ctrl-C ends", listener.local_addr()?);
        // Each connection is a task. At Ctrl-C, requests under way are answered, and idle connections closed.
        serve_hyper(listener, service_fn(answer))
            .on_error(|error| eprintln!("{error}"))
            .with_graceful_shutdown(async {
                // If there is no signal to be had, the server ends at once.
                let _ = signal::ctrl_c().await;
            })
            .await
    })?;
    println!("all requests are answered");
    Ok(())
}
