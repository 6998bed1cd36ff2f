//! Bounds-checked access to a sketch table, shared by its kernels.

/// A table of sketches with the planes of one query, both known to be long enough.
#[derive(Clone, Copy)]
pub(super) struct Sketches<'a> {
    /// Four planes of `words` values.
    pub(super) planes: &'a [u64],
    /// Values of one sketch.
    pub(super) words: usize,
    /// At least `stride` words for each id up to [`Sketches::last`].
    pub(super) lines: &'a [u64],
    /// Values of one row, `words` or more.
    pub(super) stride: usize,
    rows: usize,
}

impl<'a> Sketches<'a> {
    /// `None` where no id can have a sketch: too few planes, rows shorter than a sketch, or no row.
    pub(super) fn new(planes: &'a [u64], words: usize, lines: &'a [u64], stride: usize) -> Option<Self> {
        let planes = planes.get(..words.checked_mul(4)?)?;
        let rows = lines.len().checked_div(stride)?;
        (stride >= words && rows > 0).then_some(Self {
            planes,
            words,
            lines,
            stride,
            rows,
        })
    }

    /// The row of `id`: `stride` values, of which the first `words` are the sketch.
    #[inline]
    pub(super) fn line(&self, id: u32) -> Option<&'a [u64]> {
        let id = id as usize;
        if id < self.rows {
            Some(&self.lines[id * self.stride..][..self.stride])
        } else {
            None
        }
    }

    /// The last id that has a row.
    #[cfg(target_arch = "x86_64")]
    #[inline]
    pub(super) fn last(&self) -> u32 {
        u32::try_from(self.rows - 1).unwrap_or(u32::MAX)
    }

    /// The sketch of `id`: `words` values.
    #[inline]
    pub(super) fn code(&self, id: u32) -> Option<&'a [u64]> {
        match self.line(id) {
            Some(line) => Some(&line[..self.words]),
            None => None,
        }
    }

    /// Plane `p` of the query, `p < 4`.
    #[inline]
    pub(super) fn plane(&self, p: usize) -> &'a [u64] {
        &self.planes[p * self.words..][..self.words]
    }
}
