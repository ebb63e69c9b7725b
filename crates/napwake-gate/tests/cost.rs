//! What a caller costs until it's judged: no memory beyond what is held of it, and no
//! more instructions than were counted once.

use std::time::Duration;

use allocation_counter::{AllocationInfo, measure};
use jiff::Timestamp;
use napwake_api::workload::{Phase, WakeMode, WakePage};
use napwake_gate::{
    Moment,
    caller::Agents,
    head::{Head, HeadScan},
    places::WorkloadKey,
    token::{Found, KEY_BYTES, Keys, ReadAt},
    verdict::{Door, Heard, Sleeper, Standing, Verdict, judge},
};
use rstest::rstest;

const CHROME: &str = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 \
    (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36";
const GOOGLEBOT: &str = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)";

/// How many bytes the heads here have.
const HEAD: usize = 1024;

/// What is before a door, with one workload behind it.
struct Place {
    workload: WorkloadKey,
    agents: Agents,
    keys: Keys,
}

impl Place {
    /// With this key, if any, for the pages' buttons.
    fn with(key: Option<&[u8]>) -> Self {
        let mut keys = Keys::default();
        if let Some(key) = key {
            let read = ReadAt {
                began: Moment::ORIGIN,
                done: Moment::ORIGIN,
            };
            let _seen = keys.found(Found::Key(key), read);
        }
        Self {
            workload: WorkloadKey::new("preview-42", "api"),
            agents: Agents::with_added(["MyCorpMonitor/", "status-checker"]).expect("no empty one"),
            keys,
        }
    }

    fn sleeper(&self, standing: Standing) -> Sleeper<'_> {
        Sleeper {
            workload: &self.workload,
            mode: match standing {
                Standing::Asks => WakeMode::Ask,
                _ => WakeMode::Request,
            },
            page: WakePage::default(),
            max_wait: Duration::from_mins(2),
            phase: Phase::Paused,
            pause_started: Timestamp::UNIX_EPOCH,
            last_wake: None,
            is_pending: false,
            resuming_since: None,
        }
    }

    fn door<'a>(&'a self, standing: Standing, sleepers: &'a [Sleeper<'a>]) -> Door<'a> {
        Door {
            standing,
            sleepers,
            agents: &self.agents,
            signer: self.keys.at(Moment::ORIGIN),
            now: Timestamp::UNIX_EPOCH,
            came: Some(Moment::ORIGIN),
        }
    }
}

/// A request for a page, filled up to so many bytes with a cookie.
fn head(line: &str, agent: &str) -> Vec<u8> {
    let begin = format!(
        "{line} HTTP/1.1\r\nHost: preview-42.example.test\r\nUser-Agent: {agent}\r\n\
         Accept: text/html,application/xhtml+xml,*/*;q=0.8\r\nSec-Fetch-Site: none\r\n\
         Sec-Fetch-Mode: navigate\r\nSec-Fetch-User: ?1\r\nCookie: session="
    );
    let cookie = "c".repeat(HEAD - begin.len() - 4);
    format!("{begin}{cookie}\r\n\r\n").into_bytes()
}

/// The same head, so long that its beginning is judged.
fn endless(head: &[u8]) -> Vec<u8> {
    let lines = head.strip_suffix(b"\r\n").unwrap_or(head);
    [lines, b"Cookie: more=", &b"x".repeat(16 * HEAD)].concat()
}

fn judge_at<'a>(bytes: &'a [u8], door: &Door<'_>) -> Verdict<'a> {
    judge(&Heard::Head(HeadScan::new().look(bytes)), door)
}

/// What is allocated for the verdict on these bytes.
fn allocated(bytes: &[u8], standing: Standing, key: Option<&[u8]>) -> AllocationInfo {
    let place = Place::with(key);
    let sleepers = [place.sleeper(standing)];
    let door = place.door(standing, &sleepers);
    // Once for the whole process, the search for robots' names is built.
    let _first = judge_at(bytes, &door);
    let mut verdict = None;
    let info = measure(|| verdict = Some(judge_at(bytes, &door)));
    assert!(verdict.is_some_and(|verdict| verdict != Verdict::MoreNeeded));
    info
}

/// Whoever comes and whatever it sends, it's judged where it lies. Not one
/// allocation is made for a caller, whether it's held, answered, turned away or closed.
#[rstest]
#[case::robot(head("GET /", GOOGLEBOT))]
#[case::client(head("GET /", "curl/8.5.0"))]
#[case::checker(head("GET /healthz", "kube-probe/1.35"))]
#[case::added_checker(head("GET /", "Mozilla/5.0 (compatible; MyCorpMonitor/3.1)"))]
#[case::googles(head("GET /", "GoogleHC/1.0"))]
#[case::hidden(head("GET /%2e%67it/config", "curl/8.5.0"))]
#[case::only_an_agent(head("GET /", &"Mozilla/5.0 (bot".repeat(48)))]
#[case::no_end(endless(&head("GET /", GOOGLEBOT)))]
#[case::tls(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec())]
#[case::database(b"\0\0\0\x08\x04\xd2\x16\x2f".to_vec())]
#[case::http2(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec())]
fn nothing_is_allocated_for_a_verdict(
    #[case] bytes: Vec<u8>,
    #[values(
        Standing::Served,
        Standing::Crowded,
        Standing::Wakes,
        Standing::Waits,
        Standing::Asks
    )]
    standing: Standing,
) {
    assert_eq!(
        allocated(&bytes, standing, None),
        AllocationInfo::default(),
        "{standing:?}"
    );
}

