use super::{Package, modules_of};
use std::path::{Path, PathBuf};

fn package(files: &[(&str, &str)]) -> Package {
    let files = files.iter().map(|(path, text)| {
        let modules = modules_of(Path::new(path));
        (PathBuf::from(path), modules, (*text).to_owned())
    });
    Package::parse(files.collect()).unwrap()
}

fn found(package: &Package, item: &str, find: &str) -> String {
    let place = package.place(item, find).unwrap();
    format!(
        "{} {}",
        place.file.display(),
        &package.texts[&place.file][place.range]
    )
}

fn error(package: &Package, item: &str, find: &str) -> String {
    package.place(item, find).unwrap_err().to_string()
}

const LATCH: &str = "struct Latch<T>(T);\n\
    impl<T: Copy> Latch<T> {\n    /// ä sets it: set();\n    fn set(&self) { self.call(1, true); }\n}\n\
    impl<T> Drop for Latch<T> {\n    fn drop(&mut self) { self.set(); }\n}\n";

#[test]
fn the_kinds_of_names() {
    let rest = "fn run() { step(); }\ntrait Lane { const N: u8 = 1; fn pop(&self) { none(); } }\n\
                impl Lane for &mut Latch<u8> { fn pop(&self) { some(); } }\n\
                macro_rules! table { () => { row(); } }\nstatic LIMIT: usize = 3;\nmod inner { fn deep() { x(); } }\n";
    let all = package(&[("latch.rs", LATCH), ("lib.rs", rest)]);
    for (item, find, want) in [
        ("Latch::set", "self.call(1, true)", "latch.rs self.call(1, true)"),
        ("Drop for Latch::drop", "self . set ( ) ;", "latch.rs self.set();"),
        ("Latch", "Latch<T>(T)", "latch.rs Latch<T>(T)"),
        ("impl Latch", "T: Copy", "latch.rs T: Copy"),
        ("run", "step()", "lib.rs step()"),
        ("crate::run", "step()", "lib.rs step()"),
        ("Lane::pop", "none()", "lib.rs none()"),
        ("Lane for &mut Latch::pop", "some()", "lib.rs some()"),
        ("Lane::N", "1", "lib.rs 1"),
        ("table!", "row()", "lib.rs row()"),
        ("LIMIT", "3", "lib.rs 3"),
        ("inner::deep", "x()", "lib.rs x()"),
        ("deep", "x()", "lib.rs x()"),
    ] {
        assert_eq!(found(&all, item, find), want, "{item}");
    }
}

#[test]
fn comments_and_line_breaks_make_no_difference() {
    let text = "fn f() {\n    call(\n        1, // one\n        2,\n    );\n    /* more */\n    end()\n}\n";
    let all = package(&[("lib.rs", text)]);
    let want = "lib.rs call(\n        1, // one\n        2,\n    );\n    /* more */\n    end()";
    assert_eq!(found(&all, "f", "call(1, 2);\n\n// other words\nend()"), want);
    let want = want.split("\n    /*").next().unwrap();
    assert_eq!(found(&all, "f", "  call(1, 2,);"), want);
}

#[test]
fn a_module_tells_items_of_one_name_apart() {
    let all = package(&[
        ("latch.rs", LATCH),
        ("old/latch.rs", &LATCH.replace("call", "old")),
    ]);
    assert_eq!(
        error(&all, "Latch::set", "self"),
        "Latch::set may be any of crate::latch::Latch::set, crate::old::latch::Latch::set: put a module in front"
    );
    assert_eq!(
        found(&all, "old::latch::Latch::set", "self.old"),
        "old/latch.rs self.old"
    );
    assert_eq!(
        found(&all, "crate::latch::Latch::set", "self.call"),
        "latch.rs self.call"
    );
}

#[test]
fn items_that_differ_by_their_cfg_are_one_name() {
    let text = "#[cfg(unix)]\nfn f() { unix(); }\n#[cfg(not(unix))]\nfn f() { other(); }\n";
    let all = package(&[("lib.rs", text)]);
    assert_eq!(found(&all, "f", "other()"), "lib.rs other()");
    assert_eq!(error(&all, "f", "()"), "`find` is 4 times in f, not once");
}

#[test]
fn tests_are_no_items() {
    let unit = "fn f() {}\n#[cfg(test)]\nmod tests;\n#[cfg(test)]\nfn helper() { f() }\n";
    let all = package(&[
        ("a.rs", unit),
        (
            "a/tests.rs",
            "fn helper() { f() }\n#[test]\nfn works() { f() }\nmany! { #[test] fn all(n in 0..3) {} }",
        ),
    ]);
    assert_eq!(error(&all, "helper", "f()"), "there is no item helper");
    assert!(all.has_test("a::tests::works"));
    assert!(all.has_test("a::tests::all"));
    assert!(!all.has_test("a::tests::helper"));
}

#[test]
fn errors_name_what_is_near() {
    let all = package(&[("latch.rs", LATCH)]);
    assert_eq!(
        error(&all, "Lock::set", "x"),
        "there is no item Lock::set; near it: crate::latch::Latch::set"
    );
    assert_eq!(
        error(&all, "Latch::set", "self.call(1, false)"),
        "`find` is not in Latch::set: behind `self.call(1,` it wants `false`, and the source has `true`"
    );
    assert_eq!(
        error(&all, "Latch::set", "self.set()"),
        "`find` is not in Latch::set: behind `self.` it wants `set`, and the source has `call`; it is in \
         crate::latch::Drop for Latch::drop"
    );
    assert_eq!(error(&all, "Latch::set", " // nothing"), "`find` has no tokens");
}
