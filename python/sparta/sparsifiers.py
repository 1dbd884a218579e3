"""Sparsifiers: which elements of a tensor stay. Of a weight they are asked once, when a schedule is applied; of an intermediate at every call.

    class Largest(sparta.Sparsifier):
        def __init__(self, k=8):
            self.k = k
        def mask(self, x):
            return x.abs() >= x.abs().topk(self.k, -1).values[..., -1:]

    s["layer.3.mlp:output"].sparsify(Largest)              the output of a module, at every call
    s["layer.3.attention"].sparsify(Largest(k=32))         the scores of an attention: mask() of them, or attention_mask(q, k)
    s["encoder.*.weight"].sparsify(Largest(k=16))          weights, once

A schedule's text names them as python("module:name"), with arguments="k=16" where an object was given: whatever is a keyword of __init__ and an
attribute of the same name. Needs torch when used, not when imported.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import math
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Routing", "Similarity", "Sparsifier", "Threshold", "TopK"]


class Sparsifier:
    """Subclass it and define mask(x), or attention_mask(q, k) for attentions."""

    def mask(self, x: Tensor) -> Tensor:
        """Boolean, of the shape of x or one that expands to it: True where an element stays."""
        raise NotImplementedError(f"{type(self).__name__} must define mask(self, x)")

    def attention_mask(self, q: Tensor, k: Tensor, allowed: Tensor | None = None) -> Tensor:
        """Which scores of an attention stay, (..., queries, keys), of q (..., queries, features), k (..., keys, features): mask() of the scores.

        allowed, (..., queries, keys): those that the attention's own mask leaves, where it has one. A method without this argument is not told; what
        is not allowed never stays, whatever is answered.
        """
        import torch

        scores = torch.matmul(q, k.transpose(-1, -2)) * q.shape[-1] ** -0.5
        return self.mask(scores if allowed is None else scores.masked_fill(~allowed, 0))

    def __call__(self, x: Tensor) -> Tensor:
        return self.mask(x)

    def arguments(self) -> dict[str, Any]:
        """What __init__ needs to make it again: its keywords that are attributes of the same name."""
        return {name: getattr(self, name) for name in inspect.signature(type(self).__init__).parameters if name != "self" and hasattr(self, name)}

    def __repr__(self):
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in self.arguments().items())})"


class TopK(Sparsifier):
    """The k largest magnitudes along a dimension, a number or a share; all where there are no more.

    `expect` is for sparta.compile: how much is usually there.

    >>> TopK(1).mask(torch.tensor([[1.0, -3.0, 2.0]]))
    tensor([[False,  True, False]])
    >>> TopK("50%").mask(torch.tensor([[1.0, -3.0, 2.0]]))
    tensor([[False,  True,  True]])
    >>> TopK(2).mask(torch.tensor([[1.0, -1.0, 1.0]]))  # of equals the first
    tensor([[ True,  True, False]])
    """

    def __init__(self, k: int | str = 1, dim: int = -1, expect: int | str | None = None):
        self.k, self.dim = _part("TopK", "k", k), dim
        if expect is not None:
            self.expect = _part("TopK", "expect", expect)

    def mask(self, x: Tensor) -> Tensor:
        return _largest(x.detach().abs(), self.k, self.dim)

    def attention_mask(self, q: Tensor, k: Tensor, allowed: Tensor | None = None) -> Tensor:
        """Of scores the largest stay, not those of the largest magnitude."""
        import torch

        scores = torch.matmul(q.detach(), k.detach().transpose(-1, -2))
        scores = scores if allowed is None else scores.masked_fill(~allowed, float("-inf"))
        return _largest(scores, self.k, -1)


class Threshold(Sparsifier):
    """Magnitudes of at least this value; with a bound, the so many largest of them along the last dimension. `expect` as in TopK.

    >>> Threshold(2.0, bound=1).mask(torch.tensor([[1.0, -3.0, 2.0]]))
    tensor([[False,  True, False]])
    """

    def __init__(self, value: float = 0.0, bound: int | str | None = None, expect: int | str | None = None):
        self.value = value
        if bound is not None:
            self.bound = _part("Threshold", "bound", bound)
        if expect is not None:
            self.expect = _part("Threshold", "expect", expect)

    def mask(self, x: Tensor) -> Tensor:
        x = x.detach().abs()
        stays = ~(x < self.value)
        return stays & _largest(x, self.bound, -1) if hasattr(self, "bound") else stays


class Similarity(Sparsifier):
    """Of attentions, in blocks of queries and keys: for each block of queries the `topk` blocks of keys whose means are most alike, and its own.

    >>> mask = Similarity(topk=1, block=2).attention_mask(torch.eye(4), torch.eye(4))
    >>> mask.shape, int(mask.sum())
    (torch.Size([4, 4]), 8)
    """

    def __init__(self, topk: int = 8, block: int = 1):
        self.topk, self.block = _count("Similarity", "topk", topk), _count("Similarity", "block", block)

    def mask(self, x: Tensor) -> Tensor:
        raise ValueError("Similarity compares queries with keys: name an attention, not a weight or an output; TopK is for those")

    def attention_mask(self, q: Tensor, k: Tensor, allowed: Tensor | None = None) -> Tensor:
        import torch

        queries, keys = _means(q.detach(), self.block), _means(k.detach(), self.block)
        near = torch.matmul(queries, keys.transpose(-1, -2))
        if allowed is not None:
            near = near.masked_fill(~_any(allowed, self.block), float("-inf"))
        kept = near.topk(min(self.topk, near.shape[-1]), -1).indices
        mask = torch.zeros(near.shape, dtype=torch.bool, device=q.device).scatter(-1, kept, True)
        if q.shape[-2] == k.shape[-2]:
            mask = mask | torch.eye(near.shape[-1], dtype=torch.bool, device=q.device)
        mask = mask.repeat_interleave(self.block, -1).repeat_interleave(self.block, -2)
        return mask[..., : q.shape[-2], : k.shape[-2]]


class Routing(Sparsifier):
    """The routing transformer's: queries and keys go to the nearest of `clusters` directions, and a query sees the keys of its cluster (and itself).

    The directions begin at random (`seed`) and follow what they attract while the model trains, by `decay` a step.
    """

    def __init__(self, clusters: int = 8, decay: float = 0.999, seed: int = 0):
        self.clusters, self.decay, self.seed = _count("Routing", "clusters", clusters), decay, seed
        self.means: Any = None

    def mask(self, x: Tensor) -> Tensor:
        raise ValueError("Routing compares queries with keys: name an attention, not a weight or an output")

    def attention_mask(self, q: Tensor, k: Tensor, allowed: Tensor | None = None) -> Tensor:
        import torch
        from torch.nn.functional import normalize

        q, k = normalize(q.detach().float(), dim=-1), normalize(k.detach().float(), dim=-1)
        if self.means is None or self.means.shape[-1] != q.shape[-1]:
            made = torch.randn(self.clusters, q.shape[-1], generator=torch.Generator().manual_seed(self.seed))
            self.means = normalize(made, dim=-1)
        means = self.means.to(q.device)
        of_q, of_k = (torch.matmul(x, means.T).argmax(-1) for x in (q, k))
        if torch.is_grad_enabled():
            self._follow(torch.cat([q.flatten(0, -2), k.flatten(0, -2)]), torch.cat([of_q.flatten(), of_k.flatten()]))
        mask = of_q[..., :, None] == of_k[..., None, :]
        return mask | torch.eye(q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device)

    def _follow(self, vectors, cluster):
        import torch
        from torch.nn.functional import normalize

        total = torch.zeros_like(self.means).index_add(0, cluster.cpu(), vectors.cpu())
        moved = normalize(self.decay * self.means + (1 - self.decay) * normalize(total, dim=-1), dim=-1)
        self.means = torch.where(total.abs().sum(-1, keepdim=True) > 0, moved, self.means)


def _count(where, name, value):
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{where}: {name} must be a number of at least 1, not {value!r}")
    return value


def _part(where, name, value):
    """How many elements of a line, or what share of it: 64, "12.5%"."""
    share = re.fullmatch(r"(\d+(?:\.\d+)?)%", value) if isinstance(value, str) else None
    if share and 0 < float(share[1]) <= 100:
        return value
    if isinstance(value, str):
        raise ValueError(f'{where}: {name} must be a number of at least 1 or a share such as "25%", not {value!r}')
    return _count(where, name, value)


def _largest(x, part, dim):
    """Where the largest elements along a dimension are, as many as a _part says."""
    import torch

    size = x.shape[dim]
    share = float(part[:-1]) * (size / 100) if isinstance(part, str) else 0.0
    most = math.ceil(share - share * 1e-12) if isinstance(part, str) else part  # as the library counts: 7 % of 100 are 7
    kept = x.sort(dim=dim, descending=True, stable=True).indices.narrow(dim, 0, min(most, size))  # of equals the first, which topk does not promise
    return torch.zeros(x.shape, dtype=torch.bool, device=x.device).scatter(dim, kept, True)


def _means(x, block):
    """(..., n, features) as the means of blocks of n."""
    import torch

    n = x.shape[-2]
    x = torch.nn.functional.pad(x, (0, 0, 0, -n % block)).unflatten(-2, (-1, block)).sum(-2)
    sizes = torch.full((x.shape[-2], 1), float(block), device=x.device)
    if n % block:
        sizes[-1] = n % block
    return x / sizes.to(x.dtype)


def _any(allowed, block):
    """(..., n, m) as which blocks have anything."""
    import torch

    n, m = allowed.shape[-2:]
    return torch.nn.functional.pad(allowed, (0, -m % block, 0, -n % block)).unflatten(-1, (-1, block)).unflatten(-3, (-1, block)).any(-1).any(-2)


# ---------------------------------------------------------------- texts
# Words of a schedule's text that are objects here. Those of WORDS the program knows as well; the others are written back as python(...).
NAMED = {"topk": TopK, "similarity": Similarity, "routing": Routing}
WORDS = {TopK: "topk", Threshold: "threshold"}


def text_of(sparsifier: Any) -> str:
    """A word of the language, or python("module:name"), which read back; a ValueError where nothing of that name would be found."""
    given = None
    if type(sparsifier) in WORDS and getattr(sparsifier, "dim", -1) == -1:
        said = ", ".join(f"{key}={value}" for key, value in sparsifier.arguments().items() if key != "dim")
        return f"{WORDS[type(sparsifier)]}({said})"
    if isinstance(sparsifier, Sparsifier) or (callable(sparsifier) and not hasattr(sparsifier, "__qualname__")):
        given = sparsifier.arguments() if isinstance(sparsifier, Sparsifier) else {}
        thing = type(sparsifier)
    else:
        thing = sparsifier
    module, name = thing.__module__, thing.__qualname__
    if "<" in name or (module == "__main__" and not hasattr(importlib.import_module(module), name.split(".")[0])):
        raise ValueError(f"sparsifier {module}:{name} has no name that a text could say; define it with def or class in a module, outside functions")
    if not given:
        return f'python("{module}:{name}")'
    for key, value in given.items():
        if not _is_plain(value):
            raise ValueError(f"sparsifier {name}: its argument {key}={value!r} has no text; numbers, texts, booleans, None and lists of them have")
    said = ", ".join(f"{key}={value!r}" for key, value in given.items()).replace("\\", "\\\\").replace('"', '\\"')
    return f'python("{module}:{name}", arguments="{said}")'


def _is_plain(value):
    if isinstance(value, (list, tuple)):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, (bool, int, float, str))


_PYTHON = re.compile(r'python\(\s*(?:object=)?"((?:[^"\\]|\\.)*)"\s*(?:,\s*(?:arguments=)?"((?:[^"\\]|\\.)*)"\s*)?\)')


def from_text(text: str) -> Any:
    """The sparsifier that a text names: an object for python(...) and the words of NAMED, None for those of the library. Imports the module."""
    found = _PYTHON.fullmatch(text.strip())
    if found:
        plain = [re.sub(r"\\(.)", r"\1", part) if part is not None else None for part in found.groups()]
        return _made(_imported(plain[0]), plain[1], text)
    call = re.fullmatch(r"\s*([a-z_]+)\s*(?:\((.*)\))?\s*", text, re.DOTALL)
    if call and call[1] in NAMED:
        return _made(NAMED[call[1]], call[2], text)
    return None


def threshold_from(text: str) -> Threshold:
    """threshold(value=0.1, bound=25%) as the library prints it."""
    return _made(Threshold, text[len("threshold(") : -1], text)


def _imported(path):
    module, colon, name = path.partition(":")
    if not colon or not all(part.isidentifier() for part in (module + "." + name).split(".")):
        raise ValueError(f'sparsify python("{path[:100]}"): write "module:name"')
    try:
        thing = importlib.import_module(module)
        for part in name.split("."):
            thing = getattr(thing, part)
    except (ImportError, AttributeError) as error:
        raise ValueError(f'sparsify python("{path[:100]}"): {error}; the module must be importable from here') from None
    return thing


def _made(thing, arguments, text):
    """The function itself, or an object of the class with these arguments."""
    arguments = re.sub(r"(?<![\w.'\"])(\d+(?:\.\d+)?%)", r"'\1'", arguments or "")  # 10% is a word of the language, and none of Python's
    try:
        call = ast.parse(f"f({arguments})", mode="eval").body
        placed = [ast.literal_eval(a) for a in call.args]
        named = {k.arg: ast.literal_eval(k.value) for k in call.keywords}
    except (SyntaxError, ValueError, AttributeError, TypeError, MemoryError, RecursionError):
        raise ValueError(f"sparsify {text[:200]}: its arguments must be plain values, e.g. k=8") from None
    if inspect.isclass(thing):
        return instance(thing, *placed, **named)
    if placed or named or not callable(thing):
        raise ValueError(f"sparsify {text[:200]}: {'only classes take arguments' if callable(thing) else 'it names no class and no function'}")
    return thing


def instance(kind: type, *arguments: Any, **named: Any) -> Any:
    """An object of a sparsifier's class, with a message where it needs arguments that are not there."""
    if "mask" not in dir(kind) and "__call__" not in dir(kind):
        raise TypeError(f"sparsify: {kind.__qualname__} has no mask(self, x); make it a subclass of sparta.Sparsifier")
    try:
        return kind(*arguments, **named)
    except TypeError as error:
        raise TypeError(f"sparsify({kind.__qualname__}): {error}; give an object of it, {kind.__qualname__}(...)") from None
