//! Fibers in pairs that pass a number to and fro, in direct style:
//! `cargo run --release --bin fibers -- 10000`. It ends by itself, so that policies can be compared:
//! `warpweft try -- target/release/fibers 10000`.

use std::error::Error;
use warpweft::fiber;
use warpweft::sync::channel::bounded;

/// How often each pair passes its number.
const TURNS: u64 = 10;

fn main() -> Result<(), Box<dyn Error>> {
    let text = std::env::args().nth(1);
    let pairs: u64 = text.as_deref().unwrap_or("1000").parse()?;
    let sums: Vec<_> = (0..pairs)
        .map(|pair| {
            fiber::spawn(move || {
                let (there, hears) = bounded(1);
                let (back, answers) = bounded(1);
                let partner = fiber::spawn(move || {
                    while let Ok(number) = fiber::wait(hears.recv()) {
                        if fiber::wait(back.send(number + 1)).is_err() {
                            break;
                        }
                    }
                });
                let mut number = pair;
                for _ in 0..TURNS {
                    if fiber::wait(there.send(number)).is_err() {
                        break;
                    }
                    number = fiber::wait(answers.recv()).unwrap_or(number);
                }
                drop(there);
                // The partner ends when nothing can come any more.
                let _ = fiber::wait(partner);
                number
            })
        })
        .collect();
    let mut sum = 0;
    for one in sums {
        sum += one.wait()?;
    }
    println!("{pairs} pairs, sum {sum}");
    Ok(())
}
