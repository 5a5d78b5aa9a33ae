//! The import graph of a package: which file names what is defined in which other file.
//!
//! ```text
//!  tree        modules, what they define, the paths that they mention
//!  attributes  attributes and names of syntax trees
//!  circles     strongly connected components, and good orders of them
//! ```
//!
//! An arrow leads from the file that mentions a path to the file that defines the item. Re-exports are
//! followed, so an item that is imported through a `mod.rs` leads to its own file.
//!
//! These are no arrows:
//!
//! - `mod child;`
//! - the import of a module as such; a path through it is one
//! - a `pub use` of an item that is defined further down in the same module
//! - anything in tests, and anything in the bodies of `macro_rules!`
//!
//! Code for one system or one checker is read in each of its variants. Calls of methods are not seen: an
//! `impl` block in another file than its type leads to the type, and nothing leads to the block.

pub(crate) mod attributes;
pub(crate) mod circles;
mod tree;

use crate::repo::{self, Repo};
use anyhow::Result;
use cargo_metadata::{Package, TargetKind};
use circles::Weights;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use tree::{FileId, How, Meaning, ModuleId, Tree};

/// An import, from a line of one file to an item of another one. Files are numbers in [`Graph::files`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Arrow {
    pub(crate) from: usize,
    pub(crate) line: usize,
    pub(crate) item: String,
    pub(crate) to: usize,
}

/// The import graph of a package.
#[derive(Debug)]
pub(crate) struct Graph {
    /// Files are shown relative to this folder.
    base: PathBuf,
    pub(crate) files: Vec<PathBuf>,
    /// For each file the number of its room.
    pub(crate) room_of: Vec<usize>,
    /// The rooms by name: the folders and files at the top of `src`.
    pub(crate) rooms: Vec<String>,
    pub(crate) arrows: Vec<Arrow>,
    /// Files and modules that could not be read.
    pub(crate) troubles: Vec<String>,
}

impl Graph {
    pub(crate) fn of(repo: &Repo, package: &Package) -> Self {
        let mut tree = Tree::default();
        let is_library = |kind: &TargetKind| !matches!(kind, TargetKind::Bin);
        let roots = package.targets.iter().filter(|target| {
            use TargetKind::{Bin, CDyLib, DyLib, Lib, ProcMacro, RLib, StaticLib};
            let kinds = [Bin, CDyLib, DyLib, Lib, ProcMacro, RLib, StaticLib];
            target.kind.iter().any(|kind| kinds.contains(kind))
        });
        let mut roots: Vec<_> = roots.collect();
        // The library first: the programs of the package import it.
        roots.sort_by_key(|target| !target.kind.iter().all(is_library));
        for target in roots {
            let root = tree.read(target.src_path.as_std_path());
            if target.kind.iter().all(is_library) {
                tree.library = Some((target.name.replace('-', "_"), root));
            }
        }
        Self::from_tree(tree, &repo::folder(package).join("src"), &repo.root)
    }

    fn from_tree(tree: Tree, sources: &Path, base: &Path) -> Self {
        let mut arrows = BTreeMap::new();
        for mention in &tree.mentions {
            for (item, to) in targets(&tree, mention) {
                if to != mention.file {
                    let line = arrows.entry((mention.file, to, item)).or_insert(mention.line);
                    *line = mention.line.min(*line);
                }
            }
        }
        let arrows = arrows
            .into_iter()
            .map(|((from, to, item), line)| Arrow { from, line, item, to })
            .collect();
        let names: Vec<_> = tree.files.iter().map(|file| room(file, sources)).collect();
        let rooms: Vec<String> = names
            .iter()
            .cloned()
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect();
        let room_of = names
            .iter()
            .map(|name| rooms.iter().position(|room| room == name).unwrap_or_default())
            .collect();
        Self {
            base: base.to_owned(),
            files: tree.files,
            room_of,
            rooms,
            arrows,
            troubles: tree.troubles,
        }
    }

    /// The rooms at the two ends of an arrow.
    pub(crate) fn rooms_of(&self, arrow: &Arrow) -> (&str, &str) {
        let room = |file: usize| self.rooms[self.room_of[file]].as_str();
        (room(arrow.from), room(arrow.to))
    }

