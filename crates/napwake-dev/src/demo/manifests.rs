//! The sample workloads: nginx as a Deployment, PostgreSQL as a StatefulSet.
//!
//! Both run the machine's own Debian programs, so that nothing is pulled from
//! anywhere.

use crate::image::base::HOST;

/// Everything that is deployed, as YAML documents.
pub(super) fn render(namespace: &str) -> String {
    include_str!("samples.yaml")
        .replace("NAMESPACE", namespace)
        .replace("IMAGE", HOST)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn every_document_is_an_object_of_the_namespace() {
        let text = render("demo");
        let documents: Vec<Value> = text
            .split("\n---\n")
            .map(|text| serde_saphyr::from_str(text).unwrap())
            .collect();
        assert_eq!(documents.len(), 8);
        for document in &documents[1..] {
            assert_eq!(document["metadata"]["namespace"], "demo", "{document}");
        }
    }
}
