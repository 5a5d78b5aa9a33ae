//! Loops over ranges, in strips: each strip has as many iterations as the budget allows, and one check.
//!
//! ```text
//!   for i in a..b { body }   ──▶   match a..b {
//!                                      mut rest => while let Some(strip) = strip(&mut rest, cost) {
//!                                          for i in strip { body }      // may be vectorised
//!                                          check, unless that was all
//!                                      }
//!                                  }
//! ```
//!
//! Only a loop that makes all its iterations may be cut. A `break` would end a strip instead of the loop, and
//! the budget for the other iterations would be lost. So nothing in the body may leave it, wait, or loop (the
//! checks of an inner loop count instead).
//!
//! The expansion of a macro cannot be seen. Calls by the bare name of a macro of the standard library are
//! taken for that one, so a program's macro of the same name must not leave the loop.

use crate::mode::Mode;
use proc_macro2::{Span, TokenStream, TokenTree};
use quote::quote_spanned;
use syn::visit::{self, Visit};
use syn::{Block, Expr, ExprContinue, ExprForLoop, Lifetime, Macro, Path, RangeLimits, parse_quote_spanned};

/// Macros of the standard library that do not leave a loop.
const TAME: [&str; 16] = [
    "assert",
    "assert_eq",
    "assert_ne",
    "debug_assert",
    "debug_assert_eq",
    "debug_assert_ne",
    "eprint",
    "eprintln",
    "format",
    "matches",
    "panic",
    "print",
    "println",
    "unreachable",
    "vec",
    "write",
];

/// Returns true if the loop may be cut into strips.
pub(crate) fn fits(it: &ExprForLoop) -> bool {
    let mut header = &*it.expr;
    while let Expr::Paren(inner) = header {
        header = &inner.expr;
    }
    let Expr::Range(range) = header else {
        return false;
    };
    let bounded =
        matches!(range.limits, RangeLimits::HalfOpen(_)) && range.start.is_some() && range.end.is_some();
    bounded && stays(&it.body, it.label.as_ref().map(|label| &label.name))
}

/// Returns the same loop in strips, whose iterations count `statements` statements each.
pub(crate) fn in_strips(it: &ExprForLoop, mode: Mode, statements: i32) -> Expr {
    let ExprForLoop {
        attrs,
        label,
        pat,
        expr,
        body,
        ..
    } = it;
    let check = mode.check(1);
    // A `match` keeps the temporaries of the header until the loop has ended, as `for` does.
    let strips = quote_spanned! { Span::mixed_site()=>
        #(#attrs)*
        match #expr {
            mut rest => while let ::core::option::Option::Some(strip) = ::warpweft::expanded::strip(&mut rest, #statements) {
                #label for #pat in strip #body
                if rest.start < rest.end {
                    #check
                }
            }
        }
    };
    parse_quote_spanned! { Span::mixed_site()=> #strips }
}

/// Returns true if nothing in the body leaves it before its end, waits, or loops.
fn stays(body: &Block, label: Option<&Lifetime>) -> bool {
    let mut look = BodyCheck { label, stays: true };
    look.visit_block(body);
    look.stays
}

struct BodyCheck<'a> {
    label: Option<&'a Lifetime>,
    stays: bool,
}

impl<'ast> Visit<'ast> for BodyCheck<'_> {
    fn visit_expr(&mut self, expression: &'ast Expr) {
        match expression {
            Expr::Await(_)
            | Expr::Break(_)
            | Expr::ForLoop(_)
            | Expr::Loop(_)
            | Expr::Return(_)
            | Expr::Try(_)
            | Expr::Verbatim(_)
            | Expr::While(_)
            | Expr::Yield(_) => self.stays = false,
            Expr::Continue(ExprContinue { label: Some(to), .. }) => self.stays &= self.label == Some(to),
            other => visit::visit_expr(self, other),
        }
    }

    fn visit_macro(&mut self, call: &'ast Macro) {
        self.stays &= is_tame(&call.path) && !may_leave(call.tokens.clone());
    }
}

/// Returns true if a macro of that name is one of the standard library, and does not leave a loop.
fn is_tame(path: &Path) -> bool {
    let names: Vec<_> = path
        .segments
        .iter()
        .map(|segment| segment.ident.to_string())
        .collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    matches!(&names[..], [name] | ["std" | "core" | "alloc", name] if TAME.contains(name))
}

/// Returns true if the arguments of a macro contain anything that may leave a loop.
fn may_leave(tokens: TokenStream) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Group(group) => may_leave(group.stream()),
        TokenTree::Ident(word) => {
            ["await", "break", "continue", "for", "loop", "return", "while"].contains(&&*word.to_string())
        }
        TokenTree::Punct(mark) => mark.as_char() == '?' || mark.as_char() == '!',
        TokenTree::Literal(_) => false,
    })
}

#[cfg(test)]
mod tests {
    use super::fits;
    use syn::{ExprForLoop, parse_quote};

    #[test]
    fn loops_that_make_all_their_turns_are_cut() {
        let loops: [ExprForLoop; 7] = [
            parse_quote!(for i in 0..n {
                a(i);
            }),
            parse_quote!(for i in (0..n) {
                if odd(i) {
                    continue;
                }
                a(i);
            }),
            parse_quote!('l: for i in 0..n {
                if odd(i) {
                    continue 'l;
                }
            }),
            parse_quote!(for _ in lo()..hi() {
                assert_eq!(a, b, "text");
            }),
            parse_quote!(for _ in 0..n {
                ::std::println!("{}", a);
            }),
            parse_quote!(for i in 0..n {
                sum += unsafe { *at.add(i) };
            }),
            parse_quote!(for i in 0..n {
                f(|x| x + i);
            }),
        ];
        for it in &loops {
            assert!(fits(it));
        }
    }

    #[test]
    fn others_are_not() {
        let loops: [ExprForLoop; 15] = [
            parse_quote!(for i in v {
                a(i);
            }),
            parse_quote!(for i in 0..=n {
                a(i);
            }),
            parse_quote!(for i in 0.. {
                a(i);
            }),
            parse_quote!(for i in 0..n {
                if odd(i) {
                    break;
                }
            }),
            parse_quote!(for i in 0..n {
                if odd(i) {
                    return;
                }
            }),
            parse_quote!(for i in 0..n {
                a(i)?;
            }),
            parse_quote!(for i in 0..n {
                a(i).await;
            }),
            parse_quote!(for i in 0..n {
                if odd(i) {
                    continue 'outer;
                }
            }),
            parse_quote!(for i in 0..n {
                loop {
                    a(i);
                }
            }),
            parse_quote!(for i in 0..n {
                while a(i) {}
            }),
            parse_quote!(for i in 0..n {
                for j in 0..n {
                    a(i);
                }
            }),
            parse_quote!(for i in 0..n {
                custom!(i);
            }),
            parse_quote!(for i in 0..n {
                my::write!(i);
            }),
            parse_quote!(for i in 0..n {
                println!("{}", { break });
            }),
            parse_quote!(for i in 0..n {
                assert!(custom!(i));
            }),
        ];
        for it in &loops {
            assert!(!fits(it));
        }
    }
}
