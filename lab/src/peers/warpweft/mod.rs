//! This project's runtime, under each of its policies.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use ::warpweft::net::{TcpListener, TcpStream};
use ::warpweft::{Builder, ForkCx, Io, JoinHandle, PoolCounters, Runtime, TaskBuilder};
use harness::{Counters, LabError, Outcome, Peer, PeerInfo, Policies, Request};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use serde_json::{Map, Value};
use warpweft_tokio::Io as HyperIo;

use super::Contestant;
use crate::idioms::forks::{Branch, Fork, ForkPool, ScopePool};
use crate::idioms::{HttpPool, Idiom, Joined, SpawnApi, TaskPool};
use crate::kit::answer::{Asks, Inline, answer};
use crate::kit::backends::Addresses;
use crate::kit::sockets::listener;
use crate::program::{Parts, Program, measured};

mod fibers;
mod loops;
mod policies;
mod pools;
mod waits;

use fibers::FiberPool;
use loops::LoopsOf;
use policies::{USUAL, one_policy};

/// This project's runtime.
pub(crate) struct Warpweft;

impl Peer for Warpweft {
    fn info(&self) -> PeerInfo {
        PeerInfo {
            name: "warpweft",
            about: "this runtime, under each of its policies",
            packages: &["warpweft"],
        }
    }

    fn policies(&self) -> Option<&dyn Policies> {
        Some(self)
    }
}

impl Contestant for Warpweft {
    fn lacks(&self, _: Idiom) -> Option<&'static str> {
        None
    }

    fn refusal(&self, request: &Request, _: Idiom, parts: Parts) -> Result<Option<String>, LabError> {
        match request.policy.as_deref() {
            Some(policy) if pools::are_several(policy) => pools::refusal(request, policy, parts),
            _ => Ok(None),
        }
    }

    fn play<P: Program>(&self, request: &Request, program: &P) -> Result<Outcome, LabError> {
        let policy = request.policy.as_deref().unwrap_or(USUAL);
        if pools::are_several(policy) {
            return pools::run(request, program, policy);
        }
        let runtime = runtime(request, policy)?;
        let count = || Some(counters(&runtime));
        let idiom = P::idiom(&request.params);
        if request.params.is("style", "fibers") {
            let pool = FiberPool(&runtime);
            return measured(program, count, |program| match idiom {
                Idiom::Waits => program.waits(&pool),
                Idiom::Actors => program.actors(&pool),
                Idiom::Parks => program.parks(&pool),
                _ => program.tasks(&pool),
            });
        }
        let forks = Forks {
            runtime: &runtime,
            free: request.params.is("form", "free"),
        };
        let pool = Pool(&runtime);
        measured(program, count, |program| match idiom {
            Idiom::Tasks | Idiom::Jobs => program.tasks(&pool),
            Idiom::Waits => program.waits(&pool),
            Idiom::Sleeps => program.sleeps(&pool),
            Idiom::Parks => program.parks(&pool),
            Idiom::Actors => program.actors(&pool),
            Idiom::Forks => program.forks(&forks),
            Idiom::Scope => program.scope(&pool),
            Idiom::Loops => program.loops(&LoopsOf(&runtime)),
            Idiom::Http => program.http(&pool),
            Idiom::Remote => program.remote(&pool),
            Idiom::Mixed => program.mixed(&pool),
        })
    }
}

/// The beginning of a pool, with or without a monitor that looks for stuck workers.
fn builder(request: &Request) -> Builder {
    let builder = Runtime::builder();
    if request.params.is("watch", "off") {
        builder.stuck_after(None)
    } else {
        builder
    }
}

/// A fresh runtime.
fn runtime(request: &Request, policy: &str) -> Result<Runtime, LabError> {
    let io = if request.params.is("io", "thread") {
        Io::Thread
    } else {
        Io::Inline
    };
    let builder = builder(request).workers(request.workers).name("bench").io(io);
    let runtime = builder.policy_spec(one_policy(policy)?).build();
    runtime.map_err(|error| request.failed(&error))
}

/// The calls of a task.
#[derive(Clone, Copy)]
pub(crate) struct Api;

/// A handle whose output is the task's value.
pub(crate) type Handle<T> = Joined<JoinHandle<T>>;

impl SpawnApi for Api {
    type Handle<T: Send + 'static> = Handle<T>;

