//! Learned factors of keys, values and the insides of feed-forward blocks (IA3; Liu et al. 2022, arXiv:2205.05638), which
//! prompt-tuning puts where flaxformer's layers may have convolutions. Source: prompt-tuning `extended/train/ia3.py`.

use crate::gin::{Configurable, Evaluator, FromGin, Reported, Value, ValueKind, is_same};
use crate::nn::Dtype;

/// A factor for each head and number of keys or values, `ia3_scaling`. They begin with 1.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "prompt_tuning.extended.train.ia3.IA3Attention")]
pub struct IA3Attention {
    /// Only ('heads', 'kv') is supported.
    #[gin(default = OfHeads)]
    pub axis_names: OfHeads,
    /// Format of activations.
    #[gin(default = Dtype::Float32)]
    pub dtype: Dtype,
}

/// A factor for each number between the projections of a feed-forward block, `ia3_scaling`. They begin with 1.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "prompt_tuning.extended.train.ia3.IA3")]
pub struct IA3 {
    /// Only ('mlp',) is supported; prompt-tuning's default is ('embed',).
    pub axis_name: OfMlp,
    /// Format of activations.
    #[gin(default = Dtype::Float32)]
    pub dtype: Dtype,
}

/// Declares types that read one tuple of names, or a list of them.
macro_rules! axes {
    ($($(#[$doc:meta])* $name:ident = $axes:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name;

        impl FromGin for $name {
            fn expected() -> String {
                names(&$axes, ValueKind::Tuple).to_string()
            }

            fn from_gin(value: &Value, cx: &mut Evaluator<'_>) -> Result<Self, Reported> {
                let is = |kind| is_same(&value.kind, &names(&$axes, kind));
                match is(ValueKind::Tuple) || is(ValueKind::List) {
                    true => Ok(Self),
                    false => {
                        Err(cx.unfit_because(value, &Self::expected(), "axes have T5X's names"))
                    }
                }
            }

            fn to_gin(&self) -> Option<ValueKind> {
                Some(names(&$axes, ValueKind::Tuple))
            }
        }
    )*};
}

axes! {
    /// The axes of factors of keys or values.
    OfHeads = ["heads", "kv"];
    /// The axis of factors in a feed-forward block.
    OfMlp = ["mlp"];
}

fn names(axes: &[&str], kind: fn(Vec<Value>) -> ValueKind) -> ValueKind {
    let name = |axis: &&str| Value::unplaced(ValueKind::Str(axis.to_string()));
    kind(axes.iter().map(name).collect())
}
