//! A crawler that bounds the number of its requests under way: `cargo run --bin crawler -- 8`.
//!
//! The pages come from a server in the same program.

use futures_lite::io::AsyncReadExt as _;
use std::collections::HashSet;
use std::io;
use std::net::{Shutdown, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use warpweft::net::{TcpListener, TcpStream};
use warpweft::sync::{Semaphore, channel};
use warpweft::{spawn, time::sleep};

const PAGES: usize = 63;

/// Answers each request, a number, with the numbers of the pages that the page links to.
async fn serve(listener: TcpListener) -> io::Result<()> {
    loop {
        let (mut stream, _peer) = listener.accept().await?;
        spawn(async move {
            let mut page = String::new();
            stream.read_to_string(&mut page).await?;
            let page: usize = page.parse().map_err(io::Error::other)?;
            sleep(Duration::from_millis(2)).await;
            let links = [2 * page + 1, 2 * page + 2, page / 2].into_iter();
            let links: String = links
                .filter(|&link| link < PAGES)
                .map(|link| format!("{link} "))
                .collect();
            stream.write_all(links.as_bytes()).await
        })
        .detach();
    }
}

async fn links_of(server: SocketAddr, page: usize) -> io::Result<Vec<usize>> {
    let (mut stream, mut links) = (TcpStream::connect(server).await?, String::new());
    stream.write_all(page.to_string().as_bytes()).await?;
    stream.shutdown(Shutdown::Write)?;
    stream.read_to_string(&mut links).await?;
    let numbers = links.split_whitespace().map(str::parse);
    numbers.collect::<Result<_, _>>().map_err(io::Error::other)
}

#[warpweft::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let limit = std::env::args().nth(1).map_or(Ok(8), |text| text.parse())?;
    let listener = TcpListener::bind(([127, 0, 0, 1], 0))?;
    let server = listener.local_addr()?;
    spawn(serve(listener)).detach();

    let permits = Arc::new(Semaphore::new(limit));
    let (found, links) = channel::unbounded();
    let (mut seen, mut to_visit, mut under_way) = (HashSet::from([0]), vec![0], 0);
    let mut most = 0;
    while under_way > 0 || !to_visit.is_empty() {
        for page in to_visit.drain(..) {
            let (permits, found) = (Arc::clone(&permits), found.clone());
            under_way += 1;
            spawn(async move {
                let _permit = permits.acquire(1).await;
                found.send(links_of(server, page).await).await
            })
            .detach();
        }
        let links = links.recv().await??;
        to_visit.extend(links.into_iter().filter(|&link| seen.insert(link)));
        under_way -= 1;
        most = most.max(limit - permits.free());
    }
    println!("{} pages, at most {most} requests at a time", seen.len());
    Ok(())
}
