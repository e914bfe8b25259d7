//! `gimlet vocab add`, as a user calls it. `tests/e2e/hugging_face/make_more_tokens.py` writes what transformers do.

use std::fs;
use std::path::Path;

use assert_cmd::Command;
use gimlet::checkpoint::{Array, Stored, Writer};
use gimlet::models::open;
use gimlet::storage;
use gimlet::vocab::{ByteVocabulary, SentencePieceVocabulary, Vocabulary, VocabularySpec};
use serde_json::Value;

const TESTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests");
const EMBEDDING: &str = "target/token_embedder/embedding";
const HEAD: &str = "target/decoder/logits_dense/kernel";
const STATE: &str = "state/param_states/token_embedder/embedding/v_col";

/// Status, standard output and standard error of `gimlet vocab add`, which runs in the folder.
fn add(folder: &Path, words: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gimlet"));
    let output = command.current_dir(folder).args(["vocab", "add"]).args(words).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn opened(path: &Path) -> Box<dyn Stored> {
    open(&storage::Path::try_from(path).unwrap()).unwrap()
}

fn vocabulary(file: &Path, extra_ids: usize) -> std::sync::Arc<dyn Vocabulary> {
    let spec = SentencePieceVocabulary {
        sentencepiece_model_file: file.display().to_string(),
        extra_ids,
        reverse_extra_ids: true,
        normalizer_spec_overrides: None,
    };
    VocabularySpec::SentencePiece(spec).build().unwrap()
}

/// Copies the files of a folder.
fn copy(from: &str, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(Path::new(TESTS).join(from)).unwrap() {
        let file = entry.unwrap().path();
        if file.is_file() {
            fs::copy(&file, to.join(file.file_name().unwrap())).unwrap();
        }
    }
}

/// Checks that all arrays but those of tokens are the same.
fn same_but_tables(old: &dyn Stored, new: &dyn Stored) {
    assert_eq!((old.format(), old.step().unwrap()), (new.format(), new.step().unwrap()));
    let names = |stored: &dyn Stored| -> Vec<String> {
        stored.leaves().iter().map(|leaf| leaf.name.to_string()).collect()
    };
    assert_eq!(names(old), names(new));
    for name in names(old) {
        if !name.contains("token_embedder") && !name.contains("logits_dense") {
            assert_eq!(old.read(&name).unwrap(), new.read(&name).unwrap(), "{name}");
        }
    }
}

/// The rows of an array, which are its columns for a head.
fn rows(stored: &dyn Stored, name: &str) -> Vec<Vec<f32>> {
    let array = stored.read(name).unwrap();
    let values = array.to_f32().unwrap();
    let width = *array.shape.last().unwrap();
    match name == HEAD {
        true => {
            (0..width).map(|at| values.chunks_exact(width).map(|row| row[at]).collect()).collect()
        }
        false => values.chunks_exact(width).map(<[f32]>::to_vec).collect(),
    }
}

fn mean(rows: &[Vec<f32>]) -> Vec<f32> {
    let sum = |at: usize| rows.iter().map(|row| f64::from(row[at])).sum::<f64>();
    (0..rows[0].len()).map(|at| (sum(at) / rows.len() as f64) as f32).collect()
}

#[test]
fn ids_and_rows_are_those_of_transformers() {
    let expected = fs::read(format!("{TESTS}/e2e/hugging_face/more_tokens/expected.json")).unwrap();
    let expected: Value = serde_json::from_slice(&expected).unwrap();
    for model in ["tied", "untied"] {
        let dir = tempfile::tempdir().unwrap();
        let (old, new) = (dir.path().join("old"), dir.path().join("new"));
        copy("e2e/hugging_face/more_tokens", &old);
        copy(&format!("e2e/hugging_face/more_tokens/{model}"), &old);
        let words = ["<name>", "matcha", "--checkpoint=old", "--output=new"];
        let (status, out, error) = add(dir.path(), &words);
        assert_eq!(status, 0, "{error}");
        let said = "new: 2 new pieces have the ids 23 to 24; tables of tokens have 25 rows instead of 23\n";
        assert_eq!(out, said);
        let pieces = vocabulary(&new.join("tokenizer.json"), 0);
        for (text, ids) in
            expected["texts"].as_array().unwrap().iter().zip(expected["ids"].as_array().unwrap())
        {
            let ids: Vec<i32> = serde_json::from_value(ids.clone()).unwrap();
            assert_eq!(pieces.encode(text.as_str().unwrap()), ids, "{text}");
        }
        let config: Value =
            serde_json::from_slice(&fs::read(new.join("config.json")).unwrap()).unwrap();
        assert_eq!(config["vocab_size"], expected[model]["rows"]);
        let (old, new) = (opened(&old), opened(&new));
        same_but_tables(&*old, &*new);
        for table in [EMBEDDING, HEAD].iter().filter(|name| old.shapes().contains_key(**name)) {
            let (old, new) = (rows(&*old, table), rows(&*new, table));
            assert_eq!(new[..23], old[..], "{table}");
            assert_eq!(new[23..], [mean(&old), mean(&old)], "{table}");
        }
    }
}

/// Writes a run with 1000 pieces, 100 sentinels, 20 rows of padding, and the state of its optimizer.
fn write_run(folder: &Path) {
    let model = Path::new(TESTS).join("pipeline/data/reference/sentencepiece.model");
    fs::copy(model, folder.join("ro.model")).unwrap();
    let run = folder.join("run");
    fs::create_dir_all(&run).unwrap();
    let config = "\
        from __gin__ import dynamic_registration\n\
        import seqio\n\
        from t5x.examples.t5 import network\n\
        include 't5x/examples/t5/t5_1_1/base.gin'\n\
        DROPOUT_RATE = 0.0\n\
        MODEL_DIR = 'run'\n\
        VOCABULARY = @seqio.SentencePieceVocabulary()\n\
        seqio.SentencePieceVocabulary.extra_ids = 100\n\
        seqio.SentencePieceVocabulary.sentencepiece_model_file = 'ro.model'\n\
        network.T5Config.vocab_size = 1120\n";
    fs::write(run.join("config.gin"), config).unwrap();
    let writer = Writer::create(&storage::Path::try_from(&run as &Path).unwrap(), 7, None).unwrap();
    let values: Vec<f32> = (0..2240u16).map(f32::from).collect();
    for (name, shape) in [(EMBEDDING, vec![1120, 2]), (HEAD, vec![2, 1120])] {
        writer.array(name, Array::from_f32(&shape, &values).view()).unwrap();
    }
    writer.array(STATE, Array::from_f32(&[1120], &values[..1120]).view()).unwrap();
    writer.array("target/encoder/norm/scale", Array::from_f32(&[2], &[1.0, 2.0]).view()).unwrap();
    writer.array("state/step", Array::scalar_i32(7).view()).unwrap();
    writer.commit().unwrap();
}

#[test]
fn a_run_keeps_the_rows_of_pieces_and_sentinels_and_names_the_new_vocabulary() {
    let dir = tempfile::tempdir().unwrap();
    write_run(dir.path());
    let words = ["<name>", "<date>", "--checkpoint=run", "--output=more", "--like=▁di"];
    let (status, out, error) = add(dir.path(), &words);
    assert_eq!(status, 0, "{error}");
    let said = "more: 2 new pieces have the ids 1000 to 1001; old ids from 1000 on are 2 greater; tables of tokens have 1120 rows \
                as before\n";
    assert_eq!(out, said);
    let config = fs::read_to_string(dir.path().join("more/config.gin")).unwrap();
    let old_config = fs::read_to_string(dir.path().join("run/config.gin")).unwrap();
    let named = old_config.replace("'ro.model'", "'more/ro.model'").replace("'run'", "'more'");
    assert_eq!(config, named);

    let old_pieces = vocabulary(&dir.path().join("ro.model"), 100);
    let pieces = vocabulary(&dir.path().join("more/ro.model"), 100);
    assert_eq!(pieces.encode("<name>")[1..], [1000]);
    let like = (0..1000).find(|id| old_pieces.piece(*id) == "▁di").unwrap() as usize;
    let old = opened(&dir.path().join("run/checkpoint_7"));
    let new = opened(&dir.path().join("more/checkpoint_7"));
    same_but_tables(&*old, &*new);
    for table in [EMBEDDING, HEAD] {
        let (old, new) = (rows(&*old, table), rows(&*new, table));
        assert_eq!((&new[..1000], &new[1102..]), (&old[..1000], &old[1102..]));
        assert_eq!(new[1000..1002], [old[like].clone(), old[like].clone()]);
        for sentinel in 0..100 {
            let id = |pieces: &dyn Vocabulary| {
                let text = format!("▁<extra_id_{sentinel}>");
                (0..pieces.vocab_size()).find(|id| pieces.piece(*id as i32) == text).unwrap()
            };
            assert_eq!(new[id(&*pieces)], old[id(&*old_pieces)], "{sentinel}");
        }
    }
    let state = new.read(STATE).unwrap().to_f32().unwrap();
    assert_eq!(state[999..1003], [999.0, 0.0, 0.0, 1000.0]);

    // Without room the table grows by the number of which it was a multiple.
    let many: Vec<String> = (0..21).map(|number| format!("<new{number}>")).collect();
    fs::write(dir.path().join("new.txt"), many.join("\n")).unwrap();
    let words = ["--file=new.txt", "--checkpoint=run", "--output=many"];
    let (status, out, error) = add(dir.path(), &words);
    assert!(status == 0 && out.ends_with("have 1152 rows instead of 1120\n"), "{out}{error}");
    let config = fs::read_to_string(dir.path().join("many/config.gin")).unwrap();
    assert!(config.contains("\nnetwork.T5Config.vocab_size = 1152\n"), "{config}");
}

#[test]
fn every_format_gets_rows() {
    let dir = tempfile::tempdir().unwrap();
    let source = format!("{TESTS}/e2e/hugging_face/flan_t5");
    let old = opened(Path::new(&source));
    let count = rows(&*old, EMBEDDING).len();
    // One more id is that of unknown pieces.
    let list: String = (0..count - 1).map(|number| format!("w{number}\n")).collect();
    fs::write(dir.path().join("list.txt"), list).unwrap();
    for (format, place) in [
        ("t5x", "checkpoint_0"),
        ("orbax", "checkpoint_0"),
        ("mesh_tensorflow", "model.ckpt-0"),
        ("trainer", "model_6.pth"),
        ("torch", "weights.pth"),
        ("hugging_face", ""),
        ("torch", ""),
        ("flax", ""),
    ] {
        let name = format!("{format}_{}", place.len());
        let from = dir.path().join(&name).join(place);
        let mut convert = Command::new(env!("CARGO_BIN_EXE_gimlet"));
        convert.args(["checkpoint", "convert", &source]).arg(&from).args(["--to", format]);
        convert.assert().success();
        let (checkpoint, output) =
            (format!("--checkpoint={}", from.display()), format!("--output=more_{name}"));
        let words = ["n1", "n2", &checkpoint, "--vocabulary=list.txt", &output];
        let (status, _, error) = add(dir.path(), &words);
        assert_eq!(status, 0, "{format}: {error}");
        let (old, new) = (opened(&from), opened(&dir.path().join(format!("more_{name}/{place}"))));
        same_but_tables(&*old, &*new);
        for table in [EMBEDDING, HEAD] {
            let (old, new) = (rows(&*old, table), rows(&*new, table));
            assert_eq!((&new[..count - 1], &new[count + 1]), (&old[..count - 1], &old[count - 1]));
            assert_eq!(new.len(), 512, "{format}");
        }
    }
}

#[test]
fn added_tokens_come_into_bytes_and_lists_of_transformers() {
    let dir = tempfile::tempdir().unwrap();
    copy("e2e/hugging_face/t5", &dir.path().join("byt5"));
    let bytes = |folder: &str| {
        let config = dir.path().join(folder).join("tokenizer_config.json").display().to_string();
        let spec = ByteVocabulary { extra_ids: 0, tokenizer_config: Some(config) };
        VocabularySpec::Byte(spec).build().unwrap()
    };
    let (status, _, error) = add(dir.path(), &["<name>", "--checkpoint=byt5", "--output=more"]);
    assert_eq!(status, 0, "{error}");
    let id = bytes("byt5").vocab_size() as i32;
    assert_eq!(bytes("more").encode("a<name>"), [100, id]);
    let pieces = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nfox\n";
    fs::write(dir.path().join("pieces.txt"), pieces).unwrap();
    let shown = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gimlet"));
        let words = [&["vocab", "show"][..], words].concat();
        let output = command.current_dir(dir.path()).args(words).write_stdin("").output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let words = ["covid", "##ian", "--vocabulary=pieces.txt", "--lower_case", "--output=list"];
    let (status, out, error) = add(dir.path(), &words);
    assert_eq!(status, 0, "{error}");
    let said = "list: 2 new pieces have the ids 6 to 7; old ids from 6 on are 2 greater\n";
    assert_eq!(out, said);
    let found = shown(&["list/pieces.txt", "--lower_case", "Covidian fox"]);
    assert!(found.contains("ids     6 7 5\n"), "{found}");
    let (status, _, error) = add(dir.path(), &["x", "--vocabulary=bytes", "--output=none"]);
    let expected = "takes no new pieces: its ids are bytes and sentinels; expected the tokenizer of a folder of transformers";
    assert!(status == 2 && error.contains(expected), "{error}");
}

#[test]
fn mistakes_are_told_with_their_place_and_leave_nothing() {
    let dir = tempfile::tempdir().unwrap();
    write_run(dir.path());
    fs::write(dir.path().join("pieces.txt"), "<a>\n\n<b>\n").unwrap();
    fs::write(dir.path().join("list.txt"), "[UNK]\nfox\n").unwrap();
    let cases: [(&[&str], &str); 9] = [
        (&["--file=pieces.txt", "--output=x"], "pieces.txt:2: the piece is empty, expected a text"),
        (
            &["<a>", "<a>", "--output=x"],
            "PIECE 2: the piece `<a>` is that of PIECE 1, expected each piece once",
        ),
        (&["▁di", "--output=x"], "PIECE 1: the piece `▁di` has the id "),
        (&["<extra_id_3>", "--output=x"], "PIECE 1: the piece `<extra_id_3>` has the id 1096 in "),
        (
            &["two words", "--output=x"],
            "PIECE 1: the piece `two words` would never be found in texts",
        ),
        (&["<a>", "--like=bacelonx", "--output=x"], "--like: `bacelonx` is no piece of "),
        (&["<a>", "--output=run"], "--output: `run` exists; remove it, or name another folder"),
        (
            &["Fox", "--vocabulary=list.txt", "--lower_case", "--output=x"],
            "in lower case where it folds case",
        ),
        (&["wolf", "--vocabulary=bytes", "--extra_ids=2000", "--output=x"], "takes no new pieces"),
    ];
    for (words, expected) in cases {
        // A run names its own vocabulary.
        let is_alone = words.iter().any(|word| word.starts_with("--vocabulary"));
        let words = [words, if is_alone { &[] } else { &["--checkpoint=run"] }].concat();
        let (status, _, error) = add(dir.path(), &words);
        assert!(status == 2 && error.contains(expected), "{words:?}: {error}");
        assert!(!dir.path().join("x").exists(), "{words:?}");
    }
    // The configuration names the vocabulary with which the model was trained.
    let other = "--vocabulary=ro.model";
    let words = ["<a>", other, "--extra_ids=500", "--checkpoint=run", "--output=x"];
    let (status, _, error) = add(dir.path(), &words);
    assert!(
        status == 2 && error.contains("names the vocabulary of the model: leave the flag out"),
        "{error}"
    );
    assert!(!dir.path().join("x").exists());
}
