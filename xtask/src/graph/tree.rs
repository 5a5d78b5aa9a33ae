//! The modules of a package: which file defines which name, and which paths each file mentions.

use super::attributes;
use crate::source;
use proc_macro2::Span;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use syn::visit::{self, Visit};

/// A number of a module in [`Tree::modules`].
pub(super) type ModuleId = usize;
/// A number of a file in [`Tree::files`].
pub(super) type FileId = usize;

/// A module, with what is defined in it.
#[derive(Debug, Default)]
pub(super) struct Module {
    pub(super) parent: Option<ModuleId>,
    /// A name may be several things: a function and a module, or one item for each system.
    pub(super) names: HashMap<String, Vec<Definition>>,
    /// `use path::*`.
    pub(super) globs: Vec<Definition>,
}

/// A meaning of a name, and where it holds.
#[derive(Debug, Clone)]
pub(super) struct Definition {
    pub(super) what: Meaning,
    /// The file that says so: a module may have a file for each system.
    pub(super) file: FileId,
    /// The module inside of which the name is visible. `None`: everywhere.
    pub(super) sight: Option<ModuleId>,
}

/// A meaning of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Meaning {
    Item(FileId),
    Module(ModuleId),
    Import(Vec<String>),
}

/// A path in the code of a file.
#[derive(Debug)]
pub(super) struct Mention {
    pub(super) module: ModuleId,
    pub(super) file: FileId,
    pub(super) line: usize,
    pub(super) path: Vec<String>,
    pub(super) how: How,
}

/// The kind of place where a path was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    /// In code, or in a `use` that is private.
    Use,
    /// In a `use` that others see.
    Export,
    /// In `use path::*`, private.
    Glob,
    /// In `use path::*` that others see.
    ExportGlob,
}

/// All modules of a package.
#[derive(Debug, Default)]
pub(super) struct Tree {
    pub(super) modules: Vec<Module>,
    pub(super) files: Vec<PathBuf>,
    pub(super) mentions: Vec<Mention>,
    /// The root module of the library, by the name under which the package's programs import it.
    pub(super) library: Option<(String, ModuleId)>,
    /// Files and modules that could not be read.
    pub(super) troubles: Vec<String>,
}

impl Tree {
    /// Reads a crate from its root file. Its root module is the result.
    pub(super) fn read(&mut self, root: &Path) -> ModuleId {
        let module = self.module(None);
        self.load(root, module, true);
        module
    }

    fn module(&mut self, parent: Option<ModuleId>) -> ModuleId {
        self.modules.push(Module {
            parent,
            ..Module::default()
        });
        self.modules.len() - 1
    }

    fn file(&mut self, path: &Path) -> FileId {
        let known = self.files.iter().position(|file| file == path);
        known.unwrap_or_else(|| {
            self.files.push(path.to_owned());
            self.files.len() - 1
        })
    }

    /// Reads `path` as a file of `module`. The children of a `mod.rs` are beside it. Those of any other file
    /// are in a folder with the name of its module.
    fn load(&mut self, path: &Path, module: ModuleId, beside: bool) {
        let parsed = match source::parse(path) {
            Ok(parsed) => parsed,
            Err(error) => return self.troubles.push(format!("{error:#}")),
        };
        if source::is_test(&parsed.attrs) {
            return;
        }
        let folder = path.parent().unwrap_or(Path::new(""));
        let own = if beside {
            folder.to_owned()
        } else {
            path.with_extension("")
        };
        let file = self.file(path);
        let mut reader = TreeReader {
            tree: self,
            module,
            file,
            beside: folder.to_owned(),
            children: own,
            inline: 0,
            body: 0,
        };
        reader.visit_file(&parsed);
    }

    pub(super) fn root_of(&self, mut module: ModuleId) -> ModuleId {
        while let Some(parent) = self.modules[module].parent {
            module = parent;
        }
        module
    }

    pub(super) fn is_inside(&self, mut module: ModuleId, outer: ModuleId) -> bool {
        while module != outer {
            match self.modules[module].parent {
                Some(parent) => module = parent,
                None => return false,
            }
        }
        true
    }
}

/// Walks over the items of one file.
struct TreeReader<'a> {
    tree: &'a mut Tree,
    module: ModuleId,
    file: FileId,
    /// The folder of the file: what `#[path]` is relative to.
    beside: PathBuf,
    /// The folder where the module's children are.
    children: PathBuf,
    /// The number of modules with a body around this place.
    inline: usize,
    /// The number of blocks of code around this place. A definition in one is no item of the module.
    body: usize,
}

