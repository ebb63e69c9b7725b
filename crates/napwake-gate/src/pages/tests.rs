//! The pages, as the caller gets them.

mod escaping;
mod headers;
mod text;

use super::*;

const USUAL: Address<'_> = Address {
    host: "preview-42.example.com:8443",
    target: "/cart?step=2",
};

const TOKEN: &str = "dG9rZW4udG9rZW4udG9rZW4udG9rZW4udG9rZW4udG9rZW4udG9rZW4udG9rZW4u";

const SAID: [Said; 6] = [
    Said::Nothing,
    Said::RanOut,
    Said::OtherAddress,
    Said::TooSoon,
    Said::OldBrowser,
    Said::NotPressed,
];

fn waking(address: Address<'_>, starting_for: Option<u64>) -> Answer {
    WakingPage {
        address,
        starting_for: starting_for.map(Duration::from_secs),
    }
    .answer(Body::Sent)
}

fn asleep(address: Address<'_>, said: Said) -> Answer {
    AsleepPage {
        address,
        token: Token::read(TOKEN.as_bytes()),
        said,
    }
    .answer()
}

/// Every page there is, for this address.
fn all(address: Address<'_>) -> Vec<Answer> {
    let mut pages = vec![
        waking(address, None),
        waking(address, Some(24)),
        waking(address, Some(4000)),
        AsleepPage {
            address,
            token: None,
            said: Said::Nothing,
        }
        .answer(),
    ];
    pages.extend(SAID.map(|said| asleep(address, said)));
    pages
}

fn text(answer: &Answer) -> String {
    String::from_utf8(answer.to_bytes()).expect("text")
}

fn html(answer: &Answer) -> String {
    let text = text(answer);
    let (_, html) = text.split_once("\r\n\r\n").expect("a body");
    html.to_owned()
}

/// What stands between the first `start` and the next `end`.
fn between<'a>(text: &'a str, start: &str, end: &str) -> &'a str {
    let (_, rest) = text.split_once(start).expect(start);
    rest.split_once(end).expect(end).0
}

/// The text that a person reads, its markup left out.
fn words(answer: &Answer) -> String {
    let html = html(answer);
    let main = between(&html, "<main>", "</main>");
    let mut words = String::new();
    for piece in main.split('<') {
        words.push_str(piece.split_once('>').map_or(piece, |(_, text)| text));
    }
    words.split_whitespace().collect::<Vec<_>>().join(" ")
}
