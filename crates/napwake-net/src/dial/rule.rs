//! Where a dialer may connect.
//!
//! Owns the list of addresses that nobody may be made to dial, with its sources.
//! It decides by the address alone, and never resolves a name.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use crate::listen::canonical;

/// Why an address may not be dialed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// `0.0.0.0/8`, `::`: Linux takes it for this machine.
    #[error("unspecified address")]
    Unspecified,
    /// `127.0.0.0/8`, `::1` (NET-26).
    #[error("loopback address")]
    Loopback,
    /// `169.254.0.0/16`, `fe80::/10` (NET-27).
    #[error("link-local address")]
    LinkLocal,
    /// `224.0.0.0/4`, `ff00::/8`.
    #[error("multicast address")]
    Multicast,
    /// `255.255.255.255`.
    #[error("broadcast address")]
    Broadcast,
    /// A cloud's metadata or host service (NET-28).
    #[error("cloud metadata address")]
    Metadata,
    /// An address of the product's own pods: dialing it would be a loop.
    #[error("own address")]
    Own,
    /// Port 0 is no port.
    #[error("port 0")]
    NoPort,
}

const fn v4(a: u8, b: u8, c: u8, d: u8, prefix: u8) -> IpNet {
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), prefix))
}

const fn v6(segments: [u16; 8], prefix: u8) -> IpNet {
    let s = segments;
    let ip = Ipv6Addr::new(s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7]);
    IpNet::V6(Ipv6Net::new_assert(ip, prefix))
}

/// What is never dialed; the first match gives the reason.
const REFUSED: &[(IpNet, Refusal)] = &[
    // Nearly every cloud; docs.aws.amazon.com "Access instance metadata",
    // cloud.google.com "About VM metadata", learn.microsoft.com "Azure Instance
    // Metadata Service", docs.oracle.com "Getting Instance Metadata". Those of
    // ECS, EKS, Scaleway, Tencent and OpenStack are link-local too.
    (v4(169, 254, 169, 254, 32), Refusal::Metadata),
    // Alibaba Cloud: docs.cloud-init.io, datasource AliYun.
    (v4(100, 100, 100, 200, 32), Refusal::Metadata),
    // Oracle, Compute Classic and Cloud at Customer: docs.oracle.com, "Retrieve
    // Predefined Instance Metadata".
    (v4(192, 0, 0, 192, 32), Refusal::Metadata),
    // Azure's host ("WireServer"): learn.microsoft.com, "What is IP address
    // 168.63.129.16?".
    (v4(168, 63, 129, 16, 32), Refusal::Metadata),
    // AWS: `::254` metadata, `::23` EKS Pod Identity, `::253` DNS, `::123` time.
    (
        v6([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0], 112),
        Refusal::Metadata,
    ),
    // Google Cloud: cloud.google.com, "About VM metadata", IPv6-only instances.
    (
        v6([0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254], 128),
        Refusal::Metadata,
    ),
    // Oracle Cloud Infrastructure over IPv6: oracle/oci-python-sdk, endpoint of
    // the instance principals signer.
    (
        v6([0xfd00, 0xc1, 0, 0, 0, 0, 0xa9fe, 0xa9fe], 128),
        Refusal::Metadata,
    ),
    // Scaleway, Akamai, Alibaba over IPv6: docs.cloud-init.io, datasources
    // Scaleway, Akamai, AliYun.
    (
        v6([0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42], 128),
        Refusal::Metadata,
    ),
    (
        v6([0xfd00, 0xa9fe, 0xa9fe, 0, 0, 0, 0, 1], 128),
        Refusal::Metadata,
    ),
    (
        v6([0xfd00, 0x100, 0, 0, 0, 0, 0x100, 0x200], 128),
        Refusal::Metadata,
    ),
    // RFC 6890 and RFC 4291. 240.0.0.0/4 stays: some clusters give it to pods.
    (v4(0, 0, 0, 0, 8), Refusal::Unspecified),
    (v4(127, 0, 0, 0, 8), Refusal::Loopback),
    (v4(169, 254, 0, 0, 16), Refusal::LinkLocal),
    (v4(224, 0, 0, 0, 4), Refusal::Multicast),
    (v4(255, 255, 255, 255, 32), Refusal::Broadcast),
    (v6([0, 0, 0, 0, 0, 0, 0, 0], 128), Refusal::Unspecified),
    (v6([0, 0, 0, 0, 0, 0, 0, 1], 128), Refusal::Loopback),
    (v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10), Refusal::LinkLocal),
    (v6([0xff00, 0, 0, 0, 0, 0, 0, 0], 8), Refusal::Multicast),
];

