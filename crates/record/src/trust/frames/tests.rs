use super::*;

#[test]
fn scan() {
    for path in std::env::var("SCAN").unwrap_or_default().split_whitespace() {
        let file = std::fs::File::open(path).unwrap();
        let t = std::time::Instant::now();
        let f = frames(&object::read::ReadCache::new(&file));
        if let Some(f) = f {
            println!("{:.3} {:?} {} {:?}", f.share(), f, path, t.elapsed());
        } else {
            println!("none {path}");
        }
    }
}
