//! What papers and drafts claim of their algorithms, beside the verdicts of RFC 9743's questions.

use anyhow::{Context, Result};

use super::{offenders, pages};
use crate::made::{self, GeneratedTable};

const TABLE: GeneratedTable =
    GeneratedTable { document: "scenarios/claims.md", command: "cargo xtask evaluate --tables --bless" };

/// Algorithm, claim, source, and the section of the criterion that is nearest.
const CLAIMS: [[&str; 4]; 17] = [
    ["dtcp", "delivers more under random loss", "table 4", "6.4"],
    ["dtcp", "uses a congested bottleneck as well as others", "table 3", "6.1"],
    ["msack", "keeps its window at random losses", "tables 1 and 2", "6.4"],
    ["msack", "delivers as much as SACK under congestion", "tables 3 and 4", "6.1"],
    ["dfr", "cuts its window less often under random loss", "Kothari and Dasgupta 2006", "6.4"],
    ["adaptive", "shares almost equally with Reno", "figure 10", "5.2.1"],
    ["adaptive", "keeps most throughput at longer round trips", "figures 2 to 5", "7.5"],
    ["swift", "finishes short transfers sooner on long paths", "Partridge and others 2002", "7.5"],
    ["cct_ss", "loses less in slow start", "thesis, U1", "5.1.3"],
    ["cct_lo", "shares more evenly", "thesis, U2", "5.1.4"],
    ["erfc", "leaves a Reno flow more than CUBIC does", "thesis, U5", "5.2.1"],
    ["cct", "loses less, shares more evenly and converges sooner", "thesis, U6", "5.1.4"],
    ["copa", "keeps the queue short", "Arun and Balakrishnan 2018", "5.1.2"],
    ["copa", "is fair beside flows that fill buffers", "Arun and Balakrishnan 2018", "5.2.1"],
    ["ledbatpp", "yields to all other traffic", "draft-irtf-iccrg-ledbat-plus-plus", "5.2.1"],
    ["bpf_bbr3", "loses and queues less where buffers are shallow", "draft-ietf-ccwg-bbr", "5.1.3"],
    ["bpf_cubic+hystart=2", "loses less at the start (HyStart++)", "RFC 9406", "5.1.3"],
];

/// Writes or compares the table.
pub fn settle(is_written: bool) -> Result<()> {
    let rows = CLAIMS.iter().map(|[algorithm, claim, source, section]| {
        let words = pages::words(algorithm).with_context(|| format!("read the page of {algorithm}"))?;
        let names = words.iter().map(|(name, _)| name).filter(|name| name.starts_with(&format!("{section}:")));
        let criteria = names.cloned().collect::<Vec<String>>().join("; ");
        let said = offenders::said(section, &words).join(", ");
        Ok(format!("[`{algorithm}`](evaluate/reports/{algorithm}.md) | {claim} | {source} | {criteria} | {said}"))
    });
    let rows = rows.collect::<Result<Vec<String>>>()?;
    TABLE.settle(&made::table("algorithm | claim | source | question of RFC 9743 | verdict", rows), is_written)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_in_the_tree_are_beside_the_verdicts_of_the_pages() {
        settle(false).unwrap();
    }
}