/// The same for a person, but where a workload asks: the page's button is signed for
/// the workloads behind it, which are listed, and sorted where there is a key.
#[rstest]
#[case::served(Standing::Served, None, 0)]
#[case::crowded(Standing::Crowded, None, 0)]
#[case::wakes(Standing::Wakes, None, 0)]
#[case::waits(Standing::Waits, None, 0)]
#[case::asks_without_a_key(Standing::Asks, None, 1)]
#[case::asks(Standing::Asks, Some([1; KEY_BYTES]), 2)]
fn only_a_button_is_made_for_a_person(
    #[case] standing: Standing,
    #[case] key: Option<[u8; KEY_BYTES]>,
    #[case] lists: u64,
) {
    let head = head("GET /a/b?c=d", CHROME);
    for bytes in [endless(&head), head] {
        let key = key.as_ref().map(<[u8; KEY_BYTES]>::as_slice);
        let info = allocated(&bytes, standing, key);
        assert_eq!((info.count_total, info.count_current), (lists, 0));
    }
}

#[test]
fn a_persons_head_is_judged() {
    be_counted(&head("GET /a/b?c=d", CHROME));
}

/// Every byte that a stranger may have looked at for a robot's name.
#[test]
fn a_long_agents_head_is_judged() {
    be_counted(&head("GET /", &CHROME.repeat(6)));
}

fn be_counted(bytes: &[u8]) {
    let place = Place::with(None);
    let sleepers = [place.sleeper(Standing::Asks)];
    let door = place.door(Standing::Asks, &sleepers);
    assert!(matches!(judge_at(bytes, &door), Verdict::Asleep(_)));
    assert!(judge_and_be_counted(bytes, &door));
}

/// A post whose form is awaited behind a needed line that never ends, which comes byte
/// by byte: each is looked at once, however long the line has become.
#[test]
fn a_line_without_end_is_read() {
    let form = "Content-Type: application/x-www-form-urlencoded";
    let filling = "c".repeat(16 * HEAD);
    let begin = format!(
        "POST / HTTP/1.1\r\nUser-Agent: {CHROME}\r\n{form}\r\nCookie: {filling}\r\n\
         Content-Length: "
    );
    let (mut scan, mut held) = (HeadScan::new(), begin.into_bytes());
    assert!(scan.look(&held).is_open());
    for gone in scan.forget(&held).into_iter().rev() {
        held.drain(gone);
    }
    held.reserve(4 * HEAD);
    assert!(read_on_and_be_counted(&mut scan, &mut held));
}

#[inline(never)]
fn read_on_and_be_counted(scan: &mut HeadScan, held: &mut Vec<u8>) -> bool {
    for _ in 0..4 * HEAD {
        held.push(b'0');
        if scan.look(held) != Head::MoreNeeded || !scan.forget(held).is_empty() {
            return false;
        }
    }
    true
}

/// What callgrind counts, by this name.
#[inline(never)]
fn judge_and_be_counted(bytes: &[u8], door: &Door<'_>) -> bool {
    matches!(judge_at(bytes, door), Verdict::Asleep(_))
}

/// The figures are those of one architecture, in the build that tests run, which isn't
/// optimized.
#[cfg(target_arch = "x86_64")]
mod counted {
    use std::process::{Command, Output};

    use rstest::rstest;

    /// How far a count may be from what is written down, in percent: another processor
    /// takes other ways through what is built for several.
    const TOLERANCE: u64 = 10;

    /// How many instructions the verdict on a head takes, or reading on. Whoever makes it
    /// dearer says so here; whoever makes it cheaper keeps it so.
    #[rstest]
    #[case::usual("a_persons_head_is_judged", "judge_and_be_counted", 314_000)]
    #[case::dearest("a_long_agents_head_is_judged", "judge_and_be_counted", 540_000)]
    #[case::endless("a_line_without_end_is_read", "read_on_and_be_counted", 15_434_000)]
    fn a_verdict_takes_no_more_instructions(
        #[case] test: &str,
        #[case] function: &str,
        #[case] expected: u64,
    ) {
        let counted = instructions(test, function);
        let difference = counted.abs_diff(expected) * 100 / expected;
        assert!(
            difference <= TOLERANCE,
            "{test}: {counted} instructions, {expected} are written down"
        );
    }

    /// How many that function takes in that test.
    fn instructions(test: &str, function: &str) -> u64 {
        let ours = std::env::current_exe().expect("a test's program");
        let Output { status, stderr, .. } = Command::new("valgrind")
            .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
            .arg(format!("--toggle-collect=*{function}*"))
            .arg(ours)
            .args(["--exact", test, "--test-threads=1"])
            .output()
            .expect("valgrind must be installed: `cargo xtask test --level U` does it");
        let words = String::from_utf8_lossy(&stderr);
        assert!(status.success(), "{words}");
        let count = words
            .lines()
            .find_map(|line| line.split_once("Collected : "))
            .and_then(|(_, count)| count.trim().parse().ok());
        count.filter(|count| *count > 0).expect(&words)
    }
}
