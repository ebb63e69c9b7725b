//! What places are counted by.

use std::{fmt, net::IpAddr, sync::Arc};

/// The address a connection comes from, as the doorman's socket tells it: no
/// header changes it (LIMIT-30). The whole address counts, and an IPv4 address
/// mapped into IPv6 is the IPv4 address (T-66).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Source(IpAddr);

impl Source {
    /// The address.
    pub const fn get(self) -> IpAddr {
        self.0
    }
}

impl From<IpAddr> for Source {
    fn from(address: IpAddr) -> Self {
        Self(address.to_canonical())
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The namespace and name of a ManagedWorkload. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkloadKey(Arc<(Box<str>, Box<str>)>);

impl WorkloadKey {
    /// The key of the ManagedWorkload `name` in `namespace`.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self(Arc::new((namespace.into(), name.into())))
    }

    /// Its namespace.
    pub fn namespace(&self) -> &str {
        &self.0.0
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.0.1
    }
}

impl fmt::Display for WorkloadKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace(), self.name())
    }
}
