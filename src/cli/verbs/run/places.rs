//! Where results go, and how an interrupted call is resumed there.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::planned::Planned;
use crate::failure::Failure;

/// Sets the result directories: `out`, or a new one named after scenario and time. Several scenarios get one below it each,
/// by their names, and by their folders too if names are equal. Returns the `--out` that leads to the same directories.
pub(super) fn name_places(out: Option<&Path>, planned: &mut [Planned]) -> PathBuf {
    let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let now = now.trim_end_matches('Z').replace(':', "-");
    let names: Vec<String> = planned.iter().map(|one| one.scenario.name.clone()).collect();
    let new = match &names[..] {
        [name] => format!("{name}-{now}"),
        _ => now,
    };
    let base = out.map_or_else(|| Path::new("runs").join(new), Path::to_owned);
    for one in planned {
        one.out.clone_from(&base);
        if names.len() > 1 {
            let name = &one.scenario.name;
            let is_shared = names.iter().filter(|other| *other == name).count() > 1;
            let folder = Path::new(&one.scenario.file).parent().and_then(Path::file_name).filter(|_| is_shared);
            one.out.extend(folder.into_iter().chain([name.as_ref()]));
        }
    }
    base
}

/// Adds how to resume the call, unless the failure has its own hint.
pub(super) fn resumable(error: anyhow::Error, base: &Path) -> anyhow::Error {
    let Some(failure) = error.downcast_ref::<Failure>().filter(|failure| failure.hint.is_none()) else {
        return error;
    };
    let failure = Failure { what: format!("{error:#}"), ..failure.clone() };
    failure.hint(format!("`tccc run` with `--out {}` resumes it", base.display())).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::plan::tests::TEXT;
    use crate::lab::plan::{Choices, Plan};
    use crate::lab::work::interrupted;
    use crate::scenario::Scenario;

    /// The base directory of these scenarios, and the directory of each.
    fn places(out: Option<&Path>, files: &[&str]) -> (PathBuf, Vec<PathBuf>) {
        let one = |file: &&str| {
            let scenario = Scenario::parse(file, TEXT).unwrap();
            let plan = Plan::new(&scenario, &Choices::default()).unwrap();
            Planned { out: PathBuf::new(), scenario, plan }
        };
        let mut planned: Vec<Planned> = files.iter().map(one).collect();
        let base = name_places(out, &mut planned);
        (base, planned.into_iter().map(|one| one.out).collect())
    }

    #[test]
    fn one_scenario_has_the_directory_and_several_one_below_it_each() {
        let below = |out: &str, files: &[&str]| places(Some(Path::new(out)), files).1;
        assert_eq!(below("x", &["p/a.toml"]), [Path::new("x")]);
        assert_eq!(below("x", &["p/a.toml", "q/b.toml"]), [Path::new("x/a"), Path::new("x/b")]);
        assert_eq!(below("x", &["p/a.toml", "q/a.toml"]), [Path::new("x/p/a"), Path::new("x/q/a")]);
        let (base, places) = places(None, &["p/a.toml"]);
        assert!(base.to_string_lossy().starts_with("runs/a-") && places == [base.clone()], "{base:?}: {places:?}");
    }

    /// For several scenarios, the hint used to name the directory of the interrupted one, below which a new call started.
    #[test]
    fn directory_that_an_interrupted_call_names_leads_to_the_same_places() {
        for files in [&["p/a.toml"][..], &["p/a.toml", "q/a.toml", "b.toml"]] {
            let (base, first) = places(None, files);
            assert_eq!(places(Some(&base), files).1, first);
            let said = resumable(interrupted(), &base);
            let hint = said.downcast_ref::<Failure>().unwrap().hint.clone();
            assert_eq!(hint, Some(format!("`tccc run` with `--out {}` resumes it", base.display())));
        }
    }

    #[test]
    fn failure_with_a_next_step_of_its_own_keeps_it() {
        let own = resumable(Failure::failed("full").hint("make room").into(), Path::new("x"));
        assert_eq!(own.downcast_ref::<Failure>(), Some(&Failure::failed("full").hint("make room")));
        assert_eq!(resumable(anyhow::anyhow!("broken"), Path::new("x")).to_string(), "broken");
    }
}
