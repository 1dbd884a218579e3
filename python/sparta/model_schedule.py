"""Schedules of PyTorch models: what to do with which tensors, recorded first, then done in place.

    s = sparta.create_schedule(model)                                          records; the model is not touched
    s["encoder.*.dense.weight"].sparsify("magnitude(4x1, 0.9)").set_format("strip(4)")
    s["encoder.layer.3.attention"].sparsify(sparta.sparsifiers.TopK(32))       scores of an attention, at every call
    s["encoder.layer.3.mlp:output"].sparsify("threshold(0.1)")                 the output of a module, at every call
    print(s)                                                                   a text (docs/schedules.md); create_schedule(model, text) reads it
    s.report()                                                                 per tensor: what will run, and why not
    s.apply_()                                                                 the training form: masks (masked.py) and hooks (dynamic.py)
    s.build_(example_inputs)                                                   the running form: packed weights (nn.SparseLinear)

A name is looked up here, when it is said; whatever else can be wrong is found before the first change. What is said of tensors is done by others.
"""

from __future__ import annotations

import os
import re
from typing import Any

import torch

from . import _layers, _running_form, _schedule_report, dynamic, patterns, sparsifiers, tensors, tuning
from ._conv1d import turn_
from ._format_linear import formatted_
from ._layers_named import Target, find
from ._library import Error
from .formats import Format
from .formats import pack as pack_array
from .masked import CLASSES, Masked, mask_
from .schedule import Schedule
from .stages import Report

_CLAUSES = ("sparsify", "format", "implement", "quantize", "kernel")
_SAY = {"sparsify": "sparsify", "format": "set_format", "implement": "set_implement", "quantize": "quantize", "kernel": "kernel"}


def create_schedule(model: torch.nn.Module, text: str | Schedule | ModelSchedule | None = None, folder: str | None = None) -> ModelSchedule:
    """A schedule of this model, empty or as a text says. Masks that the text names lie beneath `folder`, or the folder of the schedule that is given.
    A text that says python("module:name") imports that module: read only texts that you trust with it.

    >>> model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU())
    >>> s = create_schedule(model)
    >>> rule = s["0.weight"].sparsify("magnitude(4x1, 0.5)").set_format("strip(4)")
    >>> print(s)
    tensor "0.weight" {
        sparsify magnitude(pattern=4x1, sparsity=0.5)
        format strip(4)
    }
    >>> model = s.apply_()
    >>> float((model[0].weight == 0).float().mean())
    0.5
    """
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"create_schedule: a torch.nn.Module is needed, not {type(model).__name__}")
    folder = folder or getattr(text, "_folder", None)
    turn_(model)
    schedule = ModelSchedule(model, folder)
    if text is not None:
        schedule._read(text if isinstance(text, Schedule) else Schedule.parse(str(text), folder=folder))
    return schedule


