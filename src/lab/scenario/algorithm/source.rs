//! A user's algorithm, as a source file beside the scenario: `algorithm = "mine.bpf.c"`. Only virtual time compiles
//! it; on a real kernel, `tccc load` loads its object.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use shared::catalog::NAME_LENGTH_MAX;
use shared::failure::Failure;
use shared::suggest::nearest;

const ENDING: &str = ".bpf.c";

pub fn is_source(algorithm: &str) -> bool {
    algorithm.ends_with(ENDING)
}

/// The name under which a file's algorithm registers: the name of the file without folder and ending.
///
/// # Errors
/// The kernel does not accept the name.
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

/// Checks the tunables that a flow sets against those of a source file. Ranges that are not plain numbers are checked
/// when the guest loads the module.
///
/// # Errors
/// A tunable that the file does not declare; a value that is not a number, or out of range.
pub fn check_tunables(file: &str, text: &str, set: &BTreeMap<String, String>) -> Result<(), Failure> {
    let tunables = tunables_of(text);
    for (name, value) in set {
        let Some((_, range)) = tunables.iter().find(|(known, _)| known == name) else {
            let known: Vec<&str> = tunables.iter().map(|(known, _)| *known).collect();
            let failure = Failure::usage(format!("unknown tunable \"{name}\" for \"{file}\""));
            return Err(match (nearest(name, known.iter().copied()), known.is_empty()) {
                (Some(near), _) => failure.hint(format!("did you mean \"{near}\"?")),
                (None, true) => failure.hint("the file declares none with TUNABLE"),
                (None, false) => failure.hint(format!("it declares {}", known.join(", "))),
            });
        };
        check_value(file, name, value, range.as_ref())?;
    }
    Ok(())
}

/// Accepts one whole number or boolean. Spaces separate module parameters, so any other text could add parameters.
fn check_value(file: &str, name: &str, value: &str, range: Option<&RangeInclusive<i128>>) -> Result<(), Failure> {
    if ["true", "false"].contains(&value) {
        return Ok(());
    }
    let Ok(number) = value.parse::<i128>() else {
        let what = format!("tunable {name} = \"{value}\" for \"{file}\" is not a whole number");
        return Err(Failure::usage(what).hint("give it in the unit of its TUNABLE"));
    };
    match range {
        Some(range) if !range.contains(&number) => {
            let (low, high) = (range.start(), range.end());
            Err(Failure::usage(format!("tunable {name} = {number} for \"{file}\" is outside {low}..{high}")))
        }
        _ => Ok(()),
    }
}

/// The name and range of every `TUNABLE`: its second, fourth and fifth arguments. `None`: not a range of two numbers.
fn tunables_of(text: &str) -> Vec<(&str, Option<RangeInclusive<i128>>)> {
    let declared = text.split("TUNABLE(").skip(1).map(|rest| rest.split(',').map(str::trim).collect::<Vec<_>>());
    let number = |text: Option<&&str>| text.and_then(|text| text.parse().ok());
    let range = |arguments: &[&str]| Some(number(arguments.get(3))?..=number(arguments.get(4))?);
    declared.filter_map(|arguments| Some((*arguments.get(1)?, range(&arguments)))).collect()
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
