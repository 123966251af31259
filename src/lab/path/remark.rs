//! What a router writes into the second byte of the IP header, which holds DSCP and ECN. Plain data.

use std::fmt;
use std::str::FromStr;

use strum::{Display, EnumString, VariantNames};

use super::named::NamedValues;
use shared::sanitize::shown;
use shared::units::{ParseError, serde_as_text};

const DSCP_BITS: u8 = 0xfc;
const ECN_BITS: u8 = 0x03;
const ECT_1: u8 = 0x01;
const ECT_0: u8 = 0x02;

/// Applies to every packet that enters a direction, before anything else.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Remark {
    pub ecn: Option<EcnRemark>,
    /// Whether the DSCP becomes 0.
    pub clears_dscp: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum EcnRemark {
    /// Every packet becomes Not-ECT. A mark is lost, and later links drop instead of marking.
    Bleached,
    /// ECT(1) becomes ECT(0), so the packet takes the classic queue (RFC 9331, 4.1).
    Ect0,
    /// ECT(0) becomes ECT(1), so the packet takes the low-latency queue. Only for senders with a scalable response, such as
    /// DCTCP's.
    Ect1,
}

impl Remark {
    /// Bits that become 0.
    pub fn cleared(self) -> u8 {
        let ecn = if self.ecn == Some(EcnRemark::Bleached) { ECN_BITS } else { 0 };
        ecn | if self.clears_dscp { DSCP_BITS } else { 0 }
    }

    /// The codepoint of ECN-capable transport that becomes the other one; 0 if none does.
    pub fn ect_replaced(self) -> u8 {
        match self.ecn {
            Some(EcnRemark::Ect0) => ECT_1,
            Some(EcnRemark::Ect1) => ECT_0,
            Some(EcnRemark::Bleached) | None => 0,
        }
    }
}

impl FromStr for Remark {
    type Err = ParseError;

    /// Reads `ecn=bleached`, `ecn=ect0`, `ecn=ect1`, `dscp=0`, or the last with one of the others.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        read(text).map_err(|why| ParseError::because(text, why))
    }
}

fn read(text: &str) -> Result<Remark, String> {
    let named = NamedValues::split(text, ["ecn", "dscp"])?;
    let wrong = |text: &str, expected: &str| format!("\"{}\": expected {expected}", shown(text));
    let ecn = named.optional("ecn", |text| {
        text.parse().map_err(|_| wrong(text, &format!("one of {}", EcnRemark::VARIANTS.join(", "))))
    })?;
    let dscp = named.optional("dscp", |text| if text == "0" { Ok(()) } else { Err(wrong(text, "0")) })?;
    Ok(Remark { ecn, clears_dscp: dscp.is_some() })
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ecn = self.ecn.map(|ecn| format!("ecn={ecn}"));
        let dscp = self.clears_dscp.then(|| "dscp=0".to_owned());
        f.write_str(&ecn.into_iter().chain(dscp).collect::<Vec<_>>().join(","))
    }
}

serde_as_text!(Remark => ToString::to_string);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remark_is_read_printed_and_refused_by_name() {
        for text in ["ecn=bleached", "ecn=ect0", "ecn=ect1", "dscp=0", "ecn=bleached,dscp=0"] {
            assert_eq!(text.parse::<Remark>().unwrap().to_string(), text);
        }
        let bits = |text: &str| text.parse::<Remark>().map(|it| (it.cleared(), it.ect_replaced())).unwrap();
        assert_eq!(bits("dscp=0,ecn=bleached"), (0xff, 0));
        assert_eq!((bits("ecn=bleached"), bits("ecn=ect0")), ((0x03, 0), (0, ECT_1)));
        assert_eq!(bits("ecn=ect1"), (0, ECT_0));
        let refused = |text: &str| text.parse::<Remark>().unwrap_err().expected;
        assert_eq!(refused("ecn=off"), "ecn = \"off\": expected one of bleached, ect0, ect1");
        assert_eq!(refused("dscp=46"), "dscp = \"46\": expected 0");
        assert_eq!(refused("tos=0"), "\"tos\": expected one of ecn, dscp");
        assert_eq!(refused(""), "\"\": expected name=value");
    }
}
