//! tonic's health service with its stream of changes: on `warpweft_tokio::serve`, and on tonic's server.

use ::tonic::service::Routes;
use ::tonic::service::interceptor::InterceptedService;
use ::tonic::transport::server::TcpIncoming;
use ::tonic::transport::{Endpoint, Server};
use ::tonic::{Request, Status};
use ::tower::ServiceExt as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tonic_health::ServingStatus;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tonic_health::server::{HealthReporter, health_reporter};
use warpweft::net::TcpListener;
use warpweft::sync::oneshot;
use warpweft_ecosystem::{Error, on_a_thread_of_the_pool, on_pools};
use warpweft_tokio::serve;

const SERVICE: &str = "weaving";

fn about(service: &str) -> Request<HealthCheckRequest> {
    Request::new(HealthCheckRequest {
        service: service.to_owned(),
    })
}

async fn ask(address: SocketAddr, reporter: &HealthReporter) -> Result<(), Error> {
    let channel = Endpoint::new(format!("http://{address}"))?.connect().await?;
    let mut client = HealthClient::new(channel);
    let unknown = client
        .check(about("none"))
        .await
        .expect_err("there is no such service");
    assert_eq!(unknown.code(), Status::not_found("").code());

    reporter
        .set_service_status(SERVICE, ServingStatus::NotServing)
        .await;
    let mut changes = client.watch(about(SERVICE)).await?.into_inner();
    let next = async |changes: &mut ::tonic::Streaming<_>| {
        let change: tonic_health::pb::HealthCheckResponse =
            changes.message().await?.ok_or("the stream has ended")?;
        Ok::<_, Error>(change.status)
    };
    assert_eq!(next(&mut changes).await?, ServingStatus::NotServing as i32);
    for _ in 0..10 {
        for status in [ServingStatus::Serving, ServingStatus::NotServing] {
            reporter.set_service_status(SERVICE, status).await;
            assert_eq!(next(&mut changes).await?, status as i32);
            let checked = client.check(about(SERVICE)).await?.into_inner();
            assert_eq!(checked.status, status as i32);
        }
    }
    Ok(())
}

#[test]
fn on_sockets_of_ours() {
    on_pools(|| async {
        let (reporter, service) = health_reporter();
        // Each request shows where it is handled.
        let routes = Routes::new(service).prepare().map_request(|request| {
            let thread = std::thread::current().name().unwrap_or("?").to_owned();
            assert!(
                thread.starts_with("eco-") && warpweft::Pool::current_worker().is_some(),
                "{thread}"
            );
            request
        });
        let listener = TcpListener::bind(([127, 0, 0, 1], 0))?;
        let address = listener.local_addr()?;
        let (stop, stopped) = oneshot::channel::<()>();
        let server = serve(listener, routes).with_graceful_shutdown(async {
            let _ = stopped.await;
        });
        let server = warpweft::spawn(async move { server.await });
        ask(address, &reporter).await?;
        drop(stop);
        server.await.expect("no panic")?;
        Ok(())
    });
}

#[test]
fn on_its_own_server() {
    on_pools(|| async {
        let (reporter, service) = health_reporter();
        let incoming = TcpIncoming::bind(([127, 0, 0, 1], 0).into())?;
        let address = incoming.local_addr()?;
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        // Each request shows where it is handled, as above.
        let handled = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&handled);
        let checked = InterceptedService::new(service, move |request: Request<()>| {
            on_a_thread_of_the_pool();
            counted.fetch_add(1, Ordering::Relaxed);
            Ok(request)
        });
        let server = Server::builder()
            .add_service(checked)
            .serve_with_incoming_shutdown(incoming, async {
                let _ = stopped.await;
            });
        let server = tokio::spawn(server);
        ask(address, &reporter).await?;
        assert!(handled.load(Ordering::Relaxed) >= 20, "each request was checked");
        drop(stop);
        server.await??;
        Ok(())
    });
}
