//! The secret that a reader from another machine, and every change, has to present.

use std::path::Path;

use crate::server::ServeError;

/// Shorter tokens can be guessed.
const LEAST_LENGTH: usize = 16;

/// A secret for one server. Its `Debug` form does not contain it.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// A new random token of 122 bits.
    pub fn random() -> Self {
        Self(uuid::Uuid::new_v4().simple().to_string())
    }

    /// The first line of a file, for a token that stays the same across restarts.
    pub fn from_file(path: &Path) -> Result<Self, ServeError> {
        let text = std::fs::read_to_string(path).map_err(|source| ServeError::TokenFile {
            path: path.to_path_buf(),
            source,
        })?;
        let token = text.lines().next().unwrap_or_default().trim();
        // Anything else would have to be escaped in addresses and cookies.
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if token.len() < LEAST_LENGTH || !token.bytes().all(is_plain) {
            return Err(ServeError::WeakToken {
                path: path.to_path_buf(),
                least: LEAST_LENGTH,
            });
        }
        Ok(Self(token.to_owned()))
    }

    /// The secret itself, to be printed once or sent in a cookie.
    pub fn secret(&self) -> &str {
        &self.0
    }

    /// Whether a text is this token. The time it takes does not depend on where they differ.
    pub fn is(&self, text: &str) -> bool {
        let (ours, theirs) = (self.0.as_bytes(), text.as_bytes());
        let differing = ours.iter().zip(theirs).fold(0, |all, (a, b)| all | (a ^ b));
        ours.len() == theirs.len() && differing == 0
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_only_itself() {
        let token = Token::random();
        assert!(token.is(token.secret()));
        assert!(!token.is(""));
        assert!(!token.is(&token.secret()[1..]));
        assert!(!token.is(Token::random().secret()));
        assert!(!format!("{token:?}").contains(token.secret()));
    }

    #[test]
    fn a_weak_token_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "0123456789abcdef\nsecond line").unwrap();
        assert!(
            Token::from_file(file.path())
                .unwrap()
                .is("0123456789abcdef")
        );
        for weak in ["short", "with spaces and; signs", ""] {
            std::fs::write(file.path(), weak).unwrap();
            assert!(Token::from_file(file.path()).is_err(), "{weak}");
        }
    }
}
