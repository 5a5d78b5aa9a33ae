//! Anchors: places in the code that are found by the name of an item and a few tokens inside of it.
//!
//! A name survives that code moves to another file; tokens survive that comments and line breaks change.

use crate::graph::attributes;
use crate::repo::{self, Repo};
use crate::{source, text};
use anyhow::{Context as _, Result, bail, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use syn::spanned::Spanned as _;
use syn::{ImplItem, TraitItem};

/// A named item of a package.
#[derive(Debug, Clone)]
struct Item {
    /// `crate`, and the modules as folders, files and `mod { }` name them.
    modules: Vec<String>,
    /// `function`, `Type::method`, `Trait for Type::method`, `impl Type`, `macro!`.
    name: String,
    file: PathBuf,
    range: Range<usize>,
}

impl Item {
    fn full(&self) -> String {
        format!("{}::{}", self.modules.join("::"), self.name)
    }

    /// Returns true if `name` is the item's name, alone or behind the last of its modules.
    fn is_called(&self, name: &str) -> bool {
        let modules = name.strip_suffix(self.name.as_str());
        modules.is_some_and(|modules| {
            let modules: Vec<_> = modules.split_terminator("::").collect();
            name.len() == self.name.len()
                || modules.join("::").len() + 2 + self.name.len() == name.len()
                    && modules.len() <= self.modules.len()
                    && self.modules[self.modules.len() - modules.len()..] == modules[..]
        })
    }
}

/// The sources of a package: the text of each file below `src`, and the items in them.
#[derive(Debug, Default)]
pub(crate) struct Package {
    texts: BTreeMap<PathBuf, String>,
    items: Vec<Item>,
    /// The functions with `#[test]`, by their paths as the test harness lists them.
    unit_tests: BTreeSet<String>,
}

/// A place in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    /// Relative to the root.
    pub(crate) file: PathBuf,
    pub(crate) range: Range<usize>,
}

impl Package {
    /// Reads the sources of a package of the workspace.
    pub(crate) fn read(repo: &Repo, name: &str) -> Result<Self> {
        let package = repo.packages().find(|package| package.name.as_str() == name);
        let package = package.with_context(|| format!("no package is called {name}"))?;
        let folder = repo::folder(package).join("src");
        let mut texts = Vec::new();
        for path in repo.files(&folder, "rs")? {
            let modules = modules_of(path.strip_prefix(&folder)?);
            let file = path.strip_prefix(&repo.root)?.to_owned();
            texts.push((file, modules, fs::read_to_string(&path)?));
        }
        Self::parse(texts)
    }

    fn parse(files: Vec<(PathBuf, Vec<String>, String)>) -> Result<Self> {
        let mut package = Self::default();
        let mut tests = BTreeSet::new();
        let mut renamed = Vec::new();
        for (file, modules, text) in files {
            let parsed =
                syn::parse_file(&text).with_context(|| format!("cannot parse {}", file.display()))?;
            renamed.extend(renamed_by(&parsed.items, &modules));
            if !source::is_test(&parsed.attrs) {
                let mut reader = Reader {
                    file: &file,
                    modules,
                    items: &mut package.items,
                    tests: &mut tests,
                    unit_tests: &mut package.unit_tests,
                };
                reader.items(&parsed.items);
            }
            package.texts.insert(file, text);
        }
        // The file of a module that is only for tests does not say so itself.
        let is_test = |item: &Item| (0..=item.modules.len()).any(|n| tests.contains(&item.modules[..n]));
        package.items.retain(|item| !is_test(item));
        let paths = package.unit_tests.into_iter().map(|path| {
            let by_file = renamed
                .iter()
                .find_map(|(file, module)| path.strip_prefix(file).map(|rest| format!("{module}{rest}")));
            by_file.unwrap_or(path)
        });
        package.unit_tests = paths.collect();
        Ok(package)
    }

    /// The items of this name. There is more than one if some differ by their `cfg` or by what is left out of
    /// names.
    fn named(&self, name: &str) -> Result<Vec<&Item>> {
        let found: Vec<_> = self.items.iter().filter(|item| item.is_called(name)).collect();
        let names: BTreeSet<_> = found.iter().map(|item| item.full()).collect();
        ensure!(!names.is_empty(), "there is no item {name}{}", self.near(name));
        let names: Vec<_> = names.into_iter().collect();
        ensure!(
            names.len() == 1,
            "{name} may be any of {}: put a module in front",
            names.join(", ")
        );
        Ok(found)
    }

    /// Names that may have been meant: first those with the same last part, then those with the same type.
    fn near(&self, name: &str) -> String {
        let last = |name: &str| name.rsplit("::").next().unwrap_or(name).to_owned();
        let owner = |name: &str| {
            let owner = name.rsplit("::").nth(1).unwrap_or(name);
            owner.rsplit(' ').next().unwrap_or(owner).to_owned()
        };
        let same_last = self.items.iter().filter(|item| last(&item.name) == last(name));
        let same_owner = self.items.iter().filter(|item| owner(&item.name) == owner(name));
        let mut names: Vec<_> = same_last.chain(same_owner).map(Item::full).collect();
        names.truncate(6);
        if names.is_empty() {
            return String::new();
        }
        format!("; near it: {}", names.join(", "))
    }

