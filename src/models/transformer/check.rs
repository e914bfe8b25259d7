//! Mistakes in the dimensions of a network, found before anything is built.

use super::spec::{StackSpec, TransformerSpec};
use crate::models::parts::{LearnedRows, RowsKind};

/// The greatest number of layers in a stack. More are a typing error, and each takes memory before
/// it is counted.
const MAX_LAYERS: usize = 10_000;

/// The greatest number of elements of one parameter; with more, sizes in bytes would exceed 64
/// bits.
const MAX_ELEMENTS: f64 = 1e17;

/// Dimensions that one configurable sets for every network.
const EVERYWHERE: &[(&str, &str)] = &[
    ("prompt_length", "prompts.Prompt.length"),
    ("multitask_prompt_length", "the length of multitask_prompts' prompt"),
];

/// The parameters that set the dimensions of a network, for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DimensionNames {
    /// The configurable that has them: `network.T5Config`.
    pub configurable: &'static str,
    /// Dimensions that a parameter of another configurable sets, each with its full name.
    pub elsewhere: &'static [(&'static str, &'static str)],
}

impl DimensionNames {
    /// All dimensions are parameters of that configurable, under their own names.
    pub const fn of(configurable: &'static str) -> Self {
        Self { configurable, elsewhere: &[] }
    }

    /// The parameter that sets a dimension: `network.T5Config.emb_dim`.
    pub fn parameter(&self, dimension: &str) -> String {
        match self.elsewhere.iter().chain(EVERYWHERE).find(|(name, _)| *name == dimension) {
            Some((_, parameter)) => parameter.to_string(),
            None => format!("{}.{dimension}", self.configurable),
        }
    }
}

impl TransformerSpec {
    /// Finds dimensions with which no network can be made.
    ///
    /// # Errors
    /// The first such dimension, by the parameter that sets it.
    pub fn check(&self, names: DimensionNames) -> Result<(), String> {
        self.stacks().try_for_each(|stack| self.check_stack(stack, names))?;
        if let Some(lora) = self.last.lora.as_ref() {
            if self.stacks().any(|stack| stack.dims.style.has_scales) {
                return Err("the model has LoRA and the scales of IA3, expected one of the two: omit gimlet/lora.gin, or bind \
                            k_conv, v_conv and intermediate_conv to None"
                    .to_string());
            }
            let of_layers: Vec<_> = self.stacks().flat_map(StackSpec::layer_params).collect();
            lora.check(&of_layers)?;
        }
        let layers = match &self.encoder {
            Some(encoder) => {
                vec![("num_encoder_layers", encoder), ("num_decoder_layers", &self.last)]
            }
            None => vec![("num_layers", &self.last)],
        };
        match layers.into_iter().find(|(_, stack)| stack.num_layers > MAX_LAYERS) {
            Some((name, stack)) => Err(format!(
                "{} is {}, expected at most {MAX_LAYERS}",
                names.parameter(name),
                stack.num_layers
            )),
            None => Ok(()),
        }
    }

    /// The parameter that lets all positions of a row see each other, with its value, if there is one.
    pub fn of_whole_rows(&self) -> Option<(&'static str, usize)> {
        let num_cdq_heads = self.stacks().map(|stack| stack.dims.num_cdq_heads).max();
        let rows = self.learned_rows.as_ref();
        let numbers = [
            (rows.map_or("", LearnedRows::dimension), self.num_learned_rows()),
            ("num_cdq_heads", num_cdq_heads.unwrap_or(0)),
        ];
        numbers.into_iter().find(|(_, number)| *number > 0)
    }

    /// Finds a network into which rows of several examples cannot enter; `setting` packs them, and is replaced by `remedy`.
    ///
    /// # Errors
    /// Examples of a row would see each other.
    pub fn check_packing(
        &self,
        names: DimensionNames,
        (setting, remedy): (&str, &str),
    ) -> Result<(), String> {
        match self.of_whole_rows() {
            Some((dimension, number)) if self.has_prompt() => Err(format!(
                "{setting} puts several examples into a row, and a row has one prompt ({} = {number}), which belongs to one \
                 example: prompt tuning does not support packing, bind {remedy}",
                names.parameter(dimension)
            )),
            None if self.class_head.is_some() => Err(format!(
                "{setting} puts several examples into a row, and the model names one class for each row: bind {remedy}"
            )),
            None => Ok(()),
            Some((dimension, number)) => Err(format!(
                "{setting} puts several examples into a row, and {} = {number} lets them see each other, expected one of \
                 the two: bind {remedy}, or {dimension} = 0",
                names.parameter(dimension)
            )),
        }
    }

    /// Whether the learned rows are a soft prompt.
    fn has_prompt(&self) -> bool {
        self.learned_rows.as_ref().is_some_and(|rows| rows.kind == RowsKind::Prompt)
    }

    fn check_stack(&self, stack: &StackSpec, names: DimensionNames) -> Result<(), String> {
        let dims = &stack.dims;
        let extents = [
            ("vocab_size", self.tokens.vocab_size),
            ("emb_dim", dims.emb_dim),
            ("num_heads", dims.num_heads),
            ("head_dim", dims.head_dim),
            ("mlp_dim", dims.mlp_dim),
            ("mlp_activations", dims.mlp_activations.len()),
            ("adapter_dim", dims.adapter_dim.unwrap_or(1)),
        ];
        if let Some((name, _)) = extents.iter().find(|(_, extent)| *extent == 0) {
            return Err(format!("{} is 0 or empty, expected at least 1", names.parameter(name)));
        }
        let product =
            |extents: [usize; 2]| extents.map(|extent| extent as f64).iter().product::<f64>();
        let widths = dims.feed_forwards().into_iter().map(|block| block.dim as f64);
        let inner = widths.fold(product([dims.num_heads, dims.head_dim]), f64::max);
        let rows = self.tokens.vocab_size.max(self.num_learned_rows());
        let widest = (rows as f64).max(inner) * dims.emb_dim as f64;
        if widest > MAX_ELEMENTS {
            return Err(format!(
                "a parameter of the model has {widest:.0e} elements, more than any machine holds: lower \
                 {}'s dimensions",
                names.configurable
            ));
        }
        Ok(())
    }
}
