//! What a turn of a fiber costs under a policy, where fibers yield to each other on one worker.
//!
//! ```text
//! fiber_turns POLICY FIBERS TURNS     prints nanoseconds for each of the turns, of all fibers together
//! ```

use std::error::Error;
use std::time::Instant;
use warpweft::{PolicySpec, Runtime, fiber};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut next = || arguments.next().ok_or("usage: fiber_turns POLICY FIBERS TURNS");
    let (policy, fibers, turns) = (next()?, next()?, next()?);
    let (fibers, turns): (usize, usize) = (fibers.parse()?, turns.parse()?);
    let runtime = Runtime::builder()
        .workers(1)
        .stuck_after(None)
        .policy_spec(policy.parse::<PolicySpec>()?)
        .build()?;
    let each = turns / fibers.max(1);
    let start = Instant::now();
    let yielding: Vec<_> = (0..fibers)
        .map(|_| {
            runtime.spawn_fiber(move || {
                for _ in 0..each {
                    fiber::yield_now();
                }
            })
        })
        .collect();
    for fiber in yielding {
        fiber.wait()?;
    }
    println!(
        "{:.1}",
        start.elapsed().as_nanos() as f64 / (each * fibers) as f64
    );
    Ok(())
}
