#![forbid(unsafe_code)]
//! The `warpweft` command: workloads × runtimes × policies.

use std::process::ExitCode;

fn main() -> ExitCode {
    warpweft_lab::lab([]).main()
}
