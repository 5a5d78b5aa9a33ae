//! Files that are written at the end but must be known to be writable at the beginning.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::error::LabError;

/// A file to be. Its folder exists and takes files; what was there before stays until [`Pending::finish`],
/// and nothing is left behind if that never comes.
#[derive(Debug)]
pub struct Pending {
    action: &'static str,
    path: PathBuf,
    target: Target,
}

/// The way in which the contents get there.
#[derive(Debug)]
enum Target {
    /// Into a draft beside the file, which then takes its place.
    Draft(PathBuf),
    /// Straight into a pipe or a device.
    Open(File),
}

impl Pending {
    /// The same for a file in a folder of ours, which is made if it is missing, and then named on standard
    /// error.
    pub fn in_own_folder(action: &'static str, path: &Path) -> Result<Self, LabError> {
        if let Some(folder) = path.parent().filter(|folder| !folder.exists()) {
            fs::create_dir_all(folder).map_err(|error| {
                let reason = format!("its folder `{}` cannot be made: {error}", folder.display());
                LabError::file(action, path, &reason)
            })?;
            // Nothing can be done if standard error is closed.
            drop(writeln!(io::stderr(), "made the folder {}", folder.display()));
        }
        Self::open(action, path)
    }

    /// Tries whether `path` can be written. Its folder must exist. `action` is for the error: "write the
    /// report".
    pub fn open(action: &'static str, path: &Path) -> Result<Self, LabError> {
        let refused = |reason: io::Error| LabError::file(action, path, &reason);
        let pending = |target| Self {
            action,
            path: path.to_path_buf(),
            target,
        };
        if let Ok(metadata) = fs::metadata(path) {
            if metadata.is_dir() {
                return Err(LabError::file(action, path, "it is a folder; name a file in it"));
            }
            if !metadata.is_file() {
                let file = OpenOptions::new().write(true).open(path).map_err(refused)?;
                return Ok(pending(Target::Open(file)));
            }
        }
        let Some(name) = path.file_name() else {
            return Err(LabError::file(action, path, "it names no file"));
        };
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        if let Some(folder) = folder.filter(|folder| !folder.exists()) {
            let reason = format!(
                "its folder `{0}` does not exist; make it first: mkdir -p {0}",
                folder.display()
            );
            return Err(LabError::file(action, path, &reason));
        }
        let draft = path.with_file_name(format!(".{}.{}.part", name.to_string_lossy(), std::process::id()));
        File::create(&draft)
            .and_then(|_| fs::remove_file(&draft))
            .map_err(refused)?;
        Ok(pending(Target::Draft(draft)))
    }

    /// Writes the contents and puts the file in its place.
    pub fn finish(self, contents: impl AsRef<[u8]>) -> Result<PathBuf, LabError> {
        let written = match self.target {
            Target::Open(mut file) => file.write_all(contents.as_ref()),
            Target::Draft(draft) => fs::write(&draft, contents.as_ref())
                .and_then(|()| fs::rename(&draft, &self.path))
                // A half-written draft does no harm if it cannot be removed.
                .inspect_err(|_| drop(fs::remove_file(&draft))),
        };
        written.map_err(|error| LabError::file(self.action, &self.path, &error))?;
        Ok(self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("warpweft-lab-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn a_file_appears_only_when_it_is_finished() {
        let folder = folder("finish");
        let path = folder.join("deep/er/report.html");
        let missing = Pending::open("write the report", &path).unwrap_err().to_string();
        assert!(
            missing.contains("does not exist; make it first: mkdir -p"),
            "{missing}"
        );
        let pending = Pending::in_own_folder("write the report", &path).unwrap();
        assert!(!path.exists());
        assert_eq!(pending.finish("done").unwrap(), path);
        assert_eq!(fs::read_to_string(&path).unwrap(), "done");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn what_was_there_stays_if_nothing_is_written() {
        let folder = folder("stay");
        let path = folder.join("report.html");
        fs::write(&path, "old").unwrap();
        drop(Pending::open("write the report", &path).unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "no draft is left");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn impossible_places_are_named_with_the_reason() {
        let folder = folder("impossible");
        fs::write(folder.join("file"), "").unwrap();
        let error = |path: &Path| Pending::open("write the report", path).unwrap_err().to_string();
        assert!(error(&folder).contains("it is a folder"));
        let below_a_file = error(&folder.join("file/report.html"));
        assert!(
            below_a_file.contains("file/report.html") && below_a_file.contains("cannot"),
            "{below_a_file}"
        );
        fs::remove_dir_all(folder).unwrap();
    }
}
