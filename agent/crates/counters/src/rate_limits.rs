//! Rate limits of nftables: rules that drop what exceeds a rate, or accept what keeps it
//! (include/uapi/linux/netfilter/nf_tables.h, enum nft_limit_attributes).

use libc::c_int;
use serde::Serialize;

use crate::nf_tables::{
    NFGENMSG_BYTES, NFTA_EXPR_DATA, NFTA_EXPR_NAME, NFTA_LIMIT_FLAGS, NFTA_LIMIT_RATE,
    NFTA_LIMIT_TYPE, NFTA_LIMIT_UNIT, NFTA_RULE_EXPRESSIONS, NFTA_VERDICT_CODE,
    find_immediate_verdict,
};
use vnetbench_interfaces::netlink::{find_attribute, iterate_attributes};

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
    let attributes = message.get(NFGENMSG_BYTES..)?;
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
    let flags = find_attribute(limit, NFTA_LIMIT_FLAGS).and_then(parse_c_int)?;
    // A rule that only logs or counts at a limited rate lets all packets pass.
    let matches_excess = flags & libc::NFT_LIMIT_F_INV != 0;
    let blocking = if matches_excess {
        libc::NF_DROP
    } else {
        libc::NF_ACCEPT
    };
    (verdict == Some(blocking)).then_some(())?;
    let unit = match find_attribute(limit, NFTA_LIMIT_TYPE).and_then(parse_c_int)? {
        libc::NFT_LIMIT_PKT_BYTES => LimitedUnit::Bytes,
        _ => LimitedUnit::Packets,
    };
    let rate = find_attribute(limit, NFTA_LIMIT_RATE).and_then(parse_u64)?;
    let seconds = find_attribute(limit, NFTA_LIMIT_UNIT).and_then(parse_u64)?;
    (seconds > 0).then(|| RateLimit {
        unit,
        per_s: rate as f64 / seconds as f64,
    })
}

fn parse_verdict(data: &[u8]) -> Option<c_int> {
    parse_c_int(find_attribute(
        find_immediate_verdict(data)?,
        NFTA_VERDICT_CODE,
    )?)
}

fn parse_c_int(bytes: &[u8]) -> Option<c_int> {
    Some(c_int::from_be_bytes(*bytes.first_chunk()?))
}

fn parse_u64(bytes: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(*bytes.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use netlink_packet_core::DefaultNla;

    use super::*;
    use crate::nf_tables::{NFTA_DATA_VERDICT, NFTA_IMMEDIATE_DATA};
    use crate::test_attributes::{bytes, nest};

    fn expression(name: &[u8], data: &[DefaultNla]) -> DefaultNla {
        let name = DefaultNla::new(NFTA_EXPR_NAME, name.to_vec());
        nest(1, &[name, nest(NFTA_EXPR_DATA, data)])
    }

    fn rule(expressions: &[DefaultNla]) -> Vec<u8> {
        let attributes = bytes(&[nest(NFTA_RULE_EXPRESSIONS, expressions)]);
        [vec![0; NFGENMSG_BYTES], attributes].concat()
    }

    fn limit(per_minute: u64, kind: c_int, flags: c_int) -> DefaultNla {
        let word = |attribute, value: c_int| DefaultNla::new(attribute, value.to_be_bytes().into());
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

    fn verdict(code: c_int) -> DefaultNla {
        let code = DefaultNla::new(NFTA_VERDICT_CODE, code.to_be_bytes().into());
        expression(
            b"immediate\0",
            &[nest(
                NFTA_IMMEDIATE_DATA,
                &[nest(NFTA_DATA_VERDICT, &[code])],
            )],
        )
    }

    #[test]
    fn a_rule_that_drops_the_excess_and_one_that_accepts_the_rest_limit() {
        let dropping = rule(&[
            limit(6000, libc::NFT_LIMIT_PKT_BYTES, libc::NFT_LIMIT_F_INV),
            verdict(libc::NF_DROP),
        ]);
        let expected = RateLimit {
            unit: LimitedUnit::Bytes,
            per_s: 100.0,
        };
        assert_eq!(parse_rule_rate_limit(&dropping), Some(expected));
        let accepting = rule(&[limit(30, libc::NFT_LIMIT_PKTS, 0), verdict(libc::NF_ACCEPT)]);
        let expected = RateLimit {
            unit: LimitedUnit::Packets,
            per_s: 0.5,
        };
        assert_eq!(parse_rule_rate_limit(&accepting), Some(expected));
    }

    #[test]
    fn rules_that_only_log_or_accept_the_excess_limit_nothing() {
        let log = expression(b"log\0", &[]);
        assert_eq!(
            parse_rule_rate_limit(&rule(&[limit(30, libc::NFT_LIMIT_PKTS, 0), log])),
            None
        );
        let accepted = rule(&[
            limit(30, libc::NFT_LIMIT_PKTS, libc::NFT_LIMIT_F_INV),
            verdict(libc::NF_ACCEPT),
        ]);
        assert_eq!(parse_rule_rate_limit(&accepted), None);
        assert_eq!(
            parse_rule_rate_limit(&rule(&[verdict(libc::NF_DROP)])),
            None
        );
        assert_eq!(parse_rule_rate_limit(&[0; 3]), None);
    }
}
