//! Measurements of empty paths before an experiment, and the text that identifies a path in files.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// Position of a cell in the sweep: variable to value, both as text ("loss" to "0.1%").
pub type At = BTreeMap<String, String>;

/// One measured quantity of an empty path, with the requested value.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    #[serde(flatten, with = "words")]
    pub quantity: Quantity,
    /// Unit of both values: "bit/s", "us", "ratio".
    pub unit: String,
    pub asked: f64,
    pub measured: f64,
    /// Allowed range around the requested value.
    pub allowed: [f64; 2],
    pub within: bool,
    /// Number of measurements up to this one; earlier ones were outside the range. 0 in older files.
    #[serde(default)]
    pub attempts: u32,
    /// Boot id of the machine at the time. A resume in the same boot does not measure again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot: Option<String>,
}

/// A quantity of one path: `s-r rate at loss = 1%`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quantity {
    pub from: String,
    pub to: String,
    /// "rate", "rtt" or "loss".
    pub kind: String,
    /// Variables that tell the path from the others of the sweep; empty if there is one path.
    pub at: At,
}

impl Quantity {
    /// Whether a point of the sweep is on this path.
    pub fn is_at(&self, at: &At) -> bool {
        self.at.iter().all(|(name, value)| at.get(name) == Some(value))
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{} {}", self.from, self.to, self.kind)?;
        let mut before = " at";
        for (name, value) in &self.at {
            write!(f, "{before} {name} = {value}")?;
            before = ",";
        }
        Ok(())
    }
}

/// Parses the text of older files. Text of another form gives empty names.
impl From<&str> for Quantity {
    fn from(label: &str) -> Self {
        let (path, place) = label.split_once(" at ").unwrap_or((label, ""));
        let (nodes, kind) = path.rsplit_once(' ').unwrap_or(("", path));
        let (from, to) = nodes.split_once('-').unwrap_or((nodes, ""));
        let at = place.split(", ").filter_map(|part| part.split_once(" = "));
        let at = at.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        Quantity { from: from.to_owned(), to: to.to_owned(), kind: kind.to_owned(), at }
    }
}

/// Files have a quantity as text for people and in parts. Older files have only the text.
mod words {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::Quantity;

    #[derive(Serialize, Deserialize)]
    struct Written {
        quantity: String,
        #[serde(default)]
        path: Option<Quantity>,
    }

    pub fn serialize<S: Serializer>(quantity: &Quantity, to: S) -> Result<S::Ok, S::Error> {
        Written { quantity: quantity.to_string(), path: Some(quantity.clone()) }.serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Quantity, D::Error> {
        let Written { quantity, path } = Written::deserialize(from)?;
        Ok(path.unwrap_or_else(|| quantity.as_str().into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = r#"{"quantity":"s-r rate at delay = 5ms, loss = 1%","unit":"bit/s","asked":1.0,"measured":1.0,
                          "allowed":[0.9,1.1],"within":true}"#;

    #[test]
    fn calibration_of_older_files_is_read_by_its_label() {
        let old: Calibration = serde_json::from_str(OLD).unwrap();
        assert_eq!(
            (old.quantity.from.as_str(), old.quantity.to.as_str(), old.quantity.kind.as_str()),
            ("s", "r", "rate")
        );
        assert_eq!((old.quantity.at["delay"].as_str(), old.quantity.at["loss"].as_str()), ("5ms", "1%"));
        assert_eq!(old.quantity.to_string(), "s-r rate at delay = 5ms, loss = 1%");
        assert_eq!(Quantity::from("s-r rtt").to_string(), "s-r rtt");
    }

    #[test]
    fn values_and_nodes_of_any_letters_survive_a_file() {
        let at = At::from([("loss".to_owned(), "bursts:loss=1%, mean = 4 at most".to_owned())]);
        let (from, to) = ("a-b".to_owned(), "c".to_owned());
        let old: Calibration = serde_json::from_str(OLD).unwrap();
        let one = Calibration { quantity: Quantity { from, to, kind: "loss".to_owned(), at }, ..old };
        let text = serde_json::to_string(&one).unwrap();
        assert_eq!(serde_json::from_str::<Calibration>(&text).unwrap(), one, "{text}");
        let simple = serde_json::to_value(serde_json::from_str::<Calibration>(OLD).unwrap()).unwrap();
        assert_eq!(
            (&simple["path"]["from"], &simple["path"]["at"]["loss"]),
            (&"s".into(), &"1%".into()),
            "not only text"
        );
    }
}
