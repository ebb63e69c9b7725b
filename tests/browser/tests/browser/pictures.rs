//! Pictures of the pages, for people to look at: in `target/browser`.

mod long {
    use napwake_testkit::{apps::App, place};
    use napwake_tests_browser::{
        Result,
        browser::{self, Browser, Kind, Page, pictures},
        ensure,
        workload::{asks, asleep, asleep_for_good},
    };
    use serde_json::json;

    /// How wide a page is, in pixels: on a small telephone, on a large screen.
    const WIDTHS: [u32; 2] = [320, 1440];

    /// Both pages in each of their states, narrow and wide, light and dark. None
    /// is wider than its window.
    #[tokio::test]
    async fn of_each_page() {
        place::with("pictures", async |place| {
            let asking = asleep(&place, &App::new("asking", "http"), asks()).await?;
            let waking = asleep_for_good(&place, &App::new("waking", "http"), json!({})).await?;
            browser::with(Kind::Chromium, &[], async |browser| {
                browser.open(&format!("http://{asking}/a/b?c=d")).await?;
                take(browser, "asleep").await?;
                let forget = "document.querySelector('form input').value = 'none';";
                browser.run(forget, Vec::new()).await?;
                browser.press().await?;
                browser.until("the refusal", Page::is_refusal).await?;
                take(browser, "not-woken").await?;
                browser.open(&format!("http://{waking}/a/b?c=d")).await?;
                browser.until("the page", Page::is_waking).await?;
                take(browser, "waking").await
            })
            .await
        })
        .await;
    }

    async fn take(browser: &Browser, name: &str) -> Result<()> {
        for scheme in ["light", "dark"] {
            let feature = json!({"name": "prefers-color-scheme", "value": scheme});
            let media = json!({"features": [feature]});
            browser
                .devtools("Emulation.setEmulatedMedia", media)
                .await?;
            for width in WIDTHS {
                let metrics = json!({
                    "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false,
                });
                let set = "Emulation.setDeviceMetricsOverride";
                browser.devtools(set, metrics).await?;
                let wide = "return document.documentElement.scrollWidth;";
                let wide = browser.run(wide, Vec::new()).await?;
                ensure!(wide == json!(width), "{name} is {wide} wide at {width}");
                let file = format!("{name}-{scheme}-{width}.png");
                browser.picture(&pictures().join(file)).await?;
            }
        }
        Ok(())
    }
}
