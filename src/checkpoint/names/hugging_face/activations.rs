//! The activations of feed-forward blocks: T5X's `mlp_activations`, one for each input projection, and
//! transformers' `feed_forward_proj`, where `gated-` means that a second projection without an activation is multiplied.

/// T5X's and transformers' names of a function, where transformers has it. Transformers' `gelu` is another function than
/// T5X's, the exact one; T5X's is the tanh approximation.
const FUNCTIONS: [(&str, &str); 7] = [
    ("relu", "relu"),
    ("gelu", "gelu_new"),
    ("linear", "linear"),
    ("silu", "silu"),
    ("swish", "swish"),
    ("sigmoid", "sigmoid"),
    ("tanh", "tanh"),
];

/// Transformers' other names of functions, with T5X's.
const SYNONYMS: [(&str, &str); 4] = [
    ("gelu_pytorch_tanh", "gelu"),
    ("gelu_python_tanh", "gelu"),
    ("gelu_fast", "gelu"),
    ("gelu_accurate", "gelu"),
];

/// The function without effect, which the second projection of transformers' gated blocks has.
const LINEAR: &str = "linear";

/// A prefix of `feed_forward_proj`.
const GATED: &str = "gated-";

/// The only value whose function is not named by what follows the prefix: transformers keep it for older files.
const GATED_GELU: (&str, &str) = ("gated-gelu", "gelu");

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
                activations_tuple(activations)
            ));
        }
    };
    let known = FUNCTIONS.iter().find(|(t5x, _)| *t5x == function);
    let proj = match (known, is_gated) {
        (Some((t5x, _)), true) if *t5x == GATED_GELU.1 => GATED_GELU.0.to_string(),
        (Some((_, hf)), true) => format!("{GATED}{hf}"),
        (Some((_, hf)), false) => hf.to_string(),
        (None, _) => {
            let known: Vec<&str> = FUNCTIONS.iter().map(|(t5x, _)| *t5x).collect();
            return Err(format!(
                "mlp_activations is {}, and of '{function}' transformers has no equal; it has {}",
                activations_tuple(activations),
                known.join(", ")
            ));
        }
    };
    Ok(FeedForward { proj, is_swapped })
}

/// Returns T5X's activations for a value of `feed_forward_proj`.
///
/// # Errors
/// T5X has no such block: the reason.
pub fn mlp_activations(feed_forward_proj: &str) -> Result<Vec<&'static str>, String> {
    if feed_forward_proj == GATED_GELU.0 {
        return Ok(vec![GATED_GELU.1, LINEAR]);
    }
    let (is_gated, function) = match feed_forward_proj.strip_prefix(GATED) {
        Some(function) => (true, function),
        None => (false, feed_forward_proj),
    };
    let named = FUNCTIONS.iter().map(|(t5x, hf)| (*hf, *t5x)).chain(SYNONYMS);
    let found = named.clone().find(|(hf, _)| *hf == function).map(|(_, t5x)| t5x);
    match (found, is_gated) {
        (Some(t5x), true) => Ok(vec![t5x, LINEAR]),
        (Some(t5x), false) => Ok(vec![t5x]),
        (None, _) => {
            let known: Vec<&str> = named.map(|(hf, _)| hf).collect();
            Err(format!(
                "its feed_forward_proj is `{feed_forward_proj}`, expected gated-gelu, or one of {}, alone or after \
                 `{GATED}`",
                known.join(", ")
            ))
        }
    }
}

/// Returns names as gin writes a tuple of them.
pub fn activations_tuple(activations: &[&str]) -> String {
    let quoted: Vec<String> = activations.iter().map(|name| format!("'{name}'")).collect();
    match &quoted[..] {
        [one] => format!("({one},)"),
        all => format!("({})", all.join(", ")),
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
        for name in ["gelu", "gated-mish", "gated-gelu-x", ""] {
            let said = mlp_activations(name).expect_err("it is unknown");
            assert!(said.contains(&format!("feed_forward_proj is `{name}`")), "{said}");
        }
    }
}
