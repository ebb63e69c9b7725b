//! Robots, by what their `User-Agent` calls itself (T-33).
//!
//! A list of our own: names of crawlers, link previewers, scanners and headless
//! browsers, chosen so that no person's browser has one of them.

/// How much of a `User-Agent` is looked at. Real ones are shorter.
const LOOKED_AT: usize = 1024;

/// Words that name a robot where a word ends with them, so that `Googlebot/2.1`
/// counts and `botany` doesn't (F-182).
const WORD_ENDS: [&str; 12] = [
    "bot",
    "bots",
    "crawl",
    "crawler",
    "crawlers",
    "crawling",
    "spider",
    "spiders",
    "preview",
    "scanner",
    "scraper",
    "validator",
];

/// Makers of phones whose names end like a robot's (T-33).
const PHONES: [&str; 1] = ["cubot"];

/// What appears in no browser a person uses, wherever it stands: an address to
/// read more at, or a name.
const ANYWHERE: [&str; 32] = [
    "http://",
    "https://",
    "-user/",
    "chatgpt-user",
    "headless",
    "phantomjs",
    "playwright",
    "puppeteer",
    "selenium",
    "lighthouse",
    "synthetics",
    "gtmetrix",
    "ptst/",
    "slurp",
    "externalhit",
    "externalagent",
    "externalfetcher",
    "facebookcatalog",
    "inspectiontool",
    "google-site-verification",
    "google-read-aloud",
    "google-agent",
    "googleagent",
    "googleother",
    "googleimageproxy",
    "mediapartners-google",
    "feedfetcher",
    "ia_archiver",
    "whatsapp/",
    "zgrab",
    "nuclei",
    "nikto",
];

/// What robots write before their names (F-180).
const COMPATIBLE: &str = "compatible;";

/// The browsers that people used which write it too.
const COMPATIBLE_BROWSERS: [&str; 2] = ["msie ", "konqueror/"];

/// Whether a `User-Agent` names a robot. Case doesn't matter.
pub fn names_robot(user_agent: &[u8]) -> bool {
    let agent = user_agent.get(..LOOKED_AT).unwrap_or(user_agent);
    has(agent, COMPATIBLE) && !COMPATIBLE_BROWSERS.iter().any(|name| has(agent, name))
        || ANYWHERE.iter().any(|name| has(agent, name))
        || WORD_ENDS.iter().any(|word| has_word_ending(agent, word))
}

fn has(agent: &[u8], name: &str) -> bool {
    ends(agent, name).next().is_some()
}

fn has_word_ending(agent: &[u8], word: &str) -> bool {
    ends(agent, word).any(|end| ends_word(agent, end) && !is_phone(agent, end))
}

/// Where each occurrence of `name` ends.
fn ends<'a>(agent: &'a [u8], name: &'a str) -> impl Iterator<Item = usize> + 'a {
    agent
        .windows(name.len())
        .enumerate()
        .filter(move |(_, window)| window.eq_ignore_ascii_case(name.as_bytes()))
        .map(move |(at, _)| at + name.len())
}

fn ends_word(agent: &[u8], end: usize) -> bool {
    agent
        .get(end)
        .is_none_or(|next| !next.is_ascii_alphanumeric())
}

fn is_phone(agent: &[u8], end: usize) -> bool {
    PHONES.iter().any(|phone| {
        end.checked_sub(phone.len())
            .and_then(|start| agent.get(start..end))
            .is_some_and(|name| name.eq_ignore_ascii_case(phone.as_bytes()))
    })
}
