use jiff::SignedDuration;
use proptest::prelude::*;
use rstest::rstest;

use super::*;

const SIGNED: &str = "2026-11-30T10:00:00.5Z";
const KEY: [u8; KEY_BYTES] = [1; KEY_BYTES];
const OTHER_KEY: [u8; KEY_BYTES] = [2; KEY_BYTES];

fn time(text: &str) -> Timestamp {
    text.parse().expect("a time")
}

fn after(seconds: i64) -> Timestamp {
    time(SIGNED) + SignedDuration::from_secs(seconds)
}

fn minutes(count: u64) -> Moment {
    Moment::new(Duration::from_mins(count))
}

/// A read that took no time.
fn read(at: Moment) -> ReadAt {
    ReadAt {
        began: at,
        done: at,
    }
}

fn keys(key: &[u8]) -> Keys {
    let mut keys = Keys::default();
    let seen = keys.found(Found::Key(key), read(Moment::ORIGIN));
    assert_eq!(seen, Seen::Switched);
    keys
}

/// What a token is for, owned.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Pause(WorkloadKey, Timestamp);

fn pause(name: &str, started: &str) -> Pause {
    Pause(WorkloadKey::new("preview-42", name), time(started))
}

fn api() -> Vec<Pause> {
    vec![pause("api", "2026-11-30T09:00:00Z")]
}

fn subject(Pause(workload, pause): &Pause) -> Subject<'_> {
    Subject {
        workload,
        pause: *pause,
    }
}

fn subjects(pauses: &[Pause]) -> Vec<Subject<'_>> {
    pauses.iter().map(subject).collect()
}

fn sign(keys: &Keys, pauses: &[Pause]) -> Token {
    let signer = keys.at(Moment::ORIGIN);
    let token = signer.sign(&subjects(pauses), time(SIGNED));
    token.expect("there is a key")
}

fn check(keys: &Keys, token: &Token, pauses: &[Pause], now: Timestamp) -> Result<(), Refused> {
    let signer = keys.at(Moment::ORIGIN);
    signer.check(token, &subjects(pauses), now)
}

#[test]
fn is_64_characters_that_a_form_takes_as_they_are() {
    let token = sign(&keys(&KEY), &api());
    assert_eq!(token.as_str().len(), 64);
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    assert!(token.as_str().bytes().all(plain), "{}", token.as_str());
    assert_eq!(Token::read(token.as_str().as_bytes()), Some(token));
}

/// TOKEN-07: good for ten minutes. T-12: a token of a pod whose clock is up to a
/// minute ahead is good, too.
#[rstest]
#[case::at_once(0, Ok(()))]
#[case::nine_fifty_nine(599, Ok(()))]
#[case::ten_minutes(600, Err(Refused::RanOut))]
#[case::ten_oh_one(601, Err(Refused::RanOut))]
#[case::long_after(86_400, Err(Refused::RanOut))]
#[case::signed_a_minute_ahead(-60, Ok(()))]
#[case::signed_further_ahead(-61, Err(Refused::RanOut))]
fn is_good_for_ten_minutes(#[case] seconds: i64, #[case] expected: Result<(), Refused>) {
    let keys = keys(&KEY);
    let token = sign(&keys, &api());
    assert_eq!(check(&keys, &token, &api(), after(seconds)), expected);
}

