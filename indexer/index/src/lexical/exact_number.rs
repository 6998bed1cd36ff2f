//! Numbers of fields: doubles, and whole numbers of any size by their exact value.
//!
//! A number is its nearest double, and what a whole number has more or less than that. Doubles tell all whole numbers
//! up to 2^53 apart and are whole themselves from there on, so that the second part exists from 2^53 on alone:
//! - two bytes, the difference plus 2^15, big-endian: doubles, and whole numbers of 64 bits, which differ by at most
//!   2^10;
//! - for larger ones that no double is equal to: `00 00` (less than the double) or `FF FF` (more), the number of digits
//!   in two bytes, and the digits; the bits of length and digits are inverted where the number is negative.
//!
//! The order of both parts as bytes is that of the numbers.

/// From here on not every whole number is a double.
const FIRST_AMBIGUOUS: f64 = (1_u64 << 53) as f64;
/// Stands for a difference of zero.
const SAME: u16 = 1 << 15;

/// A finite number, exactly: 3 equals 3.0, and whole numbers are equal to themselves alone, however large they are.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExactNumber {
    /// Those of the nearest double, with the sign bit set for positive numbers and all bits inverted for others.
    ordered_bits: u64,
    /// What the double leaves out, as the module says; empty for numbers below 2^53.
    difference: Vec<u8>,
}

impl From<f64> for ExactNumber {
    fn from(value: f64) -> Self {
        let difference = if value.abs() >= FIRST_AMBIGUOUS {
            SAME.to_be_bytes().to_vec()
        } else {
            Vec::new()
        };
        Self {
            ordered_bits: ordered(value),
            difference,
        }
    }
}

impl From<i64> for ExactNumber {
    fn from(value: i64) -> Self {
        Self::of_64_bits(value.into())
    }
}

impl From<u64> for ExactNumber {
    fn from(value: u64) -> Self {
        Self::of_64_bits(value.into())
    }
}

/// The bits of a double so that their order is that of the numbers.
fn ordered(value: f64) -> u64 {
    // Adding zero makes -0 a 0.
    let bits = (value + 0.0).to_bits();
    if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
}

fn of_ordered(bits: u64) -> f64 {
    let is_positive = bits >> 63 == 1;
    f64::from_bits(if is_positive { bits & !(1 << 63) } else { !bits })
}

/// Whether the nearest double of a number, of which the bytes are given in the order of the numbers, is that of others
/// too.
pub(super) fn is_ambiguous(ordered_bytes: [u8; 8]) -> bool {
    of_ordered(u64::from_be_bytes(ordered_bytes)).abs() >= FIRST_AMBIGUOUS
}

fn is_of_64_bits(value: i128) -> bool {
    (i128::from(i64::MIN)..=i128::from(u64::MAX)).contains(&value)
}

impl ExactNumber {
    /// The number of a JSON text; none where it is no number, or beyond the doubles. Other digits than zeros after a
    /// point, or an exponent, make it a double.
    pub fn parse(text: &str) -> Option<Self> {
        let nearest = text.parse::<f64>().ok().filter(|value| value.is_finite())?;
        let text = match text.split_once('.') {
            Some((whole, rest)) if rest.bytes().all(|byte| byte == b'0') => whole,
            _ => text,
        };
        let digits = text.strip_prefix('-').unwrap_or(text);
        if digits.bytes().any(|byte| !byte.is_ascii_digit()) {
            return Some(nearest.into());
        }
        if let Some(value) = text.parse::<i128>().ok().filter(|value| is_of_64_bits(*value)) {
            return Some(Self::of_64_bits(value));
        }
        Some(Self::of_digits(nearest, digits))
    }

    fn of_64_bits(value: i128) -> Self {
        let nearest = value as f64;
        if nearest.abs() < FIRST_AMBIGUOUS {
            return nearest.into();
        }
        // Within 2^10 of each other.
        let difference = (value - nearest as i128 + i128::from(SAME)) as u16;
        Self {
            ordered_bits: ordered(nearest),
            difference: difference.to_be_bytes().to_vec(),
        }
    }

    /// A whole number of more than 64 bits.
    fn of_digits(nearest: f64, digits: &str) -> Self {
        let (is_negative, digits) = (nearest < 0.0, digits.trim_start_matches('0'));
        // All digits of the double.
        let of_double = format!("{:.0}", nearest.abs());
        if digits == of_double {
            return nearest.into();
        }
        let is_farther = (digits.len(), digits) > (of_double.len(), of_double.as_str());
        let side = if is_farther == is_negative {
            [0; 2]
        } else {
            [u8::MAX; 2]
        };
        let mut tail = (digits.len() as u16).to_be_bytes().to_vec();
        tail.extend_from_slice(digits.as_bytes());
        if is_negative {
            for byte in &mut tail {
                *byte = !*byte;
            }
        }
        Self {
            ordered_bits: ordered(nearest),
            difference: [&side[..], &tail].concat(),
        }
    }

