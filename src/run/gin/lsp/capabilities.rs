//! The capabilities of the server, as it tells them to the editor.

use lsp_types::{
    CompletionOptions, RenameOptions, SaveOptions, ServerCapabilities, TextDocumentSyncKind,
    TextDocumentSyncOptions,
};
use serde_json::Value as Json;

/// Characters after which an editor asks for completions by itself.
const TRIGGERS: [&str; 7] = [".", "/", "@", "%", "'", "\"", "{"];

/// The capabilities, as the protocol writes them.
pub fn capabilities() -> Json {
    let sync = TextDocumentSyncOptions {
        open_close: Some(true),
        change: Some(TextDocumentSyncKind::Incremental),
        save: Some(SaveOptions::default().into()),
        ..TextDocumentSyncOptions::default()
    };
    let completion = CompletionOptions {
        trigger_characters: Some(TRIGGERS.map(str::to_string).to_vec()),
        ..CompletionOptions::default()
    };
    let rename = RenameOptions { prepare_provider: Some(true), ..RenameOptions::default() };
    let capabilities = ServerCapabilities {
        text_document_sync: Some(sync.into()),
        completion_provider: Some(completion),
        hover_provider: Some(true.into()),
        definition_provider: Some(true.into()),
        references_provider: Some(true.into()),
        document_formatting_provider: Some(true.into()),
        rename_provider: Some(rename.into()),
        ..ServerCapabilities::default()
    };
    serde_json::to_value(capabilities).expect("capabilities are plain data")
}
