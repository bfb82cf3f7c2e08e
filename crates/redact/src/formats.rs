//! The formats of tokens of well-known services. The table of formats has one line for each format:
//! the prefix of a token, the characters besides letters and digits that may follow the prefix, the
//! least number of bytes after the prefix, and a condition that excludes ordinary words.

use Need::{Capitals, Dense, Digit, Mixed, Nothing};

/// What a token (a secret in a known format) must contain after its prefix, such as `ghp_`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    /// Anything, because no ordinary word begins with the prefix.
    Nothing,
    /// At least one digit.
    Digit,
    /// A digit, an upper-case letter and a lower-case letter.
    Mixed,
    /// Only upper-case letters and digits.
    Capitals,
    /// A digit, and a sequence of at least [`DENSE_LENGTH`] letters and digits, which is longer
    /// than a word of an ordinary name.
    Dense,
}

/// The format of one kind of token, such as GitHub's `ghp_` and at least 16 letters and digits.
pub(super) struct Format {
    /// The prefix: the text with which every token of this format begins.
    pub(super) start: &'static str,
    /// Characters that may follow the prefix, besides letters and digits.
    others: &'static str,
    /// The least number of bytes after the prefix. A shorter text is not a token.
    least: usize,
    need: Need,
}

const fn format(start: &'static str, others: &'static str, least: usize, need: Need) -> Format {
    Format {
        start,
        others,
        least,
        need,
    }
}

