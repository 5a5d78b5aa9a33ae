//! axum with its usual layers: on `warpweft_tokio::serve`, and on `axum::serve`.

use ::axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use ::axum::extract::{Extension, Path, Request, State};
use ::axum::http::{StatusCode, header};
use ::axum::middleware::{Next, from_fn};
use ::axum::response::Response;
use ::axum::routing::{get, post};
use ::axum::{Json, Router};
use futures_util::{SinkExt as _, StreamExt as _};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio_tungstenite::tungstenite;
use tower_http::compression::CompressionLayer;
use tower_http::timeout::TimeoutLayer;
use tower_http::trace::TraceLayer;
use warpweft::net::{TcpListener, TcpStream};
use warpweft::sync::oneshot;
use warpweft_ecosystem::{Error, in_the_pool, on_a_worker, on_pools};
use warpweft_tokio::{Io, Peer, serve};

fn fib(n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let (a, b) = warpweft::join(|| fib(n - 1), || fib(n - 2));
    a + b
}

async fn compute(Path(n): Path<u64>) -> String {
    format!("{}", fib(n))
}

async fn peer(Extension(Peer(address)): Extension<Peer<SocketAddr>>) -> String {
    address.to_string()
}

async fn sum(Json(numbers): Json<Vec<u64>>) -> Json<u64> {
    // A timer of tokio, and a wait in direct style.
    tokio::time::sleep(Duration::from_millis(1)).await;
    let job = warpweft::spawn_job(move || numbers.iter().sum());
    Json(job.wait().expect("no panic"))
}

async fn slow() -> &'static str {
    std::future::pending().await
}

async fn panics() -> &'static str {
    panic!("on purpose")
}

async fn large() -> String {
    "weft ".repeat(10_000)
}

async fn chat(upgrade: WebSocketUpgrade) -> Response {
    upgrade.on_upgrade(|mut socket: WebSocket| async move {
        while let Some(Ok(message)) = socket.recv().await {
            // axum gives this to `tokio::spawn`.
            in_the_pool().await;
            if let Message::Text(text) = message {
                let back = Message::Text(format!("{text}!").into());
                if socket.send(back).await.is_err() {
                    return;
                }
            }
        }
    })
}

fn router() -> Router {
    Router::new()
        .route("/fib/{n}", get(compute))
        .route("/peer", get(peer))
        .route("/sum", post(sum))
        .route("/slow", get(slow))
        .route("/panic", get(panics))
        .route("/large", get(large))
        .route("/chat", get(chat))
        .layer(TimeoutLayer::with_status_code(
            StatusCode::REQUEST_TIMEOUT,
            // Only `/slow` waits for it, which never ends. All others end before, on a busy machine too.
            Duration::from_secs(3),
        ))
        .layer(CompressionLayer::new())
        .layer(TraceLayer::new_for_http())
}

/// What both servers must answer.
async fn ask(address: SocketAddr) -> Result<(), Error> {
    let client = reqwest::Client::new();
    let url = |path: &str| format!("http://{address}{path}");
    let asking: Vec<_> = (0..4)
        .map(|_| {
            let (client, sum, large) = (client.clone(), url("/sum"), url("/large"));
            warpweft::spawn(async move {
                for n in 1..5_u64 {
                    let numbers: Vec<_> = (0..=n).collect();
                    let answer: u64 = client.post(&sum).json(&numbers).send().await?.json().await?;
                    assert_eq!(answer, n * (n + 1) / 2);
                }
                let large = client
                    .get(&large)
                    .header(header::ACCEPT_ENCODING, "gzip")
                    .send()
                    .await?;
                assert_eq!(large.headers()[header::CONTENT_ENCODING], "gzip");
                assert!(large.bytes().await?.len() < 5_000, "it is compressed");
                Ok::<_, Error>(())
            })
        })
        .collect();
    for asked in asking {
        asked.await.expect("no panic")?;
    }
    assert_eq!(
        client.get(url("/slow")).send().await?.status(),
        StatusCode::REQUEST_TIMEOUT
    );
    assert_eq!(
        client.get(url("/none")).send().await?.status(),
        StatusCode::NOT_FOUND
    );
    assert!(client.get(url("/panic")).send().await.is_err());

    let stream = Io::socket(TcpStream::connect(address).await?);
    let (mut socket, _) = tokio_tungstenite::client_async(format!("ws://{address}/chat"), stream).await?;
    for text in ["warp", "weft"] {
        socket.send(tungstenite::Message::text(text)).await?;
        let back = socket.next().await.ok_or("the server has closed")??;
        assert_eq!(back.into_text()?.as_str(), format!("{text}!"));
    }
    socket.close(None).await?;
    Ok(())
}

/// On `serve` each handler is called by a task on a worker.
async fn check_worker(request: Request, next: Next) -> Response {
    on_a_worker().await;
    next.run(request).await
}

/// On `axum::serve` connections are tasks of `tokio::spawn`.
async fn check_pool(request: Request, next: Next) -> Response {
    in_the_pool().await;
    next.run(request).await
}

