//! What form of body a client asks for, by `Accept` (RFC 9110, section 12.5.1).

/// The form of an answer's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BodyForm {
    /// Plain text, unless asked for something else (ASK-32).
    Plain,
    /// JSON, for a client that asks for it by name (ASK-31).
    Json,
}

/// What a request with these `Accept` headers asks for. A wildcard asks for
/// nothing in particular, and `;q=0` asks for anything else.
pub fn body_form<'a>(accept: impl IntoIterator<Item = &'a [u8]>) -> BodyForm {
    let asks = accept
        .into_iter()
        .flat_map(|value| value.split(|byte| *byte == b','))
        .any(names_json);
    if asks {
        BodyForm::Json
    } else {
        BodyForm::Plain
    }
}

fn names_json(range: &[u8]) -> bool {
    let mut parts = range.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
    let kind = parts.next().unwrap_or_default().to_ascii_lowercase();
    let is_json = kind == b"application/json"
        || (kind.starts_with(b"application/") && kind.ends_with(b"+json"));
    is_json && !parts.any(is_zero_weight)
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
