//! Recognizes the Python source files that belong to a library and not to the user.

/// The beginning of the file name of a module that is built into the interpreter.
const FROZEN: &str = "<frozen";

/// Whether a source file, by the path that Python reports for it, belongs to an installed package,
/// to the standard library or to PyTorch.
pub fn is_library_file(path: &str) -> bool {
    let is_of_library = |(parent, name): (&str, &str)| {
        is_packages(name) || is_standard_library(parent, name) || is_torch(parent, name)
    };
    path.starts_with(FROZEN) || directories(path).any(is_of_library)
}

/// Whether a source file belongs to PyTorch.
pub fn is_torch_file(path: &str) -> bool {
    directories(path).any(|(parent, name)| is_torch(parent, name))
}

/// The names of the directories of a path, each with the name of its parent.
fn directories(path: &str) -> impl Iterator<Item = (&str, &str)> {
    let names = path.rsplit_once('/').map_or("", |(names, _)| names);
    let parents = std::iter::once("").chain(names.split('/'));
    parents.zip(names.split('/'))
}

/// Whether this is the directory of installed packages.
fn is_packages(name: &str) -> bool {
    matches!(name, "site-packages" | "dist-packages")
}

/// Whether this is the directory of the standard library, such as `lib/python3.12`.
fn is_standard_library(parent: &str, name: &str) -> bool {
    let version = name.strip_prefix("python").unwrap_or_default();
    matches!(parent, "lib" | "lib64") && version.starts_with(|next: char| next.is_ascii_digit())
}

/// Whether this is a directory of PyTorch: as an installed package, in PyTorch's repository, or of
/// the code that `torch.compile` generates. The user's own directory `torch` is none.
fn is_torch(parent: &str, name: &str) -> bool {
    let is_package = name == "torch" && (is_packages(parent) || parent == "pytorch");
    is_package || name.starts_with("torchinductor_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_told_from_the_users_code() {
        for library in [
            "/v/lib/python3.11/site-packages/transformers/trainer.py",
            "/usr/lib/python3/dist-packages/torch/optim/adam.py",
            "/usr/lib/python3.12/threading.py",
            "/usr/lib64/python3.12/threading.py",
            "/opt/pytorch/torch/nn/modules/linear.py",
            "/tmp/torchinductor_ada/ab/cab.py",
            "<frozen runpy>",
        ] {
            assert!(is_library_file(library), "{library}");
        }
        for own in [
            "train.py",
            "/home/ada/torch/train.py",
            "/home/ada/lib/python/train.py",
            "<stdin>",
            "",
        ] {
            assert!(!is_library_file(own), "{own}");
        }
        assert!(is_torch_file("/v/site-packages/torch/optim/adam.py"));
        assert!(!is_torch_file("/v/site-packages/lightning/trainer.py"));
    }
}
