//! HOLD-05: the stock client of each protocol gets its first answer from a
//! paused workload, over IPv4 and IPv6, without trying again by itself.

use k8s_openapi::api::core::v1::Service;
use napwake_testkit::{
    Result,
    apps::{self, App, Kind, service},
    callers, ensure, managed,
    place::{self, Place},
};
use rstest::rstest;
use serde_json::{Value, json};

use crate::setup::{self, host};

const IPV4: &str = "IPv4";
const IPV6: &str = "IPv6";

/// Runs a client, given the Service's address, against the paused app in this
/// mode, on port 80.
async fn ask_app(mode: &str, family: &str, client: impl AsyncFnOnce(&str) -> Result<()>) {
    place::with(mode, async |place| {
        let app = App::new("app", mode);
        setup::manage_over(&place, &app, json!({}), &[family]).await?;
        managed::pause_routed(&place, "app").await?;
        client(&place.address("app").await?).await
    })
    .await;
}

/// HOLD-05 with curl. ROUTE-09, ROUTE-10: each family alone.
#[rstest]
#[case(IPV4)]
#[case(IPV6)]
#[tokio::test]
async fn curl_over_http(#[case] family: &str) {
    ask_app("http", family, async |address| {
        setup::request_to(&format!("http://{}/", host(address)), "app").await?;
        Ok(())
    })
    .await;
}

/// HOLD-05 with TLS that the pod ends itself, by curl.
#[rstest]
#[case(IPV4)]
#[case(IPV6)]
#[tokio::test]
async fn curl_over_tls(#[case] family: &str) {
    ask_app("tls", family, async |address| {
        let url = format!("https://{}:80/", host(address));
        let body = callers::curl(&url, &["-k"]).await?.ok()?;
        ensure!(body.starts_with("app app-"), "{body:?}");
        Ok(())
    })
    .await;
}

/// HOLD-05 with TLS that the pod ends itself, by openssl.
#[rstest]
#[case(IPV4)]
#[case(IPV6)]
#[tokio::test]
async fn openssl_over_tls(#[case] family: &str) {
    ask_app("tls", family, async |address| {
        let connect = format!("{}:80", host(address));
        let args = ["s_client", "-quiet", "-connect", &connect];
        let request = b"GET / HTTP/1.1\r\nHost: app\r\nConnection: close\r\n\r\n";
        let ended = callers::run_with("openssl", &args, &[], request).await?;
        ensure!(ended.out.contains("200 OK"), "{ended:?}");
        Ok(())
    })
    .await;
}

/// HOLD-05 with gRPC by grpcurl.
#[rstest]
#[case(IPV4)]
#[case(IPV6)]
#[tokio::test]
async fn grpcurl_over_grpc(#[case] family: &str) {
    let grpcurl = std::env::var("NAPWAKE_GRPCURL").expect("set by `cargo xtask test`");
    ask_app("grpc", family, async |address| {
        let target = format!("{}:80", host(address));
        let (patient, method) = ("60", "grpc.health.v1.Health/Check");
        let args = ["-plaintext", "-connect-timeout", patient, &target, method];
        let out = callers::run(&grpcurl, &args).await?.ok()?;
        ensure!(out.contains("SERVING"), "{out}");
        Ok(())
    })
    .await;
}

/// HOLD-05, PAGE-17 with a WebSocket by Debian's client for Python: its first message is
/// echoed.
#[rstest]
#[case(IPV4)]
#[case(IPV6)]
#[tokio::test]
async fn websockets(#[case] family: &str) {
    ask_app("ws", family, async |address| {
        let url = format!("ws://{}/", host(address));
        let out = callers::websocket(&url, "first").await?.ok()?;
        ensure!(out.trim() == "first", "{out:?}");
        Ok(())
    })
    .await;
}

/// A server of Debian's, as a container and when it's Ready.
struct Server {
    container: Value,
    /// The command that succeeds once it serves.
    ready: Value,
    port: u16,
}

/// Runs a client, given the Service's address, against the paused server.
async fn ask_server(server: Server, family: &str, client: impl AsyncFnOnce(&str) -> Result<()>) {
    place::with("server", async |place| {
        start(&place, server, family).await?;
        let app = App::new("db", "tcp");
        setup::run(&place, &app, json!({})).await?;
        managed::pause_routed(&place, "db").await?;
        client(&place.address("db").await?).await
    })
    .await;
}

