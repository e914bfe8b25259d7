//! An adapter of PEFT as gin: the base model's `config.json`, and the adapter's statements after it.

use std::collections::BTreeMap;

use super::families::{gin_of_model, open};
use crate::checkpoint::{Adapter, HuggingFaceConfig, PeftConfig, TARGET};
use crate::storage::Path;

/// The configurable of models that have soft prompts.
const ENCODER_DECODER: &str = "models.EncoderDecoderModel";

/// Returns the gin text that stands for an `adapter_config.json`.
///
/// # Errors
/// An adapter that is not supported, or a base model that cannot be read.
pub(super) fn gin_of_adapter(file: &Path, text: &str) -> Result<String, String> {
    let config = PeftConfig::parse(file, text.as_bytes())?;
    let base = config.base().map_err(|error| error.to_string())?.join(HuggingFaceConfig::FILE);
    let text = base.read().map_err(|error| format!("the base model: {error}"))?;
    let (gin, family) = gin_of_model(&base, &String::from_utf8_lossy(&text))
        .map_err(|reason| format!("the base model, {base}: {reason}"))?;
    let own = match config.adapter {
        Adapter::Lora { rank, alpha, dropout_rate } => {
            let patterns = patterns(&file.folder())?;
            let bound =
                family.models.iter().map(|model| format!("{model}.lora = @gimlet.LoRA()\n"));
            format!(
                "import gimlet\n\n{}gimlet.LoRA:\n  rank = {rank}\n  alpha = {alpha:?}\n  \
                 dropout_rate = {dropout_rate:?}\n  projections = [\n{patterns}  ]\n",
                bound.collect::<String>()
            )
        }
        Adapter::Prompt { .. } if family.models != [ENCODER_DECODER] => {
            return Err(format!(
                "a soft prompt comes before the inputs of an encoder-decoder, and the base model, {base}, is {}",
                family.name
            ));
        }
        Adapter::Prompt { length } => format!(
            "from prompt_tuning import prompts\n\
             from prompt_tuning.train import prompts as train_prompts\n\n\
             {ENCODER_DECODER}.prompt = @train_prompts.Prompt()\n\
             train_prompts.Prompt.prompt = @prompts.Prompt()\n\
             prompts.Prompt.length = {length}\n"
        ),
    };
    Ok(format!("{gin}\n# {file} as gin.\n{own}"))
}

/// Returns patterns of the projections that have additions, a line each.
fn patterns(folder: &Path) -> Result<String, String> {
    const LAYER: &str = "/layers_";
    let stored = open(folder).map_err(|error| error.to_string())?;
    let mut layers = BTreeMap::<String, Vec<usize>>::new();
    for leaf in stored.leaves() {
        let path = leaf.name.strip_prefix(TARGET).and_then(|name| name.strip_suffix("/lora_a"));
        let Some((stack, rest)) = path.and_then(|path| path.split_once(LAYER)) else { continue };
        let Some((number, rest)) = rest.split_once('/') else { continue };
        let numbers = layers.entry(format!("{stack}{LAYER}#/{rest}")).or_default();
        numbers.extend(number.parse::<usize>());
    }
    let line = |(path, mut numbers): (String, Vec<usize>)| {
        numbers.sort_unstable();
        let numbers: Vec<String> = numbers.iter().map(usize::to_string).collect();
        format!("    '/{}',\n", path.replace('#', &format!("({})", numbers.join("|"))))
    };
    Ok(layers.into_iter().map(line).collect())
}
