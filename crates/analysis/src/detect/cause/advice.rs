//! What to write on the line that makes memory stay, by what holds the memory.

use super::source::{CACHE_OF, GRAPH_OF, path_of};
use super::{Cause, SiteRole};
use crate::timeline::{Framework, Keeping};

/// The beginning of the holder that is the autograd graphs of several tensors in a collection.
const GRAPHS_OF: &str = "the autograd graphs of ";

/// What is known about the holder of a cause, besides its name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct About {
    /// The category of the memory, such as `activations`; empty when unknown.
    pub(crate) category: String,
    pub(crate) keeping: Keeping,
}

/// What to change in the program, for the holder of a cause; `None` when the cause has no holder.
pub(crate) fn of_holder(cause: &Cause, about: &About, framework: Framework) -> Option<String> {
    let holder = cause.holder.as_deref()?;
    let words = Words {
        holder,
        name: path_of(holder),
        at: place_of(cause),
        framework,
    };
    Some(words.advice(cause, about))
}

/// Whether the holder of a failed allocation can be told to hold less: it is a collection, or the
/// line that makes its memory stay is known. Otherwise it may be what the step needs.
pub(crate) fn can_hold_less(cause: &Cause, about: &About) -> bool {
    let holder = cause.holder.as_deref().unwrap_or_default();
    let is_keeping = matches!(
        cause.site_role,
        SiteRole::AddsItems | SiteRole::Assigns | SiteRole::Registers
    );
    let is_several = holder.starts_with(GRAPHS_OF) || is_of_exceptions(holder);
    let is_collection = !about.keeping.kind.is_empty() || holder.starts_with(CACHE_OF);
    // Neither the model nor what a step computes.
    let is_apart = matches!(&*about.category, "other_named" | "host");
    is_keeping || is_several || is_collection || is_apart
}

fn is_of_exceptions(holder: &str) -> bool {
    holder.contains("traceback")
}

/// " at train.py:31" when the site of the cause is the line to change.
fn place_of(cause: &Cause) -> String {
    let is_keeping = !matches!(cause.site_role, SiteRole::Allocates | SiteRole::Fails);
    let site = cause.site.as_ref().filter(|_| is_keeping);
    site.map_or_else(String::new, |site| format!(" at {}", site.place()))
}

struct Words<'a> {
    holder: &'a str,
    name: &'a str,
    at: String,
    framework: Framework,
}

