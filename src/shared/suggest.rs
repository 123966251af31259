//! Suggests the known word that a mistyped one most likely means.
//!
//! Layer 0: no I/O.

/// Longer words are not compared, because they are not mistyped names.
const COMPARED_CHARS: usize = 64;

/// `None` if all candidates differ in more than a third of the word's characters.
pub fn nearest<'a>(given: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let given = given.trim().to_lowercase();
    let length = given.chars().count();
    if length > COMPARED_CHARS {
        return None;
    }
    let distances = candidates.into_iter().map(|candidate| (strsim::osa_distance(&given, candidate), candidate));
    let (distance, candidate) = distances.min()?;
    (distance <= (length / 3).max(1)).then_some(candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_word_is_suggested_only_when_near() {
        let fields = ["local_port", "remote_port", "to", "use", "split", "cubic", "dtcp", "vegas"];
        let long = "to".repeat(1 << 20);
        for (given, expected) in [
            ("lokal_port", Some("local_port")),
            ("local-port", Some("local_port")),
            ("remoteport", Some("remote_port")),
            ("splti", Some("split")),
            ("Use", Some("use")),
            ("cubix", Some("cubic")),
            ("dctcp", Some("dtcp")),
            ("dtpc", Some("dtcp")),
            ("algorithm", None),
            ("reno", None),
            ("", None),
            (&long, None),
        ] {
            assert_eq!(nearest(given, fields), expected);
        }
    }
}
