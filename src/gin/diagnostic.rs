//! The user's mistakes, each with its place, the found and the expected text, and the remedy.

use super::source::{SourceMap, Span};

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The configuration means something, perhaps not what was intended.
    Warning,
    /// The configuration cannot be used.
    Error,
}

/// A part that the configuration does not have yet; a later file or flag may still supply it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// The value of a parameter or macro that is `%gin.REQUIRED`.
    Value,
    /// A macro that is used and not defined.
    Macro,
}

/// One mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// The message with found and expected values: lower case, no full stop.
    pub message: String,
    /// The place, if there is one, and the remark under the caret (may be empty).
    pub place: Option<(Span, String)>,
    /// Other places that matter, each with its remark.
    pub related: Vec<(Span, String)>,
    /// Remedies.
    pub help: Vec<String>,
    /// The remedy as a shell user types it; shown instead of `help` where a flag gave the text.
    pub flag_help: Option<String>,
    /// The missing part, if nothing else is wrong.
    pub missing: Option<Missing>,
    /// The parameters whose value is wrong, if the error matters only when one of them is read:
    /// scope, configurable and argument.
    pub wrong_for: Vec<BindingKey>,
}

/// Scope, full name of a configurable, and argument of a binding.
pub type BindingKey = (String, &'static str, String);

impl Diagnostic {
    /// An error at a place.
    pub fn error(span: Span, message: impl Into<String>) -> Self {
        Self { place: Some((span, String::new())), ..Self::nowhere(message) }
    }

    /// An error without a place in any text, such as a missing binding.
    pub fn nowhere(message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            message: message.into(),
            place: None,
            related: Vec::new(),
            help: Vec::new(),
            flag_help: None,
            missing: None,
            wrong_for: Vec::new(),
        }
    }

    /// The remark under the caret.
    pub fn label(mut self, text: impl Into<String>) -> Self {
        if let Some((_, label)) = &mut self.place {
            *label = text.into();
        }
        self
    }

    /// Another place that matters.
    pub fn related(mut self, span: Span, text: impl Into<String>) -> Self {
        self.related.push((span, text.into()));
        self
    }

    /// A remedy.
    pub fn help(mut self, text: impl Into<String>) -> Self {
        self.help.push(text.into());
        self
    }

    /// The remedy to show instead where the text was given by a flag.
    pub fn flag_help(mut self, text: impl Into<String>) -> Self {
        self.flag_help = Some(text.into());
        self
    }

    /// Marks the diagnostic as one of a missing part, with nothing else wrong.
    pub(super) fn lacks(mut self, missing: Missing) -> Self {
        self.missing = Some(missing);
        self
    }

    /// Turns the error into a warning.
    pub fn warning(mut self) -> Self {
        self.severity = Severity::Warning;
        self
    }
}

/// Proof that a diagnostic was recorded; carries no information of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reported;

/// Everything wrong with a configuration, with the texts to show it in.
#[derive(Clone, Debug)]
pub struct Diagnostics {
    /// The texts.
    pub sources: SourceMap,
    /// In the order found.
    pub list: Vec<Diagnostic>,
}
