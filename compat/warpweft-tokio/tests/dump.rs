//! What is spawned, or waits, by each public function of this crate is in a dump of its runtime.
//!
//! The list of functions comes from the sources: a public one that takes a closure or a future, and has no
//! row, fails the test by its name.

use http_body_util::Empty;
use hyper::body::{Bytes, Incoming};
use hyper::rt::Executor as _;
use hyper::service::service_fn;
use hyper::{Request, Response};
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use warpweft::net::TcpListener;
use warpweft::sync::Semaphore;
use warpweft::{Dump, Runtime, TaskKind, WaitDump, WaitsFor};
use warpweft_tokio::{InTokioExt as _, TokioContext, WarpweftExecutor, serve, serve_hyper};

#[path = "../../../crates/warpweft/tests/support/eventually.rs"]
mod eventually;
#[path = "../../../crates/warpweft/tests/support/public_functions.rs"]
mod public_functions;
use eventually::eventually;

/// How many permits a task wants at the gate. No other object of this process has waiters for as many.
const WANTED: usize = 7002;

/// What holds the task of a case, until it is closed.
#[derive(Clone)]
struct Gate(Arc<Semaphore>);

impl Gate {
    async fn passed(self) {
        assert!(self.0.acquire(WANTED).await.is_err(), "it only closes");
    }

    async fn answer(self) -> Result<Response<Empty<Bytes>>, Infallible> {
        self.passed().await;
        Ok(Response::new(Empty::new()))
    }
}

/// A function, and what makes a task wait at the gate by it. The streams are those of its clients.
type Case = (&'static str, fn(&Runtime, Gate) -> Vec<TcpStream>);

const CASES: &[Case] = &[
    ("context::TokioContext::wrap", |runtime, gate| {
        let context = TokioContext::shared().expect("a thread");
        runtime.spawn(context.wrap(gate.passed())).detach();
        Vec::new()
    }),
    ("context::InTokioExt::in_tokio", |runtime, gate| {
        let future = gate.passed().in_tokio().expect("a thread");
        runtime.spawn(future).detach();
        Vec::new()
    }),
    ("rt::WarpweftExecutor::execute", |runtime, gate| {
        let execute = move || WarpweftExecutor::new().execute(gate.passed());
        runtime.spawn_job(execute).wait().expect("no panic");
        Vec::new()
    }),
    ("serve::Serve::with_graceful_shutdown", |runtime, gate| {
        let (listener, _) = listener(runtime);
        let service = tower::service_fn(|_: Request<Incoming>| async {
            Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new()))
        });
        let server = serve(listener, service).with_graceful_shutdown(gate.passed());
        runtime.spawn(server.into_future()).detach();
        Vec::new()
    }),
    ("serve::serve", |runtime, gate| {
        let (listener, address) = listener(runtime);
        let service = tower::service_fn(move |_: Request<Incoming>| gate.clone().answer());
        runtime.spawn(serve(listener, service).into_future()).detach();
        asked(address)
    }),
    ("serve::serve_hyper", |runtime, gate| {
        let (listener, address) = listener(runtime);
        let service = service_fn(move |_: Request<Incoming>| gate.clone().answer());
        let server = serve_hyper(listener, service);
        runtime.spawn(server.into_future()).detach();
        asked(address)
    }),
];

/// Functions in whose closure nothing of the program waits.
const NO_CASES: &[(&str, &str)] = &[
    ("io::Io::socket", "its `Stream` is a socket"),
    ("serve::Serve::configure", "it changes settings"),
    ("serve::Serve::on_error", "a hook"),
];

/// Functions without a bound by which the sources show that they take code.
const NOT_SEEN: &[&str] = &[
    "context::InTokioExt::in_tokio",
    "rt::WarpweftExecutor::execute",
    "serve::serve",
    "serve::serve_hyper",
];

fn listener(runtime: &Runtime) -> (TcpListener, SocketAddr) {
    let listener = runtime.block_on(async { TcpListener::bind(([127, 0, 0, 1], 0)) });
    let listener = listener.expect("a port");
    let address = listener.local_addr().expect("an address");
    (listener, address)
}

/// A client that has sent a request.
fn asked(address: SocketAddr) -> Vec<TcpStream> {
    let mut stream = TcpStream::connect(address).expect("a server");
    let request = b"GET / HTTP/1.1\r\nhost: test\r\n\r\n";
    stream.write_all(request).expect("it is sent");
    vec![stream]
}

#[test]
fn each_function_that_takes_code_has_a_case() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = public_functions::that_take_code(&sources);
    found.extend(NOT_SEEN.iter().map(|&name| String::from(name)));
    let cases = CASES.iter().map(|case| case.0);
    let known = cases.chain(NO_CASES.iter().map(|&(name, _)| name));
    let known: BTreeSet<String> = known.map(String::from).collect();
    assert_eq!(found, known);
}

#[test]
fn what_waits_by_each_function_is_in_the_dump() {
    let waits = |wait: &WaitDump| matches!(wait.on, WaitsFor::Permits { wanted: WANTED, .. });
    for (name, make) in CASES {
        let runtime = Runtime::builder().workers(2).name("main").build();
        let runtime = runtime.expect("a runtime");
        let gate = Gate(Arc::new(Semaphore::new(0)));
        let clients = make(&runtime, gate.clone());
        let is_there = |dump: &Dump| {
            let mut tasks = dump.tasks.iter();
            tasks.any(|task| {
                let is_known = task.pool.as_deref() == Some("main") && task.spawned_at.is_some();
                is_known && task.kind == Some(TaskKind::Future) && task.waits.iter().any(waits)
            })
        };
        eventually(name, || is_there(&runtime.dump()));
        gate.0.close();
        drop(clients);
    }
}
