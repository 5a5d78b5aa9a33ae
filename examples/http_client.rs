//! An HTTP client by hyper that gets pages over one connection, one after the other.
//!
//! ```text
//! cargo run --release --bin http_client -- http://127.0.0.1:7080/ /sum/1000 /sum/x
//! ```

use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty};
use hyper::client::conn::http1;
use hyper::header::HOST;
use hyper::{Request, Uri};
use std::net::SocketAddr;
use std::time::Duration;
use warpweft::net::TcpStream;
use warpweft::time::timeout;
use warpweft_tokio::Io;

/// The client waits this long for an answer.
const PATIENCE: Duration = Duration::from_secs(30);

type Error = Box<dyn std::error::Error + Send + Sync>;

async fn get(uri: &Uri, more: &[String]) -> Result<(), Error> {
    let authority = uri
        .authority()
        .filter(|_| uri.scheme_str() == Some("http"))
        .ok_or("the first address has to be like http://127.0.0.1:7080/")?;
    let port = authority.port_u16().unwrap_or(80);
    let address = SocketAddr::new(authority.host().trim_matches(['[', ']']).parse()?, port);

    let stream = TcpStream::connect_timeout(address, PATIENCE).await?;
    let (mut sender, connection) = http1::handshake(Io::socket(stream)).await?;
    // This task moves the bytes while requests wait for their responses.
    let moving = warpweft::spawn(connection);
    let first = uri.path_and_query().map_or("/", |path| path.as_str());
    for path in std::iter::once(first).chain(more.iter().map(String::as_str)) {
        let request = Request::get(path)
            .header(HOST, authority.as_str())
            .body(Empty::<Bytes>::new())?;
        // The task of the connection may not have seen the end of the answer before.
        timeout(PATIENCE, sender.ready()).await??;
        let response = timeout(PATIENCE, sender.send_request(request)).await??;
        let status = response.status();
        let body = timeout(PATIENCE, response.into_body().collect())
            .await??
            .to_bytes();
        println!("{path}: {status}, {}", String::from_utf8_lossy(&body).trim_end());
    }
    drop(sender);
    moving.await.map_err(|error| error.to_string())??;
    Ok(())
}

fn main() -> Result<(), Error> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (uri, more) = words
        .split_first()
        .ok_or("usage: http_client http://ADDRESS/PATH [PATH …]")?;
    let uri: Uri = uri.parse()?;
    warpweft::Runtime::builder()
        .workers(1)
        .build()?
        .block_on(get(&uri, more))
}
