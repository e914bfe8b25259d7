//! The names that the files of a crate take from each other. A name is followed through re-exports
//! to the file that defines it, so a `mod.rs` that only declares and re-exports is tied to nothing.

use std::collections::{BTreeMap, BTreeSet};

use crate::source::{Source, first_word, is_word};

/// File -> file -> the names that the first takes from the second.
pub type Ties = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

/// Reads the ties between the files of the crate whose sources lie in `root`.
pub fn ties(root: &str, sources: &[Source]) -> Ties {
    let modules = Modules::read(root, sources);
    modules.0.iter().map(|(key, module)| (module.file.clone(), modules.ties_of(key))).collect()
}

/// Modules by their path with `/`; the crate itself is the empty path.
struct Modules(BTreeMap<String, Module>);

struct Module {
    file: String,
    /// The code without tests and without `use` declarations.
    code: String,
    imports: Vec<Import>,
    /// The names of the items outside of blocks, and whether each is public.
    items: BTreeMap<String, bool>,
}

struct Import {
    /// The name in this module; `*` for all names of a module.
    name: String,
    path: Vec<String>,
    /// Whether other modules may take the name from this one.
    is_export: bool,
}

/// A definition: the module that holds it, and its name.
type Definition = (String, String);

/// More steps than any chain of re-exports has; a module that imports itself ends here.
const MAX_STEPS: usize = 16;

impl Modules {
    fn read(root: &str, sources: &[Source]) -> Self {
        let modules = sources.iter().map(|source| (key_of(root, &source.path), Module::of(source)));
        Modules(modules.collect())
    }

    fn ties_of(&self, key: &str) -> BTreeMap<String, BTreeSet<String>> {
        let module = &self.0[key];
        let private = module.imports.iter().filter(|import| !import.is_export);
        let imported = private.map(|import| import.path.clone());
        let mut ties: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        for path in imported.chain(paths_in(&module.code)) {
            match self.resolve(key, &path, MAX_STEPS) {
                Some((owner, name)) if owner != key => {
                    ties.entry(self.0[&owner].file.clone()).or_default().insert(name);
                }
                _ => {}
            }
        }
        ties
    }

    /// Finds the definition that a path names in a module; none for other crates and for modules.
    fn resolve(&self, key: &str, path: &[String], steps: usize) -> Option<Definition> {
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "crate" => self.find("", rest, steps),
            "self" => self.find(key, rest, steps),
            "super" => self.find(parent(key), rest, steps),
            _ if self.0.contains_key(&join(key, first)) => self.find(key, path, steps),
            _ => self.imported(key, path, steps),
        }
    }

    /// Finds the definition at a path within a module.
    fn find(&self, key: &str, path: &[String], steps: usize) -> Option<Definition> {
        let (first, rest) = path.split_first()?;
        if first == "super" {
            return self.find(parent(key), rest, steps);
        }
        let child = join(key, first);
        if !rest.is_empty() && self.0.contains_key(&child) {
            return self.find(&child, rest, steps);
        }
        let definition = self.imported(key, path, steps);
        definition.or_else(|| {
            let is_item = self.0[key].items.contains_key(first);
            is_item.then(|| (key.to_string(), first.clone()))
        })
    }

    fn imported(&self, key: &str, path: &[String], steps: usize) -> Option<Definition> {
        let steps = steps.checked_sub(1)?;
        let (first, rest) = path.split_first()?;
        let imports = &self.0.get(key)?.imports;
        imports.iter().find_map(|import| match import.name.as_str() {
            "*" => self
                .resolve(key, &[&import.path, path].concat(), steps)
                .filter(|definition| self.is_public(definition)),
            name if name == first => self.resolve(key, &[&import.path, rest].concat(), steps),
            _ => None,
        })
    }

    fn is_public(&self, (key, name): &Definition) -> bool {
        self.0[key].items.get(name) == Some(&true)
    }
}

/// The name of the item that a line begins; empty for others.
fn item_name(line: &str) -> &str {
    const ITEMS: [&str; 8] =
        ["struct ", "enum ", "trait ", "fn ", "type ", "static ", "macro_rules! ", "const "];
    let heads = ITEMS.iter().filter_map(|item| line.split_once(item));
    heads.map(|(_, rest)| first_word(rest)).next().unwrap_or_default()
}

impl Module {
    fn of(source: &Source) -> Self {
        let mut code = source.code_without_tests();
        let mut imports = Vec::new();
        while let Some((start, end)) = use_declaration(&code) {
            let declaration = code[start..end].to_string();
            let is_export = code[..start].trim_end().ends_with([')', 'b']);
            for (name, path) in expand("", &declaration["use ".len()..]) {
                let path = path.split("::").map(str::to_string).collect();
                imports.push(Import { name, path, is_export });
            }
            code.replace_range(start..=end, "");
        }
        let heads = outer_lines(&code).into_iter();
        let items = heads.map(|line| (item_name(line).to_string(), line.starts_with("pub")));
        Module { file: source.path.clone(), items: items.collect(), code, imports }
    }
}

