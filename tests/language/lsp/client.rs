//! An editor: starts `gimlet gin lsp` and uses the protocol over pipes.

use std::io::{BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use lsp_server::{Message, Notification, Request, Response};
use serde_json::{Value as Json, json};
use tempfile::TempDir;

/// An editor with a workspace on disk.
pub struct Client {
    folder: TempDir,
    server: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    requests: i32,
    versions: i32,
}

impl Client {
    /// Starts the server on a workspace of these files.
    pub fn new(files: &[(&str, &str)]) -> Self {
        Self::with_flags(files, &[])
    }

    /// Does the same as [`Client::new`], with flags.
    pub fn with_flags(files: &[(&str, &str)], flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("there is room");
        for (name, text) in files {
            write(&folder.path().join(name), text);
        }
        let mut command = Command::new(env!("CARGO_BIN_EXE_gimlet"));
        command.args(["gin", "lsp"]).args(flags);
        // The server starts in another folder, as from an editor's menu.
        command.current_dir("/").env("XDG_CACHE_HOME", folder.path().join(".cache"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut server = command.spawn().expect("gimlet starts");
        let input = server.stdin.take().expect("piped");
        let output = BufReader::new(server.stdout.take().expect("piped"));
        let mut client = Self { folder, server, input, output, requests: 0, versions: 0 };
        let root = client.uri("");
        let folders = json!([{"uri": root.trim_end_matches('/'), "name": "w"}]);
        let params = json!({"processId": null, "capabilities": {}, "workspaceFolders": folders});
        client.ask("initialize", params).response_result.expect("it starts");
        client.tell("initialized", json!({}));
        client
    }

    /// The path of a file of the workspace.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns the name of a file in the protocol.
    pub fn uri(&self, name: &str) -> String {
        format!("file://{}", self.path(name).display())
    }

    /// Changes a file on disk, not in the editor.
    pub fn write(&self, name: &str, text: &str) {
        write(&self.path(name), text);
    }

    /// Opens a file and waits for its diagnostics.
    pub fn open(&mut self, name: &str, text: &str) -> Vec<Json> {
        self.versions += 1;
        let document = json!({
            "uri": self.uri(name), "languageId": "gin", "version": self.versions, "text": text,
        });
        self.tell("textDocument/didOpen", json!({ "textDocument": document }));
        self.published(name)
    }

    /// Replaces the text of an open file and waits for its diagnostics.
    pub fn edit(&mut self, name: &str, text: &str) -> Vec<Json> {
        self.change(name, json!({ "text": text }))
    }

    /// Makes one change to an open file and waits for its diagnostics.
    pub fn change(&mut self, name: &str, change: Json) -> Vec<Json> {
        self.versions += 1;
        let document = json!({"uri": self.uri(name), "version": self.versions});
        let params = json!({"textDocument": document, "contentChanges": [change]});
        self.tell("textDocument/didChange", params);
        self.published(name)
    }

    /// Waits for the diagnostics of the newest version of a file.
    fn published(&mut self, name: &str) -> Vec<Json> {
        let uri = self.uri(name);
        loop {
            let Message::Notification(Notification { params, .. }) = self.receive() else {
                panic!("nothing was asked");
            };
            if params["uri"] == uri.as_str() && params["version"] == self.versions {
                return params["diagnostics"].as_array().expect("a list").clone();
            }
        }
    }

    /// Asks about a place in a file; `more` are further parameters.
    pub fn at(
        &mut self,
        method: &str,
        name: &str,
        place: Json,
        more: Json,
    ) -> Result<Json, String> {
        let mut params = json!({"textDocument": {"uri": self.uri(name)}, "position": place});
        for (key, value) in more.as_object().expect("named parameters") {
            params[key] = value.clone();
        }
        let response = self.ask(&format!("textDocument/{method}"), params);
        response.response_result.map_err(|error| error.message)
    }

    /// Sends a request and waits for its response.
    pub fn ask(&mut self, method: &str, params: Json) -> Response {
        self.requests += 1;
        let id = self.requests.into();
        self.send(Message::Request(Request { id, method: method.to_string(), params }));
        loop {
            if let Message::Response(response) = self.receive() {
                return response;
            }
        }
    }

    /// Sends a notification.
    pub fn tell(&mut self, method: &str, params: Json) {
        self.send(Message::Notification(Notification { method: method.to_string(), params }));
    }

    /// Sends bytes as they are.
    pub fn send_raw(&mut self, bytes: &[u8]) {
        self.input.write_all(bytes).expect("the server reads");
    }

    fn send(&mut self, message: Message) {
        message.write(&mut self.input).expect("the server reads");
    }

    fn receive(&mut self) -> Message {
        Message::read(&mut self.output).expect("well formed").expect("the server goes on")
    }

    /// Shuts the server down; returns its exit status.
    pub fn close(mut self) -> Option<i32> {
        self.ask("shutdown", Json::Null);
        self.tell("exit", Json::Null);
        self.wait()
    }

    /// Waits for the server to end; returns its exit status.
    pub fn wait(&mut self) -> Option<i32> {
        self.server.wait().expect("it ends").code()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().expect("below the workspace")).expect("there is room");
    std::fs::write(path, text).expect("there is room");
}
