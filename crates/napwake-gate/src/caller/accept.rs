//! What a client asks for, by `Accept` (RFC 9110, section 12.5.1).

/// The form of an answer's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BodyForm {
    /// Plain text, unless asked for something else (ASK-32).
    Plain,
    /// JSON, for a client that asks for it by name (ASK-31).
    Json,
}

/// What form of body a request with these `Accept` headers asks for. A wildcard
/// asks for nothing in particular, and `;q=0` asks for anything else.
pub fn body_form<'a>(accept: impl IntoIterator<Item = &'a [u8]>) -> BodyForm {
    if asks_for(accept, is_json) {
        BodyForm::Json
    } else {
        BodyForm::Plain
    }
}

/// Whether a request with these `Accept` headers asks for HTML by name, by the
/// same rules (T-32).
pub fn asks_for_html<'a>(accept: impl IntoIterator<Item = &'a [u8]>) -> bool {
    asks_for(accept, |kind| kind.eq_ignore_ascii_case(b"text/html"))
}

fn asks_for<'a>(
    accept: impl IntoIterator<Item = &'a [u8]>,
    wanted: impl Fn(&[u8]) -> bool,
) -> bool {
    accept
        .into_iter()
        .flat_map(|value| value.split(|byte| *byte == b','))
        .any(|range| {
            let mut parts = range.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
            parts.next().is_some_and(&wanted) && !parts.any(is_zero_weight)
        })
}

fn is_json(kind: &[u8]) -> bool {
    const APPLICATION: &[u8] = b"application/";
    let Some((kind, subtype)) = kind.split_at_checked(APPLICATION.len()) else {
        return false;
    };
    let suffix = subtype.rsplit(|byte| *byte == b'+').next();
    let is_json = suffix.is_some_and(|suffix| suffix.eq_ignore_ascii_case(b"json"));
    is_json && kind.eq_ignore_ascii_case(APPLICATION)
}

/// `q=0`, `q=0.0`, `Q=0.000`.
fn is_zero_weight(parameter: &[u8]) -> bool {
    match parameter {
        [b'q' | b'Q', b'=', weight @ ..] => {
            !weight.is_empty() && weight.iter().all(|byte| matches!(byte, b'0' | b'.'))
        }
        _ => false,
    }
}
