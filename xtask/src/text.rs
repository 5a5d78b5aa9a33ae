//! Files as lines of code and lines of prose: what is a comment, and what is said in it.

use std::ops::Range;
use std::path::Path;

/// Returns true if `name` has one of the `parts`, between which are commas. The empty text is a part of all.
pub(crate) fn is_named(name: &str, parts: &str) -> bool {
    parts.split(',').any(|part| name.contains(part))
}

/// The kind of a piece of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Code,
    /// A string in code.
    String,
    /// A comment, or the text of a document.
    Prose,
    /// Code in prose: in backticks, or in a fenced block.
    Quoted,
}

/// A piece of one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Piece<'a> {
    pub(crate) line: usize,
    pub(crate) kind: Kind,
    pub(crate) text: &'a str,
}

/// The pieces of a file; its extension says how to read it.
pub(crate) fn pieces<'a>(path: &Path, text: &'a str) -> Vec<Piece<'a>> {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("rs") => rust(text),
        Some("toml") => manifest(text),
        _ => {
            let mut fence = Fence::default();
            let lines = text.lines().enumerate();
            lines
                .flat_map(|(number, line)| fence.prose(number + 1, line))
                .collect()
        }
    }
}

/// Remembers if the lines are in a fenced block.
#[derive(Default)]
struct Fence {
    inside: bool,
}

impl Fence {
    /// The pieces of a line of prose.
    fn prose<'a>(&mut self, line: usize, text: &'a str) -> Vec<Piece<'a>> {
        let piece = |kind, text| Piece { line, kind, text };
        let start = text.trim_start_matches(['/', '!', '*', ' ', '\t', '>']);
        if start.starts_with("```") || start.starts_with("~~~") {
            self.inside = !self.inside;
            return Vec::new();
        }
        if self.inside {
            return vec![piece(Kind::Quoted, text)];
        }
        let parts = text.split('`').enumerate();
        let kind = |number| {
            if number % 2 == 0 {
                Kind::Prose
            } else {
                Kind::Quoted
            }
        };
        parts.map(|(number, part)| piece(kind(number), part)).collect()
    }
}

/// In a manifest `#` begins a comment, but not in a string. `#[` is Rust in a string of several lines.
fn manifest(text: &str) -> Vec<Piece<'_>> {
    let mut fence = Fence::default();
    let mut found = Vec::new();
    for (number, text) in text.lines().enumerate() {
        let line = number + 1;
        let mut quote = None;
        let mut start = 0;
        for (at, c) in text.char_indices() {
            let (kind, end) = match (quote, c) {
                (None, '#') if !text[at..].starts_with("#[") => {
                    found.push(Piece {
                        line,
                        kind: Kind::Code,
                        text: &text[start..at],
                    });
                    found.extend(fence.prose(line, &text[at..]));
                    start = text.len();
                    break;
                }
                (None, '"' | '\'') => (Kind::Code, at),
                (Some(open), c) if open == c => (Kind::String, at + 1),
                _ => continue,
            };
            quote = if quote.is_none() { Some(c) } else { None };
            found.push(Piece {
                line,
                kind,
                text: &text[start..end],
            });
            start = end;
        }
        found.push(Piece {
            line,
            kind: Kind::Code,
            text: &text[start..],
        });
    }
    found.retain(|piece| !piece.text.trim().is_empty());
    found
}

/// In Rust, comments are prose.
fn rust(text: &str) -> Vec<Piece<'_>> {
    let mut fence = Fence::default();
    let mut found = Vec::new();
    let mut first = 1;
    for (kind, part) in split(text) {
        for (line, part) in (first..).zip(part.split('\n')) {
            if kind == Kind::Prose {
                found.extend(fence.prose(line, part));
            } else if !part.trim().is_empty() {
                // A fence that is still open ends with its comment.
                fence.inside = false;
                found.push(Piece {
                    line,
                    kind,
                    text: part,
                });
            }
        }
        first += part.matches('\n').count();
    }
    found
}

/// Splits Rust into comments, strings and other code.
fn split(text: &str) -> Vec<(Kind, &str)> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let (mut start, mut at) = (0, 0);
    while at < bytes.len() {
        let (kind, end) = match &bytes[at..] {
            [b'/', b'/', ..] => (Kind::Prose, at + text[at..].find('\n').unwrap_or(text.len() - at)),
            [b'/', b'*', ..] => (Kind::Prose, block_end(bytes, at)),
            _ => code_end(bytes, at),
        };
        if kind != Kind::Code {
            found.push((Kind::Code, &text[start..at]));
            found.push((kind, &text[at..end]));
            start = end;
        }
        at = end;
    }
    found.push((Kind::Code, &text[start..]));
    found
}

/// The tokens of Rust by their places in `text`: names, numbers, strings, and each sign. White space and
/// comments are none.
pub(crate) fn tokens(text: &str) -> Vec<Range<usize>> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let start = at;
        at = match &bytes[at..] {
            [b'/', b'/', ..] => at + text[at..].find('\n').unwrap_or(text.len() - at),
            [b'/', b'*', ..] => block_end(bytes, at),
            [byte, ..] if byte.is_ascii_whitespace() => at + 1,
            _ => {
                at = code_end(bytes, at).1;
                found.push(start..at);
                at
            }
        };
    }
    found
}

