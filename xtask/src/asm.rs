//! The worker loop in machine code: its length, and its indirect calls, of which there must be one: the
//! task's body.
//!
//! Every policy has its own loop, because a pool is compiled for its policy. An example of the library has
//! them all.
//!
//! And the checks of cooperative code, from the same example: how many instructions each is.

mod checks;

use crate::repo::Repo;
use crate::run;
use anyhow::{Context as _, Result, bail};
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind};
use object::{Architecture, Object as _, ObjectSection as _, ObjectSymbol as _, SymbolKind};
use std::fs;
use std::path::{Path, PathBuf};

/// The program that is looked at.
const EXAMPLE: &str = "in_asm";

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Options {
    /// Functions with this text in their name.
    #[arg(long, default_value = "run_loop")]
    symbol: String,
    /// Look for worker loops in this binary in place of the example, which is built first.
    #[arg(long, conflicts_with = "policies")]
    binary: Option<PathBuf>,
    /// Build the example with names that tell the policies apart: everything is compiled anew, in a folder of
    /// its own.
    #[arg(long)]
    policies: bool,
    /// How many indirect calls each function must have.
    #[arg(long, default_value_t = 1)]
    calls: usize,
    /// Only count what the checks of cooperative code cost.
    #[arg(long, conflicts_with_all = ["binary", "policies"])]
    checks: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            symbol: "run_loop".to_owned(),
            binary: None,
            policies: false,
            calls: 1,
            checks: false,
        }
    }
}

/// What one function consists of.
#[derive(Debug, Default, PartialEq, Eq)]
struct Shape {
    instructions: usize,
    bytes: usize,
    /// Calls whose target is computed: through a register, or through memory at a register.
    indirect: usize,
    /// Calls through a fixed slot that the linker fills: the target is known, but far away.
    linked: usize,
    direct: usize,
    /// Read-modify-writes that other CPUs see at once.
    locked: usize,
}

/// Prints a table and demands the right number of indirect calls everywhere.
pub(crate) fn run(repo: &Repo, options: &Options) -> Result<()> {
    let path = match &options.binary {
        Some(path) => path.clone(),
        None => build(repo, options.policies)?,
    };
    let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let Some(file) = load(&bytes, &path)? else {
        return Ok(());
    };
    if !options.checks {
        loops(&file, &path, options)?;
    }
    if options.binary.is_some() || options.policies {
        return Ok(());
    }
    checks::run(&file)
}

/// Prints a table of the worker loops.
fn loops(file: &object::File<'_>, path: &Path, options: &Options) -> Result<()> {
    let slots: Vec<_> = file
        .sections()
        .filter(|section| {
            section
                .name()
                .is_ok_and(|name| [".got", ".got.plt", "__got"].contains(&name))
        })
        .map(|section| section.address()..section.address() + section.size())
        .collect();
    let is_slot = |address| slots.iter().any(|range| range.contains(&address));

    let functions: Vec<_> = code_of(file, &options.symbol)?
        .into_iter()
        .map(|(name, address, code)| (name, shape(code, address, &is_slot)))
        .collect();
    if functions.is_empty() {
        bail!(
            "no function of {} has {:?} in its name",
            path.display(),
            options.symbol
        );
    }
    println!(
        "{:>12} {:>6} {:>9} {:>7} {:>7} {:>7}  function",
        "instructions", "bytes", "indirect", "direct", "linked", "locked"
    );
    let mut wrong = Vec::new();
    for (name, shape) in functions {
        let Shape {
            instructions,
            bytes,
            indirect,
            linked,
            direct,
            locked,
        } = shape;
        println!("{instructions:>12} {bytes:>6} {indirect:>9} {direct:>7} {linked:>7} {locked:>7}  {name}");
        if indirect != options.calls {
            wrong.push(format!(
                "{name}: {indirect} indirect calls, not {}",
                options.calls
            ));
        }
    }
    run::complain("functions have the wrong number of indirect calls", &wrong)
}

