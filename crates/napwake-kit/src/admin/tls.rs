//! The certificate of the metrics server: self-signed, or mounted and read
//! again when it changes.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use rustls::{
    ServerConfig,
    crypto::CryptoProvider,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use tokio::time::Instant;

use super::AdminError;
use crate::chain::Chain;

/// How old what was read of a mounted certificate may be. Rotations come days
/// before the old one expires.
const FRESH: Duration = Duration::from_mins(1);

/// The certificate in use.
#[derive(Debug)]
pub(super) struct Certificates {
    current: Arc<Current>,
    mounted: Option<Mounted>,
}

#[derive(Debug)]
struct Current(Mutex<Arc<CertifiedKey>>);

impl ResolvesServerCert for Current {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.lock()))
    }
}

#[derive(Debug)]
struct Mounted {
    directory: PathBuf,
    last: Mutex<LastRead>,
}

#[derive(Debug)]
struct LastRead {
    at: Instant,
    pair: PemPair,
}

/// `tls.crt` and `tls.key`, as they are mounted from a Secret.
#[derive(Debug, PartialEq, Eq)]
struct PemPair {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

impl PemPair {
    // Two small files of a mounted volume: read where we stand.
    fn read(directory: &Path) -> Result<Self, AdminError> {
        let read = |name| {
            let path = directory.join(name);
            fs::read(&path).map_err(|source| AdminError::Read { path, source })
        };
        Ok(Self {
            certificate: read("tls.crt")?,
            key: read("tls.key")?,
        })
    }

    fn parse(&self, directory: &Path) -> Result<CertifiedKey, AdminError> {
        let pem = |source| AdminError::Pem {
            path: directory.to_owned(),
            source,
        };
        let chain = CertificateDer::pem_slice_iter(&self.certificate)
            .collect::<Result<Vec<_>, _>>()
            .map_err(pem)?;
        let key = PrivateKeyDer::from_pem_slice(&self.key).map_err(pem)?;
        certified(chain, key)
    }
}

fn provider() -> CryptoProvider {
    rustls::crypto::ring::default_provider()
}

fn certified(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<CertifiedKey, AdminError> {
    CertifiedKey::from_der(chain, key, &provider()).map_err(AdminError::Certificate)
}

impl Certificates {
    /// Makes a key and a certificate that nobody vouches for: the metrics are
    /// encrypted, and whoever wants more mounts a certificate.
    pub(super) fn self_signed() -> Result<Self, AdminError> {
        let pair = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
        let certificate = certified(vec![pair.cert.into()], pair.signing_key.into())?;
        Ok(Self {
            current: Arc::new(Current(Mutex::new(Arc::new(certificate)))),
            mounted: None,
        })
    }

    /// Reads the certificate of a directory, which must be there at the start.
    pub(super) fn mounted(directory: PathBuf) -> Result<Self, AdminError> {
        let pair = PemPair::read(&directory)?;
        let certificate = pair.parse(&directory)?;
        let last = Mutex::new(LastRead {
            at: Instant::now(),
            pair,
        });
        Ok(Self {
            current: Arc::new(Current(Mutex::new(Arc::new(certificate)))),
            mounted: Some(Mounted { directory, last }),
        })
    }

    /// Reads a mounted certificate again if it was last read a minute ago.
    /// While the new one can't be used, the old one stays.
    pub(super) fn refresh(&self, now: Instant) {
        let Some(mounted) = &self.mounted else { return };
        let mut last = mounted.last.lock();
        if now.duration_since(last.at) < FRESH {
            return;
        }
        last.at = now;
        match self.reload(mounted, &last.pair) {
            Ok(Some(pair)) => {
                tracing::info!("metrics certificate changed");
                last.pair = pair;
            }
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(error = %Chain(&error), "can't use the new metrics certificate");
            }
        }
    }

    fn reload(&self, mounted: &Mounted, old: &PemPair) -> Result<Option<PemPair>, AdminError> {
        let new = PemPair::read(&mounted.directory)?;
        if new == *old {
            return Ok(None);
        }
        let certificate = new.parse(&mounted.directory)?;
        *self.current.0.lock() = Arc::new(certificate);
        Ok(Some(new))
    }

    /// A server's settings that always show the certificate in use.
    pub(super) fn server_config(&self) -> ServerConfig {
        let resolver: Arc<dyn ResolvesServerCert> = Arc::<Current>::clone(&self.current);
        let mut config = ServerConfig::builder_with_provider(Arc::new(provider()))
            .with_safe_default_protocol_versions()
            .expect("ring knows the default versions")
            .with_no_client_auth()
            .with_cert_resolver(resolver);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        config
    }

    /// The certificate shown now, for tests that verify it.
    #[cfg(test)]
    pub(super) fn shown(&self) -> CertificateDer<'static> {
        self.current.0.lock().cert[0].clone()
    }
}
