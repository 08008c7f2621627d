//! `archive serve`: its pages say what the commands say, all their links lead somewhere, and no name runs in them.

use std::collections::BTreeSet;
use std::fs;

use icecore_tests::inside::{answer, json, run_in, text};
use icecore_tests::synthetic::{Fleet, REGRESSION_DAY, hostile};
use serde_json::Value;

use crate::serve::Server;

/// The page at a path of the server; it must be one.
fn page(server: &Server, path: &str) -> String {
    let answer = server.get(&format!("/{path}"));
    assert!(answer.status == 200 && answer.head.contains("text/html"), "{path}: {}", answer.head);
    String::from_utf8(answer.body).expect("UTF-8")
}

/// Where the links of a page lead.
fn links(page: &str) -> BTreeSet<String> {
    let links = page.split("<a href=\"").skip(1).filter_map(|rest| rest.split('"').next());
    links.map(|link| link.replace("&amp;", "&")).collect()
}

fn rows(page: &str) -> usize {
    page.matches("<tr><td").count()
}

fn is_script(page: &str) -> bool {
    page.contains("<script")
}

#[test]
fn pages_say_what_the_commands_say_and_all_links_lead_somewhere() {
    let fleet = Fleet { first: REGRESSION_DAY - 6, days: REGRESSION_DAY + 6, hosts: 6, samples: 200 };
    let dir = fleet.archived();
    let path = dir.path();
    let server = Server::run(path, &["archive", "archive", "serve", "--since", "2026-09-01"]);
    assert!(server.serving["page"].as_str().expect("an address").contains("/list?since=2026"));
    let list = page(&server, "list");
    let listed = json(path, "archive DIR/archive list")["rows"].clone();
    assert_eq!(rows(&list), listed.as_array().expect("rows").len());
    let uuid = listed[0]["uuid"].as_str().expect("a UUID");
    assert!(list.contains(&uuid[..8]) && list.contains("web-05") && list.contains("1.5.0"));
    assert_eq!(rows(&page(&server, "list?selection=host%3Dweb-05+release%3D1.4.*")), 6);
    assert_eq!(rows(&page(&server, "")), rows(&list));
    let found = json(path, "archive DIR/archive search --function crc32 -n 0");
    assert_eq!(
        rows(&page(&server, "search?function=crc32")),
        found["row_count"].as_u64().expect("rows") as usize
    );

    let trend = page(&server, "trend?selection=service%3Dweb");
    let said = json(path, "archive DIR/archive trend service=web --by night");
    let services = said["services"].as_array().expect("services");
    let of_web = services[0]["rows"].as_array().expect("rows");
    assert_eq!((rows(&trend), trend.matches("<svg").count()), (of_web.len(), of_web.len()));
    let parse = of_web.iter().find(|row| row["function"] == "parse").expect("a function");
    assert_eq!(
        (parse["changes"].as_array().map(Vec::len), parse["shares"].as_array().map(Vec::len)),
        (Some(1), Some(12))
    );
    assert_eq!((&parse["changes"][0]["at"], &parse["changes"][0]["worse"]), (&6.into(), &true.into()));
    // It is what `regressions` says of the same tables.
    let regression = json(path, "archive DIR/archive regressions service=web")["rows"][0].clone();
    for key in ["before", "after", "since_unix_us"] {
        assert_eq!(parse["changes"][0][key], regression[key], "{key}");
    }
    assert!(trend.contains("class=\"worse\"") && trend.contains("2026-10-31"), "{trend}");

    // Every page but those of recordings links to others; all of them are there.
    let mut seen = BTreeSet::new();
    let mut left: Vec<String> =
        ["trend?selection=service%3Dweb", "regressions", "outliers", "quality", "search?image=libz*"]
            .map(str::to_owned)
            .into();
    let (mut plain, mut whole) = (0, [0, 0]);
    while let Some(next) = left.pop() {
        let kind = next.split('?').next().unwrap_or_default().to_owned();
        // A page of each kind, and each of the others.
        let is_new =
            seen.insert(if ["page", "difference"].contains(&&*kind) { kind.clone() } else { next.clone() });
        if !is_new {
            continue;
        }
        let shown = page(&server, &next);
        assert!(!shown.contains("role=\"alert\""), "{next}: {shown}");
        match &*kind {
            "page" => whole[0] += 1,
            "difference" => whole[1] += 1,
            _ => {
                plain += 1;
                assert!(!is_script(&shown) && shown.contains("default-src 'none'"), "{next}");
                left.extend(links(&shown));
                continue;
            }
        }
        assert!(is_script(&shown), "{next}: the page of html");
    }
    assert!(plain >= 12 && whole == [1, 1], "{plain} {whole:?}");
    // The difference of many recordings on each side, as a command writes it.
    let sides =
        ["before_selection", "after_selection"].map(|key| regression[key].as_str().expect("a selection"));
    let (code, _, err) =
        run_in(path, &["archive", "DIR/archive", "diff", sides[0], sides[1], "-o", "DIR/change.html"]);
    assert_eq!(code, 0, "{err}");
    let written = fs::read_to_string(path.join("change.html")).expect("written");
    assert!(written.contains("<title>36 recordings → 36 recordings</title>"));
}

#[test]
fn names_are_text_and_what_is_typed_is_no_option() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path();
    hostile().write(&path.join("hostile"), true).expect("written");
    text(path, "archive DIR/archive add DIR/hostile --repair");
    let server = Server::run(path, &["archive", "archive", "serve"]);
    let names = json(path, "archive DIR/archive search --function * -n 0")["rows"].clone();
    let is_hostile = |row: &Value| row["function"].as_str().is_some_and(|name| name.contains('<'));
    assert!(names.as_array().expect("rows").iter().any(is_hostile), "{names}");
    for asked in [
        "list",
        "search?function=*",
        "trend",
        "quality",
        "outliers",
        "search?function=%3Cscript%3E",
        "list?selection=%3Cb%3E",
    ] {
        let shown = page(&server, asked);
        assert!(!is_script(&shown) && !shown.contains("<b>") && !shown.contains("<img"), "{asked}: {shown}");
    }
    let before = fs::read_dir(path).expect("listed").count();
    for wrong in [
        "list?selection=--output%3Dx",
        "page?selection=-o",
        "list?last=soon",
        "trend?rows=x",
        "page?since=--force",
        "difference?before=x%3D1",
    ] {
        assert!(page(&server, wrong).contains("role=\"alert\""), "{wrong}");
    }
    assert_eq!(fs::read_dir(path).expect("listed").count(), before);
    assert_eq!(server.get("/nothing").status, 404);
    assert_eq!(server.send("POST", "/list", "", "x").status, 404);
    let (code, err) = answer(path, "archive DIR/archive serve web");
    assert!(code == 2 && err.contains("is no term of a selection"), "{err}");
}
