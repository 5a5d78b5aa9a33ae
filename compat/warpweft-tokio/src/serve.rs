//! Servers for services of tower and of hyper: each connection is a task of the pool.
//!
//! `connection` serves one of them.

mod connection;

use crate::admission::Admitting;
use crate::connection_timer::ConnectionTimer;
use crate::listener::Listener;
use crate::rt::{WarpweftExecutor, WarpweftTimer};
use hyper::body::{Body, Incoming};
use hyper::service::Service as HyperService;
use hyper::{Request, Response};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use std::error::Error;
use std::fmt;
use std::future::{Pending, pending, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use warpweft::AdmissionControl;
use warpweft::io::os_error;
use warpweft::time::sleep;

/// How long the server pauses after an error of `accept` that may pass, such as a lack of descriptors.
const PAUSE: Duration = Duration::from_millis(100);
/// How long the end of a server waits for one look at the poller.
const LOOK: Duration = Duration::from_millis(1);
/// A client that takes longer for the head of its request, or for its first request, is disconnected.
const PATIENCE: Duration = Duration::from_secs(30);

type BoxError = Box<dyn Error + Send + Sync>;
type OnError<A> = Arc<dyn Fn(&ServeError<A>) + Send + Sync>;

/// Serves HTTP/1 and HTTP/2 with a service of tower: an axum `Router`, the routes of tonic, or a stack of
/// layers. Each connection is a task of the pool in which the result is awaited, or of the [default
/// runtime](warpweft::default_runtime) outside of any pool.
///
/// The protocol is chosen by the first bytes of the client. Connections are kept alive, and may be upgraded
/// to WebSocket; the transport of one is got back by `hyper_util::server::conn::auto::upgrade::downcast`. A
/// panic in a handler ends its connection, and on HTTP/2 its stream. Each request has the [`Peer`] in its
/// extensions.
///
/// Handlers run on the pool's workers, so they may [`join`](warpweft::join) and wait in direct style. If they
/// use crates that need tokio, the pool needs [`tokio_context`](crate::BuilderExt::tokio_context).
///
/// A client that takes 30 seconds for the head of a request of HTTP/1 is disconnected; [`Serve::configure`]
/// changes that. So is one that has not made its first request 30 seconds after it has connected: see
/// [`Serve::first_request_within`].
///
/// # Errors
///
/// `accept` fails for a reason that does not pass, such as that the runtime shuts down. Other errors are told
/// to [`Serve::on_error`]. After one of these that is not about a single connection, the server pauses for
/// 100 ms, and continues.
///
/// ```
/// use bytes::Bytes;
/// use http_body_util::Full;
/// use hyper::{Request, Response, body::Incoming};
/// use std::convert::Infallible;
/// use warpweft::net::TcpListener;
/// use warpweft::sync::oneshot;
///
/// // In place of an axum `Router`.
/// let service = tower::service_fn(|_: Request<Incoming>| async {
///     Ok::<_, Infallible>(Response::new(Full::new(Bytes::from("hello"))))
/// });
/// let runtime = warpweft::Runtime::builder().workers(1).build()?;
/// let (stop, stopped) = oneshot::channel::<()>();
/// let server = async move {
///     let listener = TcpListener::bind(([127, 0, 0, 1], 0))?;
///     warpweft_tokio::serve(listener, service)
///         .with_graceful_shutdown(async {
///             let _ = stopped.await;
///         })
///         .await
/// };
/// let server = runtime.spawn(server);
/// drop(stop);
/// server.wait()??;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn serve<L, S>(listener: L, service: S) -> Serve<L, TowerToHyperService<S>>
where
    L: Listener,
{
    serve_hyper(listener, TowerToHyperService::new(service))
}

/// Serves HTTP/1 and HTTP/2 with a service of hyper, such as its `service_fn`: see [`serve`].
///
/// ```
/// use bytes::Bytes;
/// use http_body_util::Full;
/// use hyper::{Request, Response, body::Incoming, service::service_fn};
/// use std::convert::Infallible;
/// use warpweft::net::TcpListener;
///
/// async fn hello(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
///     Ok(Response::new(Full::from("hello")))
/// }
///
/// let runtime = warpweft::Runtime::builder().workers(1).build()?;
/// runtime.block_on(async {
///     let listener = TcpListener::bind(([127, 0, 0, 1], 0))?;
///     let stop = warpweft::time::sleep(std::time::Duration::from_millis(1));
///     warpweft_tokio::serve_hyper(listener, service_fn(hello)).with_graceful_shutdown(stop).await
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn serve_hyper<L, S>(listener: L, service: S) -> Serve<L, S>
where
    L: Listener,
{
    let executor = WarpweftExecutor::new();
    let mut http = auto::Builder::new(executor);
    http.http1().header_read_timeout(PATIENCE);
    http.http2().timer(WarpweftTimer::new());
    Serve {
        listener,
        service,
        http,
        first_within: PATIENCE,
        on_error: Arc::new(|_| ()),
        signal: pending(),
    }
}

/// The address of the client, in the extensions of each request: what the [`Listener`] says of it.
///
/// With axum it is the argument `Extension(Peer(address)): Extension<Peer<SocketAddr>>` of a handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Peer<A>(pub A);

/// What went wrong while a server continued.
#[derive(Debug)]
#[non_exhaustive]
pub enum ServeError<A> {
    /// A connection could not be accepted.
    Accept(io::Error),
    /// A connection ended by an error: mostly its client has gone.
    Connection {
        /// The address of the client.
        peer: A,
        /// What hyper says.
        source: BoxError,
    },
}

impl<A: fmt::Debug> fmt::Display for ServeError<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Accept(error) => write!(f, "no connection could be accepted: {error}"),
            Self::Connection { peer, source } => write!(f, "the connection of {peer:?}: {source}"),
        }
    }
}

