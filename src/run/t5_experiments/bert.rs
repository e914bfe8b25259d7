//! The facts of a pretraining of BERT that its flags do not say: the network, the pieces and the data.

use anyhow::anyhow;
use serde_json::Value;

use crate::checkpoint::{HuggingFaceConfig, HuggingFaceFamily};
use crate::dialects::Statement;
use crate::dialects::t5_experiments::{Arguments, Facts, Pretraining};
use crate::gin::Diagnostic;
use crate::models::bert::hugging_face::{FAMILY, TrainedLayout, network, trained_layout};
use crate::models::{HUGGING_FACE, open};
use crate::run::failure::Failure;
use crate::storage::Path;
use crate::telemetry::warn_once;
use crate::vocab::BertFolder;

use super::tuning::exists;
use super::{failure, init_step, model_config};

/// The class of transformers, and the keys of t5-experiments that it does not read.
const OF_TRANSFORMERS: &str = "transformers:";
const OF_OWN_CLASS: [&str; 8] = [
    "pre_layer_norm",
    "last_layer_norm",
    "rotary_base",
    "rotary_dim",
    "relative_attention_num_buckets",
    "relative_last_bucket_distance",
    "sparse_config_cls",
    "sparse_attention",
];

/// The statement of a layout of blocks, without the end of its name; layouts with random blocks; and the one of blocks that
/// are listed.
const SPARSITY: &str = "bert.BertConfig.sparsity = @bert.";
const RANDOM: [&str; 2] = ["BigBirdSparsityConfig", "VariableSparsityConfig"];
const LISTED: &str = "ListedSparsityConfig";
/// The table of relative positions.
const TABLE: &str = "target/encoder/relpos_bias/rel_embedding";
const POSITIONS: &str = "bert.BertConfig.position_embedding";
const RELATIVE: &str = "bert.BertConfig.position_embedding = @bert.relative_attention_bias()";

/// Finds the files, and reads the network.
///
/// # Errors
/// A file is missing, or describes a network that no model here has.
pub(super) fn facts(arguments: &Arguments, num_processes: usize) -> Result<Facts, Failure> {
    let mut mistakes = Vec::new();
    for flag in ["data_path", "valid_data_path"] {
        let Some(prefix) = arguments.path(flag) else { continue };
        for ending in ["bin", "idx"] {
            let file = format!("{prefix}.{ending}");
            if !exists(&file)? {
                let message = format!("`--{flag}` is `{prefix}`, and `{file}` is missing");
                let help = "`gimlet megatron_index` makes both files of texts, as megatron/preprocess_data.py does";
                mistakes.push(Diagnostic::nowhere(message).help(help));
            }
        }
    }
    if !mistakes.is_empty() {
        return Err(failure(mistakes));
    }
    let bert = Some(network_and_pieces(arguments)?);
    let init_step = init_step(arguments)?;
    let (model_config, shards, tuning) = (None, Vec::new(), None);
    Ok(Facts { num_processes, model_config, shards, init_step, tuning, bert })
}

/// Finds the pieces of `--tokenizer`, and reads the network of `--model_cfg`.
///
/// # Errors
/// A file is missing, or describes a network that no model here has.
pub(super) fn network_and_pieces(arguments: &Arguments) -> Result<Pretraining, Failure> {
    let folder = arguments.path("tokenizer").unwrap_or_default();
    let found = Path::parse(&folder).map_err(Failure::usage)?;
    let found = BertFolder::at(&found).map_err(|error| match error.is_users() {
        true => failure(vec![Diagnostic::nowhere(error.to_string())]),
        false => Failure::world(error),
    })?;
    let Some(BertFolder { pieces, folds_case: lower_case }) = found else {
        let message = format!(
            "`--tokenizer` is `{folder}`, expected a folder with a vocab.txt or a tokenizer.json"
        );
        return Err(failure(vec![Diagnostic::nowhere(message)]));
    };
    let pieces = pieces.to_string();
    let (network, without_effect) = read_network(arguments)?;
    let network = as_trained(arguments, network)?;
    Ok(Pretraining { network, without_effect, pieces, lower_case })
}

/// Returns the statements of the network, and the keys that its class does not read.
fn read_network(arguments: &Arguments) -> Result<(Vec<Statement>, Vec<String>), Failure> {
    let (file, text) = model_config(arguments)?;
    let refused =
        |message: String| failure(vec![Diagnostic::nowhere(format!("{file}: {message}"))]);
    let path = Path::parse(&file).map_err(Failure::usage)?;
    let class = arguments.text("model_cls").unwrap_or_default();
    let (text, without_effect) = match class.starts_with(OF_TRANSFORMERS) {
        true => without(&text).map_err(|error| refused(format!("it is not JSON: {error}")))?,
        false => (text, Vec::new()),
    };
    let config = HuggingFaceConfig::parse(&path, text.as_bytes())
        .map_err(|error| refused(format!("it is not a file of a network: {error}")))?;
    let family = HuggingFaceFamily::of(&config, HUGGING_FACE);
    if !family.is_ok_and(|family| std::ptr::eq(family, &FAMILY)) {
        let found = value(&text, "model_type").unwrap_or_default();
        let help = match &found[..] {
            "big_bird" => ": a BERT with the key `sparse_attention` has BigBird's blocks",
            "t5" => ": `gimlet t5_experiments t5` pretrains a T5",
            _ => "",
        };
        return Err(refused(format!("its `model_type` is `{found}`, expected `bert`{help}")));
    }
    if let Some(unknown) =
        FAMILY.check_keys(&config).map_err(|error| failure(vec![Diagnostic::nowhere(error)]))?
    {
        return Err(failure(vec![Diagnostic::nowhere(unknown)]));
    }
    if class.starts_with(OF_TRANSFORMERS)
        && let Some(position) =
            value(&text, "position_embedding_type").filter(|position| position != "absolute")
    {
        return Err(refused(format!(
            "its position_embedding_type is `{position}`, and transformers' class has absolute positions: give \
             --model_cls=modeling_bert:BertForPreTraining"
        )));
    }
    let statements = network(&config).map_err(refused)?;
    let placed = |(key, text): (&str, String)| Statement { place: format!("{file}: {key}"), text };
    Ok((statements.into_iter().map(placed).collect(), without_effect))
}

