//! Plays a page of the documentation as a reader would, from top to bottom, in one folder.
//!
//! The word after three backquotes gives the kind of a block:
//! - `LANGUAGE file=NAME` is written into the folder;
//! - `console` contains commands after `$ ` and their output, with `[exit status N]` if one fails.
//!   A line `...` stands for any lines, and `...` within a line for any text. In
//!   `console numbers=any` any number stands for any other: the results of training differ a little
//!   from machine to machine;
//! - `sh` contains commands that must succeed, with any output;
//! - `LANGUAGE needs=THING` is not played if the machine does not have the thing, one of
//!   [`THINGS`];
//! - `text` and `python` are only to be read; tests/python/package.py runs docs/python.md;
//! - `gin` alone is a part of a configuration, whose names and types `gimlet gin print` accepts.
//!
//! `UPDATE_GOLDEN=1` rewrites the output of commands in a page.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Things that blocks may need beside Gimlet and `python3`: a bucket or the hub, a checkout to
/// build in, several machines with their launchers, an editor, a GPU, the programs with which Gimlet is compared, SeqIO, T5X, transformers, a
/// wheel of Gimlet. `GIMLET_PAGES_HAVE` lists the available ones.
const THINGS: [&str; 10] = [
    "bucket",
    "checkout",
    "cluster",
    "editor",
    "gpu",
    "peers",
    "seqio",
    "t5x",
    "transformers",
    "wheel",
];

/// Returns the page as the program makes it: commands with their current output.
pub fn played(page: &str, folder: &Path) -> String {
    let mut out = String::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        out.push_str(&format!("{line}\n"));
        let Some(info) = line.strip_prefix("```") else { continue };
        let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        out.push_str(&play(info, &block, folder));
        out.push_str("```\n");
    }
    out
}

/// Plays one block, and returns its lines as they should be.
fn play(info: &str, block: &[&str], folder: &Path) -> String {
    let text: String = block.iter().map(|line| format!("{line}\n")).collect();
    let (language, option) = info.split_once(' ').unwrap_or((info, ""));
    if let Some(thing) = option.strip_prefix("needs=") {
        assert!(THINGS.contains(&thing), "```{info}: needs= takes one of {THINGS:?}");
        let have = std::env::var("GIMLET_PAGES_HAVE").unwrap_or_default();
        if !have.split(',').any(|word| word == thing) {
            return text;
        }
    } else if let Some(name) = option.strip_prefix("file=") {
        write(&folder.join(name), &text);
        return text;
    }
    match language {
        "console" => return console(block, option == "numbers=any", folder),
        "text" | "python" => (),
        "sh" => must_succeed(&text, folder),
        "gin" => {
            write(&folder.join("part.gin"), &text);
            must_succeed("gimlet gin print part.gin", folder);
        }
        _ => panic!("```{info}: this is no kind of block that tests can play"),
    }
    text
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().expect("it is below the folder")).expect("it is writable");
    fs::write(path, text).expect("it is writable");
}

#[track_caller]
fn must_succeed(commands: &str, folder: &Path) {
    let (text, status) = run(&format!("set -e\n{commands}"), folder);
    assert!(status == Some(0), "{commands}ended with status {status:?} and printed\n{text}");
}

/// Returns the commands of a block, each with its output.
fn console(block: &[&str], any_numbers: bool, folder: &Path) -> String {
    let mut out = String::new();
    let mut lines = block.iter().peekable();
    while let Some(line) = lines.next() {
        let Some(command) = line.strip_prefix("$ ") else { continue };
        out.push_str(&format!("{line}\n"));
        let mut command = command.to_string();
        while command.ends_with('\\') {
            let more = lines.next().expect("a command that continues has another line");
            out.push_str(&format!("{more}\n"));
            command.push_str(&format!("\n{more}"));
        }
        let is_output = |line: &&&str| !line.starts_with("$ ");
        let shown: Vec<&str> = std::iter::from_fn(|| lines.next_if(is_output)).copied().collect();
        let printed = printed(&command, folder);
        let found: Vec<&str> = printed.lines().collect();
        let compared = |lines: &[&str]| -> Vec<String> {
            let line =
                |line: &&str| if any_numbers { without_numbers(line) } else { line.to_string() };
            lines.iter().map(line).collect()
        };
        let lines = if agrees(&compared(&shown), &compared(&found)) { shown } else { found };
        lines.iter().for_each(|line| out.push_str(&format!("{line}\n")));
    }
    out
}

