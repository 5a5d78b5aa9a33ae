//! Records what two workers do with closures, a future and a fiber, and writes the trace:
//! `cargo run --example record FILE`.

use std::error::Error;
use std::fs::File;
use std::io::BufWriter;
use warpweft::sync::channel;
use warpweft::{JoinError, Runtime, TaskBuilder};

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: record FILE")?;
    let runtime = Runtime::builder().workers(2).name("main").build()?;
    let recorder = runtime.recorder();
    recorder.record_steps(true);
    let (send, receive) = channel::unbounded();
    // A fiber adds up what a future gets from its closures.
    let sum = TaskBuilder::new().on(&runtime).name("sum").spawn_fiber(move || {
        let mut sum = 0;
        while let Ok(part) = receive.recv().wait() {
            sum += part;
        }
        sum
    });
    let answer = TaskBuilder::new().on(&runtime).name("answer").spawn(async move {
        for round in 0..3 {
            let part = |part: u64| {
                let count = move || (1..=(part + round) * 20_000).fold(0, u64::wrapping_add);
                TaskBuilder::new().name("part").spawn_job(count)
            };
            let parts: Vec<_> = (1..=4).map(part).collect();
            for part in parts {
                // The fiber is there until the channel is closed.
                let _ = send.send(part.await?).await;
            }
        }
        Ok::<_, JoinError>(())
    });
    answer.wait()??;
    println!("{}", sum.wait()?);
    drop(runtime);
    recorder
        .snapshot()
        .write_perfetto(BufWriter::new(File::create(path)?))?;
    Ok(())
}
