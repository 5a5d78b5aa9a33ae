//! The attributes of Warpweft. The crate `warpweft` re-exports and documents them.
//!
//! | file | job |
//! |---|---|
//! | `cooperative` | `#[cooperative]`, `cooperate!`: which code may carry checks, and the errors for other code |
//! | `mode` | the form of a check: in code that may await, or in code that may not |
//! | `instrument` | inserts the checks, and computes what they count |
//! | `strip` | loops over ranges, in strips with one check each |
//! | `entry` | `#[main]`, `#[test]` |
//!
//! # Invariants
//!
//! - Inserted code has the span of the macro, so that no lint reports it and it captures no name of the
//!   user's.
//! - A program with checks has the same results as without.
#![forbid(unsafe_code)]
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]
#![deny(missing_docs)]

mod cooperative;
mod entry;
mod instrument;
mod mode;
mod strip;

use proc_macro::TokenStream;

/// Inserts checks into a function: at its entry, and wherever it loops. See the module
/// `warpweft::cooperative`.
#[proc_macro_attribute]
pub fn cooperative(arguments: TokenStream, item: TokenStream) -> TokenStream {
    cooperative::function(arguments.into(), item.into())
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}

/// Inserts checks into an expression: a closure, an `async` block, a loop. See the module
/// `warpweft::cooperative`.
#[proc_macro]
pub fn cooperate(expression: TokenStream) -> TokenStream {
    cooperative::expression(expression.into())
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}

/// Runs an `async fn main` on a new runtime.
///
/// `workers = 2` and `policy = "lifo+steal=one"` configure it; without them it has the defaults of `Builder`.
/// The body runs on the thread that calls `main`, and the runtime is shut down when the body has ended. If
/// the runtime cannot be built, this panics with the reason.
#[proc_macro_attribute]
pub fn main(arguments: TokenStream, item: TokenStream) -> TokenStream {
    entry::main(arguments.into(), item.into())
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}

/// Runs an `async` test on a new runtime, with the options of `main`.
///
/// With `sim` it runs on a simulated machine, in virtual time and in an order that a seed decides:
///
/// ```text
/// #[warpweft::test(sim, seed = 7, workers = 4)]
/// async fn an_hour_passes_at_once() {
///     warpweft::time::sleep(Duration::from_secs(3600)).await;
/// }
/// ```
///
/// - `seed = 7` is the seed, or the first one; without it 0.
/// - `seeds = 100` runs so many seeds in turn; without it one.
/// - `machine = "epyc-7702x2"` names a built-in machine; without it `"desktop"`.
///
/// A run that fails prints its seed. The variable `WARPWEFT_SIM_SEED` sets one seed in place of those of the
/// attribute, to repeat that run. A simulated test returns nothing, since only a panic ends a run. It
/// needs `RUSTFLAGS="--cfg warpweft_sim"`, and is ignored in other builds.
#[proc_macro_attribute]
pub fn test(arguments: TokenStream, item: TokenStream) -> TokenStream {
    entry::test(arguments.into(), item.into())
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}
