"""The pages, the examples and the notebook of the PyTorch door do what they say."""

import doctest
import io
import json
import os
import runpy
import sys
import unittest.mock
import warnings
from contextlib import redirect_stdout

import torch

from common import ROOT, Tests, need

import sparta  # noqa: F401

warnings.filterwarnings("ignore")
torch.set_num_threads(2)
tests = Tests()


def page(name):
    """Times are `...`; everything else is as the page has it."""
    result = doctest.testfile(os.path.join(ROOT, "docs", name), module_relative=False, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    need(result.attempted > 5 and not result.failed, f"{result}")
    return f"{result.attempted} lines"


def example(name, words, *arguments):
    said = io.StringIO()
    with redirect_stdout(said), unittest.mock.patch("sys.argv", [name, *arguments]):
        runpy.run_path(os.path.join(ROOT, "examples/python", name), run_name="__main__")
    for word in words:
        need(word in said.getvalue(), f"{word!r} is not in what it said:\n{said.getvalue()}")
    return said.getvalue().splitlines()[-1]


def notebook(name):
    """Its cells, one after the other in one namespace, as a kernel runs them."""
    with open(os.path.join(ROOT, "examples/python", name), encoding="utf-8") as file:
        cells = [cell for cell in json.load(file)["cells"] if cell["cell_type"] == "code"]
    names = {"__name__": "__main__"}
    with redirect_stdout(io.StringIO()):
        for number, cell in enumerate(cells):
            exec(compile("".join(cell["source"]), f"{name}:{number}", "exec"), names)
    need(len(cells) > 4, len(cells))
    return f"{len(cells)} cells"


def main():
    os.chdir(tests.work.name)
    tests.check("docs/pytorch.md", page, "pytorch.md")
    tests.check("docs/training.md", page, "training.md")
    tests.check("BERT in three lines", example, "bert_three_lines.py", ["the answer is the same"])
    tests.check("digits, pruned while they train", example, "train_digits.py", ["accuracy: dense", "without torch"])
    tests.check("a BERT, pruned while it trains", example, "train_bert.py", ["of 4x1 blocks gone", "times as fast"], "8")
    tests.check("attention over blocks", example, "block_attention.py", ["largest difference"])
    tests.check("the notebook", notebook, "tour.ipynb")
    os.chdir(ROOT)
    return tests.finish()


if __name__ == "__main__":
    sys.exit(main())
