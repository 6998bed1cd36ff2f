//! A question tower in this process.
