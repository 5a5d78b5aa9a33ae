//! Where things are: the root, the packages and their targets, the files.

use anyhow::{Context as _, Result};
use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, Package, PackageId, TargetKind};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

/// The records of decisions: history, which is not rewritten.
pub(crate) const DECISIONS: &str = "docs/decisions";

/// The repository and what cargo knows of it.
pub(crate) struct Repo {
    pub(crate) root: PathBuf,
    /// Where everything that is built goes.
    pub(crate) target: PathBuf,
    metadata: Metadata,
}

impl Repo {
    /// The repository of the folder `root`, or of the current one.
    pub(crate) fn open(root: Option<&Path>) -> Result<Self> {
        let mut command = MetadataCommand::new();
        command.no_deps();
        if let Some(root) = root {
            command.current_dir(root);
        }
        let metadata = command.exec().context("`cargo metadata` failed")?;
        let root = metadata.workspace_root.clone().into_std_path_buf();
        let target = metadata.target_directory.clone().into_std_path_buf();
        Ok(Self {
            root,
            target,
            metadata,
        })
    }

    /// The packages of the workspace.
    pub(crate) fn packages(&self) -> impl Iterator<Item = &Package> {
        self.metadata.packages.iter()
    }

    /// The packages that `cargo test` leaves out, because they are not among the default members.
    pub(crate) fn not_by_default(&self) -> impl Iterator<Item = &Package> {
        let default: &[PackageId] = &self.metadata.workspace_default_members;
        self.packages().filter(|package| !default.contains(&package.id))
    }

    /// The packages whose folder is directly below `crates/`: the library.
    pub(crate) fn library(&self) -> impl Iterator<Item = &Package> {
        let crates = self.root.join("crates");
        self.packages()
            .filter(move |package| folder(package).parent() == Some(&crates))
    }

    /// A path as people write it: relative to the root.
    pub(crate) fn show<'a>(&self, path: &'a Path) -> std::path::Display<'a> {
        path.strip_prefix(&self.root).unwrap_or(path).display()
    }

    /// All files below `folder` with this extension, sorted; build products and hidden folders are left out.
    pub(crate) fn files(&self, folder: &Path, extension: &str) -> Result<Vec<PathBuf>> {
        let mut found = Vec::new();
        self.walk(folder, &mut |path| {
            if path.extension() == Some(OsStr::new(extension)) {
                found.push(path.to_owned());
            }
        })?;
        found.sort();
        Ok(found)
    }

    /// The files with these extensions, relative to the root, each with its crate. A file of no crate belongs
    /// to its folder at the top, a record of a decision to `docs/decisions`.
    pub(crate) fn sources(&self, extensions: &[&str]) -> Result<Vec<(PathBuf, String)>> {
        let mut found = Vec::new();
        for extension in extensions {
            for path in self.files(&self.root, extension)? {
                let package = self
                    .packages()
                    .filter(|package| path.starts_with(folder(package)));
                let package = package.max_by_key(|package| folder(package).components().count());
                let path = path.strip_prefix(&self.root).unwrap_or(&path).to_owned();
                let top = path.components().next().filter(|_| path.components().count() > 1);
                let top = top.map_or("root".into(), |top| top.as_os_str().to_string_lossy());
                let area = if path.starts_with(DECISIONS) {
                    DECISIONS.to_owned()
                } else {
                    package.map_or_else(|| top.into_owned(), |package| package.name.to_string())
                };
                found.push((path, area));
            }
        }
        Ok(found)
    }

    /// Calls `see` with every file below `folder` that belongs to the sources.
    pub(crate) fn walk(&self, folder: &Path, see: &mut impl FnMut(&Path)) -> Result<()> {
        let entries = fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
        for entry in entries {
            let entry = entry?;
            let (path, name) = (entry.path(), entry.file_name());
            let kind = entry.file_type()?;
            if kind.is_file() {
                see(&path);
            } else if kind.is_dir() && !self.is_product(&path, &name) {
                self.walk(&path, see)?;
            }
        }
        Ok(())
    }

    fn is_product(&self, path: &Path, name: &OsStr) -> bool {
        let hidden = name.to_string_lossy().starts_with('.') && name != ".cargo";
        let at_root = path.parent() == Some(&self.root) && (name == "target" || name == "reports");
        // Cargo marks the target folders of packages that are separate workspaces.
        hidden || at_root || path == self.target || path.join("CACHEDIR.TAG").is_file()
    }
}

/// The folder of a package.
pub(crate) fn folder(package: &Package) -> &Path {
    package
        .manifest_path
        .parent()
        .map_or(Path::new("."), cargo_metadata::camino::Utf8Path::as_std_path)
}

/// The names of a package's integration tests.
pub(crate) fn integration_tests(package: &Package) -> impl Iterator<Item = &str> {
    package
        .targets
        .iter()
        .filter(|target| target.kind.contains(&TargetKind::Test))
        .map(|target| target.name.as_str())
}

/// The names of what a package depends on when it is used, on any target.
pub(crate) fn dependencies(package: &Package) -> impl Iterator<Item = &str> {
    package
        .dependencies
        .iter()
        .filter(|d| d.kind == DependencyKind::Normal)
        .map(|d| d.name.as_str())
}
