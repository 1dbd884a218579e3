"""make validate: models trained dense and pruned on data that pip gives, three seeds each; accuracy against dense, and the package's speed.

    tools/validate.py --export-data DIR             the data, where the packages are (tools/validate_data.py)
    tools/validate.py --data DIR [--only WORDS]     trains; every row is appended to --json when it is there, and what is there is not done again
    tools/validate.py --data DIR --time             then, alone on the machine: the packages of the chosen rows of seed 0 against the dense one
    tools/validate.py --merge A.jsonl B.jsonl --write docs/validated.md

The test set is a quarter of the data, the validation set a tenth; both are other rows for each seed (of sentences: of other names than those that
train, the same for all seeds). Of each model: E epochs dense; from there E more, once dense and once for each pattern and recipe, with the same
optimizer and the masks growing along a cubic schedule over the first 6 tenths of them. So all have seen the data as often. A recipe is a scope,
every layer at the pattern's sparsity (local) or all of them together (global), and whether the dense model teaches (distilled: half of the loss is
its answers'). The recipe of a row is the one with the best mean accuracy on the validation sets; the test sets choose nothing. One-shot methods
begin with the dense model, see 256 rows, and train no more.

MiniLM comes trained, so that it is the dense model as it is. It is pruned while it learns to have the states that the dense one has after each
layer, and its embeddings, on sentences of training and on others that nobody asks of. What must hold is the accuracy of a linear probe (which
language are the names of?) that was fitted to the embeddings of the dense model and is left as it is; distilled: the answers that it gives of the
dense model's embeddings are learned, too.

Speed is the package of the pruned model against that of the dense one, on one thread, in turns in one process, the best of many runs.
"""

import argparse
import collections
import concurrent.futures as futures
import dataclasses
import json
import multiprocessing
import os
import re
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")
sys.path.insert(0, os.path.join(ROOT, "python"))

import numpy as np  # noqa: E402
import torch  # noqa: E402
import validate_data  # noqa: E402
import validate_page  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402
from validate_models import Letters, Recommender, Sentences, mlp, resnet  # noqa: E402

import sparta  # noqa: E402

IMAGES = ("2x1:0.7", "4x1:0.8", "4x1:0.9", "1x1:0.9", "2:4", "2:4@out")
TEXT = ("4x1:0.8", "4x1:0.9", "2:4", "16x4:0.85")
ONE_SHOT = tuple(f"{method} {pattern}" for pattern in ("2:4", "1x1:0.5") for method in ("magnitude", "wanda", "sparsegpt"))
SEEN = 256  # rows that one-shot methods see
SWAPPED = 0.3  # of the words of a sentence at most, while MiniLM learns
WIDTHS = (16, 24, 32)  # sentences as long as one of these are learned from together: most are short
EMBEDDING, ANSWERS = 5.0, 0.5  # of the loss, beside the states
SHARES = (0.65, 0.1)  # of training and validation; the rest is the test's


@dataclasses.dataclass(frozen=True)
class Task:
    data: str
    make: Callable[[str], nn.Module]  # of the folder of the data
    epochs: int  # of each half
    rate: float
    patterns: tuple[str, ...]
    excluded: tuple[str, ...]  # layers that stay dense
    timed: int  # rows of the timed run
    batch: int = 64
    large: bool = False  # trains on a GPU where there is one
    updates: int = 100  # masks are made anew every 1/100 of the steps; 1/25 on a GPU, where that takes long

    @property
    def sentences(self):
        return self.data == "sentences"


def minilm(folder):
    weights = {name: torch.from_numpy(array.astype(np.float32)) for name, array in validate_data.load(folder, "minilm").items()}
    model = Sentences(len(weights["word.weight"]))
    model.load_state_dict(weights)
    return model


TASKS = {
    "MLP on digits": Task("digits", lambda _: mlp(64), 30, 2e-3, IMAGES + ONE_SHOT, ("5",), 128),
    "MLP on MNIST": Task("mnist", lambda _: mlp(784), 16, 1e-3, IMAGES + ONE_SHOT, ("5",), 128),
    "ResNet on digits": Task("digits", lambda _: resnet(1), 20, 2e-3, IMAGES + ONE_SHOT, ("0", "7"), 32),
    "ResNet on MNIST": Task("mnist", lambda _: resnet(2), 12, 2e-3, IMAGES + ONE_SHOT, ("0", "7"), 32, large=True, updates=25),
    "DLRM on diamonds": Task("diamonds", lambda _: Recommender(), 4, 2e-3, ("16x4:0.85", *ONE_SHOT), ("bottom.0", "top.4"), 2048, 128),
    "character transformer on names": Task("names", lambda _: Letters(), 15, 5e-4, (*TEXT, "heads:0.5", *ONE_SHOT), ("head",), 32, 128, True, 25),
    "MiniLM on sentences": Task("sentences", minilm, 6, 8e-4, TEXT + ONE_SHOT, (), 32, 256, True, 50),
}


