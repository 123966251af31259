//! An algorithm of the user's own, as a source file beside the scenario: `algorithm = "mine.bpf.c"`. Virtual time alone
//! compiles it; on a kernel its object is loaded by `tccc load`.

use std::collections::BTreeMap;

use crate::catalog::{NAME_LENGTH_MAX, nearest};
use crate::failure::Failure;

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

/// Checks that a source file has the tunables that a flow sets; their ranges the guest checks when it loads the module.
///
/// Errors: a tunable that the file does not declare.
pub fn check_tunables(file: &str, text: &str, set: &BTreeMap<String, String>) -> Result<(), Failure> {
    let known = tunables_of(text);
    let Some((name, _)) = set.iter().find(|(name, _)| !known.contains(&name.as_str())) else {
        return check_values(file, set);
    };
    let failure = Failure::usage(format!("unknown tunable \"{name}\" for \"{file}\""));
    Err(match (nearest(name, known.iter().copied()), known.is_empty()) {
        (Some(near), _) => failure.hint(format!("did you mean \"{near}\"?")),
        (None, true) => failure.hint("the file declares none with TUNABLE"),
        (None, false) => failure.hint(format!("it declares {}", known.join(", "))),
    })
}

/// Parameters of modules are whole numbers and truth values, and separated by blanks.
fn check_values(file: &str, set: &BTreeMap<String, String>) -> Result<(), Failure> {
    let is_number = |value: &str| value.parse::<i128>().is_ok() || ["true", "false"].contains(&value);
    match set.iter().find(|(_, value)| !is_number(value)) {
        None => Ok(()),
        Some((name, value)) => {
            let what = format!("tunable {name} = \"{value}\" for \"{file}\" is not a whole number");
            Err(Failure::usage(what).hint("give it in the unit of its TUNABLE"))
        }
    }
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
    }
}
