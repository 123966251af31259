//! Values of a swept variable as numbers.

use crate::units::Share;

/// The values as numbers in one unit. `None` if some are no numbers or the units differ.
pub fn numbers(names: &[String]) -> Option<Vec<f64>> {
    let units: Vec<&str> = names.iter().map(|name| unit_of(name)).collect();
    let numbers: Option<Vec<f64>> =
        names.iter().zip(&units).map(|(name, unit)| name[..name.len() - unit.len()].trim().parse().ok()).collect();
    let numbers = numbers?;
    let real = |index: usize| numbers[index] != 0.0;
    let first = (0..names.len()).find(|index| real(*index)).unwrap_or(0);
    if (0..names.len()).all(|index| units[index] == units[first] || !real(index)) {
        return Some(numbers);
    }
    // Shares are written as `0.001` or `0.1%`.
    names.iter().map(|name| name.parse::<Share>().ok().map(|share| share.0)).collect()
}

/// The text after the number in a value such as `50ms`.
pub fn unit_of(name: &str) -> &str {
    let number = |c: char| c.is_ascii_digit() || c == '.' || c == '-';
    let end = name.find(|c: char| !number(c)).unwrap_or(name.len());
    // An exponent, as in 1e-5, belongs to the number.
    if name[end..].starts_with('e') && name.parse::<f64>().is_ok() { "" } else { &name[end..] }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(names: &[&str]) -> Option<Vec<f64>> {
        numbers(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn values_of_one_unit_are_numbers_and_others_are_names() {
        assert_eq!(read(&["100ms", "150ms"]), Some(vec![100.0, 150.0]));
        assert_eq!(read(&["0", "1e-5", "0.01"]), Some(vec![0.0, 1e-5, 0.01]));
        assert_eq!(read(&["0", "1%", "2%"]), Some(vec![0.0, 1.0, 2.0]));
        assert_eq!(read(&["0.001", "1%"]), Some(vec![0.001, 0.01]));
        assert_eq!(read(&["50pkts", "1bdp"]), None);
        assert_eq!(read(&["reno", "cubic"]), None);
        assert_eq!((unit_of("0.25bdp"), unit_of("12"), unit_of("1e-4")), ("bdp", "", ""));
    }
}
