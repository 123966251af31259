//! Reports in each of their forms.

pub mod csv;
pub mod html;
pub mod json;
pub mod markdown;
mod svg;
pub mod text;

/// A sentence with its full stop.
fn stopped(sentence: &str) -> String {
    if sentence.ends_with('.') { sentence.to_owned() } else { format!("{sentence}.") }
}

/// The word with a capital.
fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect()
}
