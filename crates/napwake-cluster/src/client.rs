//! The client for the API server.
//!
//! Takes its settings from a kubeconfig or, in a pod, from the service account
//! (tokens and the CA are read again as they rotate). Adds time limits, so that
//! a half-open connection is noticed, sends at once what there is to send, and
//! says who calls.
//!
//! Put together from kube's parts, because the one that kube builds leaves
//! Nagle's algorithm on: the request that follows a TLS handshake then waits for
//! the server's delayed acknowledgement, 40 ms for whoever wakes something. And it
//! makes a connection for each of several calls at once.

mod transport;

use std::time::Duration;

use http::{HeaderValue, header::USER_AGENT};
use kube::{
    Client, Config,
    client::{ClientBuilder, ConfigExt, retry::RetryPolicy},
};
use tower::{BoxError, ServiceBuilder, retry::RetryLayer, timeout::TimeoutLayer};

use self::transport::{Calls, Transport};

/// How long the API server may take to begin its answer, kube's retries of 429,
/// 503 and 504 included. A call that must be quicker sets its own limit.
const ANSWER: Duration = Duration::from_secs(20);

/// There is no usable configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("no kubeconfig and not in a pod")]
    Config(#[from] kube::config::InferConfigError),
    #[error("the version can't be sent as a user agent")]
    UserAgent(#[from] http::header::InvalidHeaderValue),
    #[error("can't make a client from the configuration")]
    Client(#[source] kube::Error),
}

/// Makes the client, as `napwake/<version>`. Makes no request: whether the API
/// server is there shows with the first call. Needs a tokio runtime, and
/// rustls's provider installed.
pub async fn connect(version: &str) -> Result<Client, ConnectError> {
    from_config(Config::infer().await?, version)
}

/// The same, with a connection for each call: none waits behind another, and one
/// that follows a call without an answer doesn't go the same way. For what must
/// be soon, now and then, and seldom at once.
pub async fn connect_apart(version: &str) -> Result<Client, ConnectError> {
    make(Config::infer().await?, version, Calls::Apart)
}

/// As [`connect`], from a given configuration.
pub fn from_config(config: Config, version: &str) -> Result<Client, ConnectError> {
    make(config, version, Calls::Together)
}

fn make(mut config: Config, version: &str, calls: Calls) -> Result<Client, ConnectError> {
    config.headers.push((
        USER_AGENT,
        HeaderValue::from_str(&format!("napwake/{version}"))?,
    ));
    build(config, calls).map_err(ConnectError::Client)
}

fn build(config: Config, calls: Calls) -> kube::Result<Client> {
    let limit = TimeoutLayer::new(ANSWER);
    if config.proxy_url.is_some() {
        // kube knows which proxies it was built for, and says so.
        return Ok(ClientBuilder::try_from(config)?.with_layer(&limit).build());
    }
    let transport = Transport::new(&config, calls)?;
    let retry = config.default_retry.then(RetryPolicy::server_retry);
    let service = ServiceBuilder::new()
        .layer(limit)
        .layer(config.base_uri_layer())
        .option_layer(retry.map(RetryLayer::new))
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(transport);
    Ok(ClientBuilder::new(service, config.default_namespace).build())
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use tokio::{
        io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
        net::TcpListener,
    };

    use super::*;

    fn client(address: SocketAddr) -> Client {
        let config = Config::new(format!("http://{address}").parse().unwrap());
        from_config(config, "1.2.3").unwrap()
    }

    async fn head_of_one_request(listener: &TcpListener) -> (Vec<String>, tokio::net::TcpStream) {
        let (stream, _) = listener.accept().await.unwrap();
        let mut lines = BufReader::new(stream).lines();
        let mut head = Vec::new();
        while let Some(line) = lines.next_line().await.unwrap() {
            if line.is_empty() {
                break;
            }
            head.push(line.to_ascii_lowercase());
        }
        (head, lines.into_inner().into_inner())
    }

    #[tokio::test]
    async fn says_who_calls() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = client(listener.local_addr().unwrap());
        let server = async {
            let (head, mut stream) = head_of_one_request(&listener).await;
            let body = r#"{"major":"1","minor":"33"}"#;
            let answer = format!(
                "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            );
            stream.write_all(answer.as_bytes()).await.unwrap();
            head
        };
        let request = http::Request::get("/version").body(Vec::new()).unwrap();
        let (answer, head) = tokio::join!(client.request_text(request), server);
        assert!(answer.unwrap().contains("33"));
        assert!(
            head.contains(&"user-agent: napwake/1.2.3".to_owned()),
            "{head:?}"
        );
    }

    /// A server that accepts and then says nothing must not hold a call for ever.
    #[tokio::test]
    async fn a_silent_server_is_given_up() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = client(listener.local_addr().unwrap());
        let request = http::Request::get("/version").body(Vec::new()).unwrap();
        let call = client.request_text(request);
        let server = async {
            let head = head_of_one_request(&listener).await;
            // From here on nothing but time can end the call.
            tokio::time::pause();
            head
        };
        let (answer, _open) = tokio::join!(call, server);
        let error = answer.unwrap_err();
        assert!(matches!(error, kube::Error::Service(_)), "{error:?}");
    }
}
