//! `serve`: both protocols, keep-alive, upgrades, the graceful end, panics, and errors of `accept`.

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper::header::{CONNECTION, HOST, UPGRADE};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::server::conn::auto;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use warpweft::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use warpweft::sync::{Semaphore, channel, oneshot};
use warpweft::time::{sleep, timeout};
use warpweft::{JoinHandle, Pool, Runtime};
use warpweft_tokio::{Io, Listener, Peer, ServeError, WarpweftExecutor, serve, serve_hyper};

const LONG: Duration = Duration::from_secs(60);
const NAME: &str = "served";
type Error = Box<dyn std::error::Error + Send + Sync>;
type Answer = Result<Response<Full<Bytes>>, Infallible>;

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
}

async fn answer(mut request: Request<Incoming>, gate: Gate) -> Answer {
    let text = match request.uri().path() {
        "/" => "hello".to_owned(),
        "/version" => format!("{:?}", request.version()),
        "/where" => {
            // Both halves are in the pool, too.
            let pools = warpweft::join(pool_name, || warpweft::spawn_job(pool_name).wait().ok().flatten());
            let thread = std::thread::current().name().unwrap_or("?").to_owned();
            format!("{thread} {:?} {pools:?}", Pool::current_worker().is_some())
        }
        "/peer" => match request.extensions().get::<Peer<SocketAddr>>() {
            Some(Peer(address)) => address.to_string(),
            None => format!("{:?}", request.extensions().get::<Peer<Option<PathBuf>>>()),
        },
        "/gate" => {
            gate.arrived.add(1);
            gate.open.acquire(1).await.expect("nobody closes it").forget();
            "late".to_owned()
        }
        "/panic" => panic!("on purpose"),
        "/upgrade" => {
            let upgraded = hyper::upgrade::on(&mut request);
            warpweft::spawn(async move {
                let upgraded = upgraded.await.expect("the client upgrades");
                let parts = auto::upgrade::downcast::<Io<TcpStream>>(upgraded).expect("it is our stream");
                let (mut io, head) = (parts.io, parts.read_buf);
                io.write_all(&head).await?;
                let mut bytes = [0; 64];
                loop {
                    match io.read(&mut bytes).await? {
                        0 => return io::Result::Ok(()),
                        read => io.write_all(&bytes[..read]).await?,
                    }
                }
            })
            .detach();
            let mut response = Response::new(Full::default());
            *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
            response
                .headers_mut()
                .insert(CONNECTION, "upgrade".parse().expect("a value"));
            response
                .headers_mut()
                .insert(UPGRADE, "echo".parse().expect("a value"));
            return Ok(response);
        }
        _ => match request.into_body().collect().await {
            Ok(body) => return Ok(Response::new(Full::new(body.to_bytes()))),
            Err(error) => error.to_string(),
        },
    };
    Ok(Response::new(Full::from(text)))
}

fn pool_name() -> Option<String> {
    Pool::current().map(|pool| pool.name().to_owned())
}

fn request(method: Method, path: &str, body: &[u8]) -> Request<Full<Bytes>> {
    let mut request = Request::new(Full::new(Bytes::copy_from_slice(body)));
    *request.method_mut() = method;
    *request.uri_mut() = format!("http://here{path}").parse().expect("a path");
    request
        .headers_mut()
        .insert(HOST, "here".parse().expect("a value"));
    request
}

/// A server under way.
struct Server {
    address: SocketAddr,
    gate: Gate,
    stop: oneshot::Sender<()>,
    errors: channel::Receiver<String>,
    task: JoinHandle<io::Result<()>>,
}

impl Server {
    fn start() -> io::Result<Self> {
        let listener = TcpListener::bind(([127, 0, 0, 1], 0))?;
        let (address, gate) = (listener.local_addr()?, Gate::new());
        let (stop, stopped) = oneshot::channel();
        let inside = gate.clone();
        let service = tower::service_fn(move |request| answer(request, inside.clone()));
        let (tell, errors) = channel::unbounded();
        let server = serve(listener, service).on_error(move |error| {
            eprintln!("{error}");
            let _ = tell.try_send(error.to_string());
        });
        let server = server.with_graceful_shutdown(async {
            let _ = stopped.await;
        });
        let task = warpweft::spawn(async move { server.await });
        Ok(Self {
            address,
            gate,
            stop,
            errors,
            task,
        })
    }

