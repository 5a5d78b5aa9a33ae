//! `simulate`: the same as `bench`, on a simulated machine. All of its figures are simulated.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use serde_json::Value;

use crate::args::{Defaults, Selection, Usual};
use crate::error::LabError;
use crate::lab::{Lab, Simulator};
use crate::measured::{Measured, Outputs, Papers, lines, prepared};
use crate::output::Pending;
use crate::report;
use crate::session::Job;
use crate::simulation::{Simulated, Simulation};
use crate::summary::Row;
use crate::table;
use crate::text::{Table, si};

/// How many lines the picture has if the report has none.
const PICTURED: usize = 8;

/// `simulate`.
#[derive(Args, Debug)]
pub(crate) struct SimulateArgs {
    /// A workload, with a variant if you like: packet, packet/heavier
    #[arg(value_name = "WORKLOAD", required_unless_present = "calibrate")]
    workload: Option<String>,

    #[command(flatten)]
    selection: Selection,

    /// A machine that is built in, or a file
    #[arg(long, value_name = "MACHINE", default_value = "epyc-7702x2")]
    machine: String,

    /// Changes a cost of the machine: same_socket=60
    #[arg(long, value_name = "COST=NUMBER")]
    set: Vec<String>,

    /// The first seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Runs of each contestant, each with a seed of its own; all count
    #[arg(long, alias = "repeat", value_name = "N", default_value_t = 1)]
    repeats: usize,

    /// Prints so many lines that were waited for, by structure and field, with the places that access them
    #[arg(long, value_name = "N", default_value_t = 0)]
    lines: usize,

    /// Prints how long each hook of the policy took, and waited for lines
    #[arg(long)]
    hooks: bool,

    /// Draws which core had these lines when, for one policy and one number of workers
    #[arg(long, value_name = "FILE.svg")]
    owners: Option<PathBuf>,

    /// Measures this machine, and writes its file: some seconds, with nothing else running
    #[arg(long, value_name = "FILE.toml", conflicts_with = "workload")]
    calibrate: Option<PathBuf>,

    /// One JSON object per run on standard output; the summary goes to standard error
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    outputs: Outputs,
}

impl SimulateArgs {
    /// Returns the jobs, in their order.
    pub(crate) fn jobs(&self, lab: &Lab) -> Result<Vec<Job>, LabError> {
        let policies = lab.home().map(|(_, policies)| policies.usual().to_owned());
        let defaults = Defaults {
            runtimes: Usual::First,
            policies: policies.into_iter().collect(),
            workers: vec![1, 2, 4, 8, 16, 32, 64, 128],
        };
        let limits = self.selection.limits(self.repeats, None)?;
        let mut jobs = self.selection.jobs(
            lab,
            self.workload.as_deref().unwrap_or_default(),
            false,
            &defaults,
            &limits,
        )?;
        let simulation = Simulation {
            machine: self.machine.clone(),
            set: self.set.clone(),
            seed: self.seed,
            lines: match self.owners {
                Some(_) => self.lines.max(PICTURED),
                None => self.lines,
            },
            owners: self.owners.is_some(),
        };
        for job in &mut jobs {
            job.template.simulation = Some(simulation.clone());
        }
        let cells: usize = jobs.iter().map(|job| job.cells.len()).sum();
        if self.owners.is_some() && cells != 1 {
            return Err(LabError::Usage(format!(
                "--owners draws one run, and this line has {cells}: name one policy and one number of workers"
            )));
        }
        Ok(jobs)
    }
}

/// Runs the simulations here, or starts the program that can.
pub(crate) fn run(lab: &Lab, arguments: &SimulateArgs) -> Result<(), LabError> {
    if let Some(path) = &arguments.calibrate {
        return calibrated(lab, path);
    }
    let jobs = arguments.jobs(lab)?;
    match lab.simulator {
        Simulator::Here(_) => here(lab, arguments, jobs),
        Simulator::Elsewhere { program, .. } => {
            let program = program()?;
            let status = Command::new(&program)
                .args(std::env::args_os().skip(1))
                .status()
                .map_err(|error| LabError::file("start the simulator", &program, &error))?;
            match status.code() {
                Some(0) => Ok(()),
                // It has said why.
                code => std::process::exit(code.unwrap_or(1)),
            }
        }
        Simulator::Missing => Err(LabError::Usage(format!("{} has no simulator", lab.name))),
    }
}

