use proptest::prelude::*;
use rstest::rstest;

use super::*;
use crate::head::{Head, HeadScan};

fn agents(added: &[&str]) -> Agents {
    Agents::with_added(added.iter().copied()).expect("no empty prefix")
}

fn get(agents: &Agents, user_agent: &str) -> Option<Checker> {
    agents.checker("GET", Some(user_agent.as_bytes()))
}

/// CLASS-24, CLASS-25, CLASS-26, CLASS-27, CLASS-28: each built-in prefix,
/// followed by what its checker writes after it.
#[rstest]
#[case("kube-probe/1.34")]
#[case("Prometheus/2.53.0")]
#[case("Blackbox Exporter/0.25.0")]
#[case("vm_promscrape")]
#[case("GrafanaAgent/v0.43.0")]
#[case("Alloy/v1.4.2 (linux; docker)")]
#[case("OpenTelemetry Collector Contrib/0.111.0 (linux/amd64)")]
#[case("otelcol-contrib/0.111.0")]
#[case("Datadog Agent/7.57.0")]
#[case("Datadog/Synthetics")]
#[case("ELB-HealthChecker/2.0")]
#[case("ELB-HealthChecker/3.0")]
#[case("Amazon-Route53-Health-Check-Service (ref 0f1e; report http://amzn.to/1vsZADi)")]
#[case("GoogleStackdriverMonitoring-UptimeChecks(https://cloud.google.com/monitoring)")]
#[case("Envoy/HC")]
#[case("Mozilla/5.0+(compatible; UptimeRobot/2.0; http://www.uptimerobot.com/)")]
#[case("Pingdom.com_bot_version_1.4_(http://www.pingdom.com/)")]
#[case("NewRelicPinger/1.0 (1234567)")]
#[case("Uptime-Kuma/1.23.13")]
#[case("Gatus/1.0")]
fn knows_the_built_in_checkers(#[case] agent: &str) {
    assert_eq!(get(&Agents::built_in(), agent), Some(Checker::Probe));
    assert_eq!(
        Agents::built_in().checker("HEAD", Some(agent.as_bytes())),
        Some(Checker::Probe)
    );
}

/// CLASS-29: these 19 prefixes and no other, literally as the page lists them.
#[test]
fn the_built_in_list_is_the_pages() {
    let page = "kube-probe/, Prometheus/, Blackbox Exporter/, vm_promscrape, GrafanaAgent/, \
        Alloy/, OpenTelemetry Collector, otelcol, Datadog Agent/, Datadog/Synthetics, \
        ELB-HealthChecker/, Amazon-Route53-Health-Check-Service, \
        GoogleStackdriverMonitoring-UptimeChecks, Envoy/HC, \
        Mozilla/5.0+(compatible; UptimeRobot/, Pingdom.com_bot, NewRelicPinger/, Uptime-Kuma/, \
        Gatus/";
    assert_eq!(BUILT_IN.join(", "), page);
}

/// CLASS-29, CLASS-30, T-40: near misses, other places in the text, and another
/// case are ordinary callers.
#[rstest]
#[case("Prometheus-x/1.0")]
#[case("Nagios/3.5")]
#[case("AcmeScrape/1")]
#[case("Datadog/Other")]
#[case("curl/8 kube-probe/1.30")]
#[case("xELB-HealthChecker/2.0")]
#[case("elb-healthchecker/2.0")]
#[case("KUBE-PROBE/1.30")]
#[case("Mozilla/5.0 (compatible; UptimeRobot/2.0)")]
#[case("Mozilla/5.0+( compatible; UptimeRobot/2.0)")]
#[case("Mozilla/5.0 (X11; Gatus/5)")]
#[case("Mozilla/5.0 (compatible; MyGatus/5)")]
#[case("Mozilla/5.0 (Compatible; Gatus/5)")]
#[case("(compatible;")]
#[case("")]
fn others_are_ordinary_callers(#[case] agent: &str) {
    assert_eq!(get(&Agents::built_in(), agent), None);
}

