mod silence;

use std::{net::SocketAddr, sync::Arc};

use rstest::rstest;
use tokio::net::TcpListener;
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig,
        pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
    },
};

use super::*;

#[rstest]
#[case("/api/v1/pods?watch=true", true)]
#[case("/api/v1/pods?&watch=true&timeoutSeconds=290", true)]
#[case("/api/v1/pods?limit=500", false)]
#[case("/api/v1/namespaces/a/pods/watch", false)]
#[case("/api/v1/pods?labelSelector=watch%3Dtrue", false)]
fn a_watch_is_told_by_its_query(#[case] uri: &str, #[case] expected: bool) {
    assert_eq!(is_watch(&uri.parse().unwrap()), expected);
}

/// What a small request says isn't held back until the server has acknowledged
/// what was sent before.
#[tokio::test]
async fn sends_at_once() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let url = format!("https://{address}").parse().unwrap();
    let connection = tcp().call(url).await.unwrap();
    assert!(connection.inner().nodelay().unwrap());
}

fn server() -> TlsAcceptor {
    let pair = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(pair.signing_key.serialize_der()));
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![pair.cert.der().clone()], key)
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    TlsAcceptor::from(Arc::new(config))
}

fn config(address: SocketAddr) -> Config {
    // As a process does when it starts; another test may have been quicker.
    tokio_rustls::rustls::crypto::ring::default_provider()
        .install_default()
        .ok();
    let mut config = Config::new(format!("https://{address}").parse().unwrap());
    config.accept_invalid_certs = true;
    config
}

fn transport(address: SocketAddr, calls: Calls) -> Transport {
    Transport::new(&config(address), calls).unwrap()
}

/// Calls speak HTTP/2, so that they share a connection, unless they are to be
/// apart; watches don't.
#[rstest]
#[case(Calls::Together, "/version", Some(&b"h2"[..]))]
#[case(Calls::Together, "/api/v1/pods?watch=true", None)]
#[case(Calls::Apart, "/version", None)]
#[tokio::test]
async fn calls_share_a_connection_and_watches_do_not(
    #[case] calls: Calls,
    #[case] path: &str,
    #[case] expected: Option<&[u8]>,
) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut transport = transport(address, calls);
    let request = Request::get(format!("https://{address}{path}"));
    let call = transport.call(request.body(Body::empty()).unwrap());
    let accept = async {
        let (stream, _) = listener.accept().await.unwrap();
        let stream = server().accept(stream).await.unwrap();
        let (_, connection) = stream.get_ref();
        connection.alpn_protocol().map(<[u8]>::to_vec)
    };
    // The server leaves then, so the call fails; what it was made by is what counts.
    let (_failed, spoken) = tokio::join!(call, accept);
    assert_eq!(spoken.as_deref(), expected);
}
