//! Slices that stand otherwise than they were written.

use super::{slices::create, *};

fn made(patch: Value) -> Value {
    let base = json!({
        "endpoints": [{
            "addresses": ["10.1.0.1"],
            "conditions": {"ready": true, "serving": true, "terminating": false},
            "nodeName": "n1",
            "targetRef": {
                "kind": "Pod", "namespace": "napwake-system", "name": "d-1", "uid": "pod-d-1",
            },
        }],
        "ports": [{"name": "", "port": 20_000, "protocol": "TCP", "appProtocol": "http"}],
    });
    let mut made = slice_json("a-o1", "a", 6, base);
    merge(&mut made, patch);
    made
}

fn merge(base: &mut Value, patch: Value) {
    match (base, patch) {
        (Value::Object(base), Value::Object(patch)) => {
            for (key, value) in patch {
                merge(base.entry(key).or_insert(Value::Null), value);
            }
        }
        (base, patch) => *base = patch,
    }
}

/// Labels, annotations and what else Napwake doesn't write may be added on the way.
#[rstest]
#[case::as_written(json!({}))]
#[case::label(json!({"metadata": {"labels": {"team": "a"}}}))]
#[case::annotation(json!({"metadata": {"annotations": {"a": "b"}}}))]
#[tokio::test(start_paused = true)]
async fn what_admission_adds_is_left(#[case] patch: Value) {
    let answers = |server| answer(server, 201, made(patch));
    let (result, applied) = carry_out(vec![create()], answers).await;
    result.unwrap();
    assert!(applied.world().slice_failures.is_empty());
}

/// ROUTE-70: what admission makes otherwise is a failure, and is told.
#[rstest]
#[case::ports(json!({"ports": []}), "its ports")]
#[case::zone(json!({"endpoints": []}), "its endpoints")]
#[case::owner(json!({"metadata": {"ownerReferences": []}}), "its owner")]
#[tokio::test(start_paused = true)]
async fn what_admission_alters_is_a_failure(#[case] patch: Value, #[case] expected: &str) {
    let answers = |server| answer(server, 201, made(patch));
    let (result, applied) = carry_out(vec![create()], answers).await;
    result.unwrap();
    let failure = &applied.world().slice_failures["a-o1"];
    let SliceProblem::Altered { what, .. } = &failure.why else {
        panic!("{:?}", failure.why);
    };
    assert_eq!((what.as_str(), failure.count), (expected, 1));
}

/// One that Napwake wouldn't know again is taken back, lest it stay for ever.
#[rstest]
#[case::manager("endpointslice.kubernetes.io/managed-by")]
#[case::service("kubernetes.io/service-name")]
#[tokio::test(start_paused = true)]
async fn a_slice_that_is_altered_beyond_recognition_is_taken_back(#[case] label: &str) {
    let patch = json!({"metadata": {"labels": {label: "somebody"}}});
    let (result, applied) = carry_out(vec![create()], async |mut server| {
        let first = server.answer(201, made(patch)).await;
        let success = json!({"kind": "Status", "status": "Success"});
        let second = server.answer(200, success).await;
        (server, vec![first, second])
    })
    .await;
    result.unwrap();
    let call = &applied.calls[1];
    assert!(call.line.starts_with("DELETE "), "{}", call.line);
    assert_eq!(call.body["preconditions"], json!({"uid": "slice-a-o1"}));
    let failure = &applied.world().slice_failures["a-o1"];
    assert!(matches!(&failure.why, SliceProblem::Altered { what, .. } if what.contains(label)));
}

fn write_over() -> Write {
    let Write::ApplySlice { slice, .. } = create() else {
        panic!("a slice");
    };
    Write::ApplySlice {
        slice,
        over: Over::Existing {
            uid: "slice-a-o1".to_owned(),
            resource_version: "5".to_owned(),
        },
    }
}

/// A conflict is decided anew from what stands now; one after the other is a failure.
#[tokio::test(start_paused = true)]
async fn a_conflict_is_read_and_one_after_the_other_is_a_failure() {
    for (rounds, failed) in [(1, false), (5, true)] {
        let writes = (0..rounds).map(|_| write_over()).collect();
        let (result, applied) = carry_out(writes, async |mut server| {
            let mut calls = Vec::new();
            for version in 6..6 + rounds {
                calls.push(server.refuse(409, "Conflict").await);
                let newer = slice_json("a-o1", "a", version, json!({}));
                calls.push(server.answer(200, newer).await);
            }
            (server, calls)
        })
        .await;
        result.unwrap();
        assert!(applied.calls[1].line.starts_with("GET "));
        let failures = applied.world().slice_failures;
        assert_eq!(failures.contains_key("a-o1"), failed, "{rounds}");
    }
}
