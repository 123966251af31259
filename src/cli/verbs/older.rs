//! Open connections that are older than the rules of the policy, for `tccc status` and `tccc policy show`.

use std::collections::BTreeMap;
use std::io::{self, Write};

use host::policy::change;
use host::policy::record::GenerationRecord;
use shared::sanitize::count;

/// By rule. `None` if they cannot be counted, for example without root.
pub type Older = Option<BTreeMap<String, u64>>;

pub fn of(generation: &GenerationRecord) -> Older {
    let counts = change::count_older(generation).ok()?;
    let rules = generation.policy.rules.iter().map(|rule| rule.name.clone());
    Some(rules.zip(counts).collect())
}

/// Without a line for a rule that has none. A service with long connections looks unused otherwise.
pub fn write(out: &mut impl Write, older: &Older) -> io::Result<()> {
    for (rule, number) in older.iter().flatten().filter(|(_, number)| **number > 0) {
        let connections = count(*number as usize, "open connection");
        let verbs = if *number == 1 {
            "is older than this policy and keeps its"
        } else {
            "are older than this policy and keep their"
        };
        writeln!(
            out,
            "rule \"{rule}\": {connections} {verbs} algorithm; `tccc policy apply --live` moves open connections"
        )?;
    }
    Ok(())
}