impl Words<'_> {
    fn advice(&self, cause: &Cause, about: &About) -> String {
        let Self { name, at, .. } = self;
        let role = cause.site_role;
        if self.holder.starts_with(CACHE_OF) {
            let function = self.holder.split('`').nth(3).unwrap_or_default();
            return format!(
                "Give the cache of `{function}` a bound{at}: `@functools.lru_cache(maxsize=...)` \
                 instead of `maxsize=None`, or keep its results on the host"
            );
        }
        if is_of_exceptions(self.holder) {
            return format!(
                "Keep the text of the exception{at} (`traceback.format_exc()`), not the exception: \
                 its traceback keeps the variables of every frame; or call \
                 `traceback.clear_frames(error.__traceback__)` before it is kept"
            );
        }
        let is_collection = role == SiteRole::AddsItems || !about.keeping.kind.is_empty();
        if self.holder.starts_with(GRAPH_OF) && !is_collection {
            return format!(
                "Assign `{name}` without its graph{at}: `.detach()`, or `.item()` for a number, or \
                 compute it under `torch.no_grad()`; otherwise the graph of each step keeps that of \
                 the step before"
            );
        }
        let is_of_graphs = [GRAPH_OF, GRAPHS_OF]
            .iter()
            .any(|one| self.holder.starts_with(one));
        if is_of_graphs || (about.category == "activations" && role != SiteRole::Assigns) {
            return format!(
                "Keep a number or a detached tensor in `{name}`{at}: `.item()` or `.detach()`; each \
                 tensor that is kept keeps the graph that made it"
            );
        }
        let is_registry = name.ends_with("_hooks") || name.ends_with(".param_groups");
        if role == SiteRole::Registers || is_registry {
            return self.of_registry(about);
        }
        if matches!(
            &*about.category,
            "parameters" | "gradients" | "optimizer_state"
        ) {
            if !is_collection {
                return format!(
                    "Look for what adds parameters, buffers or optimizer state to `{name}` again and \
                     again, and remove what is no longer needed"
                );
            }
            return format!(
                "Drop the old models and optimizers instead of keeping them in `{name}`{at}: each \
                 one keeps its parameters and its state; keep a `state_dict()` on the host if it is \
                 needed later"
            );
        }
        if role == SiteRole::Assigns {
            return self.of_variable();
        }
        self.of_collection(about)
    }

    fn of_registry(&self, about: &About) -> String {
        let Self { name, at, .. } = self;
        if name.ends_with("_hooks") {
            return format!(
                "Register the hook once, or keep the handle that the registration{at} returns and \
                 call `handle.remove()`"
            );
        }
        if name.ends_with("param_groups") {
            return format!(
                "Each parameter group that is added{at} stays in the optimizer: remove the old one \
                 from `{name}` with its entries of `state`, or make a new optimizer"
            );
        }
        let what = if about.category == "optimizer_state" {
            "parameter groups"
        } else {
            "buffers and modules"
        };
        format!("Remove the {what} that are added to `{name}`{at} when they are no longer needed")
    }

    fn of_variable(&self) -> String {
        let Self { name, at, .. } = self;
        match self.framework {
            Framework::Torch => format!(
                "Assign to `{name}`{at} only what the next step needs: a number (`.item()`), a \
                 detached tensor, or a copy on the host"
            ),
            _ => format!("Assign to `{name}`{at} only what the next step needs"),
        }
    }

    fn of_collection(&self, about: &About) -> String {
        let Self { name, at, .. } = self;
        let on_host = match self.framework {
            _ if about.category == "host" => "only what is needed of each element",
            Framework::Torch => "copies on the host (`.cpu()`) or numbers (`.item()`)",
            Framework::Jax => "copies on the host (`jax.device_get(x)`) or numbers (`float(x)`)",
            Framework::TensorFlow => "copies on the host (`.numpy()`)",
            Framework::Unknown => "numbers or copies on the host",
        };
        if let Some((queue, "queue" | "_queue")) = name.rsplit_once('.') {
            return format!(
                "Give `{queue}` a bound (`maxsize=...`), so that `put`{at} waits for the consumer, \
                 or put {on_host} into it"
            );
        }
        if about.keeping.most_items.is_some() {
            return format!("Lower the bound of `{name}`{at} if it does not fit into memory");
        }
        if about.keeping.is_keyed() {
            return format!(
                "Evict old entries of `{name}`{at}: delete an entry when its key is done, or bound \
                 the cache (`functools.lru_cache(maxsize=...)`); or keep {on_host}"
            );
        }
        if name.is_empty() {
            return format!(
                "Bound what {} keeps, or empty it: keep {on_host}",
                self.holder
            );
        }
        if at.is_empty() && about.keeping.kind.is_empty() {
            return format!(
                "Keep {on_host} in `{name}`, bound it, or empty it when its content was used"
            );
        }
        format!(
            "Keep {on_host} in `{name}`{at}, or bound it: `collections.deque(maxlen=...)`, or empty \
             it when its elements were used"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detect::cause::Site;

    /// The advice for a holder that line train.py:9 keeps in this way.
    fn of(holder: &str, role: SiteRole, category: &str, kind: &str, by: Framework) -> String {
        let cause = Cause {
            site: Some(Site {
                file: "/home/u/train.py".to_owned(),
                line: 9,
                function: "step".to_owned(),
                source_text: None,
            }),
            site_role: role,
            allocated_at: None,
            call_path: Vec::new(),
            holder: Some(holder.to_owned()),
            attributed_bytes: 1,
            share: 1.0,
            failure: None,
        };
        let about = About {
            category: category.to_owned(),
            keeping: Keeping {
                kind: kind.to_owned(),
                ..Keeping::default()
            },
        };
        of_holder(&cause, &about, by).unwrap()
    }

    fn assert_of(holder: &str, role: SiteRole, category: &str, kind: &str, expected: &str) {
        let advice = of(holder, role, category, kind, Framework::Torch);
        assert!(advice.contains(expected), "{holder}: {advice}");
    }

    #[test]
    fn graphs_are_detached() {
        let assert = |holder, role, kind, expected| {
            assert_of(holder, role, "activations", kind, expected);
        };
        let added = SiteRole::AddsItems;
        assert(
            "the autograd graph of `loss_fn.center` in `m`",
            SiteRole::Assigns,
            "",
            "Assign `loss_fn.center` without its graph at train.py:9: `.detach()`",
        );
        assert(
            "the autograd graphs of 62 tensors in `aux` in `m`",
            added,
            "list",
            "detached tensor in `aux` at train.py:9: `.item()` or `.detach()`",
        );
        let of_exceptions = "the autograd graph of `errors` in `m`";
        assert(of_exceptions, added, "list", "`.item()` or `.detach()`");
        assert(
            "`losses` in `m`",
            added,
            "list",
            "each tensor that is kept keeps the graph",
        );
    }

    #[test]
    fn collections_are_bounded() {
        let added = SiteRole::AddsItems;
        for (holder, kind, expected) in [
            (
                "`preds` in `m`",
                "list",
                "in `preds` at train.py:9, or bound it: `collections.deque(",
            ),
            (
                "`sessions` in `m`",
                "dict",
                "Evict old entries of `sessions` at train.py:9",
            ),
            (
                "the `lru_cache` of `bias`",
                "x",
                "Give the cache of `bias` a bound at train.py:9",
            ),
            (
                "the tracebacks of 13 exceptions in `e`",
                "list",
                "`traceback.clear_frames(",
            ),
            (
                "`q.queue` in `m`",
                "deque",
                "Give `q` a bound (`maxsize=...`)",
            ),
        ] {
            assert_of(holder, added, "other_named", kind, expected);
        }
        let old =
            "Drop the old models and optimizers instead of keeping them in `cycles` at train.py:9";
        assert_of("`cycles` in `m`", added, "optimizer_state", "list", old);
    }

    #[test]
    fn what_is_registered_is_removed() {
        let registers = SiteRole::Registers;
        let hooks = "`model[0]._forward_hooks` in `m`";
        assert_of(
            hooks,
            registers,
            "other_named",
            "dict",
            "call `handle.remove()`",
        );
        let group = "Each parameter group that is added at train.py:9 stays";
        assert_of(
            "`optimizer.param_groups`",
            registers,
            "parameters",
            "list",
            group,
        );
        let buffer = "Remove the buffers and modules that are added to `model` at train.py:9";
        assert_of("`model` in `m`", registers, "parameters", "", buffer);
        let assigned = "Assign to `seen` at train.py:9 only what the next step needs";
        assert_of(
            "`seen` in `m`",
            SiteRole::Assigns,
            "other_named",
            "",
            assigned,
        );
    }

    #[test]
    fn what_is_not_known_is_not_advised() {
        use SiteRole::Allocates;
        let torch = Framework::Torch;
        let model = of("`model` in `m`", Allocates, "parameters", "", torch);
        assert!(
            model.starts_with("Look for what adds parameters"),
            "{model}"
        );
        let bank = of("`bank` in `m`", Allocates, "other_named", "", torch);
        assert!(bank.contains("in `bank`, bound it, or empty it"), "{bank}");
        let host = of("`log` in `m`", Allocates, "host", "list", torch);
        assert!(
            host.starts_with("Keep only what is needed of each element in `log`"),
            "{host}"
        );
    }

    #[test]
    fn no_framework_gets_the_advice_of_another() {
        let of_list = |by| {
            of(
                "`kept` in `m`",
                SiteRole::AddsItems,
                "other_named",
                "list",
                by,
            )
        };
        assert!(of_list(Framework::Torch).contains("`.cpu()`"));
        assert!(of_list(Framework::Jax).contains("`jax.device_get(x)`"));
        for by in [Framework::Jax, Framework::TensorFlow, Framework::Unknown] {
            let advice = of_list(by);
            assert!(
                !advice.contains(".cpu()") && !advice.contains("torch"),
                "{advice}"
            );
        }
    }
}
