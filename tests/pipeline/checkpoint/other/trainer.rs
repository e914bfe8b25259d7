//! Files of the Trainer of t5-experiments, made by `trainer.py` with PyTorch, and those that Gimlet writes, which the same
//! script loads when it is run by hand.

use std::collections::BTreeMap;

use gimlet::checkpoint::{
    Array, Compression, DType, Format, GradScaler, HuggingFaceOptions, LOSS_SCALING_FILE,
    PickleValue, Procedure, Rates, RestoreCheckpointConfig, RestoreMode, Retention, Saver, Saving,
    Shapes, Stored, TrainerForm, Without, committed, list, list_steps, plan_resume, trainer_file,
};
use gimlet::models::{HUGGING_FACE, open};
use gimlet::storage::Path;

use super::{opened, value};
use crate::checkpoint::scratch;

const QUERY: &str = "encoder/layers_0/attention/query/kernel";
const WI: &str = "encoder/layers_0/mlp/wi/kernel";
const SCALE: &str = "decoder/decoder_norm/scale";

/// The names of these parameters in transformers.
const NAMES: [(&str, &str); 3] = [
    (QUERY, "encoder.block.0.layer.0.SelfAttention.q.weight"),
    (WI, "encoder.block.0.layer.1.DenseReluDense.wi.weight"),
    (SCALE, "decoder.final_layer_norm.weight"),
];

/// Returns the array of this name in `trainer.py`, of that shape there, in T5X's order of axes.
fn expected(slot: &str, parameter: &str, shape: &[usize]) -> Array {
    let name = NAMES.iter().find(|(t5x, _)| *t5x == parameter).unwrap().1;
    let array = value(&format!("{slot}{name}"), shape, DType::F32);
    let &[rows, columns] = shape else { return array };
    let values = array.to_f32().unwrap();
    let turned = (0..columns).flat_map(|column| (0..rows).map(move |row| (row, column)));
    let turned: Vec<f32> = turned.map(|(row, column)| values[row * columns + column]).collect();
    Array::from_f32(&[columns, rows], &turned)
}

fn check(stored: &dyn Stored, name: &str, expected: &Array) {
    assert_eq!(stored.read(name).unwrap(), *expected, "{name}");
}

#[test]
fn adafactors_state_has_t5xs_names_and_its_metrics_of_numpy_are_skipped() {
    let stored = opened("trainer/adafactor.pth");
    assert_eq!((stored.format(), stored.without()), (Format::Trainer, Without::Nothing));
    assert_eq!(stored.step().unwrap(), 7);
    check(
        &*stored,
        "target/encoder/layers_0/attention/query/kernel",
        &expected("", QUERY, &[6, 8]),
    );
    check(&*stored, "state/param_states/count", &Array::scalar_i32(7));
    let slot = |parameter: &str, slot: &str| format!("state/param_states/{parameter}/{slot}");
    let of =
        |parameter, name: &str, shape: &[usize]| expected(&format!("{name} "), parameter, shape);
    // The query is [8, 6] here: its smaller dimension, that of T5X's rows, is the first of PyTorch.
    check(&*stored, &slot(QUERY, "v_row"), &of(QUERY, "exp_avg_sq_row", &[6]));
    check(&*stored, &slot(QUERY, "v_col"), &of(QUERY, "exp_avg_sq_col", &[8]));
    check(&*stored, &slot(WI, "v_row"), &of(WI, "exp_avg_sq_row", &[5]));
    check(&*stored, &slot(SCALE, "v"), &of(SCALE, "exp_avg_sq", &[8]));
    let unused = Array::from_f32(&[1], &[0.0]);
    for (parameter, unused_slot) in [(QUERY, "v"), (QUERY, "m"), (SCALE, "v_row"), (SCALE, "m")] {
        check(&*stored, &slot(parameter, unused_slot), &unused);
    }
}