/// The product's own addresses, asked anew at every dial.
type Own = Arc<dyn Fn(IpAddr) -> bool + Send + Sync>;

/// Where a [`crate::dial::Dialer`] may connect. There is no rule without the
/// refused ranges, for tests neither.
#[derive(Clone)]
pub struct AddressRule {
    own: Option<Own>,
}

impl fmt::Debug for AddressRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AddressRule")
            .field("refuses_own", &self.own.is_some())
            .finish()
    }
}

impl AddressRule {
    /// For dialing pods: never a special address, and never one that `own` knows
    /// as the product's own. `own` is asked at every dial, so it may change; it
    /// must not block.
    pub fn pods(own: impl Fn(IpAddr) -> bool + Send + Sync + 'static) -> Self {
        Self {
            own: Some(Arc::new(own)),
        }
    }

    /// For dialing the product's own pods: never a special address.
    pub fn own_pods() -> Self {
        Self { own: None }
    }

    /// The address to connect to: `address` without its IPv4-mapped form.
    pub fn check(&self, address: SocketAddr) -> Result<SocketAddr, Refusal> {
        let address = canonical(address);
        if address.port() == 0 {
            return Err(Refusal::NoPort);
        }
        self.check_ip(address.ip())?;
        if let Some(inner) = embedded(address.ip()) {
            self.check_ip(inner.into())?;
        }
        Ok(address)
    }

    fn check_ip(&self, ip: IpAddr) -> Result<(), Refusal> {
        if let Some((_, refusal)) = REFUSED.iter().find(|(net, _)| net.contains(&ip)) {
            return Err(*refusal);
        }
        if self.own.as_ref().is_some_and(|own| own(ip)) {
            return Err(Refusal::Own);
        }
        Ok(())
    }
}

