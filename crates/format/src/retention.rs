//! What becomes of the elements of a container.

/// What becomes of the elements of a container that grows, as far as its type and the program's code
/// show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retention {
    /// The container can have only a certain number of elements.
    Bounded,
    /// The program removes elements, or replaces the container by another one.
    Removed,
    /// The program reads all elements, so the container may be the result that the program computes.
    Read,
    /// Nothing removes the elements, and nothing reads all of them.
    Kept,
}

crate::names!(Retention {
    Bounded => "bounded",
    Removed => "removed",
    Read => "read",
    Kept => "kept",
});