#[test]
fn no_user_agent_is_no_checker() {
    assert_eq!(Agents::built_in().checker("GET", None), None);
}

/// CLASS-15, CLASS-32: added prefixes, to which the same rules apply.
#[rstest]
#[case("MyCorpMonitor/3.1", Some(Checker::Probe))]
#[case("status-checker", Some(Checker::Probe))]
#[case("status-checker-eu", Some(Checker::Probe))]
#[case("the status-checker", None)]
#[case("mycorpmonitor/3.1", None)]
#[case("kube-probe/1.30", Some(Checker::Probe))]
fn knows_added_checkers(#[case] agent: &str, #[case] expected: Option<Checker>) {
    let agents = agents(&["MyCorpMonitor/", "status-checker"]);
    assert_eq!(get(&agents, agent), expected);
}

/// CLASS-31, T-40: any known prefix right after `(compatible;`, with any spaces.
#[rstest]
#[case("Mozilla/5.0 (compatible; MyCorpMonitor/3.1)")]
#[case("Mozilla/5.0 (compatible; Gatus/5)")]
#[case("Mozilla/5.0 (compatible;ELB-HealthChecker/2.0)")]
#[case("Mozilla/5.0 (compatible;   kube-probe/1.30)")]
#[case("Mozilla/5.0+(compatible; Gatus/5)")]
#[case("(compatible; Gatus/5)")]
#[case("Mozilla/5.0 (compatible; MSIE 10.0) (compatible; Gatus/5)")]
fn knows_checkers_that_pose_as_browsers(#[case] agent: &str) {
    assert_eq!(
        get(&agents(&["MyCorpMonitor/"]), agent),
        Some(Checker::Probe)
    );
}

/// CLASS-12, T-37, T-38: Google's check by its prefix alone, added or not.
#[rstest]
#[case("GoogleHC/1.0", Some(Checker::GoogleHealthCheck))]
#[case("GoogleHC", None)]
#[case("Mozilla/5.0 (compatible; GoogleHC/1.0)", None)]
fn knows_googles_check(#[case] agent: &str, #[case] expected: Option<Checker>) {
    assert_eq!(get(&Agents::built_in(), agent), expected);
}

/// T-38: `GoogleHC/` and `Mozilla/` may be added, an empty prefix may not.
#[test]
fn takes_added_prefixes_as_they_are() {
    assert_eq!(
        get(&agents(&["GoogleHC/"]), "GoogleHC/1.0"),
        Some(Checker::GoogleHealthCheck)
    );
    assert_eq!(
        get(&agents(&["Mozilla/"]), "Mozilla/5.0 (X11)"),
        Some(Checker::Probe)
    );
    assert!(Agents::with_added(["fine/", ""]).is_err());
}

/// CLASS-16, CLASS-17: any other method carries data.
#[rstest]
fn only_get_and_head_are_checks(
    #[values("POST", "PUT", "DELETE", "OPTIONS", "PATCH", "get", "Head")] method: &str,
    #[values("Prometheus/2.53", "MyCorpMonitor/3", "GoogleHC/1.0")] agent: &str,
) {
    let agents = agents(&["MyCorpMonitor/"]);
    assert_eq!(agents.checker(method, Some(agent.as_bytes())), None);
}

