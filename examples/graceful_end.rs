//! Takes no more orders at Ctrl-C, and finishes those that it has: `cargo run --bin graceful_end`.

use futures_lite::future::or;
use std::io;
use std::pin::pin;
use std::time::Duration;
use warpweft::sync::channel;
use warpweft::time::{sleep, timeout};
use warpweft::{JoinError, Runtime, signal, spawn};

/// The end waits this long for the orders that are under way.
const LIMIT: Duration = Duration::from_secs(10);

/// Takes an order every millisecond until Ctrl-C. Returns how many it has taken.
async fn take(orders: channel::Sender<usize>) -> io::Result<usize> {
    let mut ended = pin!(signal::ctrl_c());
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
    runtime.block_on(async {
        let (sender, receiver) = channel::bounded(16);
        let workers: Vec<_> = (0..4).map(|_| spawn(work(receiver.clone()))).collect();
        // Its end drops the sender, which closes the channel behind the last order.
        let taken = take(sender).await?;
        let done = timeout(LIMIT, async {
            let mut done = 0;
            for worker in workers {
                done += worker.await?;
            }
            Ok::<_, JoinError>(done)
        });
        match done.await {
            Ok(done) => println!("taken {taken}, done {}", done?),
            Err(_late) => println!("taken {taken}; what is not done after {LIMIT:?} is given up"),
        }
        Ok::<_, Box<dyn std::error::Error>>(())
    })?;
    // It ends the threads of the runtime, as dropping it would.
    runtime.shutdown();
    Ok(())
}