def groups(pattern):
    """n:m, whose sparsity is its own and the same everywhere."""
    return re.match(r"\d+:", pattern) is not None


def recipes(task, pattern):
    if pattern in ONE_SHOT:
        return ("one-shot",)
    scopes = ("local",) if groups(pattern) else ("local", "global")
    return *scopes, *(f"{scope} distilled" for scope in scopes)


# ---------------------------------------------------------------- data
KINDS = {"digits": "f", "mnist": "f", "names": "i", "diamonds": "fi", "sentences": "if"}  # of a model's inputs: floats, or places in tables


def prepared(task, folder, seed, device, quick=False):
    """((inputs), labels) of training, validation and test; of sentences then those that nobody asks of."""
    arrays = validate_data.load(folder, task.data)
    x = [torch.from_numpy(arrays[key].astype(np.float32 if kind == "f" else np.int64)) for key, kind in zip(("x", "x1"), KINDS[task.data])]
    x = [part / float(arrays["most"]) for part in x] if "most" in arrays else x
    y = torch.from_numpy(arrays["y"].astype(np.int64))
    if "part" in arrays:
        rows = [torch.from_numpy(np.flatnonzero(arrays["part"] == i)) for i in range(4)]
    else:
        cuts = [int(share * len(y)) for share in SHARES]
        rows = torch.randperm(len(y), generator=torch.Generator().manual_seed(seed)).split([*cuts, len(y) - sum(cuts)])
    if quick:
        rows = [part[:256] for part in rows]
    return [(tuple(p[part].to(device) for p in x), y[part].to(device)) for part in rows]


def call(model, x, rows):
    return model(*(part[rows] for part in x))


