//! The command line.

use clap::{Parser, ValueEnum};

/// Runs a workload on a simulated machine. All figures are simulated.
#[derive(Debug, Clone, Parser)]
#[command(name = "warpweft-simulate", version)]
pub(crate) struct Arguments {
    /// The workload
    #[arg(value_enum)]
    pub(crate) workload: Workload,
    /// A machine that is built in, or a file
    #[arg(long, default_value = "epyc-7702x2")]
    pub(crate) machine: String,
    /// Numbers of workers
    #[arg(long, short, value_delimiter = ',', default_values_t = [1, 5, 20, 60, 80, 100, 115],
          value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) workers: Vec<u16>,
    /// Policies
    #[arg(long, short, value_delimiter = ',',
          default_values_t = ["fifo", "lifo+steal=one", "cforall", "negele"].map(String::from))]
    pub(crate) policy: Vec<String>,
    /// The first seed
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Runs with seeds from the first one on; the table has their medians
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) repeats: u16,
    /// Packets, leaves, passes or calls over all spawners
    #[arg(long, short, default_value_t = 50_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) n: u64,
    /// Packets under way over all spawners; leaves of the trees under way; tasks in the ring
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) window: u64,
    /// Spawners of packets or of trees; tokens in the ring; callers
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=256))]
    pub(crate) spawners: u64,
    /// Nanoseconds of further work in each handler, leaf, pass or call
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=1_000_000_000))]
    pub(crate) spin: u64,
    /// Changes a cost of the machine: `same_socket=60`
    #[arg(long, value_name = "COST=NUMBER")]
    pub(crate) set: Vec<String>,
    /// A line of JSON for each run in place of the table
    #[arg(long)]
    pub(crate) json: bool,
    /// How many contended lines are shown of the last run of each policy
    #[arg(long, default_value_t = 0)]
    pub(crate) lines: usize,
}

/// What is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Workload {
    /// A listener copies one of 100 packets (2-3 KiB) and spawns a handler that scans it for newlines
    Packet,
    /// A job forks trees of joins of the shape of `fib`, one after the other
    Fork,
    /// Tasks in a ring pass tokens on: each waits, works, and wakes the next
    Ring,
    /// Callers spawn a task for each call, and wait for its answer by a channel of one value
    Call,
}

#[cfg(test)]
mod tests {
    use super::Arguments;
    use clap::{CommandFactory as _, Parser as _};

    #[test]
    fn the_command_line_is_read_and_nonsense_refused() {
        Arguments::command().debug_assert();
        let read = |words: &[&str]| Arguments::try_parse_from([&["warpweft-simulate"], words].concat());
        let arguments =
            read(&["packet", "-w", "1,128", "--policy", "fifo,lifo+steal=one"]).expect("it is right");
        assert_eq!(arguments.workers, [1, 128]);
        assert_eq!(arguments.policy, ["fifo", "lifo+steal=one"]);
        for wrong in [
            &["paket"][..],
            &["packet", "-w", "0"],
            &["packet", "-w", "257"],
            &["packet", "-n", "0"],
        ] {
            assert!(read(wrong).is_err(), "{wrong:?}");
        }
    }
}
