//! This project's runtime, under each of its policies.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use ::warpweft::net::{TcpListener, TcpStream};
use ::warpweft::{Builder, ForkCx, Io, JoinHandle, PolicySpec, PoolCounters, Preset, Runtime, TaskBuilder};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use serde_json::{Map, Value};
use warpweft_tokio::Io as HyperIo;

use super::forks::{Branch, Fork, ForkPool, ScopePool};
use super::mixed::warpweft::OnePool;
use super::remote::warpweft::Hiding;
use super::waits::FiberPool;
use super::{HttpPool, TaskPool, Tasks, listener, not_built, pools};
use crate::error::LabError;
use crate::harness::record::{Counters, Outcome};
use crate::workloads::http::answer::{Asks, Inline, answer};
use crate::workloads::http::backend::Addresses;
use crate::workloads::{Program, Request};

/// The policy that is taken when none is named.
pub(crate) fn default_policy() -> String {
    String::from("fifo")
}

/// The policies that are explored if none are named: those that differ most, and the one that learns, to be
/// judged against them.
pub(crate) fn explored_policies() -> Vec<String> {
    ["fifo", "lifo", "fifo-one", "deque", "fifo-locked", "adaptive"]
        .map(str::to_owned)
        .to_vec()
}

/// The policies that are compared if none are named: the default, and the schedulers of others.
pub(crate) fn compared_policies(quick: bool) -> Vec<String> {
    let policies: &[&str] = if quick {
        &["fifo", "cforall", "negele"]
    } else {
        &[
            "fifo",
            "lifo",
            "cforall",
            "negele",
            "negele-local",
            "go",
            "tokio",
            "libfibre",
        ]
    };
    policies.iter().map(|policy| (*policy).to_owned()).collect()
}

/// The policies that have names.
pub(crate) fn preset_policies() -> &'static [Preset] {
    PolicySpec::presets()
}

/// Checks the text of a policy; the error says where it is wrong and which words are right.
pub(crate) fn check_policy(text: &str) -> Result<(), LabError> {
    if pools::are_several(text) {
        return pools::check(text);
    }
    one_policy(text).map(|_| ())
}

/// The policy of one pool.
pub(super) fn one_policy(text: &str) -> Result<PolicySpec, LabError> {
    text.parse()
        .map_err(|error: ::warpweft::ParsePolicyError| LabError::Usage(error.to_string()))
}

/// How policies are written.
pub(crate) fn policy_grammar() -> &'static str {
    "POLICY = a name or an order (fifo | chain | lifo | slot:N | alternate:N | stochastic:N | reverse:N | adaptive:N | priority:N), then any of +steal=one|half|atleast:K|adaptive +victims=random|nearest:N|topology|adaptive \
     +help=none|shed|shed-sticky|tickets +overflow=grow|retry:N|locked|lockfree|multi:K +capacity=N +yield=local|global \
     +woken=waker|last +rebalance=off|N; for packet-bimodal and mixer also staged:POLICY/POLICY or staged:POLICY/POLICY/POLICY, pools one behind the other (each \
     POLICY@N for N workers); for mixer also silos:N:POLICY, pools side by side"
}

/// The verbs of a task.
#[derive(Clone, Copy)]
pub(super) struct Verbs;

/// A join handle whose output is the task's value; the task's panic is passed on.
pub(crate) struct Handle<T>(pub(super) JoinHandle<T>);

impl<T: Send + 'static> Future for Handle<T> {
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
        Handle(::warpweft::spawn(future))
    }

    #[inline]
    fn spawn_job<T: Send + 'static>(self, job: impl FnOnce() -> T + Send + 'static) -> Handle<T> {
        Handle(::warpweft::spawn_job(job))
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
        Handle(self.0.spawn_job(job))
    }

    fn submit_and_forget(&self, job: impl FnOnce() + Send + 'static) {
        TaskBuilder::new().on(&self.0).spawn_detached(job);
    }

    fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.0.block_on(future)
    }

    fn counters(&self) -> Option<Counters> {
        Some(counters(&self.0))
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
pub(super) struct Free;

impl Fork for Free {
    #[inline]
    fn join<A: Branch, B: Branch>(&mut self, a: A, b: B) -> (A::Out, B::Out) {
        ::warpweft::join(|| a.run(Free), || b.run(Free))
    }
}

/// A runtime, seen by programs that fork in one of the two forms.
struct Forks {
    runtime: Runtime,
    free: bool,
}

impl ForkPool for Forks {
    fn run<R: Branch>(&self, root: R) -> R::Out {
        if self.free {
            self.runtime.install(|_| root.run(Free)).expect(OPEN)
        } else {
            self.runtime.install(|cx| root.run(Handed(cx))).expect(OPEN)
        }
    }

    fn counters(&self) -> Option<Counters> {
        Some(counters(&self.runtime))
    }
}

impl ScopePool for Pool {
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
        Some(counters(&self.0))
    }
}