#[test]
fn adamws_state_has_optaxs_names_in_a_file_and_in_a_folder_of_accelerates() {
    for name in ["trainer/adamw.pth", "trainer/model_6"] {
        let stored = opened(name);
        assert_eq!((stored.format(), stored.step().unwrap()), (Format::Trainer, 7), "{name}");
        let of = |slot: &str| expected(&format!("{slot} "), WI, &[5, 8]);
        check(&*stored, &format!("target/{WI}"), &expected("", WI, &[5, 8]));
        check(&*stored, &format!("state/param_states/0/mu/{WI}"), &of("exp_avg"));
        check(&*stored, &format!("state/param_states/0/nu/{WI}"), &of("exp_avg_sq"));
        check(&*stored, "state/param_states/0/count", &Array::scalar_i32(7));
        assert_eq!(stored.leaves().len(), 26 * 3 + 2, "{name}");
    }
    let scaling = opened("trainer/model_6").extra(LOSS_SCALING_FILE).unwrap().unwrap();
    assert_eq!(scaling, br#"{"scale":512.0,"updates":3,"skipped":0}"#);
}

#[test]
fn a_chain_finds_the_state_of_its_optimizer() {
    let stored = opened("trainer/adamw.pth");
    let in_chain = |name: &String| name.replace("param_states/0/", "param_states/1/0/");
    let needs: Shapes =
        stored.shapes().iter().map(|(name, shape)| (in_chain(name), shape.clone())).collect();
    let config = RestoreCheckpointConfig::new(&[], RestoreMode::Specific);
    for plan in [config.plan(&*stored, &needs).unwrap(), plan_resume(&*stored, &needs).unwrap()] {
        let mu = format!("state/param_states/1/0/mu/{WI}");
        assert_eq!(plan.sources[&mu], mu.replace("1/0/", "0/"));
        assert_eq!((plan.sources.len(), plan.from_scratch.len()), (needs.len(), 0));
    }
}

/// The files that a run adds.
const FILES: [(&str, &str); 2] =
    [("gimlet/run.json", "{\"seed\": 3}"), ("gimlet/train_ds-000-of-001.json", "{\"at\": \"é\"}")];

/// Saves the state of a fixture as a step of a run, keeping one checkpoint, and returns its file.
fn saved(dir: &Path, step: u64, from: &dyn Stored) -> Path {
    let mut saver = Saver::new(Saving {
        model_dir: dir.clone(),
        target_dtype: Some(DType::F32),
        compression: Compression::None,
        retention: Retention { keep: Some(1), keep_dataset_checkpoints: Some(1) },
        procedure: Procedure::default(),
    });
    let options = HuggingFaceOptions {
        mlp_activations: Some(vec!["relu".to_string()]),
        ..HuggingFaceOptions::default()
    };
    let is_adam = from.shapes().contains_key("state/param_states/0/count");
    let setting = if is_adam { "betas" } else { "scale_parameter" };
    let form = TrainerForm {
        model: options,
        families: HUGGING_FACE,
        optimizer: Some(vec![(setting, PickleValue::None)]),
        rates: Some(Rates { base: 0.01, next: 0.002, updates: 7 }),
        grad_scaler: Some(GradScaler { scale: 1024.0, growth_interval: 2000, updates: 5 }),
        metrics: [("valid".to_string(), [("loss".to_string(), 6.25)].into())].into(),
    };
    let saves = saver.save(step, None, |snapshot| {
        for leaf in from.leaves() {
            snapshot.array(leaf.name, from.read(leaf.name).unwrap().view());
        }
        for (name, text) in FILES {
            snapshot.extra(name, text.as_bytes().to_vec());
        }
        snapshot.as_trainer(trainer_file(dir, step), form);
    });
    saves.and_then(|()| saver.wait()).unwrap();
    trainer_file(dir, step)
}

/// Returns the arrays of a checkpoint by name.
fn arrays(stored: &dyn Stored) -> BTreeMap<String, Array> {
    let leaves = stored.leaves().into_iter();
    leaves.map(|leaf| (leaf.name.to_string(), stored.read(leaf.name).unwrap())).collect()
}

#[test]
fn a_runs_state_is_read_as_it_was_saved() {
    for fixture in ["trainer/adafactor.pth", "trainer/adamw.pth"] {
        let (_dir, dir) = scratch();
        let from = opened(fixture);
        let file = saved(&dir, 7, &*from);
        assert_eq!(file.file_name(), "model_6.pth");
        let stored = open(&file).unwrap();
        stored.verify().unwrap();
        assert_eq!((stored.format(), stored.step().unwrap()), (Format::Trainer, 7));
        assert_eq!(arrays(&*stored), arrays(&*from), "{fixture}");
        for (name, text) in FILES {
            assert_eq!(stored.extra(name).unwrap().unwrap(), text.as_bytes());
        }
        // Parts of arrays whose axes are exchanged in the file.
        let name = format!("target/{WI}");
        let part = stored.read_part(&name, &[2..5, 1..4]).unwrap();
        assert_eq!(part, from.read(&name).unwrap().part(&[2..5, 1..4]));
    }
}

/// Other programs see the state without Gimlet's record: the mapping back is that of their files.
#[test]
fn other_programs_find_the_same_state_under_their_names() {
    for fixture in ["trainer/adafactor.pth", "trainer/adamw.pth"] {
        let (_dir, dir) = scratch();
        let from = opened(fixture);
        let file = saved(&dir, 7, &*from);
        let mut bytes = file.read().unwrap();
        let at = |bytes: &[u8], text: &[u8]| bytes.windows(text.len()).rposition(|it| it == text);
        let key = at(&bytes, b"\x06\0\0\0gimlet}").unwrap();
        bytes[key + 4] = b'x';
        assert!(at(&bytes, b"X\x04\0\0\0lossG\x40\x19").is_some(), "metrics are written");
        // Archives may have zeros instead of checksums: in the list of entries, before the name.
        let name = at(&bytes, b"archive/data.pkl").unwrap();
        bytes[name - 30..name - 26].fill(0);
        file.write_atomic(&bytes).unwrap();
        let stored = open(&file).unwrap();
        assert_eq!(stored.extras().unwrap(), [LOSS_SCALING_FILE], "the record is not found");
        let scaling = stored.extra(LOSS_SCALING_FILE).unwrap().unwrap();
        assert_eq!(scaling, br#"{"scale":1024.0,"updates":5,"skipped":0}"#, "torch has the scale");
        assert_eq!(arrays(&*stored), arrays(&*from), "{fixture}");
        // Without that of torch, the scale is that of apex.
        let torch = at(&bytes, b"torch_amp").unwrap();
        bytes[torch] = b'x';
        file.write_atomic(&bytes).unwrap();
        let apex = open(&file).unwrap().extra(LOSS_SCALING_FILE).unwrap().unwrap();
        assert_eq!(apex, scaling);
    }
}

#[test]
fn old_files_are_removed_listed_and_continued_beside_folders() {
    let (_dir, dir) = scratch();
    let from = opened("trainer/adamw.pth");
    saved(&dir, 7, &*from);
    saved(&dir, 8, &*from);
    assert_eq!(list_steps(&dir).unwrap(), [8], "the older one is removed");
    dir.join("model_best.pth").write_atomic(&trainer_file(&dir, 8).read().unwrap()).unwrap();
    crate::checkpoint::save(&dir, 9);
    let listed: Vec<_> =
        list(&dir, HUGGING_FACE).unwrap().iter().map(|one| (one.step, one.format)).collect();
    let trainer = (Some(7), Some(Format::Trainer));
    assert_eq!(listed, [trainer, (Some(8), trainer.1), (Some(9), Some(Format::T5x))]);
    let newest = committed(&dir).unwrap().pop_last().unwrap();
    assert_eq!((newest.0, newest.1.file_name()), (9, "checkpoint_9"));
}

#[test]
fn a_damaged_file_is_noticed_and_replaced() {
    let (_dir, dir) = scratch();
    let from = opened("trainer/adafactor.pth");
    let file = saved(&dir, 7, &*from);
    let whole = file.read().unwrap();
    for length in [0, 100, whole.len() / 2, whole.len() - 1] {
        file.write_atomic(&whole[..length]).unwrap();
        let error = open(&file).and_then(|stored| stored.verify()).unwrap_err();
        assert!(error.is_damage(), "{length}: {error}");
    }
    saved(&dir, 7, &*from);
    assert_eq!(file.read().unwrap(), whole);
    let mut changed = whole.clone();
    changed[whole.len() / 2] ^= 1;
    file.write_atomic(&changed).unwrap();
    assert!(open(&file).and_then(|stored| stored.verify()).unwrap_err().is_damage());
}
