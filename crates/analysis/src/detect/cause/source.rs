//! Reads the source text of a line of the program, as far as it shows that the line itself makes
//! the memory of a holder stay: `preds.append(out)`, `cache[key] = out`, `self.seen += out`.
//! Recordings of older versions do not name such a line, but have the text of the lines of stacks.

use super::{Site, SiteRole};

/// Methods that add to a collection.
const ADDING: [&str; 10] = [
    "add",
    "append",
    "appendleft",
    "extend",
    "extendleft",
    "insert",
    "put",
    "put_nowait",
    "setdefault",
    "update",
];
/// Methods that register something with an object of a library, and the attribute in which the
/// object keeps it.
const REGISTERING: [(&str, &str); 6] = [
    ("register_forward_hook", "_forward_hooks"),
    ("register_forward_pre_hook", "_forward_pre_hooks"),
    ("register_full_backward_hook", "_backward_hooks"),
    ("register_hook", "_backward_hooks"),
    ("register_full_backward_pre_hook", "_backward_pre_hooks"),
    ("add_param_group", "param_groups"),
];
/// Longest source text that is read, in characters.
const LONGEST: usize = 512;

/// The beginning of the holder that is an autograd graph of one variable.
pub(crate) const GRAPH_OF: &str = "the autograd graph of ";
/// The beginning of the holder that is the cache of a function.
pub(crate) const CACHE_OF: &str = "the `lru_cache` of ";

/// The path of a holder in the program, such as `bus.callbacks[3]`: what is in its first backticks.
/// Empty for a holder without a path, such as an `lru_cache`.
pub(crate) fn path_of(holder: &str) -> &str {
    if holder.starts_with(CACHE_OF) {
        return "";
    }
    holder.split('`').nth(1).unwrap_or_default()
}

/// The path of a holder without subscripts: `model.layers.hooks` for `model.layers[3].hooks`.
fn name_of(holder: &str) -> String {
    let mut depth = 0_usize;
    let mut name = String::new();
    for character in path_of(holder).chars() {
        match character {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ if depth == 0 => name.push(character),
            _ => {}
        }
    }
    name
}

/// Whether the line stores an element of the holder under a key: `cache[key] = out`.
pub(crate) fn stores_under_key(site: &Site, holder: &str) -> bool {
    let name = name_of(holder);
    let text = site.source_text.as_deref().unwrap_or_default();
    let text: String = text.chars().take(LONGEST).collect();
    let tokens = tokens(&text);
    (0..tokens.len()).any(|index| {
        let is_holder = tokens[index].is_path && is_same(&tokens[index].text, &name);
        let open = tokens.get(index + 1).filter(|one| one.text == "[");
        let after = open.and_then(|_| tokens.get(closing(&tokens, index + 1)? + 1));
        is_holder && after.is_some_and(|one| one.text == "=")
    })
}

/// What the line does to make the memory of the holder stay, by its source text; `None` when the
/// text does not show that it does.
pub(crate) fn role_of(site: &Site, holder: &str) -> Option<SiteRole> {
    let name = name_of(holder);
    if name.is_empty() || !site.is_users() {
        return None;
    }
    let text: String = site.source_text.as_ref()?.chars().take(LONGEST).collect();
    let tokens = tokens(&text);
    let is_lambda = tokens.iter().any(|one| one.text == "lambda");
    if is_lambda && site.function != "<lambda>" {
        // The line may only make the function.
        return None;
    }
    let mut is_start = true;
    let mut depth = 0_usize;
    for (index, token) in tokens.iter().enumerate() {
        let after = &tokens[index + 1..];
        if token.is_path {
            let role = role_at(&tokens, index, &name).filter(|&role| {
                // Only a target of the statement is assigned; a keyword of a call is not.
                role != SiteRole::Assigns
                    || (depth == 0 && is_start && is_carried(&tokens[index..], &name, holder))
            });
            if role.is_some() {
                return role;
            }
            let is_target = matches!(after.first().map(|one| &*one.text), Some("," | "="));
            is_start &= is_target;
            continue;
        }
        match &*token.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth = depth.saturating_sub(1),
            ";" | ":" if depth == 0 => is_start = true,
            "," | "=" | "global" if depth == 0 => {}
            _ => is_start = false,
        }
    }
    None
}

