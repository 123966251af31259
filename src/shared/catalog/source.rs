//! The embedded C sources of the algorithms, and a digest of their code.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use sha2::{Digest, Sha256};

/// Path below `bpf` and text of every source that an algorithm or a module of the guest may need.
pub static SOURCES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/sources.rs"));
/// The header that every algorithm includes. Virtual time replaces it.
const COMMON: &str = "tccc.bpf.h";
/// A digest is cut to this many bytes.
const DIGEST_BYTES: usize = 8;

/// Digest of an algorithm's file and of the headers that it includes at any depth, except the common one.
///
/// Comments, whitespace and the content of strings do not change the digest.
///
/// None: the algorithm is not embedded.
pub fn code_digest(id: &str) -> Option<String> {
    let mut files = BTreeSet::new();
    collect(&format!("cc/{id}.bpf.c"), &mut files)?;
    let texts = files.iter().filter_map(|file| text_of(file));
    let digest = texts.fold(Sha256::new(), |digest, text| digest.chain_update(code(text)).chain_update([0]));
    Some(hex::encode(&digest.finalize()[..DIGEST_BYTES]))
}

/// Digest of the code that makes links, traffic and traces in virtual time.
///
/// It changes as little as [`code_digest`].
pub fn laboratory_digest() -> &'static str {
    static DIGEST: LazyLock<String> = LazyLock::new(|| {
        let is_of_laboratory = |file: &str| {
            let header = file.strip_prefix("include/");
            header.map_or(!file.starts_with("cc/"), |name| name.starts_with("trace"))
        };
        let files: BTreeSet<_> = SOURCES.iter().filter(|(file, _)| is_of_laboratory(file)).collect();
        let digest = files.into_iter().fold(Sha256::new(), |digest, (file, text)| {
            digest.chain_update(file).chain_update([0]).chain_update(code(text)).chain_update([0])
        });
        hex::encode(&digest.finalize()[..DIGEST_BYTES])
    });
    &DIGEST
}

fn text_of(file: &str) -> Option<&'static str> {
    SOURCES.iter().find(|(path, _)| *path == file).map(|(_, text)| *text)
}

/// Adds a file and its includes. None: the file is not among the sources.
fn collect(file: &str, files: &mut BTreeSet<String>) -> Option<()> {
    let text = text_of(file)?;
    if files.insert(file.to_owned()) {
        let quoted = |line: &str| Some(line.strip_prefix("#include \"")?.split('"').next()?.to_owned());
        for name in text.lines().filter_map(quoted).filter(|name| name != COMMON) {
            collect(&format!("include/{name}"), files);
        }
    }
    Some(())
}

/// C without comments, whitespace and the content of strings.
fn code(text: &str) -> String {
    let mut code = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let skipped = match first {
            '/' if rest.starts_with("/*") => rest[2..].find("*/").map_or(rest.len(), |end| end + 4),
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '"' | '\'' => literal_length(rest, first),
            _ => 0,
        };
        if skipped == 0 && !first.is_whitespace() {
            code.push(first);
        }
        rest = &rest[skipped.max(first.len_utf8())..];
    }
    code
}

/// Length in bytes of the string or character at the beginning of the text, which ends at the next `quote`.
fn literal_length(text: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (at, character) in text.char_indices().skip(1) {
        match character {
            _ if character == quote && !is_escaped => return at + 1,
            _ => is_escaped = character == '\\' && !is_escaped,
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_blanks_and_strings_are_no_code() {
        let one = "/* reduce */\nint a = 1; // half\nT(u32, g, 8, \"1/8 \\\" of it\");\n";
        let other = "int a=1;\n\n\tT(u32, g, 8,\n\t  \"an eighth\");";
        assert_eq!(code(one), code(other));
        assert_ne!(code(one), code(&one.replace('8', "9")));
        assert_eq!(code("a / b /* open"), "a/b");
        let quote = r#"x = '"'; y = 1; z = '\''; s = "t";"#;
        assert_ne!(code(quote), code(&quote.replace('1', "2")), "code after a quote between apostrophes");
    }

    #[test]
    fn digest_changes_with_a_header_of_the_family_and_not_with_another() {
        let files = |id: &str| {
            let mut files = BTreeSet::new();
            collect(&format!("cc/{id}.bpf.c"), &mut files).unwrap();
            files
        };
        assert!(files("msack").contains("include/dfr.bpf.h"));
        assert!(!files("dtcp").contains("include/dfr.bpf.h") && !files("dtcp").contains("include/tccc.bpf.h"));
        assert_eq!(code_digest("dtcp").map(|digest| digest.len()), Some(16));
        assert_eq!(code_digest("none"), None);
    }
}
