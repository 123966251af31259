//! Reads TOML files written by people. Each field is declared once with [`fields!`](crate::fields), and all mistakes
//! are reported at once, each with its line and field.

mod declaration;
mod mistake;
mod syntax;
mod table;
pub mod text;
mod value;

pub use self::declaration::{FieldDeclaration, FieldEntry, Kind, Section, SharedFields, Unset, entries, find, key_of};
pub use self::mistake::{Found, MISTAKES_MAX, Mistake, Mistakes, Result, each};
pub use self::syntax::Document;
pub use self::table::{Source, Table, Version};
pub use self::value::{Apart, OneOrMore, Read, Switch, TWICE, Text, Unquoted, Value, Variables};
pub use crate::{fields, read_with};
pub use shared::sanitize::shown;
