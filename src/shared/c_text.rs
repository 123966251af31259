//! Names in structs that Rust shares with C: characters that end with a zero, or at the end of their field.

use zerocopy::IntoBytes;

/// Pads a name with zeros. Cuts what does not fit.
pub fn padded<const N: usize>(name: &str) -> [i8; N] {
    let mut chars = [0; N];
    let length = name.len().min(N);
    chars.as_mut_bytes()[..length].copy_from_slice(&name.as_bytes()[..length]);
    chars
}

/// Reads the name, with replacements for bytes that are no text.
pub fn text(chars: &[i8]) -> String {
    let name = chars.as_bytes().split(|&byte| byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(name).into_owned()
}
