//! `#[main]` and `#[test]`: a runtime around an `async fn`.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote_spanned};
use syn::parse::{Parse, ParseStream};
use syn::{Error, Ident, ItemFn, LitInt, LitStr, Token};

/// The options of the attribute.
#[derive(Default)]
struct Options {
    workers: Option<LitInt>,
    policy: Option<LitStr>,
}

impl Parse for Options {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut options = Self::default();
        while !input.is_empty() {
            let name: Ident = input.parse()?;
            let known = name == "workers" || name == "policy";
            if !known || !input.peek(Token![=]) {
                return Err(Error::new(
                    name.span(),
                    format!(
                        "`{name}`? There are `workers = 2` and `policy = \"lifo+steal=one\"`; `Runtime::builder` has more"
                    ),
                ));
            }
            input.parse::<Token![=]>()?;
            let said = if name == "workers" {
                options.workers.replace(workers(input)?).is_some()
            } else {
                options.policy.replace(policy(input)?).is_some()
            };
            if said {
                return Err(Error::new(name.span(), format!("`{name}` is said twice")));
            }
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(options)
    }
}

fn workers(input: ParseStream<'_>) -> syn::Result<LitInt> {
    let number: LitInt = input
        .parse()
        .map_err(|error| Error::new(error.span(), "`workers` is a number, such as `workers = 2`"))?;
    if number.base10_parse::<usize>()? == 0 {
        return Err(Error::new(number.span(), "a runtime has at least one worker"));
    }
    Ok(number)
}

fn policy(input: ParseStream<'_>) -> syn::Result<LitStr> {
    let text: LitStr = input.parse().map_err(|error| {
        Error::new(
            error.span(),
            "`policy` is a text, such as `policy = \"lifo+steal=one\"`",
        )
    })?;
    if text.value().trim().is_empty() {
        return Err(Error::new(
            text.span(),
            "an empty text names no policy; leave `policy` away for the usual one",
        ));
    }
    Ok(text)
}

/// # Errors
///
/// It is not an `async fn` without arguments, or the options are wrong.
pub(crate) fn main(arguments: TokenStream, item: TokenStream) -> syn::Result<TokenStream> {
    let function = around(arguments, item, "main")?;
    if function.sig.ident != "main" {
        return Err(Error::new(
            function.sig.ident.span(),
            "`#[warpweft::main]` is for `async fn main`; elsewhere build a `Runtime` and `block_on` it",
        ));
    }
    Ok(function.into_token_stream())
}

/// # Errors
///
/// As for [`main`].
pub(crate) fn test(arguments: TokenStream, item: TokenStream) -> syn::Result<TokenStream> {
    let function = around(arguments, item, "test")?;
    let again = |path: &syn::Path| {
        path.segments
            .last()
            .is_some_and(|segment| segment.ident == "test")
    };
    if let Some(attribute) = function.attrs.iter().find(|attribute| again(attribute.path())) {
        return Err(Error::new_spanned(
            attribute,
            "`#[warpweft::test]` makes the function a test already: one of the two is enough",
        ));
    }
    Ok(quote_spanned! { Span::mixed_site()=>
        #[::core::prelude::v1::test]
        #function
    })
}

/// Returns the function without `async`, with its body on a runtime.
fn around(arguments: TokenStream, item: TokenStream, attribute: &str) -> syn::Result<ItemFn> {
    let options: Options = syn::parse2(arguments)?;
    let mut function: ItemFn = syn::parse2(item)?;
    let signature = &mut function.sig;
    if signature.asyncness.take().is_none() {
        return Err(Error::new(
            signature.fn_token.span,
            format!(
                "`#[warpweft::{attribute}]` is for an `async fn`; in direct style say `Runtime::spawn_fiber` in a plain one"
            ),
        ));
    }
    if !signature.inputs.is_empty() {
        return Err(Error::new_spanned(
            &signature.inputs,
            format!("no caller gives arguments to a function with `#[warpweft::{attribute}]`"),
        ));
    }
    if !signature.generics.params.is_empty() {
        return Err(Error::new_spanned(
            &signature.generics,
            format!("no caller says what they are in a function with `#[warpweft::{attribute}]`"),
        ));
    }
    let span = Span::mixed_site();
    let workers = option(options.workers.as_ref());
    let policy = option(options.policy.as_ref());
    let output = match &signature.output {
        syn::ReturnType::Default => quote_spanned! { span=> () },
        syn::ReturnType::Type(_, output) => output.to_token_stream(),
    };
    let body = &function.block;
    // An inner function gives `?` and `return` the type that they need.
    let block = quote_spanned! { span=> {
        async fn body() -> #output #body
        ::warpweft::expanded::enter(#workers, #policy, body())
    } };
    function.block = syn::parse2(block)?;
    Ok(function)
}

fn option(value: Option<&impl ToTokens>) -> TokenStream {
    let span = Span::mixed_site();
    match value {
        Some(value) => quote_spanned! { span=> ::core::option::Option::Some(#value) },
        None => quote_spanned! { span=> ::core::option::Option::None },
    }
}

#[cfg(test)]
mod tests {
    use super::{main, test};
    use proc_macro2::TokenStream;
    use quote::quote;

    #[test]
    fn mistakes_are_told() {
        let fine = quote!(
            async fn main() {}
        );
        for (arguments, item, words) in [
            (quote!(workers = 0), fine.clone(), "at least one worker"),
            (quote!(workers = "2"), fine.clone(), "is a number"),
            (quote!(policy = 2), fine.clone(), "is a text"),
            (quote!(policy = " "), fine.clone(), "names no policy"),
            (quote!(threads = 2), fine.clone(), "`threads`?"),
            (quote!(workers), fine.clone(), "workers = 2"),
            (quote!(workers = 1, workers = 2), fine.clone(), "twice"),
            (
                TokenStream::new(),
                quote!(
                    fn main() {}
                ),
                "async fn",
            ),
            (
                TokenStream::new(),
                quote!(
                    async fn main(n: u8) {}
                ),
                "arguments",
            ),
            (
                TokenStream::new(),
                quote!(
                    async fn main<T>() {}
                ),
                "what they are",
            ),
            (
                TokenStream::new(),
                quote!(
                    async fn other() {}
                ),
                "async fn main",
            ),
        ] {
            let said = main(arguments, item).expect_err("it is wrong").to_string();
            assert!(said.contains(words), "{said}");
        }
        let twice = quote!(
            #[test]
            async fn it() {}
        );
        let said = test(TokenStream::new(), twice)
            .expect_err("two tests")
            .to_string();
        assert!(said.contains("enough"), "{said}");
        assert!(main(quote!(workers = 2, policy = "lifo"), fine).is_ok());
    }
}
