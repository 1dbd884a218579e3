"""tools/validate.py without its data: what it chooses by, what it writes, what it splits, that its BERT is transformers' and that a row goes all the way."""

import concurrent.futures
import copy
import json
import os
import sys
import time
import types
import warnings
from unittest import mock

import numpy as np
import torch

from common import ROOT, NotRun, Tests, need

import sparta

sys.path.insert(0, os.path.join(ROOT, "tools"))
import validate
import validate_data
import validate_models
import validate_page

tests = Tests()
warnings.simplefilter("ignore")


def rows(pattern, recipe, *seeds):
    """Of (validation, test) by seed."""
    key = {"task": "t", "pattern": pattern, "recipe": recipe, "density": 0.5, "seconds": 1, "device": "cpu"}
    return [{**key, "seed": i, "validation": v, "test": t} for i, (v, t) in enumerate(seeds)]


def chooses():
    """By validation sets, never by test sets; of those with all seeds; of equals the simplest."""
    found = validate_page.Results(rows("4x1:0.9", "local", (0.9, 0.5), (0.9, 0.5)) + rows("4x1:0.9", "global", (0.8, 0.99), (0.8, 0.99))).of("t")
    need(found.chosen("4x1:0.9") == "local", "chosen by test")
    found = validate_page.Results(rows("2:4", "local", (0.9, 0.5), (0.8, 0.5)) + rows("2:4", "local distilled", (1.0, 0.5))).of("t")
    need(found.chosen("2:4") == "local", "chosen by fewer seeds")
    found = validate_page.Results(rows("2:4", "global distilled", (0.9, 0.5)) + rows("2:4", "local", (0.9, 0.6)) + rows("2:4", "global", (0.9, 0.7))).of("t")
    need(found.chosen("2:4") == "local", "of equals not the simplest")
    need(found.chosen("4x1:0.9") is None, "chosen of nothing")


def writes():
    """What holds, what does not, what is refused, what was not run; a line that was cut off is left out."""
    path, page = os.path.join(tests.work.name, "rows.jsonl"), os.path.join(tests.work.name, "page.md")
    told = rows("dense", "dense", (0.9, 0.9), (0.9, 0.92)) + rows("4x1:0.8", "local", (0.9, 0.905), (0.9, 0.9)) + rows("4x1:0.9", "global", (0.9, 0.89), (0.9, 0.89))
    told += [{"task": "t", "pattern": "wanda 2:4", "recipe": "one-shot", "seed": 0, "refused": "not so"}]
    told += [{"task": "t", "pattern": "4x1:0.8", "recipe": "local", "faster": 3.0, "ms": 1.0, "dense_ms": 3.0, "unaccelerated": 0.9, "why": "no kernels"}]
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(map(json.dumps, told)) + '\n{"task": "t", "pattern": "2:4"')
    task = types.SimpleNamespace(sentences=False, timed=32, patterns=("4x1:0.8", "4x1:0.9", "2:4", "wanda 2:4"))
    validate_page.write(page, validate_page.read([path]), {"t": task, "u": task}, ("wanda 2:4",))
    with open(page, encoding="utf-8") as file:
        text = file.read()
    for line in (
        "Dense: 0.9100 (0.9000, 0.9200).",
        "| 4x1:0.8 | 0.500 | local | 0.9025 | -0.0075 | yes | 2 | 3.00 (1.000 ms, dense 3.000) |",
        "| 4x1:0.9 | 0.500 | global | 0.8900 | -0.0200 | no | 2 | not run |",
        "| 2:4 | not run |",
        "| wanda 2:4 | refused: not so |",
        "90.0 % of the package's work runs on the references: no kernels.",
        "## u\n\nnot run",
    ):
        need(line in text, f"the page lacks {line!r}:\n{text}")


def configs():
    """Every pattern and recipe is one that sparta.prune reads."""
    count = 0
    for task in validate.TASKS.values():
        for pattern in task.patterns:
            for recipe in validate.recipes(task, pattern):
                if pattern not in validate.ONE_SHOT:
                    said = sparta.prune.read(validate.config(task, pattern, recipe, 100))
                    need(bool(said.distill) == ("distilled" in recipe), f"{pattern} {recipe}: distillation")
                    need(said.sets[0].scope == recipe.split()[0] or validate.groups(pattern), f"{pattern} {recipe}: scope")
                    count += 1
    return f"{count} of them"


