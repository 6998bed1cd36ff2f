//! The types of values that arrays are read and written of.

use half::f16;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Type of the values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NpyDtype {
    /// `<f2`.
    F16,
    /// `<f4`.
    F32,
    /// `<f8`.
    F64,
    /// `<i4`.
    I32,
    /// `<u4`.
    U32,
    /// `<i8`.
    I64,
    /// `|i1`.
    I8,
    /// `|u1`.
    U8,
}

impl NpyDtype {
    pub(super) const ALL: [Self; 8] = [
        Self::F16,
        Self::F32,
        Self::F64,
        Self::I32,
        Self::U32,
        Self::I64,
        Self::I8,
        Self::U8,
    ];

    /// As NumPy names it.
    pub fn name(self) -> &'static str {
        match self {
            Self::F16 => "<f2",
            Self::F32 => "<f4",
            Self::F64 => "<f8",
            Self::I32 => "<i4",
            Self::U32 => "<u4",
            Self::I64 => "<i8",
            Self::I8 => "|i1",
            Self::U8 => "|u1",
        }
    }

    /// Bytes of a value.
    pub fn bytes(self) -> usize {
        match self {
            Self::F16 => 2,
            Self::F32 | Self::I32 | Self::U32 => 4,
            Self::F64 | Self::I64 => 8,
            Self::I8 | Self::U8 => 1,
        }
    }
}

/// A value with the same bytes in a file and in memory.
pub trait NpyValue: FromBytes + IntoBytes + Immutable + Default + Clone {
    /// Its type in a file.
    const DTYPE: NpyDtype;
}

impl NpyValue for f16 {
    const DTYPE: NpyDtype = NpyDtype::F16;
}
impl NpyValue for f32 {
    const DTYPE: NpyDtype = NpyDtype::F32;
}
impl NpyValue for f64 {
    const DTYPE: NpyDtype = NpyDtype::F64;
}
impl NpyValue for i32 {
    const DTYPE: NpyDtype = NpyDtype::I32;
}
impl NpyValue for u32 {
    const DTYPE: NpyDtype = NpyDtype::U32;
}
impl NpyValue for i64 {
    const DTYPE: NpyDtype = NpyDtype::I64;
}
