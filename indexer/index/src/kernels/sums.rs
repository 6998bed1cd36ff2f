//! The loops that all instruction sets share, generic over their registers.
//!
//! Closures of a function compiled for an instruction set are compiled for it as well. These loops are inlined into
//! that function, and its closures into them, so that every set gets machine code as if the loop were written out in it
//! (`cargo bench -p dyad-bench --bench kernels` compares).

use super::padding::padded;

/// Sums over pairs of values of `a` and `b`, to the shorter length: `SUMS` registers of `LANES` values a round, so that
/// the latency of an addition is hidden; `add` gets a sum and whole registers, `add_rest` the remainder, if there is
/// one.
#[expect(clippy::inline_always, reason = "inlined, or the closures are called through memory")]
#[inline(always)]
pub(super) fn sums<const LANES: usize, const SUMS: usize, A, B, V: Copy>(
    a: &[A],
    b: &[B],
    zero: V,
    add: impl Fn(V, &[A; LANES], &[B; LANES]) -> V,
    add_rest: impl Fn(V, &[A], &[B]) -> V,
) -> [V; SUMS] {
    let len = a.len().min(b.len());
    let (a, a_rest) = a[..len].as_chunks::<LANES>();
    let (b, b_rest) = b[..len].as_chunks::<LANES>();
    let (a_rounds, a_last) = a.as_chunks::<SUMS>();
    let (b_rounds, b_last) = b.as_chunks::<SUMS>();
    let mut sums = [zero; SUMS];
    for (x, y) in a_rounds.iter().zip(b_rounds) {
        for s in 0..SUMS {
            sums[s] = add(sums[s], &x[s], &y[s]);
        }
    }
    for (x, y) in a_last.iter().zip(b_last) {
        sums[0] = add(sums[0], x, y);
    }
    if !a_rest.is_empty() {
        sums[SUMS - 1] = add_rest(sums[SUMS - 1], a_rest, b_rest);
    }
    sums
}

/// [`sums`] with the remainder padded with zeros to a register.
#[expect(clippy::inline_always, reason = "as `sums`")]
#[inline(always)]
pub(super) fn padded_sums<const LANES: usize, const SUMS: usize, A, B, V>(
    a: &[A],
    b: &[B],
    zero: V,
    add: impl Fn(V, &[A; LANES], &[B; LANES]) -> V,
) -> [V; SUMS]
where
    A: Copy + Default,
    B: Copy + Default,
    V: Copy,
{
    sums(a, b, zero, &add, |sum, a, b| add(sum, &padded(a), &padded(b)))
}

/// The sums of one row and each of four others of at least its length, which share the loads of the one. `None` where
/// one of the four is shorter.
#[expect(clippy::inline_always, reason = "as `sums`")]
#[inline(always)]
pub(super) fn sums_of_four<const LANES: usize, A, B, V: Copy>(
    one: &[A],
    rows: &[&[B]; 4],
    zero: V,
    add: impl Fn([V; 4], &[A; LANES], [&[B; LANES]; 4]) -> [V; 4],
    add_rest: impl Fn([V; 4], &[A], [&[B]; 4]) -> [V; 4],
) -> Option<[V; 4]> {
    let len = one.len();
    if rows[0].len() < len || rows[1].len() < len || rows[2].len() < len || rows[3].len() < len {
        return None;
    }
    let (one, one_rest) = one.as_chunks::<LANES>();
    let (r0, r0_rest) = rows[0][..len].as_chunks::<LANES>();
    let (r1, r1_rest) = rows[1][..len].as_chunks::<LANES>();
    let (r2, r2_rest) = rows[2][..len].as_chunks::<LANES>();
    let (r3, r3_rest) = rows[3][..len].as_chunks::<LANES>();
    let mut sums = [zero; 4];
    for (i, x) in one.iter().enumerate() {
        sums = add(sums, x, [&r0[i], &r1[i], &r2[i], &r3[i]]);
    }
    if !one_rest.is_empty() {
        sums = add_rest(sums, one_rest, [r0_rest, r1_rest, r2_rest, r3_rest]);
    }
    Some(sums)
}

/// [`sums_of_four`] with the remainder padded with zeros to a register.
#[expect(clippy::inline_always, reason = "as `sums`")]
#[inline(always)]
pub(super) fn padded_sums_of_four<const LANES: usize, A, B, V>(
    one: &[A],
    rows: &[&[B]; 4],
    zero: V,
    add: impl Fn([V; 4], &[A; LANES], [&[B; LANES]; 4]) -> [V; 4],
) -> Option<[V; 4]>
where
    A: Copy + Default,
    B: Copy + Default,
    V: Copy,
{
    sums_of_four(one, rows, zero, &add, |sums, one, [a, b, c, d]| {
        add(sums, &padded(one), [&padded(a), &padded(b), &padded(c), &padded(d)])
    })
}

/// Four results one by one, where [`sums_of_four`] has none: not for speed.
#[cold]
#[inline(never)]
pub(super) fn one_by_one<B>(rows: &[&[B]; 4], dot: impl Fn(&[B]) -> i32) -> [i32; 4] {
    [dot(rows[0]), dot(rows[1]), dot(rows[2]), dot(rows[3])]
}
