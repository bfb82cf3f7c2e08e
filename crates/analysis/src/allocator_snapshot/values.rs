//! Checks the values of a pickle before parsing creates any of them. Limits the number of values,
//! because a value may take one byte in the file and 140 bytes in memory. Rejects long values that
//! would be parsed or copied again for each reference to them.

use super::SnapshotError;

/// Rejects a pickle with more than `most` values, or with values that take long to process. The
/// check stops at an unknown opcode, because the parser rejects it.
pub(super) fn check(most: usize, pickle: &[u8]) -> Result<(), SnapshotError> {
    let mut rest = pickle;
    let mut values = 0;
    while let Some((opcode, after)) = rest.split_first() {
        if is_costly(*opcode) {
            let text = "the snapshot has numbers or texts that only Python 2 writes";
            return Err(SnapshotError::Malformed(text.to_owned()));
        }
        let Some((argument, makes_value)) = operation(*opcode, after) else {
            break;
        };
        values += usize::from(makes_value);
        if values > most {
            return Err(SnapshotError::TooManyValues);
        }
        let Some(after) = after.get(argument..) else {
            break;
        };
        rest = after;
    }
    Ok(())
}

/// Whether a pickle opcode creates a value that may be as long as the file, and that is parsed,
/// checked or copied again at every reference.
fn is_costly(opcode: u8) -> bool {
    // The pickle opcodes INT, LONG, FLOAT, STRING, UNICODE, BINSTRING, SHORT_BINSTRING, LONG4.
    matches!(
        opcode,
        b'I' | b'L' | b'F' | b'S' | b'V' | b'T' | b'U' | 0x8b
    )
}

/// The length of a pickle opcode's argument, and whether the opcode creates a value.
fn operation(opcode: u8, after: &[u8]) -> Option<(usize, bool)> {
    let counted = |width: usize| {
        let mut length = [0; 8];
        length[..width].copy_from_slice(after.get(..width)?);
        let length = usize::try_from(u64::from_le_bytes(length)).ok()?;
        width.checked_add(length)
    };
    let line = || Some(memchr::memchr(b'\n', after)? + 1);
    Some(match opcode {
        // Opcodes without an argument that create no value: STOP, MARK, POP, POP_MARK, DUP, APPEND,
        // APPENDS, SETITEM, SETITEMS, ADDITEMS, MEMOIZE, BUILD.
        b'.' | b'(' | b'0' | b'1' | b'2' | b'a' | b'e' | b's' | b'u' | 0x90 | 0x94 | b'b' => {
            (0, false)
        }
        // Opcodes with an argument that create no value: PROTO, BINPUT, BINGET; LONG_BINPUT,
        // LONG_BINGET; FRAME; PUT, GET.
        0x80 | b'q' | b'h' => (1, false),
        b'r' | b'j' => (4, false),
        0x95 => (8, false),
        b'p' | b'g' => (line()?, false),
        // Opcodes without an argument that create a value: NONE, true, false, empty tuple, list,
        // dictionary and set; tuples of values on the stack, LIST, DICT, FROZENSET, STACK_GLOBAL,
        // REDUCE, OBJ, NEWOBJ, NEWOBJ_EX.
        b'N'
        | b')'
        | b']'
        | b'}'
        | b't'
        | b'l'
        | b'd'
        | b'R'
        | b'o'
        | 0x81
        | 0x85..=0x89
        | 0x8f
        | 0x91..=0x93 => (0, true),
        // Opcodes whose argument is a number of fixed length: BININT1, BININT2, BININT, BINFLOAT.
        b'K' => (1, true),
        b'M' => (2, true),
        b'J' => (4, true),
        b'G' => (8, true),
        // Opcodes of texts, bytes and large integers, whose argument begins with its length.
        b'C' | 0x8a | 0x8c => (counted(1)?, true),
        b'X' | b'B' => (counted(4)?, true),
        0x8d | 0x8e | 0x96 => (counted(8)?, true),
        // The opcodes GLOBAL and INST, whose argument is a class: the module and the name, each
        // ended by a newline.
        b'c' | b'i' => {
            let first = line()?;
            let second = memchr::memchr(b'\n', after.get(first..)?)? + 1;
            (first + second, true)
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn are_at_most(most: usize, pickle: &[u8]) -> bool {
        match check(most, pickle) {
            Ok(()) => true,
            Err(SnapshotError::TooManyValues) => false,
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn values_are_counted_and_arguments_are_not() {
        // The pickle of the dictionary {"NN": (None, 1.5, 7)}, whose key is memoized. The bytes
        // `NN` of the key must not be counted as opcodes.
        let pickle =
            b"\x80\x04\x95\x18\0\0\0\0\0\0\0}\x94\x8c\x02NN\x94NG?\xf8\0\0\0\0\0\0K\x07\x87\x94s.";
        assert!(are_at_most(6, pickle) && !are_at_most(5, pickle));
        assert!(are_at_most(2, b"cos\nsystem\nK7.") && !are_at_most(1, b"cos\nsystem\nK7."));
        assert!(are_at_most(0, b"\xffNNN") && are_at_most(1, b"X\xff\xff\xff\xffNN"));
    }

    #[test]
    fn what_costs_more_each_time_it_is_told_is_refused() {
        for pickle in [
            &b"\x80\x02I7\n."[..],
            b"\x80\x02]L7L\na.",
            b"\x80\x02F7\n.",
            b"\x80\x02S'text'\n.",
            b"\x80\x02Vtext\n.",
            b"\x80\x02U\x04text.",
            b"\x80\x02T\x04\0\0\0text.",
            b"\x80\x02\x8b\x01\0\0\0\x07.",
        ] {
            let error = check(9, pickle).unwrap_err().to_string();
            assert!(error.contains("that only Python 2 writes"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = check(50, &bytes);
        }
    }
}
