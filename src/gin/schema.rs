//! The registry of names for gin, each declared once, on the spec's own type.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use super::configurable::{FromGin, Function};
use super::diagnostic::Reported;
use super::evaluate::Evaluator;
use super::modules::Modules;
use super::value::{Value, ValueKind};

/// One configurable: its name, documentation and parameters.
#[derive(Debug, Default)]
pub struct Schema {
    /// Full dotted name, as in T5X: `t5x.adafactor.Adafactor`.
    pub name: &'static str,
    /// Other full names under which published files know it.
    pub aliases: &'static [&'static str],
    /// The doc comment of the type.
    pub doc: &'static str,
    /// The Python module in which a decorator registers it, under which gin-config prints it;
    /// `None` if gin files register it by their imports, or if that is not known.
    pub module: Option<&'static str>,
    /// The Rust module that declares it, such as `gimlet::optim::optax::lion`; empty for another project's.
    pub declared_in: &'static str,
    /// Whether bindings of a run also reach this configurable inside task files.
    pub open: bool,
    /// The parameters in the order declared.
    pub params: Vec<Param>,
    /// Whether it takes any other argument too, as with Python's `**kwargs`.
    pub takes_any: bool,
    /// The only arguments that gin may bind; empty for all.
    pub allowed: Vec<String>,
    /// Arguments that gin may not bind.
    pub denied: Vec<String>,
    /// Configurables that it runs by itself, beside those in its parameters.
    pub calls: Vec<Call>,
}

/// A configurable that another one runs by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Full name of the called configurable.
    pub target: String,
    /// The way of the call.
    pub site: CallSite,
}

/// The way in which code calls a configurable that it was given.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct CallSite {
    /// Scopes that the caller enters before the call, outermost first.
    pub enters: Vec<String>,
    /// Arguments that the caller supplies; bindings of them have no effect.
    pub supplies: Vec<String>,
    /// Whether the call comes after configuration, when no scope is active but those it enters.
    pub later: bool,
}

impl CallSite {
    /// Returns the scope in which a bare reference with the scope `own` is run for `consumer`.
    pub(super) fn scope_of(&self, own: &[String], consumer: &[String]) -> Vec<String> {
        if own.is_empty() { self.scope_from(consumer) } else { own.to_vec() }
    }

    /// Returns the scope of the call by a consumer that runs in the scope `consumer`.
    pub fn scope_from(&self, consumer: &[String]) -> Vec<String> {
        let active = if self.later { &[] } else { consumer };
        active.iter().chain(&self.enters).cloned().collect()
    }

    /// A call after configuration, in no scope and with nothing supplied.
    pub const fn later() -> Self {
        Self { enters: Vec::new(), supplies: Vec::new(), later: true }
    }
}

impl Schema {
    /// The parameter of that name.
    pub fn param(&self, name: &str) -> Option<&Param> {
        self.params.iter().find(|param| param.name == name)
    }

    /// Whether two parameters have one name, as flattened ones may have with others.
    fn has_twins(&self) -> bool {
        let names: BTreeSet<_> = self.params.iter().map(|param| param.name).collect();
        names.len() < self.params.len()
    }

    /// Returns the reason why gin may not bind the argument, if it may not.
    pub fn refusal(&self, argument: &str) -> Option<String> {
        let name = self.short_name();
        let is = |known: &String| known == argument;
        if !self.takes_any && self.param(argument).is_none() {
            return Some(format!("`{name}` has no parameter `{argument}`"));
        }
        if !self.allowed.is_empty() && !self.allowed.iter().any(is) {
            return Some(format!("`{argument}` is not on the allowlist of `{name}`"));
        }
        let denied = self.denied.iter().any(is);
        denied.then(|| format!("`{argument}` is on the denylist of `{name}`"))
    }

    /// The last component of the name: `Adafactor`.
    pub fn short_name(&self) -> &'static str {
        self.name.rsplit('.').next().expect("split yields one part")
    }

    /// The name and its aliases.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.name).chain(self.aliases.iter().copied())
    }
}

