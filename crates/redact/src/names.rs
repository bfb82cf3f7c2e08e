//! Recognizes names whose value is a secret: `--wandb-key`, `MYSQL_PWD`, `AccountKey`.

use super::HIDDEN;
use super::formats::looks_random;

/// Parts of names; the value of a name that contains one of them is a secret, such as that of
/// `DB_PASSWORD`.
const PARTS: [&str; 22] = [
    "secret",
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "pgpass",
    "sshpass",
    "credential",
    "api_key",
    "apikey",
    "access_key",
    "accesskey",
    "private_key",
    "privatekey",
    "account_key",
    "accountkey",
    "authorization",
    "auth_key",
    "authtoken",
    "set_cookie",
    "access_signature",
    "basic_auth",
];

/// Names whose value is a secret, if the whole name is in this list.
const NAMES: [&str; 13] = [
    "sig",
    "passin",
    "passout",
    "http_auth",
    "proxy_auth",
    "amz_signature",
    "x_amz_signature",
    "x_goog_signature",
    "cookie",
    "phpsessid",
    "jsessionid",
    "webhook_url",
    "auth_header",
];

/// Last words of names that describe a secret, such as its file or its length; the values of these
/// names are not secrets.
const DESCRIPTIONS: [&str; 37] = [
    "file",
    "path",
    "dir",
    "folder",
    "length",
    "len",
    "count",
    "size",
    "type",
    "policy",
    "manager",
    "provider",
    "store",
    "helper",
    "env",
    "var",
    "field",
    "column",
    "name",
    "expired",
    "expires",
    "expiry",
    "ttl",
    "timeout",
    "limit",
    "required",
    "enabled",
    "valid",
    "version",
    "error",
    "exception",
    "warning",
    "failure",
    "mismatch",
    "missing",
    "callback",
    "secretary",
];

/// Words before `_key` in names of credentials; after any other word, `_key` means the key of a
/// dictionary or a table.
const KEYS_OF: [&str; 61] = [
    "admin",
    "algolia",
    "anthropic",
    "app",
    "aws",
    "azure",
    "cloudflare",
    "cohere",
    "comet",
    "consumer",
    "databricks",
    "datadog",
    "dd",
    "deepseek",
    "deploy",
    "docker",
    "elastic",
    "encryption",
    "fireworks",
    "functions",
    "gcp",
    "gemini",
    "github",
    "gitlab",
    "groq",
    "hf",
    "huggingface",
    "hub",
    "ingest",
    "instrumentation",
    "kaggle",
    "langchain",
    "langsmith",
    "license",
    "mailgun",
    "master",
    "mistral",
    "neptune",
    "ngc",
    "nvidia",
    "openai",
    "openrouter",
    "pinecone",
    "replicate",
    "runpod",
    "s3",
    "sas",
    "sendgrid",
    "service",
    "shared",
    "signing",
    "slack",
    "storage",
    "stripe",
    "subscription",
    "together",
    "twilio",
    "vault",
    "wandb",
    "webhook",
    "write",
];

/// Words before `pass` in names of passwords; after any other word, `pass` means a pass over data.
const PASSES_OF: [&str; 23] = [
    "become", "key", "remote", "store", "trust", "admin", "auth", "db", "database", "ftp", "http",
    "ldap", "login", "mail", "mongo", "mysql", "pg", "proxy", "redis", "root", "smtp", "ssh",
    "user",
];

/// Words before `_token` in the settings of language models; the values of these settings are
/// ordinary words.
const TOKENS_OF_MODELS: [&str; 29] = [
    "audio", "bos", "boi", "class", "cls", "each", "end", "eoi", "eos", "eot", "first", "image",
    "img", "last", "mask", "new", "next", "pad", "patch", "per", "pred", "prefix", "sep",
    "special", "start", "stop", "suffix", "unk", "video",
];

/// What the name of a value shows about the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The value is not a secret.
    Plain,
    /// The value is a secret, whatever it looks like.
    Secret,
    /// The last word of the name is `token`. The value is a secret unless it is a number, which is
    /// a count or a length of tokens.
    Token,
    /// The name is `pass`, or its last word is one such as `auth`, `pat` or `bearer`. These words
    /// have other meanings too, so the value is a secret only if it looks like a password.
    Doubtful,
    /// The name is `pwd`, whose value may also be the working directory.
    Directory,
}

/// What a word shows about the words beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Nearness {
    /// A random text beside the word is a secret: `key`, `token`, `auth`.
    Key,
    /// So is a text that looks like a password: `password`, `secret`, `credentials`.
    Password,
}

/// Last words of names beside which secrets stand, in any spelling.
const WORDS_FOR_KEYS: [&str; 9] = [
    "key", "keys", "token", "unseal", "bearer", "pat", "code", "hmac", "jwt",
];
const WORDS_FOR_PASSWORDS: [&str; 19] = [
    "auth",
    "pass",
    "pw",
    "pwd",
    "passwd",
    "password",
    "passphrase",
    "passcode",
    "phrase",
    "pass_word",
    "secret",
    "secrets",
    "credential",
    "credentials",
    "creds",
    "login",
    "storepass",
    "keypass",
    "requirepass",
];

