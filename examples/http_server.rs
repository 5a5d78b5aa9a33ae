//! An HTTP server by hyper that computes in its handlers, and ends gracefully at Ctrl-C:
//! `cargo run --release --bin http_server -- 127.0.0.1:7080`.

use bytes::Bytes;
use futures_lite::future::or;
use http_body_util::Full;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode, body::Incoming, server::conn::http1};
use std::{convert::Infallible, io, net::SocketAddr, pin::pin, time::Duration};
use warpweft::net::{TcpListener, TcpStream};
use warpweft::{AsyncScope, Runtime, scope_async, signal, sync::watch, time::sleep};
use warpweft_tokio::{Io, WarpweftTimer};

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

/// Serves one connection. When the server stops, it answers the request under way and closes the connection.
async fn serve(stream: TcpStream, mut stopped: watch::Receiver<()>) -> hyper::Result<()> {
    let mut http = http1::Builder::new();
    http.timer(WarpweftTimer::new())
        .header_read_timeout(Duration::from_secs(30));
    let mut connection = pin!(http.serve_connection(Io::vectored(stream), service_fn(answer)));
    let stop = async {
        let _closed = stopped.changed().await;
        None
    };
    if let Some(ended) = or(async { Some(connection.as_mut().await) }, stop).await {
        return ended;
    }
    connection.as_mut().graceful_shutdown();
    connection.await
}

/// Accepts connections until Ctrl-C. The scope ends when its last connection has ended.
async fn run(scope: AsyncScope, address: SocketAddr) -> io::Result<()> {
    let listener = TcpListener::bind(address)?;
    let (_stop, stopped) = watch::channel(());
    println!("listening at http://{}; Ctrl-C ends", listener.local_addr()?);
    let mut ended = pin!(signal::ctrl_c());
    loop {
        let signal = async { Err(ended.as_mut().await) };
        match or(signal, async { Ok(listener.accept().await) }).await {
            Err(signal) => return signal,
            Ok(Ok((stream, _peer))) => drop(scope.spawn(serve(stream, stopped.clone()))),
            // If no descriptor is left, a client that leaves gives one back.
            Ok(Err(_)) => sleep(Duration::from_millis(100)).await,
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let text = std::env::args().nth(1);
    let address = text.as_deref().unwrap_or("127.0.0.1:7080").parse()?;
    Runtime::builder()
        .name("http")
        .build()?
        .block_on(scope_async(|scope| run(scope, address)))?;
    println!("all requests are answered");
    Ok(())
}
