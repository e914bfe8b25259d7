//! An enum of one-field variants: a slot that any of several configurables may fill.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{DataEnum, DeriveInput, Error, Fields, Result};

pub fn derive(input: &DeriveInput, data: &DataEnum) -> Result<TokenStream> {
    let ident = &input.ident;
    let mut names = Vec::new();
    let mut types = Vec::new();
    for variant in &data.variants {
        let Fields::Unnamed(fields) = &variant.fields else {
            return Err(Error::new_spanned(variant, "a variant of a slot holds one spec"));
        };
        let [field] = fields.unnamed.iter().collect::<Vec<_>>()[..] else {
            return Err(Error::new_spanned(variant, "a variant of a slot holds one spec"));
        };
        names.push(&variant.ident);
        types.push(&field.ty);
    }
    Ok(quote! {
        impl ::gimlet_gin::Slot for #ident {
            fn schemas() -> ::std::vec::Vec<&'static ::gimlet_gin::Schema> {
                let mut out = ::std::vec::Vec::new();
                #(out.extend(<#types as ::gimlet_gin::Slot>::schemas());)*
                out
            }
            fn schema_of(&self) -> &'static ::gimlet_gin::Schema {
                match self { #(Self::#names(spec) => ::gimlet_gin::Slot::schema_of(spec)),* }
            }
            fn evaluate_as(
                schema: &'static ::gimlet_gin::Schema,
                cx: &mut ::gimlet_gin::Evaluator<'_>,
            ) -> ::core::result::Result<Self, ::gimlet_gin::Reported> {
                #(
                    if <#types as ::gimlet_gin::Slot>::schemas().iter().any(|s| s.name == schema.name) {
                        return <#types as ::gimlet_gin::Slot>::evaluate_as(schema, cx).map(Self::#names);
                    }
                )*
                unreachable!("`{}` does not fill this slot", schema.name)
            }
            fn register_slot(registry: &mut ::gimlet_gin::Registry) {
                #(<#types as ::gimlet_gin::Slot>::register_slot(registry);)*
            }
        }
        ::gimlet_gin::read_slot!(#ident);
    })
}
