use super::*;

fn side(stacks: &[(&str, f64)]) -> Vec<(String, f64)> {
    stacks.iter().map(|(stack, weight)| ((*stack).to_owned(), *weight)).collect()
}

fn picture() -> Picture<'static> {
    Picture { title: "t", filtered: None, changed: None, as_shares: true }
}

/// Returns the frames of both graphs, upper and lower: the text for the mouse, and the color.
fn frames(before: &[(&str, f64)], after: &[(&str, f64)], picture: Picture<'_>) -> [Vec<String>; 2] {
    let svg = String::from_utf8(draw(&side(before), &side(after), picture).expect("drawn")).expect("UTF-8");
    let (above, below) = svg.split_once("frames-before").expect("two graphs");
    [above, below].map(|svg| {
        let titles = svg.split("<title>").skip(1);
        let frame = |title: &str| {
            let (title, rest) = title.split_once("</title>").expect("closed");
            let color = rest
                .split_once("fill=\"rgb(")
                .and_then(|(_, color)| color.split_once(')'))
                .expect("a color")
                .0;
            let [r, g, b] =
                color.split(',').map(|c| c.parse::<u8>().expect("a number")).collect::<Vec<_>>()[..]
            else {
                panic!("{color}")
            };
            let color = match () {
                () if r == 255 && g < 250 && g == b => "red",
                () if b == 255 && r < 250 && r == g => "blue",
                () => "grey",
            };
            format!("{color} {title}")
        };
        let mut frames: Vec<String> = titles.map(frame).collect();
        // The order of frames in the file means nothing.
        frames.sort();
        frames
    })
}

#[test]
fn what_grew_is_red_and_what_is_gone_is_seen_below() {
    let before = [("main;stays", 50.0), ("main;grows", 25.0), ("main;gone", 25.0)];
    let after = [("main;stays", 500.0), ("main;grows", 400.0), ("main;new", 100.0)];
    let [above, below] = frames(&before, &after, picture());
    assert_eq!(
        above,
        [
            "grey all (1,000,000 ppm, 100%)",
            "grey main (1,000,000 ppm, 100.00%; itself 0.00%)",
            "grey stays (500,000 ppm, 50.00%; itself 0.00%)",
            "red grows (400,000 ppm, 40.00%; itself +15.00%)",
            "red new (100,000 ppm, 10.00%; itself +10.00%)",
        ]
    );
    assert_eq!(
        below,
        [
            "blue gone (250,000 ppm, 25.00%; itself -25.00%)",
            "grey all (1,000,000 ppm, 100%)",
            "grey main (1,000,000 ppm, 100.00%; itself 0.00%)",
            "grey stays (500,000 ppm, 50.00%; itself 0.00%)",
            "red grows (250,000 ppm, 25.00%; itself +15.00%)",
        ]
    );
}

#[test]
fn longer_and_faster_recordings_color_nothing() {
    let before: Vec<(String, f64)> = (0..100).map(|i| (format!("main;f{i}"), f64::from(i % 7 + 1))).collect();
    let after: Vec<(String, f64)> =
        before.iter().map(|(stack, weight)| (stack.clone(), weight * 31.7)).collect();
    let svg = String::from_utf8(draw(&before, &after, picture()).expect("drawn")).expect("UTF-8");
    assert!(svg.contains("0.00%)"));
    assert!(
        !svg.contains("+0.01%") && !svg.contains("-0.01%"),
        "rounding moves less than a hundredth of a percent"
    );
}

#[test]
fn weights_that_mean_the_same_are_compared_as_they_are() {
    let [above, _] = frames(&[("f", 1.0)], &[("f", 2.0)], Picture { as_shares: false, ..picture() });
    assert_eq!(above[1], "red f (1,000,000 ppm, 100.00%; itself +50.00%)");
}