/// TOKEN-03, TOKEN-04, T-75: it is for these workloads and their pauses, no
/// more and no fewer, in whichever order a pod has them.
#[rstest]
#[case::the_same(&[("api", "09:00:00"), ("web", "09:00:00")], Ok(()))]
#[case::the_other_way_round(&[("web", "09:00:00"), ("api", "09:00:00")], Ok(()))]
#[case::one_named_twice(&[("web", "09:00:00"), ("api", "09:00:00"), ("web", "09:00:00")], Ok(()))]
#[case::another_workload(&[("api", "09:00:00"), ("worker", "09:00:00")], Err(Refused::NotForThis))]
#[case::another_pause(&[("api", "09:00:00"), ("web", "09:00:01")], Err(Refused::NotForThis))]
#[case::a_microsecond_later(&[("api", "09:00:00"), ("web", "09:00:00.000001")], Err(Refused::NotForThis))]
#[case::one_more(&[("api", "09:00:00"), ("web", "09:00:00"), ("x", "09:00:00")], Err(Refused::NotForThis))]
#[case::one_less(&[("api", "09:00:00")], Err(Refused::NotForThis))]
#[case::none(&[], Err(Refused::NotForThis))]
#[case::names_joined_otherwise(&[("apiweb", "09:00:00")], Err(Refused::NotForThis))]
fn is_for_these_pauses(#[case] pauses: &[(&str, &str)], #[case] expected: Result<(), Refused>) {
    let at = |(name, clock): &(&str, &str)| pause(name, &format!("2026-11-30T{clock}Z"));
    let keys = keys(&KEY);
    let token = sign(&keys, &[at(&("api", "09:00:00")), at(&("web", "09:00:00"))]);
    let pauses: Vec<_> = pauses.iter().map(at).collect();
    assert_eq!(check(&keys, &token, &pauses, after(1)), expected);
}

#[test]
fn a_namespace_and_a_name_are_two_things() {
    let started = time("2026-11-30T09:00:00Z");
    let one = [Pause(WorkloadKey::new("a", "bc"), started)];
    let other = [Pause(WorkloadKey::new("ab", "c"), started)];
    let keys = keys(&KEY);
    let token = sign(&keys, &one);
    assert_eq!(
        check(&keys, &token, &other, after(1)),
        Err(Refused::NotForThis)
    );
}

#[rstest]
#[case::nothing("")]
#[case::short("AAAA")]
#[case::one_character_less(&"A".repeat(63))]
#[case::one_character_more(&"A".repeat(65))]
fn other_lengths_are_no_token(#[case] text: &str) {
    assert_eq!(Token::read(text.as_bytes()), None);
}

#[test]
fn other_characters_are_no_token() {
    for odd in ["+", "/", "=", " ", "é"] {
        let text = format!("{}{odd}", "A".repeat(64 - odd.len()));
        let token = Token::read(text.as_bytes()).expect("of the right length");
        assert_eq!(
            check(&keys(&KEY), &token, &api(), after(1)),
            Err(Refused::NotForThis)
        );
    }
}

/// T-25: without a key there is nothing to sign with; nor is there anything to
/// sign for nobody.
#[test]
fn needs_a_key_and_somebody_to_wake() {
    let none = Keys::default();
    let signer = none.at(Moment::ORIGIN);
    assert_eq!(signer.sign(&subjects(&api()), after(0)), None);
    let keys = keys(&KEY);
    assert_eq!(keys.at(Moment::ORIGIN).sign(&[], after(0)), None);
}

#[test]
fn shows_no_key_and_no_token() {
    let keys = keys(&KEY);
    let token = sign(&keys, &api());
    let shown = format!("{keys:?} {token:?} {:?}", Found::Key(&KEY));
    assert_eq!(
        shown,
        "Keys { current: Some(Key { .. }), old: [], read_at: Some(Moment(0ns)) } \
         Token { .. } Key(..)"
    );
}

/// T-25, T-26: what comes of what the Secret holds, for a pod with a key and for
/// one without. Whatever it is, a key in memory goes on signing.
#[rstest]
#[case::the_same(Found::Key(&KEY), Seen::Same, Seen::Switched)]
#[case::another(Found::Key(&OTHER_KEY), Seen::Switched, Seen::Switched)]
#[case::longer(Found::Key(&[3; 100]), Seen::Switched, Seen::Switched)]
#[case::emptied(Found::Empty, Seen::Fill, Seen::Fill)]
#[case::nothing_in_it(Found::Key(&[]), Seen::Fill, Seen::Fill)]
#[case::too_short(
    Found::Key(&[3; 31]),
    Seen::Complain(Trouble::TooShort),
    Seen::Complain(Trouble::TooShort)
)]
#[case::deleted(
    Found::Gone,
    Seen::Complain(Trouble::Gone),
    Seen::Complain(Trouble::Gone)
)]
fn what_comes_of_the_secret(
    #[case] found: Found<'_>,
    #[case] with_a_key: Seen,
    #[case] without: Seen,
) {
    let mut keys = keys(&KEY);
    let token = sign(&keys, &api());
    assert_eq!(keys.found(found, read(Moment::ORIGIN)), with_a_key);
    assert_eq!(check(&keys, &token, &api(), after(1)), Ok(()));
    let goes_on = sign(&keys, &api()) == token;
    assert_eq!(goes_on, with_a_key != Seen::Switched);

    let mut none = Keys::default();
    assert_eq!(none.found(found, read(Moment::ORIGIN)), without);
    let signs = none.at(Moment::ORIGIN).sign(&subjects(&api()), after(0));
    assert_eq!(signs.is_some(), without == Seen::Switched);
}

