//! What the pages share: the beginning of the document, tables, and the machine.

use super::svg::escape;
use crate::machine::{Machine, Versions};

/// The style of the pages.
const STYLE: &str = include_str!("style.css");

/// A page, begun: its title, its heading and its first sentence, as HTML.
pub(super) fn begin(command: &str, title: &str, heading: &str, lead: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <title>{title}</title><style>{STYLE}</style></head><body><main>\
         <header><p class=\"over\">{command}</p><h1>{heading}</h1><p class=\"lead\">{lead}.</p></header>"
    )
}

/// A table. Headings are plain text; those in `texts` are of columns that hold text. Each row is a group, and
/// the HTML of its cells, of which the first is a heading as well. A row of another group than the one before
/// has a gap above it.
pub(super) fn table(
    headings: &[String],
    texts: &[&str],
    rows: impl IntoIterator<Item = (usize, Vec<String>)>,
) -> String {
    let class = |heading: &String| {
        if texts.contains(&heading.as_str()) {
            " class=\"text\""
        } else {
            ""
        }
    };
    let mut html = String::from("<div class=\"wide\"><table><thead><tr>");
    for heading in headings {
        html += &format!("<th{}>{}", class(heading), escape(heading));
    }
    html += "</thead><tbody>";
    let mut last = None;
    for (group, cells) in rows {
        let has_gap = last.replace(group).is_some_and(|last| last != group);
        html += if has_gap { "<tr class=\"gap\">" } else { "<tr>" };
        for (at, (heading, cell)) in headings.iter().zip(cells).enumerate() {
            let tag = if at == 0 { "th" } else { "td" };
            html += &format!("<{tag}{}>{cell}", class(heading));
        }
    }
    html + "</tbody></table></div>"
}

/// The machine and the versions, for the list at the end of a page.
pub(super) fn machine(html: &mut String, machine: &Machine, versions: &Versions) {
    let mut fact = |name: &str, value: &str| *html += &format!("<dt>{name}<dd>{}", escape(value));
    fact(
        "machine",
        &format!(
            "{}, {} CPUs, {} MiB",
            machine.processor, machine.cpus, machine.memory_mib
        ),
    );
    fact("system", &format!("{}, {}", machine.system, machine.architecture));
    fact(
        "compiler",
        &format!("{}, {} build", versions.rustc, versions.profile),
    );
    fact("allocator", &versions.allocator);
    let peers = versions
        .peers
        .iter()
        .map(|(name, version)| format!("{name} {version}"));
    fact("contestants", &peers.collect::<Vec<_>>().join(", "));
}

/// Escaped, with text between backticks as code.
pub(super) fn quoted(text: &str) -> String {
    text.split('`')
        .enumerate()
        .map(|(at, part)| {
            if at % 2 == 1 {
                format!("<code>{}</code>", escape(part))
            } else {
                escape(part)
            }
        })
        .collect()
}