/// What a word shows about the words beside it; `None` for most words.
pub(super) fn nearness(word: &str) -> Option<Nearness> {
    if word.len() > 48
        || !word
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte))
    {
        return None;
    }
    let name = plain_name(word.trim_end_matches('.'));
    let last = name.rsplit('_').next().unwrap_or(&name);
    if matches!(last, "public" | "tokens") || DESCRIPTIONS.contains(&last) {
        return None;
    }
    let of_password = |word: &&str| last == *word || (word.len() > 5 && last.ends_with(*word));
    if WORDS_FOR_PASSWORDS.iter().any(of_password) || name.ends_with("pass_word") {
        return Some(Nearness::Password);
    }
    let is_key = |word: &&str| last == *word || (word.len() == 5 && last.ends_with(*word));
    if WORDS_FOR_KEYS.iter().any(is_key) || last.ends_with("apikey") {
        return Some(Nearness::Key);
    }
    let kind = if may_be_secret(word) {
        kind_of(&name)
    } else {
        Kind::Plain
    };
    (kind == Kind::Secret).then_some(Nearness::Password)
}

/// Whether a value with the given name is or may be a secret. The answer is false if the name alone
/// shows that its value is not a secret.
pub(super) fn is_secret_name(name: &str) -> bool {
    may_be_secret(name) && kind_of(&plain_name(name)) != Kind::Plain
}

/// Whether the last word of a name is `token`.
pub(super) fn is_token_name(name: &str) -> bool {
    kind_of(&plain_name(name)) == Kind::Token
}

/// Whether a text with the given name is a secret. Empty texts and words such as `none` are not
/// secrets. A number under the name of a token is a count, and a reference to a variable does not
/// contain its value, so neither is a secret.
pub fn is_secret(name: &str, text: &str) -> bool {
    if !may_be_secret(name) || is_placeholder(text) {
        return false;
    }
    match kind_of(&plain_name(name)) {
        Kind::Plain => false,
        Kind::Secret => true,
        Kind::Token => !is_number(text),
        Kind::Doubtful => is_password_like(text) && !is_number(text),
        Kind::Directory => !text.starts_with(['/', '~', '.', '$', '\\']) && !is_drive(text),
    }
}

/// Whether the value of a flag is a secret, as in `--pass X`. For a flag, a doubtful name such as
/// `--pass` suffices: its value counts as a secret even if it does not look like a password.
pub(super) fn is_secret_flag_value(name: &str, text: &str) -> bool {
    // In `config set --secret dbPassword`, the value is the name of the secret.
    let plain = plain_name(text);
    if plain.contains('_')
        && text.bytes().all(|byte| byte.is_ascii_alphabetic())
        && kind_of(&plain) == Kind::Secret
    {
        return false;
    }
    let is_doubtful = kind_of(&plain_name(name)) == Kind::Doubtful;
    is_secret(name, text) || (is_doubtful && !is_number(text) && !is_placeholder(text))
}

/// Whether a text is a placeholder such as `none`, `***` or `$VARIABLE`, and not a secret.
fn is_placeholder(text: &str) -> bool {
    const NOTHING: [&str; 9] = [
        "none",
        "null",
        "true",
        "false",
        "nil",
        "undefined",
        "yes",
        "no",
        HIDDEN,
    ];
    let is_reference = text.starts_with('$') && !text[1..].contains(['$', '/', '!']);
    let is_template = text.starts_with('<');
    let is_tag = text
        .strip_prefix('!')
        .is_some_and(|tag| tag.bytes().all(|byte| byte.is_ascii_lowercase()));
    let is_source = text.starts_with("file:") || text.starts_with("env:");
    let is_path = text.starts_with(['.', '~', '/'])
        && text[1..].contains('/')
        && text
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || b"/._-~".contains(&byte));
    text.is_empty()
        || NOTHING.iter().any(|word| text.eq_ignore_ascii_case(word))
        || (text.len() > 2 && text.bytes().all(|byte| matches!(byte, b'*' | b'.' | b'x')))
        || is_reference
        || is_path
        || is_tag
        || is_source
        || text.bytes().all(|byte| byte == b'-')
        || is_template
}

/// Three-letter parts, in upper or lower case, of which every name of a secret contains at least
/// one.
pub(super) const MARKS: [&[u8; 3]; 14] = [
    b"sec", b"pas", b"tok", b"key", b"cre", b"aut", b"sig", b"pwd", b"pat", b"coo", b"sid", b"nid",
    b"web", b"bea",
];

/// A cheap test whether a name may be the name of a secret; it excludes most names.
fn may_be_secret(name: &str) -> bool {
    let mut threes = name.as_bytes().windows(3);
    threes.any(|three| MARKS.iter().any(|mark| three.eq_ignore_ascii_case(*mark)))
}

