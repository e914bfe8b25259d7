//! `#[derive(Configurable)]`: makes a documented struct or enum available under a name in gin.
//!
//! On a struct, every field is a parameter; its doc comment and default become the schema.
//! On an enum of one-field variants, the variants are the configurables that may fill a slot.
//! On an enum of unit variants, the variants are the strings that a parameter may hold.
//!
//! ```text
//! #[derive(Configurable)]
//! #[gin(name = "t5x.adafactor.Adafactor", ignored(dtype_momentum = "momentum is always float32"))]
//! pub struct Adafactor {
//!     /// Exponent of the second-moment decay.
//!     #[gin(default = 0.8)]
//!     pub decay_rate: f64,
//! }
//! ```
//!
//! A field of type `Ref`, or a list of them, holds configurables that somebody calls after
//! configuration. `call` says how: in which scope, below the root or (`inherits`) below the scope of
//! the struct, and with which arguments. A field with `method` holds a configurable that the struct
//! runs by itself, always below its own scope.
//!
//! ```text
//! #[gin(call(scope = "encoder", supplies = ["mesh", "step"]))]
//! pub layers: Vec<Ref<Layer>>,
//! #[gin(method, call(scope = "encoder"))]
//! pub layer_stack: MakeLayerStack,
//! ```
//!
//! A field with `flatten` holds parameters that another configurable has too: that configurable itself, unless it has methods,
//! or a struct with `#[derive(Parameters)]`.
//!
//! ```text
//! #[gin(flatten)]
//! pub encoder: Encoder,
//! ```

mod attributes;
mod choice;
mod slot;
mod spec;

use proc_macro::TokenStream;
use syn::{Data, DeriveInput, Fields, parse_macro_input};

/// Derives the registry entry of a spec; see the crate documentation for the attributes.
#[proc_macro_derive(Configurable, attributes(gin))]
pub fn configurable(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    let expanded = match &input.data {
        Data::Struct(data) => spec::derive(&input, data),
        Data::Enum(data) if data.variants.iter().all(|v| matches!(v.fields, Fields::Unit)) => {
            choice::derive(&input, data)
        }
        Data::Enum(data) => slot::derive(&input, data),
        Data::Union(_) => {
            Err(syn::Error::new_spanned(&input, "a union cannot be configured from gin"))
        }
    };
    expanded.unwrap_or_else(|error| error.to_compile_error()).into()
}

/// Derives parameters that several specs share, in fields with `#[gin(flatten)]`.
#[proc_macro_derive(Parameters, attributes(gin))]
pub fn parameters(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    let expanded = match &input.data {
        Data::Struct(data) => spec::derive_parameters(&input, data),
        _ => Err(syn::Error::new_spanned(&input, "parameters are the fields of a struct")),
    };
    expanded.unwrap_or_else(|error| error.to_compile_error()).into()
}
