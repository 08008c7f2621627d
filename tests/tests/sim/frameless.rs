//! Samples without frames: of a recorder that could read no stack, or of a filter that leaves none.

use std::path::Path;

use icecore_format::records::{Change, EndReason, ImageKind, Origin, ReceiptV1, Symbol};
use icecore_tests::inside::run_in;
use icecore_tests::synthetic::{Builder, START_NS};
use serde_json::Value;

const SAMPLES: u64 = 400;

/// Makes two seconds of samples; each in `with_frames` has two frames, the others have no stack.
fn write(dir: &Path, name: &str, with_frames: u64) {
    let mut b = Builder::default();
    let task = b.task(100, 100, "service");
    let image = b.image(ImageKind::FILE, "/no/such/bin/service");
    b.change(1_000, Change::FOUND, 100, 1, "service");
    b.map(2_000, 100, 0x1_0000, image, Origin::SCAN);
    b.symbols.push(Symbol::new(image, 0x1000..0x1100, "main"));
    for number in 0..SAMPLES {
        let stack = [0x1_0010, 0x1_0050];
        b.sample(number * 5_000_000, 0, task, &stack[..if number < with_frames { 2 } else { 0 }], &[]);
    }
    b.receipt = Some(ReceiptV1 {
        end_ns: START_NS + 2_000_000_000,
        end_reason: EndReason::DURATION,
        samples: SAMPLES,
        ..ReceiptV1::default()
    });
    b.write(&dir.join(name), true).expect("written");
}

#[test]
fn recordings_without_any_frame_are_compared_and_shown() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let names = ["none", "some", "all"];
    names.iter().zip([0, 200, SAMPLES]).for_each(|(name, with)| write(dir.path(), name, with));
    let files = names.map(|name| format!("DIR/{name}"));
    for (before, after) in files.iter().flat_map(|before| files.each_ref().map(|after| (before, after))) {
        for by in ["function", "line", "image", "process", "thread", "stack"] {
            for options in [&[][..], &["--all"], &["--sort", "self"], &["-o", "DIR/d.html"]] {
                let line = [&["diff", before, after, "--by", by, "--json"][..], options].concat();
                let (code, out, err) = run_in(dir.path(), &line);
                // The report refuses a picture without frames, and says so.
                let is_drawn = options.first() == Some(&"-o");
                assert!(code == 0 || is_drawn && err.starts_with("error: "), "{line:?}: {err}");
                if code == 0 {
                    let said: Value = serde_json::from_str(&out).expect("JSON");
                    let weight = SAMPLES * icecore_tests::synthetic::PERIOD_NS;
                    assert_eq!([&said["before_total"], &said["after_total"]], [weight, weight], "{line:?}");
                }
            }
        }
    }
    let views: [&[&str]; 23] = [
        &["summary"],
        &["top"],
        &["top", "--by", "line"],
        &["top", "--by", "address"],
        &["top", "--by", "wait", "--event", "*"],
        &["tree", "--wakers", "--event", "*"],
        &["tree"],
        &["tree", "--callers"],
        &["flame", "-o", "-"],
        &["html", "-o", "-"],
        &["folded"],
        &["samples"],
        &["depth"],
        &["timeline"],
        &["health"],
        &["missing"],
        &["export", "--to", "firefox", "-o", "-"],
        &["export", "--to", "callgrind", "-o", "-"],
        &["export", "--to", "csv", "-o", "-"],
        &["export", "--to", "csv-samples", "-o", "-"],
        &["export", "--to", "folded", "-o", "-"],
        &["export", "--to", "perf-script", "-o", "-"],
        &["export", "--to", "speedscope", "-o", "-"],
    ];
    for (name, view) in files.iter().flat_map(|name| views.map(|view| (name, view))) {
        let (code, _, err) = run_in(dir.path(), &[view, &[name]].concat());
        assert_eq!(code, 0, "{view:?} {name}: {err}");
    }
    for (name, code) in files.iter().zip([2, 0, 0]) {
        assert_eq!(run_in(dir.path(), &["annotate", name, "main"]).0, code, "{name}");
    }
}
