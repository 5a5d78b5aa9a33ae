//! Tests of the code in the READMEs of the crates. The examples themselves are the binaries of this package.
//!
//! `cargo test -p warpweft-examples --doc` compiles and runs the code in them.

/// Makes the code of each README a documentation test.
#[cfg(doctest)]
macro_rules! readmes {
    ($($name:ident $path:literal)*) => {$(
        #[doc = include_str!($path)]
        mod $name {}
    )*};
}

#[cfg(doctest)]
readmes! {
    warpweft "../../crates/warpweft/README.md"
    conformance "../../crates/warpweft-conformance/README.md"
    macros "../../crates/warpweft-macros/README.md"
    platform "../../crates/warpweft-platform/README.md"
    policy "../../crates/warpweft-policy/README.md"
    queue "../../crates/warpweft-queue/README.md"
    task "../../crates/warpweft-task/README.md"
    metrics "../../compat/warpweft-metrics/README.md"
    tokio "../../compat/warpweft-tokio/README.md"
}
