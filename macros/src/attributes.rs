//! Reads `#[gin(...)]` attributes and doc comments.

use syn::meta::ParseNestedMeta;
use syn::punctuated::Punctuated;
use syn::{Attribute, Error, Expr, ExprLit, Ident, Lit, LitStr, Result, Token, bracketed};

/// `#[gin(...)]` on a struct.
#[derive(Default)]
pub struct SpecAttributes {
    /// Full dotted name, as in T5X.
    pub name: Option<LitStr>,
    /// Other full names under which published files know it.
    pub aliases: Vec<LitStr>,
    /// Parameters that are accepted and have no effect here, with the reason.
    pub ignored: Vec<(Ident, LitStr)>,
    /// Bindings of a run also reach this configurable inside task files.
    pub open: bool,
}

impl SpecAttributes {
    pub fn read(attributes: &[Attribute]) -> Result<Self> {
        let mut out = Self::default();
        for attribute in attributes.iter().filter(|a| a.path().is_ident("gin")) {
            attribute.parse_nested_meta(|meta| {
                if meta.path.is_ident("name") {
                    out.name = Some(meta.value()?.parse()?);
                } else if meta.path.is_ident("alias") {
                    out.aliases.push(meta.value()?.parse()?);
                } else if meta.path.is_ident("open") {
                    out.open = true;
                } else if meta.path.is_ident("ignored") {
                    meta.parse_nested_meta(|entry| {
                        let name = entry.path.require_ident()?.clone();
                        out.ignored.push((name, entry.value()?.parse()?));
                        Ok(())
                    })?;
                } else {
                    return Err(meta.error("expected `name`, `alias`, `open` or `ignored`"));
                }
                Ok(())
            })?;
        }
        Ok(out)
    }
}

/// `#[gin(...)]` on a field.
#[derive(Default)]
pub struct FieldAttributes {
    /// The value when nothing is bound; without it the parameter is required.
    pub default: Option<Expr>,
    /// The field is a configurable that the spec runs by itself, such as a method of its object.
    pub method: bool,
    /// How the spec calls it, or a bare reference in the field.
    pub call: Option<CallAttributes>,
    /// The field holds the scope in which the spec was evaluated; it is no parameter.
    pub scope: bool,
    /// The numbers that the field takes: a `Limit` of `gimlet_gin`.
    pub limit: Option<Ident>,
    /// The field holds parameters of its own type, a `Parameters` of `gimlet_gin`.
    pub flatten: bool,
}

impl FieldAttributes {
    pub fn read(attributes: &[Attribute]) -> Result<Self> {
        let mut out = Self::default();
        for attribute in attributes.iter().filter(|a| a.path().is_ident("gin")) {
            attribute.parse_nested_meta(|meta| {
                if meta.path.is_ident("default") {
                    out.default = Some(match meta.value() {
                        Ok(value) => value.parse()?,
                        Err(_) => syn::parse_quote!(::core::default::Default::default()),
                    });
                } else if meta.path.is_ident("limit") {
                    out.limit = Some(meta.value()?.parse()?);
                } else if meta.path.is_ident("method") {
                    out.method = true;
                } else if meta.path.is_ident("scope") {
                    out.scope = true;
                } else if meta.path.is_ident("flatten") {
                    out.flatten = true;
                } else if meta.path.is_ident("call") {
                    out.call = Some(CallAttributes::read(&meta)?);
                } else {
                    return Err(meta.error(
                        "expected `default`, `limit`, `method`, `call`, `scope` or `flatten`",
                    ));
                }
                Ok(())
            })?;
            let is_more = out.default.is_some() || out.limit.is_some() || out.call.is_some();
            if out.flatten && (is_more || out.method || out.scope) {
                return Err(Error::new_spanned(attribute, "`flatten` stands alone"));
            }
        }
        Ok(out)
    }
}

/// `call(...)` in `#[gin(...)]` on a field.
#[derive(Default)]
pub struct CallAttributes {
    /// Scope that the caller enters: `a`, or `a/b`.
    pub scope: Option<LitStr>,
    /// Arguments that the caller supplies.
    pub supplies: Vec<LitStr>,
    /// The call happens while the spec's own function runs, within its scope.
    pub inherits: bool,
}

impl CallAttributes {
    fn read(meta: &ParseNestedMeta<'_>) -> Result<Self> {
        let mut out = Self::default();
        meta.parse_nested_meta(|entry| {
            if entry.path.is_ident("scope") {
                out.scope = Some(entry.value()?.parse()?);
            } else if entry.path.is_ident("supplies") {
                let value = entry.value()?;
                let names;
                bracketed!(names in value);
                let names = Punctuated::<LitStr, Token![,]>::parse_terminated(&names)?;
                out.supplies.extend(names);
            } else if entry.path.is_ident("inherits") {
                out.inherits = true;
            } else {
                return Err(entry.error("expected `scope`, `supplies` or `inherits`"));
            }
            Ok(())
        })?;
        Ok(out)
    }
}

/// The doc comment as one text, paragraphs kept.
pub fn documentation(attributes: &[Attribute]) -> String {
    let lines = attributes.iter().filter(|a| a.path().is_ident("doc")).filter_map(|a| {
        match &a.meta.require_name_value().ok()?.value {
            Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Some(text.value()),
            _ => None,
        }
    });
    let text: Vec<String> = lines.map(|line| line.trim().to_string()).collect();
    text.join("\n").trim().to_string()
}
