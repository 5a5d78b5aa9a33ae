//! One connection of a server, and how it learns of the server's end.
//!
//! # Invariants
//!
//! - A connection holds a sender of `alive`. The server has ended when all of them are dropped, also by a
//!   panic.
//! - A connection registers for the end once. From then on it reads one flag per poll, and no lock.

use super::{BoxError, Peer};
use crate::rt::WarpweftExecutor;
use hyper::body::{Body, Incoming};
use hyper::service::Service as HyperService;
use hyper::{Request, Response};
use hyper_util::server::conn::auto;
use std::error::Error;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use warpweft::sync::{channel, watch};
use warpweft::time::{Sleep, sleep};
use warpweft_platform::atomic::{AtomicBool, Ordering};

/// The end of a server, for its connections.
#[derive(Clone)]
pub(super) struct Ending {
    has_come: Arc<AtomicBool>,
    told: watch::Receiver<()>,
    /// Nothing is ever sent: it says that the connection lives.
    _alive: channel::Sender<()>,
}

/// Its drop asks all connections to end.
pub(super) struct EndOnDrop {
    has_come: Arc<AtomicBool>,
    /// Dropped after the flag was set.
    _tell: watch::Sender<()>,
}

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        // Release: the lock of the channel, which is dropped next, orders it before each wake-up.
        self.has_come.store(true, Ordering::Release);
    }
}

/// Returns what tells connections of the end, what each of them holds, and what closes when all have ended.
pub(super) fn ending() -> (EndOnDrop, Ending, channel::Receiver<()>) {
    let (tell, told) = watch::channel(());
    let (alive, ended) = channel::bounded(1);
    let has_come = Arc::new(AtomicBool::new(false));
    let end = EndOnDrop {
        has_come: Arc::clone(&has_come),
        _tell: tell,
    };
    let ending = Ending {
        has_come,
        told,
        _alive: alive,
    };
    (end, ending, ended)
}

/// The time in which the first request must come.
pub(super) struct FirstRequest {
    limit: Sleep,
    has_come: Arc<AtomicBool>,
}

/// What the service sets at its first call.
pub(super) struct Asks(Arc<AtomicBool>);

/// Returns the limit for a connection that begins now, and what its service has.
pub(super) fn first_request(within: Duration) -> (FirstRequest, Asks) {
    let has_come = Arc::new(AtomicBool::new(false));
    let first = FirstRequest {
        limit: sleep(within),
        has_come: Arc::clone(&has_come),
    };
    (first, Asks(has_come))
}

impl FirstRequest {
    /// Returns true if the time is over and there was no request; false if there was one.
    fn poll_late(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        // Relaxed: the service is called by the task that reads it.
        if self.has_come.load(Ordering::Relaxed) {
            return Poll::Ready(false);
        }
        Pin::new(&mut self.limit).poll(cx).map(|()| true)
    }
}

/// Serves one connection. When the server ends, it answers the request under way and closes. So it does if no
/// request comes in time.
pub(super) async fn serve_connection<I, S, B>(
    http: &auto::Builder<WarpweftExecutor>,
    io: I,
    service: S,
    first: FirstRequest,
    mut ending: Ending,
) -> Result<(), BoxError>
where
    I: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
    S: HyperService<Request<Incoming>, Response = Response<B>> + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    let mut connection = pin!(http.serve_connection_with_upgrades(io, service));
    let has_come = Arc::clone(&ending.has_come);
    let mut told = pin!(ending.told.changed());
    let (mut registered, mut ends) = (false, false);
    let mut first = Some(first);
    poll_fn(|cx| {
        if let Some(limit) = &mut first
            && let Poll::Ready(is_late) = limit.poll_late(cx)
        {
            first = None;
            if is_late && !ends {
                ends = true;
                connection.as_mut().graceful_shutdown();
            }
        }
        if !ends {
            // The waker of this task never changes, so it is registered once.
            ends = if registered {
                // Acquire: pairs with the store, so that what the end of the server has done is seen.
                has_come.load(Ordering::Acquire)
            } else {
                registered = true;
                told.as_mut().poll(cx).is_ready()
            };
            if ends {
                // A client may have asked already, unseen so far: that is read first.
                if let Poll::Ready(end) = connection.as_mut().poll(cx) {
                    return Poll::Ready(end.map_err(Some));
                }
                connection.as_mut().graceful_shutdown();
            }
        }
        // A client that has said nothing is told by hyper that its connection is cancelled: this is the end
        // that was asked for.
        connection.as_mut().poll(cx).map_err(|error| {
            let was_cancelled = ends && is_interrupted(&*error);
            (!was_cancelled).then_some(error)
        })
    })
    .await
    .or_else(|error| error.map_or(Ok(()), Err))
}

fn is_interrupted(error: &(dyn Error + 'static)) -> bool {
    let error = error.downcast_ref::<io::Error>();
    error.is_some_and(|error| error.kind() == io::ErrorKind::Interrupted)
}

/// Adds the peer to each request, and notes that there was one.
pub(super) struct WithPeer<S, A> {
    service: S,
    peer: Peer<A>,
    asks: Asks,
}

impl<S, A> WithPeer<S, A> {
    pub(super) fn new(service: S, peer: Peer<A>, asks: Asks) -> Self {
        Self { service, peer, asks }
    }
}

impl<S, A> HyperService<Request<Incoming>> for WithPeer<S, A>
where
    S: HyperService<Request<Incoming>>,
    A: Clone + Send + Sync + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn call(&self, mut request: Request<Incoming>) -> S::Future {
        self.asks.0.store(true, Ordering::Relaxed);
        request.extensions_mut().insert(self.peer.clone());
        self.service.call(request)
    }
}

#[cfg(test)]
mod tests {
    use super::{ending, first_request, serve_connection};
    use crate::{FromTokio, Io, WarpweftExecutor};
    use bytes::Bytes;
    use http_body_util::Full;
    use hyper::Response;
    use hyper::service::service_fn;
    use hyper_util::server::conn::auto;
    use std::convert::Infallible;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};
    use std::time::Duration;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    /// The second request and the end come between two polls, so the connection learns of both at once.
    #[test]
    fn a_request_that_comes_with_the_end_is_answered() {
        let (end, ending, _ended) = ending();
        let (mut client, io) = tokio::io::duplex(1 << 10);
        let service =
            service_fn(|_| async { Ok::<_, Infallible>(Response::new(Full::new(Bytes::from("hello")))) });
        let http = auto::Builder::new(WarpweftExecutor::new());
        let mut connection = pin!(serve_connection(
            &http,
            Io::new(FromTokio::new(io)),
            service,
            first_request(Duration::MAX).0,
            ending
        ));
        let mut cx = Context::from_waker(Waker::noop());
        let mut end = Some(end);
        for is_last in [false, true] {
            let request = b"GET / HTTP/1.1\r\nHost: here\r\n\r\n";
            assert!(pin!(client.write_all(request)).poll(&mut cx).is_ready());
            if is_last {
                drop(end.take());
            }
            assert_eq!(connection.as_mut().poll(&mut cx).is_ready(), is_last);
            let mut bytes = [0; 512];
            let mut text = String::new();
            if let Poll::Ready(Ok(read)) = pin!(client.read(&mut bytes)).poll(&mut cx) {
                text = String::from_utf8_lossy(&bytes[..read]).into_owned();
            }
            assert!(text.ends_with("hello"), "{text:?}");
        }
    }
}
