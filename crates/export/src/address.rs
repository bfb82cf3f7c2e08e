//! The address of a receiver of alerts or metrics. The path and the query of a webhook URL are
//! secrets, so only the scheme, host and port of an address are ever shown.

use std::fmt;

use ureq::http::Uri;

/// The `http` or `https` URL of a receiver of alerts or metrics.
#[derive(Clone, PartialEq, Eq)]
pub struct Address(Uri);

/// Why a text is not a valid address. The error does not repeat the text, which may contain a
/// secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddressError {
    /// The text cannot be parsed as a URL.
    #[error("not a URL")]
    NotAUrl,
    /// The scheme is neither `http` nor `https`.
    #[error("the URL must begin with http:// or https://")]
    Scheme,
    /// The URL has no host.
    #[error("the URL has no host")]
    NoHost,
    /// The URL contains a user name or password (`user:password@host`), which would end up in logs.
    /// A token in the path or in a header can be used instead.
    #[error("the URL has a user name; use a token in the path")]
    Login,
}

impl Address {
    /// Parses the URL of a receiver; white space around it is ignored.
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        let uri: Uri = text.trim().parse().map_err(|_| AddressError::NotAUrl)?;
        match uri.scheme_str() {
            Some("http" | "https") => {}
            _ => return Err(AddressError::Scheme),
        }
        let authority = uri.authority().ok_or(AddressError::NoHost)?;
        if authority.as_str().contains('@') {
            return Err(AddressError::Login);
        }
        if authority.host().is_empty() {
            return Err(AddressError::NoHost);
        }
        Ok(Self(uri))
    }

    /// The host name or IP address in the URL, without the port.
    pub fn host(&self) -> &str {
        self.0.host().unwrap_or_default()
    }

    /// The complete address with its secret parts, only for the code that connects to the receiver.
    pub(crate) fn uri(&self) -> &Uri {
        &self.0
    }

    /// The address with `suffix` appended to its path, unless the path already ends with `suffix`.
    pub(crate) fn with_suffix(&self, suffix: &str) -> Result<Self, AddressError> {
        let path = self.0.path().trim_end_matches('/');
        if path.ends_with(suffix) {
            return Ok(self.clone());
        }
        let query = self.0.query().map(|query| format!("?{query}"));
        let query = query.unwrap_or_default();
        let scheme = self.0.scheme_str().unwrap_or("http");
        let authority = self.0.authority().ok_or(AddressError::NoHost)?;
        Self::parse(&format!("{scheme}://{authority}{path}{suffix}{query}"))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = self.0.scheme_str().unwrap_or("http");
        let authority = self
            .0
            .authority()
            .map_or("", |authority| authority.as_str());
        let rest = if matches!(self.0.path(), "" | "/") && self.0.query().is_none() {
            ""
        } else {
            "/..."
        };
        write!(f, "{scheme}://{authority}{rest}")
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_a_webhook_is_never_shown() {
        let secret = "https://hooks.slack.com/services/T000/B000/abcdefSECRET?key=SECRET";
        let address = Address::parse(secret).unwrap();
        assert_eq!(address.to_string(), "https://hooks.slack.com/...");
        assert_eq!(
            format!("{address:?}"),
            "Address(https://hooks.slack.com/...)"
        );
        let plain = Address::parse("http://127.0.0.1:9000").unwrap();
        assert_eq!(plain.to_string(), "http://127.0.0.1:9000");
    }

    #[test]
    fn what_is_no_address_is_refused_without_being_repeated() {
        let error = |text: &str| Address::parse(text).unwrap_err();
        assert_eq!(
            error("hooks.slack.com/services/SECRET"),
            AddressError::NotAUrl
        );
        assert_eq!(error("ftp://host/SECRET"), AddressError::Scheme);
        assert_eq!(error("/SECRET"), AddressError::Scheme);
        assert_eq!(error("http://me:SECRET@host/"), AddressError::Login);
        for text in ["x y", "https://", "http://[::1", "\u{0}"] {
            assert!(!error(text).to_string().contains("SECRET"));
        }
    }

    #[test]
    fn a_suffix_is_added_once() {
        let with = |text: &str| {
            let address = Address::parse(text).unwrap();
            address
                .with_suffix("/v1/metrics")
                .unwrap()
                .uri()
                .to_string()
        };
        assert_eq!(with("http://c:4318"), "http://c:4318/v1/metrics");
        assert_eq!(with("http://c:4318/otlp/"), "http://c:4318/otlp/v1/metrics");
        assert_eq!(with("http://c/v1/metrics?a=1"), "http://c/v1/metrics?a=1");
        assert_eq!(with("http://c?a=1"), "http://c/v1/metrics?a=1");
    }
}
