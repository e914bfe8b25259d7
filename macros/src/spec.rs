//! A struct: one configurable, or parameters that several share; one parameter per field.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::{DataStruct, DeriveInput, Error, Field, Fields, Result};

use crate::attributes::{CallAttributes, FieldAttributes, SpecAttributes, documentation};

pub fn derive(input: &DeriveInput, data: &DataStruct) -> Result<TokenStream> {
    let attributes = SpecAttributes::read(&input.attrs)?;
    let name = attributes
        .name
        .as_ref()
        .ok_or_else(|| Error::new_spanned(&input.ident, "add #[gin(name = \"module.Name\")]"))?;
    let ident = &input.ident;
    let doc = documentation(&input.attrs);
    let (aliases, open) = (&attributes.aliases, attributes.open);
    let parts = field_parts(input, data)?;
    let calls = parts.iter().filter_map(|part| part.call.as_ref());
    let parameters = parameters(ident, &parts, &attributes);
    Ok(quote! {
        #parameters
        impl ::gimlet_gin::Configurable for #ident {
            fn schema() -> &'static ::gimlet_gin::Schema {
                static SCHEMA: ::std::sync::LazyLock<::gimlet_gin::Schema> =
                    ::std::sync::LazyLock::new(|| ::gimlet_gin::Schema {
                        name: #name,
                        aliases: &[#(#aliases),*],
                        doc: #doc,
                        declared_in: ::core::module_path!(),
                        open: #open,
                        params: <#ident as ::gimlet_gin::Parameters>::params(),
                        calls: ::std::vec![#(#calls,)*],
                        ..::core::default::Default::default()
                    });
                &SCHEMA
            }
            fn evaluate(
                cx: &mut ::gimlet_gin::Evaluator<'_>,
            ) -> ::core::result::Result<Self, ::gimlet_gin::Reported> {
                ::gimlet_gin::Parameters::read(<Self as ::gimlet_gin::Configurable>::schema(), cx)
            }
        }
        impl ::gimlet_gin::Slot for #ident {
            fn schemas() -> ::std::vec::Vec<&'static ::gimlet_gin::Schema> {
                ::std::vec![<Self as ::gimlet_gin::Configurable>::schema()]
            }
            fn schema_of(&self) -> &'static ::gimlet_gin::Schema {
                <Self as ::gimlet_gin::Configurable>::schema()
            }
            fn evaluate_as(
                _: &'static ::gimlet_gin::Schema,
                cx: &mut ::gimlet_gin::Evaluator<'_>,
            ) -> ::core::result::Result<Self, ::gimlet_gin::Reported> {
                <Self as ::gimlet_gin::Configurable>::evaluate(cx)
            }
            fn register_slot(registry: &mut ::gimlet_gin::Registry) {
                if registry.add(<Self as ::gimlet_gin::Configurable>::schema()) {
                    <Self as ::gimlet_gin::Parameters>::register_parameters(registry);
                }
            }
        }
        ::gimlet_gin::read_slot!(#ident);
    })
}

/// Parameters that several configurables have.
pub fn derive_parameters(input: &DeriveInput, data: &DataStruct) -> Result<TokenStream> {
    let parts = field_parts(input, data)?;
    let attributes = SpecAttributes::read(&input.attrs)?;
    let is_named = attributes.name.is_some() || !attributes.aliases.is_empty() || attributes.open;
    if is_named || parts.iter().any(|part| part.call.is_some()) {
        let message = "parameters alone have no name, alias or method, and are not open";
        return Err(Error::new_spanned(&input.ident, message));
    }
    Ok(parameters(&input.ident, &parts, &attributes))
}