#[test]
fn on_sockets_of_ours() {
    on_pools(|| async {
        let listener = TcpListener::bind(([127, 0, 0, 1], 0))?;
        let address = listener.local_addr()?;
        let (stop, stopped) = oneshot::channel::<()>();
        let server = serve(listener, router().layer(from_fn(check_worker))).with_graceful_shutdown(async {
            let _ = stopped.await;
        });
        let server = warpweft::spawn(async move { server.await });
        ask(address).await?;
        let fib = reqwest::get(format!("http://{address}/fib/15"))
            .await?
            .text()
            .await?;
        assert_eq!(fib, "610");
        let peer = reqwest::get(format!("http://{address}/peer"))
            .await?
            .text()
            .await?;
        assert!(peer.starts_with("127.0.0.1:"), "{peer}");
        drop(stop);
        server.await.expect("no panic")?;
        Ok(())
    });
}

/// The program as it is on tokio, but for the runtime.
#[test]
fn on_its_own_server() {
    on_pools(|| async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let here = get(|| async { fib(10).to_string() });
        let router = router().route("/here", here).layer(from_fn(check_pool));
        let server = ::axum::serve(listener, router).with_graceful_shutdown(async {
            let _ = stopped.await;
        });
        let server = tokio::spawn(async move { server.await });
        ask(address).await?;
        for _ in 0..20 {
            assert_eq!(
                reqwest::get(format!("http://{address}/here"))
                    .await?
                    .text()
                    .await?,
                "55"
            );
        }
        drop(stop);
        server.await??;
        Ok(())
    });
}

const TICK: Duration = Duration::from_millis(1);

/// Waits for a timer of tokio, in direct style: the worker goes to other handlers meanwhile.
fn timer() -> u64 {
    warpweft::block_on(async {
        tokio::time::sleep(TICK).await;
        1
    })
}

async fn wait() -> String {
    let job = warpweft::spawn_job(|| fib(10));
    let timed = warpweft::spawn(async {
        tokio::time::sleep(TICK).await;
        1
    });
    (job.wait().expect("no panic") + timed.wait().expect("no panic")).to_string()
}

async fn block() -> String {
    let asked = warpweft::block_on(async { warpweft::spawn(async { timer() + 54 }).await });
    (asked.expect("no panic") + timer()).to_string()
}

async fn join() -> String {
    let (a, b) = warpweft::join(|| timer() + fib(9), || fib(8) + timer() - 1);
    (a + b).to_string()
}

/// A lock of ours that is held over all waits of a handler.
async fn locked(State(lock): State<Arc<warpweft::sync::Mutex<u64>>>) -> String {
    let mut calls = lock.lock().await;
    let (a, b) = warpweft::join(timer, timer);
    *calls += a + b - 1;
    drop(calls);
    "56".to_owned()
}

/// Each handler waits in direct style, and many do so at a time: more than there are workers.
#[test]
fn every_handler_waits() {
    const CLIENTS: u64 = 12;
    const EACH: u64 = 5;
    on_pools(|| async {
        let lock = Arc::new(warpweft::sync::Mutex::new(0));
        let router = Router::new()
            .route("/wait", get(wait))
            .route("/block", get(block))
            .route("/join", get(join))
            .route("/locked", get(locked))
            .with_state(Arc::clone(&lock))
            .layer(from_fn(check_worker));
        let listener = TcpListener::bind(([127, 0, 0, 1], 0))?;
        let address = listener.local_addr()?;
        let (stop, stopped) = oneshot::channel::<()>();
        let server = serve(listener, router).with_graceful_shutdown(async {
            let _ = stopped.await;
        });
        let server = warpweft::spawn(async move { server.await });
        let clients: Vec<_> = (0..CLIENTS)
            .map(|_| {
                warpweft::spawn(async move {
                    let client = reqwest::Client::new();
                    for _ in 0..EACH {
                        for path in ["wait", "block", "join", "locked"] {
                            let url = format!("http://{address}/{path}");
                            let text = client.get(url).send().await?.text().await?;
                            assert_eq!(text, "56", "{path}");
                        }
                    }
                    Ok::<_, Error>(())
                })
            })
            .collect();
        for client in clients {
            client.await.expect("no panic")?;
        }
        drop(stop);
        server.await.expect("no panic")?;
        assert_eq!(*lock.lock().await, CLIENTS * EACH);
        Ok(())
    });
}

/// The program that the documentation shows.
#[test]
fn the_example_serves_and_ends() {
    use std::io::{BufRead as _, BufReader};
    use std::process::{Command, Stdio};
    let mut program = Command::new(env!("CARGO_BIN_EXE_axum_server"))
        .arg("127.0.0.1:0")
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut lines = BufReader::new(program.stdout.take().expect("it is piped")).lines();
    let first = lines.next().expect("a line").expect("text");
    let url = first
        .strip_prefix("listening at ")
        .and_then(|rest| rest.split(';').next());
    let url = url.expect("an address").to_owned();
    let runtime = warpweft_ecosystem::pool(1);
    let asked = runtime.block_on(async {
        let mut answers = Vec::new();
        for path in ["/", "/sum/100000", "/wait/1"] {
            answers.push(reqwest::get(format!("{url}{path}")).await?.text().await?);
        }
        Ok::<_, reqwest::Error>(answers)
    });
    let interrupted = Command::new("kill")
        .args(["-INT", &program.id().to_string()])
        .status();
    assert!(interrupted.expect("`kill` starts").success());
    let rest: Vec<_> = lines.map(|line| line.expect("text")).collect();
    assert!(program.wait().expect("it ends").success());
    assert_eq!(
        asked.expect("answers"),
        ["Hello, World!", "5000050000\n", "1 ms\n"]
    );
    assert_eq!(rest, ["all requests are answered"]);
}
