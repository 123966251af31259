//! Snapshots that also hold their cases: a test reads them from its snapshot, and compares the results with it.

/// The text of a snapshot below its header.
pub fn recorded(snapshot: &str) -> &str {
    snapshot.splitn(3, "---\n").nth(2).expect("a snapshot with a header").trim_end()
}

/// The cases of a snapshot, which a blank line separates. `number` of them are expected, so none is lost unnoticed.
pub fn cases(snapshot: &str, number: usize) -> Vec<&str> {
    let cases: Vec<&str> = recorded(snapshot).split("\n\n").collect();
    assert_eq!(cases.len(), number, "cases of the snapshot");
    cases
}

/// The changes of a valid file in a snapshot, each with the wrong text that it gives.
///
/// A change consists of removed lines, which begin with `-`, and added lines, which begin with `+`. It applies to the
/// first match. Lines with `#` are remarks. The message about the wrong text follows.
pub fn each<'s>(good: &str, snapshot: &'s str, number: usize) -> impl Iterator<Item = (&'s str, String)> {
    cases(snapshot, number).into_iter().map(move |case| {
        let is_message = |line: &&str| !line.starts_with(['-', '+', '#']);
        let change = case.lines().find(is_message).and_then(|message| case.split_once(message)).map_or(case, |it| it.0);
        let lines = |sign| change.lines().filter_map(move |line| line.strip_prefix(sign));
        let [removed, added] = ['-', '+'].map(|sign| lines(sign).map(|line| format!("{line}\n")).collect::<String>());
        let at = format!("\n{good}").find(&format!("\n{removed}"));
        let at = at.unwrap_or_else(|| panic!("the valid file lacks:\n{removed}"));
        (change, [&good[..at], &added, &good[at + removed.len()..]].concat())
    })
}
