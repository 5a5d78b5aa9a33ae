//! Imports form no circles: none between the rooms of a crate, and none of more than four of its files.
//!
//! `xtask/rooms.toml` names the floors of each crate and the circles of rooms that are tolerated. One that is
//! not there any more, or has other members, is a breach as well.

use crate::graph::{self, Arrow, Graph, Level};
use crate::repo::Repo;
use anyhow::{Context as _, Result};
use serde::Deserialize;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fs;

/// The list, relative to the root.
const LIST: &str = "xtask/rooms.toml";
/// A circle of this many files is small enough to be read as one.
const SMALL: usize = 4;
/// The rooms of root files: on top of all floors.
pub(crate) const ROOTS: [&str; 2] = ["lib", "main"];

/// The part of the list for one crate.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Allowed {
    #[serde(default)]
    floors: Vec<Vec<String>>,
    #[serde(default)]
    beside: Vec<(String, String)>,
    #[serde(default)]
    circle: Vec<Tolerated>,
}

impl Allowed {
    fn floor(&self, room: &str) -> Option<usize> {
        let has = |floor: &Vec<String>| floor.iter().any(|other| other == room);
        let root = ROOTS.contains(&room).then_some(self.floors.len());
        self.floors.iter().position(has).or(root)
    }

    /// Says where the room `to` is if the floors forbid `from` to import from it.
    fn refusal(&self, from: &str, to: &str) -> Option<&'static str> {
        let (low, high) = (self.floor(from)?, self.floor(to)?);
        let is_pair = |pair: &(String, String)| pair.0 == from && pair.1 == to;
        match high.cmp(&low) {
            _ if from == to => None,
            Ordering::Less => None,
            Ordering::Equal if self.beside.iter().any(is_pair) => None,
            Ordering::Equal => Some("beside it"),
            Ordering::Greater => Some("upwards"),
        }
    }
}

/// A circle of rooms that may be there.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Tolerated {
    /// All of them, sorted.
    rooms: Vec<String>,
    reason: String,
}

pub(super) fn check(repo: &Repo) -> Result<Vec<String>> {
    let text = fs::read_to_string(repo.root.join(LIST)).with_context(|| format!("cannot read {LIST}"))?;
    let mut list: BTreeMap<String, Allowed> =
        toml::from_str(&text).with_context(|| format!("cannot parse {LIST}"))?;
    let mut broken = Vec::new();
    for (name, graph) in graph::all(repo, None)? {
        let allowed = list.remove(name).unwrap_or_default();
        broken.extend(breaches(name, &graph, &allowed));
    }
    broken.extend(
        list.keys()
            .map(|name| format!("{LIST}: there is no crate `{name}`")),
    );
    Ok(broken)
}

/// Lists the breaches in one crate.
fn breaches(name: &str, graph: &Graph, allowed: &Allowed) -> Vec<String> {
    let mut broken = graph.troubles.clone();
    let (rooms, files) = (graph.between_rooms(), graph.between_files());
    let mut room_circles = rooms.weights.circles();
    for Tolerated {
        rooms: tolerated,
        reason,
    } in &allowed.circle
    {
        let listed = tolerated.join(", ");
        match room_circles
            .iter()
            .position(|circle| rooms.named(circle) == *tolerated)
        {
            Some(place) => drop(room_circles.remove(place)),
            None => broken.push(format!(
                "{LIST}: {name}: there is no such circle, strike it off: {listed}"
            )),
        }
        if reason.trim().is_empty() {
            broken.push(format!("{LIST}: {name}: this circle has no reason: {listed}"));
        }
    }
    let mut file_circles = files.weights.circles();
    file_circles.retain(|circle| circle.len() > SMALL);
    broken.extend(
        room_circles
            .iter()
            .map(|circle| told(name, graph, &rooms, circle)),
    );
    broken.extend(
        file_circles
            .iter()
            .map(|circle| told(name, graph, &files, circle)),
    );
    broken.extend(upwards(name, graph, allowed));
    broken
}

