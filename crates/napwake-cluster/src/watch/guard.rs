//! Objects that may be unreadable.
//!
//! Reading one never fails: either it gives the object, or what is known of it
//! and why it can't be read. `managedFields` are skipped either way.

use std::{borrow::Cow, fmt};

use kube::{Resource, core::ObjectMeta};
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Value};

use super::store::ObjectKey;

/// An object that can't be read as its kind should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}/{} can't be read: {error}", .key.namespace, .key.name)]
pub struct Unreadable {
    /// Empty names where not even they can be read.
    pub key: ObjectKey,
    pub uid: Option<String>,
    pub resource_version: Option<String>,
    /// What the parser says. It may quote the object.
    pub error: String,
    /// Its `status` as it came, for what can be told of a part of it; `null` where
    /// it has none.
    pub status: Value,
}

/// Either an object, or what is known of one that can't be read.
#[derive(Clone, Debug)]
pub(super) enum Guarded<K> {
    Readable(K),
    Unreadable {
        meta: Box<ObjectMeta>,
        error: String,
        status: Value,
    },
}

impl<K: Resource> Guarded<K> {
    pub(super) fn into_result(self) -> Result<K, Box<Unreadable>> {
        match self {
            Self::Readable(object) => Ok(object),
            Self::Unreadable {
                meta,
                error,
                status,
            } => Err(Box::new(Unreadable {
                key: ObjectKey::of(&meta),
                uid: meta.uid,
                resource_version: meta.resource_version,
                error,
                status,
            })),
        }
    }
}

impl<'de, K: for<'any> Deserialize<'any>> Deserialize<'de> for Guarded<K> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let mut value = Pruning::Object.deserialize(from)?;
        Ok(match K::deserialize(&value) {
            Ok(object) => Self::Readable(object),
            Err(error) => Self::Unreadable {
                meta: Box::new(salvage(&value)),
                error: error.to_string(),
                status: value.get_mut("status").map(Value::take).unwrap_or_default(),
            },
        })
    }
}

/// What can be told of an object that can't be read.
fn salvage(value: &Value) -> ObjectMeta {
    let text = |name: &str| value["metadata"][name].as_str().map(str::to_owned);
    ObjectMeta {
        name: text("name"),
        namespace: text("namespace"),
        uid: text("uid"),
        resource_version: text("resourceVersion"),
        ..ObjectMeta::default()
    }
}

impl<K: Resource> Resource for Guarded<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(dt: &Self::DynamicType) -> Cow<'_, str> {
        K::kind(dt)
    }

    fn group(dt: &Self::DynamicType) -> Cow<'_, str> {
        K::group(dt)
    }

    fn version(dt: &Self::DynamicType) -> Cow<'_, str> {
        K::version(dt)
    }

    fn plural(dt: &Self::DynamicType) -> Cow<'_, str> {
        K::plural(dt)
    }

    fn meta(&self) -> &ObjectMeta {
        match self {
            Self::Readable(object) => object.meta(),
            Self::Unreadable { meta, .. } => meta,
        }
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        match self {
            Self::Readable(object) => object.meta_mut(),
            Self::Unreadable { meta, .. } => meta,
        }
    }
}

/// Reads an object as JSON without `metadata.managedFields`, by far the largest
/// part of most (F-160). What is no object becomes `null`.
#[derive(Clone, Copy)]
enum Pruning {
    Object,
    Metadata,
}

impl<'de> DeserializeSeed<'de> for Pruning {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Pruning {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(name) = map.next_key::<String>()? {
            let value = match (self, name.as_str()) {
                (Self::Metadata, "managedFields") => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
                (Self::Object, "metadata") => map.next_value_seed(Self::Metadata)?,
                _ => map.next_value()?,
            };
            fields.insert(name, value);
        }
        Ok(Value::Object(fields))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Value::Null)
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_str<E>(self, _: &str) -> Result<Value, E> {
        Ok(Value::Null)
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::thin::Pod;

    fn read(text: &str) -> Result<Pod, Box<Unreadable>> {
        serde_json::from_str::<Guarded<Pod>>(text)
            .unwrap()
            .into_result()
    }

    #[test]
    fn a_good_object_is_read() {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "a", "labels": {"x": "y"}, "managedFields": [{"fieldsV1": {}}]},
            "status": {"podIP": "10.0.0.1"},
        });
        let read = read(&pod.to_string()).unwrap();
        assert_eq!(read.metadata.name.as_deref(), Some("a"));
        assert_eq!(read.status.addresses.len(), 1);
    }

    #[test]
    fn a_bad_object_says_what_it_is() {
        let pod = json!({
            "metadata": {"name": "a", "namespace": "shop", "uid": "u", "resourceVersion": "9"},
            "status": {"conditions": "soon"},
        });
        let unreadable = read(&pod.to_string()).unwrap_err();
        assert_eq!(unreadable.key, ObjectKey::new("shop", "a"));
        assert_eq!(unreadable.uid.as_deref(), Some("u"));
        assert_eq!(unreadable.resource_version.as_deref(), Some("9"));
        assert!(unreadable.error.contains("soon"), "{}", unreadable.error);
        assert_eq!(unreadable.status, json!({"conditions": "soon"}));
    }

    #[rstest]
    #[case::null("null")]
    #[case::text(r#""pod""#)]
    #[case::number("-1.5")]
    #[case::list(r#"[{"metadata": {}}, 3]"#)]
    #[case::empty("{}")]
    #[case::metadata_is_text(r#"{"metadata": "a"}"#)]
    #[case::metadata_is_a_list(r#"{"metadata": [1]}"#)]
    #[case::label_is_a_number(r#"{"metadata": {"labels": {"a": 1}}}"#)]
    fn nothing_fails(#[case] text: &str) {
        let unreadable = read(text).unwrap_err();
        assert_eq!(unreadable.key, ObjectKey::new("", ""));
    }
}