/// The formats of tokens that begin with a fixed prefix. The minimum lengths of tokens are slightly
/// below their real lengths, because a limit on the length of a message may cut off a token.
pub(super) const FORMATS: &[Format] = &[
    // Tokens of services for language models and machine learning.
    format("sk-", "-_", 16, Dense), // OpenAI, Anthropic, OpenRouter, Langfuse, DeepSeek
    format("sk_", "", 24, Digit),   // ElevenLabs
    format("gsk_", "", 16, Nothing), // Groq
    format("xai-", "", 20, Digit),
    format("pplx-", "", 16, Nothing),
    format("hf_", "", 16, Nothing),
    format("api_org_", "", 16, Nothing), // Hugging Face organizations
    format("r8_", "", 16, Nothing),      // Replicate
    format("tgp_v1_", "-_", 16, Nothing),
    format("fw_", "", 20, Digit),
    format("nvapi-", "-_", 16, Dense),
    format("lsv2_pt_", "_", 16, Nothing),
    format("lsv2_sk_", "_", 16, Nothing),
    format("pcsk_", "_", 16, Nothing),
    format("rpa_", "", 20, Digit),
    format("tvly-", "-", 16, Dense),
    format("e2b_", "", 20, Digit),
    format("jina_", "-_", 24, Dense),
    format("wandb_v1_", "_", 16, Dense),
    format("KGAT_", "", 16, Nothing), // Kaggle
    format("dapi", "-", 32, Dense),   // Databricks
    format("dose", "-", 32, Dense),
    format("dkea", "-", 32, Dense),
    format("pnu_", "", 20, Nothing), // Prefect
    format("pnb_", "", 20, Nothing),
    // Tokens of services for code, packages and containers.
    format("ghp_", "", 16, Nothing),
    format("gho_", "", 16, Nothing),
    format("ghs_", "", 16, Nothing),
    format("ghu_", "", 16, Nothing),
    format("ghr_", "", 16, Nothing),
    format("github_pat_", "_", 16, Nothing),
    format("glpat-", "-_.", 16, Nothing),
    format("gldt-", "-_.", 16, Nothing),
    format("glrt-", "-_.", 16, Nothing),
    format("glcbt-", "-_.", 16, Nothing),
    format("glptt-", "-_.", 16, Nothing),
    format("glft-", "-_.", 16, Nothing),
    format("glsoat-", "-_.", 16, Nothing),
    format("glagent-", "-_.", 16, Nothing),
    format("GR1348941", "-_", 16, Nothing),
    format("ATBB", "", 28, Mixed), // Bitbucket
    format("ATATT3xFf", "-_=", 16, Nothing),
    format("ATCTT3xFf", "-_=", 16, Nothing),
    format("npm_", "", 16, Digit),
    format("pypi-", "-_", 16, Dense),
    format("rubygems_", "", 24, Digit),
    format("dckr_pat_", "-_", 16, Nothing),
    format("dckr_oat_", "-_", 16, Nothing),
    format("CCIPAT_", "_", 16, Nothing),
    format("CCIPRJ_", "_", 16, Nothing),
    format("bkua_", "", 20, Nothing),
    format("AKCp", "", 40, Digit), // Artifactory
    format("cmVmdGtu", "=", 30, Nothing),
    format("sntrys_", "_=+/", 20, Nothing),
    format("sntryu_", "", 20, Nothing),
    // Tokens of clouds and hosting services.
    format("AKIA", "", 12, Capitals),
    format("ASIA", "", 12, Capitals),
    format("ABIA", "", 12, Capitals),
    format("ACCA", "", 12, Capitals),
    format("ABSK", "+/=", 60, Digit), // Bedrock
    format("AIza", "-_", 16, Digit),
    format("ya29.", "-_.", 16, Nothing),
    format("GOCSPX-", "-_", 16, Nothing),
    format("1//0", "-_", 24, Nothing), // Google, refresh
    format("GOOG1E", "", 20, Digit),
    format("LTAI", "", 16, Digit), // Alibaba
    format("AKID", "", 28, Mixed), // Tencent
    format("dop_v1_", "", 16, Digit),
    format("doo_v1_", "", 16, Digit),
    format("dor_v1_", "", 16, Digit),
    format("HRKU-", "-_", 16, Nothing),
    format("fo1_", "-_", 20, Nothing), // Fly.io
    format("fm2_", "+/=", 40, Nothing),
    format("nfp_", "", 20, Digit), // Netlify
    format("vcp_", "", 20, Digit), // Vercel
    format("vercel_blob_rw_", "_", 16, Nothing),
    format("sbp_", "_", 20, Digit), // Supabase
    format("sb_secret_", "-_", 16, Nothing),
    format("pscale_tkn_", "-_.", 16, Nothing),
    format("pscale_pw_", "-_.", 16, Nothing),
    format("pscale_oauth_", "-_.", 16, Nothing),
    format("napi_", "", 24, Digit), // Neon
    format("mdb_sa_sk_", "-_", 16, Nothing),
    format("hvs.", "-_", 16, Nothing), // Vault
    format("hvb.", "-_", 16, Nothing),
    format("hvr.", "-_", 16, Nothing),
    format("pul-", "", 32, Digit), // Pulumi
    format("dp.pt.", "", 16, Nothing),
    format("dp.st.", "-_.", 16, Nothing),
    format("dp.ct.", "", 16, Nothing),
    format("sha256~", "-_", 32, Mixed), // OpenShift
    format("ops_eyJ", "-_=", 40, Nothing),
    format("AGE-SECRET-KEY-1", "", 16, Nothing),
    format("tskey-", "-", 16, Dense), // Tailscale
    // Monitoring.
    format("glc_", "+/=", 20, Nothing), // Grafana
    format("glsa_", "_", 20, Nothing),
    format("NRAK-", "", 16, Nothing), // New Relic
    format("NRII-", "-_", 16, Nothing),
    format("NRJS-", "", 16, Digit),
    format("dt0c01.", ".", 24, Nothing), // Dynatrace
    format("hcaik_", "", 20, Nothing),   // Honeycomb
    format("hcxik_", "", 20, Nothing),
    format("essu_", "=", 20, Nothing),
    // Tokens of messaging and office services.
    format("xoxb-", "-", 16, Nothing),
    format("xoxp-", "-", 16, Nothing),
    format("xoxa-", "-", 16, Nothing),
    format("xoxo-", "-", 16, Nothing),
    format("xoxr-", "-", 16, Nothing),
    format("xoxs-", "-", 16, Nothing),
    format("xoxe.", "-.", 16, Nothing),
    format("xoxe-", "-", 16, Nothing),
    format("xapp-", "-", 16, Nothing),
    format("SG.", "-_.", 32, Mixed), // SendGrid
    format("xkeysib-", "-", 24, Nothing),
    format("key-", "", 32, Digit), // Mailgun
    format("lin_api_", "", 16, Nothing),
    format("lin_oauth_", "", 16, Nothing),
    format("ntn_", "", 24, Digit), // Notion
    format("secret_", "", 40, Digit),
    format("figd_", "-_", 16, Nothing),
    format("PMAK-", "-", 16, Dense),
    format("pat-na1-", "-", 16, Nothing), // HubSpot
    format("pat-eu1-", "-", 16, Nothing),
    format("sess-", "", 20, Digit), // OpenAI, sessions
    format("CLOJARS_", "", 16, Nothing),
    format("amzn.mws.", "-", 16, Nothing),
    format("CFPAT-", "-_", 16, Nothing),
    format("tfp_", "-_", 30, Digit),
    format("sl.", "-_", 60, Mixed), // Dropbox
    format("aio_", "", 24, Digit),
    // Tokens of payment services and shops.
    format("sk_live_", "_", 10, Nothing),
    format("sk_test_", "_", 10, Nothing),
    format("rk_live_", "_", 10, Nothing),
    format("rk_test_", "_", 10, Nothing),
    format("whsec_", "+/=", 16, Nothing),
    format("sq0atp-", "-_", 16, Nothing),
    format("sq0csp-", "-_", 16, Nothing),
    format("shpat_", "", 16, Nothing),
    format("shpca_", "", 16, Nothing),
    format("shppa_", "", 16, Nothing),
    format("shpss_", "", 16, Nothing),
    format("EAAC", "", 60, Digit), // Facebook
    // Formats that many services use. A JSON Web Token, and other JSON in base64, starts with
    // `eyJ`.
    format("eyJ", "-_.+/=", 16, Digit),
    format("Bearer ", "-_.~+/=", 16, Digit),
    format("Basic ", "+/=", 12, Mixed),
];

