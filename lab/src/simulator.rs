//! The simulator: another build of this program, with `--cfg warpweft_sim`. In that build, a run of a
//! workload is a simulation. In the usual one, the other program is found, or built from the sources.

use harness::Simulator;
#[cfg(warpweft_sim)]
pub(crate) use here::simulated;

/// The simulator of this build.
pub(crate) const SIMULATOR: Simulator = {
    #[cfg(warpweft_sim)]
    {
        Simulator::Here(here::machine_of)
    }
    #[cfg(not(warpweft_sim))]
    {
        Simulator::Elsewhere {
            program: elsewhere::program,
            calibrate: crate::calibrate::machine,
        }
    }
};

#[cfg(not(warpweft_sim))]
mod elsewhere {
    use std::env;
    use std::path::{Path, PathBuf};
    use std::process::{Command, Stdio};

    use harness::LabError;

    /// Names the program that is built for the simulator.
    const VARIABLE: &str = "WARPWEFT_SIMULATOR";

    /// The compiler's flags. By some of them the program reports its basic blocks, so that the simulator
    /// knows how much code runs between two accesses.
    const FLAGS: &str = include_str!("../simulator-flags.txt");

    /// Finds the program that is built for the simulator, or builds it.
    pub(super) fn program() -> Result<PathBuf, LabError> {
        if let Some(named) = env::var_os(VARIABLE).map(PathBuf::from) {
            if named.is_file() {
                return Ok(named);
            }
            return Err(LabError::Usage(format!(
                "{VARIABLE} names {}, and there is no such file",
                named.display()
            )));
        }
        let beside = env::current_exe().ok().and_then(|own| {
            let name = format!("warpweft-simulator{}", env::consts::EXE_SUFFIX);
            Some(own.parent()?.join(name)).filter(|path| path.is_file())
        });
        if let Some(beside) = beside {
            return Ok(beside);
        }
        let sources = Path::new(env!("CARGO_MANIFEST_DIR"));
        if !sources.join("Cargo.toml").is_file() {
            return Err(LabError::Usage(missing(sources)));
        }
        build(sources)
    }

    /// What to do where the sources are gone.
    pub(super) fn missing(sources: &Path) -> String {
        format!(
            "the simulator is another build of this program, and its sources are not at {} any more. Install it:\n  \
             RUSTFLAGS=\"{}\" cargo install warpweft-lab --target TARGET --root FOLDER\n\
             where TARGET is the host that `rustc -vV` names, and name it: {VARIABLE}=FOLDER/bin/warpweft warpweft simulate …\n\
             Or copy it to warpweft-simulator, beside this program",
            sources.display(),
            FLAGS.lines().collect::<Vec<_>>().join(" ")
        )
    }

    fn build(sources: &Path) -> Result<PathBuf, LabError> {
        let above = sources.join("..");
        // In a workspace the products are beside the usual ones.
        let root = if above.join("Cargo.lock").is_file() {
            above.as_path()
        } else {
            sources
        };
        let products = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
        let products = products.join("simulate");
        let mut flags = env::var("RUSTFLAGS").unwrap_or_default();
        FLAGS.lines().for_each(|flag| flags.extend([" ", flag]));
        let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let target = target()?;
        // Cargo tells on the standard error how far it is.
        eprintln!(
            "the simulator is built once, in some minutes, into {}",
            products.display()
        );
        let status = Command::new(&cargo)
            .args(["build", "--release", "--bin", "warpweft", "--manifest-path"])
            .arg(sources.join("Cargo.toml"))
            // The flags are for the target alone: build scripts do not have what the compiler calls.
            .args(["--target", &target])
            .env("RUSTFLAGS", flags.trim())
            .env("CARGO_TARGET_DIR", &products)
            // What the release profile spends on the last few per cent.
            .env("CARGO_PROFILE_RELEASE_LTO", "off")
            .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16")
            .env("CARGO_PROFILE_RELEASE_DEBUG", "line-tables-only")
            .stdout(Stdio::null())
            .status()
            .map_err(|error| LabError::file("build the simulator by", Path::new(&cargo), &error))?;
        if !status.success() {
            return Err(LabError::Usage(format!(
                "the simulator could not be built from {}: cargo said why",
                sources.display()
            )));
        }
        Ok(products
            .join(target)
            .join("release")
            .join(format!("warpweft{}", env::consts::EXE_SUFFIX)))
    }

    /// Returns the name of this machine's target, as the compiler says.
    fn target() -> Result<String, LabError> {
        let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let output = Command::new(&rustc)
            .arg("-vV")
            .output()
            .map_err(|error| LabError::file("ask for the target by", Path::new(&rustc), &error))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let host = text.lines().find_map(|line| line.strip_prefix("host: "));
        host.map(str::to_owned)
            .ok_or_else(|| LabError::Usage(format!("`rustc -vV` names no host: {text}")))
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn without_sources_it_says_how_to_get_the_simulator() {
            let text = missing(Path::new("/nowhere"));
            assert!(
                text.contains("cargo install warpweft-lab") && text.contains(VARIABLE),
                "{text}"
            );
        }
    }
}

