//! Links between the documents lead to files and headings that exist. Addresses on the net are not followed.

use crate::repo::Repo;
use anyhow::Result;
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

pub(super) fn check(repo: &Repo) -> Result<Vec<String>> {
    let mut pages = BTreeMap::new();
    for path in repo.files(&repo.root, "md")? {
        let page = Page::read(&fs::read_to_string(&path)?);
        pages.insert(path, page);
    }
    let mut broken = Vec::new();
    for (path, page) in &pages {
        for link in &page.links {
            if let Some(why) = wrong(path, link, &pages) {
                broken.push(format!("{}: [{link}]: {why}", repo.show(path)));
            }
        }
    }
    Ok(broken)
}

/// What a document links to, and what can be linked to in it.
#[derive(Debug, Default)]
struct Page {
    links: Vec<String>,
    anchors: BTreeSet<String>,
}

impl Page {
    fn read(text: &str) -> Self {
        let mut page = Page::default();
        let mut heading: Option<String> = None;
        for event in Parser::new_ext(text, Options::ENABLE_TABLES | Options::ENABLE_FOOTNOTES) {
            match event {
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    page.links.push(dest_url.into_string());
                }
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::Text(text) | Event::Code(text) => {
                    if let Some(heading) = &mut heading {
                        heading.push_str(&text);
                    }
                }
                Event::End(TagEnd::Heading(_)) => page.add_anchor(&heading.take().unwrap_or_default()),
                _ => {}
            }
        }
        page
    }

    /// As the usual viewers do: lower case, hyphens for spaces, no punctuation, a number if it is there
    /// already.
    fn add_anchor(&mut self, heading: &str) {
        let slug: String = heading
            .to_lowercase()
            .chars()
            .filter_map(|c| match c {
                ' ' => Some('-'),
                '-' | '_' => Some(c),
                c => c.is_alphanumeric().then_some(c),
            })
            .collect();
        let mut anchor = slug.clone();
        for number in 1.. {
            if self.anchors.insert(anchor) {
                break;
            }
            anchor = format!("{slug}-{number}");
        }
    }
}

/// What is wrong with a link of the page at `path`.
fn wrong(path: &Path, link: &str, pages: &BTreeMap<PathBuf, Page>) -> Option<String> {
    if link.contains("://") || link.starts_with("mailto:") || names_an_item(link) {
        return None;
    }
    let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
    let target = if file.is_empty() {
        path.to_owned()
    } else {
        normal(&path.parent()?.join(file))
    };
    if !target.exists() {
        return Some("there is no such file".to_owned());
    }
    let page = pages.get(&target)?;
    (!anchor.is_empty() && !page.anchors.contains(anchor)).then(|| "there is no such heading".to_owned())
}

/// Pages that are included into the documentation of a module link to items by their Rust paths.
fn names_an_item(link: &str) -> bool {
    let first = link.split("::").next().unwrap_or_default();
    link.contains("::") || matches!(first, "self" | "Self" | "crate" | "super")
}

/// Without `.` and `..`, as far as the text of the path says.
fn normal(path: &Path) -> PathBuf {
    let mut result = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::CurDir => {}
            std::path::Component::ParentDir => {
                result.pop();
            }
            part => result.push(part),
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::{Page, names_an_item, normal};
    use std::path::Path;

    #[test]
    fn links_and_anchors_of_a_page() {
        let page = Page::read(
            "# A `b` C\n\n[x](y.md#z) ![i](i.png)\n\n## A b c\n\n```\n[no](no.md)\n```\n<https://a.b>",
        );
        assert_eq!(page.links, ["y.md#z", "i.png", "https://a.b"]);
        assert_eq!(page.anchors.into_iter().collect::<Vec<_>>(), ["a-b-c", "a-b-c-1"]);
    }

    #[test]
    fn paths_of_items_are_not_files() {
        assert!(names_an_item("Self::found"));
        assert!(names_an_item("self"));
        assert!(names_an_item("crate::Word"));
        assert!(!names_an_item("decisions/0001.md"));
    }

    #[test]
    fn dots_are_resolved() {
        assert_eq!(normal(Path::new("/a/b/../c/./d")), Path::new("/a/c/d"));
    }
}