/// The length of the token at the start of `rest`; `rest` begins at the beginning of a word.
pub(super) fn token_length(rest: &[u8]) -> Option<usize> {
    let [first, second, third, ..] = rest else {
        return None;
    };
    let found = if STARTS.has(*first, *second, *third) {
        STARTS
            .formats(*first)
            .find_map(|format| format.length_in(rest))
    } else {
        None
    };
    found.or_else(|| shape_length(rest))
}

/// The table of first bytes: which three bytes a token with a prefix may begin with, and which
/// formats begin with a given byte. A lookup of the first three bytes excludes most words quickly.
static STARTS: Starts = Starts::new();

struct Starts {
    bits: [u64; 64],
    /// For each first byte, the last format in [`FORMATS`] that begins with this byte: its index
    /// plus one, or zero if there is no such format. The bit 0x20 of a first byte counts as set, so
    /// that upper-case and lower-case letters have the same entry.
    last: [usize; 256],
    /// For each format, the previous format in [`FORMATS`] that begins with the same byte: its
    /// index plus one, or zero if there is no such format.
    before: [usize; FORMATS.len()],
}

impl Starts {
    const fn new() -> Self {
        let mut starts = Self {
            bits: [0; 64],
            last: [0; 256],
            before: [0; FORMATS.len()],
        };
        let mut index = 0;
        while index < FORMATS.len() {
            let start = FORMATS[index].start.as_bytes();
            let bit_index = Self::bit_index(start[0], start[1], start[2]);
            starts.bits[bit_index / 64] |= 1 << (bit_index % 64);
            let first = (start[0] | 0x20) as usize;
            starts.before[index] = starts.last[first];
            index += 1;
            starts.last[first] = index;
        }
        starts
    }

    /// The index of three bytes in the table of first bytes; upper-case and lower-case letters have
    /// the same index, because some prefixes are not case-sensitive.
    const fn bit_index(first: u8, second: u8, third: u8) -> usize {
        let [first, second, third] = [first | 0x20, second | 0x20, third | 0x20];
        let mixed = (first as usize) ^ ((second as usize) << 3) ^ ((third as usize) << 5);
        mixed & 4095
    }

    fn has(&self, first: u8, second: u8, third: u8) -> bool {
        let bit_index = Self::bit_index(first, second, third);
        self.bits[bit_index / 64] >> (bit_index % 64) & 1 == 1
    }

