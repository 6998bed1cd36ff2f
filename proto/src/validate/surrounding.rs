//! What stands around hits in their documents.

use super::violations::Check;
use crate::limits;
use crate::v1;

pub(super) fn surrounding(check: &mut Check, at: &str, request: &v1::SearchRequest) {
    let bytes = request.surrounding_bytes;
    if bytes > 0 && !limits::SURROUNDING_BYTES.contains(&bytes) {
        let (least, most) = limits::SURROUNDING_BYTES.into_inner();
        check.fail(format!("{at}surrounding_bytes"), format!("expected 0 for none, or {least} to {most}, got {bytes}"));
    }
}

#[cfg(test)]
mod tests {
    use super::super::search_request;
    use super::*;

    #[test]
    fn bytes_are_few_or_none() {
        let told = |surrounding_bytes| {
            let (query, mode, k) = ("why".into(), v1::Mode::Bm25.into(), 1);
            let request = v1::SearchRequest { query, mode, k, surrounding_bytes, ..Default::default() };
            search_request(&request).map_or_else(|violations| violations.to_string(), |()| "fine".to_owned())
        };
        for bytes in [0, 16, 65_536] {
            assert_eq!(told(bytes), "fine");
        }
        for bytes in [15, 65_537] {
            let told = told(bytes);
            assert!(told.contains("`surrounding_bytes`: expected 0 for none, or 16 to 65536"), "{told}");
        }
    }
}
