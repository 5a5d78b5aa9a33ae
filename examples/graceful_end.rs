//! Takes no more orders at Ctrl-C, or when it is asked to end in another way, finishes those that it has, and
//! cancels what takes too long: `cargo run --bin graceful_end`.

use futures_lite::future::or;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;
use warpweft::cancel::CancelToken;
use warpweft::sync::channel;
use warpweft::time::sleep;
use warpweft::{GracefulShutdown, Runtime, signal};

/// The end waits this long for the orders that are under way, and for all, what was cancelled included.
const DRAIN: Duration = Duration::from_secs(10);
const LIMIT: Duration = Duration::from_secs(12);

/// Waits until the process is asked to end: by Ctrl-C, a service manager, or because the terminal is gone.
#[cfg(unix)]
async fn asked_to_end() -> io::Result<()> {
    let signals = signal::Signals::new(&signal::Signal::TO_END)?;
    signals.next().await.map(drop)
}

/// Waits for Ctrl-C.
#[cfg(not(unix))]
async fn asked_to_end() -> io::Result<()> {
    signal::ctrl_c().await
}

/// Takes an order every millisecond until the end. Returns how many it has taken.
async fn take(orders: channel::Sender<usize>) -> io::Result<usize> {
    let mut ended = pin!(asked_to_end());
    for order in 0.. {
        let next = async {
            sleep(Duration::from_millis(1)).await;
            Ok(false)
        };
        if or(async { ended.as_mut().await.map(|()| true) }, next).await? || orders.send(order).await.is_err()
        {
            return Ok(order);
        }
        if order == 0 {
            println!("taking orders; Ctrl-C ends");
        }
    }
    unreachable!("the numbers do not end")
}

/// Works until the channel is closed and empty.
async fn work(orders: channel::Receiver<usize>, done: Arc<AtomicUsize>) {
    while let Ok(_order) = orders.recv().await {
        sleep(Duration::from_millis(5)).await;
        done.fetch_add(1, Relaxed);
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = Runtime::builder().build()?;
    // All orders are below it.
    let orders = CancelToken::new();
    let done = Arc::new(AtomicUsize::new(0));
    let (sender, receiver) = channel::bounded(16);
    for _ in 0..4 {
        let work = work(receiver.clone(), Arc::clone(&done));
        runtime.spawn(orders.run_async(work)).detach();
    }
    // Its end drops the sender, which closes the channel behind the last order.
    let taken = runtime.block_on(take(sender))?;
    // What is left in the channel is done, cancelled if that takes too long, and dropped if it does not stop.
    let shutdown = GracefulShutdown::within(LIMIT)
        .drain_for(DRAIN)
        .then_cancel(&orders);
    let step = runtime.shutdown_gracefully(&shutdown)?;
    println!("taken {taken}, done {}: {step:?}", done.load(Relaxed));
    Ok(())
}
