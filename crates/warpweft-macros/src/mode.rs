//! The two forms of a check: in code that may await, and in code that may not.

use proc_macro2::{Span, TokenStream};
use quote::quote_spanned;

/// How a due check acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// It calls a function.
    Plain,
    /// It awaits.
    Async,
}

impl Mode {
    pub(crate) fn of(is_async: bool) -> Self {
        if is_async { Self::Async } else { Self::Plain }
    }

    /// Returns a check for `statements` statements.
    pub(crate) fn check(self, statements: i32) -> TokenStream {
        let span = Span::mixed_site();
        match self {
            Self::Plain => quote_spanned! { span=> ::warpweft::expanded::check(#statements); },
            Self::Async => quote_spanned! { span=>
                if ::warpweft::expanded::is_due(#statements) {
                    ::warpweft::expanded::pause().await;
                }
            },
        }
    }
}