    #[inline]
    fn spawn<T: Send + 'static>(self, future: impl Future<Output = T> + Send + 'static) -> Handle<T> {
        Joined(::warpweft::spawn(future))
    }

    #[inline]
    fn spawn_job<T: Send + 'static>(self, job: impl FnOnce() -> T + Send + 'static) -> Handle<T> {
        Joined(::warpweft::spawn_job(job))
    }

    #[inline]
    fn launch(self, future: impl Future<Output = ()> + Send + 'static) {
        drop(::warpweft::spawn(future));
    }

    #[inline]
    fn launch_job(self, job: impl FnOnce() + Send + 'static) {
        ::warpweft::spawn_detached(job);
    }

    #[inline]
    fn yield_now(self) -> impl Future<Output = ()> + Send + 'static {
        ::warpweft::yield_now()
    }
}

/// A runtime, seen from outside.
struct Pool<'a>(&'a Runtime);

impl TaskPool for Pool<'_> {
    type Tasks = Api;

    fn tasks(&self) -> Api {
        Api
    }

    fn start(&self, root: impl Future<Output = ()> + Send + 'static) {
        drop(self.0.spawn(root));
    }

    fn submit<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> Handle<T> {
        Joined(self.0.spawn_job(job))
    }

    fn submit_and_forget(&self, job: impl FnOnce() + Send + 'static) {
        TaskBuilder::new().on(self.0).spawn_detached(job);
    }

    fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.0.block_on(future)
    }

    fn counters(&self) -> Option<Counters> {
        Some(counters(self.0))
    }
}

/// A branch's way to fork: the context is handed down.
struct Handed<'a>(ForkCx<'a>);

impl Fork for Handed<'_> {
    #[inline]
    fn join<A: Branch, B: Branch>(&mut self, a: A, b: B) -> (A::Out, B::Out) {
        self.0.join(|cx| a.run(Handed(cx)), |cx| b.run(Handed(cx)))
    }
}

/// A branch's other way to fork: each join finds the worker by itself.
pub(crate) struct Free;

impl Fork for Free {
    #[inline]
    fn join<A: Branch, B: Branch>(&mut self, a: A, b: B) -> (A::Out, B::Out) {
        ::warpweft::join(|| a.run(Free), || b.run(Free))
    }
}

/// A runtime, seen by programs that fork in one of the two forms.
struct Forks<'a> {
    runtime: &'a Runtime,
    free: bool,
}

impl ForkPool for Forks<'_> {
    fn run<R: Branch>(&self, root: R) -> R::Out {
        if self.free {
            self.runtime.install(|_| root.run(Free)).expect(OPEN)
        } else {
            self.runtime.install(|cx| root.run(Handed(cx))).expect(OPEN)
        }
    }

    fn counters(&self) -> Option<Counters> {
        Some(counters(self.runtime))
    }
}

impl ScopePool for Pool<'_> {
    fn scope(&self, n: u64, job: impl Fn() + Copy + Send + Sync) -> Duration {
        let timed = self.0.install(|cx| {
            let start = Instant::now();
            cx.scope(|scope| {
                for _ in 0..n {
                    scope.spawn(move |_| job());
                }
            });
            start.elapsed()
        });
        timed.expect(OPEN)
    }

    fn counters(&self) -> Option<Counters> {
        Some(counters(self.0))
    }
}

impl HttpPool for Pool<'_> {
    fn serve(&self, backends: Option<Addresses>) -> io::Result<SocketAddr> {
        let (listener, address) = listener()?;
        self.0.block_on(async {
            let listener = TcpListener::from_std(listener)?;
            ::warpweft::spawn(async move {
                // The listener's own errors end it, and the clients find that out.
                while let Ok((stream, _)) = listener.accept().await {
                    let connection = async move {
                        // A connection that ends early is its client's error to report.
                        let _ = stream.set_nodelay(true);
                        let Ok(asks) = Asks::connect(backends, TcpStream::connect).await else {
                            return;
                        };
                        let handler = service_fn(|request| answer(request, Inline, &asks));
                        let _ = http1::Builder::new()
                            .serve_connection(HyperIo::socket(stream), handler)
                            .await;
                    };
                    ::warpweft::spawn(connection).detach();
                }
            })
            .detach();
            Ok(address)
        })
    }

    fn counters(&self) -> Option<Counters> {
        Some(counters(self.0))
    }
}

/// The runtime of a run is not shut down before the run has ended.
const OPEN: &str = "the runtime is open";

pub(crate) fn counters(runtime: &Runtime) -> Counters {
    counters_of(&runtime.counters())
}

/// The counters of a pool.
pub(crate) fn counters_of(counters: &PoolCounters) -> Counters {
    let read = |fields: &mut dyn Iterator<Item = (&'static str, u64)>| -> Map<String, Value> {
        fields
            .map(|(name, value)| (name.to_owned(), Value::from(value)))
            .collect()
    };
    Counters {
        total: read(&mut counters.total().fields()),
        workers: counters
            .workers
            .iter()
            .map(|worker| read(&mut worker.fields()))
            .collect(),
    }
}
