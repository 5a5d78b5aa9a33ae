//! Inserts the checks, and computes what they count.
//!
//! ```text
//!   fn f() {            check(3)   entry: the statements that are in no loop
//!       a; b;
//!       while c {       check(2)   each way back, `continue` too, leads through the head of the body
//!           d;
//!       }
//!       for i in 0..n { e; }       a strip of it at a time: strip.rs
//!   }
//! ```
//!
//! A check takes the number of statements up to the next checks: each statement counts one, in whichever
//! branch it is, and each iteration of a loop one more. The expansion of a macro call cannot be seen here: it
//! counts one, and has no checks.

use crate::mode::Mode;
use crate::strip;
use proc_macro2::Span;
use syn::parse_quote_spanned;
use syn::visit_mut::{self, VisitMut};
use syn::{Block, Expr, ExprAsync, ExprClosure, GenericArgument, Item, Pat, Path, Stmt, Type};

/// Inserts checks into the syntax that it visits.
pub(crate) struct Instrument {
    mode: Mode,
    /// The number of statements since the last check that counts the following ones.
    seen: i32,
}

impl Instrument {
    pub(crate) fn new(mode: Mode) -> Self {
        Self { mode, seen: 0 }
    }

    /// Instruments the body of a function: a check at the entry, and those of its loops.
    pub(crate) fn body(&mut self, block: &mut Block) {
        let statements = self.counted(|this| this.visit_block_mut(block));
        self.open(block, statements);
    }

    /// Returns the statements that `visit` sees, counted separately.
    fn counted(&mut self, visit: impl FnOnce(&mut Self)) -> i32 {
        let before = std::mem::take(&mut self.seen);
        visit(self);
        std::mem::replace(&mut self.seen, before).max(1)
    }

