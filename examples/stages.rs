//! Two stages, of which a full one slows down the one before it: `cargo run --bin stages`.
//!
//! ```text
//!   main ── waits for a place ─▶ "parse", 8 places ── waits for a place ─▶ "store", 2 places
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;
use warpweft::{EnterError, Runtime, stage, time::sleep};

const LINES: usize = 200;

/// What the program has counted.
#[derive(Default)]
struct Counts {
    words: AtomicUsize,
    stored: AtomicUsize,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = stage("parse", Runtime::builder().workers(2).capacity(8))
        .then("store", Runtime::builder().workers(1).capacity(2))
        .build()?;
    let (parse, store) = (runtime.pool("parse")?.clone(), runtime.pool("store")?.clone());
    let counts = Arc::new(Counts::default());
    let most = runtime.block_on(async {
        let (mut lines, mut most) = (Vec::new(), 0);
        for line in 0..LINES {
            let (store, counted) = (store.clone(), Arc::clone(&counts));
            let task = async move {
                let words = format!("line number {line}").split(' ').count();
                // The task keeps its place in "parse" until it has one here.
                store.enter().await?;
                sleep(Duration::from_micros(200)).await;
                counted.words.fetch_add(words, Relaxed);
                counted.stored.fetch_add(1, Relaxed);
                Ok::<_, EnterError>(())
            };
            // All places are taken most of the time: the next line is read when a task leaves "parse".
            lines.push(parse.spawn_with_permit(task).await?);
            most = most.max(line + 1 - counts.stored.load(Relaxed));
        }
        for line in lines {
            line.await??;
        }
        Ok::<_, Box<dyn std::error::Error>>(most)
    })?;
    let words = counts.words.load(Relaxed);
    println!("{LINES} lines, {words} words, at most {most} lines under way");
    Ok(())
}
