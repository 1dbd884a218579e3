"""Draws the speed-up against sparsity and fills the tables of docs/patterns.md, both from docs/benchmarks/kernels.json (make bench-plots).

    python3 tools/plot.py docs/benchmarks/kernels.json docs/patterns-speedup.svg docs/patterns.md

Plain Python, no package. The SVG has no background and colours that read on white and on black. The tables go between the lines
`<!-- measured: NAME -->` and `<!-- end of NAME -->`; what stands there is replaced, what stands around them is the writer's.
"""

import json
import math
import re
import sys
from dataclasses import dataclass, field
from xml.sax.saxutils import escape

from kernels_page import break_even_table, speedup_table, table, times

WIDTH, HEIGHT = 820, 500
LEFT, RIGHT, TOP, BOTTOM = 64, 180, 44, 56  # margins; the names of the lines stand in the right one
GREY = "#7d8590"
COLOURS = ["#3b82f6", "#e8710a", "#2da44e", "#a855f7", "#e5484d", "#0d9aa8"]
LABEL_GAP = 17  # between the baselines of two names


@dataclass
class Line:
    name: str
    points: list  # (sparsity 0 to 1, speed-up), ascending
    colour: str = GREY
    dashes: str = ""
    label_y: float = field(default=0.0, init=False)


# ---------------------------------------------------------------- the picture
class Axes:
    """Sparsity in proportion along x, speed-up in powers along y."""

    def __init__(self, lowest, highest):
        steps = [m * 10.0**e for e in range(-3, 4) for m in (1, 2, 5)]
        self.low = max(s for s in steps if s <= min(lowest, 0.5))
        self.high = min(s for s in steps if s >= highest)
        self.ticks = [s for s in steps if self.low <= s <= self.high]

    def x(self, sparsity):
        return LEFT + sparsity * (WIDTH - LEFT - RIGHT)

    def y(self, speedup):
        share = math.log(speedup / self.low) / math.log(self.high / self.low)
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)


def text(x, y, words, anchor="start", colour=GREY, more=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}"{more}>{escape(words)}</text>'


def segment(x1, y1, x2, y2, width, more=""):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{GREY}" stroke-width="{width}"{more}/>'


def grid(axes, title):
    out = [text(LEFT, 22, title, more=' font-weight="bold"')]
    for tick in axes.ticks:
        y = axes.y(tick)
        out.append(segment(LEFT, y, WIDTH - RIGHT, y, 1.6 if tick == 1 else 0.5, "" if tick == 1 else ' stroke-opacity="0.45"'))
        out.append(text(LEFT - 8, y + 4, f"{tick:g}x", "end"))
    for percent in range(0, 101, 10):
        x = axes.x(percent / 100)
        out.append(segment(x, HEIGHT - BOTTOM, x, HEIGHT - BOTTOM + 5, 1))
        out.append(text(x, HEIGHT - BOTTOM + 20, f"{percent} %", "middle"))
    out.append(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 12, "sparsity (share of the weights that are gone)", "middle"))
    return out


def place_labels(axes, lines):
    """As near to the ends of their lines as they can stand without touching."""
    below = TOP
    for line in sorted(lines, key=lambda l: axes.y(l.points[-1][1])):
        line.label_y = below = max(axes.y(line.points[-1][1]), below)
        below += LABEL_GAP
    over = below - LABEL_GAP - (HEIGHT - BOTTOM)
    for line in lines:
        line.label_y -= max(0.0, over)


def draw_line(axes, line):
    places = [(axes.x(s), axes.y(v)) for s, v in line.points]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    dashes = f' stroke-dasharray="{line.dashes}"' if line.dashes else ""
    x, y, edge = *places[-1], WIDTH - RIGHT + 10
    out = [f'<polyline points="{path}" fill="none" stroke="{line.colour}" stroke-width="2.2" stroke-linejoin="round"{dashes}/>']
    if not line.dashes:
        out += [f'<circle cx="{px:.1f}" cy="{py:.1f}" r="3" fill="{line.colour}"/>' for px, py in places]
    out.append(segment(x + 4, y, edge, line.label_y, 0.7, ' stroke-opacity="0.6"'))
    return out + [text(edge + 4, line.label_y + 4, line.name, colour=line.colour)]