/// The binary, if it is one that can be read.
fn load<'a>(bytes: &'a [u8], path: &Path) -> Result<Option<object::File<'a>>> {
    let file = object::File::parse(bytes).with_context(|| format!("{} is no binary", path.display()))?;
    if file.architecture() != Architecture::X86_64 {
        println!(
            "not looked at: this reads x86-64 code, not {:?}",
            file.architecture()
        );
        return Ok(None);
    }
    Ok(Some(file))
}

/// Name, address and code of each function with this text in its name, closures left out.
fn code_of<'a>(file: &object::File<'a>, text: &str) -> Result<Vec<(String, u64, &'a [u8])>> {
    let mut functions = Vec::new();
    for symbol in file
        .symbols()
        .filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.size() > 0)
    {
        let name = format!(
            "{:#}",
            rustc_demangle::demangle(symbol.name().unwrap_or_default())
        );
        if !name.contains(text) || name.contains("{{closure}}") {
            continue;
        }
        let Some(section) = symbol.section_index() else {
            continue;
        };
        let section = file.section_by_index(section)?;
        if let Some(code) = section.data_range(symbol.address(), symbol.size())? {
            functions.push((name, symbol.address(), code));
        }
    }
    // Names of the usual mangling leave the policy out, so the address counts, too.
    functions.sort_by(|a, b| (&a.0, a.1).cmp(&(&b.0, b.1)));
    functions.dedup_by_key(|function| function.1);
    Ok(functions)
}

fn build(repo: &Repo, policies: bool) -> Result<PathBuf> {
    let mut command = run::cargo(&repo.root);
    command.args(["build", "--release", "-p", "warpweft", "--example", EXAMPLE]);
    let mut target = repo.target.clone();
    if policies {
        target.push("asm");
        let flags = format!("{} -C symbol-mangling-version=v0", run::rustflags(None));
        command
            .env("RUSTFLAGS", flags.trim())
            .env("CARGO_TARGET_DIR", &target);
    }
    run::run(&mut command)?;
    Ok(target.join("release").join("examples").join(EXAMPLE))
}

/// `is_slot` finds the addresses that the linker fills once and for all.
fn shape(code: &[u8], address: u64, is_slot: &dyn Fn(u64) -> bool) -> Shape {
    let mut shape = Shape {
        bytes: code.len(),
        ..Shape::default()
    };
    for instruction in Decoder::with_ip(64, code, address, DecoderOptions::NONE).iter() {
        shape.instructions += 1;
        shape.locked += usize::from(is_locked(&instruction));
        match instruction.flow_control() {
            FlowControl::Call => shape.direct += 1,
            FlowControl::IndirectCall
                if instruction.is_ip_rel_memory_operand() && is_slot(instruction.ip_rel_memory_address()) =>
            {
                shape.linked += 1;
            }
            FlowControl::IndirectCall => shape.indirect += 1,
            _ => {}
        }
    }
    shape
}

/// `xchg` with memory is locked without saying so.
fn is_locked(instruction: &Instruction) -> bool {
    let exchange = instruction.mnemonic() == Mnemonic::Xchg;
    let memory = (0..instruction.op_count()).any(|i| instruction.op_kind(i) == OpKind::Memory);
    instruction.has_lock_prefix() || exchange && memory
}

#[cfg(test)]
mod tests {
    use super::{Shape, shape};

    #[test]
    fn calls_are_told_apart() {
        let code = [
            0xff, 0xd0, // call rax
            0xff, 0x50, 0x08, // call [rax + 8]
            0xff, 0x15, 0, 0, 0, 0, // call [rip + 0], which is 0x100b
            0xff, 0x15, 4, 0, 0, 0, // call [rip + 4], which is 0x1015
            0xe8, 0, 0, 0, 0, // call next
            0xf0, 0x48, 0xff, 0x00, // lock inc qword [rax]
            0x87, 0x08, // xchg [rax], ecx
            0xc3, // ret
        ];
        let want = Shape {
            instructions: 8,
            bytes: 29,
            indirect: 3,
            linked: 1,
            direct: 1,
            locked: 2,
        };
        assert_eq!(shape(&code, 0x1000, &|address| address == 0x100b), want);
    }
}
