//! Runs each policy with each number of workers, and prints what they came to.

use crate::arguments::{Arguments, Workload};
use crate::call::Call;
use crate::figures::Figures;
use crate::fork::Fork;
use crate::packet::Packet;
use crate::ring::Ring;
use clap::ValueEnum as _;
use serde::Serialize;
use std::time::Instant;
use warpweft::sim::{LineReport, Machine, Report, Settings, try_run};
use warpweft::{PolicySpec, Runtime};

/// A run as a line of JSON.
#[derive(Debug, Serialize)]
struct Row<'a> {
    simulated: bool,
    workload: String,
    machine: &'a str,
    policy: &'a str,
    workers: u16,
    seed: u64,
    n: u64,
    per_second: f64,
    p50_ns: u64,
    p99_ns: u64,
    p9999_ns: u64,
    virtual_ms: f64,
    accesses: u64,
    misses: u64,
    wakes: u64,
    steps: u64,
    log_hash: String,
    host_seconds: f64,
}

/// Runs all that was asked for.
pub(crate) fn all(arguments: &Arguments) -> Result<(), String> {
    let machine = machine(arguments)?;
    let policies = arguments
        .policy
        .iter()
        .map(|text| text.parse().map_err(|error| format!("policy {text:?}: {error}")))
        .collect::<Result<Vec<PolicySpec>, String>>()?;
    if !arguments.json {
        println!(
            "SIMULATED: {} on {}, n={}",
            name(arguments.workload),
            machine.name,
            arguments.n
        );
        print!("{:24}", "million a second");
        arguments
            .workers
            .iter()
            .for_each(|workers| print!("{workers:>8}"));
        println!();
    }
    for (policy, text) in policies.iter().zip(&arguments.policy) {
        if !arguments.json {
            print!("{text:24}");
        }
        let mut lines = Vec::new();
        for &workers in &arguments.workers {
            let mut rates = Vec::new();
            for repeat in 0..arguments.repeats {
                let seed = arguments.seed + u64::from(repeat);
                let start = Instant::now();
                let (figures, report) = one(arguments, &machine, policy, workers, seed)
                    .map_err(|error| format!("{text} with {workers} workers, seed {seed}: {error}"))?;
                let rate = figures.items as f64 * 1e9 / figures.elapsed_ns as f64;
                rates.push(rate);
                if arguments.json {
                    let row = row(arguments.workload, text, workers, rate, &figures, &report, start);
                    let json = serde_json::to_string(&row).map_err(|error| error.to_string())?;
                    println!("{json}");
                }
                lines = report.lines;
            }
            rates.sort_by(f64::total_cmp);
            if !arguments.json {
                print!("{:>8.3}", rates[rates.len() / 2] / 1e6);
                let _ = std::io::Write::flush(&mut std::io::stdout());
            }
        }
        if !arguments.json {
            println!();
        }
        show(&lines, arguments);
    }
    Ok(())
}

fn show(lines: &[LineReport], arguments: &Arguments) {
    for line in lines {
        if arguments.json {
            eprint!("{line}");
        } else {
            print!("{line}");
        }
    }
}

fn machine(arguments: &Arguments) -> Result<Machine, String> {
    let name = &arguments.machine;
    let mut machine = match Machine::named(name) {
        Some(machine) => machine,
        None => {
            let text = std::fs::read_to_string(name).map_err(|error| {
                let known = Machine::names().join(", ");
                format!("there is no machine {name:?} ({known}), and no such file: {error}")
            })?;
            Machine::parse(&text).map_err(|error| error.to_string())?
        }
    };
    for setting in &arguments.set {
        let (cost, value) = setting
            .split_once('=')
            .and_then(|(cost, value)| Some((cost, value.parse::<f64>().ok()?)))
            .ok_or_else(|| format!("{setting:?} is not COST=NUMBER"))?;
        machine.set(cost, value).map_err(|error| error.to_string())?;
    }
    Ok(machine)
}

/// Returns the name of a workload, as on the command line.
fn name(workload: Workload) -> String {
    let value = workload.to_possible_value();
    value.map_or_else(String::new, |value| value.get_name().to_owned())
}

/// What is run inside of the simulation.
type Program = Box<dyn Fn(&Runtime) -> Result<Figures, String> + Send>;

/// Returns the program of a workload with its parameters.
fn workload(arguments: &Arguments) -> Program {
    let &Arguments {
        n,
        window,
        spawners,
        spin,
        ..
    } = arguments;
    match arguments.workload {
        Workload::Packet => {
            let packet = Packet {
                n,
                window,
                spawners,
                spin,
            };
            Box::new(move |runtime| packet.run(runtime))
        }
        Workload::Fork => {
            let fork = Fork {
                n,
                window,
                spawners,
                spin,
            };
            Box::new(move |runtime| fork.run(runtime))
        }
        Workload::Call => {
            let call = Call { n, spawners, spin };
            Box::new(move |runtime| call.run(runtime))
        }
        Workload::Ring => {
            let ring = Ring {
                n,
                window,
                spawners,
                spin,
            };
            Box::new(move |runtime| ring.run(runtime))
        }
    }
}

fn one(
    arguments: &Arguments,
    machine: &Machine,
    policy: &PolicySpec,
    workers: u16,
    seed: u64,
) -> Result<(Figures, Report), String> {
    let mut settings = Settings::new(machine, seed);
    settings.lines = arguments.lines;
    let workload = workload(arguments);
    let policy = policy.clone();
    let result = try_run(&settings, move || {
        let runtime = Runtime::builder()
            .workers(workers.into())
            .policy_spec(policy)
            .build()
            .map_err(|error| error.to_string())?;
        workload(&runtime)
    });
    let (figures, report) = result.map_err(|failure| failure.to_string())?;
    Ok((figures?, report))
}

fn row<'a>(
    workload: Workload,
    policy: &'a str,
    workers: u16,
    rate: f64,
    figures: &Figures,
    report: &'a Report,
    start: Instant,
) -> Row<'a> {
    let sorted = &figures.latencies_ns;
    let part = |of_ten_thousand: usize| sorted[(sorted.len() - 1) * of_ten_thousand / 10_000];
    Row {
        simulated: true,
        workload: name(workload),
        machine: &report.machine,
        policy,
        workers,
        seed: report.seed,
        n: figures.items,
        per_second: rate,
        p50_ns: part(5_000),
        p99_ns: part(9_900),
        p9999_ns: part(9_999),
        virtual_ms: report.time_ns as f64 / 1e6,
        accesses: report.accesses,
        misses: report.misses,
        wakes: report.wakes,
        steps: report.steps,
        log_hash: format!("{:016x}", report.hash),
        host_seconds: start.elapsed().as_secs_f64(),
    }
}
