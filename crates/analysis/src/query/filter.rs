//! How the filters of queries compare values.

/// Whether a filter accepts a value. A filter without a wanted value accepts every value; a filter
/// with one does not accept an unknown value.
pub fn fits<W, G>(wanted: Option<&W>, given: Option<&G>) -> bool
where
    W: PartialEq<G>,
    G: ?Sized,
{
    wanted.is_none_or(|wanted| given.is_some_and(|given| *wanted == *given))
}
