//! Mistakes of those who ask for masked tokens, which `gimlet` finds without libtorch.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::bert_folder::write_bert;

/// Runs `gimlet` in a folder; its message has the part.
#[track_caller]
fn refused(folder: &Path, words: &[&str], part: &str) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gimlet"));
    let output = command.args(words).current_dir(folder).output().expect("gimlet starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains(part), "`{part}` is not in:\n{said}");
}

#[test]
fn models_of_another_kind_name_their_command() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (folder, bert) = (folder.path(), "--checkpoint=bert");
    write_bert(&folder.join("bert"), |pieces| pieces);
    let fill = "`gimlet fill` prints the likeliest pieces for `[MASK]`";
    refused(folder, &["generate", bert, "ba [MASK]"], fill);
    refused(folder, &["score", bert, "ba", "[MASK]"], fill);
    let t5 = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2e/hugging_face/t5");
    let t5 = format!("--checkpoint={}", t5.display());
    refused(folder, &["fill", &t5, "[MASK]"], "`gimlet generate` answers texts with it");
}

#[test]
fn pieces_that_do_not_fit_are_named() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (folder, fill) = (folder.path(), ["fill", "--checkpoint=bert", "[MASK]"]);
    let model = folder.join("bert");
    write_bert(&model, |pieces| pieces);
    let none = [&fill[..], &["--topk=0"]].concat();
    refused(folder, &none, "`--topk` is 0, expected at least 1");
    let bytes = ["--gin.VOCABULARY=@seqio.ByteVocabulary()"];
    refused(folder, &[&fill[..], &bytes].concat(), "has no piece `[MASK]`, expected the WordPiece");
    write_bert(&model, |pieces| pieces.replace("[MASK]", "[mask]"));
    refused(folder, &fill, "bert/vocab.txt` has no piece `[MASK]`");
    write_bert(&model, |pieces| pieces + "\nmore");
    refused(folder, &fill, "has 257 pieces, and the model's embedding 256 rows");
    fs::remove_file(model.join("vocab.txt")).expect("it was written");
    refused(folder, &fill, "there is no vocab.txt and no tokenizer.json in");
}
