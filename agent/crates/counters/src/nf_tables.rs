//! Numbers of nf_tables under the kernel's names, those that libc lacks, and the verdict of an expression
//! (include/uapi/linux/netfilter/nf_tables.h).

use vnetbench_interfaces::netlink::find_attribute;

/// Bytes of `struct nfgenmsg`, whose first byte is the address family.
pub const NFGENMSG_BYTES: usize = 4;

pub const NFTA_CHAIN_TABLE: u16 = 1;
pub const NFTA_CHAIN_NAME: u16 = 3;
pub const NFTA_CHAIN_HOOK: u16 = 4;
pub const NFTA_CHAIN_TYPE: u16 = 7;
pub const NFTA_HOOK_HOOKNUM: u16 = 1;

pub const NFTA_RULE_TABLE: u16 = 1;
pub const NFTA_RULE_CHAIN: u16 = 2;
pub const NFTA_RULE_HANDLE: u16 = 3;
pub const NFTA_RULE_EXPRESSIONS: u16 = 4;

pub const NFTA_EXPR_NAME: u16 = 1;
pub const NFTA_EXPR_DATA: u16 = 2;

pub const NFTA_COUNTER_PACKETS: u16 = 2;

pub const NFTA_IMMEDIATE_DATA: u16 = 2;
pub const NFTA_DATA_VERDICT: u16 = 2;
pub const NFTA_VERDICT_CODE: u16 = 1;
pub const NFTA_VERDICT_CHAIN: u16 = 2;

pub const NFTA_LIMIT_RATE: u16 = 1;
pub const NFTA_LIMIT_UNIT: u16 = 2;
pub const NFTA_LIMIT_TYPE: u16 = 4;
pub const NFTA_LIMIT_FLAGS: u16 = 5;

/// Returns the attributes of the verdict, from the data of an `immediate` expression.
pub fn find_immediate_verdict(data: &[u8]) -> Option<&[u8]> {
    find_attribute(
        find_attribute(data, NFTA_IMMEDIATE_DATA)?,
        NFTA_DATA_VERDICT,
    )
}