/// CLASS-18, CLASS-19, CLASS-20, T-36.
#[rstest]
#[case("/.env", true)]
#[case("/.git/config", true)]
#[case("/.aws/credentials", true)]
#[case("/app/.git/HEAD", true)]
#[case("/a/b/.htpasswd", true)]
#[case("/a/.", true)]
#[case("/a/../b", true)]
#[case("//.env", true)]
#[case("/a.b/c", false)]
#[case("/file.env", false)]
#[case("/", false)]
#[case("/a./b", false)]
#[case::query("/x?file=/.env", false)]
#[case::hidden_with_a_query("/.env?x", true)]
#[case::fragment("/x#/.env", false)]
#[case::encoded("/%2eenv", true)]
#[case::encoded_capital("/a/%2Egit/config", true)]
#[case::encoded_twice("/%252eenv", false)]
#[case::encoded_slash("/a%2f.env", false)]
#[case::broken_encoding("/%2", false)]
#[case::well_known("/.well-known/acme-challenge/x", false)]
#[case::well_known_alone("/.well-known", false)]
#[case::well_known_slash("/.well-known/", false)]
#[case::well_known_encoded("/%2ewell-known/x", false)]
#[case::dot_further_on("/.well-known/.env", false)]
#[case::leads_out("/.well-known/../.env", true)]
#[case::leads_out_encoded("/.well-known/%2e%2e/x", true)]
#[case::well_known_deeper("/app/.well-known/x", true)]
#[case::well_known_and_more("/.well-known-x", true)]
#[case::absolute("http://a.test/.env", true)]
#[case::absolute_plain("http://a.test/env", false)]
#[case::absolute_well_known("https://a.test/.well-known/x", false)]
#[case::absolute_no_path("http://.a.test", false)]
#[case::absolute_query_only("http://a.test?/.env", false)]
#[case::authority("a.test:443", false)]
#[case::asterisk("*", false)]
#[case::no_address("x?to=http://a.test/.env", false)]
fn tells_hidden_files(#[case] target: &str, #[case] hidden: bool) {
    assert_eq!(is_hidden(target), hidden);
}

/// T-33: crawlers, previewers, scanners and headless browsers.
#[rstest]
#[case("Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)")]
#[case(
    "Mozilla/5.0 (Linux; Android 6.0.1; Nexus 5X Build/MMB29P) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Mobile Safari/537.36 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"
)]
#[case(
    "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; bingbot/2.0; +http://www.bing.com/bingbot.htm) Chrome/130.0.0.0 Safari/537.36"
)]
#[case("Mozilla/5.0 (compatible; Google-InspectionTool/1.0;)")]
#[case("Mozilla/5.0 (compatible; Yahoo! Slurp; http://help.yahoo.com/help/us/ysearch/slurp)")]
#[case(
    "Mozilla/5.0 (compatible; Baiduspider-render/2.0; +http://www.baidu.com/search/spider.html)"
)]
#[case("Mozilla/5.0 (compatible; YandexImages/3.0; +http://yandex.com/bots)")]
#[case("Mozilla/5.0 (compatible; Bytespider; spider-feedback@bytedance.com)")]
#[case(
    "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; GPTBot/1.2; +https://openai.com/gptbot)"
)]
#[case("Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko); compatible; ChatGPT-User/1.0")]
#[case("Mozilla/5.0 (compatible; Claude-User/1.0; +Claude-User@anthropic.com)")]
#[case("meta-externalagent/1.1 (+https://developers.facebook.com/docs/sharing/webmasters/crawler)")]
#[case("facebookexternalhit/1.1")]
#[case(
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_11_1) AppleWebKit/601.2.4 (KHTML, like Gecko) Version/9.0.1 Safari/601.2.4 facebookexternalhit/1.1 Facebot Twitterbot/1.0"
)]
#[case("Twitterbot/1.0")]
#[case("Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)")]
#[case("TelegramBot (like TwitterBot)")]
#[case("LinkedInBot/1.0")]
#[case("WhatsApp/2.23.20.0")]
#[case("Mozilla/5.0 (compatible; Discordbot/2.0; +https://discordapp.com)")]
#[case(
    "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) HeadlessChrome/130.0.0.0 Safari/537.36"
)]
#[case(
    "Mozilla/5.0 (Linux; Android 11; moto g power (2022)) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Mobile Safari/537.36 Chrome-Lighthouse"
)]
#[case(
    "Mozilla/5.0 (Unknown; Linux x86_64) AppleWebKit/538.1 (KHTML, like Gecko) PhantomJS/2.1.1 Safari/538.1"
)]
#[case("Mozilla/5.0 (compatible; Let's Encrypt validation server; +https://www.letsencrypt.org)")]
#[case("Mozilla/5.0 (Windows NT 6.1; WOW64) AppleWebKit/534+ (KHTML, like Gecko) BingPreview/1.0b")]
#[case("Mozilla/5.0 zgrab/0.x")]
#[case("Mozilla/5.0 (compatible; Nmap Scripting Engine; https://nmap.org/book/nse.html)")]
#[case("Nuclei - Open-source project (github.com/projectdiscovery/nuclei)")]
#[case("Mozilla/5.0 (compatible; CensysInspect/1.1; +https://about.censys.io/)")]
#[case("Mozilla/5.0 (compatible; AhrefsBot/7.0; +http://ahrefs.com/robot/)")]
#[case("Mozilla/5.0 (compatible; Dataprovider.com)")]
#[case("Mozilla/5.0 (compatible; MSIE 9.0; Windows NT 6.1; +http://example.test/robot)")]
#[case(
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0.0.0 Safari/537.36 Playwright/1.40.0"
)]
#[case(
    "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/138.0.7204.168 Safari/537.36 DatadogSynthetics"
)]
#[case::monitor(
    "Mozilla/5.0 (X11; Linux x86_64; Catchpoint) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/75.0.3770.90 Safari/537.36"
)]
#[case::monitor_as_an_old_browser(
    "Mozilla/5.0 (compatible; MSIE 9.0; Windows NT 6.1; Trident/5.0; AppInsights)"
)]
#[case::scanner("Mozilla/5.0 [en] (X11, U; OpenVAS)")]
#[case::mail(
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/110.0.0.0 Safari/537.36 study@some-school.example"
)]
#[case("Mozilla/5.0 (HeadOnlyScraperV2)")]
#[case("MJ12bot")]
#[case("SOMECRAWLER/1")]
fn tells_robots(#[case] agent: &str) {
    assert!(names_robot(agent.as_bytes()), "{agent}");
}

