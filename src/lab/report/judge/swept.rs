//! Values of a swept variable as numbers.

use shared::units::{BitsPerSec, Share, parse_duration};

/// The values as numbers in one unit, and the unit as it is written. `None` if not all are numbers or the units differ.
pub fn numbers(names: &[String]) -> Option<(Vec<f64>, &str)> {
    let units: Vec<&str> = names.iter().map(|name| unit_of(name)).collect();
    let numbers: Option<Vec<f64>> =
        names.iter().zip(&units).map(|(name, unit)| name[..name.len() - unit.len()].trim().parse().ok()).collect();
    let numbers = numbers?;
    let real = |index: usize| numbers[index] != 0.0;
    let first = (0..names.len()).find(|index| real(*index)).unwrap_or(0);
    if (0..names.len()).all(|index| units[index] == units[first] || !real(index)) {
        return Some((numbers, units.get(first)?.trim()));
    }
    // Shares are written as `0.001` or `0.1%`.
    each(names, |name| name.parse::<Share>().ok().map(|share| share.0)).map(|shares| (shares, ""))
}

/// Numbers that order the values: the numbers themselves, rates, times, or else the places in the list.
pub fn ranks(names: &[String]) -> Vec<f64> {
    let one_unit = numbers(names).map(|(numbers, _)| numbers);
    let rates = || each(names, |name| name.parse::<BitsPerSec>().ok().map(|rate| rate.0 as f64));
    let times = || each(names, |name| parse_duration(name).ok().map(|time| time.as_secs_f64()));
    let places = || (0..names.len()).map(|place| place as f64).collect();
    one_unit.or_else(rates).or_else(times).unwrap_or_else(places)
}

fn each(names: &[String], number: impl Fn(&str) -> Option<f64>) -> Option<Vec<f64>> {
    names.iter().map(|name| number(name)).collect()
}

/// The text after the number in a value such as `50ms`.
fn unit_of(name: &str) -> &str {
    let number = |c: char| c.is_ascii_digit() || c == '.' || c == '-';
    let end = name.find(|c: char| !number(c)).unwrap_or(name.len());
    // An exponent, as in 1e-5, belongs to the number.
    if name[end..].starts_with('e') && name.parse::<f64>().is_ok() { "" } else { &name[end..] }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list<const N: usize>(names: [&str; N]) -> Vec<String> {
        names.map(str::to_owned).to_vec()
    }

    #[test]
    fn values_of_one_unit_are_numbers_and_others_are_names() {
        let check = |names: Vec<String>, expected: &[f64], unit: &str| {
            assert_eq!(numbers(&names), Some((expected.to_vec(), unit)), "{names:?}");
        };
        check(list(["100ms", "150ms"]), &[100.0, 150.0], "ms");
        check(list(["0", "1e-5", "0.01"]), &[0.0, 1e-5, 0.01], "");
        check(list(["0", "1%", "2%"]), &[0.0, 1.0, 2.0], "%");
        check(list(["0.001", "1%"]), &[0.001, 0.01], "");
        assert_eq!(numbers(&list(["50pkts", "1bdp"])), None);
        assert_eq!(numbers(&list(["reno", "cubic"])), None);
        assert_eq!(ranks(&list(["10mbit", "900kbit"])), [1e7, 9e5]);
        assert_eq!(ranks(&list(["1s", "500ms"])), [1.0, 0.5]);
        assert_eq!(ranks(&list(["reno", "cubic"])), [0.0, 1.0]);
        assert_eq!((unit_of("0.25bdp"), unit_of("12"), unit_of("1e-4")), ("bdp", "", ""));
    }
}
