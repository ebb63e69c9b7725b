//! The cluster's certificates and the kubeconfigs that use them.
//!
//! Made once for a cluster. They are worth nothing outside of its network,
//! which has no way in.

use std::path::Path;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

use super::ClusterError;
use super::state::State;
use super::topology::{API_SERVICE, Topology};
use crate::files::{self, Access};

/// Somebody with a certificate.
struct Holder {
    /// Name of its files.
    file: String,
    common_name: String,
    organization: Option<&'static str>,
    /// Names and addresses it answers under.
    answers_as: Vec<String>,
}

impl Holder {
    fn client(file: &str, common_name: &str) -> Self {
        Self {
            file: file.to_owned(),
            common_name: common_name.to_owned(),
            organization: None,
            answers_as: Vec::new(),
        }
    }
}

/// Makes what isn't there yet, all of it or nothing.
pub(super) fn ensure(state: &State, topology: &Topology) -> Result<(), ClusterError> {
    let folder = state.dir().join("pki");
    if !folder.is_dir() {
        let new = state.dir().join("pki.new");
        files::remove_dir(&new)?;
        files::create_dir(&new)?;
        make(&new, topology)?;
        std::fs::rename(&new, &folder).map_err(files::failed("put in place", &folder))?;
    }
    write_kubeconfigs(state, topology)
}

fn make(folder: &Path, topology: &Topology) -> Result<(), ClusterError> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(Vec::new())?;
    params
        .distinguished_name
        .push(DnType::CommonName, "napwake-dev");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![
        KeyUsagePurpose::KeyCertSign,
        KeyUsagePurpose::CrlSign,
        KeyUsagePurpose::DigitalSignature,
    ];
    let certificate = params.self_signed(&key)?;
    write_pair(folder, "ca", &certificate.pem(), &key)?;
    let issuer = Issuer::new(params, key);
    for holder in holders(topology) {
        let key = KeyPair::generate()?;
        let certificate = params_of(&holder)?.signed_by(&key, &issuer)?;
        write_pair(folder, &holder.file, &certificate.pem(), &key)?;
    }
    // Signs the pods' tokens; a key without a certificate.
    let key = KeyPair::generate()?;
    files::write(&folder.join("sa.key"), key.serialize_pem(), Access::Secret)?;
    files::write(&folder.join("sa.pub"), key.public_key_pem(), Access::Public)?;
    Ok(())
}

fn holders(topology: &Topology) -> Vec<Holder> {
    let control = topology.control_addresses;
    let names = [
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
        "localhost",
    ];
    let addresses = ["127.0.0.1", "::1"].into_iter().chain(API_SERVICE);
    let own = [control.v4.to_string(), control.v6.to_string()];
    let mut all = vec![
        Holder {
            answers_as: names
                .into_iter()
                .chain(addresses)
                .map(str::to_owned)
                .chain(own)
                .collect(),
            ..Holder::client("apiserver", "kube-apiserver")
        },
        Holder {
            organization: Some("system:masters"),
            ..Holder::client("admin", "admin")
        },
        Holder::client("front-proxy", "front-proxy"),
        Holder::client("controller-manager", "system:kube-controller-manager"),
        Holder::client("scheduler", "system:kube-scheduler"),
        Holder::client("proxy", "system:kube-proxy"),
    ];
    all.extend(topology.nodes.iter().map(|node| Holder {
        organization: Some("system:nodes"),
        answers_as: vec![
            node.name.clone(),
            node.addresses.v4.to_string(),
            node.addresses.v6.to_string(),
        ],
        ..Holder::client(&node.name, &format!("system:node:{}", node.name))
    }));
    all
}

fn params_of(holder: &Holder) -> Result<CertificateParams, ClusterError> {
    let mut params = CertificateParams::new(holder.answers_as.clone())?;
    params
        .distinguished_name
        .push(DnType::CommonName, holder.common_name.as_str());
    if let Some(organization) = holder.organization {
        params
            .distinguished_name
            .push(DnType::OrganizationName, organization);
    }
    params.key_usages = vec![
        KeyUsagePurpose::DigitalSignature,
        KeyUsagePurpose::KeyEncipherment,
    ];
    params.extended_key_usages = vec![
        ExtendedKeyUsagePurpose::ServerAuth,
        ExtendedKeyUsagePurpose::ClientAuth,
    ];
    Ok(params)
}

fn write_pair(
    folder: &Path,
    file: &str,
    certificate: &str,
    key: &KeyPair,
) -> Result<(), ClusterError> {
    files::write(
        &folder.join(format!("{file}.crt")),
        certificate,
        Access::Public,
    )?;
    files::write(
        &folder.join(format!("{file}.key")),
        key.serialize_pem(),
        Access::Secret,
    )?;
    Ok(())
}

fn write_kubeconfigs(state: &State, topology: &Topology) -> Result<(), ClusterError> {
    let url = topology.api_url();
    for part in ["controller-manager", "scheduler", "proxy"] {
        let text = kubeconfig(state, &url, part);
        files::write(&state.part_kubeconfig(part), text, Access::Secret)?;
    }
    for node in &topology.nodes {
        let text = kubeconfig(state, &url, &node.name);
        files::write(&state.part_kubeconfig(&node.name), text, Access::Secret)?;
    }
    Ok(files::write(
        &state.kubeconfig(),
        kubeconfig(state, &url, "admin"),
        Access::Secret,
    )?)
}

fn kubeconfig(state: &State, url: &str, user: &str) -> String {
    let pki = |file: String| state.pki(&file).display().to_string();
    format!(
        "apiVersion: v1
kind: Config
clusters:
- name: napwake-dev
  cluster:
    server: {url}
    certificate-authority: {ca}
users:
- name: {user}
  user:
    client-certificate: {certificate}
    client-key: {key}
contexts:
- name: napwake-dev
  context:
    cluster: napwake-dev
    user: {user}
current-context: napwake-dev
",
        ca = pki("ca.crt".to_owned()),
        certificate = pki(format!("{user}.crt")),
        key = pki(format!("{user}.key")),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::name::ClusterName;
    use crate::cluster::settings::NodeCount;

    #[test]
    fn every_holder_gets_a_pair_and_the_second_run_changes_nothing() {
        let root = tempfile::tempdir().unwrap();
        let name = ClusterName::default();
        let state = State::below(root.path(), &name);
        let topology = Topology::new(&name, NodeCount::Three);
        files::create_dir(state.dir()).unwrap();
        ensure(&state, &topology).unwrap();
        let first = files::read(&state.pki("n3.crt")).unwrap();
        assert!(
            files::read(&state.pki("n3.key"))
                .unwrap()
                .contains("PRIVATE KEY")
        );
        assert!(
            files::read(&state.pki("sa.pub"))
                .unwrap()
                .contains("PUBLIC KEY")
        );
        ensure(&state, &topology).unwrap();
        assert_eq!(files::read(&state.pki("n3.crt")).unwrap(), first);
    }

    #[test]
    fn a_kubeconfig_names_its_user_and_the_server() {
        let state = State::below(Path::new("/state"), &ClusterName::default());
        let text = kubeconfig(&state, "https://10.0.0.1:6443", "n1");
        for part in [
            "server: https://10.0.0.1:6443",
            "client-key: /state/napwake-dev/pki/n1.key",
            "certificate-authority: /state/napwake-dev/pki/ca.crt",
        ] {
            assert!(text.contains(part), "{text}");
        }
    }
}
