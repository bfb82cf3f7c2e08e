//! Redacts everything in file names that looks like a secret.

use crate::redacted_str;

/// Redacts a path with `/` between folders. The extension of the file is kept, because it
/// determines the kind of the file.
pub fn redacted_path(name: &str) -> String {
    let parts: Vec<String> = name.split('/').map(redacted_part).collect();
    parts.join("/")
}

fn redacted_part(part: &str) -> String {
    let whole = hidden(part);
    if whole == part {
        return whole;
    }
    let kept = part.rsplit_once('.').and_then(|(stem, ending)| {
        let kept = format!("{}.{ending}", hidden(stem));
        // The extension is kept only if redacting the rest of the name removes the whole secret;
        // otherwise the extension may be part of the secret.
        (kept != part && hidden(&kept) == kept).then_some(kept)
    });
    kept.unwrap_or(whole)
}

fn hidden(text: &str) -> String {
    // A redacted URL may contain slashes, which are not allowed inside one part of a path.
    redacted_str(text).replace('/', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_file_is_stays_and_a_secret_goes() {
        assert_eq!(
            redacted_path("gpu-1/segment-000001.jsonl"),
            "gpu-1/segment-000001.jsonl"
        );
        let token = "hf_abcdefghijklmnopqrstuvwxyzabcdefgh";
        assert_eq!(
            redacted_path(&format!("run-{token}/events.json")),
            "run-[redacted]/events.json"
        );
        assert_eq!(redacted_path(&format!("{token}.jsonl")), "[redacted].jsonl");
        let name = redacted_path("password=hunter2.csv");
        assert!(!name.contains("hunter2"), "{name}");
    }
}
