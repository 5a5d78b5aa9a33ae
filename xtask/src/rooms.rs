//! The rooms of each crate, their circles, and the arrows that close them: `cargo xtask rooms`.

use crate::graph::{self, Graph, Level};
use crate::repo::Repo;
use crate::{rules, run};
use anyhow::Result;
use std::fmt::Write as _;

/// Options of the command.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Only this crate. Without it all crates of the workspace, in short.
    #[arg(long = "crate", value_name = "NAME")]
    package: Option<String>,
    /// All arrows into and out of this room.
    #[arg(long, value_name = "ROOM")]
    room: Option<String>,
    /// All arrows into and out of the files whose path ends so.
    #[arg(long, value_name = "PATH")]
    file: Option<String>,
    /// Print each arrow of the circles, not only those that lead upwards.
    #[arg(long)]
    all: bool,
}

/// Prints the graph.
pub(crate) fn run(repo: &Repo, options: &Options) -> Result<()> {
    for (name, graph) in graph::all(repo, options.package.as_deref())? {
        for trouble in &graph.troubles {
            eprintln!("cannot read: {trouble}");
        }
        let text = if options.room.is_some() || options.file.is_some() {
            around(&graph, options)
        } else {
            report(name, &graph, options)
        };
        run::print(&text)?;
    }
    Ok(())
}

fn report(name: &str, graph: &Graph, options: &Options) -> String {
    let rooms = graph.between_rooms();
    let files = graph.between_files();
    let (room_circles, file_circles) = (rooms.weights.circles(), files.weights.circles());
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
    for floor in floors(&rooms) {
        let mut names = rooms.named(&floor);
        // The root imports from everywhere; it needs no floor.
        names.retain(|name| !rules::rooms::ROOTS.contains(name));
        if !names.is_empty() {
            let _ = writeln!(text, "    [\"{}\"],", names.join("\", \""));
        }
    }
    for members in &room_circles {
        let order = rooms.weights.order(members);
        let names = rooms.named(&order).join(", ");
        let _ = writeln!(
            text,
            "\nCircle of {} rooms, the lowest first: {names}",
            order.len()
        );
        bundles(&mut text, graph, &rooms, &order, options.all);
    }
    for members in &file_circles {
        let order = files.weights.order(members);
        let names = files.named(&order).join("\n    ");
        let _ = writeln!(
            text,
            "\nCircle of {} files, the lowest first:\n    {names}",
            order.len()
        );
        bundles(&mut text, graph, &files, &order, options.all);
    }
    text
}

fn sizes(what: &str, circles: &[Vec<usize>]) -> String {
    if circles.is_empty() {
        return format!("no {what}");
    }
    let sizes: Vec<_> = circles.iter().map(|members| members.len().to_string()).collect();
    format!("{what}: {}", sizes.join(", "))
}

/// The rooms from the bottom up. Those of a circle are in an order with few arrows upwards, one to a floor.
fn floors(rooms: &Level) -> Vec<Vec<usize>> {
    let mut floors: Vec<Vec<usize>> = Vec::new();
    let components = rooms.weights.components();
    for room in components.iter().flat_map(|members| rooms.weights.order(members)) {
        // On top of everything that it imports and that is before it in the order.
        let below = floors
            .iter()
            .rposition(|floor| floor.iter().any(|other| rooms.weights.get(room, *other) > 0));
        let number = below.map_or(0, |below| below + 1);
        if number == floors.len() {
            floors.push(Vec::new());
        }
        floors[number].push(room);
    }
    floors
}

/// The bundles of arrows between two members of a circle, the thinnest first. The members are in an order,
/// the lowest first.
fn bundles(text: &mut String, graph: &Graph, level: &Level, order: &[usize], all: bool) {
    let mut found = Vec::new();
    for (place, from) in order.iter().enumerate() {
        for (other, to) in order.iter().enumerate() {
            let (weight, is_downwards) = (level.weights.get(*from, *to), other < place);
            if weight > 0 && (all || !is_downwards) {
                found.push((is_downwards, weight, *from, *to));
            }
        }
    }
    found.sort_unstable();
    let upwards = level.weights.upwards(order);
    let _ = writeln!(
        text,
        "  {upwards} arrows lead upwards; without them there is no circle."
    );
    for (is_downwards, weight, from, to) in found {
        let direction = if is_downwards { "downwards" } else { "upwards" };
        let (from_name, to_name) = (&level.names[from], &level.names[to]);
        let _ = writeln!(text, "  {from_name} -> {to_name}: {weight} {direction}");
        for arrow in graph
            .arrows
            .iter()
            .filter(|arrow| level.ends(arrow) == (from, to))
        {
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