# ---------------------------------------------------------------- training
def config(task, pattern, recipe, steps):
    name, _, share = pattern.partition(":")
    said = {"pattern": pattern, "excluded_op_names": list(task.excluded)}
    if not groups(pattern):
        said |= {"pattern": name, "target_sparsity": float(share), "pruning_scope": recipe.split()[0]}
        said |= {"end_step": int(0.6 * steps), "sparsity_decay_type": "cubic", "pruning_frequency": max(steps // task.updates, 1)}
    if "distilled" in recipe:
        said["distillation"] = {"alpha": 0.5, "temperature": 2.0}
    return said


def train(task, model, fit, epochs, seed, pattern="", recipe="", teacher=None):
    """Dense, or to a pattern."""
    torch.manual_seed(seed)
    x, y = fit
    steps = epochs * -(-len(y) // task.batch)
    optimizer, later = optimizers(task, model, steps)
    said = config(task, pattern, recipe, steps) if pattern else {}
    pruner = sparta.prune.prepare_pruning(model, said, optimizer, teacher if "distillation" in said else None) if pattern else None
    model.train()
    for _ in range(epochs):
        for rows in torch.randperm(len(y), device=y.device).split(task.batch):
            optimizer.zero_grad()
            out = call(model, x, rows)
            loss = F.cross_entropy(out, y[rows])
            loss = pruner.distill(loss, out) if "distillation" in said else loss
            loss.backward()
            optimizer.step()
            later.step()
    if pruner:
        pruner.on_train_end()
    return model.eval()


def optimizers(task, model, steps, fused=None):
    """With a rate that rises over a fifth of the steps and then falls to 0."""
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], task.rate, weight_decay=0.01, fused=fused)
    return optimizer, torch.optim.lr_scheduler.OneCycleLR(optimizer, task.rate, total_steps=steps, pct_start=0.2)


# ---------------------------------------------------------------- learning from a model that is there
def learn(task, model, parts, epochs, seed, pattern, recipe, teacher, probe):
    """MiniLM, pruned while it learns to be as the dense one."""
    if len(parts) < 4 or not len(parts[3][1]):
        raise ValueError("the sentences have none of other languages, from which MiniLM learns, too; tools/validate.py --export-data DIR writes them")
    torch.manual_seed(seed)
    ids, mask = (torch.cat([parts[0][0][i], parts[3][0][i]]) for i in range(2))
    all_ = [b for _ in range(epochs) for b in batches(mask.sum(1), task.batch)]
    optimizer, later = optimizers(task, model, len(all_), True if ids.is_cuda else None)
    said = {k: v for k, v in config(task, pattern, recipe, len(all_)).items() if k != "distillation"}
    pruner = sparta.prune.prepare_pruning(model, said, optimizer)
    model.train()
    gradient = Gradient(model, lambda *batch: apart(model, teacher, probe if "distilled" in recipe else None, *batch))
    for width, rows in all_:
        gradient(*swapped(ids[rows, :width], mask[rows, :width], len(model.word.weight)))
        nn.utils.clip_grad_norm_(gradient.parameters, 1.0)
        optimizer.step()
        later.step()
    pruner.on_train_end()
    return model.eval()


def batches(lengths, size):
    """(width, rows) of an epoch: whole batches of sentences of about one length, in any order."""
    made, before = [], 0
    for width in WIDTHS:
        rows = ((lengths > before) & (lengths <= width)).nonzero()[:, 0]
        before = width
        each = min(size, len(rows))
        made += [(width, b) for b in rows[torch.randperm(len(rows), device=rows.device)].split(each or 1) if len(b) == each]
    return [made[i] for i in torch.randperm(len(made)).tolist()]


class Gradient:
    """The gradient of a loss of a batch. On a GPU what runs is recorded once for each shape and played again: these kernels are short, and to start
    them from Python takes longer than they do. Masks and weights change in place, so that recordings see them."""

    def __init__(self, model, loss):
        self.loss, self.recorded = loss, {}
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        for p in self.parameters:
            p.grad = torch.zeros_like(p)

    def __call__(self, *batch):
        if not batch[0].is_cuda:
            return self.compute(batch)
        if batch[0].shape not in self.recorded:
            self.recorded[batch[0].shape] = self.record([part.clone() for part in batch])
        held, graph = self.recorded[batch[0].shape]
        for mine, part in zip(held, batch):
            mine.copy_(part)
        graph.replay()

    def compute(self, batch):
        torch._foreach_zero_([p.grad for p in self.parameters])
        self.loss(*batch).backward()

    def record(self, batch):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):  # what is made by the first runs is not to be recorded
                self.compute(batch)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.compute(batch)
        return batch, graph


def swapped(ids, mask, words):
    """Some words, each another: the dense model has an answer to any text, and names that nobody trained on have words that are rare."""
    other = torch.rand(mask.shape, device=mask.device) < SWAPPED * torch.rand(len(mask), 1, device=mask.device)
    return torch.where(other & (mask > 0), torch.randint_like(ids, words), ids), mask


def apart(model, teacher, probe, ids, mask):
    """How far the states after each layer are from the dense model's, in shares of their squares, the embeddings by their angle, and with a probe what
    it says of them."""
    with torch.no_grad():
        wanted = teacher.states(ids, mask)
    mine, words = model.states(ids, mask), mask[:, :, None]
    states = sum(((a - b).square() * words).sum() / (b.square() * words).sum() for a, b in zip(mine, wanted)) / len(mine)
    a, b = model.pool(mine[-1], mask), model.pool(wanted[-1], mask)
    loss = states + EMBEDDING * (1 - (a * b).sum(1).mean())
    if probe is None:
        return loss
    return loss + ANSWERS * F.kl_div(probe(a).log_softmax(1), probe(b).log_softmax(1), reduction="batchmean", log_target=True)


