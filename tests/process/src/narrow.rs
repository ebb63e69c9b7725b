//! A request about the whole cluster, made one about a single namespace.
//!
//! So an operator can be a test's own, at an API server that many tests share.

/// The head of such a request, or none if it's about less already.
pub(crate) fn head(head: &str, namespace: &str) -> Option<String> {
    let (line, rest) = head.split_once("\r\n")?;
    let mut words = line.split(' ');
    let (method, target, version) = (words.next()?, words.next()?, words.next()?);
    if method != "GET" {
        return None;
    }
    let narrowed = narrowed(target, namespace)?;
    Some(format!("{method} {narrowed} {version}\r\n{rest}"))
}

/// `/api/v1/services?…` and `/apis/apps/v1/deployments?…` name every object of a
/// kind; the others name a namespace, an object, or none.
fn narrowed(target: &str, namespace: &str) -> Option<String> {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut parts = path.strip_prefix('/')?.split('/');
    let version = match (parts.next()?, parts.next()?) {
        ("api", version) => format!("/api/{version}"),
        ("apis", group) => format!("/apis/{group}/{}", parts.next()?),
        _ => return None,
    };
    let kind = parts.next()?;
    if parts.next().is_some() {
        return None;
    }
    match kind {
        "nodes" => None,
        "namespaces" => Some(format!(
            "{path}?{query}&fieldSelector=metadata.name%3D{namespace}"
        )),
        _ => Some(format!("{version}/namespaces/{namespace}/{kind}?{query}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_of_the_whole_cluster_is_asked_of_one_namespace() {
        for (asked, expected) in [
            (
                "/api/v1/services?watch=true",
                "/api/v1/namespaces/a/services?watch=true",
            ),
            (
                "/apis/apps/v1/deployments",
                "/apis/apps/v1/namespaces/a/deployments?",
            ),
            (
                "/api/v1/namespaces?limit=5",
                "/api/v1/namespaces?limit=5&fieldSelector=metadata.name%3Da",
            ),
        ] {
            assert_eq!(narrowed(asked, "a").as_deref(), Some(expected));
        }
    }

    #[test]
    fn what_is_asked_of_less_stays() {
        for asked in [
            "/api/v1/nodes",
            "/api/v1/namespaces/b",
            "/api/v1/namespaces/b/pods?limit=5",
            "/apis/coordination.k8s.io/v1/namespaces/b/leases/x",
            "/version",
        ] {
            assert_eq!(narrowed(asked, "a"), None, "{asked}");
        }
        let write = "POST /apis/authorization.k8s.io/v1/subjectaccessreviews HTTP/1.1\r\n\r\n";
        assert_eq!(head(write, "a"), None);
    }
}
