//! Workloads of several ranks: what messages cost, and what they hide, for `warpweft-mpi` and its peers.
//!
//! A launcher of MPI starts it, as `cargo xtask mpi --bench` does: `mpirun -n 2 ranks ping-pong plain 1`.
//! Rank 0 prints a line of JSON for each figure. `ranks list` prints what there is, and needs no MPI.

mod contestants;
mod idioms;
mod work;
mod workload;
mod workloads;

use std::env;
use std::process::ExitCode;
use workload::{Outcome, Report};

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let result = match words[..] {
        ["list"] => {
            workloads::list().iter().for_each(|line| println!("{line}"));
            return ExitCode::SUCCESS;
        }
        [workload, contestant, workers] => run(workload, contestant, workers, None),
        [workload, contestant, workers, amount] => run(workload, contestant, workers, Some(amount)),
        _ => Err(String::from(
            "usage: mpirun -n RANKS ranks WORKLOAD CONTESTANT WORKERS [AMOUNT], or ranks list",
        )),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("{reason}");
            ExitCode::from(2)
        }
    }
}

/// Runs one workload on one contestant, and prints its figures.
fn run(workload: &str, contestant: &str, workers: &str, amount: Option<&str>) -> Result<(), String> {
    let number = |what: &str, word: &str| {
        let number = word.parse::<usize>().ok().filter(|number| *number > 0);
        number.ok_or_else(|| format!("{what} is a number from 1, not `{word}`"))
    };
    let workers = number("WORKERS", workers)?;
    let amount = amount.map(|word| number("AMOUNT", word)).transpose()?;
    end_the_job_on_a_panic();
    let Report { rank, ranks, outcome } = workloads::run(workload, contestant, workers, amount)?;
    if rank == 0 {
        match outcome {
            Outcome::Figures(figures) => {
                for figure in figures {
                    println!("{}", figure.line(workload, contestant, ranks, workers));
                }
            }
            Outcome::Lacks(reason) => {
                println!(
                    "{}",
                    workload::lack_line(workload, contestant, ranks, workers, reason)
                );
            }
        }
    }
    Ok(())
}

/// Ends the process at a panic of any thread, and the launcher ends the other ranks. Otherwise the job would
/// wait for ever.
fn end_the_job_on_a_panic() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        std::process::abort();
    }));
}
