//! A server with admission: what is refused, by sockets, and what is not.

use bytes::Bytes;
use http_body_util::{BodyExt as _, Collected, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use std::convert::Infallible;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use warpweft::net::TcpListener;
use warpweft::sync::oneshot;
use warpweft::{AdmissionControl, QueueDelay, Runtime};
use warpweft_tokio::serve_hyper;

const TARGET: Duration = Duration::from_millis(5);
const INTERVAL: Duration = Duration::from_millis(50);
/// Longer than a busy machine stops a test between two requests, and less than the second of which a client
/// that is refused is told.
const LONG_INTERVAL: Duration = Duration::from_millis(900);
const LONG: Duration = Duration::from_secs(60);

/// Runs `client` against a server whose handler echoes. It is given the number of calls of the handler.
fn against_a_server(
    workers: usize,
    interval: Duration,
    client: impl FnOnce(SocketAddr, &AdmissionControl, &AtomicUsize),
) {
    let delay = QueueDelay::new().target(TARGET).interval(interval);
    let runtime = Runtime::builder().workers(workers).admission(delay).build();
    let runtime = runtime.expect("a small pool");
    let admission = runtime.first().admission().expect("the builder says so");
    let listener = runtime.block_on(async { TcpListener::bind(([127, 0, 0, 1], 0)) });
    let listener = listener.expect("a port");
    let address = listener.local_addr().expect("it is bound");
    let calls = Arc::new(AtomicUsize::new(0));
    let (stop, stopped) = oneshot::channel::<()>();
    let counted = Arc::clone(&calls);
    let service = service_fn(move |request: Request<Incoming>| {
        counted.fetch_add(1, Ordering::SeqCst);
        async move {
            let path = request.uri().path().to_owned();
            let body = request.into_body().collect().await.map(Collected::to_bytes);
            if path == "/work" {
                let start = Instant::now();
                while start.elapsed() < Duration::from_millis(1) {
                    warpweft_platform::atomic::spin_loop();
                }
            }
            Ok::<_, Infallible>(Response::new(Full::new(body.unwrap_or_else(|_| Bytes::new()))))
        }
    });
    let server = serve_hyper(listener, service)
        .admission(admission.clone())
        .with_graceful_shutdown(async {
            let _ = stopped.await;
        });
    let server = runtime.spawn(async move { server.await });
    client(address, &admission, &calls);
    drop(stop);
    server.wait().expect("no panic").expect("a graceful end");
}

fn connect(address: SocketAddr) -> BufReader<TcpStream> {
    let stream = TcpStream::connect(address).expect("a connection");
    stream.set_read_timeout(Some(LONG)).expect("a limit");
    stream.set_nodelay(true).expect("no delay");
    BufReader::new(stream)
}

/// Sends a request whose head promises that number of bytes, with that body, and returns head and body of the
/// answer.
fn ask(stream: &mut BufReader<TcpStream>, path: &str, promised: usize, body: &str) -> (String, String) {
    write!(
        stream.get_mut(),
        "POST {path} HTTP/1.1\r\nhost: here\r\ncontent-length: {promised}\r\n\r\n{body}"
    )
    .expect("it is sent");
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let before = head.len();
        let read = stream.read_line(&mut head).expect("a line of the head");
        let line = head[before..].to_ascii_lowercase();
        if let Some(text) = line.strip_prefix("content-length:") {
            length = text.trim().parse().expect("a number");
        }
        if read == 0 || line == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).expect("the body");
    (head, String::from_utf8(body).expect("text"))
}

#[test]
fn an_overloaded_server_refuses_before_it_reads_the_body() {
    for workers in [1, 2] {
        against_a_server(workers, LONG_INTERVAL, |address, admission, calls| {
            let mut kept = connect(address);
            let (head, body) = ask(&mut kept, "/", 5, "hello");
            assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
            assert_eq!((&*body, calls.load(Ordering::SeqCst)), ("hello", 1));

            // One waits for longer than the interval.
            let waits = admission.try_admit().expect("none waits");
            thread::sleep(TARGET + LONG_INTERVAL);
            // On a new connection the body never comes.
            let (head, body) = ask(&mut connect(address), "/", 1 << 20, "");
            assert!(
                head.starts_with("HTTP/1.1 503 ")
                    && head.to_ascii_lowercase().contains("\r\nretry-after: 1\r\n"),
                "{head}"
            );
            assert_eq!(body, "");
            // One without a body keeps its connection.
            for _ in 0..2 {
                let (head, _) = ask(&mut kept, "/", 0, "");
                assert!(head.starts_with("HTTP/1.1 503 "), "{head}");
            }
            assert_eq!(calls.load(Ordering::SeqCst), 1, "no handler was called");
            assert_eq!(admission.stats().refused, 3);

            waits.start();
            let (head, body) = ask(&mut kept, "/", 5, "again");
            assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
            assert_eq!(body, "again");
        });
    }
}

#[test]
fn each_request_is_answered_once_whatever_the_crowd() {
    for workers in [1, 2, 4] {
        against_a_server(workers, INTERVAL, |address, admission, calls| {
            let clients: Vec<_> = (0..40)
                .map(|_| {
                    thread::spawn(move || {
                        // Without a body, because a connection ends with a body that was not read.
                        let mut stream = connect(address);
                        let heads = (0..20).map(|_| ask(&mut stream, "/work", 0, ""));
                        heads
                            .filter(|(head, body)| {
                                let is_served = head.starts_with("HTTP/1.1 200 ");
                                let is_refused = head.starts_with("HTTP/1.1 503 ");
                                assert!((is_served || is_refused) && body.is_empty(), "{head}");
                                is_served
                            })
                            .count()
                    })
                })
                .collect();
            let served: usize = clients
                .into_iter()
                .map(|client| client.join().expect("no panic"))
                .sum();
            let stats = admission.stats();
            assert_eq!(served, calls.load(Ordering::SeqCst));
            assert_eq!((served as u64, stats.waiting), (stats.admitted - stats.shed, 0));
            assert_eq!(stats.admitted + stats.refused, 800);
            // All forty at a time are worth 40 ms of one worker, and that again and again is an overload.
            assert!(workers > 1 || stats.refused > 0, "{stats:?}");
        });
    }
}
