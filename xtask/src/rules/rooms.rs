//! Imports form no circles: none between the rooms of a crate, and none of more than four of its files.
//!
//! `xtask/rooms.toml` names the floors of each crate and the circles that are tolerated. A member of a
//! tolerated circle that is in no circle any more is a breach as well. So the list only shrinks.

use crate::graph::circles::Weights;
use crate::graph::{self, Arrow, Graph};
use crate::repo::Repo;
use anyhow::{Context as _, Result};
use serde::Deserialize;
use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// The list, relative to the root.
pub(crate) const LIST: &str = "xtask/rooms.toml";
/// A circle of this many files is small enough to be read as one.
const SMALL: usize = 4;
/// The number of arrows of a circle that are printed.
const PRINTED: usize = 24;
/// The rooms of root files: on top of all floors.
pub(crate) const ROOTS: [&str; 2] = ["lib", "main"];

const HEADER: &str = "\
# What `cargo xtask rules` allows in the import graph of each crate. `cargo xtask rooms --crate NAME` prints
# that graph.
#
# floors  The rooms (folders and files at the top of `src`) from the bottom to the top. A room imports from
#         lower floors only. Without floors, only circles are breaches.
# beside  Pairs of rooms of one floor: the first may import from the second.
# circle  A circle of rooms, or of more than four files (relative to `src`), that is tolerated, and why. A
#         member that is in no circle any more is a breach: strike it off. `cargo xtask rooms --accept REASON`
#         does so, and adds new circles with that reason.
";

/// The part of the list for one crate.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Allowed {
    #[serde(default)]
    pub(crate) floors: Vec<Vec<String>>,
    #[serde(default)]
    beside: Vec<(String, String)>,
    #[serde(default)]
    circle: Vec<Tolerated>,
}

impl Allowed {
    pub(crate) fn floor(&self, room: &str) -> Option<usize> {
        let has = |floor: &Vec<String>| floor.iter().any(|other| other == room);
        let root = ROOTS.contains(&room).then_some(self.floors.len());
        self.floors.iter().position(has).or(root)
    }

    /// Says where the room `to` is if the floors forbid `from` to import from it.
    pub(crate) fn refusal(&self, from: &str, to: &str) -> Option<&'static str> {
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

/// A circle that may be there.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tolerated {
    #[serde(default)]
    rooms: Vec<String>,
    #[serde(default)]
    files: Vec<String>,
    reason: String,
}

/// The list, by crate.
pub(crate) type List = BTreeMap<String, Allowed>;

pub(super) fn check(repo: &Repo) -> Result<Vec<String>> {
    let mut list = read(&repo.root.join(LIST))?;
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

/// Reads a list.
pub(crate) fn read(path: &Path) -> Result<List> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    toml::from_str(&text).with_context(|| format!("cannot parse {}", path.display()))
}

/// Writes today's circles into the list. Floors stay, and so does the reason of a circle that shares members
/// with an old one.
pub(crate) fn accept(repo: &Repo, reason: &str) -> Result<()> {
    let mut list = read(&repo.root.join(LIST))?;
    let mut kept = List::new();
    for (name, graph) in graph::all(repo, None)? {
        let mut allowed = list.remove(name).unwrap_or_default();
        allowed.circle = circles(&graph)
            .into_iter()
            .map(|found| {
                let old = allowed.circle.iter().find(|old| {
                    let shares = |a: &[String], b: &[String]| a.iter().any(|member| b.contains(member));
                    shares(&old.rooms, &found.rooms) || shares(&old.files, &found.files)
                });
                Tolerated {
                    reason: old.map_or(reason, |old| &old.reason).to_owned(),
                    ..found
                }
            })
            .collect();
        if !allowed.floors.is_empty() || !allowed.beside.is_empty() || !allowed.circle.is_empty() {
            kept.insert(name.to_owned(), allowed);
        }
    }
    fs::write(repo.root.join(LIST), written(&kept))?;
    Ok(())
}

/// The circles that need an entry.
fn circles(graph: &Graph) -> Vec<Tolerated> {
    let rooms = graph
        .between_rooms()
        .circles()
        .into_iter()
        .map(|members| Tolerated {
            rooms: members.iter().map(|room| graph.rooms[*room].clone()).collect(),
            ..Tolerated::default()
        });
    let files = graph.between_files().circles().into_iter();
    let files = files.filter(|members| members.len() > SMALL).map(|members| {
        let mut files: Vec<_> = members.iter().map(|file| graph.short(*file)).collect();
        files.sort();
        Tolerated {
            files,
            ..Tolerated::default()
        }
    });
    rooms.chain(files).collect()
}

