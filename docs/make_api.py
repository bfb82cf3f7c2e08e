"""Write docs/api.md from the typed sources of the package: every public name, its
signature and the first sentence about it.

    python docs/make_api.py            # rewrite docs/api.md
    python docs/make_api.py --check    # exit 1 when it is not up to date
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "python" / "stormlog"
TARGET = ROOT / "docs" / "api.md"

HEAD = """# The Python API

Made from the package's sources by `python docs/make_api.py`; do not edit. `gpumemprof.x` is
`stormlog.x`, and `tfmemprof.x` is `stormlog.tensorflow.x` where that exists. A module
that stormlog 0.3.9 has too offers the same names with the same signatures. Where a signature has
more parameters than in 0.3.9, these come last and are keyword-only.
"""


Definition = ast.ClassDef | ast.FunctionDef


def modules(*, private: bool) -> Iterator[tuple[str, ast.Module]]:
    """Public modules by name, or private ones."""
    for file in sorted(PACKAGE.rglob("*.py")):
        parts = file.relative_to(PACKAGE.parent).with_suffix("").parts
        if any(part.startswith("_") and part != "__init__" for part in parts) is not private:
            continue
        name = ".".join(part for part in parts if part != "__init__")
        yield name, ast.parse(file.read_text(encoding="utf-8"))


def shared_definitions() -> dict[str, Definition]:
    """What private modules define for public ones to inherit from and to offer, and the private
    definitions of public modules."""
    return {
        node.name: node
        for private in (False, True)
        for _, tree in modules(private=private)
        for node in tree.body
        if isinstance(node, (ast.ClassDef, ast.FunctionDef))
        and (private or not is_public(node.name))
    }


def first_sentence(node: ast.AST) -> str:
    """The first line of a docstring."""
    text = (
        ast.get_docstring(node)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
        else None
    )
    return (text or "").split("\n\n")[0].replace("\n", " ")


def signature(node: ast.FunctionDef | ast.AsyncFunctionDef, is_method: bool) -> str:
    """The parameters and the result, as written."""
    arguments = ast.unparse(node.args)
    if is_method:
        for own in ("self", "cls"):
            arguments = arguments.removeprefix(own).removeprefix(", ")
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"{node.name}({arguments}){returns}"


def is_public(name: str) -> bool:
    return not name.startswith("_")


def methods(node: ast.ClassDef, shared: dict[str, Definition]) -> dict[str, ast.FunctionDef]:
    """The public methods of a class, then those of its private bases."""
    found: dict[str, ast.FunctionDef] = {}
    for item in node.body:
        if isinstance(item, ast.FunctionDef) and (is_public(item.name) or item.name == "__init__"):
            if all(ast.unparse(d) != "overload" for d in item.decorator_list):
                found[item.name] = item
    for base in private_bases(node, shared):
        for name, item in methods(base, shared).items():
            found.setdefault(name, item)
    return found


def private_bases(node: ast.ClassDef, shared: dict[str, Definition]) -> Iterator[ast.ClassDef]:
    for base in node.bases:
        definition = shared.get(ast.unparse(base).split("[")[0])
        if isinstance(definition, ast.ClassDef):
            yield definition


def is_dataclass(node: ast.ClassDef) -> bool:
    return any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list)


def field_names(node: ast.ClassDef, shared: dict[str, Definition]) -> list[str]:
    """The fields of a dataclass: those of its private bases, then its own. A field of a base that
    the class defines again keeps its position."""
    if not is_dataclass(node):
        return []
    inherited = [name for base in private_bases(node, shared) for name in field_names(base, shared)]
    own = [
        item.target.id
        for item in node.body
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
    ]
    return list(dict.fromkeys([*inherited, *own]))


def describe_class(node: ast.ClassDef, shared: dict[str, Definition]) -> Iterator[str]:
    """A class, its fields and its methods."""
    hidden = {base.name for base in private_bases(node, shared)}
    names = [ast.unparse(base) for base in node.bases]
    bases = ", ".join(name for name in names if name.split("[")[0] not in hidden)
    yield f"- `class {node.name}{f'({bases})' if bases else ''}`: {first_sentence(node)}"
    fields = field_names(node, shared)
    if fields:
        yield f"  - fields: {', '.join(f'`{name}`' for name in fields if is_public(name))}"
    for item in methods(node, shared).values():
        about = first_sentence(item)
        yield f"  - `{signature(item, True)}`{f': {about}' if about else ''}"


def exported(tree: ast.Module) -> set[str]:
    """What a module says that it offers."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return set(ast.literal_eval(node.value))
    return set()


def describe(name: str, tree: ast.Module, shared: dict[str, Definition]) -> Iterator[str]:
    """A module and its public names."""
    yield f"\n## `{name}`\n"
    if about := first_sentence(tree):
        yield f"{about}\n"
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and is_public(node.name):
            yield from describe_class(node, shared)
        elif isinstance(node, ast.FunctionDef) and is_public(node.name):
            yield f"- `{signature(node, False)}`: {first_sentence(node)}"
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                offered = shared.get(alias.name) if alias.name in exported(tree) else None
                if isinstance(offered, ast.FunctionDef):
                    yield f"- `{signature(offered, False)}`: {first_sentence(offered)}"


def render() -> str:
    lines = [HEAD]
    shared = shared_definitions()
    for name, tree in modules(private=False):
        described = list(describe(name, tree, shared))
        if len(described) > 2:
            lines.extend(described)
    return "\n".join(lines) + "\n"


def main() -> int:
    text = render()
    if "--check" in sys.argv[1:]:
        fresh = TARGET.exists() and TARGET.read_text(encoding="utf-8") == text
        print(
            "docs/api.md is up to date" if fresh else "docs/api.md is stale: run docs/make_api.py"
        )
        return 0 if fresh else 1
    TARGET.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
