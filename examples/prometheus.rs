//! An HTTP server that computes, and shows Prometheus what its scheduler does, on the same workers:
//! `cargo run --release --bin prometheus -- 127.0.0.1:7081`, then `curl 127.0.0.1:7081/metrics`.

use bytes::Bytes;
use http_body_util::Full;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode, body::Incoming};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use std::{convert::Infallible, error::Error, net::SocketAddr, time::Duration};
use warpweft::{Runtime, net::TcpListener, signal, time::sleep};
use warpweft_metrics::Publisher;
use warpweft_tokio::serve_hyper;

/// `/sum/N` computes, and `/metrics` has the numbers of the last publication.
async fn answer(
    request: Request<Incoming>,
    shown: PrometheusHandle,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let path = request.uri().path();
    let (status, text) = match path.strip_prefix("/sum/").map(str::parse::<u64>) {
        Some(Ok(n)) => (StatusCode::OK, format!("{}\n", (0..=n).sum::<u64>())),
        None if path == "/metrics" => (StatusCode::OK, shown.render()),
        _ => (
            StatusCode::NOT_FOUND,
            "there are /metrics and /sum/N\n".to_owned(),
        ),
    };
    let response = Response::builder().status(status).body(Full::from(text));
    Ok(response.expect("the parts are valid"))
}

fn main() -> Result<(), Box<dyn Error>> {
    let text = std::env::args().nth(1);
    let address: SocketAddr = text.as_deref().unwrap_or("127.0.0.1:7081").parse()?;
    // The recorder alone: it has no server and no thread of its own.
    let recorder = PrometheusBuilder::new().build_recorder();
    let shown = recorder.handle();
    metrics::set_global_recorder(recorder)?;
    warpweft_metrics::describe();

    let runtime = Runtime::builder().name("web").build()?;
    // For the distributions of run times and delays.
    runtime.recorder().measure_steps(true);
    let publisher = Publisher::new(&runtime).every(Duration::from_millis(250));
    let upkeep = shown.clone();
    runtime.block_on(async {
        let publishes = warpweft::spawn(publisher);
        let tidies = warpweft::spawn(async move {
            loop {
                sleep(Duration::from_secs(5)).await;
                // Sums up what the histograms were given, so that they stay small.
                upkeep.run_upkeep();
            }
        });
        let listener = TcpListener::bind(address)?;
        println!("listening at http://{}; Ctrl-C ends", listener.local_addr()?);
        let served = serve_hyper(
            listener,
            service_fn(move |request| answer(request, shown.clone())),
        )
        .on_error(|error| eprintln!("{error}"))
        .with_graceful_shutdown(async {
            // If there is no signal to be had, the server ends at once.
            let _ = signal::ctrl_c().await;
        });
        let served = served.await;
        // The two tasks would go on until the runtime ends, which is now.
        drop((publishes, tidies));
        served
    })?;
    println!("all requests are answered");
    Ok(())
}
