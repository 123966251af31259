//! An algorithm of the user's own, as a source file beside the scenario: `algorithm = "mine.bpf.c"`. Virtual time alone
//! compiles it; on a kernel its object is loaded by `tccc load`.

use std::collections::BTreeMap;

use crate::catalog::NAME_LENGTH_MAX;
use crate::failure::Failure;
use crate::nearest::nearest;

/// How the name of such a file ends.
const ENDING: &str = ".bpf.c";

/// Whether a flow's algorithm is a source file.
pub fn is_source(algorithm: &str) -> bool {
    algorithm.ends_with(ENDING)
}

/// The name under which a file's algorithm registers: the file's, without folder and ending.
///
/// Errors: the kernel does not take such a name; says what it takes.
pub fn id_of(file: &str) -> Result<&str, String> {
    let name = file.rsplit('/').next().unwrap_or_default().trim_end_matches(ENDING);
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if (1..=NAME_LENGTH_MAX).contains(&name.len()) && name.chars().all(is_plain) {
        return Ok(name);
    }
    Err(format!(
        "\"{file}\": expected a file named after its algorithm, of 1 to {NAME_LENGTH_MAX} lower-case letters, digits and \
         underscores, such as mine{ENDING}"
    ))
}

/// Checks that a source file has the tunables that a flow sets, and takes their values. Ranges that are no plain numbers
/// the guest checks when it loads the module.
///
/// Errors: a tunable that the file does not declare; a value that is no number, or outside the range.
pub fn check_tunables(file: &str, text: &str, set: &BTreeMap<String, String>) -> Result<(), Failure> {
    let known = tunables_of(text);
    let Some((name, _)) = set.iter().find(|(name, _)| !known.contains(&name.as_str())) else {
        return check_values(file, text, set);
    };
    let failure = Failure::usage(format!("unknown tunable \"{name}\" for \"{file}\""));
    Err(match (nearest(name, known.iter().copied()), known.is_empty()) {
        (Some(near), _) => failure.hint(format!("did you mean \"{near}\"?")),
        (None, true) => failure.hint("the file declares none with TUNABLE"),
        (None, false) => failure.hint(format!("it declares {}", known.join(", "))),
    })
}

/// Parameters of modules are whole numbers and truth values, and separated by blanks.
fn check_values(file: &str, text: &str, set: &BTreeMap<String, String>) -> Result<(), Failure> {
    for (name, value) in set {
        let Ok(number) = value.parse::<i128>() else {
            if ["true", "false"].contains(&value.as_str()) {
                continue;
            }
            let what = format!("tunable {name} = \"{value}\" for \"{file}\" is not a whole number");
            return Err(Failure::usage(what).hint("give it in the unit of its TUNABLE"));
        };
        if let Some((low, high)) = range_of(text, name).filter(|(low, high)| !(low..=high).contains(&&number)) {
            return Err(Failure::usage(format!("tunable {name} = {number} for \"{file}\" is outside {low}..{high}")));
        }
    }
    Ok(())
}

/// The range that a file declares for a tunable: the fourth and fifth arguments of its `TUNABLE`.
///
/// None: they are no plain numbers.
fn range_of(text: &str, name: &str) -> Option<(i128, i128)> {
    let declared = text.split("TUNABLE(").skip(1).map(|rest| rest.split(',').map(str::trim).collect::<Vec<_>>());
    let arguments = declared.into_iter().find(|arguments| arguments.get(1) == Some(&name))?;
    Some((arguments.get(3)?.parse().ok()?, arguments.get(4)?.parse().ok()?))
}

/// Names of the tunables: the second argument of every `TUNABLE`.
fn tunables_of(text: &str) -> Vec<&str> {
    let declared = text.split("TUNABLE(").skip(1);
    declared.filter_map(|rest| rest.split(',').nth(1)).map(str::trim).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_gives_its_name_to_the_algorithm() {
        assert_eq!(id_of("mine.bpf.c"), Ok("mine"));
        assert_eq!(id_of("below/my_2.bpf.c"), Ok("my_2"));
        for name in [".bpf.c", "My.bpf.c", "a b.bpf.c", "longer_than_fifteen.bpf.c"] {
            assert!(id_of(name).unwrap_err().contains("expected a file named after its algorithm"), "{name}");
        }
    }

    #[test]
    fn tunables_are_those_that_the_file_declares() {
        let text = "TUNABLE(u32, beta, 7, 1, 9, \"x\", \"why\");\nTUNABLE(bool, fast,\n\ttrue, …);";
        let set = |name: &str, value: &str| BTreeMap::from([(name.to_owned(), value.to_owned())]);
        assert!(check_tunables("m.bpf.c", text, &set("beta", "3")).is_ok());
        assert!(check_tunables("m.bpf.c", text, &set("fast", "false")).is_ok());
        let unknown = check_tunables("m.bpf.c", text, &set("betta", "3")).unwrap_err();
        assert_eq!(unknown.hint.as_deref(), Some("did you mean \"beta\"?"));
        assert!(check_tunables("m.bpf.c", text, &set("beta", "3 x=1")).is_err());
        assert!(check_tunables("m.bpf.c", "", &set("beta", "3")).is_err());
        for value in ["0", "10", "-1"] {
            let what = check_tunables("m.bpf.c", text, &set("beta", value)).unwrap_err().what;
            assert_eq!(what, format!("tunable beta = {value} for \"m.bpf.c\" is outside 1..9"));
        }
        assert!(check_tunables("m.bpf.c", "TUNABLE(u32, beta, 7, LOW, 9);", &set("beta", "0")).is_ok());
    }
}
