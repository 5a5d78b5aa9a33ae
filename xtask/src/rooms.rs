//! The rooms of each crate, their circles, and the arrows that close them: `cargo xtask rooms`.

use crate::graph::circles::Weights;
use crate::graph::{self, Arrow, Graph};
use crate::repo::Repo;
use crate::rules::rooms::{Allowed, List};
use crate::{rules, run};
use anyhow::{Context as _, Result};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

/// Options of the command.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Only this crate. Without it all crates of the workspace, in short.
    #[arg(long = "crate", value_name = "NAME")]
    package: Option<String>,
    /// The rooms as a graph for Graphviz. Red arrows lead upwards in the order with the fewest such arrows.
    #[arg(long)]
    dot: bool,
    /// All arrows into and out of this room.
    #[arg(long, value_name = "ROOM")]
    room: Option<String>,
    /// All arrows into and out of the files whose path ends so.
    #[arg(long, value_name = "PATH")]
    file: Option<String>,
    /// Pretend that a file or folder of `src` were in another room: `io/driver.rs=driver`. May be given
    /// many times.
    #[arg(long = "move", value_name = "PATH=ROOM")]
    moves: Vec<String>,
    /// A file with such moves, one a line; `#` begins a comment.
    #[arg(long, value_name = "FILE")]
    moves_in: Option<PathBuf>,
    /// Check against the floors in this file; without it against those in `xtask/rooms.toml`.
    #[arg(long, value_name = "FILE")]
    floors: Option<PathBuf>,
    /// Print each arrow of the circles, not only those that lead upwards.
    #[arg(long)]
    all: bool,
    /// Write the circles of today into `xtask/rooms.toml`, as what `cargo xtask rules` tolerates. New ones
    /// get this reason.
    #[arg(long, value_name = "REASON")]
    accept: Option<String>,
}

/// Prints the graph.
pub(crate) fn run(repo: &Repo, options: &Options) -> Result<()> {
    if let Some(reason) = &options.accept {
        return rules::rooms::accept(repo, reason);
    }
    let list = options.floors.clone();
    let list = list.unwrap_or_else(|| repo.root.join(rules::rooms::LIST));
    // A tree from before this list has none.
    let list = if list.exists() {
        rules::rooms::read(&list)?
    } else {
        List::new()
    };
    let mut moves = options.moves.clone();
    if let Some(path) = &options.moves_in {
        let text =
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let lines = text
            .lines()
            .map(|line| line.split('#').next().unwrap_or_default().trim());
        moves.extend(lines.filter(|line| !line.is_empty()).map(str::to_owned));
    }
    for (name, mut graph) in graph::all(repo, options.package.as_deref())? {
        for item in &moves {
            let (path, room) = item
                .split_once('=')
                .with_context(|| format!("`{item}` is not PATH=ROOM"))?;
            let moved = graph.pretend(path.trim(), room.trim());
            if moved == 0 && options.package.is_some() {
                eprintln!("there is no `{path}` to move");
            }
        }
        for trouble in &graph.troubles {
            eprintln!("cannot read: {trouble}");
        }
        let text = if options.dot {
            dot(name, &graph)
        } else if options.room.is_some() || options.file.is_some() {
            around(&graph, options)
        } else {
            report(name, &graph, list.get(name), options)
        };
        run::print(&text)?;
    }
    Ok(())
}

fn report(name: &str, graph: &Graph, allowed: Option<&Allowed>, options: &Options) -> String {
    let rooms = graph.between_rooms();
    let files = graph.between_files();
    let (room_circles, file_circles) = (rooms.circles(), files.circles());
    let mut text = format!(
        "{name}: {} files in {} rooms, {} arrows; {}; {}\n",
        graph.files.len(),
        graph.rooms.len(),
        graph.arrows.len(),
        sizes("circles of rooms", &room_circles),
        sizes("circles of files", &file_circles),
    );
    if options.package.is_none() {
        return text;
    }
    text.push_str("\nFloors with the fewest arrows upwards, the lowest first:\n");
    for floor in floors(graph, &rooms) {
        let names = floor.iter().map(|room| graph.rooms[*room].as_str());
        // The root imports from everywhere; it needs no floor.
        let names: Vec<_> = names.filter(|name| !rules::rooms::ROOTS.contains(name)).collect();
        if !names.is_empty() {
            let _ = writeln!(text, "    [\"{}\"],", names.join("\", \""));
        }
    }
    if let Some(allowed) = allowed.filter(|allowed| !allowed.floors.is_empty()) {
        refused(&mut text, graph, allowed);
    }
    for members in &room_circles {
        let names: Vec<_> = rooms
            .order(members)
            .iter()
            .map(|room| graph.rooms[*room].as_str())
            .collect();
        let _ = writeln!(
            text,
            "\nCircle of {} rooms, the lowest first: {}",
            members.len(),
            names.join(", ")
        );
        let room = |arrow: &Arrow| (graph.room_of[arrow.from], graph.room_of[arrow.to]);
        let name = |room: usize| graph.rooms[room].clone();
        bundles(&mut text, graph, &rooms, members, options.all, &room, &name);
    }
    for members in &file_circles {
        let order = listed(graph, &files.order(members));
        let _ = writeln!(
            text,
            "\nCircle of {} files, the lowest first:\n{order}",
            members.len()
        );
        let file = |arrow: &Arrow| (arrow.from, arrow.to);
        let name = |file: usize| graph.path(file);
        bundles(&mut text, graph, &files, members, options.all, &file, &name);
    }
    text
}

