//! The handler, the same for every contestant but for where it computes.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Mutex;

use bytes::Bytes;
use futures_lite::future::zip;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::{Request, Response, StatusCode};

use super::backends::{Addresses, BACKENDS, BYTES, reply};
use crate::idioms::mixed::Wire;

/// The place where a request computes.
pub(crate) trait Compute: Clone + Send + 'static {
    /// The digest of this number of rounds.
    fn compute(&self, rounds: u64) -> impl Future<Output = u64> + Send;
}

/// In the task of its connection.
#[derive(Clone, Copy)]
pub(crate) struct Inline;

impl Compute for Inline {
    async fn compute(&self, rounds: u64) -> u64 {
        digest(rounds)
    }
}

/// The answer of `/`.
pub(crate) const HELLO: &str = "Hello, World!";
/// The question to every backend.
const QUESTION: u64 = 14;

/// The answer of `/fan-out`.
pub(crate) fn fanned_out() -> u64 {
    (0..BACKENDS).fold(0, |sum: u64, at| sum.wrapping_add(reply(at, QUESTION)))
}

/// One end of a connection that stays on its thread: every [`Wire`], and those that cannot be sent.
pub(crate) trait LocalWire: 'static {
    /// Fills the buffer.
    fn read_exact(&mut self, buffer: &mut [u8]) -> impl Future<Output = io::Result<()>>;

    /// Writes all of it.
    fn write_all(&mut self, bytes: &[u8]) -> impl Future<Output = io::Result<()>>;
}

impl<W: Wire> LocalWire for W {
    fn read_exact(&mut self, buffer: &mut [u8]) -> impl Future<Output = io::Result<()>> {
        Wire::read_exact(self, buffer)
    }

    fn write_all(&mut self, bytes: &[u8]) -> impl Future<Output = io::Result<()>> {
        Wire::write_all(self, bytes)
    }
}

/// A client's connection has its own connection to each backend. Its requests come one after the other.
pub(crate) struct Asks<W>(Mutex<Option<[W; BACKENDS]>>);

impl<W: LocalWire> Asks<W> {
    /// Connects to the backends, if there are any.
    pub(crate) async fn connect<F>(
        backends: Option<Addresses>,
        connect: impl Fn(SocketAddr) -> F,
    ) -> io::Result<Self>
    where
        F: Future<Output = io::Result<W>>,
    {
        Ok(Self(Mutex::new(match backends {
            Some([a, b, c]) => Some([connect(a).await?, connect(b).await?, connect(c).await?]),
            None => None,
        })))
    }

    /// Asks all of them at once and adds up what they answer. `None` if there are none, or one has gone.
    async fn ask(&self) -> Option<u64> {
        let mut wires = self.0.lock().ok()?.take()?;
        let [a, b, c] = &mut wires;
        let (a, (b, c)) = zip(asked(a), zip(asked(b), asked(c))).await;
        let sum = a.ok()?.wrapping_add(b.ok()?).wrapping_add(c.ok()?);
        *self.0.lock().ok()? = Some(wires);
        Some(sum)
    }
}

async fn asked(wire: &mut impl LocalWire) -> io::Result<u64> {
    wire.write_all(&QUESTION.to_le_bytes()).await?;
    let mut answer = [0; BYTES];
    wire.read_exact(&mut answer).await?;
    Ok(u64::from_le_bytes(answer))
}

/// Answers a request.
pub(crate) async fn answer<W: LocalWire>(
    request: Request<Incoming>,
    compute: impl Compute,
    asks: &Asks<W>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let path = request.uri().path();
    let body = match path.strip_prefix("/compute/").map(str::parse) {
        Some(Ok(rounds)) => Ok(Bytes::from(compute.compute(rounds).await.to_string())),
        None if path == "/" => Ok(Bytes::from_static(HELLO.as_bytes())),
        None if path == "/fan-out" => match asks.ask().await {
            Some(sum) => Ok(Bytes::from(sum.to_string())),
            None => Err(StatusCode::BAD_GATEWAY),
        },
        _ => Err(StatusCode::NOT_FOUND),
    };
    Ok(match body {
        Ok(body) => Response::new(Full::new(body)),
        Err(status) => {
            let mut response = Response::new(Full::default());
            *response.status_mut() = status;
            response
        }
    })
}

/// A chain of steps that depend on each other. None can run at the same time or be left out.
pub(crate) fn digest(rounds: u64) -> u64 {
    (0..rounds).fold(0x9E37_79B9_7F4A_7C15, |state: u64, round| {
        (state ^ round)
            .wrapping_mul(0xBF58_476D_1CE4_E5B9)
            .rotate_left(31)
    })
}