/// T-33: no person's browser is taken for a robot.
#[rstest]
#[case(
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Safari/537.36"
)]
#[case(
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Safari/537.36 Edg/130.0.0.0"
)]
#[case(
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.0 Safari/605.1.15"
)]
#[case("Mozilla/5.0 (X11; Linux x86_64; rv:132.0) Gecko/20100101 Firefox/132.0")]
#[case(
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) CriOS/130.0.0.0 Mobile/15E148 Safari/604.1"
)]
#[case(
    "Mozilla/5.0 (iPad; CPU OS 17_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) FxiOS/131.0 Mobile/15E148 Safari/605.1.15"
)]
#[case(
    "Mozilla/5.0 (Linux; Android 10; CUBOT X18 Plus) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Mobile Safari/537.36"
)]
#[case(
    "Mozilla/5.0 (Linux; Android 9; CUBOT_P40) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Mobile Safari/537.36"
)]
#[case(
    "Mozilla/5.0 (Linux; Android 12; CUBOT) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Mobile Safari/537.36"
)]
#[case(
    "Mozilla/5.0 (Linux; Android 14; SM-S918B) AppleWebKit/537.36 (KHTML, like Gecko) SamsungBrowser/26.0 Chrome/122.0.0.0 Mobile Safari/537.36"
)]
#[case("Mozilla/5.0 (compatible; MSIE 10.0; Windows NT 6.2; Trident/6.0)")]
#[case(
    "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Safari/537.36 OPR/114.0.0.0"
)]
#[case(
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/128.0.0.0 YaBrowser/24.10.0.0 Safari/537.36"
)]
#[case("Mozilla/5.0 (compatible; Konqueror/4.5; FreeBSD) KHTML/4.5.4 (like Gecko)")]
#[case("Mozilla/5.0 (Windows NT 10.0; WOW64; Trident/7.0; rv:11.0) like Gecko")]
#[case(
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:128.0) Goanna/6.7 Firefox/128.0 PaleMoon/33.4.0"
)]
#[case(
    "Mozilla/5.0 (Linux; Android 15; CPH2557; wv) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/130.0.0.0 Mobile Safari/537.36 Instagram 406.0.0.58.159 Android (35/15; 480dpi; 1080x2400; OPPO; en_MY)"
)]
#[case(
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/22A3354 [FBAN/FBIOS;FBAV/480.0.0.37.109;FBDV/iPhone14,5;FBLC/de_DE]"
)]
#[case(
    "Mozilla/5.0 (Linux; Android 13; M2102J20SG) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/116.0.0.0 Mobile Safari/537.36 MicroMessenger/8.0.50.2701 Language/en"
)]
#[case(
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.6 Safari/605.1.15 Ddg/17.6"
)]
#[case(
    "Mozilla/5.0 (PlayStation; PlayStation 5/6.50) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/15.4 Safari/605.1.15"
)]
#[case(
    "Mozilla/5.0 (Web0S; Linux/SmartTV) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/94.0.4606.128 Safari/537.36 WebAppManager"
)]
#[case(
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Code/1.95.0 Chrome/128.0.0.0 Electron/32.2.1 Safari/537.36"
)]
#[case::scans_paper(
    "Mozilla/5.0 (Linux; Android 14; SM-S918B; wv) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/124.0.0.0 Mobile Safari/537.36 CamScanner/4.8.5"
)]
#[case::version_behind_an_at(
    "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/150.0.0.0 Mobile Safari/537.36 (Ecosia android@150.0.0.0)"
)]
#[case::calendar_behind_an_at(
    "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML,like Gecko) Mobile/21F79 Instagram 330.0.3 (iPhone14,3; iOS 17_5; en_IR@calendar=gregorian; en)"
)]
#[case::host_of_a_build(
    "Mozilla/5.0 (Linux; Android 4.1.2; IM-A850 Build/EXAMPLE.COM) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/30.0.1599.82 Mobile Safari/537.36"
)]
#[case("Mozilla/5.0 (X11) @")]
#[case("Botany/3.1 (iPhone)")]
#[case("curl/8.5.0")]
#[case("python-requests/2.32.0")]
#[case("Go-http-client/1.1")]
#[case("")]
fn tells_people_and_clients(#[case] agent: &str) {
    assert!(!names_robot(agent.as_bytes()), "{agent}");
}

