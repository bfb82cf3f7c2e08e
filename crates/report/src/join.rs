//! Joins the modules of a page's script into one script, so that the page needs no loader.
//!
//! A module is a file with imports from modules beside it, each on a line of its own, and exports of
//! the forms `export const`, `export class` and `export function`. It becomes a function with a scope
//! of its own that returns its exports. Comments are left out.

use std::collections::BTreeMap;

/// Joins the modules that `entries` import, directly or through others; `modules` has the text of
/// each module by its file name. Fails when a module is missing, is not imported by any other,
/// imports itself through others, or imports a name that is not exported.
pub(crate) fn join(modules: &BTreeMap<String, String>, entries: &[&str]) -> Result<String, String> {
    let mut joined = Joined {
        modules,
        visiting: Vec::new(),
        exports: BTreeMap::new(),
        script: "\"use strict\";\n(() => {\n".to_owned(),
    };
    for entry in entries {
        joined.add(entry)?;
    }
    if let Some(name) = modules
        .keys()
        .find(|name| !joined.exports.contains_key(*name))
    {
        return Err(format!("no module imports {name}"));
    }
    Ok(joined.script + "})();\n")
}

struct Joined<'a> {
    modules: &'a BTreeMap<String, String>,
    /// The modules whose imports are being added, each imported by the one before it.
    visiting: Vec<String>,
    /// What the modules export that were added.
    exports: BTreeMap<String, Vec<String>>,
    script: String,
}

impl Joined<'_> {
    /// Adds a module after the modules that it imports.
    fn add(&mut self, name: &str) -> Result<(), String> {
        if self.exports.contains_key(name) {
            return Ok(());
        }
        if self.visiting.iter().any(|other| other == name) {
            let circle = self.visiting.join(" -> ");
            return Err(format!("modules import each other: {circle} -> {name}"));
        }
        let text = self.modules.get(name);
        let text = text.ok_or_else(|| format!("there is no module {name}"))?;
        self.visiting.push(name.to_owned());
        let mut body = String::new();
        let mut exports = Vec::new();
        let code = without_comments(text);
        for line in code.lines() {
            if let Some(import) = line.strip_prefix("import ") {
                let import = Import::parse(import).ok_or_else(|| format!("{name}: {line}"))?;
                self.add(import.from)?;
                let known = &self.exports[import.from];
                if let Some(name) = import.names().find(|name| !known.contains(name)) {
                    return Err(format!("{} exports no {name}", import.from));
                }
                if let Some(list) = import.list {
                    body.extend(["const ", list, " = ", &scope_name(import.from), ";\n"]);
                }
                continue;
            }
            let code = match line.strip_prefix("export ") {
                Some(code) => {
                    let export = exported(code).ok_or_else(|| format!("{name}: {line}"))?;
                    exports.push(export.to_owned());
                    code
                }
                None => line,
            };
            body.push_str(code);
            body.push('\n');
        }
        self.visiting.pop();
        let script = if exports.is_empty() {
            format!("(() => {{\n{body}}})();\n")
        } else {
            let (scope, names) = (scope_name(name), exports.join(", "));
            format!("const {scope} = (() => {{\n{body}return {{ {names} }};\n}})();\n")
        };
        self.script.push_str(&script);
        self.exports.insert(name.to_owned(), exports);
        Ok(())
    }
}

/// An import without the word `import`: `{ a, b } from "./file.js";`, or `"./file.js";`.
struct Import<'a> {
    list: Option<&'a str>,
    from: &'a str,
}

impl<'a> Import<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let (list, from) = match text.split_once(" from ") {
            Some((list, from)) => (Some(list), from),
            None => (None, text),
        };
        let from = from.strip_prefix("\"./")?.strip_suffix("\";")?;
        let is_list = |list: &str| list.starts_with("{ ") && list.ends_with(" }");
        list.is_none_or(is_list).then_some(Self { list, from })
    }

    fn names(&self) -> impl Iterator<Item = String> {
        let list = self.list.unwrap_or_default();
        let names = list.trim_matches(['{', '}', ' ']).split(", ");
        names.filter(|name| !name.is_empty()).map(str::to_owned)
    }
}