    /// Returns true if a unit test of this path exists.
    pub(crate) fn has_test(&self, path: &str) -> bool {
        self.unit_tests.contains(path)
    }

    /// The one place inside of the item `name` where the tokens of `find` are.
    pub(crate) fn place(&self, name: &str, find: &str) -> Result<Place> {
        let mut places = Vec::new();
        let mut best = Best::default();
        for item in self.named(name)? {
            let text = &self.texts[&item.file][item.range.clone()];
            let (found, near) = search(text, find)?;
            places.extend(found.into_iter().map(|range| Place {
                file: item.file.clone(),
                range: range.start + item.range.start..range.end + item.range.start,
            }));
            if near.count >= best.count {
                best = near;
            }
        }
        let count = places.len();
        match places.pop() {
            Some(place) if count == 1 => Ok(place),
            Some(_) => bail!("`find` is {count} times in {name}, not once"),
            None => bail!("`find` is not in {name}{}{}", best.say(), self.elsewhere(find)?),
        }
    }

    /// The items in which `find` is.
    fn elsewhere(&self, find: &str) -> Result<String> {
        let mut names = Vec::new();
        for item in self.items.iter().filter(|item| item.name.contains("::")) {
            let text = &self.texts[&item.file][item.range.clone()];
            if names.len() < 4 && !search(text, find)?.0.is_empty() {
                names.push(item.full());
            }
        }
        if names.is_empty() {
            return Ok(String::new());
        }
        Ok(format!("; it is in {}", names.join(", ")))
    }
}

/// The one place in the text of a file where the tokens of `find` are.
pub(crate) fn in_file(file: &Path, text: &str, find: &str) -> Result<Place> {
    let (mut places, best) = search(text, find)?;
    let count = places.len();
    ensure!(
        count == 1,
        "`find` is {count} times in {}, not once{}",
        file.display(),
        best.say()
    );
    Ok(Place {
        file: file.to_owned(),
        range: places.remove(0),
    })
}

/// How far the best attempt fitted.
#[derive(Debug, Default)]
struct Best {
    count: usize,
    fitted: String,
    wanted: String,
    is: String,
}

impl Best {
    fn say(&self) -> String {
        if self.count == 0 {
            return String::new();
        }
        let Self {
            fitted, wanted, is, ..
        } = self;
        format!(": behind `{fitted}` it wants `{wanted}`, and the source has `{is}`")
    }
}

/// Where `find` is in `text`, token by token. A comma before a closing bracket may be there or not.
fn search(text: &str, find: &str) -> Result<(Vec<Range<usize>>, Best)> {
    let (have, want) = (text::tokens(text), text::tokens(find));
    ensure!(!want.is_empty(), "`find` has no tokens");
    let optional = |text: &str, tokens: &[Range<usize>], at: usize| {
        let next = tokens.get(at + 1).map(|range| &text[range.clone()]);
        text[tokens[at].clone()] == *"," && matches!(next, Some(")" | "]" | "}"))
    };
    let mut found = Vec::new();
    let mut best = Best::default();
    for start in 0..have.len() {
        let (mut i, mut j) = (start, 0);
        while i < have.len() && j < want.len() {
            if text[have[i].clone()] == find[want[j].clone()] {
                (i, j) = (i + 1, j + 1);
            } else if j > 0 && optional(text, &have, i) {
                i += 1;
            } else if j > 0 && optional(find, &want, j) {
                j += 1;
            } else {
                break;
            }
        }
        if j == want.len() {
            found.push(have[start].start..have[i - 1].end);
        } else if j > best.count {
            best = Best {
                count: j,
                fitted: find[want[0].start..want[j - 1].end].to_owned(),
                wanted: find[want[j].clone()].to_owned(),
                is: have
                    .get(i)
                    .map_or("its end", |range| &text[range.clone()])
                    .to_owned(),
            };
        }
    }
    Ok((found, best))
}

/// The modules of a file whose own file has another name, by `cfg_attr(.., path)`: the path that the file
/// says, and their own.
fn renamed_by(items: &[syn::Item], modules: &[String]) -> Vec<(String, String)> {
    let mut renamed = Vec::new();
    for item in items {
        let syn::Item::Mod(module) = item else { continue };
        for attribute in &module.attrs {
            let syn::Meta::List(list) = &attribute.meta else {
                continue;
            };
            let text = list.tokens.to_string();
            let Some((_, rest)) = text.split_once("path = \"") else {
                continue;
            };
            let Some((file, _)) = rest.split_once(".rs\"") else {
                continue;
            };
            let path = |name: &str| [&modules[1..], &[name.to_owned()]].concat().join("::") + "::";
            renamed.push((path(file), path(&module.ident.to_string())));
        }
    }
    renamed
}

