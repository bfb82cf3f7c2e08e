//! What becomes of the elements of a container, and what a line has to do with it.

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

/// What a line of the program has to do with a container that grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineRole {
    /// It adds elements.
    Added,
    /// It creates the object of a library that has the container.
    Created,
    /// It turns the garbage collector off, which would free the elements.
    Disabled,
    /// It adds a tensor to a sum, which keeps the graph of each tensor.
    Summed,
}

crate::names!(LineRole {
    Added => "added",
    Created => "created",
    Disabled => "disabled",
    Summed => "summed",
});
