// Starts `gimlet gin lsp` for gin files.
const { workspace } = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

exports.activate = () => {
  const settings = workspace.getConfiguration("gimlet");
  const args = ["gin", "lsp", ...settings.get("flags")];
  const server = { command: settings.get("path"), args };
  const options = { documentSelector: [{ language: "gin" }] };
  client = new LanguageClient("gimlet", "Gimlet", server, options);
  return client.start();
};

exports.deactivate = () => client?.stop();