/// Measures this machine, and writes its file.
fn calibrated(lab: &Lab, path: &Path) -> Result<(), LabError> {
    let Simulator::Elsewhere { calibrate, .. } = lab.simulator else {
        return Err(LabError::Usage(String::from(
            "--calibrate measures this machine, so it is for the usual build of this program",
        )));
    };
    let file = Pending::open("write the machine", path)?;
    let path = file.finish(calibrate()?)?;
    writeln!(io::stdout(), "Machine: {}", path.display())?;
    Ok(())
}

fn here(lab: &Lab, arguments: &SimulateArgs, jobs: Vec<Job>) -> Result<(), LabError> {
    let papers = Papers::open(&arguments.outputs, None, None)?;
    let picture = arguments
        .owners
        .as_ref()
        .map(|path| Pending::open("write the picture", path));
    let picture = picture.transpose()?;
    let mut output: Box<dyn Write> = match arguments.json {
        true => Box::new(io::stderr()),
        false => Box::new(io::stdout()),
    };
    let mut all = Vec::new();
    for job in prepared(lab, jobs)? {
        let measured = Measured::of(lab, job, arguments.json)?;
        measured.print(&mut output)?;
        told(&mut output, &measured, arguments)?;
        all.push(measured);
    }
    if let (Some(picture), Some(measured)) = (picture, all.first()) {
        let runs = measured.session.cells.iter().flat_map(|cell| &cell.records);
        let run = runs
            .clone()
            .find_map(|run| Some((run, run.outcome.simulated.as_ref()?)));
        let (title, owners) = run.map_or_else(Default::default, |(run, simulated)| {
            let policy = run.policy.as_deref().unwrap_or(&run.runtime);
            let title = format!(
                "{} under {policy} with {} workers on {}",
                run.workload, run.workers, simulated.machine
            );
            (title, simulated.owners.as_slice())
        });
        let path = picture.finish(report::owners::svg(&title, owners))?;
        writeln!(output, "\nPicture: {}", path.display())?;
    }
    papers.finish(
        &mut output,
        || report::explore::html("simulate", &all),
        || Value::Null,
        || lines(all.iter().map(|one| &one.session)),
    )?;
    let rows: Vec<Row> = all.into_iter().flat_map(|one| one.rows).collect();
    table::failures(&rows)
}

/// Prints what each contestant's last run tells of hooks and lines.
fn told(output: &mut dyn Write, measured: &Measured, arguments: &SimulateArgs) -> Result<(), LabError> {
    if arguments.lines == 0 && !arguments.hooks {
        return Ok(());
    }
    for cell in &measured.session.cells {
        let last = cell.records.last();
        let Some(simulated) = last.and_then(|record| record.outcome.simulated.as_ref()) else {
            continue;
        };
        writeln!(output, "\n{} (simulated)", cell.request.contestant())?;
        if arguments.hooks {
            hooks(simulated).print(output)?;
        }
        for line in simulated.lines.iter().take(arguments.lines) {
            writeln!(
                output,
                "  a line: {:.1} µs waited in {} misses",
                line.wait_us, line.misses
            )?;
            let mut table = Table::of_figures(&["    field", "µs waited", "misses", "byte", "place"]);
            for field in line.fields.iter().take(6) {
                table.row(vec![
                    format!("    {}", field.name),
                    format!("{:.1}", field.wait_us),
                    field.misses.to_string(),
                    field.offset.to_string(),
                    field.place.clone(),
                ]);
            }
            table.print(output)?;
        }
    }
    Ok(())
}

fn hooks(simulated: &Simulated) -> Table {
    let mut table = Table::of_figures(&["  hook", "calls", "µs", "µs waited", "ns waited each"]);
    for hook in &simulated.hooks {
        table.row(vec![
            format!("  {}", hook.name),
            si(hook.calls as f64),
            format!("{:.1}", hook.time_us),
            format!("{:.1}", hook.wait_us),
            format!("{:.0}", hook.wait_us * 1e3 / hook.calls.max(1) as f64),
        ]);
    }
    table
}