impl HttpPool for Pool {
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
                            .serve_connection(HyperIo::vectored(stream), handler)
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
        Some(counters(&self.0))
    }
}

/// Nobody shuts the runtime of a run down before it has ended.
const OPEN: &str = "the runtime is open";

pub(super) fn counters(runtime: &Runtime) -> Counters {
    counters_of(&runtime.counters())
}

/// The counters of a pool.
pub(super) fn counters_of(counters: &PoolCounters) -> Counters {
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

/// The beginning of a pool, with or without somebody who looks for stuck workers.
pub(super) fn builder(request: &Request) -> Builder {
    let builder = Runtime::builder();
    if request.params.is("watch", "off") {
        builder.stuck_after(None)
    } else {
        builder
    }
}

/// Runs a request on a fresh runtime.
pub(super) fn run(request: &Request, program: &Program) -> Result<Outcome, LabError> {
    let policy = request.policy.clone().unwrap_or_else(default_policy);
    if pools::are_several(&policy) {
        return pools::run(request, program, &policy);
    }
    let policy = one_policy(&policy)?;
    let asked = |name, word| request.params.is(name, word);
    let runtime = builder(request)
        .workers(request.workers)
        .policy_spec(policy)
        .name("bench")
        .io(if asked("io", "thread") {
            Io::Thread
        } else {
            Io::Inline
        })
        .build()
        .map_err(|error| not_built(request, &error))?;
    match program {
        Program::ForkJoin(_) => {
            let free = request.params.word("form") == "free";
            program.run_forks(&Forks { runtime, free })
        }
        Program::Scope(_) => program.run_scope(&Pool(runtime)),
        Program::Http(_) => program.run_http(&Pool(runtime)),
        Program::Pingpong(_) | Program::Lock(_) if asked("style", "fibers") => {
            program.run_waits(&FiberPool(runtime))
        }
        Program::Mixer(_) if asked("style", "fibers") => program.run_tasks(&FiberPool(runtime)),
        Program::Pingpong(_) | Program::Lock(_) => program.run_waits(&Pool(runtime)),
        Program::App(_) if asked("style", "fibers") => program.run_apps(&FiberPool(runtime)),
        Program::App(_) => program.run_apps(&Pool(runtime)),
        Program::Micro(_) if asked("style", "fibers") => program.run_parks(&FiberPool(runtime)),
        Program::Micro(_) => program.run_parks(&Pool(runtime)),
        Program::Timers(_) => program.run_timers(&Pool(runtime)),
        Program::PacketBimodal(plan) if plan.waits() => program.run_timers(&Pool(runtime)),
        Program::Mixed(_) => program.run_mixed(&OnePool(runtime)),
        Program::MapReduce(_) | Program::Sweep(_) => program.run_remote(&Hiding(runtime)),
        _ => program.run_tasks(&Pool(runtime)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_and_all_presets_are_policies() {
        check_policy(&default_policy()).unwrap();
        let presets = preset_policies();
        assert!(presets.len() >= 4, "{presets:?}");
        for preset in presets {
            check_policy(preset.name()).unwrap();
            assert!(!preset.about().is_empty() && !preset.source().is_empty());
        }
        for name in explored_policies()
            .into_iter()
            .chain(compared_policies(false))
            .chain(compared_policies(true))
        {
            assert!(presets.iter().any(|preset| preset.name() == name), "{name}");
        }
    }

    #[test]
    fn the_grammar_is_the_one_that_is_understood() {
        let text = policy_grammar()
            .replace(":K", ":4")
            .replace(":N", ":4")
            .replace("=N", "=64")
            .replace("|N", "|64");
        let (orders, options) = text.split_once("), then any of ").unwrap();
        let (options, _) = options.split_once("; for packet-bimodal").unwrap();
        let (_, orders) = orders.split_once('(').unwrap();
        for order in orders.split(" | ") {
            check_policy(order).unwrap();
        }
        let mut understood = 0;
        for option in options.split(" +") {
            let (name, values) = option.trim_start_matches('+').split_once('=').unwrap();
            for value in values.split('|') {
                check_policy(&format!("fifo+{name}={value}")).unwrap();
                understood += 1;
            }
        }
        assert!(understood >= 8, "{understood} of {options}");
    }

    #[test]
    fn a_wrong_policy_is_told_what_would_be_right() {
        let text = check_policy("lifo+stael=one").unwrap_err().to_string();
        assert!(text.contains("steal="), "{text}");
    }
}
