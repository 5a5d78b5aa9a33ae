//! Lists what registers itself: each file or folder of `src/workloads` and of `src/peers` becomes a module,
//! and each `impl Program for …` and `impl Contestant for …` in it an entry of the list. It also passes the
//! versions of all packages on.

use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    let manifest = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR"));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    println!("cargo::rerun-if-changed=build.rs");
    fs::write(out.join("Cargo.lock"), lock(&manifest)).expect("OUT_DIR takes files");
    for (folder, headers, list) in [
        (
            "workloads",
            &["impl Program for ", "impl ActorProgram for "][..],
            "workloads",
        ),
        ("peers", &["impl Contestant for "], "contestants"),
    ] {
        // The simulator sees our own runtime only.
        let only =
            (folder == "peers" && env::var_os("CARGO_CFG_WARPWEFT_SIM").is_some()).then_some("warpweft");
        let text = registry(&manifest.join("src").join(folder), headers, list, only);
        fs::write(out.join(format!("{folder}.rs")), text).expect("OUT_DIR takes files");
    }
}

/// The versions of all packages: of the workspace, or of the package if it was built from a registry.
fn lock(manifest: &Path) -> String {
    let places = [manifest.join("Cargo.lock"), manifest.join("../Cargo.lock")];
    for place in places.iter().filter(|place| place.exists()) {
        println!("cargo::rerun-if-changed={}", place.display());
        if let Ok(text) = fs::read_to_string(place) {
            return text;
        }
    }
    String::new()
}

/// The modules of a folder, and a macro `list` that hands all that register themselves, or those of one
/// module, to another one.
fn registry(folder: &Path, headers: &[&str], list: &str, only: Option<&str>) -> String {
    println!("cargo::rerun-if-changed={}", folder.display());
    let (mut modules, mut entries) = (String::new(), Vec::new());
    for path in files(folder) {
        let stem = path
            .file_stem()
            .expect("a file has a name")
            .to_string_lossy()
            .into_owned();
        let file = if path.is_dir() { path.join("mod.rs") } else { path };
        if stem == "mod" || !file.exists() {
            continue;
        }
        println!("cargo::rerun-if-changed={}", file.display());
        modules.push_str(&format!("#[path = {file:?}]\npub(crate) mod {stem};\n"));
        if only.is_some_and(|only| only != stem) {
            continue;
        }
        let text = fs::read_to_string(&file).expect("a source is text");
        let name = |line: &'_ str| {
            headers
                .iter()
                .find_map(|header| line.strip_prefix(header))
                .map(str::to_owned)
        };
        let names = text.lines().filter_map(name);
        entries.extend(names.filter_map(|name| Some(format!("{stem}::{}", name.strip_suffix(" {")?))));
    }
    let entries = entries.join(", ");
    format!(
        "{modules}\n/// Hands all of them to a macro.\nmacro_rules! {list} {{\n    ($take:ident) => {{ $take!({entries}) }};\n}}\n"
    )
}

/// What is in a folder, by name.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("the folder is there");
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths.retain(|path| path.is_dir() || path.extension().is_some_and(|ending| ending == "rs"));
    paths
}