/// A circle, with the few arrows without which there is none.
fn told(name: &str, graph: &Graph, level: &Level, circle: &[usize]) -> String {
    let order = level.weights.order(circle);
    let place = |member: usize| order.iter().position(|other| *other == member);
    let mut text = format!(
        "{name}: a circle of {} {}: {}. It is closed by:",
        circle.len(),
        level.what,
        level.named(circle).join(", ")
    );
    for arrow in &graph.arrows {
        let (from, to) = level.ends(arrow);
        if let (Some(from), Some(to)) = (place(from), place(to))
            && from < to
        {
            text += &format!("\n    {}", graph.show(arrow));
        }
    }
    text
}

/// The arrows that lead to a higher floor, or to another room of the same one.
fn upwards(name: &str, graph: &Graph, allowed: &Allowed) -> Vec<String> {
    let mut broken = Vec::new();
    if allowed.floors.is_empty() {
        return broken;
    }
    for room in &graph.rooms {
        if allowed.floor(room).is_none() {
            broken.push(format!("{LIST}: {name}: the room `{room}` has no floor"));
        }
    }
    for room in allowed.floors.iter().flatten() {
        if !graph.rooms.contains(room) {
            broken.push(format!("{LIST}: {name}: there is no room `{room}`"));
        }
    }
    for arrow in &graph.arrows {
        let (from, to) = graph.rooms_of(arrow);
        let has = |circle: &Tolerated, room: &str| circle.rooms.iter().any(|other| other == room);
        let tolerated = |circle: &Tolerated| has(circle, from) && has(circle, to);
        if let Some(way) = allowed
            .refusal(from, to)
            .filter(|_| !allowed.circle.iter().any(tolerated))
        {
            broken.push(format!("{}: `{to}` is {way}", graph.show(arrow)));
        }
    }
    for (from, to) in &allowed.beside {
        let is_used = |arrow: &Arrow| graph.rooms_of(arrow) == (from, to);
        if !graph.arrows.iter().any(is_used) {
            broken.push(format!(
                "{LIST}: {name}: `{from}` imports nothing from `{to}` beside it: strike the pair off"
            ));
        }
    }
    broken
}

#[cfg(test)]
mod tests {
    use super::{Allowed, breaches};
    use crate::graph::Graph;
    use crate::graph::tests::Sources;

    /// Two rooms that import each other: the library's own is `b -> a`, and the other one closes the circle.
    fn two_rooms(name: &str) -> (Sources, Graph) {
        let sources = Sources::new(
            name,
            &[
                ("lib.rs", "mod a;\nmod b;\nmod c;\n"),
                (
                    "a.rs",
                    "pub struct A;\npub struct More;\nfn f() {\n    crate::b::g();\n}\n",
                ),
                ("b.rs", "use crate::a::{A, More};\npub fn g() {}\n"),
                ("c.rs", "use crate::b::g;\n"),
            ],
        );
        let graph = sources.graph();
        (sources, graph)
    }

    fn allowed(text: &str) -> Allowed {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn a_circle_is_found_and_the_arrow_that_closes_it() {
        let (_sources, graph) = two_rooms("closed");
        let found = breaches("x", &graph, &Allowed::default());
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("circle of 2 rooms: a, b"), "{found:?}");
        assert!(found[0].ends_with("    a.rs:4  imports  g of b.rs"), "{found:?}");
    }

    #[test]
    fn a_tolerated_circle_is_none_until_its_members_change() {
        let (_sources, graph) = two_rooms("tolerated");
        let list = "[[circle]]\nrooms = [\"a\", \"b\"]\nreason = \"r\"\n";
        assert_eq!(breaches("x", &graph, &allowed(list)), Vec::<String>::new());
        let list = "[[circle]]\nrooms = [\"a\", \"b\", \"c\"]\nreason = \"\"\n";
        let found = breaches("x", &graph, &allowed(list));
        assert!(
            found[0].ends_with("there is no such circle, strike it off: a, b, c"),
            "{found:?}"
        );
        assert!(found[1].contains("has no reason"), "{found:?}");
        assert!(found[2].contains("circle of 2 rooms: a, b"), "{found:?}");
        assert_eq!(found.len(), 3);
    }

