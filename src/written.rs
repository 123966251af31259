//! TOML files that people write: read with lines, so that every mistake is reported at once with its line and field.

mod mistake;
mod reader;
mod syntax;
pub mod text;

pub use self::mistake::{MISTAKES_MAX, Mistake, Mistakes};
pub use self::reader::{Field, Reader, TWICE, TomlTable, given};
pub use crate::plain::shown;
