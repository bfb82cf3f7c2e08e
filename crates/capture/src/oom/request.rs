//! Reads how much memory a failed allocation requested.

use stormlog_format::{parse_bytes, whole};

/// The words that PyTorch, NumPy and XLA write before the size of an allocation that failed.
const BEFORE_SIZE: [&str; 3] = ["allocate ", "allocating ", "reserve "];

/// The number of bytes that a failed allocation requested, if the message contains it.
#[must_use]
pub fn requested_bytes(message: &str) -> Option<i64> {
    BEFORE_SIZE.iter().find_map(|before| {
        let mut parts = message.split(before).skip(1);
        parts.find_map(size_at_start)
    })
}

fn size_at_start(text: &str) -> Option<i64> {
    let is_digit = |c: char| c.is_ascii_digit() || c == '.';
    let after_number = text.trim_start_matches(is_digit).trim_start();
    // The whole word is compared: "3 Tensors" are not 3 TiB. A number without a unit need not be a
    // size.
    let after_unit = after_number.trim_start_matches(|c: char| c.is_ascii_alphabetic());
    if after_unit.len() == after_number.len() {
        return None;
    }
    let bytes = parse_bytes(&text[..text.len() - after_unit.len()])?;
    // Sizes of 2^63 bytes or more are rejected, because a message can claim any size.
    let fits = (0.0..9_223_372_036_854_775_807.0).contains(&bytes);
    fits.then_some(whole(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_a_failed_request_is_read_from_its_error() {
        let known = [
            (
                "DefaultCPUAllocator: can't allocate memory: you tried to allocate 17179869184 \
                 bytes. Error code 12",
                17_179_869_184,
            ),
            ("Unable to allocate 8.00 GiB for an array", 8 << 30),
            ("CUDA out of memory. Tried to allocate 20.00 MiB.", 20 << 20),
            (
                "RESOURCE_EXHAUSTED: Out of memory allocating 512 bytes.",
                512,
            ),
            ("Out of memory while trying to allocate 16.0KiB", 16 << 10),
            (
                "RESOURCE_EXHAUSTED: Attempting to reserve 1.50G at the bottom of memory.",
                3 << 29,
            ),
        ];
        for (message, bytes) in known {
            assert_eq!(requested_bytes(message), Some(bytes), "{message}");
        }
        for unknown in [
            "",
            "allocate",
            "cannot allocate memory",
            "allocate 1e3 GiB",
            "allocate . B",
            "allocate 3 Tensors",
        ] {
            assert_eq!(requested_bytes(unknown), None, "{unknown}");
        }
        let huge = format!("allocate {} bytes", "9".repeat(400));
        assert_eq!(requested_bytes(&huge), None);
    }
}