#[test]
fn what_may_be_chance_stays_grey_and_keeps_its_numbers() {
    let before = [("main;f.llvm.1_[i]", 50.0), ("main;g<T>_[k]", 25.0), ("main;gone", 25.0)];
    let after = [("main;f.llvm.2_[i]", 70.0), ("main;g<T>_[k]", 20.0), ("main;new", 10.0)];
    let changed = ["f", "gone"].map(str::to_owned).into_iter().collect();
    let [above, below] = frames(&before, &after, Picture { changed: Some(&changed), ..picture() });
    assert_eq!(
        above,
        [
            "grey all (1,000,000 ppm, 100%)",
            "grey g&lt;T&gt; (200,000 ppm, 20.00%; itself -5.00%)",
            "grey main (1,000,000 ppm, 100.00%; itself 0.00%)",
            "grey new (100,000 ppm, 10.00%; itself +10.00%)",
            "red f.llvm.1 (700,000 ppm, 70.00%; itself +20.00%)",
        ]
    );
    assert!(below.contains(&"blue gone (250,000 ppm, 25.00%; itself -25.00%)".to_owned()), "{below:?}");
    assert!(below.contains(&"grey g&lt;T&gt; (250,000 ppm, 25.00%; itself -5.00%)".to_owned()), "{below:?}");
}

#[test]
fn decorations_split_no_frame() {
    let before = [("main;f.llvm.1;a.so.1+0x10", 1.0), ("main;f.llvm.1_[i]", 1.0), ("main;f", 2.0)];
    let after = [("main;f.cold;a.so.2+0x20", 1.0), ("main;f.llvm.22_[i]", 1.0), ("main;f.part.0", 2.0)];
    let [above, below] = frames(&before, &after, picture());
    assert_eq!(above, below);
    assert_eq!(
        above,
        [
            "grey a.so+? (250,000 ppm, 25.00%; itself 0.00%)",
            "grey all (1,000,000 ppm, 100%)",
            "grey f (750,000 ppm, 75.00%; itself 0.00%)",
            "grey f.llvm.1 (250,000 ppm, 25.00%; itself 0.00%)",
            "grey main (1,000,000 ppm, 100.00%; itself 0.00%)",
        ]
    );
}

#[test]
fn nothing_cannot_be_drawn() {
    let some = side(&[("f", 1.0)]);
    for (before, after, which) in
        [(&[][..], &some[..], "before"), (&some, &[], "after"), (&some, &side(&[("f", 0.0)]), "after")]
    {
        let error = draw(before, after, picture()).expect_err("refused");
        assert_eq!(
            error.to_string(),
            format!("cannot draw a graph of a difference: there are no samples {which}")
        );
    }
}

#[test]
fn the_same_input_gives_the_same_bytes_in_any_order_and_names_end_no_element() {
    let before = side(&[("a<b>;c&\"d\"", 3.0), ("a<b>;</svg>", 1.0), ("]]>", 2.0)]);
    let after = side(&[("a<b>;c&\"d\"", 1.0), ("id=\"frames\"", 1.0)]);
    let svg = draw(&before, &after, Picture { title: "</svg> & x", ..picture() }).expect("drawn");
    let reversed: Vec<_> = before.iter().rev().cloned().collect();
    assert_eq!(draw(&reversed, &after, Picture { title: "</svg> & x", ..picture() }).expect("drawn"), svg);
    let svg = String::from_utf8(svg).expect("UTF-8");
    assert_eq!(
        (svg.matches("<svg ").count(), svg.matches("</svg>").count()),
        (4, 4),
        "two graphs with their frames"
    );
    assert_eq!(svg.matches("<svg id=\"frames\"").count(), 1);
}

#[test]
fn labels_fit_their_frames_and_both_graphs_follow_the_window() {
    let name = |i: u32| "a_function_of_a_long_name".repeat(3) + &i.to_string();
    let sides: Vec<(String, f64)> =
        (1..40).map(|i| (format!("main;{};{}", name(i), name(i + 1)), f64::from(i * i))).collect();
    let svg = String::from_utf8(draw(&sides, &sides, picture()).expect("drawn")).expect("UTF-8");
    let mut labels = 0;
    for frame in svg.split("<title>").skip(1) {
        let after = |text: &'_ str, begin: &str, end: &str| -> String {
            let rest = text.split_once(begin).expect("inferno's own").1;
            rest.split_once(end).expect("closed").0.to_owned()
        };
        let percent: f64 = after(frame, "width=\"", "%").parse().expect("a number");
        let label = after(frame.split_once("<text").expect("it has one").1, ">", "</text>");
        let room = percent / 100.0 * (WIDTH - 20) as f64 - 3.0;
        assert!(label.is_empty() || label.chars().count() as f64 * 12.0 * 0.602 <= room, "{label}: {room}");
        labels += usize::from(!label.is_empty());
    }
    assert!(labels > 20, "{labels}");
    assert!(svg.contains("var fluiddrawing = true;") && svg.contains("before.parentNode"));
}
