//! Takes no more orders at Ctrl-C, or when it is asked to end in another way, finishes those that it has, and
//! cancels what takes too long: `cargo run --bin graceful_end`.

use futures_lite::future::or;
use std::io;
use std::pin::pin;
use std::time::Duration;
use warpweft::cancel::CancelToken;
use warpweft::sync::channel;
use warpweft::time::{sleep, timeout};
use warpweft::{JoinError, Runtime, signal, spawn};

/// The end waits this long for the orders that are under way.
const LIMIT: Duration = Duration::from_secs(10);
/// And this long for what was cancelled then.
const REST: Duration = Duration::from_secs(1);

/// Waits until the process is asked to end: by Ctrl-C, a service manager, or because the terminal is gone.
#[cfg(unix)]
async fn asked_to_end() -> io::Result<()> {
    signal::Signals::new(&signal::Signal::ALL)?.next().await.map(drop)
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
async fn work(orders: channel::Receiver<usize>) -> usize {
    let mut done = 0;
    while let Ok(_order) = orders.recv().await {
        sleep(Duration::from_millis(5)).await;
        done += 1;
    }
    done
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = Runtime::builder().build()?;
    // All orders are below it.
    let orders = CancelToken::new();
    runtime.block_on(async {
        let (sender, receiver) = channel::bounded(16);
        let workers: Vec<_> = (0..4)
            .map(|_| spawn(orders.run_async(work(receiver.clone()))))
            .collect();
        // 1. Accept no more: its end drops the sender, which closes the channel behind the last order.
        let taken = take(sender).await?;
        // 2. Drain.
        let done = timeout(LIMIT, async {
            let mut done = 0;
            for worker in workers {
                done += worker.await?.unwrap_or(0);
            }
            Ok::<_, JoinError>(done)
        });
        match done.await {
            Ok(done) => println!("taken {taken}, done {}", done?),
            Err(_late) => {
                println!("taken {taken}; what is not done after {LIMIT:?} is given up");
                // 3. Cancel: it reaches what the workers have spawned, too.
                orders.cancel();
            }
        }
        Ok::<_, Box<dyn std::error::Error>>(())
    })?;
    // 4. Drop what is left, and say what it was.
    Ok(runtime.shutdown_timeout(REST)?)
}
