//! The flags of t5's program, and Gimlet's for any run.

use clap::{ArgAction, Args};

use crate::dialects::mesh_tf::{DEFAULTS, GIN_FOLDER, MODULE, with_deprecated};
use crate::gin::{Request, SkipUnknown};
use crate::run::failure::Failure;
use crate::run::gin_flags::{GinFileArgs, parse_module};

use super::api::ApiArgs;

/// Flags of `gimlet t5_mesh_transformer`, which are those of t5's `mesh_transformer_main.py`.
#[derive(Args, Clone, Debug)]
pub struct T5MeshTransformerArgs {
    /// Folder of checkpoints, events, `operative_config.gin` and `commands/`.
    #[arg(long = "model_dir", value_name = "DIR", default_value = "/tmp/transformer_standalone")]
    pub model_dir: String,
    /// Compute activations in bfloat16 where the configuration says so; without it, in float32. The name has no effect.
    #[arg(long = "tpu", value_name = "NAME")]
    pub tpu: Option<String>,
    /// No effect.
    #[arg(long = "gcp_project", value_name = "NAME")]
    pub gcp_project: Option<String>,
    /// No effect.
    #[arg(long = "tpu_zone", value_name = "ZONE")]
    pub tpu_zone: Option<String>,
    /// No effect.
    #[arg(long = "tpu_job_name", value_name = "NAME")]
    pub tpu_job_name: Option<String>,
    /// Gin files and bindings, after Mesh TensorFlow's `defaults.gin`.
    #[command(flatten)]
    pub gin: GinFileArgs,
    /// Folders in which gin files are searched, after the working directory and t5's own.
    #[arg(long = "gin_location_prefix", value_name = "DIR,...", value_delimiter = ',')]
    pub gin_location_prefix: Vec<String>,
    /// Module that declares tasks; may be repeated.
    #[arg(
        long = "module_import",
        value_name = "MODULE",
        value_parser = parse_module,
        default_value = MODULE
    )]
    pub module_import: Vec<String>,
    /// Folder of TFDS datasets.
    #[arg(long = "t5_tfds_data_dir", value_name = "DIR")]
    pub t5_tfds_data_dir: Option<String>,
    /// Folders with cached tasks.
    #[arg(long = "additional_task_cache_dirs", value_name = "DIR,...", value_delimiter = ',')]
    pub additional_task_cache_dirs: Vec<String>,
    /// Selectors of configurables that are skipped if they are not known, beside t5's own list.
    #[arg(
        long = "additional_deprecated_gin_references",
        value_name = "SELECTOR,...",
        value_delimiter = ','
    )]
    pub additional_deprecated_gin_references: Vec<String>,
    /// Skip everything in gin files that is not known.
    #[arg(long = "skip_all_gin_unknowns")]
    pub skip_all_gin_unknowns: bool,
    /// Treat warnings as errors.
    #[arg(long = "strict")]
    pub strict: bool,
    /// Local folder to read instead of a bucket or hub dataset: gs://t5-data=DIR. May be repeated.
    #[arg(long = "path_map", value_name = "PREFIX=DIR", action = ArgAction::Append)]
    pub path_map: Vec<String>,
    /// Write into a folder of a bucket even if another process seems to; only if that process is dead.
    #[arg(long = "take_over")]
    pub take_over: bool,
    /// Resolve everything, print sizes and shapes, and stop.
    #[arg(long = "dry_run")]
    pub dry_run: bool,
    /// Print the run as one gin file in T5X's terms, and stop: `gimlet train` or `eval` with that file is the same run.
    #[arg(long = "print_gin")]
    pub print_gin: bool,
    /// Flags of the API mode.
    #[command(flatten)]
    pub api: ApiArgs,
}

impl T5MeshTransformerArgs {
    /// Returns the texts to load, in t5's order.
    ///
    /// # Errors
    /// Flags of the API mode that contradict themselves.
    pub fn request(&self) -> Result<Request, Failure> {
        let files = [vec![DEFAULTS.to_string()], self.gin.gin_file.clone()].concat();
        let api = self.api.statements(&self.model_dir).map_err(Failure::Usage)?;
        Ok(Request {
            files,
            bindings: [self.bindings(), api].concat(),
            search_paths: self.search_paths(),
            skip_unknown: self.skip_unknown(),
            ..Request::default()
        })
    }

    /// Returns the folders that are searched after the working directory.
    fn search_paths(&self) -> Vec<String> {
        [vec![GIN_FOLDER.to_string()], self.own_search_paths()].concat()
    }

    /// Returns the folders among these that the user gave.
    pub fn own_search_paths(&self) -> Vec<String> {
        let more = self.gin.gin_search_paths.iter().filter(|path| *path != ".");
        self.gin_location_prefix.iter().chain(more).cloned().collect()
    }

    /// Returns the bindings with the flag of t5's program, whose name clap does not keep.
    fn bindings(&self) -> Vec<(String, String)> {
        let named = |(flag, text): (String, String)| match flag.as_str() {
            "--gin_bindings" => ("--gin_param".to_string(), text),
            _ => (flag, text),
        };
        self.gin.bindings().into_iter().map(named).collect()
    }

    fn skip_unknown(&self) -> SkipUnknown {
        if self.skip_all_gin_unknowns || self.gin.skip_unknown.as_deref() == Some(&[String::new()])
        {
            return SkipUnknown::All;
        }
        let more = self.additional_deprecated_gin_references.iter();
        let named = more.chain(self.gin.skip_unknown.iter().flatten()).cloned().collect();
        with_deprecated(&SkipUnknown::Named(named))
    }

    /// Returns the given flags that have no effect.
    pub fn without_effect(&self) -> Vec<&'static str> {
        let given = [
            ("--tpu_job_name", &self.tpu_job_name),
            ("--gcp_project", &self.gcp_project),
            ("--tpu_zone", &self.tpu_zone),
        ];
        given.into_iter().filter(|(_, value)| value.is_some()).map(|(flag, _)| flag).collect()
    }
}
