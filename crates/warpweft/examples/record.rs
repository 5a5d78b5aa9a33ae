//! Records what two workers do with some tasks, and writes the trace: `cargo run --example record FILE`.

use std::error::Error;
use std::fs::File;
use std::io::BufWriter;
use warpweft::{Runtime, TaskBuilder, spawn_job};

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: record FILE")?;
    let runtime = Runtime::builder().workers(2).name("main").build()?;
    let recorder = runtime.recorder();
    recorder.record_steps(true);
    let answer = TaskBuilder::new().on(&runtime).name("answer").spawn(async {
        let mut sum = 0;
        for _ in 0..3 {
            let parts: Vec<_> = (1..=4)
                .map(|part| spawn_job(move || (1..=part * 20_000_u64).sum::<u64>()))
                .collect();
            for part in parts {
                sum += part.await?;
            }
        }
        Ok::<_, warpweft::JoinError>(sum)
    });
    println!("{}", answer.wait()??);
    drop(runtime);
    recorder
        .snapshot()
        .write_perfetto(BufWriter::new(File::create(path)?))?;
    Ok(())
}
