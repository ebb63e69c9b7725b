//! HOLD-05: stock clients against real servers, each reached through the doorman
//! at its first call, over IPv4 and IPv6.

use std::{net::SocketAddr, process::Stdio, time::Duration};

use napwake_tests_process::{
    Context, Result, SOON, callers, ensure,
    hosts::{self, Family, Host},
    route::Standing,
    world::{self, World},
};
use rstest::rstest;
use serde_json::json;
use tempfile::TempDir;
use tokio::{
    process::{Child, Command},
    time::Instant,
};

/// A server at a pod's address. Dropping it ends its process.
pub(crate) struct Server {
    address: SocketAddr,
    child: Child,
    _folder: TempDir,
}

impl Server {
    /// Starts `command` by a shell, in a folder of its own, as somebody without
    /// rights; `$HOST` is the address and `$DATA` the folder.
    async fn start(world: &World, family: Family, port: u16, command: &str) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        std::os::unix::fs::chown(folder.path(), Some(NOBODY), Some(NOBODY))?;
        Self::start_in(folder, world, family, port, command).await
    }

    async fn start_in(
        folder: TempDir,
        world: &World,
        family: Family,
        port: u16,
        command: &str,
    ) -> Result<Self> {
        let host = Host::Pod(0).at(world.block, family);
        let log = std::fs::File::create(world.api.folder().join("server.log"))?;
        let child = Command::new("setpriv")
            .args([
                &format!("--reuid={NOBODY}"),
                &format!("--regid={NOBODY}"),
                "--clear-groups",
            ])
            .args(["sh", "-ec", command])
            .env("HOST", host.to_string())
            .env("BRACKETED", SocketAddr::new(host, port).to_string())
            .env("DATA", folder.path())
            .env("HOME", folder.path())
            // A MariaDB that starts removes what others have in theirs.
            .env("TMPDIR", folder.path())
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("start {command}"))?;
        let address = SocketAddr::new(host, port);
        let mut server = Self {
            address,
            child,
            _folder: folder,
        };
        server.until_it_listens(command).await?;
        Ok(server)
    }

    async fn until_it_listens(&mut self, command: &str) -> Result<()> {
        let deadline = Instant::now() + 6 * SOON;
        while !hosts::is_listened_on(self.address).await? {
            let ended = self.child.try_wait()?;
            ensure!(ended.is_none(), "{command} ended: {ended:?}");
            ensure!(Instant::now() < deadline, "{command} doesn't listen");
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        Ok(())
    }

    /// The test app in one of its modes.
    pub(crate) async fn app(world: &World, family: Family, mode: &str) -> Result<Self> {
        let app = std::env::var("NAPWAKE_TEST_APP").context("NAPWAKE_TEST_APP must be set")?;
        // Where it was built, somebody without rights may not look.
        let folder = tempfile::tempdir()?;
        let copy = folder.path().join("app");
        tokio::fs::copy(&app, &copy)
            .await
            .with_context(|| format!("copy {app}"))?;
        std::os::unix::fs::chown(folder.path(), Some(NOBODY), Some(NOBODY))?;
        let command = format!("exec ./app -mode={mode} -listen=\"$BRACKETED\" -ready=");
        Self::start_in(folder, world, family, 8_080, &command).await
    }
}

/// Somebody without rights.
const NOBODY: u32 = 65_534;

/// Runs a client of `server` while its pod isn't Ready; makes it Ready once the
/// client has woken the workload.
pub(crate) async fn first_call<F>(
    world: &World,
    running: &Server,
    family: Family,
    client: F,
) -> Result<()>
where
    F: AsyncFnOnce(SocketAddr) -> Result<()>,
{
    let route = world.route("db").make().await?;
    let (pod, port) = (running.address.ip(), running.address.port());
    route.pod("db-1", &[pod], Standing::NotReady).await?;
    let v4 = family == Family::V4;
    let slice = |standing| route.slice_of(v4, port, &[route.endpoint("db-1", pod, standing)]);
    route.write_slice("db-1", slice(Standing::NotReady)).await?;
    let doorman = world.doorman().await?;
    let becoming_ready = async {
        route.stamped().await?;
        route.write_slice("db-1", slice(Standing::Ready)).await
    };
    let (called, woken) = tokio::join!(client(doorman.at(family, route.port)), becoming_ready);
    woken?;
    called?;
    let stamps = world.api.stamps(&world.place.namespace);
    ensure!(stamps.len() == 1, "{}", json!(stamps.len()));
    let labels = &[("result", "served")];
    let count = doorman
        .metric("napwake_doorman_wakes_total", labels)
        .await?;
    ensure!(count >= 1.0, "{count} held callers were served");
    Ok(())
}

/// HOLD-05 with curl.
#[rstest]
#[case(Family::V4)]
#[case(Family::V6)]
#[tokio::test]
async fn curl_over_http(#[case] family: Family) {
    world::with("http", async |world| {
        let server = Server::app(world, family, "http").await?;
        first_call(world, &server, family, async |to| {
            let body = callers::curl(&format!("http://{to}/"), &[]).await?.ok()?;
            ensure!(body.starts_with("app "), "{body:?}");
            Ok(())
        })
        .await
    })
    .await;
}

