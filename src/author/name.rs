//! Checks the names that users give their own algorithms.

use super::compile::FOR_AUTHORS;
use shared::catalog::source::SOURCES;
use shared::catalog::{self, NAME_LENGTH_MAX};
use shared::failure::Failure;
use shared::kernel::congestion;

/// The ops table to which the kernel's `dctcp` falls back without ECN.
const BESIDE_DCTCP: &str = "dctcp_reno";
const C_KEYWORDS: [&str; 37] = [
    "auto", "bool", "break", "case", "char", "const", "continue", "default", "do", "double", "else", "enum", "extern",
    "false", "float", "for", "goto", "if", "inline", "int", "long", "main", "register", "restrict", "return", "short",
    "signed", "sizeof", "static", "struct", "switch", "true", "typedef", "union", "unsigned", "void", "while",
];

/// Checks that the kernel, the file system and C can all use the name of a new algorithm.
///
/// # Errors
/// The name is malformed, too long, or taken.
pub fn check_new(name: &str) -> Result<(), Failure> {
    let refuse = |why: &str| Failure::usage(format!("the name \"{}\" {why}", name.escape_debug()));
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if !name.starts_with(|c: char| c.is_ascii_lowercase()) || !name.chars().all(allowed) {
        return Err(refuse("is not valid: expected lower-case letters, digits and _, with a letter first"));
    }
    if name.len() > NAME_LENGTH_MAX {
        return Err(refuse(&format!("has {} characters: at most {NAME_LENGTH_MAX}", name.len())));
    }
    if C_KEYWORDS.contains(&name) {
        return Err(refuse("is a keyword of C").hint("the ops table in the C file has this name"));
    }
    if is_of_the_kernel(name) {
        return Err(refuse("is one of the kernel's own algorithms").hint(format!("try my_{name}")));
    }
    if catalog::all().iter().any(|algorithm| algorithm.id == name) {
        return Err(refuse("is an algorithm that tccc carries").hint(format!("`tccc show {name}` shows it")));
    }
    if is_in_headers(name) {
        return Err(refuse("is a name of the headers that an algorithm includes").hint(format!("try my_{name}")));
    }
    Ok(())
}

/// Whether Linux has a congestion control of this name, as a module or built in.
pub fn is_of_the_kernel(name: &str) -> bool {
    congestion::OF_LINUX.contains(&name) || name == BESIDE_DCTCP
}

/// Whether a header uses this name outside its comments.
fn is_in_headers(name: &str) -> bool {
    let headers = SOURCES.iter().filter(|(file, _)| file.starts_with("include/")).chain(FOR_AUTHORS);
    let mut headers = headers.filter(|(file, _)| file.ends_with(".h"));
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    headers.any(|(_, text)| without_comments(text).split(|c| !is_part(c)).any(|word| word == name))
}

fn without_comments(text: &str) -> String {
    let mut parts = text.split("/*");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.filter_map(|part| part.split_once("*/")).fold(first, |code, (_, rest)| code + " " + rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_cannot_be_are_refused_by_reason() {
        let check = |name: &str, why: &str| {
            let what = check_new(name).unwrap_err().what;
            assert!(what.contains(why), "{what}");
        };
        check("", "expected lower-case letters");
        check("9lives", "with a letter first");
        check("_mine", "with a letter first");
        check("Mine", "expected lower-case letters");
        check("mi-ne", "expected lower-case letters");
        check("../mine", "expected lower-case letters");
        check("mine\n", "the name \"mine\\n\" is not valid");
        check("sixteen__letters", "has 16 characters: at most 15");
        check("default", "is a keyword of C");
        check("cubic", "is one of the kernel's own algorithms");
        check("yeah", "is one of the kernel's own algorithms");
        check("dtcp", "is an algorithm that tccc carries");
        check("sock", "is a name of the headers");
        check("before", "is a name of the headers");
        assert_eq!(check_new("fifteen_letters"), Ok(()));
    }
}
