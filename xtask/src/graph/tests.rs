//! Graphs of small packages that are written for one test each.

use super::{Graph, Tree};
use std::fs;
use std::path::PathBuf;

/// A folder with sources, which is removed at the end.
pub(crate) struct Sources(PathBuf);

impl Sources {
    pub(crate) fn new(name: &str, files: &[(&str, &str)]) -> Self {
        let folder = std::env::temp_dir().join(format!("xtask-graph-{}-{name}", std::process::id()));
        for (path, text) in files {
            let path = folder.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        Self(folder)
    }

    pub(crate) fn graph(&self) -> Graph {
        let mut tree = Tree::default();
        for root in ["lib.rs", "main.rs"] {
            let path = self.0.join(root);
            if path.is_file() {
                let module = tree.read(&path);
                if root == "lib.rs" {
                    tree.library = Some(("own".to_owned(), module));
                }
            }
        }
        Graph::from_tree(tree, &self.0, &self.0)
    }

    /// The arrows as `from:line item to`.
    fn arrows(&self) -> Vec<String> {
        let graph = self.graph();
        assert_eq!(graph.troubles, Vec::<String>::new());
        let name = |file: usize| {
            let path = graph.files[file].strip_prefix(&self.0).unwrap();
            path.display().to_string()
        };
        let mut found: Vec<_> = graph
            .arrows
            .iter()
            .map(|a| format!("{}:{} {} {}", name(a.from), a.line, a.item, name(a.to)))
            .collect();
        found.sort();
        found
    }
}

impl Drop for Sources {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn re_exports_lead_to_the_file_that_defines() {
    let sources = Sources::new(
        "reexports",
        &[
            ("lib.rs", "mod a;\nmod b;\npub use a::Deep;\n"),
            ("a/mod.rs", "mod deep;\npub use deep::Deep;\npub struct Own;\n"),
            ("a/deep.rs", "use super::Own;\npub struct Deep(Own);\n"),
            (
                "b.rs",
                "use crate::Deep;\nuse crate::a;\nfn f(_: Deep, _: a::Own) {}\n",
            ),
        ],
    );
    assert_eq!(
        sources.arrows(),
        [
            "a/deep.rs:1 Own a/mod.rs",
            "b.rs:1 Deep a/deep.rs",
            "b.rs:3 Own a/mod.rs"
        ]
    );
}

#[test]
fn a_parent_that_uses_what_it_exports_has_an_arrow() {
    let sources = Sources::new(
        "parent",
        &[
            (
                "lib.rs",
                "mod a;\npub use a::{One, Two, f};\nfn g() -> One { f(); let f = 1; f }\n",
            ),
            ("a.rs", "pub struct One;\npub struct Two;\npub fn f() {}\n"),
        ],
    );
    assert_eq!(sources.arrows(), ["lib.rs:3 One a.rs", "lib.rs:3 f a.rs"]);
}

#[test]
fn a_name_may_be_a_module_and_a_function() {
    let sources = Sources::new(
        "both",
        &[
            ("lib.rs", "mod spawn;\nmod user;\npub use spawn::spawn;\n"),
            ("spawn.rs", "pub fn spawn() {}\npub enum Kind { A }\n"),
            (
                "user.rs",
                "fn f() {\n    crate::spawn();\n    super::spawn::Kind::A;\n}\n",
            ),
        ],
    );
    assert_eq!(
        sources.arrows(),
        ["user.rs:2 spawn spawn.rs", "user.rs:3 Kind spawn.rs"]
    );
}

#[test]
fn each_variant_of_a_module_is_read_and_tests_are_not() {
    let sources = Sources::new(
        "variants",
        &[
            (
                "lib.rs",
                "#[cfg(unix)]\n#[path = \"one.rs\"]\nmod system;\n\
                 #[cfg(not(unix))]\n#[path = \"two.rs\"]\nmod system;\n\
                 #[cfg_attr(loom, path = \"model.rs\")]\nmod word;\n\
                 mod user;\n#[cfg(test)]\nmod missing;\n#[cfg(doctest)]\nmod gone;\n",
            ),
            ("one.rs", "pub struct Poller;\n"),
            ("two.rs", "pub struct Poller;\n"),
            ("word.rs", "pub struct Word;\n"),
            ("model.rs", "pub struct Word;\n"),
            (
                "user.rs",
                "use crate::system::Poller;\nuse crate::word::Word;\n\
                 #[cfg(test)]\nuse crate::word::Lost;\n\
                 fn f() {\n#[cfg(test)]\ncrate::lost();\n}\n\
                 #[cfg(all(test, unix))]\nmod tests { use super::*; }\n",
            ),
        ],
    );
    assert_eq!(
        sources.arrows(),
        [
            "user.rs:1 Poller one.rs",
            "user.rs:1 Poller two.rs",
            "user.rs:2 Word model.rs",
            "user.rs:2 Word word.rs"
        ]
    );
}

#[test]
fn macros_stars_and_inner_modules() {
    let sources = Sources::new(
        "macros",
        &[
            ("lib.rs", "mod a;\nmod b;\nmod c;\n"),
            (
                "a.rs",
                "pub const ONE: u8 = 1;\npub mod inner { pub fn f() {} }\n\
                 #[macro_export]\nmacro_rules! made { () => { crate::b::never() } }\n",
            ),
            (
                "b.rs",
                "pub fn never() {}\nfn f() {\n    println!(\"{}\", crate::a::ONE);\n    \
                 use crate::a::inner;\n    inner::f();\n    crate::made!();\n}\n",
            ),
            ("c.rs", "use super::b::*;\nfn g() { never() }\n"),
        ],
    );
    assert_eq!(
        sources.arrows(),
        [
            "b.rs:3 ONE a.rs",
            "b.rs:5 f a.rs",
            "b.rs:6 made a.rs",
            "c.rs:1 * b.rs",
            "c.rs:2 never b.rs"
        ]
    );
}

#[test]
fn programs_import_their_library() {
    let sources = Sources::new(
        "programs",
        &[
            ("lib.rs", "pub mod a;\n"),
            ("a.rs", "pub fn f() {}\n"),
            ("main.rs", "fn main() { own::a::f() }\n"),
        ],
    );
    assert_eq!(sources.arrows(), ["main.rs:1 f a.rs"]);
}

#[test]
fn rooms_are_what_is_at_the_top() {
    let sources = Sources::new(
        "rooms",
        &[
            ("lib.rs", "mod a;\nmod b;\n"),
            ("a.rs", "pub mod deep;\n"),
            ("a/deep.rs", "use crate::b::B;\npub struct Deep(B);\n"),
            ("b/mod.rs", "mod low;\npub struct B(low::Low);\n"),
            ("b/low.rs", "pub struct Low(crate::a::deep::Deep);\n"),
        ],
    );
    let graph = sources.graph();
    assert_eq!(graph.rooms, ["a", "b", "lib"]);
    assert_eq!(graph.between_rooms().weights.circles(), [vec![0, 1]]);
    assert_eq!(graph.between_files().weights.circles()[0].len(), 3);
}

#[test]
fn missing_files_are_told() {
    let sources = Sources::new("missing", &[("lib.rs", "mod gone;\n")]);
    assert_eq!(sources.graph().troubles.len(), 1);
}
