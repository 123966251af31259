//! What the outputs show of an event: the values of its fields, their types, and the columns.

use std::borrow::Cow;
use std::net::SocketAddr;

use derive_more::Display;

use super::bytes::PRIVATE_BYTES;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldType {
    U32,
    U64,
    Real,
    Truth,
    Text,
}

#[derive(Debug, Clone, PartialEq, Display)]
pub(crate) enum FieldValue<'a> {
    U32(u32),
    U64(u64),
    /// Shown with six decimal places.
    #[display("{_0:.6}")]
    Real(f64),
    Truth(bool),
    Text(Cow<'a, str>),
    End(SocketAddr),
    #[display("{}", private_digits(_0).map(char::from).collect::<String>())]
    Private(&'a [u8; PRIVATE_BYTES]),
}

impl<'a> From<&'a str> for FieldValue<'a> {
    fn from(text: &'a str) -> Self {
        FieldValue::Text(Cow::Borrowed(text))
    }
}

/// The column of a field.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ColumnPlace {
    /// Its place from the left; a new column comes last, because CSV is read by place.
    pub position: usize,
    /// A narrow terminal shows the lowest ranks.
    pub rank: u8,
    /// Characters in a stream, whose values are not known yet; at least as many as the name has.
    pub width: usize,
}

impl ColumnPlace {
    /// The rank of what CSV and Parquet have and no table.
    pub const MACHINE: u8 = 5;
    /// No column.
    pub const NOWHERE: ColumnPlace = column(usize::MAX, u8::MAX, 0);
}

pub(crate) const fn column(position: usize, rank: u8, width: usize) -> ColumnPlace {
    ColumnPlace { position, rank, width }
}

/// The columns of a table that find room: the lowest ranks first, among equals from the left. Rank 0 is always there.
///
/// Shape: the rank of each column and the room it takes; whether each is shown, and the room that is left.
pub(crate) fn with_room(columns: &[(u8, usize)], mut room: usize) -> (Vec<bool>, usize) {
    let mut is_shown = vec![false; columns.len()];
    let mut by_rank: Vec<usize> = (0..columns.len()).collect();
    by_rank.sort_by_key(|&index| columns[index].0);
    for index in by_rank {
        let (rank, needed) = columns[index];
        if rank == 0 || needed <= room {
            (is_shown[index], room) = (true, room.saturating_sub(needed));
        }
    }
    (is_shown, room)
}

/// A type that a field can have.
pub(crate) trait Show {
    const TYPE: FieldType;

    fn show(&self) -> Option<FieldValue<'_>>;
}

macro_rules! show {
    ($($type:ty as $kind:ident: |$value:ident| $shown:expr;)+) => {
        $(impl Show for $type {
            const TYPE: FieldType = FieldType::$kind;

            fn show(&self) -> Option<FieldValue<'_>> {
                let $value = self;
                Some($shown)
            }
        })+
    };
}

show! {
    u32 as U32: |value| FieldValue::U32(*value);
    u64 as U64: |value| FieldValue::U64(*value);
    bool as Truth: |value| FieldValue::Truth(*value);
    String as Text: |value| FieldValue::from(value.as_str());
    SocketAddr as Text: |value| FieldValue::End(*value);
    [u8; PRIVATE_BYTES] as Text: |value| FieldValue::Private(value);
    // The only single byte of an event is its TCP state.
    u8 as Text: |value| FieldValue::from(tcp_state_name(*value));
}

impl<T: Show> Show for Option<T> {
    const TYPE: FieldType = T::TYPE;

    fn show(&self) -> Option<FieldValue<'_>> {
        self.as_ref()?.show()
    }
}

/// The kernel's words for its TCP states.
fn tcp_state_name(state: u8) -> &'static str {
    const NAMES: [&str; 13] = [
        "unknown",
        "ESTABLISHED",
        "SYN_SENT",
        "SYN_RECV",
        "FIN_WAIT1",
        "FIN_WAIT2",
        "TIME_WAIT",
        "CLOSE",
        "CLOSE_WAIT",
        "LAST_ACK",
        "LISTEN",
        "CLOSING",
        "SYN_RECV",
    ];
    NAMES.get(usize::from(state)).unwrap_or(&NAMES[0])
}

/// A private state as hexadecimal digits, without the zeros at its end.
pub(crate) fn private_digits(state: &[u8; PRIVATE_BYTES]) -> impl Iterator<Item = u8> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let used = state.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    state[..used].iter().flat_map(|byte| [byte >> 4, byte & 15].map(|half| DIGITS[usize::from(half)]))
}

/// A private state as hexadecimal text for serde.
pub(super) mod hexadecimal {
    use serde::{Deserialize, Deserializer, Serializer};

    use super::{FieldValue, PRIVATE_BYTES};

    pub fn serialize<S: Serializer>(state: &[u8; PRIVATE_BYTES], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&FieldValue::Private(state))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<[u8; PRIVATE_BYTES], D::Error> {
        let text = String::deserialize(deserializer)?;
        let mut bytes = [0; PRIVATE_BYTES];
        if text.len() % 2 != 0 || text.len() / 2 > PRIVATE_BYTES || !text.is_ascii() {
            return Err(serde::de::Error::custom("private state is not up to 104 bytes of hexadecimal"));
        }
        for (index, byte) in bytes.iter_mut().enumerate().take(text.len() / 2) {
            *byte = u8::from_str_radix(&text[2 * index..2 * index + 2], 16).map_err(serde::de::Error::custom)?;
        }
        Ok(bytes)
    }
}
