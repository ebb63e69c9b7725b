//! Clicks that come by a proxy which calls the doorman by another name than the
//! person's browser calls the page.

use std::net::{IpAddr, SocketAddr};

use napwake_api::stamp::RequestKind;
use napwake_tests_process::{
    Context, Result, callers, ensure,
    nginx::Nginx,
    world::{self, World},
};
use rstest::rstest;

use crate::browsers::{HOST, form, token_in};

/// Over plain HTTP, to a proxy that gives the doorman its own name for it.
const REWRITES: u16 = 8080;
/// The same over HTTPS.
const REWRITES_TLS: u16 = 8443;
/// Over plain HTTP, to a proxy that keeps the browser's name.
const KEEPS: u16 = 8081;

/// A browser, as it was seen to speak: what it says besides `Origin` of a page
/// that a person opens and of a click on its button. None says more over HTTP.
struct Browser {
    agent: &'static str,
    over_http: &'static [&'static str],
    opens: &'static [&'static str],
    clicks: &'static [&'static str],
}

const ACCEPT: &str = "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
const UPGRADE: &str = "Upgrade-Insecure-Requests: 1";
const NAVIGATE: &str = "Sec-Fetch-Mode: navigate";
const DOCUMENT: &str = "Sec-Fetch-Dest: document";
const TYPED: &str = "Sec-Fetch-Site: none";
const FROM_PAGE: &str = "Sec-Fetch-Site: same-origin";
const PERSON: &str = "Sec-Fetch-User: ?1";

const CHROMIUM: Browser = Browser {
    agent: "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) \
        Chrome/156.0.0.0 Safari/537.36",
    over_http: &[ACCEPT, UPGRADE],
    opens: &[ACCEPT, UPGRADE, TYPED, NAVIGATE, DOCUMENT, PERSON],
    clicks: &[ACCEPT, UPGRADE, FROM_PAGE, NAVIGATE, DOCUMENT, PERSON],
};

const FIREFOX: Browser = Browser {
    agent: "Mozilla/5.0 (X11; Linux x86_64; rv:153.0) Gecko/20100101 Firefox/153.0",
    ..CHROMIUM
};

const WEBKIT: Browser = Browser {
    agent: "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/605.1.15 (KHTML, like Gecko) \
        Version/60.5 Safari/605.1.15",
    over_http: &[ACCEPT, UPGRADE],
    opens: &[ACCEPT, TYPED, NAVIGATE, DOCUMENT],
    clicks: &[ACCEPT, FROM_PAGE, NAVIGATE, DOCUMENT],
};

/// ASK-73: behind a proxy that rewrites `Host`, a click over plain HTTP wakes
/// nothing, for its `Origin` isn't the host that the doorman is asked for; over
/// HTTPS, by HTTP/2, the same browser's click wakes. A proxy that keeps the name
/// shows that nothing else is wrong with the click over HTTP.
#[rstest]
#[case::chromium(CHROMIUM)]
#[case::firefox(FIREFOX)]
#[case::webkit(WEBKIT)]
#[tokio::test]
async fn a_rewritten_host_needs_https(#[case] browser: Browser) {
    world::with("rewritten", async |world| {
        world.put_wake_key().await?;
        let web = world.route("web").asking().make().await?;
        let kept = world.route("kept").asking().make().await?;
        let doorman = world.doorman().await?;
        let _proxy = proxy(world, web.at(&doorman), kept.at(&doorman)).await?;
        let (http, tls) = (browser.over_http, (browser.opens, browser.clicks));

        let page = browser.presses(world, "http", REWRITES, http, http).await?;
        ensure!(page.code == "403", "{page:?}");
        ensure!(page.body.contains("from another address"), "{page:?}");
        let stamp = web.last_request().await?;
        ensure!(stamp.is_none(), "{stamp:?}");

        let page = browser
            .presses(world, "https", REWRITES_TLS, tls.0, tls.1)
            .await?;
        page.is_waking()?;
        ensure!(page.version == "2", "{page:?}");
        let stamp = web.stamped().await?;
        ensure!(stamp.kind == RequestKind::Click, "{stamp:?}");

        let page = browser.presses(world, "http", KEEPS, http, http).await?;
        page.is_waking()?;
        kept.stamped().await?;
        Ok(())
    })
    .await;
}

