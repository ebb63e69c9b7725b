//! Robots, by what their `User-Agent` calls itself (T-33).
//!
//! A list of our own: names of crawlers, link previewers, scanners, monitors and
//! headless browsers, chosen so that no person's browser has one of them. What is
//! told wrongly is in `docs/user-agents.md`.

use std::sync::LazyLock;

use aho_corasick::AhoCorasick;

/// How much of a `User-Agent` is looked at. Real ones are shorter.
const LOOKED_AT: usize = 1024;

/// Words that name a robot where a word ends with them, so that `Googlebot/2.1`
/// counts and `botany` doesn't (F-182).
const WORD_ENDS: [&str; 11] = [
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
    "validator",
];

/// What people use and ends like a robot: a maker of phones, and an app that
/// shows pages (T-33).
const PEOPLES: [&str; 2] = ["cubot", "camscanner"];

/// What appears in no browser a person uses, wherever it stands: an address to
/// read more at, or a name.
const ANYWHERE: [&str; 63] = [
    "http://",
    "https://",
    // What fetches for a person who isn't there, such as `ChatGPT-User`.
    "-user/",
    "chatgpt-user",
    // Browsers without a person.
    "headless",
    "phantomjs",
    "playwright",
    "puppeteer",
    "selenium",
    "cypress/",
    // Crawlers, previewers and fetchers.
    "slurp",
    "scraper",
    "scraping",
    "externalhit",
    "externalagent",
    "externalfetcher",
    "facebookcatalog",
    "inspectiontool",
    "google-",
    "-google",
    "googleagent",
    "googleother",
    "googleimageproxy",
    "google favicon",
    "feedfetcher",
    "ia_archiver",
    "archivebox",
    "whatsapp/",
    "outbrain",
    "ips-agent",
    // Scanners.
    "zgrab",
    "nuclei",
    "nikto",
    "openvas",
    "watchtowr",
    "burpcollaborator",
    "researchscan",
    "netcraft",
    "sucuri",
    // What looks at a site for its owner: by name, for the page isn't the app.
    "lighthouse",
    "gtmetrix",
    "ptst/",
    "page speed",
    "dareboost",
    "cloudflareobservatory",
    "siteimprove",
    "linkcheck",
    "linktiger",
    "silktide",
    "hardenize",
    "securityheaders",
    "cookiehub",
    "ghost inspector",
    // Monitors that drive a browser.
    "synthetic",
    "catchpoint",
    "thousandeyes",
    "pingdom",
    "statuscake",
    "dejaclick",
    "appinsights",
    "dotcom-monitor",
    "gotsitemonitor",
    "uptimedoctor",
];

/// What robots write before their names (F-180).
const COMPATIBLE: &str = "compatible;";

/// The browsers that people used which write it too.
const COMPATIBLE_BROWSERS: [&str; 2] = ["msie ", "konqueror/"];

/// What is looked for, all at once.
struct Marks {
    search: AhoCorasick,
    /// What each says, in the order in which the search numbers them.
    signs: Vec<Sign>,
}

/// What a mark says of whom it stands in.
#[derive(Clone, Copy)]
enum Sign {
    Robot,
    /// A robot, where a word ends.
    RobotAtWordEnd,
    /// A robot, where an address of mail goes on behind it.
    RobotInMail,
    /// A robot, or one of those that pose as it.
    Posing,
    PosingBrowser,
}

/// Built for the first caller, and kept. It can't be `None`: so short a list
/// always makes a search. If it were, nobody would be a robot, and robots wake
/// nothing that asks either way (ASK-62).
static MARKS: LazyLock<Option<Marks>> = LazyLock::new(Marks::build);

/// Whether a `User-Agent` names a robot. Case doesn't matter.
pub fn names_robot(user_agent: &[u8]) -> bool {
    let agent = user_agent.get(..LOOKED_AT).unwrap_or(user_agent);
    MARKS.as_ref().is_some_and(|marks| marks.name_robot(agent))
}

impl Marks {
    fn build() -> Option<Self> {
        let each = |names: &'static [&str], sign: Sign| names.iter().map(move |name| (*name, sign));
        let (names, signs): (Vec<_>, _) = each(&ANYWHERE, Sign::Robot)
            .chain(each(&WORD_ENDS, Sign::RobotAtWordEnd))
            .chain([("@", Sign::RobotInMail), (COMPATIBLE, Sign::Posing)])
            .chain(each(&COMPATIBLE_BROWSERS, Sign::PosingBrowser))
            .unzip();
        let search = AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .build(names)
            .ok()?;
        Some(Self { search, signs })
    }

    /// One pass over `agent`, without an allocation.
    fn name_robot(&self, agent: &[u8]) -> bool {
        let (mut poses, mut is_posing_browser) = (false, false);
        for found in self.search.find_overlapping_iter(agent) {
            let end = found.end();
            let is_robot = match self.signs.get(found.pattern().as_usize()) {
                Some(Sign::Robot) => true,
                Some(Sign::RobotAtWordEnd) => ends_word(agent, end) && !is_peoples(agent, end),
                Some(Sign::RobotInMail) => is_host(agent.get(end..).unwrap_or_default()),
                Some(Sign::Posing) => {
                    poses = true;
                    false
                }
                Some(Sign::PosingBrowser) => {
                    is_posing_browser = true;
                    false
                }
                None => false,
            };
            if is_robot {
                return true;
            }
        }
        poses && !is_posing_browser
    }
}

fn ends_word(agent: &[u8], end: usize) -> bool {
    agent
        .get(end)
        .is_none_or(|next| !next.is_ascii_alphanumeric())
}

fn is_peoples(agent: &[u8], end: usize) -> bool {
    PEOPLES.iter().any(|name| {
        end.checked_sub(name.len())
            .and_then(|start| agent.get(start..end))
            .is_some_and(|found| found.eq_ignore_ascii_case(name.as_bytes()))
    })
}

/// Whether a host's name comes next. A version does in a browser of people's,
/// as in `Ecosia android@150.0.0.0`.
fn is_host(text: &[u8]) -> bool {
    let is_in_label = |byte: &&u8| byte.is_ascii_alphanumeric() || **byte == b'-';
    let label = text.iter().take_while(is_in_label).count();
    let next = text.get(label..).unwrap_or_default();
    label > 0 && matches!(next, [b'.', first, ..] if first.is_ascii_alphabetic())
}