/// The IPv4 address that an IPv6 one stands for, where a network may translate
/// it: IPv4-compatible (RFC 4291), IPv4-translated (RFC 7915), NAT64 (RFC 6052)
/// and 6to4 (RFC 3056). Mapped ones are IPv4 addresses by now.
fn embedded(ip: IpAddr) -> Option<Ipv4Addr> {
    let IpAddr::V6(ip) = ip else { return None };
    let ([0, 0, 0, 0, 0 | 0xffff, 0, high, low]
    | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
    | [0x2002, high, low, ..]) = ip.segments()
    else {
        return None;
    };
    let [a, b] = high.to_be_bytes();
    let [c, d] = low.to_be_bytes();
    Some(Ipv4Addr::new(a, b, c, d))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    fn check(ip: &str) -> Result<SocketAddr, Refusal> {
        let own: IpAddr = "10.9.9.9".parse().unwrap();
        let rule = AddressRule::pods(move |ip| ip == own);
        rule.check(SocketAddr::new(ip.parse().unwrap(), 80))
    }

    #[rstest]
    #[case::net_26("127.0.0.1", Refusal::Loopback)]
    #[case::net_26("127.255.255.255", Refusal::Loopback)]
    #[case::net_26("::1", Refusal::Loopback)]
    #[case::net_26("::ffff:127.0.0.1", Refusal::Loopback)]
    #[case::net_26("::127.0.0.1", Refusal::Loopback)]
    #[case::net_26("64:ff9b::127.0.0.1", Refusal::Loopback)]
    #[case::net_27("169.254.0.1", Refusal::LinkLocal)]
    #[case::net_27("169.254.170.2", Refusal::LinkLocal)]
    #[case::net_27("::ffff:169.254.7.7", Refusal::LinkLocal)]
    #[case::net_27("fe80::1", Refusal::LinkLocal)]
    #[case::net_27("febf::1", Refusal::LinkLocal)]
    #[case::net_27("fe80::a9fe:a9fe", Refusal::LinkLocal)]
    #[case::net_28("169.254.169.254", Refusal::Metadata)]
    #[case::net_28("::ffff:169.254.169.254", Refusal::Metadata)]
    #[case::net_28("64:ff9b::169.254.169.254", Refusal::Metadata)]
    #[case::net_28("2002:a9fe:a9fe::1", Refusal::Metadata)]
    #[case::net_28("::ffff:0:169.254.169.254", Refusal::Metadata)]
    #[case::net_28("100.100.100.200", Refusal::Metadata)]
    #[case::net_28("192.0.0.192", Refusal::Metadata)]
    #[case::net_28("168.63.129.16", Refusal::Metadata)]
    #[case::net_28("fd00:ec2::254", Refusal::Metadata)]
    #[case::net_28("fd00:ec2::23", Refusal::Metadata)]
    #[case::net_28("fd20:ce::254", Refusal::Metadata)]
    #[case::net_28("fd00:c1::a9fe:a9fe", Refusal::Metadata)]
    #[case::net_28("fd00:42::42", Refusal::Metadata)]
    #[case::net_28("fd00:a9fe:a9fe::1", Refusal::Metadata)]
    #[case::net_28("fd00:100::100:200", Refusal::Metadata)]
    #[case::unspecified("0.0.0.0", Refusal::Unspecified)]
    #[case::unspecified("0.1.2.3", Refusal::Unspecified)]
    #[case::unspecified("::", Refusal::Unspecified)]
    #[case::multicast("224.0.0.1", Refusal::Multicast)]
    #[case::multicast("ff02::1", Refusal::Multicast)]
    #[case::broadcast("255.255.255.255", Refusal::Broadcast)]
    #[case::own("10.9.9.9", Refusal::Own)]
    #[case::own_mapped("::ffff:10.9.9.9", Refusal::Own)]
    #[case::own_nat64("64:ff9b::10.9.9.9", Refusal::Own)]
    fn refuses(#[case] ip: &str, #[case] refusal: Refusal) {
        assert_eq!(check(ip), Err(refusal));
    }

    #[rstest]
    #[case("10.0.0.1")]
    #[case("100.100.100.201")]
    #[case("172.16.4.4")]
    #[case("192.168.1.1")]
    #[case("240.1.2.3")]
    #[case("128.0.0.1")]
    #[case("fd00:10:244::5")]
    #[case("fd00:ec2:1::254")]
    #[case("2001:db8::1")]
    fn allows(#[case] ip: &str) {
        assert!(check(ip).is_ok(), "{ip}");
    }

    #[test]
    fn port_0_is_refused() {
        let address = "10.0.0.1:0".parse().unwrap();
        let rule = AddressRule::own_pods();
        assert_eq!(rule.check(address), Err(Refusal::NoPort));
    }

    #[test]
    fn own_pods_are_dialed_only_by_their_own_rule() {
        let address = "10.9.9.9:80".parse().unwrap();
        assert_eq!(AddressRule::own_pods().check(address), Ok(address));
    }

    #[test]
    fn own_addresses_are_asked_anew() {
        let own = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let rule = AddressRule::pods({
            let own = own.clone();
            move |_| own.load(std::sync::atomic::Ordering::Relaxed)
        });
        let address = "10.0.0.1:80".parse().unwrap();
        assert!(rule.check(address).is_ok());
        own.store(true, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(rule.check(address), Err(Refusal::Own));
    }

    proptest! {
        /// Writing an IPv4 address in any IPv6 form changes no answer.
        #[test]
        fn no_form_gets_round_the_rule(bits in any::<u32>()) {
            let ip = Ipv4Addr::from_bits(bits);
            let plain = check(&ip.to_string()).map(drop);
            prop_assert_eq!(check(&format!("::ffff:{ip}")).map(drop), plain);
            prop_assert_eq!(check(&format!("64:ff9b::{ip}")).map(drop), plain);
        }
    }
}