    fn formats(&self, first: u8) -> impl Iterator<Item = &'static Format> {
        let next = |index: usize| index.checked_sub(1);
        let last = next(self.last[usize::from(first | 0x20)]);
        let indices = std::iter::successors(last, move |index| next(self.before[*index]));
        indices.map(|index| &FORMATS[index])
    }
}

/// How many bytes after the prefix are looked at to decide whether a word is a token.
const LONGEST_LOOK: usize = 96;

impl Format {
    fn length_in(&self, rest: &[u8]) -> Option<usize> {
        let start = rest.get(..self.start.len())?;
        // Names of HTTP schemes such as `Bearer ` are not case-sensitive.
        let is_start = if self.start.ends_with(' ') {
            start.eq_ignore_ascii_case(self.start.as_bytes())
        } else {
            start == self.start.as_bytes()
        };
        if !is_start {
            return None;
        }
        let body = &rest[self.start.len()..];
        let others = self.others.as_bytes();
        let fits = |byte: &&u8| byte.is_ascii_alphanumeric() || others.contains(byte);
        // The limit on the number of bytes keeps the time linear, because in `sk-sk-sk-` a token
        // could begin at each `sk-`.
        let seen = body.iter().take(LONGEST_LOOK).take_while(fits).count();
        if seen < self.least || !self.need.is_met(&body[..seen]) {
            return None;
        }
        let length = seen + body[seen..].iter().take_while(fits).count();
        // Full stops at the end of a token belong to the sentence around the token.
        let dots = { body[..length].iter().rev() }.take_while(|byte| **byte == b'.');
        Some(self.start.len() + length - dots.count())
    }
}

impl Need {
    fn is_met(self, body: &[u8]) -> bool {
        let digit = body.iter().any(u8::is_ascii_digit);
        match self {
            Nothing => true,
            Digit => digit,
            Mixed => {
                digit
                    && body.iter().any(u8::is_ascii_uppercase)
                    && body.iter().any(u8::is_ascii_lowercase)
            }
            Capitals => !body.iter().any(u8::is_ascii_lowercase),
            Dense => {
                let mut stretches = body.split(|byte| !byte.is_ascii_alphanumeric());
                digit && stretches.any(|stretch| stretch.len() >= DENSE_LENGTH)
            }
        }
    }
}

/// A sequence of at least this many letters and digits is taken for part of a token. The words of
/// an ordinary name are shorter.
const DENSE_LENGTH: usize = 12;

/// One part of a token that has no prefix: which bytes the part may contain, and the least and the
/// greatest number of bytes in the part.
struct Run(fn(u8) -> bool, usize, usize);

const fn sign<const SIGN: u8>() -> Run {
    Run(|byte| byte == SIGN, 1, 1)
}

const DIGITS: fn(u8) -> bool = |byte| byte.is_ascii_digit();
const HEX: fn(u8) -> bool = |byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
const ALNUM: fn(u8) -> bool = |byte| byte.is_ascii_alphanumeric();
const WORD: fn(u8) -> bool = |byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
const AZURE: fn(u8) -> bool = |byte| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);

/// Formats of tokens without a prefix. Each format is a sequence of parts, and what the last part
/// must contain. A part of a token ends before the first byte that the part may not contain, so no
/// byte is tried twice.
const SHAPES: &[(&[Run], Need)] = &[
    // The token of a Telegram bot: the number of the bot, a colon and 30 to 40 characters.
    (
        &[Run(DIGITS, 8, 10), sign::<b':'>(), Run(WORD, 30, 40)],
        Mixed,
    ),
    // A Mailchimp key has 32 hexadecimal digits, then the name of a data centre.
    (
        &[
            Run(HEX, 32, 32),
            sign::<b'-'>(),
            sign::<b'u'>(),
            sign::<b's'>(),
            Run(DIGITS, 1, 2),
        ],
        Nothing,
    ),
    // The token of a Discord bot has an id, a time and a signature in base64.
    (
        &[
            Run(ALNUM, 23, 28),
            sign::<b'.'>(),
            Run(WORD, 6, 7),
            sign::<b'.'>(),
            Run(WORD, 27, 40),
        ],
        Mixed,
    ),
    // A Terraform Cloud token has 14 letters or digits, then `.atlasv1.`.
    (
        &[
            Run(ALNUM, 14, 14),
            sign::<b'.'>(),
            Run(ALNUM, 7, 7),
            sign::<b'.'>(),
            Run(WORD, 40, 80),
        ],
        Mixed,
    ),
    // An Airtable token has `pat` and 14 letters or digits, a dot, and 64 hexadecimal digits.
    (
        &[Run(ALNUM, 17, 17), sign::<b'.'>(), Run(HEX, 64, 64)],
        Digit,
    ),
    // A Microsoft Entra secret starts with three characters, a digit, and `Q~`.
    (
        &[Run(ALNUM, 5, 5), sign::<b'~'>(), Run(AZURE, 28, 36)],
        Digit,
    ),
    // A Twilio API key has `SK` and 32 hexadecimal digits.
    (&[sign::<b'S'>(), sign::<b'K'>(), Run(HEX, 32, 32)], Nothing),
];

