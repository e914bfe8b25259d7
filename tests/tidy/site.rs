//! The pages of docs/, as they are read in the repository and in the site of `make docs`: docs/SUMMARY.md leads to each page, and
//! every link leads to a page and a heading in both.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use crate::assert_none;

/// The table of contents, which mdBook shows beside each page.
const CONTENTS: &str = "docs/SUMMARY.md";
/// The first page of the site.
const FRONT: &str = "docs/README.md";

/// A page of Markdown.
struct Page {
    /// Places in other files or on this page, each with the number of its line, from 1, and its indentation.
    links: Vec<Link>,
    /// The headings as addresses name them.
    headings: BTreeSet<String>,
}

struct Link {
    line: usize,
    indentation: usize,
    target: String,
}

#[test]
fn each_page_stands_once_in_the_table_of_contents_two_clicks_away_at_most() {
    let pages = pages();
    let mut listed = BTreeMap::new();
    let mut breaches = Vec::new();
    for link in &pages[CONTENTS].links {
        let path = resolved(CONTENTS, &link.target);
        if listed.insert(path.clone(), link.indentation).is_some() {
            breaches.push(format!("{CONTENTS}:{}: {path} stands there twice", link.line));
        }
        if link.indentation > 2 {
            breaches.push(format!("{CONTENTS}:{}: {path} is three clicks away", link.line));
        }
    }
    let in_site = pages.keys().filter(|path| path.starts_with("docs/") && *path != CONTENTS);
    breaches.extend(
        in_site
            .filter(|path| !listed.contains_key(*path))
            .map(|path| format!("{path} is missing in {CONTENTS}")),
    );
    assert_none("the table of contents has a line for each page", breaches);

    let linked: BTreeSet<String> =
        pages[FRONT].links.iter().map(|link| resolved(FRONT, &link.target)).collect();
    let missing = listed
        .iter()
        .filter(|(path, indentation)| **indentation == 0 && *path != FRONT)
        .filter(|(path, _)| !linked.contains(*path))
        .map(|(path, _)| path.clone())
        .collect();
    assert_none("docs/README.md links to the pages that are not below others", missing);
}

#[test]
fn links_lead_to_pages_and_headings_in_the_repository_and_in_the_site() {
    let pages = pages();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut breaches = Vec::new();
    for (path, page) in &pages {
        for Link { line, target, .. } in &page.links {
            let (file, heading) = target.split_once('#').unwrap_or((target, ""));
            let found = if file.is_empty() { path.clone() } else { resolved(path, file) };
            let place = format!("{path}:{line}: `{target}`");
            if !root.join(&found).exists() {
                breaches.push(format!("{place}: there is no {found}"));
            } else if path != CONTENTS && path.starts_with("docs/") && !is_in_site(&found) {
                breaches.push(format!("{place}: the site has no {found}: name it without a link"));
            } else if !heading.is_empty() && !has_heading(&pages, &found, heading) {
                breaches.push(format!("{place}: {found} has no such heading"));
            }
        }
    }
    assert_none("a link leads to a page and a heading", breaches);
}

/// Whether the site has the file under the name that it has here; the front page is index.html there.
fn is_in_site(path: &str) -> bool {
    path.starts_with("docs/") && path != FRONT
}

fn has_heading(pages: &BTreeMap<String, Page>, path: &str, heading: &str) -> bool {
    pages.get(path).is_some_and(|page| page.headings.contains(heading))
}

/// Returns the pages of docs/, of the runs and of the repository's top by their paths.
fn pages() -> BTreeMap<String, Page> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut paths = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"].map(PathBuf::from).to_vec();
    collect(root, Path::new("docs"), &mut paths);
    collect(root, Path::new("runs"), &mut paths);
    paths
        .into_iter()
        .map(|path| {
            let text = fs::read_to_string(root.join(&path)).expect("the page is text");
            (path.to_str().expect("names are ASCII").to_string(), parsed(&text))
        })
        .collect()
}

fn collect(root: &Path, folder: &Path, paths: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(root.join(folder)).expect("the folder is there") {
        let path = folder.join(entry.expect("it is readable").file_name());
        if root.join(&path).is_dir() {
            collect(root, &path, paths);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            paths.push(path);
        }
    }
}

/// Reads links and headings, without those in blocks of code.
fn parsed(text: &str) -> Page {
    let mut page = Page { links: Vec::new(), headings: BTreeSet::new() };
    let mut is_code = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            let indentation = line.len() - line.trim_start().len();
            let targets = line.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
            page.links.extend(targets.filter(|(target, _)| !target.contains("://")).map(
                |(target, _)| Link { line: index + 1, indentation, target: target.to_string() },
            ));
            let hashes = line.len() - line.trim_start_matches('#').len();
            let heading = line[hashes..].strip_prefix(' ').filter(|_| hashes > 0);
            page.headings.extend(heading.map(address));
        }
    }
    page
}

/// Returns the address of a heading on its page, as GitHub and mdBook form it.
fn address(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

/// Returns the path within the repository of a link's target on a page.
fn resolved(page: &str, target: &str) -> String {
    let mut path = PathBuf::new();
    let folder = Path::new(page).parent().unwrap_or(Path::new(""));
    for part in folder.join(target).components() {
        match part {
            Component::ParentDir => assert!(path.pop(), "{page}: `{target}` leaves the repository"),
            other => path.push(other),
        }
    }
    path.to_str().expect("names are ASCII").to_string()
}

#[test]
fn links_and_headings_are_read_from_markdown() {
    let page =
        parsed("# The `x` of A-B\n\n  - [one](a.md#b), [two](http://c)\n```\n[no](d)\n```\n");
    let links: Vec<_> =
        page.links.iter().map(|link| (link.line, link.indentation, link.target.as_str())).collect();
    assert_eq!(links, [(3, 2, "a.md#b")]);
    assert_eq!(Vec::from_iter(page.headings), ["the-x-of-a-b"]);
    assert_eq!(resolved("docs/guides/memory.md", "../plan.md"), "docs/plan.md");
}
