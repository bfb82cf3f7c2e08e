//! The token: a secret that a request must contain if the request changes something, or if the
//! server's address is not a loopback address.

use std::path::Path;

use crate::error::ServeError;

/// The smallest allowed length of a token in characters; a shorter token could be guessed.
const LEAST_LENGTH: usize = 16;

/// The secret of one server, which a client must present. The `Debug` output of a token does not
/// contain the secret text.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// Creates a random token with 122 random bits, written as 32 hexadecimal digits.
    pub fn random() -> Self {
        Self(uuid::Uuid::new_v4().simple().to_string())
    }

    /// Reads the token from the first line of a file, so that it stays the same when the server
    /// restarts.
    pub fn from_file(path: &Path) -> Result<Self, ServeError> {
        let text = std::fs::read_to_string(path).map_err(|source| ServeError::TokenFile {
            path: path.to_path_buf(),
            source,
        })?;
        let token = text.lines().next().unwrap_or_default().trim();
        // Only letters, digits and `-_.` are allowed, because other characters would have to be
        // escaped in URLs and cookies.
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if token.len() < LEAST_LENGTH || !token.bytes().all(is_plain) {
            return Err(ServeError::WeakToken {
                path: path.to_path_buf(),
                least: LEAST_LENGTH,
            });
        }
        Ok(Self(token.to_owned()))
    }

    /// The secret text of the token, to be printed once or sent in a cookie.
    pub fn secret(&self) -> &str {
        &self.0
    }

    /// Whether a text equals this token. The comparison takes the same time wherever the two texts
    /// differ, so that the token cannot be guessed from the time.
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