/// TOKEN-22, TOKEN-23, T-22: the new key signs at once; the old one is accepted
/// for eleven minutes from this pod's own switch, however fresh its tokens are.
#[rstest]
#[case::at_once(0, Ok(()))]
#[case::ten_fifty_nine(659, Ok(()))]
#[case::eleven_minutes(660, Err(Refused::UnknownKey))]
#[case::eleven_oh_one(661, Err(Refused::UnknownKey))]
fn an_old_key_goes_after_eleven_minutes(
    #[case] seconds: u64,
    #[case] expected: Result<(), Refused>,
) {
    let mut keys = keys(&KEY);
    let old = sign(&keys, &api());
    let switched = minutes(30);
    assert_eq!(
        keys.found(Found::Key(&OTHER_KEY), read(switched)),
        Seen::Switched
    );
    let new = sign(&keys, &api());
    assert_ne!(old, new);

    let signer = keys.at(switched.plus(Duration::from_secs(seconds)));
    let check = |token| signer.check(token, &subjects(&api()), after(1));
    assert_eq!(check(&old), expected);
    assert_eq!(check(&new), Ok(()));
}

/// Each of several old keys has its own eleven minutes.
#[test]
fn keys_that_follow_each_other_quickly() {
    let mut keys = keys(&KEY);
    let first = sign(&keys, &api());
    let _seen = keys.found(Found::Key(&OTHER_KEY), read(minutes(1)));
    let second = sign(&keys, &api());
    let _seen = keys.found(Found::Key(&[3; 32]), read(minutes(5)));
    let check = |token, at| {
        let signer = keys.at(minutes(at));
        signer.check(token, &subjects(&api()), after(1))
    };
    assert_eq!((check(&first, 11), check(&second, 11)), (Ok(()), Ok(())));
    assert_eq!(check(&first, 12), Err(Refused::UnknownKey));
    assert_eq!(check(&second, 15), Ok(()));
    assert_eq!(check(&second, 16), Err(Refused::UnknownKey));
}

/// A key that comes back, as from a backup, signs again.
#[test]
fn a_key_that_comes_back() {
    let mut keys = keys(&KEY);
    let first = sign(&keys, &api());
    let _seen = keys.found(Found::Key(&OTHER_KEY), read(minutes(1)));
    let second = sign(&keys, &api());
    assert_eq!(
        keys.found(Found::Key(&KEY), read(minutes(2))),
        Seen::Switched
    );
    assert_eq!(sign(&keys, &api()), first);
    let signer = keys.at(minutes(12));
    for token in [first, second] {
        assert_eq!(signer.check(&token, &subjects(&api()), after(1)), Ok(()));
    }
}

/// T-23: a token with a key of another pod's is refused only after the Secret was
/// read since it came, and that not more than every few seconds.
#[test]
fn an_unknown_key_is_looked_for() {
    let at = |seconds| Moment::new(Duration::from_secs(seconds));
    let others = sign(&keys(&OTHER_KEY), &api());
    let mut keys = keys(&KEY);
    let check = |keys: &Keys| {
        let signer = keys.at(at(2));
        signer.check(&others, &subjects(&api()), after(1))
    };
    assert_eq!(check(&keys), Err(Refused::UnknownKey));
    let read_again = |keys: &Keys, now, came| keys.at(at(now)).read_again_at(at(came));
    assert_eq!(read_again(&keys, 2, 1), Some(at(5)));
    assert_eq!(read_again(&keys, 9, 8), Some(at(9)));
    assert_eq!(read_again(&Keys::default(), 2, 1), Some(at(2)));

    // One that began before the click came may have missed the key.
    let slow = ReadAt {
        began: at(1),
        done: at(3),
    };
    assert_eq!(keys.found(Found::Key(&KEY), slow), Seen::Same);
    assert_eq!(read_again(&keys, 3, 2), Some(at(6)));
    assert_eq!(
        keys.found(Found::Key(&OTHER_KEY), read(at(6))),
        Seen::Switched
    );
    assert_eq!(read_again(&keys, 6, 2), None);
    assert_eq!(check(&keys), Ok(()));
}

