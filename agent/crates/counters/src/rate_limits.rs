//! Rate limits of nftables: rules that drop what exceeds a rate, or accept what keeps it
//! (include/uapi/linux/netfilter/nf_tables.h, enum nft_limit_attributes).

use serde::Serialize;

use vnetbench_interfaces::netlink::{find_attribute, iterate_attributes};

/// `struct nfgenmsg`.
const MESSAGE_HEADER_BYTES: usize = 4;
const NFTA_RULE_EXPRESSIONS: u16 = 4;
const NFTA_EXPR_NAME: u16 = 1;
const NFTA_EXPR_DATA: u16 = 2;
const NFTA_LIMIT_RATE: u16 = 1;
const NFTA_LIMIT_UNIT: u16 = 2;
const NFTA_LIMIT_TYPE: u16 = 4;
const NFTA_LIMIT_FLAGS: u16 = 5;
/// NFT_LIMIT_F_INV: the rule matches what exceeds the rate.
const LIMIT_FLAG_MATCHES_EXCESS: u32 = 1;
/// NFT_LIMIT_PKT_BYTES.
const LIMIT_TYPE_BYTES: u32 = 1;
/// NFTA_IMMEDIATE_DATA, NFTA_DATA_VERDICT, NFTA_VERDICT_CODE.
const IMMEDIATE_VERDICT_ATTRIBUTE_PATH: [u16; 3] = [2, 2, 1];
/// NF_DROP and NF_ACCEPT.
const VERDICT_DROP: u32 = 0;
const VERDICT_ACCEPT: u32 = 1;

/// A rate above which a rule does not let packets pass.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct RateLimit {
    unit: LimitedUnit,
    per_s: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum LimitedUnit {
    Bytes,
    Packets,
}

/// Returns the rate limit of a rule, from the message that describes the rule; `None` for a rule that limits nothing.
pub fn parse_rule_rate_limit(message: &[u8]) -> Option<RateLimit> {
    let attributes = message.get(MESSAGE_HEADER_BYTES..)?;
    let expressions = find_attribute(attributes, NFTA_RULE_EXPRESSIONS)?;
    let mut limit = None;
    let mut verdict = None;
    for (_, expression) in iterate_attributes(expressions) {
        let data = find_attribute(expression, NFTA_EXPR_DATA).unwrap_or_default();
        match find_attribute(expression, NFTA_EXPR_NAME) {
            Some(b"limit\0") => limit = Some(data),
            Some(b"immediate\0") => verdict = parse_verdict(data).or(verdict),
            _ => {}
        }
    }
    let limit = limit?;
    let flags = find_attribute(limit, NFTA_LIMIT_FLAGS).and_then(parse_u32)?;
    // A rule that only logs or counts at a limited rate lets all packets pass.
    let blocking = match flags & LIMIT_FLAG_MATCHES_EXCESS {
        0 => VERDICT_ACCEPT,
        _ => VERDICT_DROP,
    };
    (verdict == Some(blocking)).then_some(())?;
    let unit = match find_attribute(limit, NFTA_LIMIT_TYPE).and_then(parse_u32)? {
        LIMIT_TYPE_BYTES => LimitedUnit::Bytes,
        _ => LimitedUnit::Packets,
    };
    let rate = find_attribute(limit, NFTA_LIMIT_RATE).and_then(parse_u64)?;
    let seconds = find_attribute(limit, NFTA_LIMIT_UNIT).and_then(parse_u64)?;
    (seconds > 0).then(|| RateLimit {
        unit,
        per_s: rate as f64 / seconds as f64,
    })
}

fn parse_verdict(data: &[u8]) -> Option<u32> {
    let code = IMMEDIATE_VERDICT_ATTRIBUTE_PATH
        .iter()
        .try_fold(data, |nested, attribute| find_attribute(nested, *attribute))?;
    parse_u32(code)
}

fn parse_u32(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(*bytes.first_chunk()?))
}

fn parse_u64(bytes: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(*bytes.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use netlink_packet_core::DefaultNla;

    use super::*;
    use crate::test_attributes::{bytes, nest};

    fn expression(name: &[u8], data: &[DefaultNla]) -> DefaultNla {
        let name = DefaultNla::new(NFTA_EXPR_NAME, name.to_vec());
        nest(1, &[name, nest(NFTA_EXPR_DATA, data)])
    }

    fn rule(expressions: &[DefaultNla]) -> Vec<u8> {
        let attributes = bytes(&[nest(NFTA_RULE_EXPRESSIONS, expressions)]);
        [vec![0; MESSAGE_HEADER_BYTES], attributes].concat()
    }

    fn limit(per_minute: u64, kind: u32, flags: u32) -> DefaultNla {
        let word = |attribute, value: u32| DefaultNla::new(attribute, value.to_be_bytes().into());
        expression(
            b"limit\0",
            &[
                DefaultNla::new(NFTA_LIMIT_RATE, per_minute.to_be_bytes().into()),
                DefaultNla::new(NFTA_LIMIT_UNIT, 60_u64.to_be_bytes().into()),
                word(NFTA_LIMIT_TYPE, kind),
                word(NFTA_LIMIT_FLAGS, flags),
            ],
        )
    }

    fn verdict(code: u32) -> DefaultNla {
        let code = DefaultNla::new(1, code.to_be_bytes().into());
        expression(b"immediate\0", &[nest(2, &[nest(2, &[code])])])
    }

    #[test]
    fn a_rule_that_drops_the_excess_and_one_that_accepts_the_rest_limit() {
        let dropping = rule(&[
            limit(6000, LIMIT_TYPE_BYTES, LIMIT_FLAG_MATCHES_EXCESS),
            verdict(VERDICT_DROP),
        ]);
        let expected = RateLimit {
            unit: LimitedUnit::Bytes,
            per_s: 100.0,
        };
        assert_eq!(parse_rule_rate_limit(&dropping), Some(expected));
        let accepting = rule(&[limit(30, 0, 0), verdict(VERDICT_ACCEPT)]);
        let expected = RateLimit {
            unit: LimitedUnit::Packets,
            per_s: 0.5,
        };
        assert_eq!(parse_rule_rate_limit(&accepting), Some(expected));
    }

    #[test]
    fn rules_that_only_log_or_accept_the_excess_limit_nothing() {
        let log = expression(b"log\0", &[]);
        assert_eq!(parse_rule_rate_limit(&rule(&[limit(30, 0, 0), log])), None);
        let accepted = rule(&[
            limit(30, 0, LIMIT_FLAG_MATCHES_EXCESS),
            verdict(VERDICT_ACCEPT),
        ]);
        assert_eq!(parse_rule_rate_limit(&accepted), None);
        assert_eq!(parse_rule_rate_limit(&rule(&[verdict(VERDICT_DROP)])), None);
        assert_eq!(parse_rule_rate_limit(&[0; 3]), None);
    }
}
