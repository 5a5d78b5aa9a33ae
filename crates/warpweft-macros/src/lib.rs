//! The attributes of Warpweft. They are re-exported, and documented, by the crate `warpweft`.
//!
//! | file | job |
//! |---|---|
//! | `cooperative` | `#[cooperative]`, `cooperate!`: what may carry checks, and what is said of what may not |
//! | `instrument` | where the checks go, and what they count |
//! | `strip` | loops over ranges, in strips with one check each |
//! | `entry` | `#[main]`, `#[test]` |
//!
//! # Invariants
//!
//! - What is inserted has the span of the macro, so that no lint speaks of it and no name of the user's is
//!   captured.
//! - A program with checks computes what it computes without.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod cooperative;
mod entry;
mod instrument;
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

/// Runs an `async fn main` on a runtime of its own.
///
/// `workers = 2` and `policy = "lifo+steal=one"` say which one; without them it is as `Builder` builds it.
/// The body runs on the thread that calls `main`; the runtime is shut down when it has ended. A runtime that
/// cannot be built is a panic that says why.
#[proc_macro_attribute]
pub fn main(arguments: TokenStream, item: TokenStream) -> TokenStream {
    entry::main(arguments.into(), item.into())
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}

/// Runs an `async` test on a runtime of its own, with the options of `main`.
#[proc_macro_attribute]
pub fn test(arguments: TokenStream, item: TokenStream) -> TokenStream {
    entry::test(arguments.into(), item.into())
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}