    fn open(&self, block: &mut Block, statements: i32) {
        let check = self.mode.check(statements);
        block
            .stmts
            .insert(0, parse_quote_spanned! { Span::mixed_site()=> { #check } });
    }

    /// Instruments the body of a loop that is checked at each iteration.
    fn turn(&mut self, body: &mut Block) {
        let statements = self.turns(body);
        self.open(body, statements);
    }

    /// Returns the number of statements of one iteration.
    fn turns(&mut self, body: &mut Block) -> i32 {
        self.counted(|this| this.visit_block_mut(body)).saturating_add(1)
    }

    fn apart(&mut self, mode: Mode, visit: impl FnOnce(&mut Self)) {
        let before = std::mem::replace(&mut self.mode, mode);
        self.counted(visit);
        self.mode = before;
    }
}

impl VisitMut for Instrument {
    fn visit_stmt_mut(&mut self, statement: &mut Stmt) {
        if !matches!(statement, Stmt::Item(_)) {
            self.seen = self.seen.saturating_add(1);
        }
        visit_mut::visit_stmt_mut(self, statement);
    }

    fn visit_expr_mut(&mut self, expression: &mut Expr) {
        match expression {
            Expr::Loop(it) => self.turn(&mut it.body),
            Expr::While(it) => {
                self.visit_expr_mut(&mut it.cond);
                self.turn(&mut it.body);
            }
            Expr::ForLoop(it) => {
                self.visit_expr_mut(&mut it.expr);
                if strip::fits(it) {
                    let statements = self.turns(&mut it.body);
                    *expression = strip::in_strips(it, self.mode, statements);
                } else {
                    self.turn(&mut it.body);
                }
            }
            // The compiler computes constants and the lengths of arrays.
            Expr::Const(_) => {}
            Expr::Repeat(it) => self.visit_expr_mut(&mut it.expr),
            other => visit_mut::visit_expr_mut(self, other),
        }
    }

    fn visit_expr_closure_mut(&mut self, closure: &mut ExprClosure) {
        self.apart(
            Mode::of(closure.asyncness.is_some()),
            |this| match &mut *closure.body {
                // A closure that is only an expression usually goes to an iterator adaptor: a check would
                // keep its loop from being vectorised.
                Expr::Block(it) if it.label.is_none() => this.body(&mut it.block),
                other => this.visit_expr_mut(other),
            },
        );
    }

    fn visit_expr_async_mut(&mut self, block: &mut ExprAsync) {
        self.apart(Mode::Async, |this| this.visit_block_mut(&mut block.block));
    }

    // Inner functions have their own attributes. Other items, types, paths, patterns and the constants among
    // generic arguments contain nothing that runs.
    fn visit_item_mut(&mut self, _: &mut Item) {}
    fn visit_type_mut(&mut self, _: &mut Type) {}
    fn visit_path_mut(&mut self, _: &mut Path) {}
    fn visit_pat_mut(&mut self, _: &mut Pat) {}
    fn visit_generic_argument_mut(&mut self, _: &mut GenericArgument) {}
}

#[cfg(test)]
mod tests {
    use super::{Instrument, Mode};
    use quote::{ToTokens as _, quote};
    use syn::{Block, parse_quote};

    /// Returns what the checks of the instrumented block take, in the order of the text.
    fn costs(mode: Mode, mut block: Block) -> Vec<i32> {
        Instrument::new(mode).body(&mut block);
        let text = block.into_token_stream().to_string().replace(' ', "");
        assert_eq!(
            text.contains("await"),
            mode == Mode::Async,
            "no check of the other mode in {text}"
        );
        text.split("::warpweft::expanded::")
            .filter_map(|part| {
                let part = part
                    .strip_prefix("check(")
                    .or_else(|| part.strip_prefix("is_due("))
                    .or_else(|| part.strip_prefix("strip(&mutrest,"))?;
                part.split("i32").next()?.parse().ok()
            })
            .collect()
    }

    #[test]
    fn statements_are_counted_where_they_stand() {
        for mode in [Mode::Plain, Mode::Async] {
            assert_eq!(
                costs(
                    mode,
                    parse_quote!({
                        a();
                        b();
                        c()
                    })
                ),
                [3]
            );
            // Both branches, and the `if` itself.
            assert_eq!(
                costs(
                    mode,
                    parse_quote!({
                        if a {
                            b();
                            c();
                        } else {
                            d();
                        }
                    })
                ),
                [4]
            );
            // The loop is a statement of its surroundings; an iteration is its statements and one more.
            assert_eq!(
                costs(
                    mode,
                    parse_quote!({
                        a();
                        while b {
                            c();
                            d();
                        }
                        e();
                    })
                ),
                [3, 3]
            );
            assert_eq!(costs(mode, parse_quote!({ loop {} })), [1, 2]);
            assert_eq!(
                costs(
                    mode,
                    parse_quote!({
                        for x in y {
                            loop {
                                break;
                            }
                            z();
                        }
                    })
                ),
                [1, 3, 2]
            );
            assert_eq!(costs(mode, parse_quote!({})), [1]);
        }
    }

    #[test]
    fn a_check_stands_before_what_it_counts() {
        let mut block: Block = parse_quote!({
            while a() {
                if b() {
                    continue;
                }
                c();
            }
        });
        Instrument::new(Mode::Plain).body(&mut block);
        let text = block.into_token_stream().to_string().replace(' ', "");
        let at = |what: &str| text.find(what).expect("it is there");
        assert!(at("check(1i32)") < at("whilea()"), "{text}");
        assert!(at("check(4i32)") < at("continue"), "{text}");
    }

    #[test]
    fn what_does_not_run_here_has_no_checks() {
        let block = parse_quote!({
            const N: usize = {
                let mut n = 0;
                while n < 3 {
                    n += 1;
                }
                n
            };
            fn inner() {
                loop {}
            }
            let a = [0; {
                let mut n = 0;
                while n < 3 {
                    n += 1;
                }
                n
            }];
            let b: [u8; {
                loop {
                    break 3;
                }
            }];
            f::<
                {
                    loop {
                        break 4;
                    }
                },
            >(
                const {
                    loop {
                        break 5;
                    }
                },
            );
            x.f::<{
                loop {
                    break 6;
                }
            }>();
        });
        assert_eq!(costs(Mode::Plain, block), [4]);
    }

    #[test]
    fn closures_and_async_blocks_are_as_they_are() {
        let block = parse_quote!({
            f(|x| x + 1);
            g(|x| {
                loop {
                    h(x);
                }
            });
        });
        assert_eq!(costs(Mode::Plain, block), [2, 1, 2]);
        let mut block: Block = parse_quote!({
            f(async {
                loop {
                    g();
                }
            });
            loop {}
        });
        Instrument::new(Mode::Plain).body(&mut block);
        let text = block.into_token_stream().to_string();
        let awaited = quote!(if ::warpweft::expanded::is_due(2i32)).to_string();
        assert!(text.contains(&awaited), "{text}");
        assert_eq!(text.matches("await").count(), 1, "{text}");
        // And the other way round: a plain closure cannot await.
        let mut block: Block = parse_quote!({
            f(|| {
                loop {
                    g();
                }
            });
        });
        Instrument::new(Mode::Async).body(&mut block);
        let text = block.into_token_stream().to_string();
        assert_eq!(text.matches("await").count(), 1, "its own entry: {text}");
        assert_eq!(text.matches("expanded :: check").count(), 2, "{text}");
    }
}
