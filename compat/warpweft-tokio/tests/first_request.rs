//! The time that a client has for its first request.

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use std::convert::Infallible;
use std::io;
use std::time::Duration;
use warpweft::Runtime;
use warpweft::net::{TcpListener, TcpStream};
use warpweft::time::{sleep, timeout};

const SHORT: Duration = Duration::from_millis(50);
const LONG: Duration = Duration::from_secs(60);

async fn hello(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::from("hello")))
}

/// Nothing, and bytes with which a request of either protocol may begin.
#[test]
fn a_client_without_a_request_is_disconnected_and_one_with_a_request_is_kept() -> io::Result<()> {
    let runtime = Runtime::builder().workers(1).build().expect("a worker");
    let program = async {
        let listener = TcpListener::bind(([127, 0, 0, 1], 0))?;
        let address = listener.local_addr()?;
        let server = warpweft_tokio::serve_hyper(listener, service_fn(hello))
            .first_request_within(SHORT)
            .on_error(|error| panic!("{error}"));
        let server = warpweft::spawn(async move { server.await });
        for text in ["", "P", "PRI * HTTP"] {
            let client = TcpStream::connect(address).await?;
            client.write_all(text.as_bytes()).await?;
            assert_eq!(client.read(&mut [0]).await?, 0, "{text:?}");
        }
        let client = TcpStream::connect(address).await?;
        for _ in 0..2 {
            client.write_all(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n").await?;
            let mut answer = [0; 512];
            let read = client.read(&mut answer).await?;
            assert!(answer[..read].ends_with(b"hello"));
            sleep(2 * SHORT).await;
        }
        server.cancel();
        Ok(())
    };
    runtime.block_on(timeout(LONG, program)).expect("a hang")
}
