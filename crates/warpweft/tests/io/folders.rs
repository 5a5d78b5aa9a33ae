//! Folders, and files by their names: each error names the path.

use crate::files::Folder;
use futures_core::Stream;
use std::collections::BTreeSet;
use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::pin::{Pin, pin};
use std::task::Poll;
use warpweft::fs::{self, File};
use warpweft::{Runtime, block_on, spawn_job};

fn one() -> Runtime {
    Runtime::builder().workers(1).build().expect("threads")
}

fn run(program: impl Future<Output = io::Result<()>>) {
    one().block_on(program).expect("a disk");
}

async fn names(folder: &Path) -> io::Result<BTreeSet<String>> {
    let mut entries = fs::read_dir(folder).await?;
    let mut names = BTreeSet::new();
    while let Some(entry) = entries.next().await? {
        let name = entry.file_name().into_string().expect("text");
        assert_eq!(entry.path(), folder.join(&name));
        assert!(names.insert(name), "no entry comes twice");
    }
    Ok(names)
}

/// More entries than are read at a time.
#[test]
fn a_folder_has_all_its_entries() {
    let folder = Folder::new("entries");
    run(async {
        let expected: BTreeSet<_> = (0..300).map(|number| number.to_string()).collect();
        for name in &expected {
            std::fs::write(folder.0.join(name), name)?;
        }
        assert_eq!(names(&folder.0).await?, expected);
        // In direct style, and as a stream whose futures are dropped in between.
        let path = folder.0.clone();
        let job = spawn_job(move || block_on(names(&path)));
        assert_eq!(job.await.expect("no panic")?, expected);
        let mut entries = fs::read_dir(&folder.0).await?;
        let mut count = 0;
        loop {
            let next = poll_fn(|cx| {
                let mut next = pin!(entries.next());
                Poll::Ready(next.as_mut().poll(cx))
            });
            match next.await {
                Poll::Ready(Ok(Some(_))) => count += 1,
                Poll::Ready(Ok(None)) => break,
                Poll::Ready(Err(error)) => return Err(error),
                Poll::Pending => warpweft::yield_now().await,
            }
        }
        assert_eq!(count, 300);
        let mut stream = fs::read_dir(&folder.0).await?;
        let first = poll_fn(|cx| Pin::new(&mut stream).poll_next(cx)).await;
        let first = first.expect("300 entries")?;
        assert!(first.file_type().await?.is_file());
        assert!((1..=3).contains(&first.metadata().await?.len()));
        Ok(())
    });
}

#[test]
fn an_empty_folder_has_none() {
    let folder = Folder::new("empty");
    run(async {
        assert!(names(&folder.0).await?.is_empty());
        fs::remove_dir(&folder.0).await?;
        assert!(!fs::try_exists(&folder.0).await?);
        Ok(())
    });
}

#[test]
fn files_are_copied_linked_and_resolved() {
    let folder = Folder::new("copies");
    run(async {
        let at = |name: &str| folder.0.join(name);
        fs::create_dir(at("sub")).await?;
        fs::write(at("sub/one"), "text").await?;
        assert_eq!(fs::copy(at("sub/one"), at("two")).await?, 4);
        fs::hard_link(at("two"), at("three")).await?;
        assert_eq!(fs::read_to_string(at("three")).await?, "text");
        #[cfg(unix)]
        {
            fs::symlink("sub/one", at("link")).await?;
            assert_eq!(fs::read_link(at("link")).await?, PathBuf::from("sub/one"));
            assert!(fs::symlink_metadata(at("link")).await?.is_symlink());
            assert!(fs::metadata(at("link")).await?.is_file());
            let real = fs::canonicalize(at("link")).await?;
            assert_eq!(real, fs::canonicalize(at("sub/one")).await?);
        }
        let mut permissions = fs::metadata(at("two")).await?.permissions();
        permissions.set_readonly(true);
        fs::set_permissions(at("two"), permissions).await?;
        assert!(fs::metadata(at("two")).await?.permissions().readonly());
        fs::remove_dir_all(at("sub")).await?;
        assert!(!fs::try_exists(at("sub/one")).await?);
        Ok(())
    });
}

#[test]
fn each_error_names_its_path() {
    let folder = Folder::new("missing");
    let gone = folder.0.join("gone");
    let is_named = |error: io::Error| {
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(
            error.to_string().contains(&format!("`{}`", gone.display())),
            "{error}"
        );
        let system = error.get_ref().and_then(|named| named.source());
        let system = system.and_then(|source| source.downcast_ref::<io::Error>());
        assert!(system.is_some_and(|system| system.raw_os_error().is_some()));
    };
    run(async {
        is_named(fs::read(&gone).await.expect_err("gone"));
        is_named(fs::read_to_string(&gone).await.expect_err("gone"));
        is_named(fs::read_dir(&gone).await.expect_err("gone"));
        is_named(fs::metadata(&gone).await.expect_err("gone"));
        is_named(fs::canonicalize(&gone).await.expect_err("gone"));
        is_named(fs::remove_file(&gone).await.expect_err("gone"));
        is_named(fs::remove_dir_all(&gone).await.expect_err("gone"));
        is_named(fs::rename(&gone, folder.0.join("other")).await.expect_err("gone"));
        is_named(fs::copy(&gone, folder.0.join("other")).await.expect_err("gone"));
        is_named(File::open(&gone).await.expect_err("gone"));
        let options = std::fs::OpenOptions::new().write(true).clone();
        is_named(File::open_with(options, &gone).await.expect_err("gone"));
        let below = gone.join("file");
        let error = fs::write(&below, "text").await.expect_err("no folder");
        assert!(error.to_string().starts_with("write `"), "{error}");
        let error = fs::rename(&gone, &below).await.expect_err("gone");
        assert!(
            error.to_string().contains(&format!("` to `{}`", below.display())),
            "{error}"
        );
        Ok(())
    });
}