/// ASK-31, ASK-32: JSON for a client that asks for it by name.
#[rstest]
#[case(&["application/json"], BodyForm::Json)]
#[case(&["text/html, application/json;q=0.5"], BodyForm::Json)]
#[case(&["Application/JSON ; charset=utf-8"], BodyForm::Json)]
#[case(&["application/problem+json"], BodyForm::Json)]
#[case(&["*/*", "application/json"], BodyForm::Json)]
#[case(&["application/json;q=0"], BodyForm::Plain)]
#[case(&["application/json; Q=0.000"], BodyForm::Plain)]
#[case(&["application/jsonp"], BodyForm::Plain)]
#[case(&["application/*"], BodyForm::Plain)]
#[case(&["*/*"], BodyForm::Plain)]
#[case(&["text/plain"], BodyForm::Plain)]
#[case(&["text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"], BodyForm::Plain)]
#[case(&[""], BodyForm::Plain)]
#[case(&[], BodyForm::Plain)]
fn tells_what_form_of_body_is_asked_for(#[case] accept: &[&str], #[case] expected: BodyForm) {
    let accept = accept.iter().map(|value| value.as_bytes());
    assert_eq!(body_form(accept), expected);
}

/// T-32: HTML by name, and only that.
#[rstest]
#[case(&["text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"], true)]
#[case(&["application/json", "Text/HTML ; level=1"], true)]
#[case(&["text/html;q=0.1"], true)]
#[case(&["text/html;q=0"], false)]
#[case(&["text/html;q=0.0, */*"], false)]
#[case(&["*/*"], false)]
#[case(&["text/*"], false)]
#[case(&["text/htmlx"], false)]
#[case(&["application/json"], false)]
#[case(&[], false)]
fn tells_whether_html_is_asked_for(#[case] accept: &[&str], #[case] expected: bool) {
    let accept = accept.iter().map(|value| value.as_bytes());
    assert_eq!(asks_for_html(accept), expected);
}