/// Gives a network the blocks with which t5-experiments trained `--init_checkpoint`, and warns of its differences.
fn as_trained(arguments: &Arguments, network: Vec<Statement>) -> Result<Vec<Statement>, Failure> {
    let class = network.iter().find_map(|it| it.text.strip_prefix(SPARSITY)?.strip_suffix("()"));
    let is_relative = network.iter().any(|it| it.text == RELATIVE);
    let file = arguments.path("init_checkpoint").filter(|_| class.is_some() || is_relative);
    let Some(file) = file else { return Ok(network) };
    let path = Path::parse(&file).map_err(Failure::usage)?;
    let read = open(&path).and_then(|stored| {
        let has_table = stored.leaves().iter().any(|leaf| leaf.name == TABLE);
        // A folder of transformers is no file of a Trainer.
        let is_exported = path.join(HuggingFaceConfig::FILE).exists()?;
        let is_theirs = stored.extras()?.is_empty() && !is_exported;
        Ok((trained_layout(&*stored)?, is_theirs || !has_table))
    });
    let (layout, has_no_positions) = read.map_err(|error| {
        let reason = "`--init_checkpoint` cannot be read, on which the attention depends; the config.gin of a run that has begun \
                      says what it is";
        Failure::Usage(anyhow!(error).context(reason))
    })?;
    let Some(class) = class.map(str::to_string) else {
        return Ok(match has_no_positions {
            true => without_positions(&file, network),
            false => network,
        });
    };
    let Some(layout) = layout else {
        if RANDOM.contains(&&class[..]) {
            warn_once(&format!(
                "`{file}` has no master_layout, the blocks with which it was trained: random ones are drawn by \
                 bert.BertConfig.sparsity_seed. If its run had others, bind bert.BertConfig.sparsity as in the config.gin of that \
                 run"
            ));
        }
        return Ok(network);
    };
    warn_once(&format!(
        "all layers attend to the blocks of the first one in `{file}` (master_layout), with which t5-experiments trains all: \
         --print_gin shows them as bert.{LISTED}.rows"
    ));
    listed(network, &class, &layout).map_err(|message| {
        failure(vec![Diagnostic::nowhere(format!("`--init_checkpoint`: {file}: {message}"))])
    })
}

/// Leaves out relative positions, which t5-experiments' dense attention does not have.
fn without_positions(file: &str, network: Vec<Statement>) -> Vec<Statement> {
    let is_of_them = |it: &Statement| it.text.starts_with("bert.relative_attention_bias.");
    let (of_them, left): (Vec<_>, Vec<_>) = network.into_iter().partition(is_of_them);
    let flags = of_them.iter().map(|it| format!(" --gin.{}", it.text.replace(" = ", "=")));
    warn_once(&format!(
        "`{file}`: without sparse_attention t5-experiments does not add its table of relative positions to scores, and the table \
         does not learn. So the model has no positions here either. With --gin.{POSITIONS}=@bert.relative_attention_bias(){} it \
         has them, and a table that learns",
        flags.collect::<String>()
    ));
    left.into_iter()
        .map(|it| match it.text == RELATIVE {
            true => Statement { text: format!("{POSITIONS} = @bert.no_positions()"), ..it },
            false => it,
        })
        .collect()
}

/// Replaces a layout of this class by one of blocks that are listed.
fn listed(
    network: Vec<Statement>,
    class: &str,
    layout: &TrainedLayout,
) -> Result<Vec<Statement>, String> {
    let mut statements = Vec::new();
    for Statement { place, text } in network {
        let text = match text.strip_prefix(&format!("bert.{class}.")) {
            Some(heads) if heads.starts_with("num_heads = ") => {
                if heads != format!("num_heads = {}", layout.num_heads) {
                    return Err(format!(
                        "its master_layout has {} heads, expected sparse_attention's {heads}",
                        layout.num_heads
                    ));
                }
                format!("bert.{LISTED}.{heads}")
            }
            Some(block) if block.starts_with("block = ") => format!("bert.{LISTED}.{block}"),
            Some(_) => continue,
            None if text.starts_with(SPARSITY) => format!("{SPARSITY}{LISTED}()"),
            None => text,
        };
        statements.push(Statement { place, text });
    }
    let rows: Vec<String> = layout.rows.iter().map(|row| format!("'{row}'")).collect();
    let text = format!("bert.{LISTED}.rows = [{}]", rows.join(", "));
    statements.push(Statement { place: "--init_checkpoint".to_string(), text });
    Ok(statements)
}

/// Returns the text without the keys of t5-experiments' own class, and these.
fn without(text: &str) -> Result<(String, Vec<String>), serde_json::Error> {
    let mut config: Value = serde_json::from_str(text)?;
    let mut removed = Vec::new();
    if let Value::Object(keys) = &mut config {
        let own = OF_OWN_CLASS.iter().filter(|key| keys.remove(**key).is_some());
        removed = own.map(|key| key.to_string()).collect();
    }
    Ok((config.to_string(), removed))
}

/// The text that the text of a network has under a key.
fn value(text: &str, key: &str) -> Option<String> {
    let config: Value = serde_json::from_str(text).ok()?;
    config[key].as_str().map(str::to_string)
}
