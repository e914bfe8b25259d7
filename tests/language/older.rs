//! Files that were written for earlier versions of T5X.

use gimlet::gin::{Diagnostics, Evaluator, Loaded, Request, Severity, load_anyway};
use gimlet::run::{Library, registry};
use gimlet::train::Train;

/// Loads library files and texts, each text a file of its own.
fn loaded(files: &[&str], texts: &[&str]) -> Loaded {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let own = texts.iter().enumerate().map(|(index, text)| {
        let file = folder.path().join(format!("{index}.gin"));
        std::fs::write(&file, text).expect("the folder can be written");
        file.display().to_string()
    });
    let files = files.iter().map(|file| file.to_string()).chain(own).collect();
    let bindings = GIVEN.map(|text| ("--gin_bindings".to_string(), text.to_string())).to_vec();
    load_anyway(&Request { files, bindings, ..Request::default() }, &Library, &registry())
}

/// The bindings that every run requires.
const GIVEN: [&str; 6] = [
    "import t5.data.mixtures",
    "MIXTURE_OR_TASK_NAME = 'c4_v220_span_corruption'",
    "TASK_FEATURE_LENGTHS = {'inputs': 512, 'targets': 114}",
    "TRAIN_STEPS = 1",
    "DROPOUT_RATE = 0.0",
    "MODEL_DIR = '/nowhere'",
];

/// Evaluates a training; returns it with what is told about each file, in order.
fn run(files: &[&str], texts: &[&str]) -> (Train, Vec<Vec<String>>) {
    let loaded = loaded(files, texts);
    let shown =
        || Diagnostics { sources: loaded.sources.clone(), list: loaded.diagnostics.clone() };
    assert!(
        loaded.diagnostics.iter().all(|one| one.severity == Severity::Warning),
        "{}",
        shown().render(false)
    );
    let registry = registry();
    let mut evaluator = Evaluator::new(&loaded.config, &registry);
    let spec = evaluator.evaluate_in::<Train>("");
    let list = evaluator.into_diagnostics();
    let sources = loaded.sources.clone();
    let Ok(spec) = spec else { panic!("{}", Diagnostics { sources, list }.render(false)) };
    (spec, loaded.diagnostics.iter().map(|one| one.help.clone()).collect())
}

const MODEL: &str = "t5x/examples/t5/t5_1_1/tiny.gin";

#[test]
fn old_names_mean_what_became_of_them_with_one_warning_a_file() {
    let first = "from __gin__ import dynamic_registration\nfrom t5x import models\nfrom t5x import utils\n\
                 from t5x import partitioning\nimport __main__ as train_script\n\
                 models.EncoderDecoderModel.loss_fn:\n  z_loss = 0.5\n  label_smoothing = 0.25\n\
                 train_script.train.partitioner = @partitioning.ModelBasedPjitPartitioner()\n\
                 partitioning.ModelBasedPjitPartitioner.num_partitions = 2\n\
                 utils.RestoreCheckpointConfig.use_gda = False\n";
    // The last file has no imports.
    let second = "ModelBasedPjitPartitioner.num_partitions = 4\n";
    let (train, told) = run(&[MODEL, "t5x/configs/runs/pretrain.gin"], &[first, second]);
    let expected = [
        vec![
            "`t5x.models.EncoderDecoderModel.loss_fn` is read as `t5x.models.EncoderDecoderModel`",
            "`t5x.partitioning.ModelBasedPjitPartitioner` is read as `t5x.partitioning.PjitPartitioner`",
            "`t5x.utils.RestoreCheckpointConfig.use_gda` has no effect: arrays have one kind here",
        ],
        vec![
            "`t5x.partitioning.ModelBasedPjitPartitioner` is read as `t5x.partitioning.PjitPartitioner`",
        ],
    ];
    assert_eq!(told, expected);
    let printed = gimlet::gin::config_str(&loaded(&[], &[first]).config, &registry());
    assert!(printed.contains("models.EncoderDecoderModel.z_loss = 0.5"), "{printed}");
    let shown = format!("{:?} {:?}", train.model, train.partitioner);
    for part in ["z_loss: 0.5", "label_smoothing: 0.25", "num_partitions: Some(4)"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
}

#[test]
fn a_reference_to_a_function_without_effect_is_none() {
    let text = "from __gin__ import dynamic_registration\nfrom t5x import utils\n\
                import __main__ as train_script\ninclude 't5x/configs/runs/pretrain_deterministic.gin'\n\
                train_script.train.get_dataset_fn = @utils.get_deterministic_dataset\n\
                utils.get_deterministic_dataset:\n  model_dir = %MODEL_DIR\n  start_step = 0\n";
    let (train, told) = run(&[MODEL], &[text]);
    assert_eq!((train.random_seed, train.train_dataset_cfg.pack), (Some(0), false));
    assert_eq!(told.len(), 1);
    assert!(
        told[0][0].starts_with("`t5x.utils.get_deterministic_dataset` has no effect: "),
        "{told:?}"
    );
}

#[test]
fn t5x_s_rules_by_names_of_parameters_are_those_by_axes() {
    let text = "from __gin__ import dynamic_registration\nfrom t5x import adafactor\n\
                adafactor.Adafactor.logical_factor_rules = None\n\
                adafactor.Adafactor.factor_map = @adafactor.HParamMap()\n\
                adafactor.HParamMap.rules = @adafactor.standard_factor_rules()\n\
                adafactor.standard_factor_rules.scan_layers = True\n";
    let (train, told) = run(&[MODEL, "t5x/configs/runs/pretrain.gin"], &[text]);
    assert_eq!(told[0].len(), 2, "{told:?}");
    let shown = format!("{:?}", train.model);
    assert!(shown.contains("factor_map: Some(HParamMap { rules: Standard("), "{shown}");
}
