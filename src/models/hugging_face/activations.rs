//! The activations of feed-forward blocks: T5X's `mlp_activations`, one for each input projection, and
//! transformers' `feed_forward_proj`, where `gated-` means that a second projection without an activation is multiplied.

use crate::nn::Activation;

/// T5X's name of a function, and `feed_forward_proj` of a block with it alone and of one with it and a linear projection.
/// Transformers' `gelu` is the exact function and T5X's the tanh approximation, but `gated-gelu` is the latter in both.
const FUNCTIONS: [(&str, &str, &str); 8] = [
    ("relu", "relu", "gated-relu"),
    ("gelu", "gelu_new", "gated-gelu"),
    ("gelu_exact", "gelu", "gated-gelu_python"),
    ("linear", "linear", "gated-linear"),
    ("silu", "silu", "gated-silu"),
    ("swish", "swish", "gated-swish"),
    ("sigmoid", "sigmoid", "gated-sigmoid"),
    ("tanh", "tanh", "gated-tanh"),
];

/// Transformers' other names of functions, with T5X's.
const SYNONYMS: [(&str, &str); 6] = [
    ("gelu_new", "gelu"),
    ("gelu_pytorch_tanh", "gelu"),
    ("gelu_python_tanh", "gelu"),
    ("gelu_fast", "gelu"),
    ("gelu_accurate", "gelu"),
    ("gelu_python", "gelu_exact"),
];

/// The function without effect, which the second projection of transformers' gated blocks has.
const LINEAR: &str = "linear";

/// The beginning of `feed_forward_proj` of blocks with two projections.
const GATED: &str = "gated-";

/// A feed-forward block as transformers describe it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedForward {
    /// The value of `feed_forward_proj`.
    pub proj: String,
    /// Whether `wi_0` and `wi_1` change places: transformers apply the function to `wi_0`'s result. The product of both
    /// results stays the same.
    pub is_swapped: bool,
}

/// Returns transformers' description of blocks with T5X's activations.
///
/// # Errors
/// Transformers have no such block: the reason.
pub fn feed_forward(activations: &[&str]) -> Result<FeedForward, String> {
    let (function, is_gated, is_swapped) = match activations {
        [function] => (*function, false, false),
        [function, LINEAR] => (*function, true, false),
        [LINEAR, function] => (*function, true, true),
        _ => {
            return Err(format!(
                "mlp_activations is {}, and transformers has blocks of one activation, or of one beside 'linear'",
                Activation::tuple(activations)
            ));
        }
    };
    let Some((_, alone, gated)) = FUNCTIONS.iter().find(|(name, ..)| *name == function) else {
        let known: Vec<&str> = FUNCTIONS.iter().map(|(name, ..)| *name).collect();
        return Err(format!(
            "mlp_activations is {}, and of '{function}' transformers has no equal; it has {}",
            Activation::tuple(activations),
            known.join(", ")
        ));
    };
    Ok(FeedForward { proj: if is_gated { gated } else { alone }.to_string(), is_swapped })
}

/// Returns T5X's activations for a value of `feed_forward_proj`.
///
/// # Errors
/// T5X has no such block: the reason.
pub fn mlp_activations(feed_forward_proj: &str) -> Result<Vec<&'static str>, String> {
    for (name, alone, gated) in FUNCTIONS {
        match feed_forward_proj {
            proj if proj == alone => return Ok(vec![name]),
            proj if proj == gated => return Ok(vec![name, LINEAR]),
            _ => {}
        }
    }
    let (is_gated, function) = match feed_forward_proj.strip_prefix(GATED) {
        Some(function) => (true, function),
        None => (false, feed_forward_proj),
    };
    match (SYNONYMS.iter().find(|(synonym, _)| *synonym == function), is_gated) {
        (Some((_, name)), true) => Ok(vec![name, LINEAR]),
        (Some((_, name)), false) => Ok(vec![name]),
        (None, _) => {
            let known: Vec<&str> =
                FUNCTIONS.iter().flat_map(|(_, alone, gated)| [*alone, *gated]).collect();
            Err(format!(
                "its feed_forward_proj is `{feed_forward_proj}`, expected one of {}",
                known.join(", ")
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(activations: &[&str], proj: &str, is_swapped: bool) {
        let expected = FeedForward { proj: proj.to_string(), is_swapped };
        assert_eq!(feed_forward(activations), Ok(expected));
        let mut back = mlp_activations(proj).expect("it is known");
        if is_swapped {
            back.reverse();
        }
        assert_eq!(back, activations);
    }

    #[test]
    fn what_transformers_has_goes_there_and_back() {
        check(&["relu"], "relu", false);
        check(&["gelu"], "gelu_new", false);
        check(&["linear"], "linear", false);
        check(&["gelu_exact"], "gelu", false);
        check(&["gelu_exact", "linear"], "gated-gelu_python", false);
        check(&["gelu", "linear"], "gated-gelu", false);
        check(&["linear", "gelu"], "gated-gelu", true);
        check(&["silu", "linear"], "gated-silu", false);
        check(&["swish", "linear"], "gated-swish", false);
        check(&["linear", "sigmoid"], "gated-sigmoid", true);
        check(&["relu", "linear"], "gated-relu", false);
        check(&["linear", "linear"], "gated-linear", false);
        for name in ["gated-gelu_new", "gated-gelu_pytorch_tanh"] {
            assert_eq!(mlp_activations(name), Ok(vec!["gelu", "linear"]));
        }
    }

    #[test]
    fn what_one_side_has_not_is_refused_by_name() {
        let said = feed_forward(&["elu", "linear"]).expect_err("there is no elu");
        assert!(
            said.contains("('elu', 'linear'), and of 'elu' transformers has no equal"),
            "{said}"
        );
        let said = feed_forward(&["gelu", "gelu"]).expect_err("two are none");
        assert!(said.contains("('gelu', 'gelu')"), "{said}");
        for name in ["gated-mish", "gated-gelu-x", ""] {
            let said = mlp_activations(name).expect_err("it is unknown");
            assert!(said.contains(&format!("feed_forward_proj is `{name}`")), "{said}");
        }
    }
}
