//! A macro that gives the variants of an enum the names that files, command-line flags and JSON
//! output contain.

/// Gives the variants of an enum their names in one list, from which `ALL`, `as_str`, `parse`,
/// serde's output and the JSON schema are made.
///
/// ```
/// #[derive(Clone, Copy, Debug, PartialEq)]
/// enum Colour {
///     Red,
///     DarkBlue,
/// }
/// stormlog_format::names!(Colour { Red => "red", DarkBlue => "dark_blue" });
///
/// assert_eq!(Colour::ALL, [Colour::Red, Colour::DarkBlue]);
/// assert_eq!(Colour::parse("dark_blue"), Some(Colour::DarkBlue));
/// assert_eq!(serde_json::to_string(&Colour::DarkBlue).unwrap(), "\"dark_blue\"");
/// ```
#[macro_export]
macro_rules! names {
    ($type:ident { $($variant:ident => $name:expr),+ $(,)? }) => {
        impl $type {
            /// All variants of the enum, in the order in which they are listed.
            #[allow(dead_code, reason = "some enums do not use it")]
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$variant),+];

            /// The name of the variant in files, command-line flags and JSON output.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $name),+
                }
            }

            /// The variant with the given name; `None` if there is none.
            #[allow(dead_code, reason = "some enums do not use it")]
            pub fn parse(name: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|known| known.as_str() == name)
            }
        }

        impl ::serde::Serialize for $type {
            fn serialize<S: ::serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl ::schemars::JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> ::std::borrow::Cow<'static, str> {
                stringify!($type).into()
            }

            fn schema_id() -> ::std::borrow::Cow<'static, str> {
                concat!(module_path!(), "::", stringify!($type)).into()
            }

            fn json_schema(_: &mut ::schemars::SchemaGenerator) -> ::schemars::Schema {
                ::schemars::json_schema!({"type": "string", "enum": [$($name),+]})
            }
        }
    };
}
