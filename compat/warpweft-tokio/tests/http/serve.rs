//! A server that can be stopped gracefully: requests under way are answered, idle connections are closed,
//! and no further connection is accepted.

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;
use warpweft::net::{TcpListener, TcpStream};
use warpweft::sync::{channel, watch};
use warpweft::time::sleep;
use warpweft_tokio::{Io, WarpweftTimer};

/// A client that takes longer for the head of a request is let go.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a handler gives.
pub(crate) type Answer = Result<Response<Full<Bytes>>, Infallible>;

/// A server under way. Dropping it lets it run on.
pub(crate) struct Server {
    address: SocketAddr,
    stop: watch::Sender<()>,
    /// Closed when the last connection has ended: each has a sender.
    ended: channel::Receiver<()>,
}

impl Server {
    /// Listens at `address`, in the pool of the calling task. `handler` runs once per request, in the task of
    /// its connection.
    pub(crate) fn start<H, F>(address: SocketAddr, handler: H) -> io::Result<Self>
    where
        H: Fn(Request<Incoming>) -> F + Clone + Send + 'static,
        F: Future<Output = Answer> + Send + 'static,
    {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        let (stop, stopped) = watch::channel(());
        let (alive, ended) = channel::bounded(1);
        warpweft::spawn(accept(listener, handler, stopped, alive)).detach();
        Ok(Self { address, stop, ended })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Accepts no more connections, and waits for the requests that are under way.
    pub(crate) async fn stop(self) {
        drop(self.stop);
        // Nothing is ever sent: this is the news that all senders are gone.
        let _ = self.ended.recv().await;
    }
}

async fn accept<H, F>(
    listener: TcpListener,
    handler: H,
    mut stopped: watch::Receiver<()>,
    alive: channel::Sender<()>,
) where
    H: Fn(Request<Incoming>) -> F + Clone + Send + 'static,
    F: Future<Output = Answer> + Send + 'static,
{
    let connections = stopped.clone();
    let mut stopped = pin!(stopped.changed());
    loop {
        let mut arrival = pin!(listener.accept());
        let arrival = poll_fn(|cx| {
            if stopped.as_mut().poll(cx).is_ready() {
                return std::task::Poll::Ready(None);
            }
            arrival.as_mut().poll(cx).map(Some)
        });
        match arrival.await {
            None => return,
            Some(Ok((stream, peer))) => {
                let (handler, stopped, alive) = (handler.clone(), connections.clone(), alive.clone());
                warpweft::spawn(async move {
                    if let Err(error) = serve(stream, handler, stopped).await {
                        eprintln!("{peer}: {error}");
                    }
                    drop(alive);
                })
                .detach();
            }
            Some(Err(error)) => {
                // Perhaps there is no descriptor left: some client will leave.
                eprintln!("accept: {error}");
                sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn serve<H, F>(stream: TcpStream, handler: H, mut stopped: watch::Receiver<()>) -> hyper::Result<()>
where
    H: Fn(Request<Incoming>) -> F,
    F: Future<Output = Answer>,
{
    // An answer is written at once, whatever the peer has acknowledged. If that fails the connection is gone,
    // and says so below.
    let _ = stream.set_nodelay(true);
    let connection = http1::Builder::new()
        .timer(WarpweftTimer::new())
        .header_read_timeout(PATIENCE)
        .half_close(true)
        .serve_connection(Io::socket(stream), service_fn(handler));
    let mut connection = pin!(connection);
    let mut stopped = pin!(stopped.changed());
    let mut told = false;
    poll_fn(|cx| {
        if !told && stopped.as_mut().poll(cx).is_ready() {
            told = true;
            connection.as_mut().graceful_shutdown();
        }
        connection.as_mut().poll(cx)
    })
    .await
}
