//! Many bugs in one build: a function stands there once with each of its bugs and once without, and a
//! variable of the environment says which of them runs.
//!
//! ```text
//! fn set(&self) {                           fn set(&self) {
//!     self.word.store(SET, Release)   →         if <latch-set-without-release is on> {
//! }                                                 self.word.store(SET, Relaxed)
//!                                               } else {
//!                                                   self.word.store(SET, Release)
//!                                               }
//!                                           }
//! ```
//!
//! A switch names nothing but `std`, because some models compile a source outside of its crate.

use anyhow::{Context as _, Result};
use std::ops::Range;
use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};

/// The variable that names the mutant that is on.
pub(super) const VARIABLE: &str = "WARPWEFT_MUTANT";

/// A bug: its name, the bytes of the source whose place it takes, and what stands there then.
#[derive(Debug, Clone)]
pub(super) struct Bug<'a> {
    pub(super) name: &'a str,
    pub(super) range: Range<usize>,
    pub(super) text: &'a str,
}

/// A source with bugs that can be switched on.
#[derive(Debug, Default)]
pub(super) struct Switched {
    pub(super) text: String,
    /// The lines of the text that each bug has for itself.
    pub(super) lines: Vec<(Range<usize>, String)>,
}

impl Switched {
    /// The bug whose lines contain this one.
    pub(super) fn at(&self, line: usize) -> Option<&str> {
        let here = self.lines.iter().find(|(lines, _)| lines.contains(&line));
        here.map(|(_, name)| name.as_str())
    }
}

/// The bodies of the functions of a source that can have bugs side by side: their bytes, with the braces.
///
/// Not those that the compiler runs, those without a prologue, and those that return a type which it takes
/// from the body.
pub(super) fn bodies(source: &str) -> Result<Vec<Range<usize>>> {
    let mut finder = Bodies::default();
    finder.visit_file(&syn::parse_file(source).context("cannot parse the source")?);
    Ok(finder.found)
}

/// The body that a bug is in, if there is one.
pub(super) fn body<'a>(bodies: &'a [Range<usize>], bug: &Range<usize>) -> Option<&'a Range<usize>> {
    let mut bodies = bodies.iter();
    bodies.find(|body| body.start < bug.start && bug.end < body.end)
}

/// Puts all bugs into the source. Each is in a body.
pub(super) fn switch(source: &str, bodies: &[Range<usize>], bugs: &[Bug<'_>]) -> Switched {
    let mut switched = Switched::default();
    let mut done = 0;
    for body in bodies {
        let here: Vec<_> = bugs
            .iter()
            .filter(|bug| body.start < bug.range.start && bug.range.end < body.end)
            .collect();
        if here.is_empty() {
            continue;
        }
        let text = &mut switched.text;
        text.push_str(&source[done..body.start]);
        text.push_str("{\n");
        for bug in here {
            text.push_str(&format!(
                "if {{ static ON: ::std::sync::LazyLock<bool> = ::std::sync::LazyLock::new(|| \
                 ::std::env::var_os({VARIABLE:?}).is_some_and(|name| name == {:?})); *ON }} ",
                bug.name
            ));
            let first = text.lines().count();
            text.push_str(&source[body.start..bug.range.start]);
            text.push_str(bug.text);
            text.push_str(&source[bug.range.end..body.end]);
            let last = text.lines().count();
            switched.lines.push((first..last + 1, bug.name.to_owned()));
            text.push_str("\nelse ");
        }
        text.push_str(&source[body.clone()]);
        text.push_str("\n}");
        done = body.end;
    }
    switched.text.push_str(&source[done..]);
    switched
}

#[derive(Default)]
struct Bodies {
    found: Vec<Range<usize>>,
}

impl Bodies {
    /// What is inside of a body belongs to it: so it is not looked into.
    fn add(&mut self, attributes: &[syn::Attribute], signature: &syn::Signature, block: &syn::Block) {
        let bare = |attribute: &syn::Attribute| match &attribute.meta {
            syn::Meta::List(list) => list.tokens.to_string().contains("naked"),
            meta => meta.path().is_ident("naked"),
        };
        let inferred = match &signature.output {
            syn::ReturnType::Default => false,
            syn::ReturnType::Type(_, of) => has_impl(of),
        };
        if signature.constness.is_none() && !inferred && !attributes.iter().any(bare) {
            self.found.push(block.span().byte_range());
        }
    }
}

impl<'ast> Visit<'ast> for Bodies {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.add(&item.attrs, &item.sig, &item.block);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.add(&item.attrs, &item.sig, &item.block);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.add(&item.attrs, &item.sig, block);
        }
    }
}

/// Returns true if `impl Trait` is in a type.
fn has_impl(of: &syn::Type) -> bool {
    struct Finder(bool);
    impl Visit<'_> for Finder {
        fn visit_type_impl_trait(&mut self, _: &syn::TypeImplTrait) {
            self.0 = true;
        }
    }
    let mut finder = Finder(false);
    visit::visit_type(&mut finder, of);
    finder.0
}

#[cfg(test)]
mod tests {
    use super::{Bug, bodies, body, switch};

    const SOURCE: &str = "\
impl Latch {
    fn set(&self) -> u8 {
        self.word.store(1);
        2
    }
    const fn new() -> Self { Self { word: 0 } }
    fn all(&self) -> Box<impl Iterator> { Box::new(0..3) }
    #[unsafe(naked)]
    fn jump() { naked_asm!(\"ret\") }
}
trait Wait {
    fn wait(&self) { loop {} }
    fn wake(&self);
}
";

    fn bug<'a>(name: &'a str, find: &str, text: &'a str) -> Bug<'a> {
        let start = SOURCE.find(find).unwrap();
        Bug {
            name,
            range: start..start + find.len(),
            text,
        }
    }

    #[test]
    fn bodies_that_can_have_bugs() {
        let texts: Vec<_> = bodies(SOURCE)
            .unwrap()
            .into_iter()
            .map(|body| &SOURCE[body])
            .collect();
        assert_eq!(texts.len(), 2);
        assert!(texts[0].starts_with("{\n") && texts[0].ends_with("2\n    }"));
        assert_eq!(texts[1], "{ loop {} }");
    }

    #[test]
    fn a_bug_outside_of_bodies_has_none() {
        let bodies = bodies(SOURCE).unwrap();
        assert!(body(&bodies, &bug("a", "store(1)", "").range).is_some());
        assert!(
            body(&bodies, &bug("b", "word: 0", "").range).is_none(),
            "in a constant function"
        );
        assert!(
            body(&bodies, &bug("c", "-> u8 {", "").range).is_none(),
            "in a signature"
        );
    }

    #[test]
    fn each_bug_stands_beside_the_sound_code() {
        let bugs = [
            bug("one", "store(1)", "store(7)"),
            bug("two", "2\n", "3\n"),
            bug("three", "loop {}", ""),
        ];
        let switched = switch(SOURCE, &bodies(SOURCE).unwrap(), &bugs);
        let text = &switched.text;
        syn::parse_file(text).unwrap();
        for (part, count) in [
            ("store(1)", 2),
            ("store(7)", 1),
            ("3\n", 1),
            ("loop {}", 1),
            ("*ON", 3),
        ] {
            assert_eq!(text.matches(part).count(), count, "{part}");
        }
        let line = |part: &str| 1 + text.lines().position(|line| line.contains(part)).unwrap();
        assert_eq!(switched.at(line("store(7)")), Some("one"));
        assert_eq!(switched.at(line("trait Wait")), None);
        assert_eq!(switched.at(line("const fn new")), None);
    }
}