    #[test]
    fn what_joins_a_tolerated_circle_is_found() {
        let sources = Sources::new(
            "joined",
            &[
                ("lib.rs", "mod a;\nmod b;\nmod c;\n"),
                ("a.rs", "pub struct A(crate::b::B);\n"),
                ("b.rs", "pub struct B(crate::a::A, crate::c::C);\n"),
                (
                    "c.rs",
                    "pub struct C;\nfn f() {\n    crate::a::A;\n    crate::b::B;\n}\n",
                ),
            ],
        );
        let list = "[[circle]]\nrooms = [\"a\", \"b\"]\nreason = \"r\"\n";
        let found = breaches("x", &sources.graph(), &allowed(list));
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("no such circle"), "{found:?}");
        assert!(found[1].contains("circle of 3 rooms: a, b, c"), "{found:?}");
        assert!(found[1].contains("    b.rs:1  imports  C of c.rs"), "{found:?}");
    }

    #[test]
    fn five_files_in_a_circle_are_one_too_many() {
        for size in [4, 5] {
            let mut files = vec![("lib.rs".to_owned(), "mod room;\n".to_owned())];
            let mods: String = (0..size).map(|n| format!("mod f{n};\n")).collect();
            files.push(("room/mod.rs".to_owned(), mods));
            for n in 0..size {
                let text = format!("pub struct S(super::f{}::S);\n", (n + 1) % size);
                files.push((format!("room/f{n}.rs"), text));
            }
            let files: Vec<_> = files.iter().map(|(path, text)| (&path[..], &text[..])).collect();
            let sources = Sources::new(&format!("five-{size}"), &files);
            let found = breaches("x", &sources.graph(), &Allowed::default());
            assert_eq!(found.len(), usize::from(size == 5), "{found:?}");
        }
    }

    #[test]
    fn one_arrow_that_closes_all_is_told_alone() {
        // A chain of six, with a small circle at its start, and one arrow from its end to its start.
        let mut files = vec![("lib.rs".to_owned(), "mod room;\n".to_owned())];
        let mods: String = (0..6).map(|n| format!("mod f{n};\n")).collect();
        files.push(("room/mod.rs".to_owned(), mods));
        for n in 0..6 {
            let back = if n == 1 { "use super::f0::S as _;\n" } else { "" };
            let text = format!("{back}pub struct S;\nuse super::f{}::S as _;\n", (n + 1) % 6);
            files.push((format!("room/f{n}.rs"), text));
        }
        let files: Vec<_> = files.iter().map(|(path, text)| (&path[..], &text[..])).collect();
        let sources = Sources::new("large", &files);
        let found = breaches("x", &sources.graph(), &Allowed::default());
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].matches("imports").count(), 1, "{found:?}");
    }

    #[test]
    fn imports_go_to_lower_floors() {
        let sources = Sources::new(
            "floors",
            &[
                ("lib.rs", "mod a;\nmod b;\nmod c;\npub struct Root;\n"),
                ("a.rs", "pub struct A(crate::Root);\n"),
                ("b.rs", "pub struct B(crate::a::A);\n"),
                ("c.rs", "pub struct C(crate::b::B);\n"),
            ],
        );
        let graph = sources.graph();
        let found = breaches(
            "x",
            &graph,
            &allowed("floors = [[\"a\"], [\"b\", \"c\"], [\"d\"]]"),
        );
        assert_eq!(
            found,
            [
                "xtask/rooms.toml: x: there is no room `d`",
                "a.rs:1  imports  Root of lib.rs: `lib` is upwards",
                "c.rs:1  imports  B of b.rs: `b` is beside it"
            ]
        );
        let list = "floors = [[\"a\"], [\"b\", \"c\"]]\nbeside = [[\"c\", \"b\"], [\"b\", \"c\"]]";
        let found = breaches("x", &graph, &allowed(list));
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[1].contains("`b` imports nothing from `c`"), "{found:?}");
    }
}
