//! The fuzzer's bytes, read as a sequence of small decisions. What is missing at the end reads as zero.

/// Values at which arithmetic goes wrong.
const EDGES: [u64; 14] = [
    0,
    1,
    2,
    63,
    64,
    65,
    1 << 16,
    (1 << 30) - 1,
    1 << 30,
    i32::MAX as u64,
    u32::MAX as u64,
    1 << 32,
    i64::MAX as u64,
    u64::MAX,
];

/// Numbers at which scores go wrong.
const FLOATS: [f32; 14] = [
    f32::NAN,
    f32::INFINITY,
    f32::NEG_INFINITY,
    f32::MAX,
    f32::MIN,
    f32::MIN_POSITIVE,
    1e-40,
    -1e-45,
    -0.0,
    0.0,
    1.0,
    -1.0,
    1e19,
    -1e30,
];

/// What is left of the fuzzer's bytes.
#[derive(Debug, Clone)]
pub struct Script<'a>(&'a [u8]);

impl<'a> Script<'a> {
    /// From the start.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// No decision is left.
    pub fn is_over(&self) -> bool {
        self.0.is_empty()
    }

    /// All that is left, as it is.
    pub fn rest(self) -> &'a [u8] {
        self.0
    }

    /// The next byte.
    pub fn byte(&mut self) -> u8 {
        self.array::<1>()[0]
    }

    /// The next `N` bytes.
    pub fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut array = [0; N];
        let (taken, rest) = self.0.split_at(N.min(self.0.len()));
        array[..taken.len()].copy_from_slice(taken);
        self.0 = rest;
        array
    }

    /// A number below `end`; 0 where there is none.
    pub fn below(&mut self, end: usize) -> usize {
        usize::from(u16::from_le_bytes(self.array()))
            .checked_rem(end)
            .unwrap_or(0)
    }

    /// One of the values at which arithmetic goes wrong, or one next to it.
    pub fn edge(&mut self) -> u64 {
        let [which, beside] = self.array();
        EDGES[usize::from(which) % EDGES.len()].wrapping_add_signed(i64::from(beside.cast_signed()))
    }

    /// One of the numbers at which scores go wrong.
    pub fn float(&mut self) -> f32 {
        FLOATS[usize::from(self.byte()) % FLOATS.len()]
    }
}
