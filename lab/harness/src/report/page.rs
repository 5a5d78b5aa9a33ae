//! What both pages share: the beginning of the document, a warning, and the machine.

use super::svg::{escape, put};
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

/// The machine and the versions, for the list at the end of a page.
pub(super) fn machine(html: &mut String, machine: &Machine, versions: &Versions) {
    let mut fact = |name: &str, value: &str| put(html, format_args!("<dt>{name}<dd>{}", escape(value)));
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
