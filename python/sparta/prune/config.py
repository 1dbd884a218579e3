"""What a pruner is told: a dict or YAML in Neural Compressor's words, read strictly. A word that is not known, or that contradicts another, is
refused by its name before the model is touched.

    pattern: 4x1                     NxM (N on the output), n:m, n:m@out, rows (channels), cols, heads
    target_sparsity: 0.9             or target_latency: 5ms, target_speedup: 4, which decide for each layer
    pruning_type: snip_momentum      magnitude, gradient_x_weight, snip, snip_momentum, movement
    pruning_scope: global            or local
    start_step: 0
    end_step: 1000
    pruning_frequency: 50            masks are made anew every so many steps
    sparsity_decay_type: cubic       oneshot, linear, cubic, exp (iterative), cos
    excluded_op_names: [classifier]
    pruning_configs: [{op_names: ["*.attention.*"], target_sparsity: 0.8}]      others for some layers
"""

from __future__ import annotations

import dataclasses
import difflib
import importlib
import os
import re
from collections.abc import Callable
from typing import Any

from ..patterns import Pattern
from .criteria import CRITERIA
from .fit import Time
from .schedules import DECAYS

__all__ = ["Config", "Settings", "contradictions", "read"]

_LONGEST = 1 << 20  # of a YAML file
_ALIASES = {"channels": "rows", "1xchannel": "rows", "channelx1": "cols"}
_OP_TYPES = {"Linear": "Linear", "Conv": "Conv2d", "Conv2d": "Conv2d"}


@dataclasses.dataclass(frozen=True)
class Settings:
    """Of one set of layers."""

    pattern: Pattern  # at its target; of heads "rows"
    heads: bool
    criterion: str
    scope: str
    start: int
    end: int
    every: int
    decay: str
    names: tuple[str, ...]
    excluded: tuple[str, ...]
    types: tuple[str, ...]
    least: float
    most: float
    lasso: float  # 0: none
    regrow_until: int  # 0: what went stays away
    momentum: float

    @property
    def target(self) -> float:
        return 1 - self.pattern.keep / self.pattern.of if self.pattern.of else self.pattern.sparsity


@dataclasses.dataclass(frozen=True)
class Config:
    sets: tuple[Settings, ...]
    time: Time | None = None  # then there is one set, and what it says of patterns and sparsity is settled by measuring
    distill: float = 0.0  # share of the loss that is the dense model's
    temperature: float = 2.0


# ---------------------------------------------------------------- values
def _fail(word: str, said: str) -> ValueError:
    return ValueError(f"prune: {word}: {said}")


def _quoted(value: Any) -> str:
    """What YAML makes of numbers without a point."""
    return "; YAML takes 1e-4 for a text: write 1.0e-4" if isinstance(value, str) and re.fullmatch(r"\d+[eE][-+]?\d+", value) else ""


