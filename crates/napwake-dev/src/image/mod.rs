//! Container images without a container engine and without a registry.

pub mod base;
pub mod oci;
pub mod product;
pub mod rootfs;
pub mod test_app;