    /// The graph between the rooms.
    pub(crate) fn between_rooms(&self) -> Level {
        Level::new("rooms", self.rooms.clone(), self.room_of.clone(), &self.arrows)
    }

    /// The graph between the files.
    pub(crate) fn between_files(&self) -> Level {
        let files = 0..self.files.len();
        let names = files.clone().map(|file| self.path(file)).collect();
        Level::new("files", names, files.collect(), &self.arrows)
    }

    /// An arrow as a line of text: `file:line  imports  item of file`.
    pub(crate) fn show(&self, arrow: &Arrow) -> String {
        format!(
            "{}:{}  imports  {} of {}",
            self.path(arrow.from),
            arrow.line,
            arrow.item,
            self.path(arrow.to)
        )
    }

    /// A file as people write it: relative to the root of the repository.
    pub(crate) fn path(&self, file: usize) -> String {
        let path = &self.files[file];
        path.strip_prefix(&self.base)
            .unwrap_or(path)
            .display()
            .to_string()
    }
}

/// The graph between the rooms of a package, or that between its files.
#[derive(Debug)]
pub(crate) struct Level {
    /// The name of what is in a circle.
    pub(crate) what: &'static str,
    /// The names of the members.
    pub(crate) names: Vec<String>,
    /// For each file the member that it is or belongs to.
    member_of: Vec<usize>,
    /// How many arrows lead from each member to each other one.
    pub(crate) weights: Weights,
}

impl Level {
    fn new(what: &'static str, names: Vec<String>, member_of: Vec<usize>, arrows: &[Arrow]) -> Self {
        let weights = Weights::new(names.len());
        let mut level = Self {
            what,
            names,
            member_of,
            weights,
        };
        for arrow in arrows {
            let (from, to) = level.ends(arrow);
            if from != to {
                level.weights.add(from, to);
            }
        }
        level
    }

    /// The members at the two ends of an arrow.
    pub(crate) fn ends(&self, arrow: &Arrow) -> (usize, usize) {
        (self.member_of[arrow.from], self.member_of[arrow.to])
    }

    /// The names of these members.
    pub(crate) fn named(&self, members: &[usize]) -> Vec<&str> {
        members
            .iter()
            .map(|member| self.names[*member].as_str())
            .collect()
    }
}

/// The room of a file: the folder or the file at the top of `src`.
fn room(file: &Path, sources: &Path) -> String {
    let inside = file.strip_prefix(sources).unwrap_or(file);
    let first = inside.components().next();
    let first = first.map(|part| part.as_os_str().to_string_lossy().into_owned());
    let first = first.unwrap_or_default();
    first.strip_suffix(".rs").unwrap_or(&first).to_owned()
}

/// The items that a path leads to, and the files that define them.
fn targets(tree: &Tree, mention: &tree::Mention) -> Vec<(String, FileId)> {
    let found = Resolver::new(tree, mention.file).path(mention.module, &mention.path);
    let mut result = Vec::new();
    for target in found {
        match (target, mention.how) {
            (Target::Item { module, .. }, How::Export | How::ExportGlob)
                if tree.is_inside(module, mention.module) => {}
            (Target::Item { file, name, .. }, _) => result.push((name, file)),
            // Names that come with a star may be used anywhere: an arrow to the module itself.
            (Target::Module(module), How::Glob) => {
                let files = tree.modules[module]
                    .names
                    .values()
                    .flatten()
                    .filter_map(|d| match d.what {
                        Meaning::Item(file) => Some(file),
                        _ => None,
                    });
                result.extend(files.map(|file| ("*".to_owned(), file)));
            }
            (Target::Module(_), _) => {}
        }
    }
    result
}

/// An item or a module that a path leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Target {
    Item {
        name: String,
        file: FileId,
        module: ModuleId,
    },
    Module(ModuleId),
}

/// Follows paths and imports. An import that leads to itself is followed once.
struct Resolver<'a> {
    tree: &'a Tree,
    /// The file where the path is. Its own meaning of a name comes before those of the module's other files.
    file: FileId,
    followed: Vec<(ModuleId, &'a [String])>,
}

impl<'a> Resolver<'a> {
    fn new(tree: &'a Tree, file: FileId) -> Self {
        Self {
            tree,
            file,
            followed: Vec::new(),
        }
    }

