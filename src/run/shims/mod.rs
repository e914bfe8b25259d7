//! `gimlet shims`: writes a folder that scripts can use in place of T5X, SeqIO and t5-experiments. Its small
//! Python programs pass their command lines to `gimlet`, and its module `t5x.checkpoints` reads through the package `gimlet`.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{self, Path, PathBuf};

use anyhow::{Context, anyhow};
use clap::Args;

use crate::telemetry::notice;

use super::failure::Failure;

/// Arguments of `gimlet shims`.
#[derive(Args, Debug)]
pub struct ShimsArgs {
    /// Folder to write; scripts use it as T5X_DIR, or find it on PYTHONPATH.
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
}

/// The programs, each with the words that it puts before its arguments: those of T5X, SeqIO and t5,
/// those that T5X's documentation calls, and those of t5-experiments with its launchers. `main.py` has
/// none: its command is in `--run_mode`.
pub(super) const PROGRAMS: [(&str, &[&str]); 20] = [
    ("t5x/train.py", &["train"]),
    ("t5x/train_unfragmented.py", &["train"]),
    ("t5x/eval.py", &["eval"]),
    ("t5x/eval_unfragmented.py", &["eval"]),
    ("t5x/infer.py", &["infer"]),
    ("t5x/infer_unfragmented.py", &["infer"]),
    ("t5x/export.py", &["export"]),
    ("t5x/precompile.py", &["precompile"]),
    ("t5x/main.py", &[]),
    ("seqio/scripts/cache_tasks_main.py", &["cache"]),
    ("seqio_cache_tasks", &["cache"]),
    ("t5_mesh_transformer", &["t5_mesh_transformer"]),
    ("run_t5_pretraining.py", &["t5_experiments", "t5"]),
    ("run_bert_pretraining.py", &["t5_experiments", "bert"]),
    ("run_bert_pretraining_accel.py", &["t5_experiments", "bert_accel"]),
    ("megatron/preprocess_data.py", &["megatron_index"]),
    ("downstream_tasks/scrolls/run_finetuning_scrolls.py", &["t5_experiments", "scrolls"]),
    (
        "downstream_tasks/hyperpartisan_news_detection/run_finetuning_hyp.py",
        &["t5_experiments", "hyp"],
    ),
    ("horovodrun", &["horovodrun"]),
    ("accelerate", &["accelerate"]),
];

/// The packages in which `python3 -m t5x.train` looks for modules.
const PACKAGES: [&str; 6] = [
    "t5x",
    "seqio",
    "seqio/scripts",
    "downstream_tasks",
    "downstream_tasks/scrolls",
    "downstream_tasks/hyperpartisan_news_detection",
];

/// The modules: the one of T5X that reads checkpoints, and the package `gimlet` on which it stands.
const MODULES: [(&str, &str); 11] = [
    ("t5x/checkpoints.py", include_str!("checkpoints.py")),
    ("gimlet/__init__.py", include_str!("../../../python/gimlet/__init__.py")),
    ("gimlet/checkpoints.py", include_str!("../../../python/gimlet/checkpoints.py")),
    ("gimlet/config.py", include_str!("../../../python/gimlet/config.py")),
    ("gimlet/data.py", include_str!("../../../python/gimlet/data.py")),
    ("gimlet/jax.py", include_str!("../../../python/gimlet/jax.py")),
    ("gimlet/metrics.py", include_str!("../../../python/gimlet/metrics.py")),
    ("gimlet/model.py", include_str!("../../../python/gimlet/model.py")),
    ("gimlet/process.py", include_str!("../../../python/gimlet/process.py")),
    ("gimlet/safetensors.py", include_str!("../../../python/gimlet/safetensors.py")),
    ("gimlet/torch.py", include_str!("../../../python/gimlet/torch.py")),
];
/// The module with the version of the package, which is that of the program.
const VERSION: (&str, &str) =
    ("gimlet/version.py", concat!("VERSION = \"", env!("CARGO_PKG_VERSION"), "\"\n"));

const PROGRAM: &str = include_str!("program.py");
const PACKAGE: &str = include_str!("package.py");
/// A text that every file of this command contains.
const SIGNATURE: &str = "`gimlet shims`";
/// The first line of modules.
const MARK: &str = "# Written by `gimlet shims`.\n";

/// Writes the folder.
///
/// # Errors
/// Existing files of these names from elsewhere; a full disk.
pub(super) fn shims_command(args: &ShimsArgs) -> Result<(), Failure> {
    let dir = &args.dir;
    let programs = PROGRAMS.map(|(name, words)| (dir.join(name), program(name, words)));
    let packages = PACKAGES.map(|name| (dir.join(name).join("__init__.py"), PACKAGE.to_string()));
    let modules = MODULES.iter().chain([&VERSION]);
    let modules = modules.map(|(name, text)| (dir.join(name), format!("{MARK}{text}")));
    let files: Vec<_> = programs.into_iter().chain(packages).chain(modules).collect();
    if let Some((file, _)) = files.iter().find(|(file, _)| is_of_others(file)) {
        return Err(Failure::usage(anyhow!(
            "{} was not written by `gimlet shims` and is not changed: name another folder",
            file.display()
        )));
    }
    for (file, text) in &files {
        let written = write(file, text).with_context(|| format!("writing {}", file.display()));
        written.map_err(Failure::World)?;
    }
    let dir = path::absolute(dir).map_err(Failure::world)?;
    let dir = dir.display();
    notice(&format!("{dir} stands for T5X and SeqIO: set T5X_DIR={dir} or PYTHONPATH={dir}"));
    notice(&format!(
        "it stands for t5-experiments and its launchers: export PATH={dir}:$PATH PYTHONPATH={dir}"
    ));
    notice(&format!(
        "`python run_t5_pretraining.py` without a launcher opens that file: ln -s {dir}/run_t5_pretraining.py ."
    ));
    Ok(())
}

fn program(name: &str, words: &[&str]) -> String {
    let num_folders = name.matches('/').count().to_string();
    let text = PROGRAM.replace("= WORDS\n", &format!("= {words:?}\n"));
    text.replace("* FOLDERS", &format!("* {num_folders}"))
}

/// Whether a file exists that this command did not write, such as one of a real T5X.
fn is_of_others(file: &Path) -> bool {
    fs::read_to_string(file).map_or(file.exists(), |text| !text.contains(SIGNATURE))
}

fn write(file: &Path, text: &str) -> io::Result<()> {
    fs::create_dir_all(file.parent().expect("each file is in a folder"))?;
    fs::write(file, text)?;
    fs::set_permissions(file, fs::Permissions::from_mode(0o755))
}