    async fn stop(self) -> Result<(), Error> {
        drop(self.stop);
        Ok(self.task.await.expect("no panic")?)
    }
}

/// Runs `client` against the server with 1, 2 and 4 workers, with both protocols; then the server ends.
fn against_the_server<F>(client: impl Fn(SocketAddr, Gate, bool) -> F)
where
    F: Future<Output = Result<(), Error>>,
{
    for workers in [1, 2, 4] {
        for second in [false, true] {
            let runtime = Runtime::builder()
                .name(NAME)
                .workers(workers)
                .build()
                .expect("workers");
            let program = async {
                let server = Server::start()?;
                client(server.address, server.gate.clone(), second).await?;
                server.stop().await
            };
            runtime
                .block_on(timeout(LONG, program))
                .expect("a hang")
                .unwrap_or_else(|error| panic!("{workers} workers, HTTP/2: {second}: {error}"));
        }
    }
}

enum Client {
    First(http1::SendRequest<Full<Bytes>>),
    Second(http2::SendRequest<Full<Bytes>>),
}

impl Client {
    async fn connect(address: SocketAddr, second: bool) -> Result<Self, Error> {
        let io = Io::socket(TcpStream::connect(address).await?);
        if second {
            let (sender, connection) = http2::handshake(WarpweftExecutor::new(), io).await?;
            warpweft::spawn(connection).detach();
            return Ok(Self::Second(sender));
        }
        let (sender, connection) = http1::handshake(io).await?;
        warpweft::spawn(connection.with_upgrades()).detach();
        Ok(Self::First(sender))
    }

    /// Another sender for the same connection; none with HTTP/1.
    fn beside(&self) -> Option<Self> {
        match self {
            Self::First(_) => None,
            Self::Second(sender) => Some(Self::Second(sender.clone())),
        }
    }

    async fn ready(&mut self) -> hyper::Result<()> {
        match self {
            Self::First(sender) => sender.ready().await,
            Self::Second(sender) => sender.ready().await,
        }
    }

    async fn send(&mut self, request: Request<Full<Bytes>>) -> hyper::Result<Response<Incoming>> {
        self.ready().await?;
        match self {
            Self::First(sender) => sender.send_request(request).await,
            Self::Second(sender) => sender.send_request(request).await,
        }
    }

    async fn get(&mut self, path: &str) -> Result<String, Error> {
        self.text(request(Method::GET, path, b"")).await
    }

    async fn text(&mut self, request: Request<Full<Bytes>>) -> Result<String, Error> {
        let response = self.send(request).await?;
        let body = response.into_body().collect().await?.to_bytes();
        Ok(String::from_utf8(body.to_vec())?)
    }
}