impl<A: fmt::Debug> Error for ServeError<A> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Accept(error) => Some(error),
            Self::Connection { source, .. } => Some(&**source),
        }
    }
}

/// A server: awaiting it serves. Made by [`serve`] and [`serve_hyper`].
///
/// If its future is dropped, it accepts no more connections. Those that it has are answered what they have
/// asked, and closed.
#[must_use = "a server does nothing unless it is awaited"]
pub struct Serve<L: Listener, S, F = Pending<()>> {
    listener: L,
    service: S,
    http: auto::Builder<WarpweftExecutor>,
    first_within: Duration,
    on_error: OnError<L::Address>,
    signal: F,
}

impl<L: Listener, S, F> Serve<L, S, F> {
    /// Ends the server gracefully when `signal` is ready: it accepts no more connections, answers the
    /// requests that are under way, closes idle connections, and is ready when the last one has ended. What
    /// was in the socket of an accepted connection when `signal` became ready is under way, too: the server
    /// looks once more, which takes a millisecond. A server that is dropped does not look.
    ///
    /// It waits without a time limit; [`time::timeout`](warpweft::time::timeout) adds one. A connection that
    /// was upgraded has ended for the server.
    pub fn with_graceful_shutdown<G>(self, signal: G) -> Serve<L, S, G>
    where
        G: Future<Output = ()> + Send + 'static,
    {
        Serve {
            listener: self.listener,
            service: self.service,
            http: self.http,
            first_within: self.first_within,
            on_error: self.on_error,
            signal,
        }
    }

    /// Asks for admission before each request. One that would be answered too late gets the status 503 at
    /// once, with `retry-after` and without a body; the service is not called, and the request's body is not
    /// read.
    ///
    /// `admission` is that of the pool in which the server runs, perhaps of one priority. The handler of a
    /// request that is admitted [starts after others](warpweft::Admitted::start_after_others) that are ready.
    /// The time of this wait is what counts: see [`Builder::admission`](warpweft::Builder::admission). If it
    /// has taken more than twice the target, and others wait in time, the request is refused as well. What a
    /// handler waits for later does not count.
    ///
    /// ```
    /// # use warpweft::net::TcpListener;
    /// # let listener = TcpListener::bind(([127, 0, 0, 1], 0))?;
    /// # let service = ();
    /// use warpweft::{QueueDelay, Runtime};
    /// let runtime = Runtime::builder().workers(1).admission(QueueDelay::new()).build()?;
    /// let admission = runtime.first().admission().ok_or("the builder says so")?;
    /// let server = warpweft_tokio::serve(listener, service).admission(admission);
    /// # drop(server);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn admission(self, admission: AdmissionControl) -> Serve<L, Admitting<S>, F> {
        Serve {
            listener: self.listener,
            service: Admitting::new(self.service, admission),
            http: self.http,
            first_within: self.first_within,
            on_error: self.on_error,
            signal: self.signal,
        }
    }

    /// Changes hyper's settings: limits, time-outs, the protocols. Executor and timers are set already. Each
    /// connection gets a timer of its own for HTTP/1, also if another one is set here.
    ///
    /// ```
    /// # use warpweft::net::TcpListener;
    /// # let listener = TcpListener::bind(([127, 0, 0, 1], 0))?;
    /// # let service = ();
    /// use std::time::Duration;
    /// let server = warpweft_tokio::serve(listener, service).configure(|http| {
    ///     http.http1().header_read_timeout(Duration::from_secs(5));
    ///     http.http2().max_concurrent_streams(100);
    /// });
    /// # drop(server);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn configure(mut self, change: impl FnOnce(&mut auto::Builder<WarpweftExecutor>)) -> Self {
        change(&mut self.http);
        self
    }

    /// Sets how long a client may take from its connection to its first request; 30 seconds by default. After
    /// that, a connection on which too little was sent to tell its protocol is closed, and one of HTTP/2 is
    /// told to go away, which its client answers by a new one when it has a request. A head of HTTP/1 that
    /// has begun has the time-out of [`configure`](Self::configure). The end is no error for
    /// [`on_error`](Self::on_error).
    ///
    /// ```
    /// # use warpweft::net::TcpListener;
    /// # let listener = TcpListener::bind(([127, 0, 0, 1], 0))?;
    /// # let service = ();
    /// use std::time::Duration;
    /// let server = warpweft_tokio::serve(listener, service).first_request_within(Duration::from_secs(5));
    /// # drop(server);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn first_request_within(mut self, limit: Duration) -> Self {
        self.first_within = limit;
        self
    }

    /// Calls `report` with each error that does not end the server. The default is to ignore them.
    ///
    /// ```
    /// # use warpweft::net::TcpListener;
    /// # let listener = TcpListener::bind(([127, 0, 0, 1], 0))?;
    /// # let service = ();
    /// let server = warpweft_tokio::serve(listener, service).on_error(|error| eprintln!("{error}"));
    /// # drop(server);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn on_error(mut self, report: impl Fn(&ServeError<L::Address>) + Send + Sync + 'static) -> Self {
        self.on_error = Arc::new(report);
        self
    }
}

