//! A page in Chromium, driven through the pipe of its DevTools protocol.

use std::io::{BufRead, BufReader, PipeReader, PipeWriter, Write, pipe};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The program, as Debian calls it.
const PROGRAM: &str = "chromium";

/// Remembers the texts that a page draws on canvases.
const WATCH: &str = "window.drawn = [];
    const draw = CanvasRenderingContext2D.prototype.fillText;
    CanvasRenderingContext2D.prototype.fillText = function (text, ...rest) {
      window.drawn.push(text);
      return draw.call(this, text, ...rest);
    };";

/// A page in a browser of its own, which ends with it.
pub struct Page {
    browser: Child,
    requests: PipeWriter,
    answers: BufReader<PipeReader>,
    session: Option<String>,
    num_requests: u64,
    /// The addresses that it loaded.
    pub loaded: Vec<String>,
    /// The errors of its programs.
    pub errors: Vec<String>,
    _profile: TempDir,
}

impl Page {
    /// Opens an address. Where there is no Chromium, returns `None` and prints so.
    pub fn open(address: &str) -> Option<Self> {
        let (their_requests, requests) = pipe().expect("the system has pipes");
        let (answers, their_answers) = pipe().expect("the system has pipes");
        let profile = tempfile::tempdir().expect("a temporary folder");
        let mut command = Command::new(PROGRAM);
        command
            .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run"])
            .args(["--disable-background-networking", "--remote-debugging-pipe"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let fds = [(their_requests.as_raw_fd(), 3), (their_answers.as_raw_fd(), 4)];
        let place = move || {
            // Above all numbers that are given a meaning, so that none is overwritten.
            // SAFETY: both calls may be made between fork and exec, and the pipes are open.
            let above =
                fds.map(|(fd, number)| unsafe { (libc::fcntl(fd, libc::F_DUPFD, 10), number) });
            for (fd, number) in above {
                // SAFETY: as above.
                unsafe { libc::dup2(fd, number) };
            }
            Ok(())
        };
        // SAFETY: the closure only calls what may be called between fork and exec.
        unsafe { command.pre_exec(place) };
        let browser = match command.spawn() {
            Ok(browser) => browser,
            Err(error) => {
                eprintln!("skipped: {PROGRAM} does not start: {error}");
                return None;
            }
        };
        let mut page = Self {
            browser,
            requests,
            answers: BufReader::new(answers),
            session: None,
            num_requests: 0,
            loaded: Vec::new(),
            errors: Vec::new(),
            _profile: profile,
        };
        let target = page.call("Target.createTarget", json!({"url": "about:blank"}));
        let session = json!({"targetId": target["targetId"], "flatten": true});
        let session = page.call("Target.attachToTarget", session);
        page.session = Some(session["sessionId"].as_str().expect("a text").to_string());
        for domain in ["Page", "Runtime", "Network"] {
            page.call(&format!("{domain}.enable"), json!({}));
        }
        page.call("Page.addScriptToEvaluateOnNewDocument", json!({"source": WATCH}));
        page.call("Page.navigate", json!({"url": address}));
        page.evaluate(
            "new Promise(done => document.readyState === 'complete' ? done(0) : addEventListener('load', () => done(0)))",
        );
        Some(page)
    }

    /// Calls a method of the protocol, and returns its result.
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        self.num_requests += 1;
        let mut request = json!({"id": self.num_requests, "method": method, "params": params});
        if let Some(session) = &self.session {
            request["sessionId"] = json!(session);
        }
        self.requests.write_all(format!("{request}\0").as_bytes()).expect("the browser runs");
        loop {
            let mut message = Vec::new();
            self.answers.read_until(0, &mut message).expect("the browser runs");
            assert_eq!(message.pop(), Some(0), "the browser has ended");
            let mut message: Value = serde_json::from_slice(&message).expect("JSON");
            if message["id"] == self.num_requests {
                assert!(message["error"].is_null(), "{method}: {message}");
                return message["result"].take();
            }
            self.note(&message);
        }
    }

    fn note(&mut self, event: &Value) {
        let params = &event["params"];
        match event["method"].as_str() {
            Some("Network.requestWillBeSent") => {
                self.loaded.extend(params["request"]["url"].as_str().map(str::to_string));
            }
            Some("Runtime.exceptionThrown") => {
                self.errors.push(params["exceptionDetails"].to_string());
            }
            _ => {}
        }
    }

    /// Evaluates an expression of JavaScript, and waits for its value.
    pub fn evaluate(&mut self, expression: &str) -> Value {
        let params = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let mut result = self.call("Runtime.evaluate", params);
        assert!(result["exceptionDetails"].is_null(), "{expression}: {result}");
        result["result"]["value"].take()
    }

    /// Waits until an expression has a value that counts as true, and returns it.
    pub fn wait(&mut self, expression: &str) -> Value {
        self.evaluate(&format!(
            "new Promise(done => {{ const look = () => {{ const found = {expression}; \
             found ? done(found) : setTimeout(look, 10); }}; look(); }})"
        ))
    }

    /// Returns a picture of what the window shows, as PNG.
    pub fn picture(&mut self) -> Vec<u8> {
        let picture = self.call("Page.captureScreenshot", json!({"format": "png"}));
        let text = picture["data"].as_str().expect("a text");
        BASE64_STANDARD.decode(text).expect("the browser writes base64")
    }

    /// Types a text into the field that has the focus, and then a key such as `Enter`.
    pub fn type_in(&mut self, text: &str, key: &str) {
        self.call("Input.insertText", json!({"text": text}));
        for kind in ["rawKeyDown", "keyUp"] {
            self.call("Input.dispatchKeyEvent", json!({"type": kind, "key": key}));
        }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let _ = self.browser.kill();
        let _ = self.browser.wait();
    }
}