def fitted(embed, y):
    """A linear probe of embeddings."""
    probe = nn.Linear(embed.shape[1], int(y.max()) + 1).to(embed.device)
    nn.init.zeros_(probe.weight), nn.init.zeros_(probe.bias)
    optimizer = torch.optim.LBFGS(probe.parameters(), max_iter=200, line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        loss = F.cross_entropy(probe(embed), y) + 1e-5 * probe.weight.square().sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    return probe


@torch.no_grad()
def answers(model, x, count):
    return torch.cat([call(model, x, slice(i, i + 512)) for i in range(0, count, 512)])


def accuracy(out, y, probe=None):
    return float(((out if probe is None else probe(out)).argmax(-1) == y).double().mean())


def judged(model, parts, probe=None):
    return {name: accuracy(answers(model, x, len(y)), y, probe) for name, (x, y) in zip(("validation", "test"), parts[1:])}


# ---------------------------------------------------------------- jobs: what a process does, and says in a row
Options = collections.namedtuple("Options", "data work device quick epochs")


def epochs_of(task, o):
    return 1 if o.quick else o.epochs or task.epochs


def slug(*words):
    return re.sub(r"[^\w.]+", "-", "-".join(map(str, words)))


def begin(name, seed, o):
    """The dense model, and what pruned ones begin with, into the folder."""
    task, epochs = TASKS[name], epochs_of(TASKS[name], o)
    parts = prepared(task, o.data, seed, o.device, o.quick)
    torch.manual_seed(seed)
    first = task.make(o.data).to(o.device).eval()
    probe = None
    if task.sentences:
        dense, probe = first, fitted(answers(first, parts[0][0], len(parts[0][1])), parts[0][1])
    else:
        train(task, first, parts[0], epochs, seed)
        dense = train(task, fresh(task, first.state_dict(), o), parts[0], epochs, 1000 + seed)
    states = {"first": first.state_dict(), "dense": dense.state_dict(), "probe": probe and probe.state_dict()}
    path = base_path(o, name, seed)
    torch.save(states, path + ".new")
    os.replace(path + ".new", path)
    if seed == 0:
        save(dense, o, name, "dense", "dense")
    return judged(dense, parts, probe)


def base_path(o, name, seed):
    return os.path.join(o.work, slug(name, seed) + ".pt")


def fresh(task, state, o):
    model = task.make(o.data).to(o.device)
    model.load_state_dict(state)
    return model.eval()


def row(name, seed, pattern, recipe, o):
    """One pruned model."""
    task, epochs = TASKS[name], epochs_of(TASKS[name], o)
    parts = prepared(task, o.data, seed, o.device, o.quick)
    states = torch.load(base_path(o, name, seed), map_location=o.device, weights_only=True)
    dense, probe, said = fresh(task, states["dense"], o), None, {}
    if states["probe"]:
        probe = nn.Linear(states["probe"]["weight"].shape[1], len(states["probe"]["bias"])).to(o.device)
        probe.load_state_dict(states["probe"])
        probe.requires_grad_(False)
    if pattern in ONE_SHOT:
        model = fresh(task, states["dense"], o)
        try:
            said["error"] = one_shot(task, model, pattern, parts[0], seed)
        except ValueError as error:
            return {"refused": str(error)}
    elif task.sentences:
        model = learn(task, fresh(task, states["first"], o), parts, epochs, 1000 + seed, pattern, recipe, dense, probe)
    else:
        model = train(task, fresh(task, states["first"], o), parts[0], epochs, 1000 + seed, pattern, recipe, dense)
    if seed == 0:
        save(model, o, name, pattern, recipe)
    if task.sentences:
        mine, theirs = (answers(m, parts[1][0], len(parts[1][1])) for m in (model, dense))  # a test set chooses nothing
        said["cosine"] = float((mine * theirs).sum(1).mean())
    masks = [m.weight_mask for m in model.modules() if isinstance(m, sparta.masked.Masked)]
    return {**judged(model, parts, probe), "density": sum(int(m.sum()) for m in masks) / sum(m.numel() for m in masks), **said}


def one_shot(task, model, pattern, fit, seed):
    """The mean error of the layers' outputs."""
    method, _, pattern = pattern.partition(" ")
    rows = torch.randperm(len(fit[1]), generator=torch.Generator().manual_seed(seed))[:SEEN].to(fit[1].device)
    told = sparta.prune.one_shot(model, [tuple(part[rows] for part in fit[0])], method, pattern, excluded=task.excluded)
    errors = [r["error"] for r in told if r["error"] is not None]
    return sum(errors) / len(errors) if errors else None


def job(what, name, seed, pattern, recipe, o):
    """In a process of its own: a row, and the seconds that it took."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    start = time.perf_counter()
    o = o._replace(device=o.device if TASKS[name].large else "cpu")
    torch.set_float32_matmul_precision("high" if o.device == "cuda" else "highest")
    said = begin(name, seed, o) if what == "begin" else row(name, seed, pattern, recipe, o)
    key = {"task": name, "pattern": pattern, "recipe": recipe, "seed": seed, "epochs": epochs_of(TASKS[name], o)}
    return {**key, **said, "seconds": round(time.perf_counter() - start, 2), "device": o.device}


# ---------------------------------------------------------------- all of them
def key_of(r):
    return r["task"], r["pattern"], r["recipe"], r["seed"], r.get("epochs")


class Kept:
    """Rows in a file of lines: what was cut off costs the last one at most."""

    def __init__(self, path):
        self.path, self.rows = path, validate_page.read([path])
        self.done = {key_of(r) for r in self.rows if "validation" in r or "refused" in r}

    def add(self, r):
        self.rows.append(r)
        with open(self.path, "a+b") as file:
            whole = not file.tell() or (file.seek(-1, os.SEEK_END), file.read())[1] == b"\n"
            file.write(("" if whole else "\n").encode() + json.dumps(r).encode() + b"\n")
        print("  ".join(f"{v:.4f}" if isinstance(v, float) else str(v) for v in r.values()), flush=True)


def wanted(names, args):
    """Beginnings, and for each what follows."""
    for name in sorted(names, key=lambda n: not TASKS[n].large):
        for seed in range(args.repeats):
            yield (name, seed), [(name, seed, p, r) for p in TASKS[name].patterns for r in recipes(TASKS[name], p) if re.search(args.recipe, f"{p} {r}")]


def undone(names, o, kept, args):
    """(what, row, what follows) of all that is not there yet."""
    for (name, seed), rows in wanted(names, args):
        key = lambda pattern, recipe: (name, pattern, recipe, seed, epochs_of(TASKS[name], o))
        rows = [r for r in rows if key(r[2], r[3]) not in kept.done]
        if os.path.exists(base_path(o, name, seed)) and key("dense", "dense") in kept.done:
            yield from (("row", r, ()) for r in rows)
        elif rows:  # a dense model of its own: what began with another is done again
            yield "begin", (name, seed, "dense", "dense"), [r for _, all_ in wanted([name], args) for r in all_ if r[1] == seed]


def train_all(names, o, kept, args):
    """A pool has as many jobs as it runs: those that wait in it cannot be taken back."""
    start, wrong, open_, waiting = time.monotonic(), 0, {}, collections.deque(undone(names, o, kept, args))
    with futures.ProcessPoolExecutor(args.jobs, multiprocessing.get_context("spawn")) as pool:
        while open_ or waiting:
            if time.monotonic() > start + 60 * args.minutes:
                waiting.clear()
            while waiting and len(open_) < args.jobs:
                what, which, then = waiting.popleft()
                open_[pool.submit(job, what, *which, o)] = then
            for done in futures.wait(open_, return_when=futures.FIRST_COMPLETED).done:
                then = open_.pop(done)
                try:
                    kept.add(done.result())
                    waiting.extend(("row", r, ()) for r in then)
                except Exception:
                    wrong += 1
                    traceback.print_exc()
    kept.add(ran("train", start, args.jobs, o.device))
    return wrong


# ---------------------------------------------------------------- speed
def save(model, o, *key):
    """For the timed run, by which rounding to f16 is not seen: a tenth of the bytes."""
    fixed = {name for name, p in model.named_parameters() if not p.requires_grad}
    state = {k: v for k, v in model.state_dict().items() if v.is_floating_point() and k not in fixed}
    path = os.path.join(o.work, slug(*key) + ".npz")
    with open(path + ".new", "wb") as file:
        np.savez_compressed(file, **{k: v.cpu().half().numpy() for k, v in state.items()})
    os.replace(path + ".new", path)


def saved(task, o, *key):
    model = task.make(o.data)
    with np.load(os.path.join(o.work, slug(*key) + ".npz")) as file:
        model.load_state_dict({k: torch.from_numpy(file[k].astype(np.float32)) for k in file}, strict=False)
    return model.eval()


def time_task(name, o, kept, seconds):
    """The chosen rows of seed 0 against the dense model."""
    task, found = TASKS[name], validate_page.Results(kept.rows).of(name)
    inputs = tuple(part[: task.timed].contiguous() for part in prepared(task, o.data, 0, "cpu")[2][0])
    timed = {(r["pattern"], r["recipe"]) for r in kept.rows if r.get("task") == name and "ms" in r}
    dense = None
    with tempfile.TemporaryDirectory() as folder:
        package = lambda model, file: sparta.compile(model, os.path.join(folder, file), example_inputs=inputs, threads=1)
        for pattern in task.patterns:
            recipe = found.chosen(pattern)
            if recipe is None or (pattern, recipe) in timed or not os.path.exists(os.path.join(o.work, slug(name, pattern, recipe) + ".npz")):
                continue
            dense = dense or package(saved(task, o, name, "dense", "dense"), "dense.sparta")
            pruned = package(saved(task, o, name, pattern, recipe), "pruned.sparta")
            told = pruned.bench(dict(zip(pruned.inputs, (part.numpy() for part in inputs))), dense, seconds)
            mine, theirs = told["subject"]["best_ms"], told["baseline"]["best_ms"]
            slow = pruned.inspect()
            slow = {"unaccelerated": slow["unaccelerated_share"], "why": slow["unaccelerated_reason"]}
            kept.add({"task": name, "pattern": pattern, "recipe": recipe, "faster": theirs / mine, "ms": mine, "dense_ms": theirs, **slow})


def time_all(names, o, kept, seconds):
    start = time.monotonic()
    torch.set_num_threads(1)
    for name in names:
        time_task(name, o, kept, seconds)
    kept.add(ran("time", start, 1, "cpu"))


def ran(what, start, jobs, device):
    """How long it took, and on what."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        cpu = next((line.partition(":")[2].strip() for line in file if line.startswith("model name")), "CPU")
    machine = f"{len(os.sched_getaffinity(0))} cores of {cpu}" + (f" with {torch.cuda.get_device_name()}" if device == "cuda" else "")
    said = {"ran": what, "seconds": round(time.monotonic() - start, 1), "jobs": jobs, "machine": machine, "torch": torch.__version__}
    return {**said, "load": round(os.getloadavg()[0], 1)}


# ---------------------------------------------------------------- the command
def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    folder = os.path.join(ROOT, "build/validate")
    parser.add_argument("--export-data", metavar="DIR", help="write the data there, and no more")
    parser.add_argument("--data", default=os.path.join(folder, "data"), metavar="DIR")
    parser.add_argument("--work", default=folder, metavar="DIR", help="models on their way; for --time those of seed 0")
    parser.add_argument("--json", default="", help="the file of rows (WORK/results.jsonl)")
    parser.add_argument("--only", default="", help="tasks whose name has this")
    parser.add_argument("--recipe", default="", help="rows in whose pattern and recipe this is found, e.g. '2:4 local|one-shot'")
    parser.add_argument("--epochs", type=int, default=0, help="in place of the tasks' own")
    parser.add_argument("--device", default="auto", choices=("auto", "cpu", "cuda"), help="for large models")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="processes that train")
    parser.add_argument("--repeats", type=int, default=3, help="seeds")
    parser.add_argument("--minutes", type=float, default=1e6, help="begin no row after so many")
    parser.add_argument("--quick", action="store_true", help="256 rows, one epoch, one seed, in WORK/quick: does it work?")
    parser.add_argument("--time", action="store_true", help="time what was trained, alone")
    parser.add_argument("--seconds", type=float, default=3.0, help="of timing, for each")
    parser.add_argument("--merge", nargs="+", metavar="FILE", help="files of rows, for --write")
    parser.add_argument("--write", default="", help="the page that --merge makes")
    args = parser.parse_args()
    if bool(args.merge) != bool(args.write):
        parser.error("--merge reads rows, --write says into which page; give both")
    return args


