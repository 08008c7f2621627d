//! Counts re-entries of interpreters: entries from code that they, or another, had called.

use icecore_format::records::Language;
use icecore_profile::map::Map;
use icecore_profile::named::Profile;
use icecore_profile::named::names::Function;

/// An interpreter, recognized by the function that evaluates its code.
#[derive(Debug)]
struct Interpreter {
    language: &'static str,
    /// Functions that evaluate code.
    evaluators: &'static [&'static str],
    /// Functions through which one function of the language calls another; they do not count as other code.
    calls: &'static [&'static str],
}

/// # Source
/// - CPython: Python/ceval.c, Objects/call.c. From 3.11 on a function of Python that calls another stays in one
///   evaluator; before, it goes through the functions named here.
/// - Ruby: vm.c, vm_exec.c · Lua: lvm.c, ldo.c · Perl: run.c · PHP: Zend/zend_vm_execute.h
/// - V8: src/builtins/x64/builtins-x64.cc; each entry comes from C++.
const INTERPRETERS: [Interpreter; 6] = [
    Interpreter {
        language: "python",
        evaluators: &["_PyEval_EvalFrameDefault", "PyEval_EvalFrameEx"],
        calls: &[
            "_PyEval_EvalFrame",
            "_PyEval_EvalCode",
            "_PyEval_EvalCodeWithName",
            "_PyEval_Vector",
            "PyEval_EvalCodeEx",
            "PyEval_EvalFrame",
            "_PyFunction_FastCallDict",
            "_PyFunction_FastCallKeywords",
            "_PyFunction_Vectorcall",
            "function_code_fastcall",
            "call_function",
            "fast_function",
        ],
    },
    Interpreter { language: "ruby", evaluators: &["vm_exec_core"], calls: &["vm_exec", "rb_vm_exec"] },
    Interpreter { language: "lua", evaluators: &["luaV_execute"], calls: &[] },
    Interpreter { language: "perl", evaluators: &["Perl_runops_standard", "Perl_runops_debug"], calls: &[] },
    Interpreter { language: "php", evaluators: &["execute_ex"], calls: &[] },
    Interpreter {
        language: "javascript",
        evaluators: &["Builtins_JSEntry", "Builtins_JSConstructEntry", "Builtins_JSRunMicrotasksEntry"],
        calls: &[],
    },
];

/// Re-entries of the outermost interpreter of a stack.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Entries {
    /// Its language; `None` if no interpreter is in the stack.
    pub language: Option<&'static str>,
    /// How often its evaluator, or another interpreter's, is called with other code in between.
    pub again: u32,
    /// There was other code since the last evaluator.
    has_left: bool,
}

/// The role of a function for interpreters.
#[derive(Clone, Copy)]
enum Part {
    Evaluator(&'static str),
    Call,
}

/// Counts the entries into interpreters for every stack of a profile.
///
/// # Cost
/// O(stacks)
pub fn entries(profile: &Profile) -> Vec<Entries> {
    let known = known();
    let parts: Vec<Option<Part>> = profile.names.functions.iter().map(|f| part(&known, f)).collect();
    let mut all =
        vec![Entries::default(); if parts.iter().any(Option::is_some) { profile.stacks.len() } else { 0 }];
    for position in 1..all.len() {
        let stack = profile.stacks[position];
        let before = all[stack.caller as usize];
        all[position] = match parts[profile.function_id(stack) as usize] {
            _ if profile.names.frames[stack.frame as usize].inlined => before,
            Some(Part::Evaluator(language)) if before.language.is_none() => {
                Entries { language: Some(language), again: 0, has_left: false }
            }
            Some(Part::Evaluator(_)) => {
                Entries { again: before.again + u32::from(before.has_left), has_left: false, ..before }
            }
            Some(Part::Call) => before,
            None => Entries { has_left: true, ..before },
        };
    }
    all
}

fn known() -> Map<&'static str, Part> {
    let parts = INTERPRETERS.iter().flat_map(|interpreter| {
        let evaluator = |name: &&'static str| (*name, Part::Evaluator(interpreter.language));
        let calls = interpreter.calls.iter().map(|name| (*name, Part::Call));
        interpreter.evaluators.iter().map(evaluator).chain(calls)
    });
    parts.collect()
}

/// Compilers append the variant after a dot: `_PyEval_EvalFrameDefault.lto_priv.0`.
fn part(known: &Map<&str, Part>, function: &Function) -> Option<Part> {
    // The recorder has found the functions that a run of the evaluator runs: they stand in its place.
    match function.language {
        Language::PYTHON => return Some(Part::Evaluator("python")),
        Language::PHP => return Some(Part::Evaluator("php")),
        _ => {}
    }
    known.get(function.own_name().split('.').next()?).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use icecore_profile::named::fixture;

    fn of(stack: &str) -> (Option<&'static str>, u32) {
        let profile = fixture::profile(&[(stack, 1)]);
        let entries = entries(&profile);
        let found = entries.get(profile.rows[0].stack as usize).copied().unwrap_or_default();
        (found.language, found.again)
    }

    #[test]
    fn an_evaluator_is_entered_again_only_through_other_code() {
        let (eval, call) = ("_PyEval_EvalFrameDefault", "_PyFunction_Vectorcall");
        assert_eq!(of("main;run"), (None, 0));
        assert_eq!(of(&format!("main;{eval};read")), (Some("python"), 0));
        assert_eq!(of(&format!("main;{eval};list_sort;{call};{eval};read")), (Some("python"), 1));
        assert_eq!(of(&format!("main;{eval};{call};{eval};{call};{eval}")), (Some("python"), 0));
        assert_eq!(of(&format!("main;{eval}.lto_priv.0;qsort;compare;{eval}.cold")), (Some("python"), 1));
    }

    #[test]
    fn functions_that_an_evaluator_runs_stand_in_its_place() {
        let mut profile = fixture::profile(&[("main;<module>;handler;list_sort;key;helper", 1)]);
        for function in &mut profile.names.functions {
            if !["main", "list_sort"].contains(&&*function.name) {
                function.language = Language::PYTHON;
            }
        }
        let found = entries(&profile)[profile.rows[0].stack as usize];
        assert_eq!((found.language, found.again), (Some("python"), 1));
    }

    #[test]
    fn an_interpreter_in_another_counts_for_the_outer_one() {
        assert_eq!(
            of("Perl_runops_standard;sort;_PyEval_EvalFrameDefault;c;luaV_execute"),
            (Some("perl"), 2)
        );
    }
}