fn parameters(
    ident: &syn::Ident,
    parts: &[FieldParts],
    attributes: &SpecAttributes,
) -> TokenStream {
    let params = parts.iter().filter_map(|part| part.params.as_ref());
    let ignored = attributes.ignored.iter().map(|(param, reason)| {
        let param = param.to_string();
        quote! { params.push(::gimlet_gin::Param::ignored(#param, #reason)); }
    });
    let registrations = parts.iter().filter_map(|part| part.registration.as_ref());
    let reads = parts.iter().map(|part| &part.read);
    let names = parts.iter().map(|part| &part.ident);
    let has_methods = parts.iter().any(|part| part.call.is_some());
    quote! {
        impl ::gimlet_gin::Parameters for #ident {
            const HAS_METHODS: bool = #has_methods;
            fn params() -> ::std::vec::Vec<::gimlet_gin::Param> {
                #[allow(unused_mut, reason = "there may be none")]
                let mut params = ::std::vec::Vec::new();
                #(#params)*
                #(#ignored)*
                params
            }
            fn read(
                schema: &'static ::gimlet_gin::Schema,
                cx: &mut ::gimlet_gin::Evaluator<'_>,
            ) -> ::core::result::Result<Self, ::gimlet_gin::Reported> {
                #(#reads)*
                ::core::result::Result::Ok(Self { #(#names: #names?),* })
            }
            fn register_parameters(registry: &mut ::gimlet_gin::Registry) {
                #(#registrations)*
            }
        }
    }
}

fn field_parts(input: &DeriveInput, data: &DataStruct) -> Result<Vec<FieldParts>> {
    let fields: Vec<&Field> = match &data.fields {
        Fields::Named(named) => named.named.iter().collect(),
        Fields::Unit => Vec::new(),
        Fields::Unnamed(_) => {
            return Err(Error::new_spanned(&input.ident, "parameters need names"));
        }
    };
    let mut parts: Vec<FieldParts> = Vec::new();
    for field in fields {
        let num_calls = parts.iter().filter(|part| part.call.is_some()).count();
        parts.push(FieldParts::new(field, num_calls)?);
    }
    Ok(parts)
}

/// The generated code for one field.
struct FieldParts {
    ident: syn::Ident,
    /// Adds its entries to the schema's `params`; `None` for fields that are no parameter.
    params: Option<TokenStream>,
    registration: Option<TokenStream>,
    /// The entry that a method's field adds to the calls of its object.
    call: Option<TokenStream>,
    /// `let field = ...;`
    read: TokenStream,
}

impl FieldParts {
    /// Reads a field that comes after those of `num_calls` methods.
    fn new(field: &Field, num_calls: usize) -> Result<Self> {
        let attributes = FieldAttributes::read(&field.attrs)?;
        let ident = field.ident.clone().expect("fields are named");
        let ty = &field.ty;
        if attributes.scope {
            let read = quote! {
                let #ident: ::core::result::Result<#ty, ::gimlet_gin::Reported> =
                    ::core::result::Result::Ok(cx.scope_path());
            };
            return Ok(Self { ident, params: None, registration: None, call: None, read });
        }
        if attributes.method {
            let registration = quote! { <#ty as ::gimlet_gin::Slot>::register_slot(registry); };
            let read = quote! { let #ident = cx.own::<#ty>(&schema.calls[#num_calls]); };
            let site = call_site(&attributes.call.unwrap_or_default(), true);
            let call = quote! {
                ::gimlet_gin::Call {
                    target: <#ty as ::gimlet_gin::Configurable>::schema().name.to_string(),
                    site: #site,
                }
            };
            let registration = Some(registration);
            return Ok(Self { ident, params: None, registration, call: Some(call), read });
        }
        if attributes.flatten {
            let shared = quote! { <#ty as ::gimlet_gin::Parameters> };
            return Ok(Self {
                params: Some(quote! {
                    const { ::core::assert!(!#shared::HAS_METHODS, "what is flattened has no methods") };
                    params.extend(#shared::params());
                }),
                call: None,
                registration: Some(quote! { #shared::register_parameters(registry); }),
                read: quote! { let #ident = #shared::read(schema, cx); },
                ident,
            });
        }
        let name = ident.to_string();
        let doc = documentation(&field.attrs);
        // A limited number is read as such, and then a number like others.
        let (read_as, unwrap) = match &attributes.limit {
            Some(limit) => (
                quote! { ::gimlet_gin::Limited<#ty, ::gimlet_gin::#limit> },
                quote! { .map(::gimlet_gin::Limited::into_inner) },
            ),
            None => (quote! { #ty }, quote! {}),
        };
        let (declared, default) = match &attributes.default {
            Some(default) => {
                let text = default.to_token_stream().to_string();
                let make = match &attributes.limit {
                    Some(_) => quote! { || -> #read_as { ::gimlet_gin::Limited::new(#default) } },
                    None => quote! { || -> #read_as { #default } },
                };
                (quote! { Some((#text, #make)) }, quote! { Some(#make) })
            }
            None => (quote! { None }, quote! { None }),
        };
        let called = attributes.call.map(|call| {
            let site = call_site(&call, call.inherits);
            quote! { .called(#site) }
        });
        Ok(Self {
            params: Some(quote! {
                params.push(::gimlet_gin::Param::of::<#read_as>(#name, #doc, #declared) #called);
            }),
            call: None,
            registration: Some(quote! { <#ty as ::gimlet_gin::FromGin>::register(registry); }),
            read: quote! {
                let default: ::core::option::Option<fn() -> #read_as> = #default;
                let #ident = cx.param::<#read_as>(schema, #name, default)#unwrap;
            },
            ident,
        })
    }
}

/// The declared way of a call; one that inherits the scope of its consumer happens while that runs.
fn call_site(call: &CallAttributes, inherits: bool) -> TokenStream {
    let scope = call.scope.as_ref().map(syn::LitStr::value).unwrap_or_default();
    let enters = scope.split('/').filter(|part| !part.is_empty());
    let (supplies, later) = (&call.supplies, !inherits);
    quote! {
        ::gimlet_gin::CallSite {
            enters: ::std::vec![#(#enters.to_string()),*],
            supplies: ::std::vec![#(#supplies.to_string()),*],
            later: #later,
        }
    }
}
