//! HOLD-05: the stock client of each protocol gets its first answer from a
//! paused workload, over IPv4 and IPv6, without trying again by itself.

use k8s_openapi::api::{apps::v1::Deployment, core::v1::Service};
use napwake_api::workload::Phase;
use napwake_testkit::{
    Context, Result,
    apps::{self, App, Kind, service},
    callers, ensure, managed,
    place::{self, Place},
};
use rstest::rstest;
use serde_json::{Value, json};

use crate::setup;

const IPV4: &str = "IPv4";
const IPV6: &str = "IPv6";

/// An address as it stands in a URL.
fn host(address: &str) -> String {
    if address.contains(':') {
        format!("[{address}]")
    } else {
        address.to_owned()
    }
}

async fn asleep_over(place: &Place, app: &App, family: &str) -> Result<String> {
    setup::manage_over(place, app, json!({}), &[family]).await?;
    managed::pause(place, &app.name).await?;
    managed::wake_reason(place, &app.name, "DoormanRouted").await?;
    place.address(&app.name).await
}

/// HOLD-05 with curl. ROUTE-09, ROUTE-10: each family alone.
#[rstest]
#[case(IPV4)]
#[case(IPV6)]
#[tokio::test]
async fn curl_over_http(#[case] family: &str) {
    place::with("http", async |place| {
        let address = asleep_over(&place, &App::new("app", "http"), family).await?;
        let body = callers::curl(&format!("http://{}/", host(&address)), &[])
            .await?
            .ok()?;
        ensure!(body.starts_with("app app-"), "{body:?}");
        Ok(())
    })
    .await;
}

/// HOLD-05 with TLS that the pod ends itself, by curl and openssl.
#[rstest]
#[case(IPV4)]
#[case(IPV6)]
#[tokio::test]
async fn curl_and_openssl_over_tls(#[case] family: &str) {
    place::with("tls", async |place| {
        let address = asleep_over(&place, &App::new("app", "tls"), family).await?;
        let url = format!("https://{}:80/", host(&address));
        let body = callers::curl(&url, &["-k"]).await?.ok()?;
        ensure!(body.starts_with("app app-"), "{body:?}");
        managed::pause(&place, "app").await?;
        managed::wake_reason(&place, "app", "DoormanRouted").await?;
        let connect = format!("{}:80", host(&address));
        let ended = callers::run_with(
            "openssl",
            &["s_client", "-quiet", "-connect", &connect],
            &[],
            b"GET / HTTP/1.1\r\nHost: app\r\nConnection: close\r\n\r\n",
        )
        .await?;
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
    place::with("grpc", async |place| {
        let address = asleep_over(&place, &App::new("app", "grpc"), family).await?;
        let target = format!("{}:80", host(&address));
        let args = [
            "-plaintext",
            "-connect-timeout",
            "60",
            &target,
            "grpc.health.v1.Health/Check",
        ];
        let out = callers::run(&grpcurl, &args).await?.ok()?;
        ensure!(out.contains("SERVING"), "{out}");
        Ok(())
    })
    .await;
}

/// HOLD-05 with Redis by redis-cli.
#[rstest]
#[case(IPV4)]
#[case(IPV6)]
#[tokio::test]
async fn redis_cli(#[case] family: &str) {
    place::with("redis", async |place| {
        let container = apps::debian(
            "redis",
            &[
                "redis-server",
                "--bind",
                "*",
                "-::*",
                "--protected-mode",
                "no",
                "--dir",
                "/data",
                "--save",
                "",
            ],
        );
        let probe = json!({"exec": {"command": ["redis-cli", "ping"]}, "periodSeconds": 1});
        let address = database(&place, container, probe, 6379, family).await?;
        let out = callers::run("redis-cli", &["-h", &address, "ping"])
            .await?
            .ok()?;
        ensure!(out.trim() == "PONG", "{out}");
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
    place::with("postgres", async |place| {
        let script = "bin=/usr/lib/postgresql/15/bin; \
            $bin/initdb -D /data/pg -A trust -U postgres >/dev/null && \
            printf 'host all all all trust\\n' >> /data/pg/pg_hba.conf && \
            exec $bin/postgres -D /data/pg -k /tmp -c listen_addresses='*'";
        let mut container = apps::debian("postgres", &["sh", "-ec", script]);
        container["securityContext"] = json!({"runAsUser": 1000});
        let probe = json!({
            "exec": {"command": ["/usr/lib/postgresql/15/bin/pg_isready", "-h", "127.0.0.1"]},
            "periodSeconds": 1,
        });
        let address = database(&place, container, probe, 5432, family).await?;
        let target = format!("host={address} user=postgres dbname=postgres");
        let out = callers::run("psql", &["-X", "-A", "-t", &target, "-c", "select 6*7"]).await?;
        ensure!(out.clone().ok()?.trim() == "42", "{out:?}");
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
    place::with("mariadb", async |place| {
        let script = "mariadb-install-db --no-defaults --user=root --datadir=/data/db \
            --auth-root-authentication-method=normal --skip-test-db --cross-bootstrap \
            >/dev/null && \
            printf \"CREATE USER app@'%%' IDENTIFIED BY 'pw';\\n\" > /data/init.sql && \
            exec mariadbd --no-defaults --user=root --datadir=/data/db --socket=/data/s.sock \
            --bind-address='*' --init-file=/data/init.sql --skip-log-bin";
        let container = apps::debian("mariadb", &["sh", "-ec", script]);
        let probe = json!({
            "exec": {"command": [
                "mariadb", "--no-defaults", "-h127.0.0.1", "-uapp", "-ppw", "-e", "select 1",
            ]},
            "periodSeconds": 1,
        });
        let address = database(&place, container, probe, 3306, family).await?;
        let args = [
            "--no-defaults",
            "--skip-ssl",
            "--connect-timeout=90",
            "-h",
            &address,
            "-uapp",
            "-ppw",
            "-N",
            "-e",
            "select 6*7",
        ];
        let out = callers::run("mariadb", &args).await?.ok()?;
        ensure!(out.trim() == "42", "{out}");
        Ok(())
    })
    .await;
}

/// Runs a database in the pods of a Deployment named `db`, pauses it, and
/// gives its Service's address.
async fn database(
    place: &Place,
    mut container: Value,
    probe: Value,
    port: u16,
    family: &str,
) -> Result<String> {
    container["readinessProbe"] = probe;
    container["ports"] = json!([{"containerPort": port}]);
    let pod = json!({
        "containers": [container], "volumes": apps::debian_volumes(),
        "terminationGracePeriodSeconds": 5, "securityContext": {"fsGroup": 1000},
    });
    place
        .create::<Deployment>(apps::workload("db", Kind::Deployment, 1, &pod))
        .await?;
    place
        .create::<Service>(service("db", "db", &[("", port, port)], &[family]))
        .await?;
    managed::manage(place, "Deployment", "db", json!({})).await?;
    managed::phase(place, "db", Phase::Running).await?;
    managed::pause(place, "db").await?;
    managed::wake_reason(place, "db", "DoormanRouted").await?;
    place
        .addresses("db")
        .await?
        .pop()
        .context("the Service has an address")
}
