//! Wrong files as changes of a right one; snapshots have each change with what is said of it.

/// The changes of a file, `mistakes/*.diff`, each with the wrong text that it makes.
///
/// A change is lines to take away, which begin with `-`, and lines to put there, which begin with `+`. A blank line stands
/// between two changes. Of equal lines the first are changed. Any other line, such as one with `#`, is a remark.
pub fn each<'c>(good: &str, changes: &'c str) -> impl Iterator<Item = (&'c str, String)> {
    changes.trim_end().split("\n\n").map(move |change| {
        let lines = |sign| change.lines().filter_map(move |line| line.strip_prefix(sign));
        let [removed, added] = ['-', '+'].map(|sign| lines(sign).map(|line| format!("{line}\n")).collect::<String>());
        let at = format!("\n{good}").find(&format!("\n{removed}"));
        let at = at.unwrap_or_else(|| panic!("the right file lacks:\n{removed}"));
        (change, [&good[..at], &added, &good[at + removed.len()..]].concat())
    })
}