    /// The nearest double.
    pub fn nearest(&self) -> f64 {
        of_ordered(self.ordered_bits)
    }

    /// The digits of a whole number that must not be given as a double: one of 64 bits from 2^53 on, or a larger one
    /// that no double is equal to.
    pub fn digits(&self) -> Option<String> {
        let (offset, tail) = self.difference.split_at_checked(2)?;
        let nearest = self.nearest();
        if tail.is_empty() {
            let offset = u16::from_be_bytes(offset.try_into().ok()?);
            let value = (nearest as i128).saturating_add(i128::from(offset) - i128::from(SAME));
            return is_of_64_bits(value).then(|| value.to_string());
        }
        let is_negative = nearest < 0.0;
        let digits = tail
            .iter()
            .skip(2)
            .map(|byte| char::from(if is_negative { !*byte } else { *byte }));
        Some(if is_negative { "-" } else { "" }.chars().chain(digits).collect())
    }

    /// Whether other numbers have the same nearest double.
    pub fn is_ambiguous(&self) -> bool {
        !self.difference.is_empty()
    }

    /// The bytes of the nearest double, in the order of the numbers.
    pub(super) fn ordered_bytes(&self) -> [u8; 8] {
        self.ordered_bits.to_be_bytes()
    }

    /// What the number has more or less than its nearest double; empty where doubles tell all whole numbers apart.
    pub(super) fn difference(&self) -> &[u8] {
        &self.difference
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> ExactNumber {
        ExactNumber::parse(text).unwrap()
    }

    #[test]
    fn the_order_is_that_of_the_numbers_whatever_their_size() {
        let texts = [
            "-1e300",
            "-123456789012345678901234567891",
            "-123456789012345678901234567890",
            "-100000000000000000001",
            "-1e20",
            "-99999999999999999999",
            "-9223372036854775809",
            "-9223372036854775808",
            "-9223372036854775807",
            "-9007199254740993",
            "-9007199254740992",
            "-9007199254740991",
            "-2.5",
            "-1",
            "0",
            "1e-300",
            "1.5",
            "9007199254740991",
            "9007199254740992",
            "9007199254740993",
            "9007199254740994",
            "1234567890123456768",
            "1234567890123456789",
            "1234567890123456790",
            "9223372036854775807",
            "9223372036854775808",
            "18446744073709551614",
            "18446744073709551615",
            "18446744073709551616",
            "18446744073709551617",
            "99999999999999999999",
            "100000000000000000000",
            "100000000000000000001",
            "123456789012345678901234567890",
            "123456789012345678901234567891",
            "1e300",
        ];
        let numbers: Vec<ExactNumber> = texts.into_iter().map(number).collect();
        assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{numbers:?}");
        for (text, number) in texts.into_iter().zip(&numbers) {
            assert_eq!(
                number.nearest().to_bits(),
                text.parse::<f64>().unwrap().to_bits(),
                "{text}"
            );
            match number.digits() {
                Some(digits) => assert_eq!(&ExactNumber::parse(&digits).unwrap(), number, "{text}"),
                None => assert_eq!(&ExactNumber::from(number.nearest()), number, "{text}"),
            }
        }
    }

    #[test]
    fn the_same_number_is_the_same_however_it_is_written() {
        for (one, other) in [
            ("3", "3.0"),
            ("-0", "0.0"),
            ("1e3", "1000"),
            ("1234567890123456789.00", "1234567890123456789"),
            ("9007199254740992", "9007199254740992.0"),
            ("1e18", "1000000000000000000"),
            ("1e20", "100000000000000000000"),
            ("-1e25", "-10000000000000000905969664"),
        ] {
            assert_eq!(number(one), number(other), "{one} {other}");
        }
        assert_eq!(number("9007199254740991").digits(), None);
        assert_eq!(number("9007199254740992").digits().as_deref(), Some("9007199254740992"));
        assert_eq!(
            number("-9007199254740993").digits().as_deref(),
            Some("-9007199254740993")
        );
        assert_eq!(
            number("18446744073709551615").digits().as_deref(),
            Some("18446744073709551615")
        );
        assert_eq!(number("1e20").digits(), None);
        assert_eq!(ExactNumber::from(u64::MAX), number("18446744073709551615"));
        assert_eq!(ExactNumber::from(i64::MIN), number("-9223372036854775808"));
        for none in ["", "x", "inf", "NaN", "1e400", "-", "--1"] {
            assert_eq!(ExactNumber::parse(none), None, "{none}");
        }
    }
}
