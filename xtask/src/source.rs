//! Rust files as syntax trees: the paths that they name, outside of their tests.

use anyhow::{Context as _, Result};
use proc_macro2::{Span, TokenStream, TokenTree};
use std::fs;
use std::path::Path;
use syn::visit::{self, Visit};

/// Parses a file.
pub(crate) fn parse(path: &Path) -> Result<syn::File> {
    let text = fs::read_to_string(path)?;
    syn::parse_file(&text).with_context(|| format!("cannot parse {}", path.display()))
}

/// A path that a file names, as `a::b::c`, and its line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) path: String,
    pub(crate) line: usize,
}

/// All paths of a file: in `use`, in types and expressions, and in the arguments of macros. Items under
/// `cfg(test)` are left out, and so are documentation and attributes.
pub(crate) fn paths(file: &syn::File) -> Vec<Named> {
    let mut finder = Finder::default();
    finder.visit_file(file);
    finder.found
}

/// The paths among any tokens, as macros take them: runs of `name :: name`, and where each begins.
pub(crate) fn paths_of_tokens(tokens: TokenStream) -> Vec<(Vec<String>, Span)> {
    let mut found: Vec<(Vec<String>, Span)> = Vec::new();
    // How many colons there are since a name, if nothing else is behind it.
    let mut colons = None;
    for token in tokens {
        colons = match token {
            TokenTree::Punct(punct) if punct.as_char() == ':' => colons.map(|colons| colons + 1),
            TokenTree::Ident(name) => {
                match found.last_mut() {
                    Some((path, _)) if colons == Some(2) => path.push(name.to_string()),
                    _ => found.push((vec![name.to_string()], name.span())),
                }
                Some(0)
            }
            TokenTree::Group(group) => {
                found.extend(paths_of_tokens(group.stream()));
                None
            }
            _ => None,
        };
    }
    found.retain(|(path, _)| path.len() > 1);
    found
}

/// The names of a path, one after the other.
pub(crate) fn names(path: &syn::Path) -> Vec<String> {
    let names = path.segments.iter().map(|segment| segment.ident.to_string());
    names.collect()
}

/// Returns true if an item is for tests only.
pub(crate) fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let words = |list: &syn::MetaList| list.tokens.to_string();
        attribute.path().is_ident("test")
            || attribute.path().is_ident("cfg")
                && attribute.meta.require_list().is_ok_and(|list| {
                    let words = words(list);
                    words == "test" || words == "doctest" || words.starts_with("all (test")
                })
    })
}

#[derive(Default)]
struct Finder {
    found: Vec<Named>,
}

impl Finder {
    fn add(&mut self, path: String, span: Span) {
        self.found.push(Named {
            path,
            line: span.start().line,
        });
    }

    fn use_tree(&mut self, prefix: &str, tree: &syn::UseTree) {
        let join = |name: &syn::Ident| {
            if prefix.is_empty() {
                name.to_string()
            } else {
                format!("{prefix}::{name}")
            }
        };
        match tree {
            syn::UseTree::Path(path) => self.use_tree(&join(&path.ident), &path.tree),
            syn::UseTree::Name(name) if name.ident == "self" => {
                self.add(prefix.to_owned(), name.ident.span());
            }
            syn::UseTree::Name(name) => self.add(join(&name.ident), name.ident.span()),
            syn::UseTree::Rename(rename) => self.add(join(&rename.ident), rename.ident.span()),
            syn::UseTree::Glob(glob) => self.add(format!("{prefix}::*"), glob.star_token.spans[0]),
            syn::UseTree::Group(group) => group.items.iter().for_each(|tree| self.use_tree(prefix, tree)),
        }
    }
}

impl<'ast> Visit<'ast> for Finder {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        let attributes: &[syn::Attribute] = match item {
            syn::Item::Mod(item) => &item.attrs,
            syn::Item::Fn(item) => &item.attrs,
            syn::Item::Use(item) => &item.attrs,
            syn::Item::Impl(item) => &item.attrs,
            _ => &[],
        };
        if !is_test(attributes) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.use_tree("", &item.tree);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names = names(path);
        if let (true, Some(first)) = (names.len() > 1, path.segments.first()) {
            self.add(names.join("::"), first.ident.span());
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.visit_path(&call.path);
        for (path, span) in paths_of_tokens(call.tokens.clone()) {
            self.add(path.join("::"), span);
        }
    }

    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}
}

#[cfg(test)]
mod tests {
    use super::{Named, paths};

    fn named(text: &str) -> Vec<(String, usize)> {
        let file = syn::parse_file(text).unwrap();
        paths(&file)
            .into_iter()
            .map(|Named { path, line }| (path, line))
            .collect()
    }

    #[test]
    fn paths_of_uses_types_and_macros() {
        let found = named(
            "use std::{fmt, sync::atomic::{self, AtomicU8 as A}};\n\
             fn f(x: std::thread::Thread) { println!(\"{}\", std::thread::current()); }\n",
        );
        let want = [
            "std::fmt",
            "std::sync::atomic",
            "std::sync::atomic::AtomicU8",
            "std::thread::Thread",
        ];
        let paths: Vec<_> = found.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(paths[..4], want);
        assert!(found.contains(&("std::thread::current".to_owned(), 2)));
    }

    #[test]
    fn tests_and_comments_are_left_out() {
        let text = "//! std::thread\n#[cfg(test)]\nmod tests { use std::thread; }\n\
                    #[cfg(all(test, unix))]\nmod more { use loom::model; }\n/// loom::model\nfn f() {}\n";
        assert_eq!(named(text), []);
    }
}
