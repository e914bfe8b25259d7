//! The conversation of `gimlet generate`, over a pseudo terminal.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::process::{Child, Stdio};
use std::ptr;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use crate::command::Train;
use crate::folder::Folder;
use crate::generate::gimlet;

/// A terminal with a command on it.
struct Terminal {
    child: Child,
    keyboard: File,
    screen: Receiver<String>,
    seen: String,
}

impl Terminal {
    fn start(command: &Train) -> Self {
        let (mut ours, mut theirs) = (0, 0);
        let size = libc::winsize { ws_row: 50, ws_col: 200, ws_xpixel: 0, ws_ypixel: 0 };
        // SAFETY: the pointers are those of variables, or null where the call allows it.
        let opened = unsafe {
            libc::openpty(&mut ours, &mut theirs, ptr::null_mut(), ptr::null(), &raw const size)
        };
        assert_eq!(opened, 0, "the system has no pseudo terminal");
        // SAFETY: `openpty` returned both, and nothing else owns them.
        let [ours, theirs] = [ours, theirs].map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
        let own = || Stdio::from(theirs.try_clone().expect("the terminal is open"));
        let mut command = command.command();
        command.env("TERM", "xterm").stdin(own()).stdout(own()).stderr(own());
        let child = command.spawn().expect("gimlet starts");
        drop((command, theirs));
        let keyboard = File::from(ours);
        let mut screen = keyboard.try_clone().expect("the terminal is open");
        let (sender, receiver) = channel();
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            // It ends with an error when the command has gone.
            while let Ok(count @ 1..) = screen.read(&mut bytes) {
                let _ = sender.send(String::from_utf8_lossy(&bytes[..count]).into_owned());
            }
        });
        Self { child, keyboard, screen: receiver, seen: String::new() }
    }

    fn type_in(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).expect("the terminal is open");
    }

    /// Waits for a text after those that were waited for before.
    fn shows(&mut self, text: &str) {
        loop {
            if let Some(at) = self.seen.find(text) {
                self.seen.drain(..at + text.len());
                return;
            }
            let more = self.screen.recv_timeout(Duration::from_secs(60));
            self.seen += &more.unwrap_or_else(|_| panic!("`{text}` is not in:\n{}", self.seen));
        }
    }
}

#[test]
fn a_conversation_remembers_earlier_texts_and_ends_with_ctrl_d() {
    let folder = Folder::pretrained();
    let words = ["generate", "--checkpoint=pretrained", "--temperature=0", "--max_tokens=5"];
    let both = gimlet(&folder, &[&words[..], &["an earlier text", "b c"]].concat()).succeeds();
    let answers: Vec<String> = both.stdout.lines().map(|line| format!("{line}\r\n")).collect();
    let [earlier, new] = &answers[..] else { panic!("two answers are not {answers:?}") };
    assert!(earlier.len() > 2 && new.len() > 2, "answers are not empty");
    let history = folder.path("state/gimlet/history");
    fs::create_dir_all(history.parent().expect("it has a folder")).expect("it can be made");
    fs::write(&history, "an earlier text\n").expect("it can be written");

    let state = folder.path("state").display().to_string();
    let mut terminal = Terminal::start(&gimlet(&folder, &words).env("XDG_STATE_HOME", &state));
    terminal.shows("Ctrl-D ends");
    terminal.shows("> ");
    terminal.type_in("b c\r");
    terminal.shows(new);
    terminal.shows("> ");
    let (up, ctrl_c, ctrl_d) = ("\x1b[A", "\x03", "\x04");
    terminal.type_in(&format!("dropped{ctrl_c}"));
    terminal.shows("> ");
    terminal.type_in(&format!("{up}{up}\r"));
    terminal.shows(earlier);
    terminal.shows("> ");
    terminal.type_in(ctrl_d);
    assert!(terminal.child.wait().expect("it ends").success());
    let kept = fs::read_to_string(history).expect("it is kept");
    assert!(kept.ends_with("an earlier text\nb c\nan earlier text\n"), "{kept}");
}
