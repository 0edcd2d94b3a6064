//! Tests of the answer reader.

use bumpalo::Bump;

use super::*;
use crate::sample::PointCursor;

fn read(body: &[u8], units: usize) -> Result<String, MemberFailure> {
    let bump = Bump::new();
    let mut reader = Reader::new(body, &bump, &[]);
    let mut steps = 0;
    while !reader.step(units)?.1 {
        steps += 1;
        assert!(steps <= 2 * body.len() + 2, "no progress");
    }
    reader.finish(200).map(|parsed| show(&parsed))
}

fn show(parsed: &Parsed<'_>) -> String {
    let mut out = String::new();
    for series in &parsed.series {
        for label in series.set.labels {
            out += &format!("{}={};", label.name, label.value);
        }
        let mut cursor = PointCursor::new(series.points);
        while let Some(sample) = cursor.current() {
            out += std::str::from_utf8(sample.pair()).unwrap();
            cursor.advance();
        }
        for histogram in series.histograms {
            out += &format!(
                "@{}{}",
                histogram.time_ms,
                String::from_utf8_lossy(histogram.text)
            );
        }
        out.push('|');
    }
    if let Some(pair) = parsed.pair {
        out += std::str::from_utf8(pair.text).unwrap();
    }
    for text in parsed.warnings.iter().chain(&parsed.infos) {
        out += &format!("!{text}");
    }
    if let Some(stats) = &parsed.stats {
        let mut text = Vec::new();
        stats.write(&mut text);
        out += std::str::from_utf8(&text).unwrap();
    }
    if !parsed.is_sorted {
        out += " unsorted";
    }
    out
}

