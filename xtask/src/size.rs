//! The inventory of `unsafe`: how much of it there is, and where.

use crate::repo::{self, Repo};
use crate::source;
use anyhow::Result;
use std::ops::AddAssign;
use syn::visit::{self, Visit};

/// How often each form of `unsafe` occurs, tests included.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Count {
    blocks: usize,
    functions: usize,
    impls: usize,
    traits: usize,
    /// Lines of the file: what the rest is measured against.
    lines: usize,
}

impl Count {
    fn is_safe(self) -> bool {
        self.blocks + self.functions + self.impls + self.traits == 0
    }
}

impl AddAssign for Count {
    fn add_assign(&mut self, other: Self) {
        self.blocks += other.blocks;
        self.functions += other.functions;
        self.impls += other.impls;
        self.traits += other.traits;
        self.lines += other.lines;
    }
}

impl<'ast> Visit<'ast> for Count {
    fn visit_expr_unsafe(&mut self, block: &'ast syn::ExprUnsafe) {
        self.blocks += 1;
        visit::visit_expr_unsafe(self, block);
    }

    fn visit_signature(&mut self, signature: &'ast syn::Signature) {
        self.functions += usize::from(signature.unsafety.is_some());
        visit::visit_signature(self, signature);
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        self.impls += usize::from(item.unsafety.is_some());
        visit::visit_item_impl(self, item);
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.traits += usize::from(item.unsafety.is_some());
        visit::visit_item_trait(self, item);
    }
}

/// Prints the inventory.
pub(crate) fn run(repo: &Repo) -> Result<()> {
    println!(
        "{:58} {:>7} {:>7} {:>7} {:>7} {:>7}",
        "", "blocks", "fns", "impls", "traits", "lines"
    );
    let mut all = Count::default();
    for package in repo.packages() {
        let mut sum = Count::default();
        let mut rows = Vec::new();
        for path in repo.files(&repo::folder(package).join("src"), "rs")? {
            let mut count = Count {
                lines: std::fs::read_to_string(&path)?.lines().count(),
                ..Count::default()
            };
            count.visit_file(&source::parse(&path)?);
            sum += count;
            if !count.is_safe() {
                rows.push(row(&format!("  {}", repo.show(&path)), count));
            }
        }
        println!("{}", row(&package.name, sum));
        rows.iter().for_each(|row| println!("{row}"));
        all += sum;
    }
    println!("{}", row("all", all));
    Ok(())
}

fn row(name: &str, count: Count) -> String {
    let Count {
        blocks,
        functions,
        impls,
        traits,
        lines,
    } = count;
    format!("{name:58} {blocks:>7} {functions:>7} {impls:>7} {traits:>7} {lines:>7}")
}

#[cfg(test)]
mod tests {
    use super::Count;
    use syn::visit::Visit as _;

    #[test]
    fn every_form_is_counted() {
        let text = "unsafe trait T { unsafe fn t(); } unsafe impl T for () { unsafe fn t() { unsafe { g(); } } } fn f() { unsafe { g() } }";
        let mut count = Count::default();
        count.visit_file(&syn::parse_file(text).unwrap());
        assert_eq!(
            count,
            Count {
                blocks: 2,
                functions: 2,
                impls: 1,
                traits: 1,
                lines: 0
            }
        );
    }
}