/// Whether the assignment to the first of these tokens gives the variable a value that contains
/// the one before: the statement reads the variable, or adds to it. An attribute may be read by
/// another statement; its autograd graph shows that it is.
fn is_carried(statement: &[Token], name: &str, holder: &str) -> bool {
    let path = statement.first().map_or("", |one| &*one.text);
    let mut rest = statement[1..].iter();
    if rest.next().is_some_and(|one| one.text == "+=") {
        return true;
    }
    let reads = |one: &Token| {
        let part = one.text.strip_prefix(path);
        one.is_path && part.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    rest.any(reads) || (holder.starts_with(GRAPH_OF) && name.contains('.'))
}

/// What the path at `index` and the tokens after it do to the holder of this name.
fn role_at(tokens: &[Token], index: usize, name: &str) -> Option<SiteRole> {
    let path = &*tokens[index].text;
    let next = |at: usize| tokens.get(at).map_or("", |one| &*one.text);
    if next(index + 1) == "(" {
        let (object, method) = path.rsplit_once('.')?;
        return role_of_call(object, method, name);
    }
    if !is_same(path, name) {
        return None;
    }
    match next(index + 1) {
        "=" | "+=" => Some(SiteRole::Assigns),
        // One of several targets: `out, state = lstm(x, state)`.
        "," if is_of_targets(tokens, index) => Some(SiteRole::Assigns),
        "[" => {
            let end = closing(tokens, index + 1)? + 1;
            match next(end) {
                "=" | "+=" => Some(SiteRole::AddsItems),
                // `table[key].append(item)`
                method if next(end + 1) == "(" => {
                    let method = method.strip_prefix('.')?;
                    ADDING.contains(&method).then_some(SiteRole::AddsItems)
                }
                _ => None,
            }
        }
        _ => None,
    }
}

/// What a call of a method does to the holder: `preds.append(out)`, or `jobs.put(out)` for the
/// holder `jobs.queue`, which belongs to an object of a library.
fn role_of_call(object: &str, method: &str, name: &str) -> Option<SiteRole> {
    let owner = name.rsplit_once('.');
    let is_owner = owner.is_some_and(|(owner, _)| is_same(object, owner));
    let of_registry = REGISTERING.iter().any(|&(register, registry)| {
        register == method && owner.is_some_and(|(_, last)| last == registry)
    });
    if of_registry {
        return Some(SiteRole::Registers);
    }
    let is_queue = owner.is_some_and(|(_, last)| last == "queue" || last == "_queue");
    let adds = ADDING.contains(&method) && (is_same(object, name) || (is_owner && is_queue));
    adds.then_some(SiteRole::AddsItems)
}

/// Whether two paths may name one object: `self.seen` and `Trainer.seen`. A variable has one name;
/// an attribute is the same when its own name is, because the object may have several.
fn is_same(path: &str, name: &str) -> bool {
    match (path.rsplit_once('.'), name.rsplit_once('.')) {
        (Some((_, path)), Some((_, name))) => path == name,
        (None, None) => path == name,
        _ => false,
    }
}

/// Whether an assignment follows the comma after a path, before anything else than targets.
fn is_of_targets(tokens: &[Token], index: usize) -> bool {
    let rest = tokens[index + 1..].iter();
    let mut rest = rest.skip_while(|one| one.is_path || one.text == ",");
    rest.next().is_some_and(|one| one.text == "=")
}

/// The index of the bracket that closes the one at `open`.
fn closing(tokens: &[Token], open: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (index, token) in tokens.iter().enumerate().skip(open) {
        match &*token.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(index);
                }
            }
            _ => {}
        }
    }
    None
}

/// A word, a dotted path of names, or an operator. Texts and numbers are words without content.
#[derive(Debug, PartialEq, Eq)]
struct Token {
    text: String,
    is_path: bool,
}

const KEYWORDS: [&str; 22] = [
    "and", "as", "assert", "await", "del", "def", "elif", "else", "for", "from", "global", "if",
    "in", "is", "lambda", "not", "or", "return", "while", "with", "yield", "class",
];

fn tokens(text: &str) -> Vec<Token> {
    let characters: Vec<char> = text.chars().collect();
    let mut tokens = Vec::new();
    let mut at = 0;
    let is_word = |one: char| one.is_alphanumeric() || one == '_';
    while let Some(&one) = characters.get(at) {
        if one == '#' {
            break;
        }
        if one.is_whitespace() {
            at += 1;
        } else if one == '"' || one == '\'' {
            at = end_of_text(&characters, at);
            push(&mut tokens, "''", false);
        } else if is_word(one)
            || (one == '.' && characters.get(at + 1).is_some_and(|&c| is_word(c)))
        {
            let start = at;
            while characters
                .get(at)
                .is_some_and(|&c| is_word(c) || (c == '.' && at + 1 < characters.len()))
            {
                at += 1;
            }
            let word: String = characters[start..at].iter().collect();
            let is_prefix = matches!(characters.get(at), Some('"' | '\'')) && word.len() <= 2;
            if !is_prefix {
                let is_name = one.is_alphabetic() || one == '_';
                let is_path = is_name && !KEYWORDS.contains(&&*word);
                push(&mut tokens, &word, is_path);
            }
        } else {
            let next = characters.get(at + 1).copied();
            let is_before_equals = "+-*/%&|^@=!<>:".contains(one) && next == Some('=');
            let length = if is_before_equals { 2 } else { 1 };
            let operator: String = characters[at..at + length].iter().collect();
            push(&mut tokens, &operator, false);
            at += length;
        }
    }
    tokens
}

fn push(tokens: &mut Vec<Token>, text: &str, is_path: bool) {
    tokens.push(Token {
        text: text.to_owned(),
        is_path,
    });
}

