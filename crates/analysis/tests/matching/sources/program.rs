//! Closures, generic functions, traits, threads: whatever compilers name in their own ways.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

pub trait Shape {
    fn area(&self) -> f64;
    fn twice(&self) -> f64 {
        self.area() * 2.0
    }
}

pub struct Square(f64);
pub struct Circle<T>(T);

impl Shape for Square {
    #[inline(never)]
    fn area(&self) -> f64 {
        self.0 * self.0
    }
}

impl<T: Copy + Into<f64>> Shape for Circle<T> {
    #[inline(never)]
    fn area(&self) -> f64 {
        let r: f64 = self.0.into();
        r * r * 3.0
    }
}

impl fmt::Display for Square {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "square of {}", self.0)
    }
}

mod inner {
    #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum Word {
        Short(String),
        Long { text: String, len: usize },
    }

    impl From<&str> for Word {
        #[inline(never)]
        fn from(text: &str) -> Self {
            match text.len() {
                0..=4 => Word::Short(text.to_owned()),
                len => Word::Long { text: text.to_owned(), len },
            }
        }
    }

    #[inline(never)]
    pub fn largest<T: Ord + Clone, const N: usize>(of: &[T]) -> Vec<T> {
        let mut all = of.to_vec();
        all.sort();
        all.into_iter().rev().take(N).collect()
    }
}

#[inline(never)]
fn count(text: &str) -> HashMap<inner::Word, usize> {
    let mut counts = HashMap::new();
    text.split_whitespace().map(inner::Word::from).for_each(|word| *counts.entry(word).or_default() += 1);
    counts
}

#[inline(never)]
fn apply<F: Fn(u64) -> u64>(f: F, n: u64) -> u64 {
    (0..n).map(|i| f(i)).filter(|x| x % 3 != 0).fold(0, |a, b| a ^ b.rotate_left(5))
}

#[cold]
#[inline(never)]
fn fail(why: &str) -> ! {
    panic!("cannot go on: {why}")
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let n = args.len() as u64 * 1000;
    let shapes: Vec<Box<dyn Shape + Send>> = vec![Box::new(Square(n as f64)), Box::new(Circle(2.0f32)), Box::new(Circle(7u8))];
    let areas: f64 = shapes.iter().map(|shape| shape.twice()).sum();
    let threads: Vec<_> = (0..2u64)
        .map(|k| std::thread::spawn(move || apply(|x| x.wrapping_mul(k + 3), n) + apply(move |x| x + k, n)))
        .collect();
    let sum: u64 = threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| fail("a thread"))).sum();
    let mut by_size = BTreeMap::new();
    for (word, count) in count(&args.join(" ")) {
        by_size.entry(count).or_insert_with(Vec::new).push(word);
    }
    let most = inner::largest::<_, 3>(&by_size.values().flatten().cloned().collect::<Vec<_>>());
    let numbers = inner::largest::<u64, 2>(&[sum, n, 3]);
    if areas < 0.0 {
        fail("geometry");
    }
    #[cfg(other)]
    println!("{}", other::mean(&[1.0, n as f64]));
    println!("{areas} {sum} {most:?} {numbers:?} {}", Square(1.0));
}