#[cfg(warpweft_sim)]
mod here {
    use std::fs;
    use std::path::Path;
    use std::time::Instant;

    use harness::{
        ContendedField, ContendedLine, HookWait, LabError, Outcome, OwnedLine, Request, Simulated,
        SimulatedMachine, Simulation,
    };
    use warpweft::sim::{LineReport, Machine, Report, Settings, try_run};

    /// Reads a machine, with its changed costs.
    fn machine(simulation: &Simulation) -> Result<Machine, LabError> {
        let name = &simulation.machine;
        let wrong = |error: warpweft::sim::MachineError| LabError::Usage(format!("--set: {error}"));
        let mut machine = match Machine::named(name) {
            Some(machine) => machine,
            None => {
                let text = fs::read_to_string(name).map_err(|error| {
                    let known = Machine::names().join(", ");
                    let reason = format!("{error}; the machines that are built in: {known}");
                    LabError::file("read the machine", Path::new(name), &reason)
                })?;
                Machine::parse(&text)
                    .map_err(|error| LabError::file("read the machine", Path::new(name), &error))?
            }
        };
        for setting in &simulation.set {
            let (cost, value) = setting
                .split_once('=')
                .and_then(|(cost, value)| Some((cost, value.parse::<f64>().ok()?)))
                .ok_or_else(|| LabError::Usage(format!("--set {setting}: COST=NUMBER is meant")))?;
            machine.set(cost, value).map_err(wrong)?;
        }
        Ok(machine)
    }

    /// What the harness wants to know of a machine.
    pub(super) fn machine_of(simulation: &Simulation) -> Result<SimulatedMachine, LabError> {
        let machine = machine(simulation)?;
        Ok(SimulatedMachine {
            cpus: machine.cpus(),
            name: machine.name,
        })
    }

    /// Makes a run on the simulated machine that the request names.
    pub(crate) fn simulated(
        request: &Request,
        run: impl FnOnce() -> Result<Outcome, LabError> + 'static,
    ) -> Result<Outcome, LabError> {
        let Some(simulation) = &request.simulation else {
            return Err(LabError::Usage(String::from(
                "this program is built for the simulator: it simulates, and measures nothing",
            )));
        };
        let mut settings = Settings::new(&machine(simulation)?, simulation.seed);
        settings.lines = simulation.lines;
        settings.owners = simulation.owners;
        settings.is_main_free = true;
        let start = Instant::now();
        let (outcome, report) = try_run(&settings, run).map_err(|failure| request.failed(&failure))?;
        let mut outcome = outcome?;
        let host_seconds = start.elapsed().as_secs_f64();
        outcome.simulated = Some(told(simulation, report, host_seconds));
        Ok(outcome)
    }

    fn told(simulation: &Simulation, report: Report, host_seconds: f64) -> Simulated {
        let us = |ns: u64| ns as f64 / 1e3;
        Simulated {
            machine: report.machine,
            set: simulation.set.clone(),
            seed: report.seed,
            virtual_ms: report.time_ns as f64 / 1e6,
            accesses: report.accesses,
            misses: report.misses,
            wait_ms: report.waited_ns as f64 / 1e6,
            wakes: report.wakes,
            log_hash: format!("{:016x}", report.hash),
            host_seconds,
            lines: report.lines.iter().map(line).collect(),
            hooks: report
                .hooks
                .into_iter()
                .map(|hook| HookWait {
                    name: hook_name(&hook.name).to_owned(),
                    calls: hook.calls,
                    time_us: us(hook.time_ns),
                    wait_us: us(hook.wait_ns),
                })
                .collect(),
            owners: report
                .owners
                .into_iter()
                .map(|line| OwnedLine {
                    name: line.name,
                    arrivals: line
                        .arrivals
                        .into_iter()
                        .map(|arrival| (arrival.ns, arrival.core, arrival.alone))
                        .collect(),
                })
                .collect(),
        }
    }

    /// The hook that a function of the scheduler calls.
    fn hook_name(function: &str) -> &str {
        match function {
            "push_in" => "push_local, kept",
            "push_anyhow" => "push, own worker",
            "push" => "push, external",
            "alone_of_ref" => "is_only_ready",
            "push_yielded" => "yielded",
            hook => hook,
        }
    }

    fn line(line: &LineReport) -> ContendedLine {
        ContendedLine {
            wait_us: line.wait_ns as f64 / 1e3,
            misses: line.misses,
            fields: line
                .places
                .iter()
                .take(12)
                .map(|place| ContendedField {
                    name: place.name.clone(),
                    offset: place.offset,
                    place: format!("{}:{}", place.file, place.line),
                    wait_us: place.wait_ns as f64 / 1e3,
                    misses: place.misses,
                })
                .collect(),
        }
    }
}
