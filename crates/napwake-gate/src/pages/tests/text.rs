use rstest::rstest;

use super::*;

/// The head and the page, the style and script left out: those are files of
/// their own, and another test holds their hashes against the policy.
fn readable(answer: &Answer) -> String {
    let mut text = text(answer).replace("\r\n", "\n");
    for (start, end) in [("<style>", "</style>"), ("<script>", "</script>")] {
        if text.contains(start) {
            let own = between(&text, start, end).to_owned();
            text = text.replace(&own, "…");
        }
    }
    for start in [
        "Content-Length: ",
        "style-src 'sha256-",
        "script-src 'sha256-",
    ] {
        if text.contains(start) {
            let value = between(&text, start, if start.ends_with('-') { "'" } else { "\n" });
            text = text.replace(&format!("{start}{value}"), &format!("{start}…"));
        }
    }
    text
}

#[test]
fn waking_up() {
    insta::assert_snapshot!("waking", readable(&waking(USUAL, None)));
}

/// PAGE-08.
#[test]
fn waking_up_for_a_while() {
    insta::assert_snapshot!("waking_resuming", readable(&waking(USUAL, Some(24))));
}

#[test]
fn waking_up_for_long() {
    insta::assert_snapshot!("waking_long", readable(&waking(USUAL, Some(125))));
}

#[rstest]
#[case("asleep", Said::Nothing)]
#[case("asleep_ran_out", Said::RanOut)]
#[case("asleep_other_address", Said::OtherAddress)]
#[case("asleep_too_soon", Said::TooSoon)]
#[case("asleep_old_browser", Said::OldBrowser)]
#[case("asleep_not_pressed", Said::NotPressed)]
fn is_asleep(#[case] name: &str, #[case] said: Said) {
    insta::assert_snapshot!(name, readable(&asleep(USUAL, said)));
}

/// T-25: where nothing can be signed there's no button, but the other way.
#[test]
fn is_asleep_without_a_button() {
    let page = AsleepPage {
        address: USUAL,
        token: None,
        said: Said::Nothing,
    }
    .answer();
    assert!(!html(&page).contains("<form"));
    insta::assert_snapshot!("asleep_without_a_button", readable(&page));
}

/// T-24, T-25: nor is there any talk of one.
#[rstest]
#[case(Said::RanOut)]
#[case(Said::OtherAddress)]
#[case(Said::NotPressed)]
fn a_click_is_answered_without_a_button(#[case] said: Said) {
    let page = AsleepPage {
        address: USUAL,
        token: None,
        said,
    };
    let words = words(&page.answer());
    assert!(words.contains("Nothing woke"), "{words}");
    assert!(!words.contains("button below"), "{words}");
    assert!(!words.contains("Press the button"), "{words}");
}

/// PAGE-02, PAGE-09: it says that it's starting, and not for how long unless
/// that's known.
#[test]
fn it_says_that_it_is_starting() {
    let words = words(&waking(USUAL, None));
    assert!(words.contains("is starting now"), "{words}");
    assert!(
        !words.contains("second") && !words.contains("minute"),
        "{words}"
    );
    assert!(!html(&waking(USUAL, None)).contains("<time"));
}

/// PAGE-08: to the second, for as long as anybody looks.
#[rstest]
#[case(0, "0 seconds")]
#[case(1, "1 second")]
#[case(20, "20 seconds")]
#[case(60, "1 minute")]
#[case(61, "1 minute 1 second")]
#[case(3599, "59 minutes 59 seconds")]
#[case(3600, "1 hour")]
#[case(7265, "2 hours 1 minute")]
fn how_long_it_has_been_starting(#[case] seconds: u64, #[case] expected: &str) {
    let page = waking(USUAL, Some(seconds));
    let expected_words = format!("has been starting for {expected}.");
    let words = words(&page);
    assert!(words.contains(&expected_words), "{words}");
    assert!(html(&page).contains(&format!("datetime=\"PT{seconds}S\"")));
}

/// PAGE-07, ASK-72: the address in the heading, the host with its port.
#[test]
fn the_address_is_in_the_heading() {
    for page in all(USUAL) {
        let html = html(&page);
        let heading = between(&html, "<h1>", "</h1>");
        assert!(
            heading.contains(">preview-42.example.com:8443<"),
            "{heading}"
        );
        assert!(heading.contains(">/cart?step=2<"), "{heading}");
    }
}

