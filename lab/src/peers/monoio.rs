//! monoio: a thread per core, each with tasks, sockets and an io_uring of its own. Where the system forbids
//! io_uring, each thread has an epoll instead; the run says which of both it was.
//!
//! Equal: the server is hyper with the same handler, joined as monoio's own example joins them: sockets are
//! turned into those that hyper polls (`into_poll_io`), and `monoio-compat` adapts them. What a handler asks
//! its backends goes over monoio's own calls, to which a buffer is lent.
//!
//! Not equal
//! - hyper waits until a socket is ready, and io_uring says when a read has ended. So monoio adds an epoll
//!   for these sockets, and the ring waits for it. A server that is written for monoio's own calls has no
//!   such detour, but it is another server.
//! - Tasks do not move: a connection stays on the thread that accepted it. Each thread listens on the same
//!   address (`SO_REUSEPORT`, monoio's default), and the kernel deals the connections out by a hash. So one
//!   thread may have more of them than another, and with few connections a thread may have none.
//! - A request that computes keeps the other connections of its thread waiting. Elsewhere other threads take
//!   them over.
//! - Threads are not bound to cores, as with its `worker_threads`. The clients need the same cores.
//!
//! `MONOIO_FORCE_LEGACY_DRIVER=1` in the environment makes it take epoll.

use std::net::SocketAddr;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::{io, mem};

use ::monoio::io::{AsyncReadRent, AsyncReadRentExt, AsyncWriteRentExt, IntoPollIo};
use ::monoio::net::{TcpListener, TcpStream, UnixStream};
use ::monoio::utils::detect_uring;
use ::monoio::{FusionDriver, RuntimeBuilder};
use harness::{Caveat, LabError, Outcome, Peer, PeerInfo, Request};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use monoio_compat::hyper::MonoioIo;

use super::Contestant;
use crate::idioms::{HttpPool, Idiom};
use crate::kit::answer::{Asks, Inline, LocalWire, answer};
use crate::kit::backends::Addresses;
use crate::program::{Program, measured};

/// monoio.
pub(crate) struct Monoio;

impl Peer for Monoio {
    fn info(&self) -> PeerInfo {
        PeerInfo {
            name: "monoio",
            about: "monoio, for servers: a thread per core with an io_uring each, or an epoll where there is none",
            packages: &["monoio", "monoio-compat"],
        }
    }
}

impl Contestant for Monoio {
    fn lacks(&self, idiom: Idiom) -> Option<&'static str> {
        (idiom != Idiom::Http)
            .then_some("its tasks stay on their thread, and nothing is shared between threads: see http")
    }

    fn caveat(&self, _: Idiom) -> Option<Caveat> {
        Some(Caveat::same(if detect_uring() {
            "by io_uring; a connection stays on its thread"
        } else {
            "by epoll: io_uring is forbidden here, lacks a call, or was not wanted; a connection stays on its thread"
        }))
    }

    fn play<P: Program>(&self, request: &Request, program: &P) -> Result<Outcome, LabError> {
        let pool = Cores {
            workers: request.workers,
            threads: Mutex::default(),
        };
        measured(program, || None, |program| program.http(&pool))
    }
}

/// The threads; they end with this.
struct Cores {
    workers: usize,
    threads: Mutex<Vec<Core>>,
}

/// A thread, which ends when the other end of its line closes.
struct Core {
    line: StdUnixStream,
    thread: JoinHandle<()>,
}

impl Drop for Cores {
    fn drop(&mut self) {
        let threads = self.threads.get_mut().unwrap_or_else(PoisonError::into_inner);
        for Core { line, thread } in threads.drain(..) {
            drop(line);
            // A thread that panicked has said so; there is nothing to add.
            drop(thread.join());
        }
    }
}

impl HttpPool for Cores {
    fn serve(&self, backends: Option<Addresses>) -> io::Result<SocketAddr> {
        // The first one gets a port, and the others listen there, too.
        let mut address = SocketAddr::from(([127, 0, 0, 1], 0));
        for number in 0..self.workers {
            let (line, end) = StdUnixStream::pair()?;
            let (ready, listening) = channel();
            let thread = thread::Builder::new()
                .name(format!("monoio-{number}"))
                .spawn(move || core(address, backends, end, &ready))?;
            self.threads
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(Core { line, thread });
            address = listening
                .recv()
                .unwrap_or_else(|_| Err(io::Error::other("a thread of monoio ended early")))?;
        }
        Ok(address)
    }
}

/// A thread: serves until the other end of its line closes.
fn core(
    address: SocketAddr,
    backends: Option<Addresses>,
    end: StdUnixStream,
    ready: &Sender<io::Result<SocketAddr>>,
) {
    let tell = |listening| {
        // The thread that asked waits for it.
        ready.send(listening).unwrap_or_default();
    };
    let mut runtime = match RuntimeBuilder::<FusionDriver>::new().build() {
        Ok(runtime) => runtime,
        Err(error) => return tell(Err(error)),
    };
    runtime.block_on(async move {
        let listener = TcpListener::bind(address);
        match listener.and_then(|listener| Ok((listener.local_addr()?, UnixStream::from_std(end)?, listener)))
        {
            Err(error) => tell(Err(error)),
            Ok((address, mut end, listener)) => {
                drop(::monoio::spawn(accept(listener, backends)));
                tell(Ok(address));
                // Nothing is written: this ends when the line closes.
                drop(end.read(vec![0; 1]).await);
            }
        }
    });
}

/// Serves each connection in its own task.
async fn accept(listener: TcpListener, backends: Option<Addresses>) {
    // The listener's own errors end it, and the clients find that out.
    while let Ok((stream, _)) = listener.accept().await {
        drop(::monoio::spawn(async move {
            // A connection that ends early is its client's error to report.
            let _ = stream.set_nodelay(true);
            let Ok(stream) = stream.into_poll_io() else { return };
            let Ok(asks) = Asks::connect(backends, Asked::connect).await else {
                return;
            };
            let handler = service_fn(|request| answer(request, Inline, &asks));
            let _ = http1::Builder::new()
                .serve_connection(MonoioIo::new(stream), handler)
                .await;
        }));
    }
}

/// A connection to a backend, and the buffer that is lent to its calls.
struct Asked {
    stream: TcpStream,
    buffer: Box<[u8]>,
}

impl Asked {
    async fn connect(backend: SocketAddr) -> io::Result<Self> {
        Ok(Self {
            stream: TcpStream::connect_addr(backend).await?,
            buffer: Box::default(),
        })
    }

    /// A buffer of this length.
    fn lend(&mut self, length: usize) -> Box<[u8]> {
        match mem::take(&mut self.buffer) {
            buffer if buffer.len() == length => buffer,
            _ => vec![0; length].into(),
        }
    }
}

impl LocalWire for Asked {
    async fn read_exact(&mut self, into: &mut [u8]) -> io::Result<()> {
        let buffer = self.lend(into.len());
        let (read, buffer) = self.stream.read_exact(buffer).await;
        into.copy_from_slice(&buffer);
        self.buffer = buffer;
        read.map(drop)
    }

    async fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut buffer = self.lend(bytes.len());
        buffer.copy_from_slice(bytes);
        let (written, buffer) = self.stream.write_all(buffer).await;
        self.buffer = buffer;
        written.map(drop)
    }
}
