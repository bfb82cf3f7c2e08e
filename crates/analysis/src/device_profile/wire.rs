//! Parses the fields of a protocol buffer message.

/// A field of a message. The first value of `Number` and `Bytes` is the field number.
pub(super) enum Field<'a> {
    /// A whole number.
    Number(u64, u64),
    /// A text, a message, or packed numbers.
    Bytes(u64, &'a [u8]),
    /// A field of a wire type that profiles do not use.
    Other,
}

/// Iterates over the fields of a message. If the bytes of a field are malformed, the iterator
/// returns `Some(None)` for that field and then ends.
pub(super) fn fields(bytes: &[u8]) -> impl Iterator<Item = Option<Field<'_>>> {
    let mut rest = Some(bytes);
    std::iter::from_fn(move || {
        let bytes = rest.filter(|bytes| !bytes.is_empty())?;
        let found = field(bytes);
        rest = found.as_ref().map(|(_, rest)| *rest);
        Some(found.map(|(field, _)| field))
    })
}

/// Parses packed numbers.
pub(super) fn numbers(mut bytes: &[u8]) -> Option<Vec<u64>> {
    let mut numbers = Vec::new();
    while !bytes.is_empty() {
        let (number, rest) = number(bytes)?;
        numbers.push(number);
        bytes = rest;
    }
    Some(numbers)
}

fn field(bytes: &[u8]) -> Option<(Field<'_>, &[u8])> {
    let (tag, rest) = number(bytes)?;
    let id = tag >> 3;
    match tag & 7 {
        0 => {
            let (value, rest) = number(rest)?;
            Some((Field::Number(id, value), rest))
        }
        2 => {
            let (length, rest) = number(rest)?;
            let (content, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
            Some((Field::Bytes(id, content), rest))
        }
        1 => Some((Field::Other, rest.get(8..)?)),
        5 => Some((Field::Other, rest.get(4..)?)),
        _ => None,
    }
}

/// Parses a varint: seven bits per byte, the lowest bits first.
fn number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0;
    for (index, byte) in bytes.iter().enumerate().take(10) {
        value |= u64::from(byte & 0x7f) << (7 * index).min(63);
        if byte & 0x80 == 0 {
            return Some((value, &bytes[index + 1..]));
        }
    }
    None
}