/// HOLD-05, CLASS-02, CLASS-34, COMPAT-08: TLS that the pod ends, by curl; what is asked
/// inside of it, such as a health check, can't be read, so it wakes.
#[rstest]
#[case(Family::V4, "curl/8.5.0")]
#[case(Family::V6, "kube-probe/1.30")]
#[tokio::test]
async fn curl_over_tls(#[case] family: Family, #[case] agent: &str) {
    world::with("tls", async |world| {
        let server = Server::app(world, family, "tls").await?;
        first_call(world, &server, family, async |to| {
            let url = format!("https://{to}/");
            let body = callers::curl(&url, &["-k", "-A", agent]).await?.ok()?;
            ensure!(body.starts_with("app "), "{body:?}");
            Ok(())
        })
        .await
    })
    .await;
}

/// HOLD-05 with openssl.
#[rstest]
#[case(Family::V4)]
#[case(Family::V6)]
#[tokio::test]
async fn openssl_s_client(#[case] family: Family) {
    world::with("openssl", async |world| {
        let server = Server::app(world, family, "tls").await?;
        first_call(world, &server, family, async |to| {
            let args = ["s_client", "-quiet", "-connect", &to.to_string()];
            let request = b"GET / HTTP/1.1\r\nHost: app\r\nConnection: close\r\n\r\n";
            let ended = callers::run_with("openssl", &args, &[], request).await?;
            ensure!(ended.out.contains("200 OK"), "{ended:?}");
            Ok(())
        })
        .await
    })
    .await;
}

/// HOLD-05 with gRPC by grpcurl.
#[rstest]
#[case(Family::V4)]
#[case(Family::V6)]
#[tokio::test]
async fn grpcurl(#[case] family: Family) {
    let grpcurl = std::env::var("NAPWAKE_GRPCURL").expect("set by `cargo xtask test`");
    world::with("grpc", async |world| {
        let server = Server::app(world, family, "grpc").await?;
        first_call(world, &server, family, async |to| {
            let to = to.to_string();
            let args = [
                "-plaintext",
                "-connect-timeout",
                "60",
                &to,
                "grpc.health.v1.Health/Check",
            ];
            let out = callers::run(&grpcurl, &args).await?.ok()?;
            ensure!(out.contains("SERVING"), "{out}");
            Ok(())
        })
        .await
    })
    .await;
}

/// HOLD-05 with Redis by redis-cli.
#[rstest]
#[case(Family::V4)]
#[case(Family::V6)]
#[tokio::test]
async fn redis_cli(#[case] family: Family) {
    world::with("redis", async |world| {
        let command =
            "exec redis-server --bind \"$HOST\" --port 6379 --protected-mode no --save ''";
        let server = Server::start(world, family, 6_379, command).await?;
        first_call(world, &server, family, async |to| {
            let (host, port) = (to.ip().to_string(), to.port().to_string());
            let out = callers::run("redis-cli", &["-h", &host, "-p", &port, "ping"])
                .await?
                .ok()?;
            ensure!(out.trim() == "PONG", "{out}");
            Ok(())
        })
        .await
    })
    .await;
}

/// HOLD-05 with PostgreSQL by psql.
#[rstest]
#[case(Family::V4)]
#[case(Family::V6)]
#[tokio::test]
async fn psql(#[case] family: Family) {
    world::with("psql", async |world| {
        let command = "bin=/usr/lib/postgresql/15/bin; \
            $bin/initdb -D \"$DATA/pg\" -A trust -U postgres --no-sync; \
            printf 'host all all all trust\\n' >> \"$DATA/pg/pg_hba.conf\"; \
            exec $bin/postgres -D \"$DATA/pg\" -k \"$DATA\" -c listen_addresses=\"$HOST\" -c fsync=off";
        let server = Server::start(world, family, 5_432, command).await?;
        first_call(world, &server, family, async |to| {
            let target = format!("host={} port={} user=postgres dbname=postgres", to.ip(), to.port());
            let out = callers::run("psql", &["-X", "-A", "-t", &target, "-c", "select 6*7"]).await?;
            ensure!(out.clone().ok()?.trim() == "42", "{out:?}");
            Ok(())
        })
        .await
    })
    .await;
}

/// HOLD-05, CLASS-06 with MariaDB, where the server speaks first: the silent
/// client wakes it, gets the server's greeting and logs in.
#[rstest]
#[case(Family::V4)]
#[case(Family::V6)]
#[tokio::test]
async fn mariadb(#[case] family: Family) {
    world::with("mariadb", async |world| {
        let command = "mariadb-install-db --no-defaults --datadir=\"$DATA/db\" \
            --auth-root-authentication-method=normal --skip-test-db --cross-bootstrap; \
            printf \"CREATE USER app@'%%' IDENTIFIED BY 'pw';\\n\" > \"$DATA/init.sql\"; \
            exec mariadbd --no-defaults --datadir=\"$DATA/db\" --socket=\"$DATA/s.sock\" \
            --bind-address=\"$HOST\" --port=3306 --init-file=\"$DATA/init.sql\" --skip-log-bin";
        let server = Server::start(world, family, 3_306, command).await?;
        first_call(world, &server, family, async |to| {
            let (host, port) = (format!("-h{}", to.ip()), format!("-P{}", to.port()));
            let args = [
                "--no-defaults",
                "--skip-ssl",
                "--connect-timeout=60",
                "--protocol=tcp",
                &host,
                &port,
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
        .await
    })
    .await;
}
