//! Finds secrets in addresses, such as `https://me:X@host` or the address of a webhook, and private
//! keys after `-----BEGIN PRIVATE KEY-----`.

use memchr::memmem;

use super::{HIDDEN, Hidden};

/// Addresses of webhooks, whose path is a secret, because everyone who knows the path may post to
/// the address.
const WEBHOOKS: [&str; 9] = [
    "hooks.slack.com/services/",
    "hooks.slack.com/workflows/",
    "hooks.slack.com/triggers/",
    "discord.com/api/webhooks/",
    "discordapp.com/api/webhooks/",
    "webhook.office.com/webhookb2/",
    "outlook.office.com/webhook/",
    "hooks.zapier.com/hooks/catch/",
    "api.telegram.org/bot",
];

/// Replaces the logins in addresses, such as `me:X` in `https://me:X@host`; returns `None` when the
/// text has no login.
pub(super) fn without_logins(plain: &str) -> Option<String> {
    let mut out = Hidden::new(plain);
    let mut done = 0;
    for found in memmem::find_iter(plain.as_bytes(), b"://") {
        let at = found + 3;
        if at < done {
            continue;
        }
        let rest = &plain[at..];
        let host_ends = |c: char| c.is_whitespace() || "/?#'\"<>".contains(c);
        let authority = &rest[..rest.find(host_ends).unwrap_or(rest.len())];
        done = at + authority.len();
        let login = authority.rfind('@').map(|end| &authority[..end]);
        // A short word in small letters is the name of a user, as in `ssh://git@host`.
        let is_user =
            |login: &str| login.len() <= 12 && login.bytes().all(|byte| byte.is_ascii_lowercase());
        if let Some(login) = login.filter(|login| *login != HIDDEN && !is_user(login)) {
            out.hide(at, at + login.len());
        }
    }
    out.finish()
}

/// Replaces the secret paths of webhooks; returns `None` when the text has no such path.
pub(super) fn without_webhooks(plain: &str) -> Option<String> {
    let mut out = Hidden::new(plain);
    let mut done = 0;
    for slash in memchr::memchr_iter(b'/', plain.as_bytes()) {
        if slash < done {
            continue;
        }
        // In each entry of `WEBHOOKS`, the host stands before the first slash. The text after that
        // slash is the part of the path that is not secret.
        let is_here = |webhook: &&&str| {
            let (before, after) = webhook.split_once('/').unwrap_or((webhook, ""));
            plain[..slash].ends_with(before) && plain[slash + 1..].starts_with(after)
        };
        let Some(webhook) = WEBHOOKS.iter().find(is_here) else {
            continue;
        };
        let host = webhook.find('/').unwrap_or(0);
        let start = slash + webhook.len() - host;
        let ends = |c: char| c.is_whitespace() || "'\"<>,;)]}\\".contains(c);
        let rest = &plain[start..];
        let end = start + rest.find(ends).unwrap_or(rest.len());
        done = end;
        if end > start && rest[..end - start] != *HIDDEN {
            out.hide(start, end);
        }
    }
    out.finish()
}

/// Replaces everything between the lines `-----BEGIN PRIVATE KEY-----` and `-----END` of private
/// keys; returns `None` when the text has no private key.
pub(super) fn without_private_keys(plain: &str) -> Option<String> {
    let mut out = Hidden::new(plain);
    let mut at = 0;
    while let Some(next) = memmem::find(&plain.as_bytes()[at..], b"PRIVATE KEY") {
        let words = at + next + "PRIVATE KEY".len();
        // The first line of a PGP key ends with `PRIVATE KEY BLOCK-----`.
        let rest = &plain[words..];
        let rest = rest.strip_prefix(" BLOCK").unwrap_or(rest);
        let Some(body) = rest.strip_prefix("-----") else {
            at = words;
            continue;
        };
        let start = plain.len() - body.len();
        let end = memmem::find(body.as_bytes(), b"-----END");
        let end = end.map_or(plain.len(), |end| start + end);
        if plain[start..end] != *HIDDEN {
            out.hide(start, end);
        }
        // The search continues after the last line of the private key, because that line contains
        // "PRIVATE KEY" too.
        let line = plain[end..].find("KEY");
        at = line.map_or(end, |line| end + line + "KEY".len());
    }
    out.finish()
}