/// The end of a block comment; such comments nest.
fn block_end(bytes: &[u8], mut at: usize) -> usize {
    let mut depth = 0;
    while at < bytes.len() {
        match &bytes[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    bytes.len()
}

/// The string, character, name or sign that begins at `at`: whether it is a string, and its end.
fn code_end(bytes: &[u8], at: usize) -> (Kind, usize) {
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_' || !byte.is_ascii();
    let name = bytes[at..].iter().take_while(|byte| is_name(byte)).count();
    let rest = &bytes[at + name..];
    let hashes = rest.iter().take_while(|byte| **byte == b'#').count();
    if matches!(&bytes[at..at + name], b"r" | b"br" | b"cr") && rest.get(hashes) == Some(&b'"') {
        let close = [b"\"".as_slice(), &b"#".repeat(hashes)].concat();
        let body = &rest[hashes + 1..];
        let length = body.windows(close.len()).position(|window| window == close);
        let end = length.map_or(bytes.len(), |length| {
            at + name + hashes + 1 + length + close.len()
        });
        return (Kind::String, end);
    }
    match (name, bytes[at]) {
        (1.., _) => (Kind::Code, at + name),
        (0, b'"') => (Kind::String, quoted_end(bytes, at, b'"')),
        // A character; a lifetime has no quote behind its first letter.
        (0, b'\'') if bytes.get(at + 1) == Some(&b'\\') || character_at(bytes, at + 1) => {
            (Kind::Code, quoted_end(bytes, at, b'\''))
        }
        _ => (Kind::Code, at + 1),
    }
}

fn character_at(bytes: &[u8], at: usize) -> bool {
    let length = match bytes.get(at) {
        None | Some(0..0x80) => 1,
        Some(0x80..0xe0) => 2,
        Some(0xe0..0xf0) => 3,
        Some(0xf0..) => 4,
    };
    bytes.get(at + length) == Some(&b'\'')
}

fn quoted_end(bytes: &[u8], at: usize, quote: u8) -> usize {
    let mut end = at + 1;
    while end < bytes.len() && bytes[end] != quote {
        end += if bytes[end] == b'\\' { 2 } else { 1 };
    }
    bytes.len().min(end + 1)
}

#[cfg(test)]
mod tests {
    use super::{Kind, pieces, tokens};
    use std::path::Path;

    fn read(path: &str, text: &str) -> Vec<(usize, Kind, String)> {
        pieces(Path::new(path), text)
            .into_iter()
            .filter(|piece| !piece.text.trim().is_empty())
            .map(|piece| (piece.line, piece.kind, piece.text.trim().to_owned()))
            .collect()
    }

    fn kinds(path: &str, text: &str, kind: Kind) -> Vec<String> {
        let all = read(path, text).into_iter();
        all.filter(|(_, k, _)| *k == kind)
            .map(|(_, _, text)| text)
            .collect()
    }

    #[test]
    fn comments_of_rust_are_prose() {
        let text = "let s = \"// no\"; // yes `Code` more\nlet r = r#\"\" // no\"#; /* a /* b */ c */ let c = '\"';\n\
                    fn f<'a>(x: &'a str) {} // last\nlet q = '\\''; // end";
        assert_eq!(
            kinds("x.rs", text, Kind::Prose),
            ["// yes", "more", "/* a /* b */ c */", "// last", "// end"]
        );
        assert_eq!(kinds("x.rs", text, Kind::Quoted), ["Code"]);
        assert_eq!(
            kinds("x.rs", text, Kind::String),
            ["\"// no\"", "r#\"\" // no\"#"]
        );
        assert_eq!(read("x.rs", text).last().map(|(line, ..)| *line), Some(4));
    }

    #[test]
    fn fenced_blocks_are_code() {
        let text = "/// Prose.\n/// ```\n/// code\n/// ```\n/// More.\nfn f() {}\n";
        assert_eq!(kinds("x.rs", text, Kind::Quoted), ["/// code"]);
        assert_eq!(kinds("x.rs", text, Kind::Prose), ["/// Prose.", "/// More."]);
        assert_eq!(
            kinds("x.md", "a `b` c\n```text\nd\n```\ne\n", Kind::Prose),
            ["a", "c", "e"]
        );
    }

    #[test]
    fn manifests_have_comments_too() {
        let text = "a = \"# no\" # yes\n# also\nb = '#'\nc = '''\n#[cfg(x)] knob\n'''\n";
        assert_eq!(kinds("x.toml", text, Kind::Prose), ["# yes", "# also"]);
        assert_eq!(kinds("x.toml", text, Kind::String)[..2], ["\"# no\"", "'#'"]);
        assert_eq!(kinds("x.toml", text, Kind::Code)[4], "#[cfg(x)] knob");
    }

    #[test]
    fn tokens_leave_comments_out() {
        let text = "/// Doc\nf(&'a x, /* no */ r#\"a \"b\"#); // end";
        let found: Vec<_> = tokens(text).into_iter().map(|range| &text[range]).collect();
        assert_eq!(
            found,
            ["f", "(", "&", "'", "a", "x", ",", "r#\"a \"b\"#", ")", ";"]
        );
    }
}
