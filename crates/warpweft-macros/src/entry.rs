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
    /// The word `sim`.
    sim: Option<Ident>,
    seed: Option<LitInt>,
    seeds: Option<LitInt>,
    machine: Option<LitStr>,
    /// The first option that only a simulated test has.
    of_sim: Option<Ident>,
}

impl Parse for Options {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut options = Self::default();
        while !input.is_empty() {
            let name: Ident = input.parse()?;
            let said = if name == "sim" && !input.peek(Token![=]) {
                options.sim.replace(name.clone()).is_some()
            } else {
                options.value(&name, input)?
            };
            if said {
                return Err(Error::new(name.span(), format!("`{name}` is said twice")));
            }
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        match options.of_sim {
            Some(of_sim) if options.sim.is_none() => Err(Error::new(
                of_sim.span(),
                format!("`{of_sim}` is for simulated tests: `#[warpweft::test(sim, {of_sim} = …)]`"),
            )),
            _ => Ok(options),
        }
    }
}

impl Options {
    /// Reads `= value` for an option. Returns true if it had a value.
    fn value(&mut self, name: &Ident, input: ParseStream<'_>) -> syn::Result<bool> {
        let text = name.to_string();
        let known = ["workers", "policy", "seed", "seeds", "machine"].contains(&text.as_str());
        if !known || !input.peek(Token![=]) {
            return Err(Error::new(
                name.span(),
                format!(
                    "`{name}`? There are `workers = 2` and `policy = \"lifo+steal=one\"`, and for tests `sim` with \
                     `seed = 7`, `seeds = 100` and `machine = \"desktop\"`; `Runtime::builder` has more"
                ),
            ));
        }
        input.parse::<Token![=]>()?;
        if ["seed", "seeds", "machine"].contains(&text.as_str()) {
            self.of_sim.get_or_insert_with(|| name.clone());
        }
        Ok(match text.as_str() {
            "workers" => self.workers.replace(workers(input)?).is_some(),
            "policy" => self.policy.replace(policy(input)?).is_some(),
            "seed" => self.seed.replace(seed(input)?).is_some(),
            "seeds" => self.seeds.replace(seeds(input)?).is_some(),
            _ => self.machine.replace(machine(input)?).is_some(),
        })
    }
}

fn seed(input: ParseStream<'_>) -> syn::Result<LitInt> {
    let wrong = |error: Error| Error::new(error.span(), "`seed` is a number of 64 bits, such as `seed = 7`");
    let number: LitInt = input.parse().map_err(wrong)?;
    number.base10_parse::<u64>().map_err(wrong)?;
    Ok(number)
}

fn seeds(input: ParseStream<'_>) -> syn::Result<LitInt> {
    let wrong = |error: Error| {
        Error::new(
            error.span(),
            "`seeds` is how many are tried, such as `seeds = 100`",
        )
    };
    let number: LitInt = input.parse().map_err(wrong)?;
    if number.base10_parse::<u64>().map_err(wrong)? == 0 {
        return Err(Error::new(number.span(), "a test with no seed tests nothing"));
    }
    Ok(number)
}

fn machine(input: ParseStream<'_>) -> syn::Result<LitStr> {
    let text: LitStr = input.parse().map_err(|error| {
        Error::new(
            error.span(),
            "`machine` is the name of a built-in one, such as `machine = \"desktop\"`",
        )
    })?;
    if text.value().trim().is_empty() {
        return Err(Error::new(
            text.span(),
            "an empty text names no machine; leave `machine` away for the usual one",
        ));
    }
    Ok(text)
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
    let (function, sim) = around(arguments, item, "main")?;
    if let Some(sim) = sim {
        return Err(Error::new(
            sim.span(),
            "`sim` is for tests; a program of its own runs inside of `warpweft::sim::run`",
        ));
    }
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
    let (function, sim) = around(arguments, item, "test")?;
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
    let span = Span::mixed_site();
    // The library knows how it was built, and leaves a simulated test out of other builds.
    Ok(match sim {
        Some(_) => quote_spanned! { span=> ::warpweft::__simulated_test! { #function } },
        None => quote_spanned! { span=> #[::core::prelude::v1::test] #function },
    })
}

/// Returns the function without `async`, with its body on a runtime, and the word `sim` if it was there.
fn around(
    arguments: TokenStream,
    item: TokenStream,
    attribute: &str,
) -> syn::Result<(ItemFn, Option<Ident>)> {
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
    if options.sim.is_some() && !matches!(signature.output, syn::ReturnType::Default) {
        return Err(Error::new_spanned(
            &signature.output,
            "a simulated test returns nothing: a failure is a panic, and the panic prints the seed",
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
    // An inner function gives `?` and `return` the type that they need. Hygiene does not cover the names of
    // functions, so it has one that hides none of the program's.
    let entered = if options.sim.is_some() {
        let (seed, seeds) = (option(options.seed.as_ref()), option(options.seeds.as_ref()));
        let machine = option(options.machine.as_ref());
        let name = function.sig.ident.to_string();
        let name = quote_spanned! { span=> ::core::concat!(::core::module_path!(), "::", #name) };
        quote_spanned! { span=>
            ::warpweft::expanded::simulate(#name, #machine, (#seed, #seeds), (#workers, #policy), __warpweft_body)
        }
    } else {
        quote_spanned! { span=> ::warpweft::expanded::enter(#workers, #policy, __warpweft_body()) }
    };
    let block = quote_spanned! { span=> {
        async fn __warpweft_body() -> #output #body
        #entered
    } };
    function.block = syn::parse2(block)?;
    Ok((function, options.sim))
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
            (quote!(sim), fine.clone(), "for tests"),
            (quote!(sim = 3), fine.clone(), "`sim`?"),
            (quote!(sim, sim), fine.clone(), "twice"),
            (quote!(seed = 7), fine.clone(), "sim, seed = …"),
            (quote!(seeds = 7), fine.clone(), "sim, seeds = …"),
            (quote!(machine = "desktop"), fine.clone(), "sim, machine = …"),
            (quote!(sim, seed = "7"), fine.clone(), "such as `seed = 7`"),
            (quote!(sim, seed = -7), fine.clone(), "such as `seed = 7`"),
            (quote!(sim, seed = 18446744073709551616), fine.clone(), "64 bits"),
            (quote!(sim, seeds = 0), fine.clone(), "tests nothing"),
            (quote!(sim, seeds = "a"), fine.clone(), "how many"),
            (quote!(sim, machine = 2), fine.clone(), "built-in"),
            (quote!(sim, machine = ""), fine.clone(), "names no machine"),
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
        let returns = quote!(
            async fn it() -> Result<(), String> {}
        );
        let said = test(quote!(sim), returns).expect_err("it returns").to_string();
        assert!(said.contains("prints the seed"), "{said}");
        let twice = quote!(
            #[test]
            async fn it() {}
        );
        let said = test(TokenStream::new(), twice)
            .expect_err("two tests")
            .to_string();
        assert!(said.contains("enough"), "{said}");
        assert!(main(quote!(workers = 2, policy = "lifo"), fine.clone()).is_ok());
        let simulated = quote!(sim, seed = 7, seeds = 100, machine = "desktop", workers = 2);
        let text = test(simulated, fine).expect("it is right").to_string();
        assert!(text.contains("__simulated_test"), "{text}");
    }
}
