//! `#[cooperative]` and `cooperate!`: which code may carry checks, and the errors for other code.

use crate::instrument::Instrument;
use crate::mode::Mode;
use proc_macro2::TokenStream;
use quote::ToTokens as _;
use syn::visit_mut::VisitMut as _;
use syn::{Error, Expr, Item, ItemFn, Signature};

/// Returns the function with checks.
///
/// # Errors
///
/// There are arguments, or the item is not a function that can have checks.
pub(crate) fn function(arguments: TokenStream, item: TokenStream) -> syn::Result<TokenStream> {
    if !arguments.is_empty() {
        return Err(Error::new_spanned(
            arguments,
            "`#[cooperative]` takes no arguments: how much may run between two switches is the runtime's to say, by `Builder::quantum`",
        ));
    }
    let mut function = match syn::parse2::<ItemFn>(item.clone()) {
        Ok(function) => function,
        Err(error) => return Err(not_a_function(item, error)),
    };
    refuse(&function.sig)?;
    let mode = Mode::of(function.sig.asyncness.is_some());
    Instrument::new(mode).body(&mut function.block);
    Ok(function.into_token_stream())
}

/// Returns the expression with checks in it: a closure's, an `async` block's, or its loops'.
///
/// # Errors
///
/// It is not an expression.
pub(crate) fn expression(tokens: TokenStream) -> syn::Result<TokenStream> {
    if tokens.is_empty() {
        return Err(Error::new(
            proc_macro2::Span::call_site(),
            "`cooperate!` wants an expression: a closure, an `async` block, a loop",
        ));
    }
    let mut expression: Expr = syn::parse2(tokens)?;
    // The macro cannot see whether an async function surrounds it: its own loops get those of a plain
    // function.
    Instrument::new(Mode::Plain).visit_expr_mut(&mut expression);
    Ok(expression.into_token_stream())
}

fn refuse(signature: &Signature) -> syn::Result<()> {
    if let Some(word) = &signature.constness {
        return Err(Error::new_spanned(
            word,
            "a `const fn` cannot be cooperative: a check reads what its thread has left",
        ));
    }
    if let Some(abi) = &signature.abi {
        let name = abi
            .name
            .as_ref()
            .map_or_else(|| String::from("C"), syn::LitStr::value);
        if name != "Rust" && !name.ends_with("-unwind") {
            return Err(Error::new_spanned(
                abi,
                "an `extern` function cannot be cooperative: a task that is cancelled is unwound, and nothing unwinds through it",
            ));
        }
    }
    Ok(())
}

/// Replaces the error by one that names the kind of the item, if it is known.
fn not_a_function(item: TokenStream, error: Error) -> Error {
    if let Ok(declared) = syn::parse2::<syn::TraitItemFn>(item.clone()) {
        return Error::new_spanned(
            declared.sig,
            "a method without a body has nothing to insert checks into: `#[cooperative]` belongs on each implementation",
        );
    }
    match syn::parse2::<Item>(item.clone()) {
        Ok(Item::Impl(_) | Item::Trait(_) | Item::Mod(_)) => Error::new_spanned(
            item,
            "`#[cooperative]` is for functions: put it on each function inside that computes for long",
        ),
        Ok(item) => Error::new_spanned(item, "`#[cooperative]` is for functions"),
        Err(_) if syn::parse2::<Expr>(item.clone()).is_ok() => Error::new_spanned(
            item,
            "`#[cooperative]` is for functions; for a closure or a block there is `warpweft::cooperate!(…)`",
        ),
        Err(_) => error,
    }
}

#[cfg(test)]
mod tests {
    use super::{expression, function};
    use proc_macro2::TokenStream;
    use quote::quote;

    fn said_of(arguments: TokenStream, item: TokenStream) -> String {
        function(arguments, item).expect_err("it cannot be").to_string()
    }

    #[test]
    fn what_cannot_be_cooperative_is_told_why() {
        let none = TokenStream::new;
        for (arguments, item, words) in [
            (
                quote!(100),
                quote!(
                    fn f() {}
                ),
                "Builder::quantum",
            ),
            (
                none(),
                quote!(
                    const fn f() {}
                ),
                "const fn",
            ),
            (
                none(),
                quote!(
                    extern "C" fn f() {}
                ),
                "extern",
            ),
            (
                none(),
                quote!(
                    extern "C" fn f() {}
                ),
                "extern",
            ),
            (
                none(),
                quote!(
                    fn f(&self);
                ),
                "without a body",
            ),
            (
                none(),
                quote!(
                    struct S;
                ),
                "is for functions",
            ),
            (none(), quote!(impl S {}), "each function inside"),
            (none(), quote!(|x| x + 1), "cooperate!"),
        ] {
            let said = said_of(arguments, item);
            assert!(said.contains(words), "{said}");
        }
        let said = expression(none())
            .expect_err("nothing is no expression")
            .to_string();
        assert!(said.contains("wants an expression"), "{said}");
    }

    #[test]
    fn an_async_function_awaits_and_another_one_does_not() {
        for (item, awaits) in [
            (
                quote!(
                    async fn f() {
                        loop {}
                    }
                ),
                true,
            ),
            (
                quote!(
                    fn f() {
                        loop {}
                    }
                ),
                false,
            ),
        ] {
            let checked = function(TokenStream::new(), item).expect("it can be").to_string();
            assert_eq!(checked.contains("await"), awaits, "{checked}");
            assert_eq!(checked.contains("expanded :: check"), !awaits, "{checked}");
        }
    }

    #[test]
    fn what_may_unwind_may_be_cooperative() {
        for item in [
            quote!(
                extern "C-unwind" fn f() {}
            ),
            quote!(
                unsafe fn f() {}
            ),
            quote!(
                pub(crate) async fn f(&self) -> u8 {
                    1
                }
            ),
        ] {
            assert!(function(TokenStream::new(), item).is_ok());
        }
    }
}