/// Whether a page's lines agree with the found ones, where `...` stands for any lines.
fn agrees(shown: &[String], found: &[String]) -> bool {
    match shown {
        [] => found.is_empty(),
        [dots, rest @ ..] if dots == "..." => {
            (0..=found.len()).any(|skipped| agrees(rest, &found[skipped..]))
        }
        [line, rest @ ..] => {
            found.first().is_some_and(|found| fits(line, found)) && agrees(rest, &found[1..])
        }
    }
}

/// A line with `0` in place of each number, such as `1,024`, `1.5e-3`.
fn without_numbers(line: &str) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        let end = rest[at..].find(|c: char| !c.is_ascii_digit() && !",.e-".contains(c));
        let (number, behind) = rest[at..].split_at(end.unwrap_or(rest.len() - at));
        let dots = number.find("...").unwrap_or(number.len());
        out.push_str(&rest[..at]);
        out.push('0');
        out.push_str(&number[dots..]);
        rest = behind;
    }
    // A slow machine has minutes left where a fast one has seconds.
    (out + rest).replace("0m 0s left", "0s left")
}

/// Whether a line agrees with the found one, where `...` stands for any text.
fn fits(line: &str, found: &str) -> bool {
    let Some((head, tail)) = line.split_once("...") else { return line == found };
    let Some(rest) = found.strip_prefix(head) else { return false };
    let starts = rest.char_indices().map(|(at, _)| at).chain([rest.len()]);
    starts.into_iter().any(|at| fits(tail, &rest[at..]))
}

/// Returns the output of a command on both streams, and its status if it fails.
fn printed(command: &str, folder: &Path) -> String {
    let (text, status) = run(command, folder);
    let mut text: String = text.lines().map(|line| format!("{line}\n")).collect();
    if let Some(status) = status.filter(|status| *status != 0) {
        text.push_str(&format!("[exit status {status}]\n"));
    }
    text
}

/// The folder of `gimlet` and `gimlet-torch`: that of GIMLET_PROGRAMS, or where cargo builds them for tests. Cargo links both
/// with libtorch, which takes each command 0.4 s of a processor; `.ci/run` names a folder with those that users get.
pub fn programs() -> PathBuf {
    let built = Path::new(env!("CARGO_BIN_EXE_gimlet")).parent().expect("it has a folder");
    std::env::var_os("GIMLET_PROGRAMS").map_or(built.to_path_buf(), PathBuf::from)
}

fn run(commands: &str, folder: &Path) -> (String, Option<i32>) {
    let path = format!("{}:{}", programs().display(), std::env::var("PATH").expect("it is set"));
    let output = Command::new("sh")
        .args(["-c", &format!("exec 2>&1\n{commands}")])
        .current_dir(folder)
        .env("PATH", path)
        .output()
        .expect("there is a shell");
    (String::from_utf8(output.stdout).expect("it prints text"), output.status.code())
}

#[test]
fn dots_on_a_page_stand_for_any_lines_or_text() {
    let lines = |text: &[&str]| text.iter().map(|line| line.to_string()).collect::<Vec<_>>();
    let found = lines(&["step 10 · loss 4.6 · 1 s", "step 20 · loss 4.1 · 2 s", "finished"]);
    let agrees = |shown: &[&str]| agrees(&lines(shown), &found);
    assert!(agrees(&["step 10 · loss ... s", "...", "finished"]));
    assert!(agrees(&["...", "finished", "..."]));
    assert!(!agrees(&["step 10 · loss ...", "finished"]));
    assert!(!agrees(&["...", "step 20 · loss 4.2..."]));
}

#[test]
fn a_number_may_stand_for_any_other() {
    let shown = without_numbers("step 400: loss 0.0301, 13,201 tokens/s ...");
    assert_eq!(shown, without_numbers("step 400: loss 1.2e-3, 9 tokens/s ..."));
    assert_eq!(without_numbers("1m 3s left"), without_numbers("26s left"));
    assert_ne!(shown, without_numbers("step 400: lost 0.0301, 13,201 tokens/s ..."));
}