fn written(list: &List) -> String {
    let mut text = HEADER.to_owned();
    let quoted = |names: &[String]| {
        let names: Vec<_> = names.iter().map(|name| format!("\"{name}\"")).collect();
        names.join(", ")
    };
    for (name, allowed) in list {
        let _ = writeln!(text, "\n[{name}]");
        if !allowed.floors.is_empty() {
            let floors: String = allowed
                .floors
                .iter()
                .map(|floor| format!("    [{}],\n", quoted(floor)))
                .collect();
            let _ = writeln!(text, "floors = [\n{floors}]");
        }
        if !allowed.beside.is_empty() {
            let pairs: String = allowed
                .beside
                .iter()
                .map(|(from, to)| format!("    [\"{from}\", \"{to}\"],\n"))
                .collect();
            let _ = writeln!(text, "beside = [\n{pairs}]");
        }
        for circle in &allowed.circle {
            let _ = writeln!(text, "\n[[{name}.circle]]");
            if !circle.rooms.is_empty() {
                let _ = writeln!(text, "rooms = [{}]", quoted(&circle.rooms));
            }
            if !circle.files.is_empty() {
                let files: String = circle
                    .files
                    .iter()
                    .map(|file| format!("    \"{file}\",\n"))
                    .collect();
                let _ = writeln!(text, "files = [\n{files}]");
            }
            let _ = writeln!(text, "reason = {}", toml::Value::from(circle.reason.as_str()));
        }
    }
    text
}

/// Lists the breaches in one crate.
fn breaches(name: &str, graph: &Graph, allowed: &Allowed) -> Vec<String> {
    let mut broken = graph.troubles.clone();
    let tolerated_rooms: Vec<_> = allowed.circle.iter().map(|circle| &circle.rooms[..]).collect();
    let tolerated_files: Vec<_> = allowed.circle.iter().map(|circle| &circle.files[..]).collect();
    broken.extend(round(&Level {
        crate_name: name,
        what: "rooms",
        graph,
        weights: graph.between_rooms(),
        most: 1,
        tolerated: &tolerated_rooms,
        name: &|room| graph.rooms[room].clone(),
        ends: &|arrow| (graph.room_of[arrow.from], graph.room_of[arrow.to]),
    }));
    broken.extend(round(&Level {
        crate_name: name,
        what: "files",
        graph,
        weights: graph.between_files(),
        most: SMALL,
        tolerated: &tolerated_files,
        name: &|file| graph.short(file),
        ends: &|arrow| (arrow.from, arrow.to),
    }));
    for circle in &allowed.circle {
        if circle.reason.trim().is_empty() {
            let first = circle.rooms.iter().chain(&circle.files).next();
            let first = first.map_or("", String::as_str);
            broken.push(format!(
                "{LIST}: {name}: the circle that begins with `{first}` has no reason"
            ));
        }
        if circle.rooms.is_empty() == circle.files.is_empty() {
            broken.push(format!(
                "{LIST}: {name}: a circle is one of rooms or one of files"
            ));
        }
    }
    broken.extend(upwards(name, graph, allowed));
    broken
}

/// One of the two graphs of a crate: that of its rooms or that of its files.
struct Level<'a> {
    crate_name: &'a str,
    what: &'a str,
    graph: &'a Graph,
    weights: Weights,
    /// A circle of this many is no breach.
    most: usize,
    tolerated: &'a [&'a [String]],
    name: &'a dyn Fn(usize) -> String,
    ends: &'a dyn Fn(&Arrow) -> (usize, usize),
}

