//! The traits of types that gin can name or whose values it can write. The derive implements most.

use super::diagnostic::Reported;
use super::evaluate::Evaluator;
use super::schema::{Param, Registry, Schema};
use super::value::{Value, ValueKind};

/// A type that a gin value can become.
pub trait FromGin: Sized + 'static {
    /// Describes the expected value for error messages: `an int`, `a str or None`.
    fn expected() -> String;

    /// Reads a value that is neither a macro nor a call of a function; see [`Evaluator::read`].
    fn from_gin(value: &Value, cx: &mut Evaluator<'_>) -> Result<Self, Reported>;

    /// Adds the configurables that can be named inside such a value.
    fn register(_registry: &mut Registry) {}

    /// Returns what stands for an argument that the caller supplies when the run calls it; `None`
    /// if nothing can.
    fn supplied() -> Option<Self> {
        None
    }

    /// Returns the value as gin writes it; `None` for a value that only a reference can express.
    fn to_gin(&self) -> Option<ValueKind> {
        None
    }

    /// Whether the keys of such a value can be used as macros, as those of [`super::Rows`] can.
    fn declares_macros() -> bool {
        false
    }

    /// Whether such a value names a module, which is imported; see [`super::ModuleName`].
    fn names_module() -> bool {
        false
    }
}

/// A type that `@references` can stand for: a spec, or an enum of specs.
pub trait Slot: Sized + 'static {
    /// The configurables that fit.
    fn schemas() -> Vec<&'static Schema>;

    /// The one of them that this is.
    fn schema_of(&self) -> &'static Schema;

    /// Evaluates the one of them that was named, in the evaluator's current scope.
    fn evaluate_as(schema: &'static Schema, cx: &mut Evaluator<'_>) -> Result<Self, Reported>;

    /// Adds them, and all that their parameters can name, to the registry.
    fn register_slot(registry: &mut Registry);
}

/// A spec that gin can name. Implemented by `#[derive(Configurable)]`.
pub trait Configurable: Slot {
    /// Name, documentation and parameters.
    fn schema() -> &'static Schema;

    /// Reads every parameter in the evaluator's current scope.
    fn evaluate(cx: &mut Evaluator<'_>) -> Result<Self, Reported>;
}

/// The parameters of a configurable, or some that several have. Both derives implement it.
pub trait Parameters: Sized + 'static {
    /// Whether it has methods, whose places in the schema are those of one configurable.
    const HAS_METHODS: bool;

    /// Returns their entries in the schema of a configurable.
    fn params() -> Vec<Param>;

    /// Reads them as those of a configurable, in the evaluator's current scope.
    fn read(schema: &'static Schema, cx: &mut Evaluator<'_>) -> Result<Self, Reported>;

    /// Adds all that they can name to the registry.
    fn register_parameters(registry: &mut Registry);
}

/// A configurable that yields a plain value, such as a sum: `@sum_fn()`.
pub trait Function: Configurable {
    /// The value.
    ///
    /// # Errors
    /// Why there is none, in words.
    fn call(self) -> Result<ValueKind, String>;
}

/// `@models.EncoderDecoderModel()`, or `one of @a(), @b()`.
pub fn expected_slot<T: Slot>() -> String {
    let names: Vec<String> =
        T::schemas().iter().map(|schema| format!("@{}()", schema.short_name())).collect();
    match &names[..] {
        [one] => one.clone(),
        [] => "nothing".to_string(),
        many => format!("one of {}", many.join(", ")),
    }
}

/// `@write_inferences_to_file`, or `one of @a, @b`: the same for parameters that take the configurable itself.
pub fn expected_bare<T: Slot>() -> String {
    expected_slot::<T>().replace("()", "")
}