def _share(word: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise _fail(word, f"a number between 0 and 1 is needed, not {value!r}{_quoted(value)}")
    return float(value)


def _count(word: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise _fail(word, f"a whole number of at least 0 is needed, not {value!r}")
    return value


def _positive(word: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < float("inf"):
        raise _fail(word, f"a number above 0 is needed, not {value!r}{_quoted(value)}")
    return float(value)


def _names(word: str, value: Any) -> tuple[str, ...]:
    value = [value] if isinstance(value, str) else value
    if not isinstance(value, (list, tuple)) or not all(isinstance(name, str) for name in value):
        raise _fail(word, f"a list of names is needed, not {value!r}")
    return tuple(value)


def _one_of(*known: str) -> Callable[[str, Any], str]:
    def reader(word: str, value: Any) -> str:
        if value not in known:
            raise _fail(word, f"{value!r} is not known; there are {', '.join(known)}{_near(value, known)}")
        return str(value)

    return reader


def _types(word: str, value: Any) -> tuple[str, ...]:
    for name in _names(word, value):
        if name not in _OP_TYPES:
            raise _fail(word, f"{name!r} is not known; there are {', '.join(_OP_TYPES)}")
    return tuple(_OP_TYPES[name] for name in _names(word, value))


def _text(word: str, value: Any) -> str:
    if not isinstance(value, str):
        said = f"; YAML takes 2:4 for 2 minutes and 4: quote it, '{value // 60}:{value % 60}'" if isinstance(value, int) and value >= 60 else ""
        raise _fail(word, f"a text such as '4x1' is needed, not {value!r}{said}")
    return value.strip()


def _near(word: Any, known) -> str:
    near = difflib.get_close_matches(str(word), list(known), 1)
    return f"; did you mean {near[0]!r}?" if near else ""


_READ: dict[str, Callable[[str, Any], Any]] = {
    "target_sparsity": _share,
    "pattern": _text,
    "pruning_type": _one_of(*CRITERIA),
    "pruning_scope": _one_of("global", "local"),
    "start_step": _count,
    "end_step": _count,
    "pruning_frequency": _count,
    "sparsity_decay_type": _one_of(*DECAYS),
    "op_names": _names,
    "excluded_op_names": _names,
    "pruning_op_types": _types,
    "min_sparsity_ratio_per_op": _share,
    "max_sparsity_ratio_per_op": _share,
    "reg_type": _one_of("group_lasso"),
    "reg_coeff": _positive,
    "regrow_until": _count,
    "momentum": _share,
}
_DEFAULTS: dict[str, Any] = {
    "pattern": "4x1",
    "pruning_type": "magnitude",
    "pruning_scope": "global",
    "start_step": 0,
    "pruning_frequency": 1,
    "sparsity_decay_type": "exp",
    "op_names": (),
    "excluded_op_names": (),
    "pruning_op_types": ("Linear", "Conv2d"),
    "min_sparsity_ratio_per_op": 0.0,
    "max_sparsity_ratio_per_op": 0.98,
    "regrow_until": 0,
    "momentum": 0.9,
}
_TOP = ("pruning_configs", "distillation", "target_latency", "target_speedup")


# ---------------------------------------------------------------- reading
def read(config: Any) -> Config:
    """Of a dict, of YAML as a text, or of the path of a file that ends in .yaml or .yml.

    >>> read({"target_sparsity": 0.9, "pattern": "4x1", "end_step": 100}).sets[0].target
    0.9
    """
    if isinstance(config, Config):
        return config
    said = dict(config) if isinstance(config, dict) else _yaml(config)
    _known(said, (*_READ, *_TOP))
    parts = said.pop("pruning_configs", [])
    distill, temperature = _distillation(said.pop("distillation", None))
    chosen = said.get("pattern") is not None
    time = _time(said, parts)
    given = _values(said)
    time = None if time is None else _possible(time, given, chosen)
    if not isinstance(parts, (list, tuple)):
        raise _fail("pruning_configs", f"a list is needed, not {parts!r}")
    sets = []
    for i, part in enumerate(parts):
        if not isinstance(part, dict) or not part.get("op_names"):
            raise _fail(f"pruning_configs[{i}]", "each is a dict that says with op_names which layers it is for")
        _known(part, tuple(_READ))
        sets.append(_settings({**given, **_values(part)}))
    if not parts or "target_sparsity" in given or given.get("op_names"):
        sets.append(_settings(given))
    return Config(tuple(sets), time, distill, temperature)


def _time(said: dict[str, Any], parts: Any) -> Time | None:
    """A time takes the place of pattern and target_sparsity: the words that are left are those of a set that prunes nothing yet."""
    latency, speedup = said.pop("target_latency", None), said.pop("target_speedup", None)
    if latency is None and speedup is None:
        return None
    word = "target_speedup" if latency is None else "target_latency"
    for other in ("target_sparsity", "pruning_scope", "min_sparsity_ratio_per_op", "max_sparsity_ratio_per_op", "pruning_op_types"):
        if other in said:
            raise _fail(other, f"it contradicts {word}, which decides for each linear layer how much goes; leave one out")
    if parts:
        raise _fail("pruning_configs", f"they contradict {word}, which decides for each layer; leave one out")
    try:
        time = Time.of(latency, speedup, said.pop("pattern", None))
    except ValueError as error:
        raise ValueError(f"prune: {error}") from None
    said.update(pattern="1x1", target_sparsity=0.0)
    return time


def _possible(time: Time, given: dict[str, Any], chosen: bool) -> Time:
    """Before anything is measured: n:m prunes at one step, which other words may contradict. Those that nobody asked for are left out."""
    rest = {word: value for word, value in given.items() if word not in ("pattern", "target_sparsity", "end_step", "sparsity_decay_type")}
    left = []
    for text in time.patterns:
        if text.partition(":")[0].isdigit():
            try:
                _settings({**rest, "pattern": text})
            except ValueError as error:
                if chosen:
                    raise ValueError(f"{error} (of pattern {text}, which a target time may choose; leave one out)") from None
                continue
        left.append(text)
    return dataclasses.replace(time, patterns=tuple(left))


def _yaml(config: Any) -> dict[str, Any]:
    if not isinstance(config, (str, os.PathLike)):
        raise TypeError(f"prune: the config is a dict, or YAML as a text or the path of a file, not {type(config).__name__}")
    yaml: Any = importlib.import_module("yaml")
    text = os.fspath(config)
    if text.endswith((".yaml", ".yml")) and "\n" not in text:
        with open(text, encoding="utf-8") as file:
            text = file.read(_LONGEST + 1)
    if len(text) > _LONGEST:
        raise ValueError(f"prune: a config of more than {_LONGEST} characters is none")
    try:
        said = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(f"prune: no YAML: {' '.join(str(error).split())[:200]}") from None
    if not isinstance(said, dict):
        raise ValueError(f"prune: a config is words with values, such as 'target_sparsity: 0.9', not {str(said)[:60]!r}")
    return said


def _known(said: dict, known: tuple[str, ...]) -> None:
    for word in said:
        if word not in known:
            raise ValueError(f"prune: {word!r} is not known{_near(word, known)}; there are {', '.join(known)}")


def _values(said: dict[str, Any]) -> dict[str, Any]:
    return {word: _READ[word](word, value) for word, value in said.items()}


def _distillation(said: Any) -> tuple[float, float]:
    if said is None:
        return 0.0, 2.0
    if not isinstance(said, dict):
        raise _fail("distillation", f"a dict such as {{'alpha': 0.5, 'temperature': 2}} is needed, not {said!r}")
    _known(said, ("alpha", "temperature"))
    return _share("distillation.alpha", said.get("alpha", 0.5)), _positive("distillation.temperature", said.get("temperature", 2.0))


# ---------------------------------------------------------------- what contradicts
def _pattern(given: dict[str, Any]) -> tuple[Pattern, bool]:
    text, target = given["pattern"], given.get("target_sparsity")
    name, colon, rest = text.partition(":")
    heads = name == "heads"
    text = _ALIASES.get(name, "rows" if heads else name) + colon + rest
    groups = colon and name.isdigit()
    if not colon:
        if target is None:
            raise _fail("target_sparsity", "it is missing; how much is to go, e.g. 0.9?")
        text = f"{text}:{target!r}"
    pattern = Pattern.parse(text)
    has = 1 - pattern.keep / pattern.of if groups else pattern.sparsity
    if target is not None and abs(target - has) > 1e-9:
        raise _fail("target_sparsity", f"{target} contradicts the pattern '{given['pattern']}', which is {has:g}; leave one out")
    return pattern, heads


def _settings(given: dict[str, Any]) -> Settings:
    v = {**_DEFAULTS, **given}
    pattern, heads = _pattern(v)
    once = v["sparsity_decay_type"] == "oneshot" or pattern.of > 0
    if "end_step" not in v:
        if not once:
            raise _fail("end_step", f"it is missing; sparsity_decay_type {v['sparsity_decay_type']} ends at some step, oneshot does not")
        v["end_step"] = v["start_step"]
    settings = Settings(
        pattern,
        heads,
        v["pruning_type"],
        v["pruning_scope"],
        v["start_step"],
        v["end_step"],
        v["pruning_frequency"],
        "oneshot" if once else v["sparsity_decay_type"],
        v["op_names"],
        v["excluded_op_names"],
        v["pruning_op_types"],
        v["min_sparsity_ratio_per_op"],
        v["max_sparsity_ratio_per_op"],
        v.get("reg_coeff", 1e-4) if v.get("reg_type") else 0.0,
        v["regrow_until"],
        v["momentum"],
    )
    contradictions(settings, given)
    return settings


def contradictions(s: Settings, given: dict[str, Any]) -> None:
    if s.end < s.start:
        raise _fail("end_step", f"{s.end} is before start_step {s.start}")
    if given.get("sparsity_decay_type") == "oneshot" and s.end > s.start and not s.regrow_until:
        raise _fail("end_step", f"{s.end} contradicts sparsity_decay_type oneshot, which is done at start_step {s.start}")
    if s.pattern.of and given.get("sparsity_decay_type", "oneshot") != "oneshot":
        raise _fail("sparsity_decay_type", f"{s.decay!r} contradicts pattern {s.pattern}: n:m has one sparsity, there is nothing between")
    if s.every < 1:
        raise _fail("pruning_frequency", "0: it is a number of steps, at least 1")
    if (s.pattern.of or s.heads) and s.lasso:
        raise _fail("reg_type", f"group_lasso contradicts pattern {'heads' if s.heads else s.pattern}, which has no blocks")
    if "reg_coeff" in given and not s.lasso:
        raise _fail("reg_coeff", "it is given without reg_type: group_lasso")
    if not s.pattern.of and not s.least <= s.target:
        raise _fail("min_sparsity_ratio_per_op", f"{s.least} is above target_sparsity {s.target}")
    if not s.pattern.of and "max_sparsity_ratio_per_op" in given and not s.most >= s.target:
        raise _fail("max_sparsity_ratio_per_op", f"{s.most} is below target_sparsity {s.target}")
    if s.scope == "local" and given.keys() & {"min_sparsity_ratio_per_op", "max_sparsity_ratio_per_op"}:
        raise _fail("pruning_scope", "local gives every layer the target; min_ and max_sparsity_ratio_per_op are for global")
    if s.regrow_until and not s.start < s.regrow_until <= s.end:
        raise _fail(
            "regrow_until", f"{s.regrow_until} must be after start_step {s.start} and not after end_step {s.end}: masks are made anew until then"
        )
    if CRITERIA[s.criterion].gradient and s.decay == "oneshot" and s.start < 1:
        raise _fail("start_step", f"pruning_type {s.criterion} looks at gradients, and at step 0 there were none; say start_step: 1")
    if "momentum" in given and s.criterion != "snip_momentum":
        raise _fail("momentum", f"pruning_type {s.criterion} has none; snip_momentum does")