/// What a request with this line and these headers opens.
fn opens(line: &str, headers: &str) -> bool {
    let text = format!("{line} HTTP/1.1\r\n{headers}\r\n");
    match HeadScan::new().look(text.as_bytes()) {
        Head::Http1(request) => opens_page(&request),
        other => panic!("not a request: {other:?}"),
    }
}

/// PAGE-11, PAGE-12, PAGE-13, PAGE-14, PAGE-15, PAGE-16, PAGE-17, T-32, T-106:
/// what opens a page, by its method and what it says it's for.
#[rstest]
#[case::navigates("GET /", "Sec-Fetch-Mode: navigate\r\n", true)]
#[case::head("HEAD /", "Sec-Fetch-Mode: navigate\r\n", true)]
#[case::older_browser("GET /", "Accept: text/html,*/*;q=0.8\r\n", true)]
#[case::older_head("HEAD /", "Accept: text/html\r\n", true)]
#[case::navigates_to_anything("GET /", "Sec-Fetch-Mode: navigate\r\nAccept: */*\r\n", true)]
#[case::prefetch("GET /", "Sec-Purpose: prefetch\r\nSec-Fetch-Mode: navigate\r\n", true)]
#[case::in_a_frame(
    "GET /",
    "Sec-Fetch-Dest: iframe\r\nSec-Fetch-Mode: navigate\r\n",
    true
)]
#[case::upgrade_to_h2c("GET /", "Accept: text/html\r\nUpgrade: h2c\r\n", true)]
#[case::script("GET /", "Sec-Fetch-Mode: cors\r\nAccept: text/html\r\n", false)]
#[case::same_origin("GET /", "Sec-Fetch-Mode: same-origin\r\nAccept: text/html\r\n", false)]
#[case::no_cors("GET /", "Sec-Fetch-Mode: no-cors\r\n", false)]
#[case::websocket("GET /", "Sec-Fetch-Mode: websocket\r\nUpgrade: websocket\r\n", false)]
#[case::older_websocket("GET /", "Accept: text/html\r\nUpgrade: websocket\r\n", false)]
#[case::api_client("GET /", "Accept: application/json\r\n", false)]
#[case::anything("GET /", "Accept: */*\r\n", false)]
#[case::nothing_said("GET /", "", false)]
#[case::form("POST /", "Sec-Fetch-Mode: navigate\r\nAccept: text/html\r\n", false)]
#[case::other_method("OPTIONS /", "Sec-Fetch-Mode: navigate\r\n", false)]
fn tells_what_opens_a_page(#[case] line: &str, #[case] headers: &str, #[case] expected: bool) {
    assert_eq!(opens(line, headers), expected);
}

/// ASK-49, ASK-50: a person's browser starts with `Mozilla/` and names no robot.
#[rstest]
#[case(
    Some("Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0"),
    true
)]
#[case(Some("Mozilla/5.0"), true)]
#[case(Some("Opera/9.80 (X11; Linux) Presto/2.12"), false)]
#[case(Some("mozilla/5.0 (X11)"), false)]
#[case(Some(" Mozilla/5.0 (X11)"), false)]
#[case(Some("curl/8.5.0"), false)]
#[case(
    Some("Mozilla/5.0 (compatible; bingbot/2.0; +http://www.bing.com/bingbot.htm)"),
    false
)]
#[case(
    Some(
        "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) HeadlessChrome/142.0.0.0 Safari/537.36"
    ),
    false
)]
#[case(Some(""), false)]
#[case(None, false)]
fn tells_a_persons_browser(#[case] agent: Option<&str>, #[case] expected: bool) {
    assert_eq!(is_browser(agent.map(str::as_bytes)), expected);
}

proptest! {
    #[test]
    fn nothing_a_caller_sends_is_too_odd(
        target in ".*",
        agent in prop::collection::vec(any::<u8>(), 0..2048),
    ) {
        fuzz_hidden(&target);
        names_robot(&agent);
        body_form([agent.as_slice()]);
        Agents::built_in().checker("GET", Some(&agent));
    }
}
