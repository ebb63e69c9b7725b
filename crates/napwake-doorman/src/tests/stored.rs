//! Objects that can be read, and written at their version: a write that carries
//! another `resourceVersion` or `uid` is a conflict, as at the real API server.

use std::collections::HashMap;

use http::Method;
use serde_json::{Value, json};

use super::cluster::Call;
use super::objects::merge;

/// The objects, by their paths.
#[derive(Default)]
pub(super) struct Stored {
    objects: HashMap<String, Value>,
    versions: u64,
}

impl Stored {
    pub(super) fn put(&mut self, path: &str, mut object: Value) {
        self.versions += 1;
        object["metadata"]["resourceVersion"] = json!(self.versions.to_string());
        self.objects.insert(path.to_owned(), object);
    }

    pub(super) fn get(&self, path: &str) -> Option<Value> {
        self.objects.get(path).cloned()
    }

    pub(super) fn remove(&mut self, path: &str) {
        self.objects.remove(path);
    }

    /// What becomes of a call, or the code it is refused with; `None` if it isn't
    /// about an object here.
    pub(super) fn answer(&mut self, call: &Call) -> Option<Result<Value, u16>> {
        let object = self.objects.get(&call.path)?;
        let written = match call.method {
            Method::PUT => call.body.clone(),
            Method::PATCH => {
                let mut merged = object.clone();
                merge(&mut merged, &call.body);
                merged
            }
            _ => return Some(Ok(object.clone())),
        };
        let is_as_given = |field: &str| {
            let given = &call.body["metadata"][field];
            given.is_null() || *given == object["metadata"][field]
        };
        if !is_as_given("resourceVersion") || !is_as_given("uid") {
            return Some(Err(409));
        }
        self.put(&call.path, written);
        self.get(&call.path).map(Ok)
    }
}
