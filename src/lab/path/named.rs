//! Parses `name=value,name=value`: how scenarios and options write models.

use std::str::FromStr;

use shared::sanitize::shown;

#[derive(Debug)]
pub struct NamedValues<'a, const N: usize> {
    names: [&'static str; N],
    values: [Option<&'a str>; N],
}

impl<'a, const N: usize> NamedValues<'a, N> {
    /// # Errors
    /// A part without `=`, an unknown name, a name that occurs twice.
    pub fn split(text: &'a str, names: [&'static str; N]) -> Result<Self, String> {
        let mut values = [None; N];
        for part in text.split(',').map(str::trim) {
            let (name, value) =
                part.split_once('=').ok_or_else(|| format!("\"{}\": expected name=value", shown(part)))?;
            let known = names.iter().position(|known| *known == name.trim());
            let place = known.ok_or_else(|| format!("\"{}\": expected one of {}", shown(name), names.join(", ")))?;
            if values[place].replace(value.trim()).is_some() {
                return Err(format!("{} occurs twice", names[place]));
            }
        }
        Ok(NamedValues { names, values })
    }

    /// The value of a name.
    ///
    /// None: the text leaves it out.
    pub fn optional<T>(&self, name: &str, read: impl Fn(&str) -> Result<T, String>) -> Result<Option<T>, String> {
        let place = self.names.iter().position(|known| *known == name);
        let Some(text) = place.and_then(|place| self.values[place]) else { return Ok(None) };
        read(text).map(Some).map_err(|why| format!("{name} = {why}"))
    }

    /// The value of a name that must not be left out.
    pub fn required<T>(
        &self,
        name: &str,
        example: &str,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Result<T, String> {
        self.optional(name, read)?.ok_or_else(|| format!("{name} is missing, such as {example}"))
    }
}

/// Parses a value of any type.
pub fn parse<T: FromStr<Err: ToString>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: T::Err| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use shared::units::Share;

    #[test]
    fn values_are_found_under_their_names_in_any_order() {
        let named = NamedValues::split("r=25%, p=1%", ["p", "r", "1-h"]).unwrap();
        assert_eq!(named.optional("p", parse), Ok(Some(Share(0.01))));
        assert_eq!(named.required("r", "r=1%", parse), Ok(Share(0.25)));
        assert_eq!(named.optional("1-h", parse::<Share>), Ok(None));
    }

    #[test]
    fn mistakes_name_the_part_and_what_is_allowed() {
        let refused = |text: &str| {
            let named = NamedValues::split(text, ["p", "r"]);
            named.and_then(|named| named.required("p", "p=1%", parse::<Share>)).unwrap_err()
        };
        assert_eq!(refused("p=1%,q=2"), "\"q\": expected one of p, r");
        assert_eq!(refused("p=1%,p=2%"), "p occurs twice");
        assert_eq!(refused("1%"), "\"1%\": expected name=value");
        assert!(refused(&"x".repeat(1 << 20)).len() < 200, "a long text is not repeated whole");
        assert_eq!(refused("p=5"), "p = \"5\": expected a share from 0 to 1, such as 0.001 or 0.1%");
        assert_eq!(refused("r=5%"), "p is missing, such as p=1%");
    }
}
