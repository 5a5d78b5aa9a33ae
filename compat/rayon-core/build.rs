//! Cargo allows `links` only beside a build script.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
}
