//! What members say of their work.

use super::*;

#[test]
fn stats_of_all_members_are_added_up() {
    let body = |kind: &str, result: &str, samples: usize| {
        format!(
            r#"{{"status":"success","data":{{"resultType":"{kind}","result":{result},"stats":{{"timings":{{"evalTotalTime":0.5}},"samples":{{"peakSamples":{samples}}}}}}}}}"#
        )
    };
    for (query, kind, result) in [
        ("x", "vector", "[]"),
        ("x", "matrix", "[]"),
        ("1", "scalar", r#"[1,"1"]"#),
    ] {
        let (first, second) = (body(kind, result, 3), body(kind, result, 4));
        let (_, text) = merge(query, &two(), &[Body(200, &first), Body(200, &second)]);
        let expected = format!(
            r#""result":{result},"stats":{{"timings":{{"evalTotalTime":1}},"samples":{{"peakSamples":7}}}}}}"#
        );
        assert!(text.contains(&expected), "{text}");
    }
}
