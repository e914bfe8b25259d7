//! The protocol: reads messages and writes answers, one after another.
//!
//! Mistakes are published once no message is waiting, so that they do not delay quick typing. A
//! panic in an answer is a bug and ends that answer only.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use lsp_server::{Connection, ErrorCode, Message, Notification, Request, Response};
use lsp_types::{
    DidChangeTextDocumentParams, DidCloseTextDocumentParams, DidOpenTextDocumentParams,
    InitializeParams, PublishDiagnosticsParams, TextDocumentContentChangeEvent, Uri,
    WorkspaceFolders,
};
use serde::de::DeserializeOwned;

use crate::run::dialect::Registries;
use crate::run::output::write_error;

use super::answers::{self, Answer};
use super::capabilities::capabilities;
use super::diagnose::diagnose;
use super::files::{Buffer, Files};
use super::position::Lines;
use super::project::Project;

/// Serves an editor until it shuts down the connection.
///
/// # Errors
/// An editor that violates the protocol, or closes the connection.
pub fn serve(
    connection: &Connection,
    registries: Registries,
    search_paths: Vec<String>,
) -> Result<(), anyhow::Error> {
    let params = connection.initialize(capabilities())?;
    let params: InitializeParams = serde_json::from_value(params).unwrap_or_default();
    let project = Project::new(folders(&params)?, search_paths, registries);
    let mut server = Server { connection, project, outdated: BTreeSet::new() };
    server.run()
}

/// Returns the workspace's folders; the working directory if there are none.
fn folders(params: &InitializeParams) -> Result<Vec<PathBuf>, anyhow::Error> {
    let given = match &params.workspace_folders_initialize_params.workspace_folders {
        Some(WorkspaceFolders::WorkspaceFolderList(list)) => {
            list.iter().map(|folder| folder.uri.clone()).collect()
        }
        _ => Vec::new(),
    };
    // Editors older than workspace folders name one root.
    #[allow(deprecated)]
    let root = params.root_uri.iter().cloned();
    let uris: Vec<Uri> = if given.is_empty() { root.collect() } else { given };
    let here = std::env::current_dir().context("reading the working directory")?;
    let files = Files::new(here.clone());
    let folders: Vec<PathBuf> = uris.iter().map(|uri| files.path_of_uri(uri)).collect();
    Ok(if folders.is_empty() { vec![here] } else { folders })
}

struct Server<'c> {
    connection: &'c Connection,
    project: Project,
    /// Open files whose mistakes must be published again.
    outdated: BTreeSet<PathBuf>,
}

impl Server<'_> {
    fn run(&mut self) -> Result<(), anyhow::Error> {
        loop {
            let message = match self.connection.receiver.try_recv() {
                Ok(message) => message,
                Err(_) => {
                    self.publish()?;
                    self.connection.receiver.recv().context("the editor has gone away")?
                }
            };
            match message {
                Message::Request(request) => {
                    if self.connection.handle_shutdown(&request)? {
                        return Ok(());
                    }
                    let response = self.answer(request);
                    self.connection.sender.send(response.into())?;
                }
                Message::Notification(notification) => {
                    // The protocol has no reply to a bad notification.
                    let handled = catch_unwind(AssertUnwindSafe(|| self.notice(notification)));
                    if let Ok(Err(error)) = handled {
                        write_error(&format!("{error:#}\n"));
                    }
                }
                Message::Response(_) => {}
            }
        }
    }

    fn answer(&mut self, request: Request) -> Response {
        let Request { id, method, params } = request;
        let answer =
            catch_unwind(AssertUnwindSafe(|| answers::answer(&mut self.project, &method, params)));
        match answer {
            Ok(Answer::Result(result)) => Response::new_ok(id, result),
            Ok(Answer::Refused(why)) => Response::new_err(id, ErrorCode::RequestFailed as i32, why),
            Ok(Answer::BadParams(why)) => {
                Response::new_err(id, ErrorCode::InvalidParams as i32, why)
            }
            Ok(Answer::Unknown) => {
                let message = format!("the language server of gin has no `{method}`");
                Response::new_err(id, ErrorCode::MethodNotFound as i32, message)
            }
            Err(_) => {
                let message = format!("a bug in gimlet: `{method}` panicked");
                Response::new_err(id, ErrorCode::InternalError as i32, message)
            }
        }
    }

    fn notice(&mut self, notification: Notification) -> Result<(), anyhow::Error> {
        let Notification { method, params } = notification;
        match method.as_str() {
            "textDocument/didOpen" => {
                let opened = read::<DidOpenTextDocumentParams>(params)?.text_document;
                let (uri, text, version) = (opened.uri, opened.text, opened.version);
                self.project.edit(Buffer { uri, text, version });
                self.project.rescan();
            }
            "textDocument/didChange" => self.change(read(params)?)?,
            "textDocument/didClose" => {
                let closed = read::<DidCloseTextDocumentParams>(params)?.text_document.uri;
                self.project.close(&closed);
                self.project.rescan();
                self.send(closed, None, Vec::new())?;
            }
            "textDocument/didSave" | "workspace/didChangeWatchedFiles" => self.project.rescan(),
            _ => return Ok(()),
        }
        // Any open file may include the changed file.
        self.outdated = self.project.files.buffers().map(|(path, _)| path.clone()).collect();
        Ok(())
    }

    fn change(&mut self, params: DidChangeTextDocumentParams) -> Result<(), anyhow::Error> {
        let uri = params.text_document.text_document_identifier.uri;
        let path = self.project.files.path_of_uri(&uri);
        let buffer = self.project.files.buffer(&path);
        let mut text = buffer.map(|buffer| buffer.text.clone()).unwrap_or_default();
        for change in params.content_changes {
            match change {
                TextDocumentContentChangeEvent::TextDocumentContentChangeWholeDocument(whole) => {
                    text = whole.text;
                }
                TextDocumentContentChangeEvent::TextDocumentContentChangePartial(part) => {
                    let lines = Lines::new(&text);
                    let start = lines.offset(part.range.start);
                    let end = lines.offset(part.range.end).max(start);
                    text.replace_range(start..end, &part.text);
                }
            }
        }
        let version = params.text_document.version;
        self.project.edit(Buffer { uri, text, version });
        Ok(())
    }

    fn publish(&mut self) -> Result<(), anyhow::Error> {
        for path in std::mem::take(&mut self.outdated) {
            let found = catch_unwind(AssertUnwindSafe(|| self.mistakes(&path)));
            let Some(buffer) = self.project.files.buffer(&path) else { continue };
            let (uri, version) = (buffer.uri.clone(), buffer.version);
            self.send(uri, Some(version), found.unwrap_or_default())?;
        }
        Ok(())
    }

    fn mistakes(&mut self, path: &Path) -> Vec<lsp_types::Diagnostic> {
        let Some(analysis) = self.project.analysis(path) else { return Vec::new() };
        diagnose(&analysis, self.project.is_part(path), &self.project.files)
    }

    fn send(
        &self,
        uri: Uri,
        version: Option<i32>,
        diagnostics: Vec<lsp_types::Diagnostic>,
    ) -> Result<(), anyhow::Error> {
        let params = PublishDiagnosticsParams { uri, version, diagnostics };
        let method = "textDocument/publishDiagnostics".to_string();
        let notification = Notification::new(method, params);
        self.connection.sender.send(notification.into()).context("the editor has gone away")
    }
}

fn read<T: DeserializeOwned>(params: serde_json::Value) -> Result<T, anyhow::Error> {
    serde_json::from_value(params).map_err(|error| anyhow!("cannot read a message: {error}"))
}