/// What a browser shows.
#[derive(Debug)]
struct Shown {
    /// Of HTTP, as the proxy speaks it.
    version: String,
    code: String,
    body: String,
}

impl Shown {
    fn is_waking(&self) -> Result<()> {
        ensure!(self.code == "503", "{self:?}");
        ensure!(self.body.contains("is waking up"), "{self:?}");
        Ok(())
    }
}

impl Browser {
    /// Opens the page at one of the proxy's ports and presses its button.
    async fn presses(
        &self,
        world: &World,
        scheme: &str,
        port: u16,
        opens: &[&str],
        clicks: &[&str],
    ) -> Result<Shown> {
        let front = SocketAddr::new(front(world), port);
        let address = format!("{scheme}://{HOST}:{port}");
        let page = self.asks(&address, front, opens, &[]).await?;
        ensure!(page.code == "200", "{page:?}");
        let token = token_in(&page.body).with_context(|| format!("no button in {page:?}"))?;
        let (origin, data) = (format!("Origin: {address}"), form(&token));
        let clicks = [clicks, &[origin.as_str()]].concat();
        self.asks(&address, front, &clicks, &["--data-raw", &data])
            .await
    }

    async fn asks(
        &self,
        address: &str,
        front: SocketAddr,
        headers: &[&str],
        more: &[&str],
    ) -> Result<Shown> {
        let resolve = format!("{HOST}:{}:{}", front.port(), front.ip());
        let code = "\n%{http_version} %{http_code}";
        let mut args = vec!["-k", "-A", self.agent, "-w", code, "--resolve", &resolve];
        for header in headers {
            args.extend(["-H", header]);
        }
        args.extend(more);
        let out = callers::curl(&format!("{address}/a?b=c"), &args).await?;
        let out = out.ok()?;
        let (body, code) = out.rsplit_once('\n').context("a code")?;
        let (version, code) = code.split_once(' ').context("a version")?;
        Ok(Shown {
            version: version.to_owned(),
            code: code.to_owned(),
            body: body.to_owned(),
        })
    }
}

/// Where the proxy is.
fn front(world: &World) -> IpAddr {
    world.caller(0)
}

/// A proxy before both workloads, which ends TLS by a certificate of its own. What
/// it doesn't keep, it rewrites: nginx names whom it passes a request on to.
async fn proxy(world: &World, web: SocketAddr, kept: SocketAddr) -> Result<Nginx> {
    let (folder, at) = (world.api.folder(), front(world));
    let (key, certificate) = (folder.join("tls.key"), folder.join("tls.crt"));
    let (key, certificate) = (key.display().to_string(), certificate.display().to_string());
    let subject = format!("/CN={HOST}");
    let kind = ["req", "-x509", "-newkey", "ec", "-pkeyopt"];
    let made = ["ec_paramgen_curve:prime256v1", "-nodes", "-subj", &subject];
    let files = ["-keyout", &key, "-out", &certificate];
    let args = [&kind[..], &made, &files].concat();
    callers::run("openssl", &args).await?.ok()?;
    let http = format!(
        "ssl_certificate {certificate}; ssl_certificate_key {key};\n\
         server {{ listen {at}:{REWRITES}; listen {at}:{REWRITES_TLS} ssl http2;\n\
         location / {{ proxy_pass http://{web}; }} }}\n\
         server {{ listen {at}:{KEEPS};\n\
         location / {{ proxy_pass http://{kept}; proxy_set_header Host $http_host; }} }}"
    );
    Nginx::start(folder, &http).await
}
