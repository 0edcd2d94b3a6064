//! Addresses and networks as operators write them: `10.0.0.1`, `10.0.0.0/8`, `2001:db8::/32`.

use std::net::IpAddr;

use ringway_shards::plan::Network;
use serde_json::Value as Json;

use super::context::Context;
use crate::config::{Caution, Fault, Path};

/// Bits in front of an IPv4 address that is written as IPv6.
const MAPPED_BITS: u8 = 96;

/// A list of them; `None` when it is not written.
pub(super) fn list(
    context: &mut Context<'_>,
    at: &Path,
    written: Option<&[String]>,
) -> Option<Vec<Network>> {
    let written = written?;
    context.note_written(at, Json::from(written.to_vec()));
    let mut networks = Vec::new();
    for (index, text) in written.iter().enumerate() {
        let here = at.item(index);
        let Some(network) = parse(text) else {
            let text = text.clone();
            context.fail_value(&here, Fault::BadNetwork { text });
            continue;
        };
        let first = first_address(network);
        if first != network.address {
            let network = format!("{first}/{}", network.prefix);
            context.warn_key(&here, Caution::HostBits { network });
        }
        networks.push(network);
    }
    Some(networks)
}

fn parse(text: &str) -> Option<Network> {
    let (address, prefix) = match text.split_once('/') {
        Some((address, prefix)) => (address, Some(prefix)),
        None => (text, None),
    };
    let address: IpAddr = address.parse().ok()?;
    let bits = |address: IpAddr| if address.is_ipv4() { 32 } else { 128 };
    let prefix: u8 = match prefix {
        None => bits(address),
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => digits.parse().ok()?,
        Some(_) => return None,
    };
    if prefix > bits(address) {
        return None;
    }
    let canonical = address.to_canonical();
    let prefix = match canonical.is_ipv4() && address.is_ipv6() {
        // A part of the prefix that marks such addresses is no network of them.
        true => prefix.checked_sub(MAPPED_BITS)?,
        false => prefix,
    };
    Some(Network {
        address: canonical,
        prefix,
    })
}

/// The address with all bits behind the prefix 0.
fn first_address(network: Network) -> IpAddr {
    let prefix = u32::from(network.prefix);
    match network.address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32 - prefix).unwrap_or(0);
            IpAddr::V4((u32::from(address) & mask).into())
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128 - prefix).unwrap_or(0);
            IpAddr::V6((u128::from(address) & mask).into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_networks_of_one() {
        for (text, address, prefix) in [
            ("10.0.0.1", "10.0.0.1", 32),
            ("10.1.0.0/16", "10.1.0.0", 16),
            ("0.0.0.0/0", "0.0.0.0", 0),
            ("::1", "::1", 128),
            ("2001:db8::/32", "2001:db8::", 32),
            ("::ffff:10.0.0.0/104", "10.0.0.0", 8),
        ] {
            let address: IpAddr = address.parse().unwrap();
            assert_eq!(parse(text), Some(Network { address, prefix }), "{text}");
        }
        for text in [
            "",
            "x",
            "10.0.0",
            "10.0.0.1/33",
            "10.0.0.1/",
            "10.0.0.1/+8",
            "::1/129",
            "10.0.0.1:80",
            "::ffff:10.0.0.0/95",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn bits_behind_the_prefix_are_seen() {
        for (text, first) in [
            ("10.1.2.3/8", "10.0.0.0"),
            ("10.1.2.3/0", "0.0.0.0"),
            ("10.1.2.3", "10.1.2.3"),
            ("2001:db8::1/32", "2001:db8::"),
            ("2001:db8::1/0", "::"),
        ] {
            let network = parse(text).unwrap();
            assert_eq!(first_address(network).to_string(), first, "{text}");
        }
    }
}