impl<L: Listener + fmt::Debug, S, F> fmt::Debug for Serve<L, S, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Serve")
            .field("listener", &self.listener)
            .finish_non_exhaustive()
    }
}

impl<L, S, F, B> IntoFuture for Serve<L, S, F>
where
    L: Listener,
    S: HyperService<Request<Incoming>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    F: Future<Output = ()> + Send + 'static,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    type Output = io::Result<()>;
    type IntoFuture = Pin<Box<dyn Future<Output = io::Result<()>> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(run(self))
    }
}

async fn run<L, S, F, B>(server: Serve<L, S, F>) -> io::Result<()>
where
    L: Listener,
    S: HyperService<Request<Incoming>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    F: Future<Output = ()> + Send + 'static,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    let Serve {
        mut listener,
        service,
        http,
        first_within,
        on_error,
        signal,
    } = server;
    let (end, ending, ended) = connection::ending();
    let mut signal = pin!(signal);
    let outcome = loop {
        match unless(signal.as_mut(), listener.accept()).await {
            None => break Ok(()),
            Some(Ok((io, peer))) => {
                let (first, asks) = connection::first_request(first_within);
                let service = connection::WithPeer::new(service.clone(), Peer(peer.clone()), asks);
                let (mut http, ending, on_error) = (http.clone(), ending.clone(), Arc::clone(&on_error));
                http.http1().timer(ConnectionTimer::new());
                let connection = async move {
                    if let Err(source) = connection::serve_connection(&http, io, service, first, ending).await
                    {
                        on_error(&ServeError::Connection { peer, source });
                    }
                };
                warpweft::spawn(connection).detach();
            }
            Some(Err(error)) => {
                let about = About::of(&error);
                if about == About::Listener {
                    break Err(error);
                }
                on_error(&ServeError::Accept(error));
                if about == About::System && unless(signal.as_mut(), sleep(PAUSE)).await.is_none() {
                    break Ok(());
                }
            }
        }
    };
    // The poller is looked at before a timer fires. So a connection whose client has asked by now reads that
    // before it ends.
    sleep(LOOK).await;
    drop((listener, end, ending));
    // An error: all senders are gone.
    let _ = ended.recv().await;
    outcome
}

/// Waits for `future`, or until `signal` is ready, which gives `None`.
async fn unless<F: Future>(mut signal: Pin<&mut impl Future>, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    poll_fn(|cx| match signal.as_mut().poll(cx) {
        Poll::Ready(_) => Poll::Ready(None),
        Poll::Pending => future.as_mut().poll(cx).map(Some),
    })
    .await
}

/// What an error of `accept` is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum About {
    /// One client, which has gone.
    Connection,
    /// A lack of descriptors or memory, or a network that is down: it may pass.
    System,
    /// The listener: no connection will come from it.
    Listener,
}

impl About {
    fn of(error: &io::Error) -> Self {
        use io::ErrorKind as Kind;
        match error.kind() {
            Kind::ConnectionAborted | Kind::ConnectionRefused | Kind::ConnectionReset | Kind::Interrupted => {
                Self::Connection
            }
            Kind::InvalidInput | Kind::NotConnected => Self::Listener,
            // What does not come from the system comes from a runtime that has shut down.
            _ if os_error(error).is_none() => Self::Listener,
            _ => Self::System,
        }
    }
}
