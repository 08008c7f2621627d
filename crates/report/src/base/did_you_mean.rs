//! Maps words of other profilers to ours.

/// Suggests what to use instead of a word of another profiler.
pub(crate) fn of_others(word: &str) -> Option<&'static str> {
    Some(match word {
        "report" => "name the recording alone (icecore-report FILE), or use `top` or `tree`",
        "record" | "stat" => "icecore-record records",
        "flamegraph" | "svg" => "use `flame`",
        "script" => "use `samples`",
        "collapse" => "use `folded`",
        "compare" => "use `diff`",
        "buildid-list" => "use `missing`",
        _ => return None,
    })
}
