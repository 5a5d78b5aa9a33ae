//! A server with a graceful end under clients of all manners, with 1, 2 and 4 workers.

mod serve;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use serve::{Answer, Server};
use std::io;
use std::net::{Shutdown, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use warpweft::Runtime;
use warpweft::net::{TcpListener, TcpStream};
use warpweft::sync::Semaphore;
use warpweft::time::{sleep, timeout};
use warpweft_tokio::{Io, WarpweftTimer};

const HERE: ([u8; 4], u16) = ([127, 0, 0, 1], 0);
const LONG: Duration = Duration::from_secs(60);
type Error = Box<dyn std::error::Error + Send + Sync>;

/// What `/gate` waits for, and where it says that it does.
#[derive(Clone)]
struct Gate {
    arrived: Arc<Semaphore>,
    open: Arc<Semaphore>,
}

impl Gate {
    fn new() -> Self {
        Self {
            arrived: Arc::new(Semaphore::new(0)),
            open: Arc::new(Semaphore::new(0)),
        }
    }

    async fn pass(&self) {
        self.arrived.add(1);
        self.open.acquire(1).await.expect("nobody closes it").forget();
    }
}

async fn answer(request: Request<Incoming>, gate: Gate) -> Answer {
    let body = match request.uri().path() {
        "/" => Bytes::from_static(b"hello"),
        "/echo" => match request.into_body().collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) => Bytes::from(error.to_string()),
        },
        "/gate" => {
            gate.pass().await;
            Bytes::from_static(b"late")
        }
        "/panic" => panic!("on purpose"),
        _ => {
            let mut response = Response::new(Full::default());
            *response.status_mut() = StatusCode::NOT_FOUND;
            return Ok(response);
        }
    };
    Ok(Response::new(Full::new(body)))
}

/// Runs `client` against the server with 1, 2 and 4 workers; then all connections must have ended.
fn against_the_server<F>(client: impl Fn(SocketAddr, Gate) -> F)
where
    F: Future<Output = Result<(), Error>>,
{
    for workers in [1, 2, 4] {
        let runtime = Runtime::builder().workers(workers).build().expect("workers");
        let program = async {
            let gate = Gate::new();
            let inside = gate.clone();
            let server = Server::start(HERE.into(), move |request| answer(request, inside.clone()))?;
            client(server.address(), gate).await?;
            server.stop().await;
            Ok::<_, Error>(())
        };
        runtime
            .block_on(timeout(LONG, program))
            .expect("a hang")
            .unwrap_or_else(|error| panic!("{workers} workers: {error}"));
    }
}

async fn connect(address: SocketAddr) -> Result<SendRequest<Full<Bytes>>, Error> {
    let stream = TcpStream::connect(address).await?;
    let (sender, connection) = handshake(Io::socket(stream)).await?;
    warpweft::spawn(connection).detach();
    Ok(sender)
}

fn request(method: Method, path: &str, body: Bytes) -> Request<Full<Bytes>> {
    Request::builder()
        .method(method)
        .uri(path)
        .header("host", "here")
        .body(Full::new(body))
        .expect("a request")
}

fn get(path: &str) -> Request<Full<Bytes>> {
    request(Method::GET, path, Bytes::new())
}

async fn body_of(
    sender: &mut SendRequest<Full<Bytes>>,
    request: Request<Full<Bytes>>,
) -> Result<Bytes, Error> {
    sender.ready().await?;
    let response = sender.send_request(request).await?;
    assert_eq!(response.status(), StatusCode::OK);
    Ok(response.into_body().collect().await?.to_bytes())
}

/// All that comes until the peer ends.
async fn read_to_end(stream: &TcpStream) -> io::Result<String> {
    let mut all = Vec::new();
    let mut buffer = [0; 256];
    loop {
        match stream.read(&mut buffer).await? {
            0 => return Ok(String::from_utf8_lossy(&all).into_owned()),
            read => all.extend_from_slice(&buffer[..read]),
        }
    }
}

#[test]
fn connections_are_kept_alive_side_by_side() {
    against_the_server(|address, _| async move {
        let clients: Vec<_> = (0..8)
            .map(|client| {
                warpweft::spawn(async move {
                    let mut sender = connect(address).await?;
                    for round in 0..20 {
                        let text = Bytes::from(format!("{client} {round}").repeat(round * 500 + 1));
                        let echo = request(Method::POST, "/echo", text.clone());
                        assert_eq!(body_of(&mut sender, get("/")).await?, "hello");
                        assert_eq!(body_of(&mut sender, echo).await?, text);
                    }
                    Ok::<_, Error>(())
                })
            })
            .collect();
        for client in clients {
            client.await.expect("no panic")?;
        }
        Ok(())
    });
}

#[test]
fn a_body_larger_than_all_buffers_comes_back() {
    against_the_server(|address, _| async move {
        let large: Bytes = (0..8 << 20)
            .map(|n: u32| (n % 251) as u8)
            .collect::<Vec<_>>()
            .into();
        let mut sender = connect(address).await?;
        let echo = body_of(&mut sender, request(Method::POST, "/echo", large.clone())).await?;
        assert!(echo == large);
        Ok(())
    });
}

