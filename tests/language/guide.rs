//! The examples of docs/gin.md are run as a reader would run them, from the top to the bottom of the
//! page. A block with `file=NAME` behind its language is written into a folder; each line `$ COMMAND`
//! of a `console` block goes to the shell there, and what it prints and its exit status must be what
//! the page shows. `UPDATE_GOLDEN=1` rewrites what it shows.

use std::fs;
use std::path::Path;
use std::process::Command;

/// The page as the program makes it: commands with what they print now.
fn played(page: &str, folder: &Path) -> String {
    let mut out = String::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        out.push_str(&format!("{line}\n"));
        let Some(info) = line.strip_prefix("```") else { continue };
        let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        match info.split_once(" file=") {
            Some((_, name)) => {
                write(&folder.join(name), &block);
                block.iter().for_each(|line| out.push_str(&format!("{line}\n")));
            }
            None if info == "console" => out.push_str(&console(&block, folder)),
            None => panic!("`{line}`: a block is a console or has file=NAME"),
        }
        out.push_str("```\n");
    }
    out
}

fn write(path: &Path, lines: &[&str]) {
    fs::create_dir_all(path.parent().expect("it is below the folder")).expect("it is writable");
    fs::write(path, format!("{}\n", lines.join("\n"))).expect("it is writable");
}

/// The commands of a block, each with what it prints.
fn console(block: &[&str], folder: &Path) -> String {
    let mut out = String::new();
    let mut lines = block.iter();
    while let Some(line) = lines.next() {
        let Some(command) = line.strip_prefix("$ ") else { continue };
        out.push_str(&format!("{line}\n"));
        let mut command = command.to_string();
        while command.ends_with('\\') {
            let more = lines.next().expect("a command that goes on has another line");
            out.push_str(&format!("{more}\n"));
            command.push_str(&format!("\n{more}"));
        }
        out.push_str(&printed(&command, folder));
    }
    out
}

/// What a command prints on both streams, and its status if it fails.
fn printed(command: &str, folder: &Path) -> String {
    let programs = Path::new(env!("CARGO_BIN_EXE_gimlet")).parent().expect("it has a folder");
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").expect("it is set"));
    let output = Command::new("sh")
        .args(["-c", &format!("exec 2>&1\n{command}")])
        .current_dir(folder)
        .env("PATH", path)
        .output()
        .expect("there is a shell");
    let text = String::from_utf8(output.stdout).expect("it prints text");
    let mut text: String = text.lines().map(|line| format!("{line}\n")).collect();
    if let Some(status) = output.status.code().filter(|status| *status != 0) {
        text.push_str(&format!("[exit status {status}]\n"));
    }
    text
}

#[test]
fn the_guide_shows_what_the_program_does() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/gin.md");
    let page = fs::read_to_string(&path).expect("the guide is there");
    let folder = tempfile::tempdir().expect("a temporary folder");
    crate::golden::compare(&path, &played(&page, folder.path()));
}