fn kind_of(name: &str) -> Kind {
    let (before, last) = match name.rsplit_once('_') {
        Some((before, last)) => (before, last),
        None => ("", name),
    };
    if DESCRIPTIONS.contains(&last) {
        return Kind::Plain;
    }
    let qualifier = before.rsplit('_').next().unwrap_or(before);
    match last {
        "token" | "tok" if TOKENS_OF_MODELS.contains(&qualifier) => return Kind::Plain,
        "token" => return Kind::Token,
        "key" if KEYS_OF.contains(&qualifier) => return Kind::Secret,
        "pass" if PASSES_OF.contains(&qualifier) => return Kind::Secret,
        "pass" if before.is_empty() => return Kind::Doubtful,
        "pwd" | "oldpwd" => return Kind::Directory,
        "pat" | "webhook" | "auth" | "bearer" => return Kind::Doubtful,
        _ => {}
    }
    // Some names have no separator between their words: `dbtoken`, `wandbkey`, `mysqlpwd`.
    let glued = |end: &str, list: &[&str]| {
        let start = last.strip_suffix(end);
        start.is_some_and(|start| list.contains(&start))
    };
    if glued("key", &KEYS_OF) || glued("pass", &PASSES_OF) || glued("token", &KEYS_OF) {
        return Kind::Secret;
    }
    if glued("pwd", &PASSES_OF) || NAMES.contains(&name) {
        return Kind::Secret;
    }
    let has_part = PARTS.iter().any(|part| name.contains(part));
    if has_part { Kind::Secret } else { Kind::Plain }
}

/// Whether a text may be a password: it has letters together with digits or signs, or is too long
/// for a word.
fn is_password_like(text: &str) -> bool {
    let has = |test: fn(&u8) -> bool| text.as_bytes().iter().any(test);
    let is_word = |byte: &u8| byte.is_ascii_alphabetic() || b"_-.,/ ".contains(byte);
    let is_mixed = has(u8::is_ascii_alphabetic) && !text.as_bytes().iter().all(is_word);
    (text.len() >= 5 && is_mixed && !text.contains(['(', '[', '{', '*'])) || looks_random(text, 20)
}

/// Whether a text begins with a Windows drive such as `C:\`.
fn is_drive(text: &str) -> bool {
    matches!(text.as_bytes(), [letter, b':', ..] if letter.is_ascii_alphabetic())
}

/// A text with more characters than this does not count as a number: a longer sequence of digits is
/// taken for a secret.
const LONGEST_NUMBER: usize = 15;

/// Whether a text is a number of at most [`LONGEST_NUMBER`] characters.
fn is_number(text: &str) -> bool {
    text.len() <= LONGEST_NUMBER && text.parse::<f64>().is_ok()
}

/// Converts a name to lower case with underscores between its words: `apiKey` and `API-KEY` become
/// `api_key`.
fn plain_name(name: &str) -> String {
    let mut plain = String::with_capacity(name.len() + 4);
    let mut was_lower = false;
    for c in name.trim_start_matches('-').chars() {
        if c.is_uppercase() && was_lower {
            plain.push('_');
        }
        was_lower = c.is_lowercase() || c.is_ascii_digit();
        match c {
            '-' | '.' | ' ' | '/' | ':' => plain.push('_'),
            c => plain.extend(c.to_lowercase()),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_same_in_every_spelling() {
        for name in [
            "X-Api-Key",
            "apiKey",
            "API_KEY",
            "my.token",
            "X-Amz-Signature",
            "wandb-key",
            "MYSQL_PWD",
            "AccountKey",
            "SharedAccessKey",
            "PGPASSWORD",
            "db_pass",
            "_authToken",
            "hf_token",
            "spring.datasource.password",
        ] {
            assert!(is_secret(name, "hunter2"), "{name}");
        }
        for name in [
            "tokenizer",
            "max_tokens",
            "signature",
            "eos_token",
            "key",
            "keys",
            "primary_key",
            "forward_pass",
            "compass",
            "password_file",
            "NoCredentialsError",
            "path",
            "session_id",
        ] {
            assert!(!is_secret(name, "hunter2"), "{name}");
        }
    }

    #[test]
    fn every_secret_name_has_a_mark() {
        let others = [
            "token", "tok", "key", "pass", "pwd", "pat", "webhook", "auth", "bearer",
        ];
        for name in PARTS.iter().chain(&NAMES).chain(&others) {
            assert!(may_be_secret(name), "{name}");
        }
    }

    #[test]
    fn a_doubtful_name_needs_a_value_that_is_no_word() {
        assert!(is_secret("pass", "hunter2"));
        assert!(!is_secret("pass", "fuse_ops"));
        assert!(!is_secret("pass", "2"));
        assert!(is_secret_flag_value("pass", "hunter"));
        assert!(!is_secret_flag_value("pass", "2"));
        assert!(!is_secret("PWD", "/home/ada"));
        assert!(is_secret("Pwd", "hunter2"));
        assert!(!is_secret("token", "$HF_TOKEN"));
        assert!(!is_secret("image_token", "<image>"));
    }
}