/// The index after the text literal that begins at `start`; the end of the line for one that does
/// not end there.
fn end_of_text(characters: &[char], start: usize) -> usize {
    let quote = characters[start];
    let is_long = characters[start..].starts_with(&[quote; 3]);
    let width = if is_long { 3 } else { 1 };
    let mut at = start + width;
    while at < characters.len() {
        if characters[at] == '\\' {
            at += 2;
        } else if characters[at..].starts_with(&[quote; 3][..width]) {
            return at + width;
        } else {
            at += 1;
        }
    }
    characters.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use SiteRole::{AddsItems, Assigns, Registers};

    fn role(holder: &str, text: &str) -> Option<SiteRole> {
        let site = Site {
            file: "/home/u/train.py".to_owned(),
            line: 8,
            function: "step".to_owned(),
            source_text: Some(text.to_owned()),
        };
        role_of(&site, holder)
    }

    #[test]
    fn lines_that_keep_are_recognized() {
        for (holder, text, expected) in [
            (
                "`preds` in `__main__`",
                "preds.append(out[:, -1].clone())  # x",
                AddsItems,
            ),
            (
                "`Trainer.seen` in `__main__`",
                "self.seen.append(logits.float())",
                AddsItems,
            ),
            (
                "`rec.activations` in `__main__`",
                "def __call__(self, m, a, o): self.activations.append(o[0].clone())",
                AddsItems,
            ),
            (
                "`bank` in `__main__`",
                "bank[f\"epoch{epoch}\"] = model.emb(x).half()",
                AddsItems,
            ),
            (
                "`work['a'][3]` in `m`",
                "work[name] = torch.empty(3)",
                AddsItems,
            ),
            (
                "`q.queue` in `__main__`",
                "q.put(logits[:, -1].float() * 1.0)",
                AddsItems,
            ),
            ("`table`", "if ok: table[key[0]].append(f(x))", AddsItems),
            ("`log`", "x = log.setdefault(key, make())", AddsItems),
            ("the autograd graph of `h` in `m`", "h = h.mul(2)", Assigns),
            (
                "the autograd graph of `h` in `m`",
                "h = cell(torch.randn(64, 2), h)",
                Assigns,
            ),
            (
                "the autograd graph of `state[0]`",
                "out, state = lstm(x, state)",
                Assigns,
            ),
            (
                "the autograd graph of `criterion.center`",
                "self.center = self.m * self.center",
                Assigns,
            ),
            ("`seen` in `__main__`", "seen += f(x)", Assigns),
            (
                "the autograd graphs of 62 tensors in `aux` in `__main__`",
                "aux.append(a)",
                AddsItems,
            ),
            (
                "`optimizer.param_groups`",
                "optimizer.add_param_group({'p': head()})",
                Registers,
            ),
            (
                "`model[0]._forward_hooks` in `__main__`",
                "module.register_forward_hook(Hook(torch.zeros(4)))",
                Registers,
            ),
        ] {
            assert_eq!(role(holder, text), Some(expected), "{holder}: {text}");
        }
    }

    #[test]
    fn other_lines_are_not() {
        for (holder, text) in [
            ("`preds` in `__main__`", "all_preds.append(out)"),
            ("`preds` in `__main__`", "self.preds.append(out)"),
            ("`preds` in `__main__`", "y = torch.cat(preds)"),
            (
                "`preds` in `__main__`",
                "print('preds.append(x)')  # preds.append(x)",
            ),
            ("`preds` in `__main__`", "preds == out"),
            ("`preds` in `__main__`", "f(preds=model(x))"),
            ("`preds` in `__main__`", "run(x, preds, y=model(x))"),
            ("`preds` in `__main__`", "x, y = f(preds, 1), 2"),
            ("`preds` in `__main__`", "y = preds[model(x)]"),
            (
                "`preds` in `__main__`",
                "do(lambda: preds.append(model(x)))",
            ),
            ("`preds` in `__main__`", "preds.pop(model(x))"),
            ("`model` in `__main__`", "model.blocks.append(layer())"),
            (
                "`auroc.target` in `__main__`",
                "masks = (images > 0.1).long()",
            ),
            ("the `lru_cache` of `bias`", "return bias(i) + 1"),
            ("native memory ([heap])", "heap.append(x)"),
            ("`buf` closed over by `hook`", "buf = torch.zeros(16)"),
            ("`x`", "x = torch.randn(4)"),
            ("the autograd graph of `x`", "x = model(y)"),
            ("`x`", "'unfinished"),
            ("`x`", "x["),
            ("`x`", ""),
        ] {
            assert_eq!(role(holder, text), None, "{holder}: {text}");
        }
        let library = Site {
            file: "/v/site-packages/lib.py".to_owned(),
            line: 1,
            function: "f".to_owned(),
            source_text: Some("preds.append(x)".to_owned()),
        };
        assert_eq!(role_of(&library, "`preds`"), None);
    }
}
