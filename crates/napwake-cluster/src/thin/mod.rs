//! Kubernetes objects with only the fields that Napwake uses.
//!
//! A whole slice costs some 20 KB of heap and a whole Pod 80, most of it
//! `managedFields` (F-160); these cost about 1 KB. They are for reading: none
//! can be written back, since what wasn't read would be lost. Workloads aren't
//! among them: only the operator reads them, and keeps its own.
//!
//! They read what a server may send, `null` lists included, and nothing of what
//! they skip can make them fail.

mod deserialize;
mod ingress;
mod namespace;
mod pod;
mod service;
mod slice;

pub use self::{
    ingress::{Ingress, IngressSpec},
    namespace::{Namespace, NamespacePhase, NamespaceStatus},
    pod::{Pod, PodPhase, PodSpec, PodStatus},
    service::{
        IpFamily, Service, ServicePort, ServiceSpec, ServiceType, TargetPort, TrafficPolicy,
    },
    slice::{AddressType, Conditions, Endpoint, EndpointSlice, SlicePort, TargetRef},
};

/// How a port's bytes travel; what isn't written is TCP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Deserialize)]
pub enum Protocol {
    #[default]
    #[serde(rename = "TCP")]
    Tcp,
    #[serde(rename = "UDP")]
    Udp,
    #[serde(other)]
    Other,
}

/// Makes a thin type a kube resource, so that `Api` and watches take it.
macro_rules! resource {
    ($type:ty, $kind:literal, $plural:literal, $group:literal / $version:literal, $scope:ident) => {
        impl kube::Resource for $type {
            type DynamicType = ();
            type Scope = kube::core::$scope;

            fn kind(&(): &()) -> std::borrow::Cow<'_, str> {
                $kind.into()
            }

            fn group(&(): &()) -> std::borrow::Cow<'_, str> {
                $group.into()
            }

            fn version(&(): &()) -> std::borrow::Cow<'_, str> {
                $version.into()
            }

            fn plural(&(): &()) -> std::borrow::Cow<'_, str> {
                $plural.into()
            }

            fn meta(&self) -> &kube::core::ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut kube::core::ObjectMeta {
                &mut self.metadata
            }
        }
    };
}
use resource;

#[cfg(test)]
mod tests;
