//! What a request's JSON may hold, from its bytes alone: before it is read, its memory is known.

use super::refusal::HttpRefusal;

/// Bytes of memory that a string, object or array takes once it is read, and those of any other value.
const ELEMENT_BYTES: usize = 256;
const VALUE_BYTES: usize = 56;

/// What one request's JSON may hold.
#[derive(Debug, Clone, Copy)]
pub struct JsonBounds {
    /// Bytes of it.
    pub bytes: usize,
    /// Strings, objects and arrays, names included.
    pub elements: usize,
    /// Values, between commas.
    pub values: usize,
}

impl JsonBounds {
    /// Bytes of memory that a request takes once it is read, about. Refuses JSON that would take far more than its
    /// bytes: an empty object is a hundred times as large. What else is wrong with it, its reader says.
    pub fn memory(&self, json: &[u8]) -> Result<usize, HttpRefusal> {
        let (mut commas, mut elements, mut in_string, mut is_escaped) = (0_usize, 0_usize, false, false);
        for byte in json {
            if in_string {
                (in_string, is_escaped) = (is_escaped || *byte != b'"', !is_escaped && *byte == b'\\');
                continue;
            }
            match byte {
                b'"' => {
                    in_string = true;
                    elements += 1;
                }
                b'{' | b'[' => elements += 1,
                b',' => commas += 1,
                _ => {}
            }
        }
        let counts = [
            (elements, self.elements, "strings, objects and arrays"),
            (commas, self.values, "values"),
        ];
        for (got, most, what) in counts {
            if got > most {
                let message = format!("the request's JSON has {got} {what}, more than {most}. Send less at once");
                return Err(HttpRefusal::invalid(message));
            }
        }
        Ok(elements * ELEMENT_BYTES + commas * VALUE_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits;

    const SEARCH: JsonBounds = JsonBounds {
        bytes: limits::MAX_SEARCH_BYTES,
        elements: 2 * limits::MAX_SEARCH_ELEMENTS,
        values: 2 * limits::MAX_DIM,
    };
    const BATCH: JsonBounds = JsonBounds {
        bytes: limits::MAX_SEARCH_BATCH_BYTES,
        elements: limits::MAX_SEARCH_BATCH_ELEMENTS,
        values: 2048 * limits::MAX_BATCH,
    };

    #[test]
    fn json_that_takes_far_more_memory_than_bytes_is_refused_unread() {
        let memory =
            |most: JsonBounds, json: &str| most.memory(json.as_bytes()).map_err(|refusal| format!("{refusal:?}"));
        let nested = |count: usize| format!("[{}{{}}]", "{},".repeat(count));
        assert!(
            memory(SEARCH, &nested(2 * limits::MAX_SEARCH_ELEMENTS))
                .unwrap_err()
                .contains("more than 65536")
        );
        assert!(
            memory(BATCH, &nested(limits::MAX_SEARCH_BATCH_ELEMENTS))
                .unwrap_err()
                .contains("more than 524288")
        );
        assert_eq!(memory(SEARCH, &nested(9)), Ok(11 * ELEMENT_BYTES + 9 * VALUE_BYTES));
        let numbers = |count: usize| format!("[{}0]", "0,".repeat(count));
        assert!(memory(SEARCH, &numbers(limits::MAX_DIM)).is_ok());
        assert!(
            memory(SEARCH, &numbers(2 * limits::MAX_DIM + 1))
                .unwrap_err()
                .contains("values, more than 131072")
        );
        // Commas, brackets and escaped quotes in strings are none.
        assert_eq!(
            memory(SEARCH, r#"["\\\",{[,", "\\"]"#),
            Ok(3 * ELEMENT_BYTES + VALUE_BYTES)
        );
    }
}