class Rule:
    """What is said of the tensors that a name or glob means. Each call returns the rule, so that they chain."""

    def __init__(self, schedule: ModelSchedule, glob: str):
        self.glob, self.targets = glob, find(schedule.model, glob)
        self._schedule = schedule
        ranks = {t.rank for t in self.targets}
        self._layout = tensors.Layout(ranks.pop() if len(ranks) == 1 else 2)
        self.said: dict[str, Any] = {}

    # ---------------------------------------------------------------- formats
    def iter(self, dim: int | None = None) -> Rule:
        """Begins a format anew, with every element of `dim` dimensions stored; compress(), pack(), block() and set_format() go on."""
        self._layout = tensors.Layout(len(self._layout.names) if dim is None else dim)
        self.said.pop("format", None)
        return self

    def _formatted(self, change) -> Rule:
        """The layout changed by a call; as before where the call fails."""
        import copy

        layout = copy.deepcopy(self._layout)
        change(layout)
        text = str(layout)
        self._layout = layout
        self.said["format"] = text
        return self

    def compress(self, axis: int = -1, coordinate: bool = True) -> Rule:
        """Store of this axis only what is there."""
        return self._formatted(lambda layout: layout.level(axis).compress(coordinate))

    def pack(self, axis: int = -1, width: int | None = None) -> Rule:
        """Equally many in each row, behind compress()."""
        return self._formatted(lambda layout: layout.level(axis).pack(width))

    def block(self, *sizes: int) -> Rule:
        """Cut the tensor into blocks: axes 0 and 1 then count them, 2 and 3 are inside of one."""
        return self._formatted(lambda layout: layout.block(*sizes))

    def set_format(self, format: Any, axis: Any = None) -> Rule:
        """A text of the language, a sparta.Format, or a sparta.SparseTensor (class or object), of the whole tensor or of these axes."""
        if axis is None and "format" in self.said and len(self._layout.axes) == len(self._layout.names):
            self.iter()
        return self._formatted(lambda layout: layout.set_format(format, axis))

    # ---------------------------------------------------------------- the rest
    def sparsify(self, sparsifier: Any) -> Rule:
        """A text ("magnitude(4x1, 0.9)", "4x1:0.9", "topk(8)", "mask(\\"masks.npz\\")"), a sparta.Sparsifier (class or object), or a function of
        the tensor that gives a mask."""
        self.said["sparsify"] = self._sparsifier(sparsifier)
        return self

    def _sparsifier(self, given):
        if isinstance(given, str):
            made = sparsifiers.from_text(given)
            if made is not None:
                return self._sparsifier(made)
            text = self._said_by_library("sparsify", _as_call(given))
            if any(t.kind != "weight" for t in self.targets):
                return _dynamic(text, self.glob)
            return text
        if isinstance(given, type):
            return sparsifiers.instance(given)
        if not callable(given) and not hasattr(given, "mask"):
            raise TypeError(f"sparsify of '{self.glob}': a text, a sparta.Sparsifier or a function is needed, not {given!r}")
        return given

    def set_implement(self, implement: str) -> Rule:
        return self._record("implement", implement)

    def quantize(self, precision: str) -> Rule:
        return self._record("quantize", precision)

    def kernel(self, primitives: str) -> Rule:
        return self._record("kernel", primitives)

    def _record(self, clause, text):
        self.said[clause] = self._said_by_library(clause, text)
        return self

    def _said_by_library(self, clause, text):
        """The text as the library prints it; its error where it does not read it."""
        schedule = Schedule()
        getattr(schedule[self.glob], _SAY[clause])(text)
        return _clauses(str(schedule))[-1][1][clause]

    def __repr__(self):
        return f"<rule {self.glob!r} of {', '.join(t.name for t in self.targets[:3])}{', ...' if len(self.targets) > 3 else ''}: {self.said}>"


def _as_call(text):
    """ "4x1:0.9" and "2:4" as the language writes them."""
    plain = re.fullmatch(r"\s*(\d+x\d+|rows|cols):([\d.eE+-]+)\s*", text)
    if plain:
        return f"magnitude(pattern={plain[1]}, sparsity={plain[2]})"
    return f"magnitude({text.strip()})" if re.fullmatch(r"\s*\d+:\d+(@out)?\s*", text) else text


class _Magnitude(sparsifiers.Sparsifier):
    """A pattern of what a module computes: rows of it are those of its last dimension."""

    def __init__(self, pattern):
        self.pattern = pattern

    def mask(self, x):
        return patterns.mask(x.reshape(-1, x.shape[-1]), self.pattern).reshape(x.shape)


def _dynamic(text, glob):
    """A sparsifier of the library for what a module computes. Its text stays as it was written."""
    if text.startswith("mask("):
        raise ValueError(f"sparsify of '{glob}': mask(...) is for weights; a module's output and attention need a sparsifier that looks at them")
    made = _Magnitude(text) if text.startswith("magnitude") else sparsifiers.threshold_from(text)
    made.text = text
    return made


def _clauses(text):
    """[(glob, {clause: text})] of a canonical text, names written out; the model's block under glob None."""
    names: dict[str, dict[str, str]] = {"format": {}, "sparsifier": {}}
    found: list = []
    for line in text.splitlines():
        definition = re.fullmatch(r"(format|sparsifier) (\S+) = (.*)", line)
        tensor = re.fullmatch(r'tensor "((?:[^"\\]|\\.)*)" \{', line)
        clause = re.fullmatch(r"    (\w+) (.*)", line)
        if definition:
            names[definition[1]][definition[2]] = definition[3]
        elif tensor:
            found.append((re.sub(r"\\(.)", r"\1", tensor[1]), {}))
        elif line.startswith("model"):
            found.append((None, {}))
        elif clause and found[-1][0] is None:
            found[-1][1].setdefault("lines", []).append(line)
        elif clause:
            found[-1][1][clause[1]] = _written_out(clause[1], clause[2], names)
    return found


def _written_out(clause, text, names):
    if clause == "sparsify":
        return names["sparsifier"].get(text, text)
    if clause == "format":
        return re.sub(r"(^|-> ?)([A-Za-z][\w.-]*)", lambda m: m[1] + names["format"].get(m[2], m[2]), text)
    return text


