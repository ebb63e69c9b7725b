//! A proxy in front that gives up on an answer after a minute.

mod long {
    use std::time::Duration;

    use k8s_openapi::api::core::v1::Service;
    use napwake_api::{ManagedWorkloadStatus, workload::Phase};
    use napwake_testkit::{
        Context, Result,
        apps::{App, service},
        bail, callers, ensure, managed,
        place::{self, Place},
        wait,
    };
    use napwake_tests_process::nginx::Nginx;
    use serde_json::json;
    use tokio::time::{Instant, sleep};

    use crate::setup;

    /// How long no pod is Ready.
    const START: Duration = Duration::from_secs(150);

    /// How often the page reloads itself.
    const RELOADS: Duration = Duration::from_secs(3);

    /// A program's request, or a browser's with these headers: the code, and what
    /// came.
    async fn ask(socket: &str, headers: &[&str]) -> Result<(String, String)> {
        let own = ["--unix-socket", socket, "-w", "\n%{http_code}"];
        let args = [&own, headers].concat();
        let out = callers::curl("http://web.example.com/", &args)
            .await?
            .ok()?;
        let (body, code) = out.rsplit_once('\n').context("a code")?;
        Ok((code.to_owned(), body.to_owned()))
    }

    /// Opens the page as a browser does, and reloads it until the app answers;
    /// how often it was the waking-up page.
    async fn reload(socket: &str) -> Result<u32> {
        let agent = "Mozilla/5.0 (X11; Linux x86_64; rv:153.0) Gecko/20100101 Firefox/153.0";
        let accept = "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
        let browser = ["-A", agent, "-H", accept];
        let bound = Instant::now() + 2 * START;
        let mut pages = 0;
        loop {
            let (code, body) = ask(socket, &browser).await?;
            match code.as_str() {
                "200" => {
                    ensure!(body.starts_with("app web-"), "{body}");
                    return Ok(pages);
                }
                "503" if body.contains("is waking up") => pages += 1,
                _ => bail!("page {pages} is a {code}: {body}"),
            }
            ensure!(Instant::now() < bound, "the last of {pages}: {body}");
            sleep(RELOADS).await;
        }
    }

    /// Makes it and what belongs to it, and waits until it runs for the first time.
    async fn runs_at_last(place: &Place, app: &App) -> Result<()> {
        setup::start(place, app).await?;
        let manifest = service("web", "web", &[("", 80, 8080)], &["IPv4"]);
        place.create::<Service>(manifest).await?;
        managed::manage(place, "Deployment", "web", json!({})).await?;
        let probe = || managed::status(place, "web");
        let runs = |status: &ManagedWorkloadStatus| status.phase == Some(Phase::Running);
        wait::until("web to run", START + managed::PATIENCE, probe, runs).await?;
        Ok(())
    }

    /// COMPAT-09, COMPAT-10: nginx stands for ingress-nginx, which is built on it and
    /// has its time-out of 60 seconds. A program's request to an app that takes
    /// longer to start is a 504 by then, and the app's own answer where the time-out
    /// is raised to maxWait.
    #[tokio::test]
    async fn a_raised_time_out_lets_a_slow_start_through() {
        place::with("slow", async |place| {
            let start = Duration::from_secs(90);
            let app = App::new("web", "http").arg(&format!("-ready-after={}s", start.as_secs()));
            runs_at_last(&place, &app).await?;
            managed::pause_routed(&place, "web").await?;
            let folder = tempfile::tempdir()?;
            let socket = |name: &str| folder.path().join(name).display().to_string();
            let (usual, raised) = (socket("usual.sock"), socket("raised.sock"));
            let to = format!("proxy_pass http://{};", place.address("web").await?);
            let http = format!(
                "server {{ listen unix:{usual}; location / {{ {to} }} }}\n\
                 server {{ listen unix:{raised}; location / {{ {to} proxy_read_timeout 120; }} }}"
            );
            let _proxy = Nginx::start(folder.path(), &http).await?;
            let began = Instant::now();
            let impatient = async { Ok((ask(&usual, &[]).await?.0, began.elapsed())) };
            let ((code, took), (patient, body)) =
                tokio::try_join!(impatient, ask(&raised, &["--max-time", "119"]))?;
            ensure!(code == "504", "a {code} after {took:?}");
            ensure!((59..75).contains(&took.as_secs()), "a 504 after {took:?}");
            ensure!(
                patient == "200" && body.starts_with("app web-"),
                "{patient}: {body}"
            );
            Ok(())
        })
        .await;
    }

    /// PAGE-27: nginx stands for an ingress controller, which has its time-out of
    /// 60 seconds too, with the Service's address for a backend. While an app takes
    /// 150 seconds to start, a browser is never shown the proxy's 504, which a
    /// program that is held gets.
    #[tokio::test]
    async fn a_browser_never_sees_a_proxy_time_out() {
        place::with("proxied", async |place| {
            let app = App::new("web", "http").arg(&format!("-ready-after={}s", START.as_secs()));
            runs_at_last(&place, &app).await?;
            managed::pause_routed(&place, "web").await?;
            let folder = tempfile::tempdir()?;
            let socket = folder.path().join("front.sock").display().to_string();
            let http = format!(
                "server {{ listen unix:{socket}; location / {{\n\
                 proxy_pass http://{}; proxy_read_timeout 60s; proxy_set_header Host $http_host;\n\
                 }} }}",
                place.address("web").await?
            );
            let _proxy = Nginx::start(folder.path(), &http).await?;
            let program = ask(&socket, &[]);
            let (pages, (code, body)) = tokio::try_join!(reload(&socket), program)?;
            ensure!(pages > 10, "it was the app's own after {pages} pages");
            ensure!(code == "504", "a program gets a {code}: {body}");
            managed::phase(&place, "web", Phase::Running).await?;
            Ok(())
        })
        .await;
    }
}
