//! What an uncontended lock, or an uncontended permit, costs.
//!
//! ```text
//! permit_cost mutex|one|eight|beside|many|write|read|readers COUNT     prints nanoseconds
//! ```
//!
//! The difference of two counts of instructions, divided by that of their rounds, is the cost of a round:
//! `valgrind --tool=callgrind target/release/examples/permit_cost one COUNT`.

use std::error::Error;
use std::hint::black_box;
use std::time::Instant;
use warpweft::sync::{Mutex, RwLock, Semaphore};
use warpweft::{Runtime, spawn};

/// Acquires a permit and gives it back, while this number is held by the caller already.
async fn permits(of: usize, held: usize, count: u64) -> Result<(), Box<dyn Error + Send + Sync>> {
    let semaphore = black_box(Semaphore::new(of));
    let mut before = Vec::new();
    for _ in 0..held {
        before.push(semaphore.acquire(1).await?);
    }
    for _ in 0..count {
        drop(black_box(semaphore.acquire(1).await?));
    }
    Ok(())
}

async fn locks(what: &str, count: u64) -> Result<(), Box<dyn Error + Send + Sync>> {
    let (mutex, lock) = (black_box(Mutex::new(0)), black_box(RwLock::new(0)));
    match what {
        "mutex" => {
            for _ in 0..count {
                drop(black_box(mutex.lock().await));
            }
        }
        "write" => {
            for _ in 0..count {
                drop(black_box(lock.write().await));
            }
        }
        "read" => {
            for _ in 0..count {
                drop(black_box(lock.read().await));
            }
        }
        "readers" => {
            let _other = lock.read().await;
            for _ in 0..count {
                drop(black_box(lock.read().await));
            }
        }
        "one" => permits(1, 0, count).await?,
        "eight" => permits(8, 0, count).await?,
        "beside" => permits(8, 1, count).await?,
        "many" => permits(100, 50, count).await?,
        _ => return Err("no such program".into()),
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let usage = "usage: permit_cost mutex|one|eight|beside|many|write|read|readers COUNT";
    let what = arguments.next().ok_or(usage)?;
    let count: u64 = arguments.next().ok_or(usage)?.parse()?;
    let runtime = Runtime::builder().workers(1).stuck_after(None).build()?;
    let start = Instant::now();
    let timed = runtime.spawn(async move { spawn(async move { locks(&what, count).await }).await });
    timed.wait()??.map_err(|error| error.to_string())?;
    println!("{}", start.elapsed().as_nanos());
    Ok(())
}