class Plan:
    """What a schedule does to one tensor: the clauses that all rules say of it."""

    def __init__(self, target: Target):
        self.target = target
        self.said: dict[str, Any] = {}
        self.by: dict[str, str] = {}
        self.mask: Any = None
        self.hooks: list = []
        self.hook: Any = None
        self.built: Any = None
        self.stays = ""  # why a weight runs dense whatever is said
        self.operator: Any = None  # that runs a weight in a format without kernels of blocks

    def say(self, rule: Any) -> None:
        """What a rule says of it; a ValueError where another rule said otherwise."""
        for clause, what in rule.said.items():
            old = self.said.setdefault(clause, what)
            if old is not what and old != what:
                globs = f"'{self.by[clause]}' and '{rule.glob}'"
                raise ValueError(f"{self.target.name}: {globs} say different things of its {clause}; narrow one of them")
            self.by.setdefault(clause, rule.glob)

    @property
    def block(self) -> tuple[int, int] | str | None:
        """(height, width) where its format is one of blocks that kernels read, "dense", or None."""
        return tensors.blocks_of(self.said["format"]) if "format" in self.said else None


class ModelSchedule:
    """A schedule of one model; create_schedule makes it."""

    def __init__(self, model: torch.nn.Module, folder: str | None = None):
        self.model, self._folder = model, folder
        self.rules: list[Rule] = []
        self._model_lines: list[str] = []
        self._plans: dict[str, Plan] = {}

    def __getitem__(self, glob: str) -> Rule:
        if not isinstance(glob, str):
            raise TypeError(f"a schedule is asked by name or glob, not by {glob!r}")
        for rule in self.rules:
            if rule.glob == glob:
                return rule
        rule = Rule(self, glob)
        self.rules.append(rule)
        return rule

    # ---------------------------------------------------------------- texts
    def _read(self, schedule):
        for glob, said in _clauses(str(schedule)):
            if glob is None:
                self._model_lines += said.get("lines", [])
                continue
            rule = self[glob]
            for clause, text in said.items():
                getattr(rule, _SAY[clause])(text)

    def schedule(self) -> Schedule:
        """The same as the library's object, for sparta.compile."""
        text = "model {\n" + "\n".join(self._model_lines) + "\n}" if self._model_lines else ""
        made = Schedule.parse(text, folder=self._folder)
        for rule in self.rules:
            if rule.said:
                said = made[rule.glob]
                for clause in _CLAUSES:
                    if clause in rule.said:
                        getattr(said, _SAY[clause])(_text(clause, rule.said[clause]))
        return made

    def __str__(self) -> str:
        return str(self.schedule())

    # ---------------------------------------------------------------- what will be done
    def _planned(self) -> dict[str, Plan]:
        plans: dict[str, Plan] = {}
        for rule in self.rules:
            for target in rule.targets:
                if rule.said:
                    plans.setdefault(target.name, Plan(target)).say(rule)
        for plan in plans.values():
            self._check(plan)
        return plans

    def _check(self, plan):
        """Everything that can be wrong with a tensor, and the mask of a weight; changes nothing."""
        name = plan.target.name
        for clause in ("implement", "quantize", "kernel"):
            if clause in plan.said:
                raise _unsupported(f"{name}: {clause} {plan.said[clause]} is not done in PyTorch; take it out, or use sparta.compile")
        if plan.target.kind != "weight":
            if "sparsify" not in plan.said:
                raise ValueError(f"{name}: a format of what a module computes needs a sparsifier, asked at every call; add .sparsify(...)")
            return
        for module in plan.target.modules:
            if type(module) not in CLASSES and not isinstance(module, Masked):
                known = ", ".join(sorted({k.__name__ for k in CLASSES}))
                raise ValueError(f"{name}: a {type(module).__name__} cannot be masked; weights of {known} can{_hint(module)}")
            _layers.need_weight("schedule", name, module)
        weight = _layers.weight_of(plan.target.modules[0])
        plan.mask = self._mask(plan, weight)
        plan.stays = _running_form.stays(self.model, plan)
        if "format" in plan.said:
            self._fits(plan, weight)

    def _mask(self, plan, weight):
        sparsifier = plan.said.get("sparsify")
        if sparsifier is None:
            module = plan.target.modules[0]
            return module.weight_mask.clone() if isinstance(module, Masked) else weight != 0
        if isinstance(sparsifier, str):
            if sparsifier.startswith("mask("):
                return self._mask_file(plan, sparsifier, weight)
            return patterns.mask(weight, sparsifier)
        return dynamic.ask(sparsifier, weight, f"sparsifier of '{plan.target.name}'")

    def _mask_file(self, plan, text, weight):
        file = re.sub(r"\\(.)", r"\1", re.search(r'"((?:[^"\\]|\\.)*)"', text)[1])
        folder = os.path.realpath(self._folder or ".")
        path = os.path.realpath(os.path.join(folder, file))
        name = plan.target.name
        if os.path.isabs(file) or os.path.commonpath([folder, path]) != folder:
            raise ValueError(f"{name}: the masks '{file}' must lie beneath the folder of the schedule")
        arrays = _arrays(path)
        if name not in arrays:
            raise ValueError(f"{name}: '{file}' has no array of that name; it has {', '.join(sorted(arrays)[:5]) or 'none'}")
        from .masked import as_mask

        return as_mask(arrays[name], weight.shape, name)

    def _fits(self, plan, weight):
        """The library packs it: a format that does not hold the elements is refused before anything is changed."""
        text, name = plan.said["format"], plan.target.name
        if weight.dim() != 2:
            raise ValueError(f"{name}: format {text} is for matrices, the weight has {weight.dim()} dimensions; leave the format out")
        if plan.block is None:
            try:
                pack_array(torch.where(plan.mask, weight, 0), text, mask=plan.mask)
            except (ValueError, Error) as error:
                raise ValueError(f"{name}: {error}") from None
        else:
            Format(text, weight.shape)

    # ---------------------------------------------------------------- doing it
    def apply_(self) -> torch.nn.Module:
        """The training form, in place: weights masked, hooks on what is sparsified at every call. Again: masks are made anew. Returns the model."""
        plans = self._planned()
        self.remove_()
        for plan in plans.values():
            if plan.target.kind == "weight" and ("sparsify" in plan.said or not bool(plan.mask.all())):
                _masked(plan)
        self._hooked(plans)
        return self.model

    def _hooked(self, plans):
        for plan in plans.values():
            if plan.target.kind != "weight":
                self._attach(plan)
        self._plans = plans

    def _attach(self, plan):
        name, sparsifier, block = plan.target.name, plan.said["sparsify"], plan.block
        if plan.target.kind == "attention":
            plan.hook = dynamic.AttentionHook(sparsifier, name, block if isinstance(block, tuple) else None)
        else:
            plan.hook = dynamic.OutputHook(sparsifier, name)
        dynamic.detach(plan.target.modules[0], type(plan.hook))
        plan.hooks = plan.hook.attach(plan.target.modules[0])

    def remove_(self) -> torch.nn.Module:
        """Takes the hooks away again; masks stay (sparta.masked.unmask_)."""
        for plan in self._plans.values():
            for hook in plan.hooks:
                hook.remove()
            plan.hooks = []
        return self.model

    def build_(self, example_inputs: Any = None) -> torch.nn.Module:
        """The running form, in place: linear layers of this schedule become sparta.nn.SparseLinear, in their format, or in the fastest way on the
        example inputs where they have none. Returns the model."""
        plans = self._planned()
        weights = [plan for plan in plans.values() if plan.target.kind == "weight"]
        if example_inputs is not None:
            _layers.run(self.model, example_inputs)
        _running_form.operators(weights)
        self.remove_()
        for plan in weights:
            if "sparsify" in plan.said or not bool(plan.mask.all()) or ("format" in plan.said and not plan.stays):
                _masked(plan)
        names = {id(module): name for name, module in self.model.named_modules()}
        tuning.build(self.model, example_inputs, _running_form.configuration(self.model, weights, example_inputs))
        now = dict(self.model.named_modules())
        for target in [plan.target for plan in plans.values()] + [target for rule in self.rules for target in rule.targets]:
            target.modules = [now[names[id(m)]] if id(m) in names else m for m in target.modules]
        for plan in weights:
            plan.built = _running_form.built(plan)
            if plan.operator is not None:
                formatted_(plan.target.modules[0], plan.said["format"], plan.built["reason"])
        self._hooked(plans)
        return self.model

    def report(self) -> Report:
        """A row for each tensor: name, kind, shape, sparsify, format, density, runs, reason. Before apply_ what will be, then what is."""
        plans = self._plans or self._planned()
        return _schedule_report.report(plans.values())


def _masked(plan):
    said = plan.said.get("sparsify")
    for module in plan.target.modules:
        if said is None and isinstance(module, Masked):
            continue  # with the mask that it has
        _layers.settle_(module)
        mask_(module, plan.mask, said if isinstance(said, str) else None, plan.target.name)


def _hint(module):
    return "; sparta.unbuild_(model) goes back to the training form" if hasattr(module, "update_mask") else ""


def _unsupported(message):
    error = Error(message)
    error.status = "E_UNSUPPORTED"
    return error


def _text(clause, said):
    if clause != "sparsify" or isinstance(said, str):
        return said
    return getattr(said, "text", None) or sparsifiers.text_of(said)


def _arrays(path):
    try:
        if path.endswith(".safetensors"):
            from safetensors.torch import load_file

            return load_file(path)
        import numpy as np

        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except ImportError:
        raise
    except Exception as error:  # whatever their readers say of a damaged file
        raise ValueError(f"masks '{path}': {(str(error) or type(error).__name__).splitlines()[0]}") from None