    /// Follows `path` from the module `from`.
    fn path(&mut self, from: ModuleId, path: &[String]) -> Vec<Target> {
        let mut here = from;
        let mut rest = path;
        let mut anchored = false;
        while let Some((first, after)) = rest.split_first() {
            match first.as_str() {
                "crate" | "$crate" => here = self.tree.root_of(from),
                "self" => {}
                "super" => match self.tree.modules[here].parent {
                    Some(parent) => here = parent,
                    None => return Vec::new(),
                },
                _ => break,
            }
            anchored = true;
            rest = after;
        }
        let Some((first, after)) = rest.split_first() else {
            return vec![Target::Module(here)];
        };
        let mut found = self.name(here, first, from);
        if let (true, false, Some((name, root))) = (found.is_empty(), anchored, &self.tree.library)
            && name == first
        {
            found = vec![Target::Module(*root)];
        }
        self.walk(found, after, from)
    }

    /// Follows `rest` from one of `found`. Behind an item come its own names: variants, methods.
    fn walk(&mut self, found: Vec<Target>, rest: &[String], from: ModuleId) -> Vec<Target> {
        let Some((next, after)) = rest.split_first() else {
            return found;
        };
        for target in &found {
            if let Target::Module(module) = target {
                let inside = self.name(*module, next, from);
                let inside = self.walk(inside, after, from);
                if !inside.is_empty() {
                    return inside;
                }
            }
        }
        found
            .into_iter()
            .filter(|target| matches!(target, Target::Item { .. }))
            .collect()
    }

    /// Looks a name up in `module`, as far as the module `from` can see it.
    fn name(&mut self, module: ModuleId, name: &str, from: ModuleId) -> Vec<Target> {
        let tree = self.tree;
        let definitions = tree.modules[module].names.get(name);
        let visible = |d: &&tree::Definition| d.sight.is_none_or(|sight| tree.is_inside(from, sight));
        let mut result = Vec::new();
        let mut add = |targets: Vec<Target>| {
            for target in targets {
                if !result.contains(&target) {
                    result.push(target);
                }
            }
        };
        let definitions_here = definitions.map(Vec::as_slice).unwrap_or_default();
        let is_own = |d: &tree::Definition| module == from && d.file == self.file;
        let only_own = definitions_here.iter().any(is_own);
        let file = self.file;
        let candidates = definitions_here
            .iter()
            .filter(|d| !only_own || d.file == file)
            .filter(visible);
        for definition in candidates {
            match &definition.what {
                Meaning::Item(file) => add(vec![Target::Item {
                    name: name.to_owned(),
                    file: *file,
                    module,
                }]),
                Meaning::Module(inner) => add(vec![Target::Module(*inner)]),
                Meaning::Import(path) => add(self.follow(module, path)),
            }
        }
        if definitions.is_none() {
            for glob in tree.modules[module].globs.iter().filter(visible) {
                let Meaning::Import(path) = &glob.what else {
                    continue;
                };
                for target in self.follow(module, path) {
                    if let Target::Module(inner) = target
                        && inner != module
                    {
                        let key = (inner, path.as_slice());
                        if !self.followed.contains(&key) {
                            self.followed.push(key);
                            add(self.name(inner, name, module));
                            self.followed.pop();
                        }
                    }
                }
            }
        }
        result
    }

    fn follow(&mut self, module: ModuleId, path: &'a [String]) -> Vec<Target> {
        if self.followed.contains(&(module, path)) {
            return Vec::new();
        }
        self.followed.push((module, path));
        let found = self.path(module, path);
        self.followed.pop();
        found
    }
}

/// The graphs of the packages that have this name, or of all.
pub(crate) fn all<'a>(repo: &'a Repo, name: Option<&str>) -> Result<Vec<(&'a str, Graph)>> {
    let packages = repo
        .packages()
        .filter(|package| name.is_none_or(|name| package.name == name));
    let graphs: Vec<_> = packages
        .map(|package| (package.name.as_str(), Graph::of(repo, package)))
        .collect();
    match name {
        Some(name) if graphs.is_empty() => anyhow::bail!("there is no package `{name}`"),
        _ => Ok(graphs),
    }
}

#[cfg(test)]
pub(crate) mod tests;