/// The modules that a path below `src` names.
fn modules_of(path: &Path) -> Vec<String> {
    let mut modules = vec!["crate".to_owned()];
    let path = path.with_extension("");
    modules.extend(path.iter().map(|part| part.to_string_lossy().into_owned()));
    if matches!(modules.last().map(String::as_str), Some("mod" | "lib" | "main")) {
        modules.pop();
    }
    modules
}

/// Collects the items of one file.
struct Reader<'a> {
    file: &'a Path,
    modules: Vec<String>,
    items: &'a mut Vec<Item>,
    /// Modules that are only for tests.
    tests: &'a mut BTreeSet<Vec<String>>,
    unit_tests: &'a mut BTreeSet<String>,
}

impl Reader<'_> {
    fn add(&mut self, name: String, span: proc_macro2::Span) {
        self.items.push(Item {
            modules: self.modules.clone(),
            name,
            file: self.file.to_owned(),
            range: span.byte_range(),
        });
    }

    fn items(&mut self, items: &[syn::Item]) {
        for item in items {
            let is_test = source::is_test(attributes::of_item(item));
            match item {
                syn::Item::Mod(module) => {
                    self.modules.push(module.ident.to_string());
                    if is_test {
                        self.tests.insert(self.modules.clone());
                    }
                    if let Some((_, items)) = &module.content {
                        self.items(items);
                    }
                    self.modules.pop();
                }
                syn::Item::Fn(test) if is_test => {
                    self.add_test(&test.sig.ident);
                }
                _ if is_test => {}
                syn::Item::Macro(call) => {
                    if let Some(name) = &call.ident {
                        self.add(format!("{name}!"), item.span());
                    } else {
                        self.tests_in(call.mac.tokens.clone());
                    }
                }
                syn::Item::Impl(block) => self.implementation(block),
                _ => {
                    if let Some((name, _)) = attributes::name_of(item) {
                        self.add(name.to_string(), item.span());
                    }
                    if let syn::Item::Trait(block) = item {
                        self.methods_of_trait(block);
                    }
                }
            }
        }
    }

    fn add_test(&mut self, name: &syn::Ident) {
        let path = [&self.modules[1..], &[name.to_string()]].concat();
        self.unit_tests.insert(path.join("::"));
    }

    /// The call of a macro may hold tests: the functions in it count as such.
    fn tests_in(&mut self, tokens: proc_macro2::TokenStream) {
        let mut is_name = false;
        for token in tokens {
            let proc_macro2::TokenTree::Ident(word) = token else {
                continue;
            };
            if is_name {
                self.add_test(&word);
            }
            is_name = word == "fn";
        }
    }

    fn implementation(&mut self, block: &syn::ItemImpl) {
        let of = type_name(&block.self_ty);
        let (whole, prefix) = match &block.trait_ {
            Some((_, path, _)) => {
                let name = path.segments.last().map(|segment| segment.ident.to_string());
                let name = format!("{} for {of}", name.unwrap_or_default());
                (name.clone(), name)
            }
            None => (format!("impl {of}"), of),
        };
        self.add(whole, block.span());
        for item in &block.items {
            let name = match item {
                _ if source::is_test(attributes::of_impl_item(item)) => continue,
                ImplItem::Const(item) => &item.ident,
                ImplItem::Fn(item) => &item.sig.ident,
                ImplItem::Type(item) => &item.ident,
                _ => continue,
            };
            self.add(format!("{prefix}::{name}"), item.span());
        }
    }

    fn methods_of_trait(&mut self, block: &syn::ItemTrait) {
        for item in &block.items {
            let name = match item {
                TraitItem::Const(item) => &item.ident,
                TraitItem::Fn(item) => &item.sig.ident,
                TraitItem::Type(item) => &item.ident,
                _ => continue,
            };
            self.add(format!("{}::{name}", block.ident), item.span());
        }
    }
}

/// The name of a type, without its generic parameters.
fn type_name(of: &syn::Type) -> String {
    match of {
        syn::Type::Path(path) => {
            let last = path.path.segments.last();
            last.map(|segment| segment.ident.to_string()).unwrap_or_default()
        }
        syn::Type::Reference(to) if to.mutability.is_some() => format!("&mut {}", type_name(&to.elem)),
        syn::Type::Reference(to) => format!("&{}", type_name(&to.elem)),
        syn::Type::Ptr(to) => format!("*{}", type_name(&to.elem)),
        syn::Type::Slice(of) => format!("[{}]", type_name(&of.elem)),
        syn::Type::Array(of) => format!("[{}; _]", type_name(&of.elem)),
        syn::Type::Tuple(_) => "(_)".to_owned(),
        syn::Type::TraitObject(of) => of.bounds.iter().find_map(trait_name).unwrap_or_default(),
        _ => "_".to_owned(),
    }
}

/// The name of a trait among the bounds of `dyn`.
fn trait_name(bound: &syn::TypeParamBound) -> Option<String> {
    match bound {
        syn::TypeParamBound::Trait(of) => Some(of.path.segments.last()?.ident.to_string()),
        _ => None,
    }
}

#[cfg(test)]
#[path = "anchors/tests.rs"]
mod tests;