#[test]
fn both_protocols_are_served_by_the_workers_and_kept_alive() {
    against_the_server(|address, _, second| async move {
        let version = if second { "HTTP/2.0" } else { "HTTP/1.1" };
        let clients: Vec<_> = (0..6)
            .map(|client| {
                warpweft::spawn(async move {
                    let mut sender = Client::connect(address, second).await?;
                    for round in 0..10 {
                        let text = format!("{client} {round}").repeat(round * 700 + 1);
                        assert_eq!(sender.get("/").await?, "hello");
                        assert_eq!(sender.get("/version").await?, version);
                        let echo = request(Method::POST, "/echo", text.as_bytes());
                        assert_eq!(sender.text(echo).await?, text);
                        let place = sender.get("/where").await?;
                        let own = format!("true (Some(\"{NAME}\"), Some(\"{NAME}\"))");
                        assert!(
                            place.starts_with(&format!("{NAME}-")) && place.ends_with(&own),
                            "{place}"
                        );
                        assert!(sender.get("/peer").await?.starts_with("127.0.0.1:"));
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
fn a_panic_in_a_handler_ends_nothing_else() {
    against_the_server(|address, _, second| async move {
        let mut bystander = Client::connect(address, second).await?;
        assert_eq!(bystander.get("/").await?, "hello");
        let mut victim = Client::connect(address, second).await?;
        assert!(victim.get("/panic").await.is_err());
        if second {
            assert_eq!(victim.get("/").await?, "hello", "only its stream has ended");
        } else {
            assert!(victim.get("/").await.is_err());
        }
        assert_eq!(bystander.get("/").await?, "hello");
        assert_eq!(Client::connect(address, second).await?.get("/").await?, "hello");
        Ok(())
    });
}

#[test]
fn a_graceful_end_waits_for_requests_and_for_nothing_else() {
    for (workers, second) in [(1, false), (1, true), (3, false), (3, true)] {
        let runtime = Runtime::builder()
            .name(NAME)
            .workers(workers)
            .build()
            .expect("workers");
        let program = async {
            let server = Server::start()?;
            let (address, gate, errors) = (server.address, server.gate.clone(), server.errors.clone());
            let mut idle = Client::connect(address, second).await?;
            assert_eq!(idle.get("/").await?, "hello");
            // This one has said nothing yet.
            let silent = TcpStream::connect(address).await?;
            let mut client = Client::connect(address, second).await?;
            let beside = client.beside();
            let waiting = warpweft::spawn(async move { client.get("/gate").await });
            gate.arrived.acquire(1).await?.forget();
            // hyper's client drops a request of HTTP/2 if the server says that it ends before the client has
            // looked whether it may send another one. It has looked when another one is answered.
            if let Some(mut beside) = beside {
                assert_eq!(beside.get("/").await?, "hello");
            }

            let stopping = warpweft::spawn(server.stop());
            while idle.ready().await.is_ok() {
                sleep(Duration::from_millis(1)).await;
            }
            let mut byte = [0];
            assert_eq!(silent.read(&mut byte).await?, 0);
            if stopping.is_finished() {
                let (ended, errors) = (stopping.await, std::iter::from_fn(|| errors.try_recv().ok()));
                let errors: Vec<_> = errors.collect();
                panic!("a request is under way: {workers} workers, HTTP/2: {second}: {ended:?}, {errors:?}");
            }
            while TcpStream::connect(address).await.is_ok() {
                sleep(Duration::from_millis(1)).await;
            }
            gate.open.add(1);
            assert_eq!(waiting.await.expect("no panic")?, "late");
            stopping.await.expect("no panic")?;
            while let Ok(error) = errors.try_recv() {
                assert!(
                    !error.contains("Cancelled"),
                    "the end of a silent one is no error: {error}"
                );
            }
            Ok::<_, Error>(())
        };
        runtime
            .block_on(timeout(LONG, program))
            .expect("a hang")
            .expect("no error");
    }
}

#[test]
fn a_server_that_is_dropped_ends_gracefully_too() {
    let runtime = Runtime::builder().workers(1).build().expect("a worker");
    let program = async {
        let server = Server::start()?;
        let (address, gate) = (server.address, server.gate.clone());
        let mut idle = Client::connect(address, false).await?;
        assert_eq!(idle.get("/").await?, "hello");
        let waiting =
            warpweft::spawn(async move { Client::connect(address, false).await?.get("/gate").await });
        gate.arrived.acquire(1).await?.forget();
        server.task.cancel();
        while idle.ready().await.is_ok() {
            sleep(Duration::from_millis(1)).await;
        }
        gate.open.add(1);
        assert_eq!(waiting.await.expect("no panic")?, "late");
        Ok::<_, Error>(())
    };
    runtime
        .block_on(timeout(LONG, program))
        .expect("a hang")
        .expect("no error");
}

#[test]
fn a_connection_may_be_upgraded() {
    against_the_server(|address, _, second| async move {
        if second {
            // HTTP/2 has no such upgrades.
            return Ok(());
        }
        let mut client = Client::connect(address, false).await?;
        let mut ask = request(Method::GET, "/upgrade", b"");
        ask.headers_mut().insert(CONNECTION, "upgrade".parse()?);
        ask.headers_mut().insert(UPGRADE, "echo".parse()?);
        let response = client.send(ask).await?;
        assert_eq!(response.status(), StatusCode::SWITCHING_PROTOCOLS);
        let upgraded = hyper::upgrade::on(response).await?;
        let mut io = upgraded
            .downcast::<Io<TcpStream>>()
            .map_err(|_| "another stream")?
            .io;
        for text in ["warp", "weft"] {
            io.write_all(text.as_bytes()).await?;
            let mut back = [0; 4];
            io.read_exact(&mut back).await?;
            assert_eq!(back, text.as_bytes());
        }
        Ok(())
    });
}

#[test]
fn a_unix_socket_is_served_with_a_service_of_hyper() {
    let runtime = Runtime::builder().name(NAME).workers(2).build().expect("workers");
    let path = std::env::temp_dir().join(format!("warpweft-serve-{}", std::process::id()));
    let program = async {
        let listener = UnixListener::bind(&path)?;
        let (stop, stopped) = oneshot::channel::<()>();
        let server = serve_hyper(listener, service_fn(|request| answer(request, Gate::new())))
            .configure(|http| {
                http.http1().keep_alive(false);
            })
            .with_graceful_shutdown(async {
                let _ = stopped.await;
            });
        let server = warpweft::spawn(async move { server.await });
        let io = Io::socket(UnixStream::connect(&path).await?);
        let (mut sender, connection) = http1::handshake(io).await?;
        warpweft::spawn(connection).detach();
        let response = sender.send_request(request(Method::GET, "/peer", b"")).await?;
        assert_eq!(
            response
                .headers()
                .get(CONNECTION)
                .map(hyper::http::HeaderValue::as_bytes),
            Some(&b"close"[..])
        );
        let body = response.into_body().collect().await?.to_bytes();
        assert_eq!(body, "Some(Peer(None))");
        drop(stop);
        server.await.expect("no panic")?;
        Ok::<_, Error>(())
    };
    let result = runtime.block_on(timeout(LONG, program)).expect("a hang");
    std::fs::remove_file(&path).expect("it was bound");
    result.expect("no error");
}

/// A listener that fails with each of these errors first, and ends when it is told to.
struct Fails {
    errors: Vec<io::Error>,
    listener: TcpListener,
    ends: Arc<Semaphore>,
    accepts: usize,
    calls: Arc<AtomicUsize>,
}

impl Listener for Fails {
    type Io = Io<TcpStream>;
    type Address = SocketAddr;

    async fn accept(&mut self) -> io::Result<(Self::Io, SocketAddr)> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        if let Some(error) = self.errors.pop() {
            return Err(error);
        }
        if self.accepts == 0 {
            self.ends.acquire(1).await.expect("nobody closes it").forget();
            return Err(io::Error::other("the end"));
        }
        self.accepts -= 1;
        Listener::accept(&mut self.listener).await
    }
}

const EMFILE: i32 = 24;

#[test]
fn errors_of_accept_are_told_and_outlived() {
    let runtime = Runtime::builder()
        .name(NAME)
        .workers(1)
        .build()
        .expect("a worker");
    let program = async {
        let listener = TcpListener::bind(([127, 0, 0, 1], 0))?;
        let address = listener.local_addr()?;
        let (calls, told) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let ends = Arc::new(Semaphore::new(0));
        // One of the system that names its path.
        let named = warpweft::fs::read("/there/is/none").await.expect_err("no file");
        let fails = Fails {
            errors: vec![
                io::ErrorKind::ConnectionAborted.into(),
                io::Error::from_raw_os_error(EMFILE),
                named,
                io::ErrorKind::ConnectionReset.into(),
            ],
            listener,
            accepts: 1,
            ends: Arc::clone(&ends),
            calls: Arc::clone(&calls),
        };
        let count = Arc::clone(&told);
        let server = serve_hyper(fails, service_fn(|request| answer(request, Gate::new()))).on_error(
            move |error: &ServeError<SocketAddr>| {
                assert!(matches!(error, ServeError::Accept(_)), "{error}");
                assert!(error.to_string().starts_with("no connection could be accepted: "));
                count.fetch_add(1, Ordering::SeqCst);
            },
        );
        let server = warpweft::spawn(async move { server.await });
        let mut client = Client::connect(address, false).await?;
        assert_eq!(client.get("/").await?, "hello");
        drop(client);
        ends.add(1);
        let end = server
            .await
            .expect("no panic")
            .expect_err("the listener has ended");
        assert_eq!(end.to_string(), "the end");
        assert_eq!(told.load(Ordering::SeqCst), 4);
        assert_eq!(calls.load(Ordering::SeqCst), 6);
        Ok::<_, Error>(())
    };
    runtime
        .block_on(timeout(LONG, program))
        .expect("a hang")
        .expect("no error");
}

/// Where no descriptor is to be had for long, the server neither spins nor misses its end.
#[test]
fn a_lack_of_descriptors_is_waited_out() {
    let runtime = Runtime::builder()
        .name(NAME)
        .workers(1)
        .build()
        .expect("a worker");
    let program = async {
        let calls = Arc::new(AtomicUsize::new(0));
        let fails = Fails {
            errors: (0..100_000)
                .map(|_| io::Error::from_raw_os_error(EMFILE))
                .collect(),
            listener: TcpListener::bind(([127, 0, 0, 1], 0))?,
            accepts: 0,
            ends: Arc::new(Semaphore::new(1)),
            calls: Arc::clone(&calls),
        };
        let paused = Arc::clone(&calls);
        let signal = async move {
            while paused.load(Ordering::SeqCst) < 2 {
                sleep(Duration::from_millis(1)).await;
            }
        };
        let service = service_fn(|request| answer(request, Gate::new()));
        serve_hyper(fails, service).with_graceful_shutdown(signal).await?;
        // Spinning, it would have seen all of the errors, and the end of the listener.
        assert!(calls.load(Ordering::SeqCst) < 1000);
        Ok::<_, Error>(())
    };
    runtime
        .block_on(timeout(LONG, program))
        .expect("a hang")
        .expect("no error");
}

#[test]
fn an_error_of_a_connection_names_its_peer() {
    let runtime = Runtime::builder()
        .name(NAME)
        .workers(1)
        .build()
        .expect("a worker");
    let program = async {
        let listener = TcpListener::bind(([127, 0, 0, 1], 0))?;
        let address = listener.local_addr()?;
        let (told, tells) = channel::unbounded();
        let server = serve_hyper(listener, service_fn(|request| answer(request, Gate::new()))).on_error(
            move |error| {
                let _ = told.try_send(error.to_string());
            },
        );
        let server = warpweft::spawn(async move { server.await });
        let stream = TcpStream::connect(address).await?;
        stream.write_all(b"this is no request\r\n\r\n").await?;
        let peer = stream.local_addr()?;
        let text = tells.recv().await?;
        assert!(text.starts_with(&format!("the connection of {peer}: ")), "{text}");
        server.cancel();
        Ok::<_, Error>(())
    };
    runtime
        .block_on(timeout(LONG, program))
        .expect("a hang")
        .expect("no error");
}

/// The second request is in the socket when the server begins to end, and was not read yet.
#[test]
fn a_request_that_was_sent_before_the_end_is_answered() {
    use std::io::{Read as _, Write as _};
    let ask = |client: &mut std::net::TcpStream| {
        let request = b"GET / HTTP/1.1\r\nHost: here\r\n\r\n";
        client.write_all(request).expect("there is room");
    };
    let answer = |client: &mut std::net::TcpStream| {
        let (mut text, mut bytes) = (String::new(), [0; 512]);
        while !text.ends_with("hello") {
            let read = client.read(&mut bytes).expect("it is answered");
            assert!(read > 0, "closed behind {text:?}");
            text.push_str(std::str::from_utf8(&bytes[..read]).expect("ASCII"));
        }
    };
    let runtime = Runtime::builder().workers(1).stuck_after(None).build();
    let runtime = runtime.expect("a worker");
    for looks_first in [false, true].repeat(20) {
        let server = runtime.block_on(async { Server::start() });
        let Server {
            address, stop, task, ..
        } = server.expect("a server");
        let mut client = std::net::TcpStream::connect(address).expect("it listens");
        client.set_read_timeout(Some(LONG)).expect("a time");
        ask(&mut client);
        answer(&mut client);
        // The only worker does nothing else until the request is there. The poller is looked at after a job
        // of more than 100 µs, so after the second one, if it exists, or after the first one.
        let (go_on, held) = std::sync::mpsc::channel::<()>();
        let (tell, holds) = std::sync::mpsc::channel();
        let hold = runtime.spawn_job(move || {
            tell.send(()).expect("the test waits");
            let _asked = held.recv();
            if !looks_first {
                drop(stop);
                return;
            }
            warpweft::spawn_job(move || drop(stop)).detach();
        });
        holds.recv().expect("it begins");
        ask(&mut client);
        std::thread::sleep(Duration::from_millis(1));
        drop(go_on);
        answer(&mut client);
        hold.wait().expect("no panic");
        task.wait().expect("no panic").expect("it ends");
    }
}
