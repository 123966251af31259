//! Checks the comment at the top of an algorithm's file: one sentence, then headings in a fixed order.
//!
//! `cargo xtask tidy` applies this check to the files of `bpf/cc`.

/// The headings; `Patents` may follow.
pub const HEADINGS: [&str; 7] = ["Source", "Idea", "Equations", "Units", "Life", "Differs", "Kernel"];

/// Faults of a header, each with its line, from 1.
pub fn faults(text: &str) -> Vec<(usize, String)> {
    let header = lines(text);
    let mut faults = first_sentence(&header);
    let mut after = 0;
    for heading in HEADINGS {
        let Some(at) = header.iter().position(|line| *line == heading) else {
            faults.push((1, format!("the header has no heading `{heading}`")));
            continue;
        };
        if at < after {
            faults.push((at + 2, format!("the heading `{heading}` is not in the order {HEADINGS:?}")));
        }
        after = at;
        faults.extend(section_fault(heading, &header[at + 1..]).map(|text| (at + 2, text)));
    }
    faults
}

/// The lines of the comment that starts on the second line, without its decoration.
fn lines(text: &str) -> Vec<&str> {
    let comment = text.lines().skip(1).take_while(|line| line.starts_with("/*") || line.starts_with(" *"));
    comment.take_while(|line| line.trim() != "*/").map(|line| line.trim_start_matches(['/', ' ', '*']).trim()).collect()
}

fn first_sentence(header: &[&str]) -> Vec<(usize, String)> {
    match header.iter().find(|line| !line.is_empty()) {
        Some(sentence) if sentence.ends_with('.') && !sentence.trim_end_matches('.').contains(". ") => Vec::new(),
        _ => vec![(2, "the header does not begin with one sentence on one line".into())],
    }
}

/// The fault of the section that `lines` start with.
fn section_fault(heading: &str, lines: &[&str]) -> Option<String> {
    let mut lines = lines.iter().take_while(|line| !HEADINGS.contains(line));
    let Some(first) = lines.find(|line| !line.is_empty()) else {
        return Some(format!("the heading `{heading}` is empty"));
    };
    let is_numbered = first.starts_with("1. ") || first.to_lowercase().starts_with("none");
    (heading == "Differs" && !is_numbered).then(|| "`Differs` is neither numbered from 1 nor \"none\"".into())
}
