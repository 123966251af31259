//! The types, values and columns of an event's fields in the outputs.

use std::borrow::Cow;
use std::net::SocketAddr;

use derive_more::Display;

use super::bytes::PRIVATE_BYTES;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldType {
    U32,
    U64,
    Real,
    Truth,
    Text,
}

#[derive(Debug, Clone, PartialEq, Display)]
pub enum FieldValue<'a> {
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

#[derive(Debug, Clone, Copy)]
pub struct ColumnPlace {
    /// From the left. A new column comes last, because readers of CSV may rely on positions.
    pub position: usize,
    /// A narrow terminal shows only the lowest ranks.
    pub rank: u8,
    /// Minimum number of characters in a stream, whose values are not known in advance.
    pub width: usize,
}

impl ColumnPlace {
    /// The rank of columns that only CSV and Parquet have.
    pub const MACHINE: u8 = 5;
    pub const NOWHERE: ColumnPlace = column(usize::MAX, u8::MAX, 0);
}

pub const fn column(position: usize, rank: u8, width: usize) -> ColumnPlace {
    ColumnPlace { position, rank, width }
}

/// Chooses the columns of a table that fit: lowest ranks first, then from the left. Rank 0 is always shown.
///
/// Shape: takes the rank and width of each column; returns whether each is shown, and the remaining width.
pub fn with_room(columns: &[(u8, usize)], mut room: usize) -> (Vec<bool>, usize) {
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

/// A type that fields can have.
pub trait Show {
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
    // The only field of this type is the TCP state.
    u8 as Text: |value| FieldValue::from(tcp_state_name(*value));
}

impl<T: Show> Show for Option<T> {
    const TYPE: FieldType = T::TYPE;

    fn show(&self) -> Option<FieldValue<'_>> {
        self.as_ref()?.show()
    }
}

fn tcp_state_name(state: u8) -> &'static str {
    // The kernel counts from 1. The last number is TCP_NEW_SYN_RECV.
    const NAMES: &str = "ESTABLISHED SYN_SENT SYN_RECV FIN_WAIT1 FIN_WAIT2 TIME_WAIT CLOSE CLOSE_WAIT LAST_ACK LISTEN \
                         CLOSING SYN_RECV";
    state.checked_sub(1).and_then(|place| NAMES.split(' ').nth(place.into())).unwrap_or("unknown")
}

/// Formats a private state as hexadecimal digits without trailing zero bytes.
pub fn private_digits(state: &[u8; PRIVATE_BYTES]) -> impl Iterator<Item = u8> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let used = state.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    state[..used].iter().flat_map(|byte| [byte >> 4, byte & 15].map(|half| DIGITS[usize::from(half)]))
}

/// Serialises a private state as hexadecimal text.
pub(super) mod hexadecimal {
    use serde::{Deserialize, Deserializer, Serializer};

    use super::{FieldValue, PRIVATE_BYTES};

    pub fn serialize<S: Serializer>(state: &[u8; PRIVATE_BYTES], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&FieldValue::Private(state))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<[u8; PRIVATE_BYTES], D::Error> {
        let used = hex::decode(String::deserialize(deserializer)?).ok().filter(|used| used.len() <= PRIVATE_BYTES);
        let wrong = || serde::de::Error::custom("private state is not up to 104 bytes of hexadecimal");
        let used = used.ok_or_else(wrong)?;
        let mut bytes = [0; PRIVATE_BYTES];
        bytes[..used.len()].copy_from_slice(&used);
        Ok(bytes)
    }
}