/// The lines outside of blocks, and those that stand so in a rule of a macro or in a call of one, since they become items
/// too: those of a rule here, even if the call is elsewhere. rustfmt has indented them: two levels in a rule, one in a call.
fn outer_lines(code: &str) -> Vec<&str> {
    let mut inside = None;
    let mut found = Vec::new();
    for line in code.lines().filter(|line| !line.trim().is_empty()) {
        let text = line.trim_start();
        match (line.len() - text.len(), inside) {
            (0, _) => {
                let path = line.split_once('!').map_or("", |(path, _)| path);
                let is_macro = line.ends_with('{') && !path.is_empty() && path.bytes().all(is_path);
                inside = is_macro.then_some(if line.starts_with("macro_rules!") { 8 } else { 4 });
                found.push(text);
            }
            (depth, Some(expected)) if depth == expected => found.push(text),
            _ => {}
        }
    }
    found.retain(|line| !line.starts_with('}'));
    found
}

/// The bytes from `use` up to the `;` of the first declaration.
fn use_declaration(code: &str) -> Option<(usize, usize)> {
    let mut words = code.match_indices("use ").map(|(start, _)| start);
    let start = words.find(|start| *start == 0 || !is_word(code.as_bytes()[start - 1]))?;
    Some((start, start + code[start..].find(';')?))
}

/// `(name, path)` of each name that the tree of a `use` declaration brings.
fn expand(prefix: &str, tree: &str) -> Vec<(String, String)> {
    let tree = tree.trim();
    if let Some((head, group)) = tree.split_once('{') {
        let prefix = format!("{prefix}{head}");
        let group = group.trim_end_matches('}').trim();
        return entries(group).iter().flat_map(|entry| expand(&prefix, entry)).collect();
    }
    let (path, alias) = tree.split_once(" as ").unwrap_or((tree, ""));
    let path = match path {
        "self" => prefix.trim_end_matches("::").to_string(),
        _ => format!("{prefix}{path}"),
    };
    let last = path.rsplit("::").next().unwrap_or_default();
    let name = if alias.is_empty() { last } else { alias }.to_string();
    vec![(name, path.trim_end_matches("::*").to_string())]
}

/// The entries of a group, at the commas outside inner groups.
fn entries(group: &str) -> Vec<String> {
    let (mut depth, mut found) = (0, vec![String::new()]);
    for letter in group.chars() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        match found.last_mut() {
            Some(entry) if letter != ',' || depth > 0 => entry.push(letter),
            _ => found.push(String::new()),
        }
    }
    found.retain(|entry| !entry.trim().is_empty());
    found
}

/// Every name and path, `a` or `a::b`, in code; no fields, methods or paths from the root.
fn paths_in(code: &str) -> BTreeSet<Vec<String>> {
    let mut paths = BTreeSet::new();
    let mut at = 0;
    while let Some(start) = code[at..].find(is_path_letter).map(|skip| at + skip) {
        let length = code.bytes().skip(start).take_while(|byte| is_path(*byte)).count();
        at = start + length;
        let is_declared = code[..start].ends_with("mod ");
        let is_member = code[..start].ends_with('.') && !code[..start].ends_with("..");
        let path = code[start..at].split("::").map(str::to_string);
        if !is_declared && !is_member && !code[start..].starts_with(':') {
            paths.insert(path.filter(|word| !word.is_empty()).collect());
        }
    }
    paths
}

fn is_path(byte: u8) -> bool {
    is_word(byte) || byte == b':'
}

fn is_path_letter(letter: char) -> bool {
    u8::try_from(letter).is_ok_and(is_path)
}

fn key_of(root: &str, file: &str) -> String {
    let inner = file.strip_prefix(root).unwrap_or(file).trim_start_matches('/');
    let key = inner.trim_end_matches(".rs");
    key.strip_suffix("/mod").unwrap_or(if key == "lib" { "" } else { key }).to_string()
}

fn parent(key: &str) -> &str {
    key.rsplit_once('/').map_or("", |(parent, _)| parent)
}

fn join(key: &str, name: &str) -> String {
    if key.is_empty() { name.to_string() } else { format!("{key}/{name}") }
}

#[test]
fn names_are_followed_through_re_exports_and_macros() {
    let file = |path: &str, text: &str| {
        let (path, text) = (path.to_string(), text.to_string());
        Source { path, code: text.clone(), text }
    };
    let sources = [
        file("src/lib.rs", "mod a;\nmod b;\npub use b::{Deep, inner as renamed};"),
        file("src/a.rs", "use crate::{Deep, renamed};\nuse super::b;\nfn f() { b::over() }"),
        file("src/b/mod.rs", "mod inner;\npub use inner::*;\npub fn over() {}"),
        file("src/b/inner.rs", "use super::super::a::f;\npub struct Deep;"),
        file(
            "src/c.rs",
            "macro_rules! rule {\n    () => {\n        fn first() {}\n\n        pub fn ruled() {}\n    };\n}\nrule! {}",
        ),
        file(
            "src/d.rs",
            "crate::slot! {\n    pub enum Slot: Trait {\n        Deep,\n    }\n}\nuse crate::c::ruled;",
        ),
        file("src/e.rs", "use crate::d::Slot;\nfn f() {\n    let inner = 1;\n}"),
    ];
    let found = ties("src", &sources);
    let names = |from: &str, to: &str| found[from].get(to).map(|names| names.len());
    assert_eq!(names("src/a.rs", "src/b/inner.rs"), Some(1));
    assert_eq!(names("src/a.rs", "src/b/mod.rs"), Some(1));
    assert_eq!(names("src/b/inner.rs", "src/a.rs"), Some(1));
    assert_eq!(names("src/d.rs", "src/c.rs"), Some(1));
    assert_eq!(names("src/e.rs", "src/d.rs"), Some(1));
    assert!(found["src/lib.rs"].is_empty() && found["src/b/mod.rs"].is_empty());
}