#[rstest]
#[case::a_root("a.example", "/", "a.example is asleep")]
#[case::http_1_0("", "/a", "/a is asleep")] // T-53
#[case::nothing_at_all("", "", "This environment is asleep")]
#[case::through_a_proxy(
    "a.example",
    "HTTP://b.example/c?d=e://f",
    "a.example/c?d=e://f is asleep"
)]
#[case::through_a_proxy_to_a_root("a.example", "http://b.example", "a.example is asleep")]
#[case::through_a_proxy_to_a_query("a.example", "https://b.example?c/d", "a.example?c/d is asleep")]
#[case::an_address_within("a.example", "/go?to=http://b/", "a.example/go?to=http://b/ is asleep")]
#[case::no_address("a.example", "go?to=http://b/", "a.examplego?to=http://b/ is asleep")]
#[case::everywhere("a.example", "*", "a.example* is asleep")]
fn the_heading(#[case] host: &str, #[case] target: &str, #[case] expected: &str) {
    let page = asleep(Address { host, target }, Said::Nothing);
    assert!(words(&page).starts_with(expected), "{}", words(&page));
}

/// ASK-12, ASK-13, ASK-17, ASK-18, ASK-21, ASK-22, ASK-23, TOKEN-14, T-14: what it says of a
/// click that woke nothing; the button is there again.
#[rstest]
#[case(Said::RanOut, &["Nothing woke, as the page may have been open too long", "fresh"])]
#[case(Said::OtherAddress, &[
    "the click came from another address",
    "someone with access to the cluster can wake it with kubectl napwake wake",
])]
#[case(Said::TooSoon, &["try again in a minute"])]
#[case(Said::OldBrowser, &[
    "your browser doesn’t say that the click came from this page",
    "Use a current browser",
    "someone with access to the cluster wake it with kubectl napwake wake",
])]
#[case(Said::NotPressed, &["Press the button itself", "kubectl napwake wake"])]
fn of_a_click_that_woke_nothing(#[case] said: Said, #[case] expected: &[&str]) {
    let page = asleep(USUAL, said);
    let words = words(&page);
    for expected in expected {
        assert!(words.contains(expected), "{words}");
    }
    assert!(html(&page).contains("<button>Wake it</button>"));
    assert!(html(&page).contains("<title>Not woken"));
}

/// The button posts to where the page came from, so the form names no address,
/// and nothing is said of a click that there wasn't.
#[test]
fn the_form_posts_back() {
    let html = html(&asleep(USUAL, Said::Nothing));
    let form = between(&html, "<form ", "</form>");
    assert!(
        form.starts_with("method=\"post\" autocomplete=\"off\">"),
        "{form}"
    );
    let field = format!("<input type=\"hidden\" name=\"napwake-wake\" value=\"{TOKEN}\">");
    assert!(form.contains(&field));
    assert!(!html.contains("<div class=\"notice\""));
}

/// T-09: a reload is a GET of the page's own address, since what the refresh names
/// is empty once read. Nothing else reloads, as that could post again.
#[test]
fn reloads_name_no_other_address() {
    for page in all(USUAL) {
        let seconds = if page.kind.label() == "waking_page" {
            3
        } else {
            60
        };
        let html = html(&page);
        let refresh = format!("<meta http-equiv=\"refresh\" content=\"{seconds}; url=&#1;\">");
        assert_eq!(html.matches(&refresh).count(), 1);
        assert_eq!(html.matches("http-equiv").count(), 1);
        assert!(!html.contains("location.reload"));
    }
}

/// The tab icon needs no request.
#[test]
fn the_icon_is_drawn_in() {
    for page in all(USUAL) {
        let html = html(&page);
        let icon = between(&html, "rel=\"icon\" type=\"image/svg+xml\" href=\"", "\"");
        let start = "data:image/svg+xml,%3Csvg xmlns=%27http://www.w3.org/2000/svg%27 ";
        assert!(icon.starts_with(start), "{icon}");
        assert!(icon.ends_with("%3C/svg%3E"), "{icon}");
        assert!(!icon.contains(['<', '>', '#', '&', '\'']), "{icon}");
    }
}

#[test]
fn a_long_address_is_cut() {
    let host = "h".repeat(5000);
    let target = format!("/{}", "t".repeat(5000));
    let html = html(&asleep(
        Address {
            host: &host,
            target: &target,
        },
        Said::Nothing,
    ));
    assert!(html.contains(&format!(">{}…</bdi>", "h".repeat(260))));
    assert!(html.contains(&format!(">/{}…</bdi>", "t".repeat(119))));
    assert!(html.contains(&format!("<title>Asleep · {}…</title>", "h".repeat(60))));
}
