//! tokio's multi-thread scheduler.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::{HttpPool, TaskPool, Tasks, listener, not_built};
use crate::error::LabError;
use crate::harness::record::Outcome;
use crate::workloads::http::answer::{Asks, Compute, Inline, answer, digest};
use crate::workloads::http::backend::Addresses;
use crate::workloads::{Program, Request};

/// The verbs of a tokio task.
#[derive(Clone, Copy)]
pub(super) struct Verbs;

/// A join handle whose output is the task's value; the task's panic is passed on.
pub(super) struct Handle<T>(JoinHandle<T>);

impl<T> Future for Handle<T> {
    type Output = T;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        Poll::Ready(ready!(Pin::new(&mut self.0).poll(context)).expect("a task of the workload panicked"))
    }
}

impl Tasks for Verbs {
    type Handle<T: Send + 'static> = Handle<T>;

    #[inline]
    fn spawn<T: Send + 'static>(self, future: impl Future<Output = T> + Send + 'static) -> Handle<T> {
        Handle(tokio::spawn(future))
    }

    #[inline]
    fn spawn_job<T: Send + 'static>(self, job: impl FnOnce() -> T + Send + 'static) -> Handle<T> {
        Handle(tokio::spawn(async move { job() }))
    }

    #[inline]
    fn launch(self, future: impl Future<Output = ()> + Send + 'static) {
        drop(tokio::spawn(future));
    }

    #[inline]
    fn launch_job(self, job: impl FnOnce() + Send + 'static) {
        drop(tokio::spawn(async move { job() }));
    }

    #[inline]
    fn yield_now(self) -> impl Future<Output = ()> + Send + 'static {
        tokio::task::yield_now()
    }
}

/// A runtime, seen from outside.
struct Pool(Runtime);

impl TaskPool for Pool {
    type Tasks = Verbs;

    fn tasks(&self) -> Verbs {
        Verbs
    }

    fn start(&self, root: impl Future<Output = ()> + Send + 'static) {
        drop(self.0.spawn(root));
    }

    fn submit<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> Handle<T> {
        Handle(self.0.spawn(async move { job() }))
    }

    fn submit_and_forget(&self, job: impl FnOnce() + Send + 'static) {
        drop(self.0.spawn(async move { job() }));
    }

    fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.0.block_on(future)
    }
}

/// A server, whose handler computes here or elsewhere.
struct Server<C> {
    runtime: Runtime,
    compute: C,
}

impl<C: Compute + Sync> HttpPool for Server<C> {
    fn serve(&self, backends: Option<Addresses>) -> io::Result<SocketAddr> {
        let (listener, address) = listener()?;
        let _context = self.runtime.enter();
        let listener = TcpListener::from_std(listener)?;
        let compute = self.compute.clone();
        self.runtime.spawn(async move {
            // The listener's own errors end it, and the clients find that out.
            while let Ok((stream, _)) = listener.accept().await {
                let compute = compute.clone();
                tokio::spawn(async move {
                    // A connection that ends early is its client's error to report.
                    let _ = stream.set_nodelay(true);
                    let Ok(asks) = Asks::connect(backends, TcpStream::connect).await else {
                        return;
                    };
                    let handler = service_fn(|request| answer(request, compute.clone(), &asks));
                    let _ = http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), handler)
                        .await;
                });
            }
        });
        Ok(address)
    }
}

/// On rayon's threads; the task waits for the answer in a channel.
#[derive(Clone)]
struct OnRayon(Arc<rayon::ThreadPool>);

impl Compute for OnRayon {
    async fn compute(&self, rounds: u64) -> u64 {
        let (sender, receiver) = oneshot::channel();
        self.0.spawn(move || {
            // If the connection is gone nobody wants it.
            let _ = sender.send(digest(rounds));
        });
        receiver.await.expect("rayon runs what it is given")
    }
}

/// Runs a request on a fresh tokio runtime.
pub(super) fn run(request: &Request, program: &Program) -> Result<Outcome, LabError> {
    let mut builder = builder(request);
    match program {
        Program::Http(_) => program.run_http(&Server {
            runtime: built(builder.enable_io(), request)?,
            compute: Inline,
        }),
        Program::Pingpong(_) | Program::Lock(_) => program.run_waits(&Pool(built(&mut builder, request)?)),
        Program::App(_) => program.run_apps(&Pool(built(&mut builder, request)?)),
        Program::Micro(_) => program.run_parks(&Pool(built(&mut builder, request)?)),
        Program::Timers(_) => program.run_timers(&Pool(built(builder.enable_time(), request)?)),
        Program::PacketBimodal(plan) if plan.waits() => {
            program.run_timers(&Pool(built(builder.enable_time(), request)?))
        }
        _ => program.run_tasks(&Pool(built(&mut builder, request)?)),
    }
}

/// Runs a request on a fresh tokio runtime and a fresh pool of rayon's.
pub(super) fn run_with_rayon(request: &Request, program: &Program) -> Result<Outcome, LabError> {
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(request.workers)
        .build()
        .map_err(|error| not_built(request, &error))?;
    program.run_http(&Server {
        runtime: built(builder(request).enable_io(), request)?,
        compute: OnRayon(Arc::new(pool)),
    })
}

fn builder(request: &Request) -> Builder {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(request.workers);
    builder
}

fn built(builder: &mut Builder, request: &Request) -> Result<Runtime, LabError> {
    builder.build().map_err(|error| not_built(request, &error))
}
