//! What slices are called.

use napwake_api::workload::IpFamily;
use sha2::{Digest, Sha256};

/// The name of a Service's slice in one family: `<service>-o<hash>` (ROUTE-69).
///
/// It begins with the Service's name, by which ingress-nginx finds it (F-50),
/// and is never cut (T-77).
pub fn slice_name(service: &str, family: IpFamily) -> String {
    let mut hash = Sha256::new();
    hash.update(service.as_bytes());
    hash.update(match family {
        IpFamily::IPv4 => b"\0IPv4",
        IpFamily::IPv6 => b"\0IPv6",
    });
    let number = hash
        .finalize()
        .iter()
        .take(5)
        .fold(0u64, |number, byte| number << 8 | u64::from(*byte));
    format!("{service}-o{number:010x}")
}

/// The names of a Service's slices in whatever family.
pub fn slice_names(service: &str) -> [String; 2] {
    [IpFamily::IPv4, IpFamily::IPv6].map(|family| slice_name(service, family))
}
