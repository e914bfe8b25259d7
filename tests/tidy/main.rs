//! The project's rules that a machine can check: layers, the torch wall, sizes, names, gin files,
//! pages. Most read the sources as text, so a failing rule names a file, a line and the remedy.

mod circles;
mod english;
mod gin_files;
mod layers;
mod names;
mod pages;
mod run_commands;
mod site;
mod sizes;
mod source;
mod ties;
mod walls;

/// Fails with one line per violation.
fn assert_none(rule: &str, breaches: Vec<String>) {
    assert!(breaches.is_empty(), "{rule}\n  {}", breaches.join("\n  "));
}
