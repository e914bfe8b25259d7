//! The other objectives of t5 over plain text.

use super::chunks::{concat_targets, split_targets};
use super::denoise::{Denoise, MAX_DOCUMENT_TOKENS, NoiseMask, RandomChunk, Replace};
use super::tokens::AppendEos;
use super::{Context, Preprocess, Step};
use crate::data::error::DataError;
use crate::gin::Configurable;

/// A random prefix of each piece of text is the inputs, the rest the targets. Source: t5
/// `preprocessors.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5.data.preprocessors.prefix_lm", open)]
pub struct PrefixLm {
    /// At 0.5 all lengths of prefix are equally likely; below, short ones are not drawn.
    #[gin(default = 0.5)]
    pub noise_density: f64,
}

/// Every token is masked with probability 0.15. Source: t5 `preprocessors.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5.data.preprocessors.iid_denoising")]
pub struct IidDenoising {}

/// Documents with EOS, joined and cut to the targets' length; no inputs. Source: t5
/// `preprocessors.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5.data.preprocessors.full_lm")]
pub struct FullLm {}

fn random_chunk() -> Step {
    let chunk = RandomChunk { max_tokens: MAX_DOCUMENT_TOKENS, passthrough: Vec::new() };
    Step::Map(Box::new(chunk))
}

/// Pieces that fit the inputs with the EOS they get later.
fn split_to_inputs_length(cx: &Context<'_>) -> Result<Step, DataError> {
    let eos = usize::from(cx.feature("inputs")?.add_eos);
    Ok(split_targets(cx.length("inputs")?.saturating_sub(eos).max(1), &[]))
}

impl Preprocess for PrefixLm {
    fn needs_lengths(&self) -> bool {
        true
    }

    fn steps(&self, cx: &Context<'_>) -> Result<Vec<Step>, DataError> {
        if !(0.0..=0.5).contains(&self.noise_density) {
            let found = self.noise_density;
            let message = format!("`prefix_lm.noise_density` is at most 0.5, found {found}");
            return Err(DataError::Config(message));
        }
        // The prefix is the "noise", and the inputs show just that.
        let denoise = Denoise {
            replace: Replace::WithNothing,
            inputs_hide_noise: false,
            ..Denoise::new(cx, "inputs", self.noise_density, NoiseMask::RandomPrefix)?
        };
        Ok(vec![random_chunk(), split_to_inputs_length(cx)?, Step::Map(Box::new(denoise))])
    }
}

impl Preprocess for IidDenoising {
    fn needs_lengths(&self) -> bool {
        true
    }

    fn steps(&self, cx: &Context<'_>) -> Result<Vec<Step>, DataError> {
        let denoise = Denoise::new(cx, "inputs", 0.15, NoiseMask::Iid)?;
        Ok(vec![
            random_chunk(),
            concat_targets(),
            split_to_inputs_length(cx)?,
            Step::Map(Box::new(denoise)),
        ])
    }
}

impl Preprocess for FullLm {
    fn needs_lengths(&self) -> bool {
        true
    }

    fn steps(&self, cx: &Context<'_>) -> Result<Vec<Step>, DataError> {
        let mut steps = vec![random_chunk()];
        steps.extend((AppendEos {}).steps(cx)?);
        steps.push(concat_targets());
        let max_tokens = cx.length("targets")?.max(1);
        steps.push(split_targets(max_tokens, &[]));
        Ok(steps)
    }
}
