//! The objects that ran, by the algorithms' own names.

use std::collections::BTreeMap;

use super::index::Index;

/// Algorithm, as the scenario writes it, to the digest of the object that ran.
///
/// `host.json` has the kernel's names: an algorithm whose own name is in use, or that runs with several settings, is
/// registered under one made of it, such as `bpf_vega_5814_0`. Which algorithm that is, the runs say: each flow has its
/// kernel name, and the scenario its algorithm. A name without a run is that of the same object under another.
///
/// Shape: one entry an algorithm; where its name stands for several objects, each further one with its kernel name.
pub fn digests(index: &Index<'_>) -> BTreeMap<String, String> {
    let recorded = &index.directory.host.algorithms;
    let own = own_names(index);
    let same_object = |digest: &String| own.iter().find(|(name, _)| recorded.get(**name) == Some(digest));
    let mut digests: BTreeMap<String, String> = BTreeMap::new();
    for (name, digest) in recorded {
        let known = own.get(name.as_str()).or_else(|| same_object(digest).map(|(_, own)| own));
        let own = known.map_or(name.as_str(), |own| own);
        let is_another = digests.get(own).is_some_and(|other| other != digest);
        let shown = if is_another { format!("{own} ({name})") } else { own.to_owned() };
        digests.insert(shown, digest.clone());
    }
    digests
}

/// The scenario's name of each algorithm that ran, by the kernel's.
fn own_names<'a>(index: &Index<'a>) -> BTreeMap<&'a str, &'a str> {
    let mut names = BTreeMap::new();
    for record in index.directory.runs.iter().map(|run| &run.record) {
        let Some(cell) = index.cell(&record.at) else { continue };
        for flow in &record.flows {
            let spec = cell.flows.iter().find(|spec| spec.name == flow.name);
            names.extend(spec.map(|spec| (flow.algorithm.as_str(), spec.algorithm.as_str())));
        }
    }
    names
}