impl TreeReader<'_> {
    fn mention(&mut self, path: Vec<String>, how: How, span: Span) {
        if path.first().is_some_and(|first| first == "Self") {
            return;
        }
        self.tree.mentions.push(Mention {
            module: self.module,
            file: self.file,
            line: span.start().line,
            path,
            how,
        });
    }

    fn define(&mut self, name: &str, what: Meaning, sight: Option<ModuleId>) {
        let definitions = self.tree.modules[self.module]
            .names
            .entry(name.to_owned())
            .or_default();
        if !definitions.iter().any(|d| d.what == what && d.sight == sight) {
            definitions.push(Definition {
                what,
                file: self.file,
                sight,
            });
        }
    }

    /// The module inside of which something is visible. Within the package, `pub` and `pub(crate)` are the
    /// same.
    fn sight(&self, visibility: &syn::Visibility) -> Option<ModuleId> {
        match visibility {
            syn::Visibility::Public(_) => None,
            syn::Visibility::Restricted(to) if to.path.is_ident("crate") || to.in_token.is_some() => None,
            syn::Visibility::Restricted(to) if to.path.is_ident("super") => {
                self.tree.modules[self.module].parent
            }
            _ => Some(self.module),
        }
    }

    fn child(&mut self, item: &syn::ItemMod) {
        let name = item.ident.to_string();
        // A name with several files, one for each system, is one module.
        let known = self.tree.modules[self.module].names.get(&name);
        let known = known.and_then(|definitions| {
            definitions.iter().find_map(|d| match d.what {
                Meaning::Module(module) => Some(module),
                _ => None,
            })
        });
        let module = known.unwrap_or_else(|| self.tree.module(Some(self.module)));
        let sight = self.sight(&item.vis);
        self.define(&name, Meaning::Module(module), sight);
        if let Some((_, items)) = &item.content {
            let outer = (self.module, self.children.clone(), self.body);
            (self.module, self.body) = (module, 0);
            self.children.push(&name);
            self.inline += 1;
            items.iter().for_each(|item| self.visit_item(item));
            self.inline -= 1;
            (self.module, self.children, self.body) = outer;
            return;
        }
        let mut found = false;
        for path in attributes::paths(&item.attrs) {
            let base = if self.inline > 0 {
                &self.children
            } else {
                &self.beside
            };
            let path = base.join(path);
            self.tree.load(&path, module, true);
            found = true;
        }
        let plain = self.children.join(format!("{name}.rs"));
        let folder = self.children.join(&name).join("mod.rs");
        if plain.is_file() && !attributes::always_elsewhere(&item.attrs) {
            self.tree.load(&plain, module, false);
        } else if folder.is_file() {
            self.tree.load(&folder, module, true);
        } else if !found {
            let file = self.tree.files[self.file].display();
            let trouble = format!("{file}: there is no file for `mod {name}`");
            self.tree.troubles.push(trouble);
        }
    }

    fn import(&mut self, prefix: &mut Vec<String>, tree: &syn::UseTree, visibility: &syn::Visibility) {
        // In a block of code the names are visible there only; as names of the module they do no harm.
        let exported = self.body == 0 && !matches!(visibility, syn::Visibility::Inherited);
        let sight = if self.body > 0 {
            Some(self.module)
        } else {
            self.sight(visibility)
        };
        let how = if exported { How::Export } else { How::Use };
        let leaf = |reader: &mut Self, path: Vec<String>, name: &str, span: Span| {
            reader.mention(path.clone(), how, span);
            if name != "_" {
                reader.define(name, Meaning::Import(path), sight);
            }
        };
        match tree {
            syn::UseTree::Path(path) => {
                prefix.push(path.ident.to_string());
                self.import(prefix, &path.tree, visibility);
                prefix.pop();
            }
            syn::UseTree::Name(name) if name.ident == "self" => {
                let last = prefix.last().cloned().unwrap_or_default();
                leaf(self, prefix.clone(), &last, name.ident.span());
            }
            syn::UseTree::Name(name) => {
                let ident = name.ident.to_string();
                let path = [&prefix[..], std::slice::from_ref(&ident)].concat();
                leaf(self, path, &ident, name.ident.span());
            }
            syn::UseTree::Rename(rename) => {
                let mut path = prefix.clone();
                if rename.ident != "self" {
                    path.push(rename.ident.to_string());
                }
                leaf(self, path, &rename.rename.to_string(), rename.ident.span());
            }
            syn::UseTree::Glob(glob) => {
                let how = if exported { How::ExportGlob } else { How::Glob };
                self.mention(prefix.clone(), how, glob.star_token.spans[0]);
                let what = Meaning::Import(prefix.clone());
                self.tree.modules[self.module].globs.push(Definition {
                    what,
                    file: self.file,
                    sight,
                });
            }
            syn::UseTree::Group(group) => {
                for tree in &group.items {
                    self.import(prefix, tree, visibility);
                }
            }
        }
    }
}

