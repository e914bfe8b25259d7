//! Objectives that hide tokens and predict them. Source: t5 `preprocessors.py`.
//!
//! [`Denoise`] combines a choice of noise ([`NoiseMaskFn`]) and replacements of noise in inputs and
//! targets ([`NoiseFn`]); all of t5's objectives over plain text are such combinations.

mod mask;
mod replace;
mod tests;

use super::{Context, ExamplePosition, MapStep, Preprocess, Step, ids_of};
use crate::error::DataError;
use crate::example::Example;
use crate::value::{Key, Value};
use gimlet_gin::{Configurable, Ref};

use replace::Noisy;

pub use mask::{
    IidNoiseMask, NoiseMaskFn, RandomPrefixNoiseMask, RandomSpansNoiseMask, RegularNoiseMask,
};
pub use replace::{
    DropNoiseTokens, DropNonnoiseTokens, NoiseFn, NoiseSpanToSentinel, NoiseSpanToUniqueSentinel,
    NoiseTokenToGatheredToken, NoiseTokenToRandomToken, NoiseTokenToRandomTokenOrSentinel,
    NoiseTokenToSentinel, NonnoiseSpanToSentinel, NonnoiseSpanToUniqueSentinel, PermuteNoiseTokens,
    SentinelId,
};

/// Makes 'inputs' from 'targets' by hiding some of their tokens, and targets that contain the
/// hidden tokens. Source: t5 `preprocessors.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5.data.preprocessors.denoise", open)]
pub struct Denoise {
    /// Share of tokens that are noise; masks may deviate from it.
    pub noise_density: f64,
    /// Chooses the noise.
    #[gin(call(inherits))]
    pub noise_mask_fn: Ref<NoiseMaskFn>,
    /// Makes the inputs.
    #[gin(call(inherits))]
    pub inputs_fn: Ref<NoiseFn>,
    /// Makes the targets; they have all tokens if None.
    #[gin(default = None, call(inherits))]
    pub targets_fn: Option<Ref<NoiseFn>>,
    /// Features that are kept unchanged; all others are dropped.
    #[gin(default = None)]
    pub passthrough_feature_keys: Option<Vec<String>>,
    /// The feature that gets the inputs.
    #[gin(default = "inputs".to_string())]
    pub input_feature_key: String,
}

impl Denoise {
    /// The objective of these parts, with nothing passed through.
    pub(super) fn new(
        noise_density: f64,
        noise_mask_fn: NoiseMaskFn,
        inputs_fn: NoiseFn,
        targets_fn: NoiseFn,
    ) -> Self {
        Self {
            noise_density,
            noise_mask_fn: Ref(noise_mask_fn),
            inputs_fn: Ref(inputs_fn),
            targets_fn: Some(Ref(targets_fn)),
            passthrough_feature_keys: None,
            input_feature_key: "inputs".to_string(),
        }
    }

    /// Number of ids up to the first sentinel, of the vocabulary that inputs and targets must share.
    fn num_ids(&self, cx: &Context<'_>) -> Result<i32, DataError> {
        let (targets, inputs) = (cx.feature("targets")?, &self.input_feature_key);
        if let Some(feature) = cx.features.get(inputs)
            && !feature.vocabulary_spec.is_same_as(&targets.vocabulary_spec)?
        {
            return Err(DataError::Config(format!(
                "corrupted inputs are made of targets, and '{inputs}' uses {} where 'targets' uses \
                 {}; give both the same vocabulary",
                feature.vocabulary.name(),
                targets.vocabulary.name()
            )));
        }
        Ok(targets.vocabulary.first_sentinel_id().saturating_add(1))
    }
}

impl Preprocess for Denoise {
    fn steps(&self, cx: &Context<'_>) -> Result<Vec<Step>, DataError> {
        let passthrough = self.passthrough_feature_keys.clone().unwrap_or_default();
        let made = |key: &&String| **key == self.input_feature_key || *key == "targets";
        if let Some(key) = passthrough.iter().find(made) {
            return Err(DataError::Config(format!(
                "`denoise.passthrough_feature_keys` has '{key}', which `denoise` makes"
            )));
        }
        let num_ids = self.num_ids(cx)?;
        self.noise_mask_fn.check(self.noise_density)?;
        let functions = std::iter::once(&self.inputs_fn).chain(&self.targets_fn);
        functions.into_iter().try_for_each(|function| function.check(num_ids))?;
        Ok(vec![Step::Map(Box::new(Denoiser {
            spec: self.clone(),
            num_ids,
            inputs: self.input_feature_key.as_str().into(),
            targets: "targets".into(),
            passthrough,
        }))])
    }
}

/// [`Denoise`] for a vocabulary.
struct Denoiser {
    spec: Denoise,
    num_ids: i32,
    inputs: Key,
    targets: Key,
    passthrough: Vec<String>,
}

impl MapStep for Denoiser {
    fn apply(
        &self,
        mut example: Example,
        place: ExamplePosition<'_>,
    ) -> Result<Option<Example>, String> {
        let tokens = ids_of(&example, &self.targets)?;
        let mut draw = place.draw();
        let spec = &self.spec;
        let mask = spec.noise_mask_fn.draw(tokens.len(), spec.noise_density, &mut draw);
        let noisy = Noisy { tokens, mask: &mask, num_ids: self.num_ids };
        let inputs = spec.inputs_fn.apply(noisy, &mut draw);
        let targets = spec.targets_fn.as_ref().map(|function| function.apply(noisy, &mut draw));
        example.retain(|key| {
            (targets.is_none() && *key == *self.targets)
                || self.passthrough.iter().any(|kept| kept == key)
        });
        example.set(self.inputs.clone(), Value::Ints(inputs));
        if let Some(targets) = targets {
            example.set(self.targets.clone(), Value::Ints(targets));
        }
        Ok(Some(example))
    }
}
