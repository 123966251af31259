//! Values of a scenario file that serde does not read by itself.

use std::fmt;
use std::time::Duration;

use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, Visitor};

use crate::units;

/// A string, or a number as it is written.
#[derive(Debug, Clone)]
pub(super) struct Text(pub(super) String);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;
        impl Visitor<'_> for Read {
            type Value = Text;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text or a number")
            }
            fn visit_str<E>(self, text: &str) -> Result<Text, E> {
                Ok(Text(text.to_owned()))
            }
            fn visit_bool<E>(self, is_on: bool) -> Result<Text, E> {
                Ok(Text(is_on.to_string()))
            }
            fn visit_i64<E>(self, number: i64) -> Result<Text, E> {
                Ok(Text(number.to_string()))
            }
            fn visit_u64<E>(self, number: u64) -> Result<Text, E> {
                Ok(Text(number.to_string()))
            }
            fn visit_f64<E>(self, number: f64) -> Result<Text, E> {
                Ok(Text(number.to_string()))
            }
        }
        deserializer.deserialize_any(Read)
    }
}

/// A text or a number as it is written, or a list of such.
#[derive(Debug)]
pub(super) struct TextOrList {
    /// Empty where it is a list.
    pub(super) text: String,
    pub(super) list: Option<Vec<String>>,
}

impl<'de> Deserialize<'de> for TextOrList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            One(Text),
            List(Vec<Text>),
        }
        Ok(match Written::deserialize(deserializer) {
            Ok(Written::One(text)) => TextOrList { text: text.0, list: None },
            Ok(Written::List(list)) => {
                let list = list.into_iter().map(|one| one.0).collect();
                TextOrList { text: String::new(), list: Some(list) }
            }
            Err(_) => return Err(de::Error::custom("expected a text, a number or a list of numbers")),
        })
    }
}

/// Most packets of a window: far above what any path of ours holds.
const COUNT_MAX: u32 = 1_000_000;

/// A number of packets, from 1; also as text, so that a sweep can set it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Count(pub(super) u32);

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Text::deserialize(deserializer)?.0;
        let count = text.parse().ok().filter(|count| (1..=COUNT_MAX).contains(count));
        count
            .map(Count)
            .ok_or_else(|| de::Error::custom(format!("\"{text}\": expected a number of packets from 1 to {COUNT_MAX}")))
    }
}

/// On or off: true or false, 1 or 0; also as text, so that a sweep can set it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Switch(pub(super) bool);

impl<'de> Deserialize<'de> for Switch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Text::deserialize(deserializer)?.0;
        match text.as_str() {
            "1" | "true" => Ok(Switch(true)),
            "0" | "false" => Ok(Switch(false)),
            _ => Err(de::Error::custom(format!("\"{text}\": expected 1 or 0"))),
        }
    }
}

/// A duration where one may be missing.
pub(super) fn some_duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    units::duration_text::deserialize(deserializer).map(Some)
}

/// A table in the order of the file.
#[derive(Debug)]
pub(super) struct Ordered<V>(pub(super) Vec<(String, V)>);

impl<V> Default for Ordered<V> {
    fn default() -> Self {
        Ordered(Vec::new())
    }
}

impl<'de, V: Deserialize<'de>> Deserialize<'de> for Ordered<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read<V>(std::marker::PhantomData<V>);
        impl<'de, V: Deserialize<'de>> Visitor<'de> for Read<V> {
            type Value = Ordered<V>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Ordered<V>, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Ordered(entries))
            }
        }
        deserializer.deserialize_map(Read(std::marker::PhantomData))
    }
}