/// The arrows that the floors forbid, the thinnest bundle first.
fn refused(text: &mut String, graph: &Graph, allowed: &Allowed) {
    let mut bundles: BTreeMap<_, Vec<String>> = BTreeMap::new();
    for arrow in &graph.arrows {
        let (from, to) = graph.rooms_of(arrow);
        if let Some(way) = allowed.refusal(from, to) {
            bundles
                .entry((from, to, way))
                .or_default()
                .push(graph.show(arrow));
        }
    }
    let count: usize = bundles.values().map(Vec::len).sum();
    let _ = writeln!(text, "\nThe floors of the list forbid {count} arrows.");
    for room in graph.rooms.iter().enumerate() {
        if allowed.floor(room.1).is_none() && graph.room_of.contains(&room.0) {
            let _ = writeln!(text, "  {} has no floor", room.1);
        }
    }
    let mut bundles: Vec<_> = bundles.into_iter().collect();
    bundles.sort_by_key(|(_, arrows)| arrows.len());
    for ((from, to, way), arrows) in bundles {
        let _ = writeln!(text, "  {from} -> {to}: {} {way}", arrows.len());
        for arrow in arrows {
            let _ = writeln!(text, "      {arrow}");
        }
    }
}

fn sizes(what: &str, circles: &[Vec<usize>]) -> String {
    if circles.is_empty() {
        return format!("no {what}");
    }
    let sizes: Vec<_> = circles.iter().map(|members| members.len().to_string()).collect();
    format!("{what}: {}", sizes.join(", "))
}

fn listed(graph: &Graph, order: &[usize]) -> String {
    let names: Vec<_> = order
        .iter()
        .map(|file| format!("    {}", graph.path(*file)))
        .collect();
    names.join("\n")
}

/// The rooms from the bottom up. Those of a circle are in the order with the fewest arrows upwards, one to a
/// floor.
fn floors(graph: &Graph, rooms: &Weights) -> Vec<Vec<usize>> {
    let order: Vec<usize> = rooms
        .components()
        .iter()
        .flat_map(|members| rooms.order(members))
        .filter(|room| graph.room_of.contains(room))
        .collect();
    let mut floors: Vec<Vec<usize>> = Vec::new();
    for room in &order {
        // On top of everything that it imports and that is before it in the order.
        let below = floors
            .iter()
            .rposition(|floor| floor.iter().any(|other| rooms.get(*room, *other) > 0));
        let number = below.map_or(0, |below| below + 1);
        if number == floors.len() {
            floors.push(Vec::new());
        }
        floors[number].push(*room);
    }
    floors
}

/// The bundles of arrows between two members of a circle, the thinnest first.
fn bundles(
    text: &mut String,
    graph: &Graph,
    weights: &Weights,
    members: &[usize],
    all: bool,
    ends: &dyn Fn(&Arrow) -> (usize, usize),
    name: &dyn Fn(usize) -> String,
) {
    let order = weights.order(members);
    let place = |number: usize| order.iter().position(|member| *member == number);
    let mut found = Vec::new();
    for (low, from) in order.iter().enumerate() {
        for to in &order {
            let upwards = place(*to) > Some(low);
            let weight = weights.get(*from, *to);
            if weight > 0 && (upwards || all) && from != to {
                found.push((!upwards, weight, *from, *to));
            }
        }
    }
    found.sort_unstable();
    let upwards = weights.upwards(&order);
    let _ = writeln!(
        text,
        "  {upwards} arrows lead upwards; without them there is no circle."
    );
    for (downwards, weight, from, to) in found {
        let direction = if downwards { "downwards" } else { "upwards" };
        let _ = writeln!(text, "  {} -> {}: {weight} {direction}", name(from), name(to));
        for arrow in graph.arrows.iter().filter(|arrow| ends(arrow) == (from, to)) {
            let _ = writeln!(text, "      {}", graph.show(arrow));
        }
    }
}

/// The arrows into and out of a room or of files.
fn around(graph: &Graph, options: &Options) -> String {
    let is_in = |file: usize| {
        let is_room = |room: &String| graph.rooms[graph.room_of[file]] == *room;
        let is_file = |end: &String| graph.files[file].ends_with(end);
        options.room.as_ref().is_none_or(is_room) && options.file.as_ref().is_none_or(is_file)
    };
    let mut text = String::new();
    for (title, from, to) in [("out of it", true, false), ("into it", false, true)] {
        let arrows = graph
            .arrows
            .iter()
            .filter(|arrow| is_in(arrow.from) == from && is_in(arrow.to) == to);
        let lines: Vec<_> = arrows.map(|arrow| graph.show(arrow)).collect();
        if !lines.is_empty() {
            let _ = writeln!(text, "{} arrows {title}:\n  {}", lines.len(), lines.join("\n  "));
        }
    }
    text
}

fn dot(name: &str, graph: &Graph) -> String {
    let rooms = graph.between_rooms();
    let floors = floors(graph, &rooms);
    let floor_of = |room: usize| floors.iter().position(|floor| floor.contains(&room));
    let mut text = format!("digraph \"{name}\" {{\n    rankdir = TB;\n    node [shape = box];\n");
    for floor in floors.iter().rev() {
        let names: Vec<_> = floor
            .iter()
            .map(|room| format!("\"{}\"", graph.rooms[*room]))
            .collect();
        let _ = writeln!(text, "    {{ rank = same; {}; }}", names.join("; "));
    }
    for from in 0..graph.rooms.len() {
        for to in 0..graph.rooms.len() {
            let weight = rooms.get(from, to);
            if weight == 0 || from == to {
                continue;
            }
            let colour = if floor_of(to) >= floor_of(from) {
                ", color = red, constraint = false"
            } else {
                ""
            };
            let _ = writeln!(
                text,
                "    \"{}\" -> \"{}\" [label = {weight}{colour}];",
                graph.rooms[from], graph.rooms[to]
            );
        }
    }
    text.push_str("}\n");
    text
}
