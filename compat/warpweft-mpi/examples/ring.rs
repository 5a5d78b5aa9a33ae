//! Ranks that count primes together, and pass a word around a ring meanwhile.
//!
//!     cargo build -p warpweft-mpi --features mpicc --example ring
//!     mpirun -n 4 target/debug/examples/ring
//!
//! Without `mpicc` it wants an MPI of the standard ABI, such as MPICH 5.

use std::ops::Range;
use warpweft::Runtime;
use warpweft_mpi::{Comm, Mpi};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = Runtime::builder().workers(2).build()?;
    let mpi = Mpi::init(&runtime)?;
    // The messages of the two parts never meet: each has a communicator of its own.
    let (ring, counting) = (mpi.world().duplicate()?, mpi.world().duplicate()?);
    let passes = runtime.spawn(pass_around(ring));
    // Each rank begins with its share of the numbers, and steals from the others when it is through.
    let primes = runtime.block_on(counting.map_reduce(2..2_000_000, 1000, 2, count_primes, |a, b| a + b))?;
    let word = passes.wait()??;
    if mpi.rank() == 0 {
        println!(
            "{} primes, and the word came back as {word:?}",
            primes.unwrap_or(0)
        );
    }
    mpi.finalize()?;
    Ok(())
}

/// Each rank adds its number to the word. While it waits for the word, its worker counts primes.
async fn pass_around(comm: Comm) -> Result<Vec<usize>, warpweft_mpi::MpiError> {
    let port = comm.port::<Vec<usize>>(0);
    let (rank, size) = (comm.rank(), comm.size());
    if size == 1 {
        return Ok(vec![rank]);
    }
    if rank == 0 {
        port.send(1, &vec![0]).await?;
    }
    let mut word = port.recv((rank + size - 1) % size).await?.value;
    if rank != 0 {
        word.push(rank);
        port.send((rank + 1) % size, &word).await?;
    }
    Ok(word)
}

fn count_primes(numbers: Range<u64>) -> u64 {
    let is_prime = |n: &u64| (2..).take_while(|d| d * d <= *n).all(|d| !n.is_multiple_of(d));
    numbers.filter(is_prime).count() as u64
}