impl<'ast> Visit<'ast> for TreeReader<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if source::is_test(attributes::of_item(item)) {
            return;
        }
        match item {
            syn::Item::Mod(item) => return self.child(item),
            syn::Item::Use(item) => {
                return self.import(&mut Vec::new(), &item.tree, &item.vis);
            }
            syn::Item::Macro(item) if item.mac.path.is_ident("macro_rules") => {
                if let Some(name) = &item.ident {
                    let what = Meaning::Item(self.file);
                    self.define(&name.to_string(), what.clone(), None);
                    if item.attrs.iter().any(|a| a.path().is_ident("macro_export")) {
                        let inner = self.module;
                        self.module = self.tree.root_of(inner);
                        self.define(&name.to_string(), what, None);
                        self.module = inner;
                    }
                }
                return;
            }
            _ => {}
        }
        if let (0, Some((name, visibility))) = (self.body, attributes::name_of(item)) {
            let sight = self.sight(visibility);
            self.define(&name.to_string(), Meaning::Item(self.file), sight);
        }
        visit::visit_item(self, item);
    }

    fn visit_block(&mut self, block: &'ast syn::Block) {
        self.body += 1;
        visit::visit_block(self, block);
        self.body -= 1;
    }

    fn visit_impl_item(&mut self, item: &'ast syn::ImplItem) {
        if !source::is_test(attributes::of_impl_item(item)) {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_trait_item(&mut self, item: &'ast syn::TraitItem) {
        if !source::is_test(attributes::of_trait_item(item)) {
            visit::visit_trait_item(self, item);
        }
    }

    fn visit_stmt(&mut self, statement: &'ast syn::Stmt) {
        if !source::is_test(attributes::of_statement(statement)) {
            visit::visit_stmt(self, statement);
        }
    }

    fn visit_field(&mut self, field: &'ast syn::Field) {
        if !source::is_test(&field.attrs) {
            visit::visit_field(self, field);
        }
    }

    fn visit_field_value(&mut self, field: &'ast syn::FieldValue) {
        if !source::is_test(&field.attrs) {
            visit::visit_field_value(self, field);
        }
    }

    fn visit_variant(&mut self, variant: &'ast syn::Variant) {
        if !source::is_test(&variant.attrs) {
            visit::visit_variant(self, variant);
        }
    }

    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        if !source::is_test(&arm.attrs) {
            visit::visit_arm(self, arm);
        }
    }

    fn visit_expr_call(&mut self, call: &'ast syn::ExprCall) {
        match &*call.func {
            syn::Expr::Path(path) => {
                if let Some(qself) = &path.qself {
                    self.visit_qself(qself);
                }
                self.visit_path(&path.path);
            }
            function => self.visit_expr(function),
        }
        call.args.iter().for_each(|argument| self.visit_expr(argument));
    }

    /// A small name alone is a local variable, unless it is called.
    fn visit_expr_path(&mut self, path: &'ast syn::ExprPath) {
        let is_variable = path.qself.is_none()
            && path.path.get_ident().is_some_and(|name| {
                let name = name.to_string();
                !name.starts_with(char::is_uppercase)
            });
        if !is_variable {
            visit::visit_expr_path(self, path);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if let (None, Some(first)) = (path.leading_colon, path.segments.first()) {
            self.mention(source::names(path), How::Use, first.ident.span());
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.visit_path(&call.path);
        for (path, start) in source::paths_of_tokens(call.tokens.clone()) {
            self.mention(path, How::Use, start);
        }
    }

    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}

    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}
}