#[test]
fn a_peer_that_has_ended_its_half_is_answered() {
    against_the_server(|address, gate| async move {
        let stream = TcpStream::connect(address).await?;
        stream
            .write_all(b"GET /gate HTTP/1.1\r\nhost: here\r\n\r\n")
            .await?;
        stream.shutdown(Shutdown::Write)?;
        gate.arrived.acquire(1).await?.forget();
        // The end of its half has arrived by now, or arrives while the answer waits: both are the same to it.
        gate.open.add(1);
        let text = read_to_end(&stream).await?;
        assert!(
            text.starts_with("HTTP/1.1 200 OK\r\n") && text.ends_with("\r\n\r\nlate"),
            "{text}"
        );
        Ok(())
    });
}

#[test]
fn a_peer_that_resets_harms_nobody_else() {
    against_the_server(|address, gate| async move {
        let mut bystander = connect(address).await?;
        for head in [
            "",
            "GET / HT",
            "POST /echo HTTP/1.1\r\nhost: here\r\ncontent-length: 100\r\n\r\nabc",
        ] {
            let stream = TcpStream::connect(address).await?;
            stream.write_all(head.as_bytes()).await?;
            assert_eq!(body_of(&mut bystander, get("/")).await?, "hello");
            // Closing without lingering is a reset.
            socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO))?;
            drop(stream);
            assert_eq!(body_of(&mut bystander, get("/")).await?, "hello");
        }
        // While its request is being handled.
        let stream = TcpStream::connect(address).await?;
        stream
            .write_all(b"GET /gate HTTP/1.1\r\nhost: here\r\n\r\n")
            .await?;
        gate.arrived.acquire(1).await?.forget();
        socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO))?;
        drop(stream);
        gate.open.add(1);
        assert_eq!(body_of(&mut bystander, get("/")).await?, "hello");
        Ok(())
    });
}

#[test]
fn a_request_that_trickles_is_put_together() {
    against_the_server(|address, _| async move {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let text = "POST /echo HTTP/1.1\r\nhost: here\r\nconnection: close\r\ncontent-length: 20\r\n\r\nbyte by byte, slowly";
        for byte in text.as_bytes() {
            stream.write_all(&[*byte]).await?;
            sleep(Duration::from_micros(200)).await;
        }
        let answer = read_to_end(&stream).await?;
        assert!(answer.ends_with("\r\n\r\nbyte by byte, slowly"), "{answer}");
        Ok(())
    });
}

#[test]
fn a_panic_in_a_handler_ends_its_connection_alone() {
    against_the_server(|address, _| async move {
        let mut bystander = connect(address).await?;
        assert_eq!(body_of(&mut bystander, get("/")).await?, "hello");
        let mut victim = connect(address).await?;
        let error = body_of(&mut victim, get("/panic"))
            .await
            .expect_err("it panicked");
        assert!(error.downcast::<hyper::Error>()?.is_incomplete_message());
        assert_eq!(body_of(&mut bystander, get("/")).await?, "hello");
        assert_eq!(body_of(&mut connect(address).await?, get("/")).await?, "hello");
        Ok(())
    });
}

#[test]
fn a_graceful_end_waits_for_requests_and_for_nothing_else() {
    for workers in [1, 2, 4] {
        let runtime = Runtime::builder().workers(workers).build().expect("workers");
        let program = async {
            let gate = Gate::new();
            let inside = gate.clone();
            let server = Server::start(HERE.into(), move |request| answer(request, inside.clone()))?;
            let address = server.address();
            let mut idle = connect(address).await?;
            assert_eq!(body_of(&mut idle, get("/")).await?, "hello");
            let waiting = warpweft::spawn(async move {
                let mut sender = connect(address).await?;
                body_of(&mut sender, get("/gate")).await
            });
            gate.arrived.acquire(1).await?.forget();

            let stopping = warpweft::spawn(server.stop());
            // The idle connection is closed, although the server still waits for the other one.
            while idle.ready().await.is_ok() {
                sleep(Duration::from_millis(1)).await;
            }
            assert!(!stopping.is_finished(), "a request is under way");
            // No connection is accepted: the listener is gone, or is dropped with the connections that wait
            // at it.
            while TcpStream::connect(address).await.is_ok() {
                sleep(Duration::from_millis(1)).await;
            }
            gate.open.add(1);
            assert_eq!(waiting.await.expect("no panic")?, "late");
            stopping.await.expect("no panic");
            Ok::<_, Error>(())
        };
        runtime
            .block_on(timeout(LONG, program))
            .expect("a hang")
            .expect("no error");
    }
}

#[test]
fn a_peer_that_says_nothing_is_let_go_when_its_time_is_over() {
    let runtime = Runtime::builder().workers(1).build().expect("a worker");
    let program = async {
        let listener = TcpListener::bind(HERE)?;
        let silent = TcpStream::connect(listener.local_addr()?).await?;
        let (stream, _) = listener.accept().await?;
        let served = hyper::server::conn::http1::Builder::new()
            .timer(WarpweftTimer::new())
            .header_read_timeout(Duration::from_millis(20))
            .serve_connection(
                Io::socket(stream),
                service_fn(|request| answer(request, Gate::new())),
            )
            .await;
        assert!(served.expect_err("nothing came").is_timeout());
        drop(silent);
        Ok::<_, Error>(())
    };
    runtime
        .block_on(timeout(LONG, program))
        .expect("a hang")
        .expect("no error");
}