fn matrix(series: &str) -> String {
    format!(r#"{{"status":"success","data":{{"resultType":"matrix","result":[{series}]}}}}"#)
}

/// Every body reads the same whole and in steps of any size.
fn assert_reads(cases: &[(String, &str)]) {
    for (body, expected) in cases {
        for units in [1, 2, 3, 7, 16, 1_000_000] {
            let found = read(body.as_bytes(), units);
            assert_eq!(found.as_deref(), Ok(*expected), "{body} by {units}");
        }
    }
}

#[test]
fn reads_series() {
    assert_reads(&[
        (matrix(""), ""),
        (
            matrix(r#"{"metric":{},"values":[[1,"1"],[2,"2"]]}"#),
            r#"[1,"1"][2,"2"]|"#,
        ),
        (
            matrix(r#"{"values":[[1,"1"]],"metric":{"a":"b"}}"#),
            r#"a=b;[1,"1"]|"#,
        ),
        (matrix(r#"{"metric":{"a":"b"},"values":[]}"#), "a=b;|"),
        (
            matrix(r#"{"metric":{"b":"1"}},{"metric":{"a":"1"}}"#),
            "b=1;|a=1;| unsorted",
        ),
        // Odd numbers and white space are rewritten; canonical samples between them are kept.
        (
            matrix(r#"{"metric":{},"values":[[1,"1"],[2.5,"1e+06"], [3,"3"],[4,"4"] ,[5,"5.0"]]}"#),
            r#"[1,"1"][2.500,"1000000"][3,"3"][4,"4"][5,"5"]|"#,
        ),
        // Each pair has another form than the one before.
        (
            matrix(
                r#"{"metric":{},"values":[[-1,"1"],[9,"NaN"],[10,"-0"],[11.500,"1e+21"],[12.001,"0.5"],[13,"57.12345678901234"],[14,"57.123456789012340"],[15,"123456789012345600"],[16,"0.05"]]}"#,
            ),
            r#"[-1,"1"][9,"NaN"][10,"-0"][11.500,"1e+21"][12.001,"0.5"][13,"57.12345678901234"][14,"57.12345678901234"][15,"123456789012345600"][16,"0.05"]|"#,
        ),
        (
            matrix(r#"{"metric":{},"values":[[1.0,"1"],[2,"\u0032"],[3,"3"]]}"#),
            r#"[1,"1"][2,"2"][3,"3"]|"#,
        ),
        (
            matrix(
                r#"{"metric":{},"values":[[1,"1"]],"histograms":[[2,{"count":"1","buckets":[[0,"1","2","}"]]}]]}"#,
            ),
            r#"[1,"1"]@2000{"count":"1","buckets":[[0,"1","2","}"]]}|"#,
        ),
        (
            matrix(r#"{"metric":{},"x":{"y":[1,{"z":"]"}]},"values":[[1,"1"]]}"#),
            r#"[1,"1"]|"#,
        ),
        (
            r#" { "data" : { "result" : [ { "metric" : { "a" : "b" } , "value" : [ 1 , "2" ] } ] ,
               "resultType" : "vector" , "stats" : { "x" : [ ] } } , "status" : "success" } "#
                .to_owned(),
            r#"a=b;[1,"2"]|,"stats":{"timings":{},"samples":{}}"#,
        ),
    ]);
}

#[test]
fn reads_stats() {
    let body = |stats: &str| {
        format!(
            r#"{{"status":"success","data":{{"resultType":"vector","result":[],"stats":{stats}}}}}"#
        )
    };
    assert_reads(&[
        (
            body(
                r#"{"timings":{"evalTotalTime":6.71e-07,"x":null,"y":{"z":[1]}},"more":[{}],
                    "samples" : { "peakSamples" : 60 , "totalQueryableSamplesPerStep":[[1,2],[3,4]] } }"#,
            ),
            r#","stats":{"timings":{"evalTotalTime":0.000000671},"samples":{"peakSamples":60}}"#,
        ),
        (body("null"), ""),
        (body("{}"), r#","stats":{"timings":{},"samples":{}}"#),
    ]);
    for bad in [
        r#"{"timings":{"a":1e999}}"#,
        r#"{"timings":{"a":1.2.3}}"#,
        r#"{"timings":{"a":-}}"#,
        r#"{"samples":{"a":1"#,
    ] {
        assert!(read(body(bad).as_bytes(), 7).is_err(), "{bad}");
    }
}

#[test]
fn reads_scalars_and_lists() {
    assert_reads(&[
        (
            r#"{"status":"success","data":{"resultType":"scalar","result":[1.5,"2"]}}"#.to_owned(),
            r#"[1.5,"2"]"#,
        ),
        (
            r#"{"status":"success","data":{"resultType":"string","result":[1,"a\"]"]}}"#.to_owned(),
            r#"[1,"a\"]"]"#,
        ),
        (
            r#"{"status":"success","data":["a","b\u0041\"","日"]}"#.to_owned(),
            "=a;|=bA\";|=日;|",
        ),
        (
            r#"{"status":"success","data":[{"a":"1"},{"a":"2"}]}"#.to_owned(),
            "a=1;|a=2;|",
        ),
        (
            r#"{"status":"success","data":[],"warnings":["w","w","x"],"infos":["i"]}"#.to_owned(),
            "!w!x!i",
        ),
        (r#"{"status":"success","data":null}"#.to_owned(), ""),
        (
            r#"{"status":"success","data":{"resultType":"vector","result":null}}"#.to_owned(),
            "",
        ),
    ]);
}

#[test]
fn refuses_what_is_no_answer() {
    let bad = [
        String::new(),
        "null".to_owned(),
        "[]".to_owned(),
        "<html>".to_owned(),
        "{}".to_owned(),
        r#"{"status":"success"}"#.to_owned(),
        r#"{"status":"success","data":{}}"#.to_owned(),
        r#"{"status":"success","data":[]} x"#.to_owned(),
        r#"{"status":"success","data":[],}"#.to_owned(),
        r#"{"status":"success" "data":[]}"#.to_owned(),
        r#"{"status":"success",,"data":[]}"#.to_owned(),
        r#"{"status":"success","data":[1]}"#.to_owned(),
        r#"{"status":"success","data":["a" "b"]}"#.to_owned(),
        r#"{"status":"success","data":["a",]}"#.to_owned(),
        r#"{"status":"maybe","data":[]}"#.to_owned(),
        r#"{"status":"success","data":{"resultType":"vectr","result":[]}}"#.to_owned(),
        r#"{"status":"success","data":{"resultType":"vector","result":{}}}"#.to_owned(),
        r#"{"status":"success","data":{"resultType":"scalar","result":[]}}"#.to_owned(),
        r#"{"status":"success","data":{"resultType":"vector","result":[1,"2"]}}"#.to_owned(),
        r#"{"status":"success","data":{"resultType":"scalar","result":[null,"2"]}}"#.to_owned(),
        matrix("1"),
        matrix("{}"),
        matrix(r#"{"metric":[]}"#),
        matrix(r#"{"metric":{},"values":{}}"#),
        matrix(r#"{"metric":{},"values":[1]}"#),
        matrix(r#"{"metric":{},"values":[[1]]}"#),
        matrix(r#"{"metric":{},"values":[[1,2]]}"#),
        matrix(r#"{"metric":{},"values":[[1,"x"]]}"#),
        matrix(r#"{"metric":{},"values":[[1,"infinity"]]}"#),
        matrix(r#"{"metric":{},"values":[["1","1"]]}"#),
        matrix(r#"{"metric":{},"values":[[1e99,"1"]]}"#),
        matrix(r#"{"metric":{},"values":[[1,"1"][2,"2"]]}"#),
        matrix(r#"{"metric":{},"values":[[1,"1"],]}"#),
        matrix(r#"{"metric":{},"values":[[2,"1"],[2,"1"]]}"#),
        matrix(r#"{"metric":{},"values":[[2,"1"],[1.0,"1"]]}"#),
        matrix(r#"{"metric":{},"values":[[20,"1"],[21,"1"],[21,"1"]]}"#),
        matrix(r#"{"metric":{},"values":[[20,"1"],[22,"1"],[21,"1"]]}"#),
        matrix(r#"{"metric":{},"values":[[20,"1"],[22,"1"],[21.500,"1"]]}"#),
        matrix(r#"{"metric":{},"values":[[20,"1"],[22,"1"],[3,"1"]]}"#),
        matrix(r#"{"metric":{},"values":[[20,"1"],[21,"1"],[0.9,"1"]]}"#),
        matrix(r#"{"metric":{},"values":[[20,"1"],[21,"1"],[2:,"1"]]}"#),
        matrix(r#"{"metric":{},"values":[[20,"1"],[21,"1"],[22,"1.2.3"]]}"#),
        matrix(r#"{"metric":{},"values":[[20,"1"],[21,"1"],[22,"1-"]]}"#),
        matrix(r#"{"metric":{},"values":[[20,"1"],[21,"1"],[22,"1"}]}"#),
        matrix(r#"{"metric":{},"histograms":[[1,"x"]]}"#),
        matrix(r#"{"metric":{},"histograms":[[1,{"a":}]]}"#),
        matrix(r#"{"metric":{},"histograms":[[2,{}],[2,{}]]}"#),
        matrix("{\"metric\":{\"a\":\"\u{1}\"}}"),
    ];
    for body in bad {
        for units in [1, 1_000_000] {
            let outcome = read(body.as_bytes(), units);
            assert!(
                matches!(outcome, Err(MemberFailure::Malformed { .. })),
                "{body}: {outcome:?}"
            );
        }
    }
}

/// Cut anywhere, a body is malformed: never a panic, never an endless loop.
#[test]
fn truncated_bodies_fail() {
    let body = matrix(
        r#"{"metric":{"a":"\n"},"values":[[1,"1"], [2.5,"2"]],"histograms":[[3,{"count":"1"}]]}"#,
    );
    for length in 0..body.len() {
        for units in [1, 5, 1_000_000] {
            assert!(read(&body.as_bytes()[..length], units).is_err(), "{length}");
        }
    }
}

#[test]
fn random_damage_never_panics() {
    let body = matrix(
        r#"{"metric":{"a":"b","c":"\u00e9"},"values":[[1,"1"],[2.5,"NaN"],[3,"1e-07"]]},{"metric":{"z":"1"},"histograms":[[3,{"count":"1","sum":"2","buckets":[[0,"1","2","3"]]}]]}"#,
    );
    let mut state = 0x2545_f491_4f6c_dd1du64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for _ in 0..20_000 {
        let mut bytes = body.clone().into_bytes();
        for _ in 0..=next() % 3 {
            let at = (next() as usize) % bytes.len();
            match next() % 3 {
                0 => bytes[at] = next() as u8,
                1 => drop(bytes.remove(at)),
                _ => bytes.insert(at, b"{}[],:\"\\0e-.x"[(next() % 13) as usize]),
            }
        }
        let whole = read(&bytes, 1_000_000);
        let stepped = read(&bytes, 1 + (next() % 20) as usize);
        assert_eq!(
            whole.is_ok(),
            stepped.is_ok(),
            "{}",
            String::from_utf8_lossy(&bytes)
        );
        if let (Ok(whole), Ok(stepped)) = (whole, stepped) {
            assert_eq!(whole, stepped);
        }
    }
}

#[test]
fn hostile_sizes_meet_a_limit() {
    use crate::limits::{LABELS_PER_SERIES_MAX, SAMPLE_BYTES_MAX};
    let deep = "[".repeat(100_000);
    assert!(
        read(
            format!(r#"{{"status":"success","data":{{"x":{deep}"#).as_bytes(),
            1000
        )
        .is_err()
    );
    let labels = |count: usize| {
        let list: Vec<_> = (0..count).map(|n| format!("\"l{n:05}\":\"v\"")).collect();
        matrix(&format!("{{\"metric\":{{{}}}}}", list.join(",")))
    };
    assert!(read(labels(LABELS_PER_SERIES_MAX).as_bytes(), 1000).is_ok());
    let limit = |name| Err(MemberFailure::Limit { limit: name });
    assert_eq!(
        read(labels(LABELS_PER_SERIES_MAX + 1).as_bytes(), 1000),
        limit("labels of one series")
    );
    let wide = |bytes: usize| {
        matrix(&format!(
            "{{\"metric\":{{}},\"histograms\":[[1,{{\"x\":\"{}\"}}]]}}",
            "y".repeat(bytes)
        ))
    };
    assert!(read(wide(SAMPLE_BYTES_MAX - 20).as_bytes(), 1000).is_ok());
    assert_eq!(
        read(wide(SAMPLE_BYTES_MAX).as_bytes(), 1000),
        limit("bytes of one sample")
    );
    let nested = "[".repeat(20) + &"]".repeat(20);
    let body = matrix(&format!(
        "{{\"metric\":{{}},\"histograms\":[[1,{{\"x\":{nested}}}]]}}"
    ));
    assert!(read(body.as_bytes(), 1000).is_err());
    let (bump, body) = (Bump::new(), matrix(r#"{"metric":{"a":"\n"}}"#));
    bump.set_allocation_limit(Some(0));
    let outcome = Reader::new(body.as_bytes(), &bump, &[]).step(1000);
    assert_eq!(
        outcome,
        Err(MemberFailure::Limit {
            limit: "arena bytes"
        })
    );
}

#[test]
fn errors_keep_their_envelope() {
    let finish = |body: &str, status| {
        let bump = Bump::new();
        let mut reader = Reader::new(body.as_bytes(), &bump, &[]);
        while !reader.step(1000).unwrap().1 {}
        reader.finish(status).map(|_| ()).unwrap_err()
    };
    let body = r#"{"status":"error","errorType":"bad_data","error":"say \"what\""}"#;
    let api = |status| MemberFailure::Api {
        status,
        kind: "bad_data".to_owned(),
        message: "say \"what\"".to_owned(),
    };
    assert_eq!(finish(body, 400), api(400));
    assert_eq!(finish(body, 200), api(200));
    let success = r#"{"status":"success","data":[]}"#;
    assert_eq!(finish(success, 503), MemberFailure::Status { status: 503 });
    assert_eq!(
        finish(r#"{"message":"no"}"#, 403),
        MemberFailure::Status { status: 403 }
    );
}
