//! The attributes and names of the parts of a syntax tree.

use syn::parse::Parser as _;
use syn::{Expr, ImplItem, Item, Stmt, TraitItem};

pub(crate) fn of_item(item: &Item) -> &[syn::Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::ExternCrate(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::ForeignMod(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::TraitAlias(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

pub(crate) fn of_impl_item(item: &ImplItem) -> &[syn::Attribute] {
    match item {
        ImplItem::Const(item) => &item.attrs,
        ImplItem::Fn(item) => &item.attrs,
        ImplItem::Type(item) => &item.attrs,
        ImplItem::Macro(item) => &item.attrs,
        _ => &[],
    }
}

pub(super) fn of_trait_item(item: &TraitItem) -> &[syn::Attribute] {
    match item {
        TraitItem::Const(item) => &item.attrs,
        TraitItem::Fn(item) => &item.attrs,
        TraitItem::Type(item) => &item.attrs,
        TraitItem::Macro(item) => &item.attrs,
        _ => &[],
    }
}

pub(super) fn of_statement(statement: &Stmt) -> &[syn::Attribute] {
    match statement {
        Stmt::Local(local) => &local.attrs,
        Stmt::Macro(call) => &call.attrs,
        Stmt::Expr(expression, _) => of_expression(expression),
        Stmt::Item(_) => &[],
    }
}

fn of_expression(expression: &Expr) -> &[syn::Attribute] {
    match expression {
        Expr::Assign(e) => &e.attrs,
        Expr::Block(e) => &e.attrs,
        Expr::Call(e) => &e.attrs,
        Expr::ForLoop(e) => &e.attrs,
        Expr::If(e) => &e.attrs,
        Expr::Macro(e) => &e.attrs,
        Expr::Match(e) => &e.attrs,
        Expr::MethodCall(e) => &e.attrs,
        Expr::Return(e) => &e.attrs,
        Expr::Unsafe(e) => &e.attrs,
        _ => &[],
    }
}

/// The name that an item gives to its module, if it gives one.
pub(crate) fn name_of(item: &Item) -> Option<(&syn::Ident, &syn::Visibility)> {
    Some(match item {
        Item::Const(item) => (&item.ident, &item.vis),
        Item::Enum(item) => (&item.ident, &item.vis),
        Item::Fn(item) => (&item.sig.ident, &item.vis),
        Item::Static(item) => (&item.ident, &item.vis),
        Item::Struct(item) => (&item.ident, &item.vis),
        Item::Trait(item) => (&item.ident, &item.vis),
        Item::TraitAlias(item) => (&item.ident, &item.vis),
        Item::Type(item) => (&item.ident, &item.vis),
        Item::Union(item) => (&item.ident, &item.vis),
        _ => return None,
    })
}

/// The files that `#[path = ".."]` names, and `#[cfg_attr(.., path = "..")]` with any condition.
pub(super) fn paths(attributes: &[syn::Attribute]) -> Vec<String> {
    attributes
        .iter()
        .filter_map(|attribute| {
            if attribute.path().is_ident("path") {
                return value(&attribute.meta);
            }
            let list = attribute.meta.require_list().ok()?;
            if !list.path.is_ident("cfg_attr") {
                return None;
            }
            let parts = syn::punctuated::Punctuated::<syn::Meta, syn::Token![,]>::parse_terminated
                .parse2(list.tokens.clone())
                .ok()?;
            parts
                .iter()
                .skip(1)
                .filter(|part| part.path().is_ident("path"))
                .find_map(value)
        })
        .collect()
}

/// True if the module is never in the file of its name.
pub(super) fn always_elsewhere(attributes: &[syn::Attribute]) -> bool {
    attributes
        .iter()
        .any(|attribute| attribute.path().is_ident("path"))
}

fn value(meta: &syn::Meta) -> Option<String> {
    match &meta.require_name_value().ok()?.value {
        Expr::Lit(literal) => match &literal.lit {
            syn::Lit::Str(text) => Some(text.value()),
            _ => None,
        },
        _ => None,
    }
}
