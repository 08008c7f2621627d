//! All ways in which Rust makes stacks. What runs between the two int3 instructions is followed step by step.
use std::hint::black_box;
use std::io::Read;
use std::panic::catch_unwind;

trait Shape {
    fn area(&self, scale: u64) -> u64;
}
struct Square(u64);
impl Shape for Square {
    #[inline(never)]
    fn area(&self, scale: u64) -> u64 {
        leaf(self.0 * scale)
    }
}
struct Guard;
impl Drop for Guard {
    #[inline(never)]
    fn drop(&mut self) {
        black_box(leaf(5));
    }
}
#[repr(align(128))]
struct Line([u64; 16]);

#[inline(never)]
fn leaf(x: u64) -> u64 {
    black_box(x.wrapping_mul(3))
}

#[inline(never)]
fn recursion(depth: u64) -> u64 {
    if depth == 0 { leaf(1) } else { recursion(depth - 1) + leaf(depth) }
}

/// More than a page, so that the stack is probed.
#[inline(never)]
fn probed(x: u64) -> u64 {
    let mut pages = [0_u64; 2000];
    pages[black_box(x as usize)] = x;
    leaf(black_box(&pages)[3])
}

#[inline(never)]
fn aligned(x: u64) -> u64 {
    let mut line = Line([0; 16]);
    line.0[black_box(x as usize)] = leaf(x);
    black_box(&line).0[0]
}

#[inline(never)]
fn panics(depth: u64) -> u64 {
    let _guard = Guard;
    if black_box(depth) == 0 {
        std::panic::resume_unwind(Box::new("in flight"));
    }
    panics(depth - 1) + 1
}

#[inline(never)]
fn closures(captured: u64) -> u64 {
    let mut numbers = vec![4, 1, 3, 9, 2, 8];
    numbers.sort_by(|a: &u64, b| leaf(a ^ captured).cmp(&leaf(b ^ captured)));
    let twice: Box<dyn Fn(u64) -> u64> = Box::new(move |x| leaf(x + captured) * 2);
    numbers.iter().map(|x| twice(*x)).sum()
}

fn main() {
    let mut go = [0];
    std::io::stdin().read_exact(&mut go).expect("a byte to go");
    // SAFETY: a breakpoint changes nothing.
    unsafe { std::arch::asm!("int3") };
    let shape: Box<dyn Shape> = black_box(Box::new(Square(2)));
    let mut sum = shape.area(3) + recursion(5) + probed(7) + aligned(2) + closures(black_box(5));
    sum += catch_unwind(|| panics(3)).unwrap_or(1);
    sum += format!("{:?} {:.3}", black_box("text"), black_box(1.5)).len() as u64;
    black_box(sum);
    // SAFETY: as above.
    unsafe { std::arch::asm!("int3") };
}