/// The value of a parameter without a binding.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Fallback {
    /// A value must be bound, or the caller supplies it.
    #[default]
    Required,
    /// A value that gin can write.
    Value(ValueKind),
    /// Another value, as its own language writes it.
    Opaque(String),
}

impl std::fmt::Display for Fallback {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Required => f.write_str("required"),
            Self::Value(value) => value.fmt(f),
            Self::Opaque(text) => f.write_str(text),
        }
    }
}

/// A check that records type errors in a value.
type TypeCheck = fn(&Value, &mut Evaluator<'_>) -> Result<(), Reported>;

/// A default as its own language writes it, and the function that makes it.
type DefaultOf<T> = (&'static str, fn() -> T);

/// One parameter of a configurable.
#[derive(Debug, Default)]
pub struct Param {
    /// Its name.
    pub name: &'static str,
    /// The doc comment of the field; for an ignored parameter, why it has no effect here.
    pub doc: &'static str,
    /// The expected values: `an int`, `a str or None`.
    pub expected: String,
    /// The value without a binding.
    pub default: Fallback,
    /// Accepted for compatibility, without effect.
    pub ignored: bool,
    /// The way in which a bare reference bound to it is called; `None` if that is not known.
    pub call: Option<CallSite>,
    /// Whether the keys of its dicts can be used as macros.
    pub(super) declares_macros: bool,
    /// Whether its values are names of modules, which are imported.
    pub names_module: bool,
    /// Checks a value's type; `None` if any value is accepted.
    pub(super) check: Option<TypeCheck>,
}

impl Param {
    /// Makes the parameter for a field of type `T`, from its default as written and as made.
    pub fn of<T: FromGin>(
        name: &'static str,
        doc: &'static str,
        default: Option<DefaultOf<T>>,
    ) -> Self {
        let default = match default {
            None => Fallback::Required,
            Some((text, make)) => match make().to_gin() {
                // As in Python, a function that is a default is not the one that gin configures.
                Some(kind @ ValueKind::Reference(_)) => Fallback::Opaque(kind.to_string()),
                Some(kind) => Fallback::Value(kind),
                None => Fallback::Opaque(text.to_string()),
            },
        };
        let check: TypeCheck = |value, cx| cx.read::<T>(value).map(drop);
        Self {
            name,
            doc,
            expected: T::expected(),
            default,
            ignored: false,
            call: Some(CallSite::later()),
            declares_macros: T::declares_macros(),
            names_module: T::names_module(),
            check: Some(check),
        }
    }

    /// Declares the way in which bare references bound to the parameter are called.
    pub fn called(self, site: CallSite) -> Self {
        Self { call: Some(site), ..self }
    }

    /// A parameter that is accepted and has no effect here.
    pub fn ignored(name: &'static str, reason: &'static str) -> Self {
        Self {
            name,
            doc: reason,
            expected: "anything; it has no effect here".to_string(),
            default: Fallback::Value(ValueKind::None),
            ignored: true,
            ..Self::default()
        }
    }
}

/// Every configurable by full name and alias, and every constant.
#[derive(Clone)]
pub struct Registry {
    by_name: BTreeMap<&'static str, &'static Schema>,
    /// The same, by the name's components in reverse order, so that a suffix is a prefix.
    by_reversed: BTreeMap<String, &'static Schema>,
    functions: BTreeMap<&'static str, Run>,
    constants: BTreeMap<String, Option<ValueKind>>,
    /// Modules that may be imported beside those of the configurables.
    pub modules: Modules,
    /// Whether any other module may be imported as well.
    pub any_module: bool,
    /// Whether a name that extends another configurable's name is never a method.
    pub(super) without_methods: bool,
}

impl Default for Registry {
    /// Creates a registry with gin's own configurables.
    fn default() -> Self {
        let mut registry = Self {
            by_name: BTreeMap::new(),
            by_reversed: BTreeMap::new(),
            functions: BTreeMap::new(),
            constants: BTreeMap::from([(REQUIRED.to_string(), None)]),
            modules: Modules::default(),
            any_module: false,
            without_methods: false,
        };
        registry.add(&SINGLETON);
        registry
    }
}

/// The components of a dotted name in reverse order.
fn reversed(name: &str) -> String {
    let components: Vec<&str> = name.rsplit('.').collect();
    components.join(".")
}

/// The constant that marks a missing value.
pub const REQUIRED: &str = "gin.REQUIRED";

/// The functions that gin-config registers itself, which reserves their short names.
const GINS_OWN: [&str; 3] = ["gin.constant", "gin.macro", "gin.singleton"];

/// Returns the function of gin's own that a selector may mean.
pub(super) fn gins_own(selector: &str) -> Option<&'static str> {
    let fits =
        |own: &&&str| own.strip_suffix(selector).is_some_and(|rest| matches!(rest, "" | "gin."));
    GINS_OWN.iter().find(fits).copied()
}

/// The configurable behind `%gin.REQUIRED`, printed as that sign; it needs its module's import.
pub(super) static CONSTANT: LazyLock<Schema> = LazyLock::new(|| Schema {
    name: "gin.constant",
    aliases: &["gin.config.constant"],
    module: Some("gin.config"),
    ..Schema::default()
});

/// `@key/gin.singleton()`: one object for each key, made by its `constructor`.
static SINGLETON: LazyLock<Schema> = LazyLock::new(|| Schema {
    name: "gin.singleton",
    aliases: &["gin.config.singleton"],
    module: Some("gin.config"),
    doc: "The one object that belongs to the scope it is called in.",
    params: vec![Param {
        name: "constructor",
        doc: "Constructor of the object: a reference without parentheses.",
        expected: "a reference without parentheses".to_string(),
        call: Some(CallSite::default()),
        ..Param::default()
    }],
    ..Schema::default()
});

/// Evaluates a function configurable to its plain value.
type Run = fn(&mut Evaluator<'_>) -> Result<Result<ValueKind, String>, Reported>;

impl Registry {
    /// Creates an empty registry for another project, some of whose modules are not known.
    pub fn of_another_project() -> Self {
        Self { any_module: true, ..Self::default() }
    }

    /// Adds everything that can be reached from `T`.
    pub fn with<T: FromGin>(mut self) -> Self {
        T::register(&mut self);
        self.check_supplied();
        self
    }

    /// Panics if a declared call supplies an argument that nothing takes: its name is misspelled.
    fn check_supplied(&self) {
        for schema in self.iter() {
            for Call { target, site } in &schema.calls {
                let takes =
                    |name: &str| self.get(target).is_some_and(|it| it.param(name).is_some());
                for name in &site.supplies {
                    assert!(takes(name), "`{}` supplies `{name}` to `{target}`", schema.name);
                }
            }
            // The type of a parameter limits the configurables that may be bound; its schema does not
            // have them.
            let takes = |name: &str| self.iter().any(|it| it.param(name).is_some());
            for param in &schema.params {
                for name in param.call.iter().flat_map(|site| &site.supplies) {
                    assert!(takes(name), "`{}.{}` supplies `{name}`", schema.name, param.name);
                }
            }
        }
    }

    /// Replaces the modules that may be imported beside those of the configurables.
    pub fn with_modules(self, modules: Modules) -> Self {
        Self { modules, ..self }
    }

    /// Adds a configurable; `false` if it is known already. Two types of one name are a bug.
    pub fn add(&mut self, schema: &'static Schema) -> bool {
        for name in schema.names() {
            if let Some(known) = self.by_name.insert(name, schema) {
                assert!(std::ptr::eq(known, schema), "two configurables are named `{name}`");
                return false;
            }
            self.by_reversed.insert(reversed(name), schema);
        }
        // Programs make registries at their start, so this is left to the tests.
        debug_assert!(!schema.has_twins(), "`{}` has a parameter twice", schema.name);
        true
    }

    /// Returns configurables with a name that ends in `.selector`, each once, sorted by name.
    pub fn with_suffix(&self, selector: &str) -> Vec<&'static Schema> {
        let prefix = reversed(selector) + ".";
        let matching = self.by_reversed.range(prefix.clone()..);
        let mut found: Vec<&'static Schema> = matching
            .take_while(|(name, _)| name.starts_with(&prefix))
            .map(|(_, schema)| *schema)
            .collect();
        found.sort_by_key(|schema| schema.name);
        found.dedup_by_key(|schema| schema.name);
        // An alias counts if no name fits.
        let prefix = format!(".{selector}");
        let by_name = |schema: &&Schema| schema.name.ends_with(&prefix);
        if found.iter().any(by_name) {
            found.retain(by_name);
        }
        found
    }

    /// Returns what a selector means where no text has mentioned any configurable: those of yielding modules count if no
    /// others match.
    pub fn meant_by(&self, selector: &str) -> Vec<&'static Schema> {
        let mut found = self.with_suffix(selector);
        if !found.iter().all(|schema| self.yields(schema.name)) {
            found.retain(|schema| !self.yields(schema.name));
        }
        found
    }

    /// Whether a name lies in a yielding module.
    pub(super) fn yields(&self, name: &str) -> bool {
        self.modules.yielding.iter().any(|module| name.starts_with(module))
    }

    /// Adds a configurable that yields a plain value.
    pub fn with_function<T: Function>(mut self) -> Self {
        T::register_slot(&mut self);
        self.functions.insert(T::schema().name, |cx| T::evaluate(cx).map(T::call));
        self
    }

    /// Returns the function of that full name, if the name is that of a function.
    pub fn function(&self, name: &str) -> Option<(&'static Schema, Run)> {
        let schema = self.get(name)?;
        Some((schema, *self.functions.get(schema.name)?))
    }

    /// The configurable of that full name.
    pub fn get(&self, name: &str) -> Option<&'static Schema> {
        self.by_name.get(name).copied()
    }

    /// Adds a constant; without a value it can be named, but not used in computations.
    pub fn add_constant(&mut self, name: String, value: Option<ValueKind>) {
        self.constants.insert(name, value);
    }

    /// Returns full names of the constants that `name` is, or is a dotted suffix of.
    pub fn matching_constants(&self, name: &str) -> Vec<&str> {
        if let Some((exact, _)) = self.constants.get_key_value(name) {
            return vec![exact];
        }
        let ends =
            |known: &&String| known.strip_suffix(name).is_some_and(|rest| rest.ends_with('.'));
        self.constants.keys().filter(ends).map(String::as_str).collect()
    }

    /// The constant of that full name, and its value if that is known.
    pub fn constant(&self, name: &str) -> Option<Option<&ValueKind>> {
        self.constants.get(name).map(Option::as_ref)
    }

    /// Full names of the constants, sorted.
    pub fn constants(&self) -> impl Iterator<Item = &str> {
        self.constants.keys().map(String::as_str)
    }

    /// Whether the configurable is a method: its name is another one's, followed by one more
    /// component.
    pub fn is_method(&self, schema: &Schema) -> bool {
        let class = schema.name.rsplit_once('.').map(|(class, _)| class);
        !self.without_methods && class.is_some_and(|class| self.get(class).is_some())
    }

    /// Returns the module of a configurable; for a method, that of its class.
    pub fn module_of(&self, schema: &Schema) -> &'static str {
        let components = if self.is_method(schema) { 2 } else { 1 };
        let dot = schema.name.rmatch_indices('.').nth(components - 1);
        &schema.name[..dot.map_or(0, |(at, _)| at)]
    }

    /// The shortest suffix of the full name that means this configurable alone; `Class.method` at
    /// least for a method.
    pub fn minimal_selector(&self, schema: &'static Schema) -> &'static str {
        let name = schema.name;
        let dots = name.rmatch_indices('.').skip(usize::from(self.is_method(schema)));
        let suffixes = dots.map(|(at, _)| &name[at + 1..]);
        let means_it = |suffix: &&str| match self.get(suffix) {
            _ if gins_own(suffix).is_some_and(|own| own != name) => false,
            Some(exact) => exact.name == name,
            None => self.meant_by(suffix).iter().all(|other| other.name == name),
        };
        suffixes.into_iter().find(means_it).unwrap_or(name)
    }

    /// Every configurable once, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = &'static Schema> + '_ {
        self.by_name
            .iter()
            .filter(|(name, schema)| **name == schema.name)
            .map(|(_, schema)| *schema)
    }

    /// Every full name and alias, sorted.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.by_name.keys().copied()
    }
}
