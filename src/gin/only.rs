//! Types that read one value alone: parameters of other projects, of whose values one has a meaning here.

use num_traits::ToPrimitive;

use super::value::ValueKind;

/// Declares types that read one value each, and refuse the others with the reason.
///
/// ```
/// gimlet_gin::only! {
///     /// Projections without bias.
///     NoBias = gimlet_gin::ValueKind::Bool(false), "projections have no bias, as T5's";
/// }
/// ```
#[macro_export]
macro_rules! only {
    ($($(#[$doc:meta])* $name:ident = $value:expr, $reason:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name;

        impl $crate::FromGin for $name {
            fn expected() -> ::std::string::String {
                $value.to_string()
            }

            fn from_gin(
                value: &$crate::Value,
                cx: &mut $crate::Evaluator<'_>,
            ) -> ::core::result::Result<Self, $crate::Reported> {
                match $crate::is_same(&value.kind, &$value) {
                    true => Ok(Self),
                    false => Err(cx.unfit_because(value, &Self::expected(), $reason)),
                }
            }

            fn to_gin(&self) -> ::core::option::Option<$crate::ValueKind> {
                Some($value)
            }
        }
    )*};
}

/// Whether two values are equal, whatever their kind of number.
pub fn is_same(found: &ValueKind, expected: &ValueKind) -> bool {
    let number = |kind: &ValueKind| match kind {
        ValueKind::Int(number) => number.to_f64(),
        ValueKind::Float(number) => Some(*number),
        _ => None,
    };
    found == expected || number(found).is_some_and(|found| number(expected) == Some(found))
}