fn any_pauses() -> impl Strategy<Value = Vec<Pause>> {
    let names = prop::sample::select(vec!["a", "ab", "b", "api", "web", ""]);
    let started = (0..3_i64, 0..2_i64).prop_map(|(seconds, nanos)| {
        Timestamp::UNIX_EPOCH + SignedDuration::new(seconds, i32::try_from(nanos).expect("small"))
    });
    let one = (names.clone(), names, started)
        .prop_map(|(namespace, name, started)| Pause(WorkloadKey::new(namespace, name), started));
    prop::collection::vec(one, 1..4)
}

fn as_a_set(pauses: &[Pause]) -> Vec<Pause> {
    let mut pauses = pauses.to_vec();
    pauses.sort();
    pauses.dedup();
    pauses
}

proptest! {
    /// TOKEN-04, TOKEN-05: a token for one pause never passes in another, nor
    /// for another workload.
    #[test]
    fn passes_nowhere_else(signed in any_pauses(), posted in any_pauses()) {
        let keys = keys(&KEY);
        let token = sign(&keys, &signed);
        let same = as_a_set(&signed) == as_a_set(&posted);
        prop_assert_eq!(check(&keys, &token, &posted, after(1)).is_ok(), same);
        prop_assert_eq!(check(&keys, &token, &signed, after(1)), Ok(()));
    }

    /// TOKEN-06: a token with any bit of it flipped is refused.
    #[test]
    fn any_flipped_bit_is_noticed(pauses in any_pauses(), key in any::<[u8; 32]>()) {
        let keys = keys(&key);
        let token = sign(&keys, &pauses);
        for bit in 0..token.0.len() * 8 {
            let mut flipped = token;
            flipped.0[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(check(&keys, &flipped, &pauses, after(1)).is_err(), "bit {}", bit);
        }
    }

    /// TOKEN-24: pods switch up to a minute apart and may read the Secret again
    /// for an unknown key; whichever pod signed a token, and whenever, every
    /// pod accepts it as long as it is good.
    #[test]
    fn no_good_token_is_refused_for_a_switch(
        switches in [0_u64..60, 0_u64..60],
        signed in 0_u64..120,
        used in 0_u64..600,
    ) {
        // Both signed with the old key for long.
        let start = minutes(60);
        let mut pods = [keys(&KEY), keys(&KEY)];
        let at = |seconds: u64| start.plus(Duration::from_secs(seconds));
        let clock = |seconds: u64| after(i64::try_from(seconds).expect("small"));
        let token = {
            let mut signing = pods[0].clone();
            if switches[0] <= signed {
                let _seen = signing.found(Found::Key(&OTHER_KEY), read(at(switches[0])));
            }
            let signer = signing.at(at(signed));
            signer.sign(&subjects(&api()), clock(signed)).expect("there is a key")
        };
        let used = signed + used;
        for (pod, switch) in pods.iter_mut().zip(switches) {
            if switch <= used {
                let _seen = pod.found(Found::Key(&OTHER_KEY), read(at(switch)));
            }
            let signer = pod.at(at(used));
            let mut checked = signer.check(&token, &subjects(&api()), clock(used));
            if let Some(again) = signer.read_again_at(at(used)) && checked == Err(Refused::UnknownKey) {
                let _seen = pod.found(Found::Key(&OTHER_KEY), read(again));
                checked = pod.at(again).check(&token, &subjects(&api()), clock(used));
            }
            prop_assert_eq!(checked, Ok(()));
        }
    }

    #[test]
    fn no_text_is_a_token_by_chance(text in prop::collection::vec(any::<u8>(), 64)) {
        fuzz_token(&text);
    }
}