/// The circles that are not tolerated, and what is tolerated without need.
fn round(level: &Level<'_>) -> Vec<String> {
    let mut broken = Vec::new();
    let mut circles = level.weights.circles();
    circles.retain(|members| members.len() > level.most);
    for members in &circles {
        // The members of one tolerated circle count as one, so only what is new remains.
        let group = |member: usize| {
            let name = (level.name)(member);
            let tolerated = level.tolerated.iter().position(|circle| circle.contains(&name));
            tolerated.ok_or(member)
        };
        let mut groups: Vec<_> = members.iter().map(|member| group(*member)).collect();
        groups.sort();
        groups.dedup();
        let number = |member: usize| groups.iter().position(|other| *other == group(member));
        let mut sizes = vec![0; groups.len()];
        for number in members.iter().filter_map(|member| number(*member)) {
            sizes[number] += 1;
        }
        let mut weights = Weights::new(groups.len());
        let mut arrows = Vec::new();
        for arrow in &level.graph.arrows {
            let (from, to) = (level.ends)(arrow);
            if let (true, true, Some(from), Some(to)) = (
                members.contains(&from),
                members.contains(&to),
                number(from),
                number(to),
            ) && from != to
            {
                weights.add(from, to);
                arrows.push((from, to, arrow));
            }
        }
        let size = |circle: &[usize]| circle.iter().map(|number| sizes[*number]).sum::<usize>();
        for circle in weights.circles() {
            if size(&circle) <= level.most {
                continue;
            }
            let closing = closing(&weights, &circle, &|rest| size(rest) <= level.most);
            let lines = arrows
                .iter()
                .filter(|(from, to, _)| closing.contains(&(*from, *to)))
                .map(|(.., arrow)| format!("\n    {}", level.graph.show(arrow)));
            let lines: Vec<_> = lines.collect();
            let rest = lines.len().saturating_sub(PRINTED);
            let new = circle.iter().filter_map(|number| groups[*number].err());
            let mut named: Vec<_> = new.map(level.name).collect();
            if named.len() < size(&circle) {
                named.push(format!("{} that are tolerated", size(&circle) - named.len()));
            }
            broken.push(format!(
                "{}: a circle of {} {}: {}. It is closed by:{}{}",
                level.crate_name,
                size(&circle),
                level.what,
                named.join(", "),
                lines[..lines.len() - rest].concat(),
                if rest > 0 {
                    format!("\n    and {rest} more")
                } else {
                    String::new()
                }
            ));
        }
    }
    let is_in_one = |name: &String| {
        let mut members = circles.iter().flatten();
        members.any(|number| (level.name)(*number) == *name)
    };
    for tolerated in level.tolerated {
        let gone: Vec<_> = tolerated
            .iter()
            .filter(|name| !is_in_one(name))
            .cloned()
            .collect();
        if !gone.is_empty() {
            broken.push(format!(
                "{LIST}: {}: these {} are in no circle any more, strike them off: {}",
                level.crate_name,
                level.what,
                gone.join(", ")
            ));
        }
    }
    broken
}

/// A small set of pairs such that, without the arrows between them, each circle that is left is small.
fn closing(
    weights: &Weights,
    circle: &[usize],
    is_small: &dyn Fn(&[usize]) -> bool,
) -> BTreeSet<(usize, usize)> {
    let order = weights.order(circle);
    let pairs = order
        .iter()
        .enumerate()
        .flat_map(|(place, low)| order[place + 1..].iter().map(move |high| (*low, *high)));
    let mut upwards: Vec<_> = pairs.filter(|(low, high)| weights.get(*low, *high) > 0).collect();
    upwards.sort_by_key(|(low, high)| Reverse(weights.get(*low, *high)));
    let mut cut: BTreeSet<_> = upwards.iter().copied().collect();
    // Put back what closes small circles only, the thickest bundles first.
    for pair in upwards {
        cut.remove(&pair);
        let mut left = weights.without(&cut).circles();
        left.retain(|members| circle.contains(&members[0]));
        if !left.iter().all(|members| is_small(members)) {
            cut.insert(pair);
        }
    }
    cut
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
    use super::{Allowed, HEADER, List, Tolerated, breaches, circles, written};
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
    fn a_tolerated_circle_is_none_until_it_is_gone() {
        let (_sources, graph) = two_rooms("tolerated");
        let list = "[[circle]]\nrooms = [\"a\", \"b\"]\nreason = \"r\"\n";
        assert_eq!(breaches("x", &graph, &allowed(list)), Vec::<String>::new());
        let list = "[[circle]]\nrooms = [\"a\", \"b\", \"c\"]\nreason = \"\"\n";
        let found = breaches("x", &graph, &allowed(list));
        assert!(
            found[0].ends_with("rooms are in no circle any more, strike them off: c"),
            "{found:?}"
        );
        assert!(found[1].contains("has no reason"), "{found:?}");
        assert_eq!(found.len(), 2);
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
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0].ends_with("c, 2 that are tolerated. It is closed by:\n    b.rs:1  imports  C of c.rs"),
            "{found:?}"
        );
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
    fn only_what_closes_the_large_circle_is_told() {
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

    #[test]
    fn the_list_is_written_as_it_is_read() {
        let (_sources, graph) = two_rooms("written");
        let mut all = List::new();
        let circle = circles(&graph)
            .into_iter()
            .map(|circle| Tolerated {
                reason: "a \"reason\"".to_owned(),
                ..circle
            })
            .collect();
        let crate_list = Allowed {
            circle,
            ..allowed("floors = [[\"a\", \"b\"], [\"c\"]]\nbeside = [[\"c\", \"b\"]]")
        };
        all.insert("x-y".to_owned(), crate_list);
        let text = written(&all);
        assert!(text.starts_with(HEADER));
        let read: List = toml::from_str(&text).unwrap();
        assert_eq!(written(&read), text);
        assert_eq!(read["x-y"].circle[0].rooms, ["a", "b"]);
    }
}