/// The name of the constant that holds what a module exports.
fn scope_name(file: &str) -> String {
    format!("${}", file.trim_end_matches(".js"))
}

/// The name that a declaration after `export` declares. A `let` is refused, because those who import
/// it would not see its later values.
fn exported(code: &str) -> Option<&str> {
    let declared = ["const ", "class ", "function ", "async function "];
    let rest = declared.iter().find_map(|word| code.strip_prefix(word))?;
    let end = rest.find(|char: char| !char.is_alphanumeric() && char != '_');
    Some(&rest[..end?]).filter(|name| !name.is_empty())
}

/// Leaves out block comments, lines that are only a comment, and empty lines. No text of the scripts
/// contains `/*`.
fn without_comments(text: &str) -> String {
    let mut code = String::new();
    let mut rest = text;
    while let Some((before, comment)) = rest.split_once("/*") {
        code.push_str(before);
        rest = comment.split_once("*/").map_or("", |(_, after)| after);
        // `/** @type {X} */ (value)` is one word.
        rest = rest.strip_prefix(' ').unwrap_or(rest);
    }
    code.push_str(rest);
    let lines = code.lines().filter(|line| {
        let line = line.trim();
        !line.is_empty() && !line.starts_with("//")
    });
    lines.flat_map(|line| [line.trim_end(), "\n"]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(modules: &[(&str, &str)], entries: &[&str]) -> Result<String, String> {
        let modules = modules.iter();
        let modules = modules.map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
        join(&modules.collect(), entries)
    }

    #[test]
    fn a_module_comes_once_and_after_what_it_imports() {
        let found = joined(
            &[
                (
                    "a.js",
                    "/* A. */\nimport { two } from \"./b.js\";\nimport \"./c.js\";\n\nrun(two);\n",
                ),
                (
                    "b.js",
                    "/**\n * Two.\n * @type {number}\n */\nexport const two = /** @type {number} */ (2);\n",
                ),
                (
                    "c.js",
                    "  // Three.\nimport { two } from \"./b.js\";\nexport class Three {}\nexport const f = (x) => x;\n",
                ),
            ],
            &["a.js"],
        );
        assert_eq!(
            found.unwrap(),
            "\"use strict\";\n(() => {\n\
             const $b = (() => {\nconst two = (2);\nreturn { two };\n})();\n\
             const $c = (() => {\nconst { two } = $b;\nclass Three {}\nconst f = (x) => x;\n\
             return { Three, f };\n})();\n\
             (() => {\nconst { two } = $b;\nrun(two);\n})();\n})();\n"
        );
    }

    #[test]
    fn what_cannot_be_joined_is_refused() {
        let a = |text| {
            joined(
                &[("a.js", text), ("b.js", "export const b = 1;")],
                &["a.js"],
            )
        };
        assert_eq!(a("import \"./b.js\";").err(), None);
        assert_eq!(a("").unwrap_err(), "no module imports b.js");
        assert_eq!(
            a("import \"./c.js\";").unwrap_err(),
            "there is no module c.js"
        );
        for line in [
            "import b from \"./b.js\";",
            "import { b } from \"https://example.com/b.js\";",
            "export let c = 1;",
            "export default 1;",
        ] {
            assert_eq!(a(line).unwrap_err(), format!("a.js: {line}"));
        }
        let error = a("import { b, c } from \"./b.js\";").unwrap_err();
        assert_eq!(error, "b.js exports no c");
        let circle = [
            ("a.js", "import \"./b.js\";"),
            ("b.js", "import \"./a.js\";"),
        ];
        assert_eq!(
            joined(&circle, &["a.js"]).unwrap_err(),
            "modules import each other: a.js -> b.js -> a.js"
        );
    }
}
