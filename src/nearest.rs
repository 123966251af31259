//! The known word that a mistyped one most likely means.
//!
//! Layer 0: no I/O.

/// Longer words are not compared: nobody mistypes a field into a line of text.
const COMPARED_CHARS: usize = 64;

/// The candidate nearest to a word that is not one of them; none when all are far from it.
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
        let near = |given: &str| nearest(given, ["local_port", "remote_port", "to", "use", "split"]);
        assert_eq!(near("lokal_port"), Some("local_port"));
        assert_eq!(near("local-port"), Some("local_port"));
        assert_eq!(near("remoteport"), Some("remote_port"));
        assert_eq!(near("splti"), Some("split"));
        assert_eq!(near("Use"), Some("use"));
        assert_eq!(near("algorithm"), None);
        assert_eq!(near(&"to".repeat(1 << 20)), None);
        let near = |name| nearest(name, ["cubic", "dtcp", "vegas"]);
        assert_eq!(near("cubix"), Some("cubic"));
        assert_eq!(near("dctcp"), Some("dtcp"));
        assert_eq!(near("dtpc"), Some("dtcp"));
        assert_eq!(near("reno"), None);
        assert_eq!(near(""), None);
    }
}