def draw_point(axes, name, sparsity, speedup, colour):
    x, y = axes.x(sparsity), axes.y(speedup)
    diamond = f"{x:.1f},{y - 6:.1f} {x + 6:.1f},{y:.1f} {x:.1f},{y + 6:.1f} {x - 6:.1f},{y:.1f}"
    return [f'<polygon points="{diamond}" fill="{colour}"/>', text(x - 9, y - 6, name, "end", colour)]


def chart(title, lines, points):
    """SVG text. lines: [Line]; points: [(name, sparsity, speed-up)], drawn as diamonds with their names."""
    values = [v for line in lines for _, v in line.points] + [v for _, _, v in points]
    axes = Axes(min(values), max(values))
    place_labels(axes, lines)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="13">',
           f"<title>{escape(title)}</title>", *grid(axes, title)]
    for line in lines:
        out += draw_line(axes, line)
    for i, (name, sparsity, speedup) in enumerate(points):
        out += draw_point(axes, name, sparsity, speedup, COLOURS[-1 - i % 2])
    return "\n".join(out + ["</svg>"]) + "\n"


# ---------------------------------------------------------------- what it is drawn from
def pairs(points):
    return [(p["sparsity"], p["speedup"]) for p in points]


def speedup_chart(sweep):
    long = {name: points for name, points in sweep["patterns"].items() if len(points) > 1}
    lines = [Line(name, pairs(points), COLOURS[i % len(COLOURS)]) for i, (name, points) in enumerate(long.items())]
    lines += [Line(name, pairs(points), dashes="5 4") for name, points in sweep["peers"].items() if points]
    last = max(s for line in lines for s, _ in line.points)
    ideal = [i / 50 for i in range(50) if i / 50 < last] + [last]
    lines.append(Line("1 / (1 - sparsity)", [(s, 1 / (1 - s)) for s in ideal], dashes="1.5 4"))
    single = [(name, points[0]["sparsity"], points[0]["speedup"]) for name, points in sweep["patterns"].items() if len(points) == 1]
    return chart(f"Speed-up over the best dense product, {sweep['n']} x {sweep['k']}, {sweep['tokens']} tokens, one thread, fp32", lines, single)


def shares_table(group, peak):
    rows = []
    for r in group["rows"]:
        ours = r["sparta"]
        if "best_us" in ours:
            rows.append([r["name"], ours["implement"], f"{ours['gops_real'] / peak:.0%}", f"{group['dense_best_us'] / ours['best_us']:.2f}x",
                         times(ours, r.get("torch CSR")), times(ours, r.get("SciPy CSR"))])
    return table(["weights", "implement", "share of peak", "over the best dense", "over torch CSR", "over SciPy CSR"], rows)


def machine_lines(header):
    return [f"{header['machine']}; {header['versions']}; {header['date']}, commit {header['commit']}."]


def fill(page, name, lines):
    """page with these lines between the marks of name."""
    begin, end = f"<!-- measured: {name} -->", f"<!-- end of {name} -->"
    found, n = re.subn(re.escape(begin) + ".*?" + re.escape(end), lambda _: "\n".join([begin, *lines, end]), page, flags=re.S)
    if n != 1:
        raise SystemExit(f"plot: the page has the marks of {name!r} {n} times, not once")
    return found


def main(measured, picture, page):
    with open(measured) as f:
        found = json.load(f)
    group = next((g for g in found["groups"] if "sweep" in g), None)
    if not group:
        raise SystemExit(f"plot: {measured} has no sweep; make bench-kernels KERNELS_ARGS=--write measures one")
    with open(page) as f:
        words = f.read()
    words = fill(words, "machine", machine_lines(found["header"]))
    words = fill(words, "speed-up", speedup_table(group["sweep"]))
    words = fill(words, "break-even", break_even_table(group["sweep"]))
    words = fill(words, "shares", shares_table(group, found["header"]["peaks"]["1 thread"]))
    with open(picture, "w") as f:
        f.write(speedup_chart(group["sweep"]))
    with open(page, "w") as f:
        f.write(words)
    print(f"{picture} and the tables of {page} are from {measured}, commit {found['header']['commit']}")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        raise SystemExit("plot: plot.py KERNELS.json PICTURE.svg PAGE.md")
    main(*sys.argv[1:])
