//! The MPIs of this machine, and how each starts a job.

use crate::repo::Repo;
use crate::run;
use anyhow::{Context as _, Result, bail, ensure};
use std::path::PathBuf;
use std::process::Command;

/// The version of the package `mpich` that has the standard ABI.
const MPICH: &str = "mpich==5.0.2";

/// How messages go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Path {
    SharedMemory,
    Tcp,
}

/// An MPI that can start jobs.
#[derive(Debug)]
pub(super) struct Launcher {
    pub(super) name: String,
    program: PathBuf,
    /// Programs reach it through the shim.
    pub(super) shim: bool,
    /// It does not end the other ranks at once when it sees that one is lost.
    pub(super) is_patient: bool,
    pub(super) paths: Vec<Path>,
    /// Where its library is, if the loader does not find it.
    library: Option<PathBuf>,
}

/// Returns each MPI, and why the others are not there, which it prints.
pub(super) fn all(repo: &Repo) -> (Vec<Launcher>, Vec<String>) {
    let (mut found, mut left_out) = (Vec::new(), Vec::new());
    for launcher in [open_mpi(), mpich(repo)] {
        match launcher {
            Ok(launcher) => found.push(launcher),
            Err(reason) => {
                println!("left out: {reason:#}");
                left_out.push(reason.to_string());
            }
        }
    }
    (found, left_out)
}

impl Launcher {
    pub(super) fn command(&self, path: Path, ranks: usize) -> Command {
        let mut command = Command::new(&self.program);
        if self.shim {
            let components = match path {
                Path::SharedMemory => "self,vader",
                Path::Tcp => "self,tcp",
            };
            // Ranks may use any CPU. Otherwise all workers of a rank are bound to one.
            command.args(["--oversubscribe", "--bind-to", "none", "--mca", "pml", "ob1"]);
            command.args(["--mca", "btl", components, "--mca", "oob_tcp_if_include", "lo"]);
            if path == Path::Tcp {
                command.args(["--mca", "btl_tcp_if_include", "lo"]);
            }
            // A container's user is root.
            command.env("OMPI_ALLOW_RUN_AS_ROOT", "1");
            command.env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        }
        if let Some(library) = &self.library {
            command.env("LD_LIBRARY_PATH", library);
            command.env("WARPWEFT_MPI_LIB", "libmpi_abi.so.1");
        }
        command.args(["-n", &ranks.to_string()]);
        command
    }
}

fn open_mpi() -> Result<Launcher> {
    if !answers("mpirun") || !answers("mpicc") {
        install().context("OpenMPI is not here, and cannot be installed")?;
    }
    let version = Command::new("mpirun").arg("--version").output()?;
    let version = String::from_utf8_lossy(&version.stdout).into_owned();
    let version = version.lines().next().unwrap_or_default();
    ensure!(
        version.contains("Open MPI"),
        "`mpirun` is not OpenMPI's: {version}"
    );
    Ok(Launcher {
        name: version.to_owned(),
        program: PathBuf::from("mpirun"),
        shim: true,
        is_patient: true,
        paths: vec![Path::SharedMemory, Path::Tcp],
        library: None,
    })
}

fn install() -> Result<()> {
    let packages = "install --yes --no-install-recommends libopenmpi-dev openmpi-bin";
    let apt = |arguments: &str| run::run(Command::new("apt-get").args(arguments.split(' ')));
    if apt(packages).is_err() {
        apt("update")?;
        apt(packages)?;
    }
    Ok(())
}

fn answers(program: &str) -> bool {
    run::succeeds(Command::new(program).arg("--version"))
}

fn mpich(repo: &Repo) -> Result<Launcher> {
    let folder = repo.target.join("mpich");
    let library = folder.join("lib/libmpi_abi.so.1");
    if !library.exists() {
        run::pip_install(&folder, MPICH)?;
    }
    if !library.exists() {
        bail!("the package {MPICH} has no library of the standard ABI");
    }
    Ok(Launcher {
        name: format!("MPICH of the standard ABI ({MPICH})"),
        program: folder.join("bin/mpiexec"),
        shim: false,
        is_patient: false,
        paths: vec![Path::SharedMemory],
        library: Some(folder.join("lib")),
    })
}