def frames():
    """The slots of sentences are kinds that names have."""
    by = {(kind, lang, part): [f"{kind}{lang}{part}"] for kind in ("language", "country", "currency", "script") for lang in range(2) for part in range(3)}
    for seed in range(50):
        text = validate_data.frames(validate_data.random.Random(seed), by, seed % 2, seed % 3)
        need("{" not in text and f"{seed % 2}{seed % 3}" in text, text)


def reader(words):
    """A tokenizer as MiniLM's is, without case and accents, of these words."""
    try:
        import tokenizers
    except ImportError:
        raise NotRun("no tokenizers") from None
    made = tokenizers.Tokenizer(tokenizers.models.WordPiece({w: i for i, w in enumerate(["[PAD]", "[UNK]", *words])}, unk_token="[UNK]"))
    made.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    return made


def apart():
    """A name is in one part alone as the tokenizer sees it, however a language writes it, and no sentence is in two."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    tokenizer = reader([*letters, *("##" + c for c in letters), *".,"])
    spelled = lambda i: "".join(letters[i // 26**k % 26] for k in range(3))
    accents = str.maketrans("aeiou", "\u00e1\u00ea\u00ef\u00f5\u00fc")
    kinds, langs = ("language", "country", "currency", "script"), len(validate_data.CODES)
    ways = (str, str.title, lambda w: w.translate(accents), lambda w: w.translate(accents).upper())
    names = [(ways[(i + lang) % 4](spelled(137 * i)), kinds[i % 4], lang) for i in range(400) for lang in range(langs)]
    others = [(ways[i % 4](spelled(137 * i)), kinds[i % 4], code) for i in range(600) for code in validate_data.OTHERS]
    by = validate_data.divided(tokenizer, names, others)
    seen = {part: set() for part in range(4)}
    for (_, _, part), words in by.items():
        seen[part] |= {tokenizer.normalizer.normalize_str(word) for word in words}
    need(len(seen[0] | seen[1] | seen[2]) == 400 < len({word for word, _, _ in names}), "names that are written in many ways are as many names")
    need(all(len(seen[part]) > 20 for part in range(4)), "a part has no names")
    for a, b in ((0, 1), (0, 2), (1, 2), (3, 1), (3, 2)):
        need(not seen[a] & seen[b], f"parts {a} and {b} share {seen[a] & seen[b]}")
    rows = list(validate_data.told(tokenizer, by, (320, 96, 96, 480)))
    need([sum(part == i for _, _, part in rows) for i in range(4)] == [320, 96, 96, 480], "counts")
    need(len({ids for ids, _, _ in rows}) == len(rows), "a sentence is told twice")
    one = {(kind, lang, 0): ["aaa"] for kind in kinds for lang in range(langs)}
    try:
        list(validate_data.told(tokenizer, one, (320,)))
    except ValueError as error:
        need("too few names" in str(error), str(error))
    else:
        need(False, "few names make many sentences")


def bert():
    """The weights of a BERT of transformers, of random numbers: the same embeddings."""
    try:
        import transformers
    except ImportError:
        raise NotRun("no transformers") from None
    torch.manual_seed(0)
    sizes = dict(vocab_size=50, hidden_size=48, num_hidden_layers=2, num_attention_heads=12, intermediate_size=192, max_position_embeddings=64)
    theirs = transformers.BertModel(transformers.BertConfig(**sizes), add_pooling_layer=False).eval()
    words = torch.arange(3, 40)
    mine = validate_models.Sentences(len(words), width=48, layers=2).eval()
    mine.load_state_dict(validate_models.renamed(dict(theirs.state_dict()), words))
    ids, mask = torch.randint(0, len(words), (4, 9)), torch.ones(4, 9)
    mask[1:, 5:] = 0
    with torch.no_grad():
        state = theirs(input_ids=words[ids], attention_mask=mask.long()).last_hidden_state
        wanted = torch.nn.functional.normalize((state * mask[:, :, None]).sum(1) / mask.sum(1, keepdim=True), dim=1)
        apart = float((mine(ids, mask) - wanted).abs().max())
    need(apart < 1e-5, f"{apart} apart")
    return f"{apart:.1e} apart"


def whole():
    """Random digits: splits are apart, a row of each kind is made, what is saved for timing has its zeros, and what is done is not done again."""
    folder = os.path.join(tests.work.name, "data")
    os.makedirs(folder)
    dice = np.random.default_rng(0)
    x = dice.integers(0, 17, (400, 1, 8, 8)).astype(np.uint8)
    x[:, 0, 0, 0] = np.arange(400) % 17
    validate_data.save(folder, "digits", {"x": x, "most": 16, "y": dice.integers(0, 10, 400)})
    task = validate.TASKS["MLP on digits"]
    parts = validate.prepared(task, folder, 0, "cpu")
    need([len(y) for _, y in parts] == [260, 40, 100], "shares")
    seen = [p[0][0].flatten(1) for p in parts]
    need(len(torch.cat(seen).unique(dim=0)) == len(np.unique(x.reshape(400, -1), axis=0)), "splits share rows")
    o = validate.Options(folder, tests.work.name, "cpu", True, 0)
    need(validate.job("begin", "MLP on digits", 0, "dense", "dense", o)["device"] == "cpu", "device")
    for pattern, recipe in (("4x1:0.9", "global distilled"), ("2:4", "local"), ("sparsegpt 1x1:0.5", "one-shot")):
        row = validate.job("row", "MLP on digits", 0, pattern, recipe, o)
        need({"validation", "test", "density", "seconds"} <= set(row), f"{pattern}: {row}")
        model = validate.saved(task, o, "MLP on digits", pattern, recipe)
        weights = [m.weight for name, m in model.named_modules() if hasattr(m, "weight") and name not in task.excluded]
        density = sum(int((w != 0).sum()) for w in weights) / sum(w.numel() for w in weights)
        need(abs(density - row["density"]) < 0.01, f"{pattern}: {density} saved, {row['density']} trained")
    kept = validate.Kept(os.path.join(tests.work.name, "kept.jsonl"))
    kept.add(row)
    need(validate.key_of(row) in validate.Kept(kept.path).done, "a row that is kept is not known as done")
    need(row["epochs"] == 1 and validate.key_of({**row, "epochs": 2}) not in kept.done, "a row of other epochs is done")
    args = types.SimpleNamespace(repeats=1, recipe="4x1:0.9 local|2:4 local distilled")
    rest = [r[2:] for _, all_ in validate.wanted(["MLP on digits"], args) for r in all_]
    need(rest == [("4x1:0.9", "local"), ("4x1:0.9", "local distilled"), ("2:4", "local distilled")], f"wanted {rest}")


def ends():
    """What follows a dense model, each once, two at a time; after --minutes none is begun."""
    began = []

    def job(what, name, seed, pattern, recipe, o):
        began.append((what, pattern, recipe))
        time.sleep(0.2)
        return {"task": name, "pattern": pattern, "recipe": recipe, "seed": seed, "epochs": 1, "validation": 1.0}

    o = validate.Options("", os.path.join(tests.work.name, "none"), "cpu", True, 0)
    kept = validate.Kept(os.path.join(tests.work.name, "ends.jsonl"))
    args = types.SimpleNamespace(repeats=1, recipe="4x1:0.9 local|2:4 local", jobs=2, minutes=1)
    pool = lambda jobs, _: concurrent.futures.ThreadPoolExecutor(jobs)
    with mock.patch.object(validate, "job", job), mock.patch.object(validate.futures, "ProcessPoolExecutor", pool):
        need(validate.train_all(["MLP on digits"], o, kept, args) == 0, "something went wrong")
        rows = [("row", p, r) for p in ("4x1:0.9", "2:4") for r in ("local", "local distilled")]
        need(began[0] == ("begin", "dense", "dense") and sorted(began[1:]) == sorted(rows), f"began {began}")
        began.clear()
        args.minutes = 0.1 / 60
        validate.train_all(["MLP on digits"], o, kept, args)
        need(began == [("begin", "dense", "dense")], f"began {began} after the end")


def learns():
    """A small BERT of random numbers: batches are whole, of one width and of all sentences; the gradient is that of the loss; it ends pruned, and
    nearer to the dense one than it was when it was pruned at once."""
    torch.manual_seed(0)
    lengths = torch.randint(1, 33, (700,))
    made = validate.batches(lengths, 50)
    rows = torch.cat([part for _, part in made])
    need(len(rows.unique()) == len(rows) > 550 and {len(part) for _, part in made} == {50}, "batches")
    need(all(int(lengths[part].max()) <= width and int(lengths[part].min()) > width - 16 for width, part in made), "widths")
    dense = validate_models.Sentences(40, width=48, layers=2).eval()
    ids, mask = torch.randint(0, 40, (512, 32)), (torch.arange(32) < torch.randint(4, 33, (512, 1))).float()
    parts = [((ids, mask), torch.zeros(512))] * 4
    probe = torch.nn.Linear(48, 3).requires_grad_(False)
    task = validate.Task("sentences", lambda _: dense, 1, 2e-3, (), (), 32, 64)
    apart = lambda model: float(validate.apart(model, dense, probe, ids, mask))
    once, slowly = (copy.deepcopy(dense) for _ in range(2))
    sparta.prune.one_shot(once, None, "magnitude", "4x1:0.5")
    for p in once.parameters():
        p.requires_grad_(p is not once.word.weight)
    gradient = validate.Gradient(once, lambda *batch: validate.apart(once, dense, probe, *batch))
    for _ in range(2):
        gradient(ids[:8], mask[:8])
    wanted = torch.autograd.grad(validate.apart(once, dense, probe, ids[:8], mask[:8]), gradient.parameters)
    need(all(torch.allclose(p.grad, w) for p, w in zip(gradient.parameters, wanted)), "gradient")
    validate.learn(task, slowly, parts, 4, 0, "4x1:0.5", "local distilled", dense, probe)
    share = [float((m.weight != 0).float().mean()) for m in slowly.modules() if isinstance(m, sparta.masked.Masked)]
    need(len(share) == 12 and max(share) <= 0.5, f"densities {share}")
    need(apart(slowly) < apart(once), f"{apart(slowly)} apart, {apart(once)} at once")
    try:
        validate.learn(task, once, [*parts[:3], ((ids[:0], mask[:0]), torch.zeros(0))], 1, 0, "4x1:0.5", "local", dense, probe)
    except ValueError as error:
        need("--export-data" in str(error), str(error))
    else:
        need(False, "it learns without the sentences that it needs")
    return f"{apart(slowly):.3f} apart, {apart(once):.3f} at once"


def recorded(device="cuda"):
    """On a GPU: the gradient that is played again is the one that is computed, of other batches, weights and masks than those that were recorded."""
    if not torch.cuda.is_available() and device == "cuda":
        raise NotRun("no CUDA")
    torch.manual_seed(0)
    dense = validate_models.Sentences(40, width=48, layers=2).to(device).eval()
    ids = torch.randint(0, 40, (64, 24), device=device)
    mask = (torch.arange(24, device=device) < torch.randint(4, 25, (64, 1), device=device)).float()
    probe = torch.nn.Linear(48, 3).to(device).requires_grad_(False)
    model, far = copy.deepcopy(dense), 0.0
    sparta.prune.one_shot(model, None, "magnitude", "4x1:0.5")
    model.train()
    gradient = validate.Gradient(model, lambda *batch: validate.apart(model, dense, probe, *batch))
    optimizer = torch.optim.AdamW(gradient.parameters, 1e-3)
    for step in range(6):
        width, rows = (16, 24)[step % 2], slice(8 * step, 8 * step + 8)
        batch = ids[rows, :width], mask[rows, :width]
        gradient(*batch)
        played = [p.grad.clone() for p in gradient.parameters]
        gradient.compute(batch)
        least = 1e-3 * max(float(p.grad.abs().max()) for p in gradient.parameters)  # a key's bias has none but rounding
        far = max(far, *(float((a - p.grad).abs().max() / p.grad.abs().max().clamp(min=least)) for a, p in zip(played, gradient.parameters)))
        optimizer.step()
        for layer in model.modules():
            if isinstance(layer, sparta.masked.Masked):
                layer.update_mask(layer.weight_mask.roll(4, 0))
    need(far < 1e-3, f"{far} apart")
    need(device == "cpu" or len(gradient.recorded) == 2, f"{len(gradient.recorded)} recordings of 2 shapes")
    return f"{far:.1e} apart"


tests.check("the recipe is chosen by validation", chooses)
tests.check("the page", writes)
tests.check("configs", configs)
tests.check("sentences", frames)
tests.check("names and sentences of one part", apart)
tests.check("BERT is transformers'", bert)
tests.check("a task of random digits", whole)
tests.check("rows that follow, and the end", ends)
tests.check("learning from the dense model", learns)
tests.check("gradients that are recorded", recorded)
sys.exit(tests.finish())
