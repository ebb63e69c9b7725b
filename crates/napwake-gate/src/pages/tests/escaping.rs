use proptest::prelude::*;
use rstest::rstest;

use super::*;

/// What changes how the text around it reads, or can't be seen at all.
fn is_unseen(c: char) -> bool {
    let marks = ['\u{ad}', '\u{61c}', '\u{feff}', '\u{fffd}'];
    c.is_control() && c != '\n'
        || marks.contains(&c)
        || ('\u{200b}'..='\u{200f}').contains(&c)
        || ('\u{2028}'..='\u{202e}').contains(&c)
        || ('\u{2060}'..='\u{206f}').contains(&c)
        || ('\u{e0000}'..='\u{e007f}').contains(&c)
}

/// How often each character of markup is there.
fn markup(html: &str) -> [usize; 4] {
    ['<', '>', '"', '\''].map(|c| html.matches(c).count())
}

/// T-103: no markup, no direction mark and no line of a header gets in.
fn check_harmless(address: Address<'_>, token: &str) {
    let harmless = Address {
        host: if address.host.is_empty() { "" } else { "h" },
        target: if address.target.is_empty() { "" } else { "/t" },
    };
    for (hostile, plain) in all(address).iter().zip(all(harmless)) {
        let (hostile, plain) = (text(hostile), text(&plain));
        let (head, body) = hostile.split_once("\r\n\r\n").expect("a body");
        let (plain_head, plain_body) = plain.split_once("\r\n\r\n").expect("a body");
        assert_eq!(markup(body), markup(plain_body), "{body}");
        assert!(!body.contains(is_unseen), "{body:?}");
        let without_length = |head: &str| {
            let lines = head
                .lines()
                .filter(|line| !line.starts_with("Content-Length"));
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(without_length(head), without_length(plain_head));
    }
    let page = |token: &str| {
        // As long as a token is.
        let token = token.bytes().chain(TOKEN.bytes()).take(TOKEN.len());
        let token = Token::read(&token.collect::<Vec<_>>());
        let said = Said::Nothing;
        html(
            &AsleepPage {
                address: USUAL,
                token,
                said,
            }
            .answer(),
        )
    };
    assert_eq!(markup(&page(token)), markup(&page("t")));
}

#[rstest]
#[case("</title><script>alert(1)</script>", "/<img src=x onerror=alert(1)>")]
#[case("\" onmouseover=\"alert(1)", "/' onfocus='alert(1)")]
#[case("a\r\nSet-Cookie: a=b", "/\r\n\r\n<script>")]
#[case("a\u{0}\u{1b}[2J", "/\u{202e}gro.elpmaxe\u{2066}")]
#[case("{{ token }}{% include \"x\" %}", "/{# a #}")]
#[case("example.com\u{200b}.evil.example", "/--><!--")]
#[case("&lt;script&gt;&#60;", "/&amp;&quot;]]>")]
fn whatever_is_asked_for(#[case] host: &str, #[case] target: &str) {
    check_harmless(Address { host, target }, target);
}

/// T-126: letters of any script are shown as they are, each part by itself and
/// from left to right, so that none changes how the other reads.
#[test]
fn right_to_left() {
    let page = asleep(
        Address {
            host: "חנות.example",
            target: "/عربة",
        },
        Said::Nothing,
    );
    let html = html(&page);
    assert!(html.contains("<bdi class=\"host\" dir=\"ltr\">חנות.example</bdi>"));
    assert!(html.contains("<bdi class=\"target\" dir=\"ltr\">/عربة</bdi>"));
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[<>\"'&/=;#{}% a-z\u{202a}-\u{202e}\u{2066}-\u{2069}\r\n\0]{0,400}",
    ]
}

proptest! {
    #[test]
    fn anything(host in any_text(), target in any_text(), token in any_text()) {
        // One of nothing but unseen characters reads as if it weren't there.
        prop_assume!(host.contains(|c: char| c.is_ascii_graphic()) || host.is_empty());
        prop_assume!(target.contains(|c: char| c.is_ascii_graphic()) || target.is_empty());
        check_harmless(Address { host: &host, target: &target }, &token);
    }
}
