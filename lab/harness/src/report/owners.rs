//! The picture of which core had which line when: a strip for each line, a colour for each core.

use std::fmt::Write as _;

use super::svg::escape;
use crate::simulation::OwnedLine;

const WIDTH: f64 = 1200.0;
const LEFT: f64 = 260.0;
const STRIP: f64 = 34.0;
const GAP: f64 = 14.0;
const TOP: f64 = 64.0;

/// The picture as a file of its own. `title` says what was run; it is simulated, and says so.
pub(crate) fn svg(title: &str, lines: &[OwnedLine]) -> String {
    // A line that moved at other times only has nothing to show.
    let moved = |line: &&OwnedLine| !line.arrivals.is_empty();
    let lines: Vec<_> = lines.iter().filter(moved).collect();
    let times = || {
        lines
            .iter()
            .flat_map(|line| line.arrivals.iter().map(|(ns, ..)| *ns))
    };
    let (begin, end) = (times().min().unwrap_or(0), times().max().unwrap_or(1));
    let span = (end - begin).max(1) as f64;
    let x = |ns: u64| LEFT + (WIDTH - LEFT - 20.0) * (ns - begin) as f64 / span;
    let height = TOP + (STRIP + GAP) * lines.len() as f64 + 40.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" font-size=\"12\">\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\
         <text x=\"20\" y=\"24\" font-size=\"15\">{}</text>\
         <text x=\"20\" y=\"44\" fill=\"#555\">Simulated. A colour for each core; pale: several cores have a copy. {:.2} µs from \
         the middle of the run.</text>",
        escape(title),
        span / 1e3
    );
    for (at, line) in lines.iter().enumerate() {
        let y = TOP + (STRIP + GAP) * at as f64;
        // Writing into a string cannot fail; so below.
        let _ = write!(
            svg,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\
             <rect x=\"{LEFT}\" y=\"{y}\" width=\"{}\" height=\"{STRIP}\" fill=\"#eee\"/>",
            LEFT - 10.0,
            y + STRIP * 0.6,
            escape(&line.name),
            WIDTH - LEFT - 20.0
        );
        for (place, &(ns, core, alone)) in line.arrivals.iter().enumerate() {
            let until = line.arrivals.get(place + 1).map_or(end, |next| next.0);
            let _ = write!(
                svg,
                "<rect x=\"{:.2}\" y=\"{y}\" width=\"{:.2}\" height=\"{STRIP}\" fill=\"{}\">\
                 <title>{:.3} µs: core {core}{}</title></rect>",
                x(ns),
                (x(until) - x(ns)).max(0.2),
                colour(core, alone),
                (ns - begin) as f64 / 1e3,
                if alone { "" } else { ", a copy" }
            );
        }
    }
    let _ = writeln!(
        svg,
        "<text x=\"{LEFT}\" y=\"{0}\" fill=\"#555\">0</text>\
         <text x=\"{1}\" y=\"{0}\" text-anchor=\"end\" fill=\"#555\">{2:.2} µs</text></svg>",
        height - 16.0,
        WIDTH - 20.0,
        span / 1e3
    );
    svg
}

/// A core's colour, pale for a copy. Neighbours of a cache have hues that are near each other, and caches are
/// far apart. Some programs that show pictures know no colours by their hues: this is red, green and blue.
fn colour(core: usize, alone: bool) -> String {
    let hue = ((core / 4 * 67 + core % 4 * 9) % 360) as f64;
    let (saturation, light) = if alone { (0.7, 0.45) } else { (0.7, 0.82) };
    let part = |offset: f64| {
        let turned = (offset + hue / 30.0) % 12.0;
        let bend = (turned - 3.0).min(9.0 - turned).clamp(-1.0, 1.0);
        let value = light - saturation * f64::min(light, 1.0 - light) * bend;
        (value * 255.0).round() as u8
    };
    format!("#{:02x}{:02x}{:02x}", part(0.0), part(8.0), part(4.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_arrival_is_a_rectangle_and_it_says_that_it_is_simulated() {
        let line = OwnedLine {
            name: String::from("Queue<T>.head"),
            arrivals: vec![(1_000, 3, true), (2_000, 64, false), (4_000, 0, true)],
        };
        let elsewhen = OwnedLine {
            name: String::from("Queue<T>.tail"),
            arrivals: Vec::new(),
        };
        let svg = svg("packet", &[line, elsewhen]);
        assert!(
            svg.contains("Simulated.") && svg.contains("Queue&lt;T&gt;.head"),
            "{svg}"
        );
        assert_eq!(svg.matches("<title>").count(), 3);
        assert!(svg.contains("core 64, a copy"));
        assert!(!svg.contains("tail"), "it did not move");
    }

    #[test]
    fn a_colour_is_that_of_its_hue() {
        assert_eq!(colour(0, true), "#c32222", "a red");
        let caches: std::collections::HashSet<_> =
            (0..128).step_by(4).map(|core| colour(core, true)).collect();
        assert_eq!(caches.len(), 32, "each cache has its own");
    }
}
