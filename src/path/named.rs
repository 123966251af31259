//! Values under names in one text, `name=value,name=value`: how models are written in scenarios and on the command line.

use std::str::FromStr;

use crate::plain::shown;

/// The values of a text, each under one of the names it may have.
#[derive(Debug)]
pub struct Named<'a, const N: usize> {
    names: [&'static str; N],
    values: [Option<&'a str>; N],
}

impl<'a, const N: usize> Named<'a, N> {
    /// Splits a text into its values.
    ///
    /// Errors: a part without `=`, a name that is not one of these, a name that stands twice.
    pub fn split(text: &'a str, names: [&'static str; N]) -> Result<Self, String> {
        let mut values = [None; N];
        for part in text.split(',').map(str::trim) {
            let (name, value) =
                part.split_once('=').ok_or_else(|| format!("\"{}\": expected name=value", shown(part)))?;
            let known = names.iter().position(|known| *known == name.trim());
            let place = known.ok_or_else(|| format!("\"{}\": expected one of {}", shown(name), names.join(", ")))?;
            if values[place].replace(value.trim()).is_some() {
                return Err(format!("{} stands twice", names[place]));
            }
        }
        Ok(Named { names, values })
    }

    /// The value under a name; none where the text leaves it out.
    ///
    /// Errors: it does not read.
    pub fn value<T: FromStr<Err: ToString>>(&self, name: &str) -> Result<Option<T>, String> {
        self.with(name, |text| text.parse().map_err(|error: T::Err| error.to_string()))
    }

    /// The value under a name as `read` makes it; none where the text leaves it out.
    ///
    /// Errors: it does not read.
    pub fn with<T>(&self, name: &str, read: impl Fn(&str) -> Result<T, String>) -> Result<Option<T>, String> {
        let place = self.names.iter().position(|known| *known == name);
        let Some(text) = place.and_then(|place| self.values[place]) else { return Ok(None) };
        read(text).map(Some).map_err(|why| format!("{name} = {why}"))
    }
}

/// A value that must be there.
///
/// Errors: it is not.
pub fn needed<T>(value: Option<T>, name: &str, example: &str) -> Result<T, String> {
    value.ok_or_else(|| format!("{name} is missing, such as {example}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Share;

    #[test]
    fn values_are_found_under_their_names_in_any_order() {
        let named = Named::split("r=25%, p=1%", ["p", "r", "1-h"]).unwrap();
        assert_eq!(named.value("p"), Ok(Some(Share(0.01))));
        assert_eq!(named.value("r"), Ok(Some(Share(0.25))));
        assert_eq!(named.value::<Share>("1-h"), Ok(None));
    }

    #[test]
    fn mistakes_name_the_part_and_what_is_allowed() {
        let refused = |text: &str| Named::split(text, ["p", "r"]).unwrap_err();
        assert_eq!(refused("p=1%,q=2"), "\"q\": expected one of p, r");
        assert_eq!(refused("p=1%,p=2%"), "p stands twice");
        assert_eq!(refused("1%"), "\"1%\": expected name=value");
        assert!(refused(&"x".repeat(1 << 20)).len() < 200, "a long text is not repeated whole");
        let wrong = Named::split("p=5", ["p"]).unwrap().value::<Share>("p").unwrap_err();
        assert_eq!(wrong, "p = \"5\": expected a share from 0 to 1, such as 0.001 or 0.1%");
        assert_eq!(needed::<u8>(None, "p", "p=1%").unwrap_err(), "p is missing, such as p=1%");
    }
}