fn shape_length(rest: &[u8]) -> Option<usize> {
    let first_part = rest.iter().take(40).take_while(|byte| ALNUM(**byte));
    let length = first_part.count();
    // The length of a word's first part and the character after that part exclude most words.
    let is_candidate = match (length, rest.get(length)) {
        (8..=10, Some(b':')) | (32, Some(b'-')) | (14 | 17 | 23..=28, Some(b'.')) => true,
        (5, Some(b'~')) => rest[3].is_ascii_digit() && rest[4] == b'Q',
        (34, _) => rest.starts_with(b"SK"),
        _ => false,
    };
    if !is_candidate {
        return None;
    }
    SHAPES
        .iter()
        .find_map(|(runs, need)| runs_length(runs, *need, rest))
}

/// Whether the letters and digits directly before the index `sign` are the beginning of a token
/// without a prefix. At this index is a sign such as a dot.
pub(super) fn shape_starts_before(bytes: &[u8], sign: usize) -> bool {
    let before = bytes[..sign].iter().rev().take(40);
    let length = before.take_while(|byte| ALNUM(**byte)).count();
    shape_length(&bytes[sign - length..]).is_some()
}

fn runs_length(runs: &[Run], need: Need, rest: &[u8]) -> Option<usize> {
    let (mut at, mut last) = (0, 0);
    for Run(has, least, most) in runs {
        let here = &rest[at..];
        let length = here
            .iter()
            .take(*most)
            .take_while(|byte| has(**byte))
            .count();
        if length < *least {
            return None;
        }
        last = at;
        at += length;
    }
    // A letter or digit follows the last part, so the text is longer than a token of this format
    // and is not one.
    let goes_on = rest.get(at).is_some_and(u8::is_ascii_alphanumeric);
    (!goes_on && need.is_met(&rest[last..at])).then_some(at)
}

/// Whether a text looks random: it has at least `least` characters, at least one letter and one
/// digit, and besides letters and digits only signs that occur in base64 and similar encodings.
pub(super) fn looks_random(text: &str, least: usize) -> bool {
    let bytes = text.as_bytes();
    let fits = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.+/=~".contains(byte);
    bytes.len() >= least
        && bytes.iter().all(fits)
        && bytes.iter().any(u8::is_ascii_digit)
        && bytes.iter().any(u8::is_ascii_alphabetic)
}

/// Replaces texts that have the format of a token, such as `ghp_...`; returns `None` when there is
/// none.
pub(super) fn without_tokens(plain: &str) -> Option<String> {
    let bytes = plain.as_bytes();
    let mut out = super::Hidden::new(plain);
    let mut at = 0;
    while at < bytes.len() {
        let is_start = at == 0 || !is_in_word(bytes[at - 1]);
        let length = if is_start && bytes[at].is_ascii_alphanumeric() {
            token_length(&bytes[at..])
        } else {
            None
        };
        match length {
            Some(length) => {
                out.hide(at, at + length);
                at += length;
            }
            None => at += 1,
        }
    }
    out.finish()
}

/// Whether a byte belongs to a word: a letter or digit of any alphabet.
pub(super) const fn is_in_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || !byte.is_ascii()
}
