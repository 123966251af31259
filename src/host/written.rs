//! Reads TOML files written by people, and reports all mistakes at once, each with its line and field.

mod mistake;
mod reader;
mod syntax;
pub mod text;

pub use self::mistake::{MISTAKES_MAX, Mistake, Mistakes};
pub use self::reader::{Field, Reader, TWICE, TomlTable, given, line_at, line_starts};
pub use shared::plain::shown;
