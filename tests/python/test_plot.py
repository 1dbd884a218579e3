"""tools/plot.py: its picture is well-formed and has every line in it, and it replaces what stands between the marks and nothing else."""

import json
import os
import sys
import xml.etree.ElementTree as ElementTree

from common import ROOT, Tests

sys.path.insert(0, os.path.join(ROOT, "tools"))
import plot  # noqa: E402 (tools/ is no package)

MARKS = ["machine", "speed-up", "break-even", "shares"]
PAGE = "before\n" + "between\n".join(f"<!-- measured: {m} -->\nold figures\n<!-- end of {m} -->\n" for m in MARKS) + "after\n"


def points(*pairs):
    return [{"sparsity": s, "speedup": v, "best_us": 100 / v, "implement": "x", "sparse": True} for s, v in pairs]


def measured():
    sweep = {"n": 8, "k": 8, "tokens": 4, "peers": {"torch <CSR>": points((0.5, 0.02), (0.98, 3))}, 
             "break_even": {"4x1": {"sparsity": 0.1, "wanted": 0.1}, "1x1": {"sparsity": None, "wanted": None}},
             "patterns": {"4x1": points((0.1, 1.1), (0.9, 9.6)), "1x1": points((0.1, 0.5), (0.9, 0.9)), "2:4": points((0.5, 1.8))}}
    row = {"name": "4x1 90 %", "sparta": {"best_us": 10, "implement": "strip4", "gops_real": 90}, "torch CSR": {"best_us": 55}, "SciPy CSR": {"why": "no"}}
    return {"header": {"machine": "m", "versions": "v", "date": "d", "commit": "c", "peaks": {"1 thread": 100}},
            "groups": [{"dense_best_us": 96, "rows": [row, {"name": "hybrid", "sparta": {"why": "no"}}], "sweep": sweep}]}


def drawn(work):
    source, picture, page = (os.path.join(work, n) for n in ("k.json", "p.svg", "p.md"))
    with open(source, "w") as f:
        json.dump(measured(), f)
    with open(page, "w") as f:
        f.write(PAGE)
    plot.main(source, picture, page)
    with open(page) as f:
        return ElementTree.parse(picture).getroot(), f.read()


def picture(work):
    root, _ = drawn(work)
    tag = lambda name: root.findall("{http://www.w3.org/2000/svg}" + name)
    assert len(tag("polyline")) == 4, "two patterns, a peer and the ideal"
    assert len(tag("polygon")) == 1, "2:4 is one point"
    words = {e.text for e in tag("text")}
    assert words >= {"4x1", "1x1", "2:4", "torch <CSR>", "0.02x", "50x", "90 %"}, words
    for e in tag("polyline"):
        for x, y in (map(float, p.split(",")) for p in e.get("points").split()):
            assert 0 <= x <= plot.WIDTH - plot.RIGHT and plot.TOP - 0.1 <= y <= plot.HEIGHT - plot.BOTTOM + 0.1, (x, y)


def labels_apart(work):
    lines = [plot.Line(str(i), [(0.5, 1.5), (0.9, 2 + i / 1000)]) for i in range(12)]
    plot.place_labels(plot.Axes(0.5, 2.1), lines)
    at = sorted(l.label_y for l in lines)
    assert min(b - a for a, b in zip(at, at[1:])) >= plot.LABEL_GAP - 1e-6, at


def page(work):
    _, text = drawn(work)
    assert "old figures" not in text and text.startswith("before\n") and text.endswith("after\n") and text.count("between\n") == 3, text
    assert "| 4x1 90 % | strip4 | 90% | 9.60x | 5.50x |  |" in text and "hybrid" not in text, text
    assert "| 4x1 | 10% or less | 10% |" in text and "| 1x1 | not within the sparsities measured |  |" in text, text


def marks_missing(work):
    try:
        plot.fill("no marks", "shares", [])
    except SystemExit as e:
        assert "shares" in str(e)
    else:
        raise AssertionError("a page without marks was taken")


if __name__ == "__main__":
    tests = Tests()
    for function in (picture, labels_apart, page, marks_missing):
        tests.check(function.__name__.replace("_", " "), function, tests.work)
    sys.exit(tests.finish())
