//! An enum of unit variants: a closed set of strings, `snake_case` unless renamed.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{DataEnum, DeriveInput, LitStr, Result, Variant};

pub fn derive(input: &DeriveInput, data: &DataEnum) -> Result<TokenStream> {
    let ident = &input.ident;
    let names: Vec<_> = data.variants.iter().map(|v| &v.ident).collect();
    let texts: Vec<String> = data.variants.iter().map(spelling).collect::<Result<_>>()?;
    Ok(quote! {
        impl #ident {
            /// The value as gin spells it.
            pub fn as_str(&self) -> &'static str {
                match self { #(Self::#names => #texts),* }
            }
        }
        impl ::gimlet_gin::FromGin for #ident {
            fn expected() -> ::std::string::String {
                ::gimlet_gin::one_of(&[#(#texts),*])
            }
            fn to_gin(&self) -> ::core::option::Option<::gimlet_gin::ValueKind> {
                Some(::gimlet_gin::ValueKind::Str(self.as_str().to_string()))
            }
            fn from_gin(
                value: &::gimlet_gin::Value,
                cx: &mut ::gimlet_gin::Evaluator<'_>,
            ) -> ::core::result::Result<Self, ::gimlet_gin::Reported> {
                match ::gimlet_gin::choose(value, &[#(#texts),*], cx)? {
                    #(#texts => ::core::result::Result::Ok(Self::#names),)*
                    _ => unreachable!("`choose` returns one of its options"),
                }
            }
        }
    })
}

/// `#[gin(name = "...")]` or the variant's name in snake case.
fn spelling(variant: &Variant) -> Result<String> {
    let mut renamed = None;
    for attribute in variant.attrs.iter().filter(|a| a.path().is_ident("gin")) {
        attribute.parse_nested_meta(|meta| {
            renamed = Some(meta.value()?.parse::<LitStr>()?.value());
            Ok(())
        })?;
    }
    Ok(renamed.unwrap_or_else(|| snake_case(&variant.ident.to_string())))
}

fn snake_case(name: &str) -> String {
    let mut out = String::new();
    for (i, c) in name.chars().enumerate() {
        if c.is_uppercase() && i > 0 {
            out.push('_');
        }
        out.extend(c.to_lowercase());
    }
    out
}