async fn start(place: &Place, server: Server, family: &str) -> Result<()> {
    let (mut container, port) = (server.container, server.port);
    container["readinessProbe"] = json!({"exec": {"command": server.ready}, "periodSeconds": 1});
    container["ports"] = json!([{"containerPort": port}]);
    let pod = json!({
        "containers": [container], "volumes": apps::debian_volumes(),
        "terminationGracePeriodSeconds": 5, "securityContext": {"fsGroup": 1000},
    });
    let manifest = apps::workload("db", Kind::Deployment, 1, &pod);
    setup::create(place, Kind::Deployment, manifest).await?;
    let manifest = service("db", "db", &[("", port, port)], &[family]);
    place.create::<Service>(manifest).await?;
    Ok(())
}

/// HOLD-05 with Redis by redis-cli.
#[rstest]
#[case(IPV4)]
#[case(IPV6)]
#[tokio::test]
async fn redis_cli(#[case] family: &str) {
    let script = "exec redis-server --bind '*' '-::*' --protected-mode no --dir /data --save ''";
    let server = Server {
        container: apps::debian("redis", &["sh", "-ec", script]),
        ready: json!(["redis-cli", "ping"]),
        port: 6379,
    };
    ask_server(server, family, async |address| {
        let ended = callers::run("redis-cli", &["-h", address, "ping"]).await?;
        ensure!(ended.clone().ok()?.trim() == "PONG", "{ended:?}");
        Ok(())
    })
    .await;
}

/// HOLD-05 with PostgreSQL by psql.
#[rstest]
#[case(IPV4)]
#[case(IPV6)]
#[tokio::test]
async fn psql(#[case] family: &str) {
    let script = "bin=/usr/lib/postgresql/15/bin; \
        $bin/initdb -D /data/pg -A trust -U postgres >/dev/null && \
        printf 'host all all all trust\\n' >> /data/pg/pg_hba.conf && \
        exec $bin/postgres -D /data/pg -k /tmp -c listen_addresses='*'";
    let mut container = apps::debian("postgres", &["sh", "-ec", script]);
    container["securityContext"] = json!({"runAsUser": 1000});
    let server = Server {
        container,
        ready: json!(["/usr/lib/postgresql/15/bin/pg_isready", "-h", "127.0.0.1"]),
        port: 5432,
    };
    ask_server(server, family, async |address| {
        let target = format!("host={address} user=postgres dbname=postgres");
        let ended = callers::run("psql", &["-X", "-A", "-t", &target, "-c", "select 6*7"]).await?;
        ensure!(ended.clone().ok()?.trim() == "42", "{ended:?}");
        Ok(())
    })
    .await;
}

/// HOLD-05 and CLASS-06 with MariaDB, where the server speaks first: the silent
/// client is held, wakes it, gets the server's greeting and logs in.
#[rstest]
#[case(IPV4)]
#[case(IPV6)]
#[tokio::test]
async fn mariadb(#[case] family: &str) {
    let script = "mariadb-install-db --no-defaults --user=root --datadir=/data/db \
        --auth-root-authentication-method=normal --skip-test-db --cross-bootstrap \
        >/dev/null && \
        printf \"CREATE USER app@'%%' IDENTIFIED BY 'pw';\\n\" > /data/init.sql && \
        exec mariadbd --no-defaults --user=root --datadir=/data/db --socket=/data/s.sock \
        --bind-address='*' --init-file=/data/init.sql --skip-log-bin";
    let login =
        "mariadb --no-defaults --skip-ssl --connect-timeout=90 -uapp -ppw -N -e 'select 6*7' -h";
    let server = Server {
        container: apps::debian("mariadb", &["sh", "-ec", script]),
        ready: json!(["sh", "-c", format!("{login} 127.0.0.1")]),
        port: 3306,
    };
    ask_server(server, family, async |address| {
        let ended = callers::run("sh", &["-c", &format!("{login} {address}")]).await?;
        ensure!(ended.clone().ok()?.trim() == "42", "{ended:?}");
        Ok(())
    })
    .await;
}