def main():
    args = arguments()
    warnings.simplefilter("ignore")
    if args.export_data:
        validate_data.export(args.export_data)
        return 0
    if args.merge:
        missing = [path for path in args.merge if not os.path.exists(path)]
        if missing:
            sys.exit(f"validate: there is no {missing[0]}; {args.write} stays as it is")
        validate_page.write(args.write, validate_page.read(args.merge), TASKS, ONE_SHOT)
        return 0
    names = [name for name in TASKS if args.only in name]
    if not names:
        sys.exit(f"validate: no task has {args.only!r} in its name; there are {', '.join(TASKS)}")
    for name in names:
        validate_data.load(args.data, TASKS[name].data)  # says at once what is missing
    device = ("cuda" if torch.cuda.is_available() else "cpu") if args.device == "auto" else args.device
    args.work, args.repeats = (os.path.join(args.work, "quick"), 1) if args.quick else (args.work, args.repeats)
    os.makedirs(args.work, exist_ok=True)
    o, kept = Options(args.data, args.work, device, args.quick, args.epochs), Kept(args.json or os.path.join(args.work, "results.jsonl"))
    if args.time:
        time_all(names, o, kept, args.seconds)
        return 0
    return 1 if train_all(names, o, kept, args) else 0


if __name__ == "__main__":
    sys.exit(main())
