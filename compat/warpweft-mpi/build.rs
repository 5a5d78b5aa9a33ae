//! With the feature `mpicc`, compiles the shim, and gives the crate its path.

use std::env;
use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=shim/shim.c");
    println!("cargo::rerun-if-env-changed=MPICC");
    if env::var_os("CARGO_FEATURE_MPICC").is_none() {
        return;
    }
    let compiler = env::var("MPICC").unwrap_or_else(|_| String::from("mpicc"));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let library = out.join("libwarpweft_mpi_shim.so");
    let built = Command::new(&compiler)
        .args(["-shared", "-fPIC", "-O2", "-Wall", "-o"])
        .arg(&library)
        .arg("shim/shim.c")
        .status();
    match built {
        Ok(status) if status.success() => {
            println!("cargo::rustc-env=WARPWEFT_MPI_SHIM={}", library.display());
        }
        Ok(status) => panic!("`{compiler}` could not compile shim/shim.c ({status}): see its message above"),
        Err(error) => panic!(
            "cannot run `{compiler}` ({error}): the feature `mpicc` needs an MPI for developers \
             (Debian: `libopenmpi-dev`), or its compiler's name in MPICC"
        ),
    }
}
