"""The page docs/benchmarks/kernels.md from what tools/bench_kernels.py measured, and the tables that docs/patterns.md shares with it."""

OURS = ("sparta", "two_threads")  # of the figures in a row; all others are peers'


def page(found):
    h = found["header"]
    asked = f" with `{h['arguments']}`" if h["arguments"] else ""
    text = ["# Single products", "", f"Made by `make bench-kernels`{asked}; [README](README.md) says how it is measured.", "",
            f"- machine: {h['machine']}; load before the start {h['load']:.2f}", f"- versions: {h['versions']}",
            f"- {h['date']}, commit {h['commit']}",
            f"- fp32, random weights; rounds: {h['rounds']}, turns of {h['turn']:g} s; peak "
            + ", ".join(f"{gops:.1f} GOP/s ({what})" for what, gops in h["peaks"].items()) + f"; read bandwidth {h['bandwidth_gb_s']:.1f} GB/s (1 thread)", ""]
    for group in found["groups"]:
        if group["group"] == "avx2":
            text += avx2_section(group, h)
        elif group["tokens"] == 1:
            text += one_token_section(group, h)
        else:
            text += product_section(group, h)
        if "sweep" in group:
            text += sweep_section(group)
    return "\n".join(text + absent_section(found)) + "\n"


def table(head, rows):
    return ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)] + ["| " + " | ".join(r) + " |" for r in rows] + [""]


def us(figures):
    digits = lambda v: f"{v:.0f}" if v >= 1000 else f"{v:.4g}"
    if "best_us" not in figures:
        return ""
    return digits(figures["best_us"]) + (f" ({digits(figures['median_us'])})" if "median_us" in figures else "")


def times(ours, peer):
    """How many times as fast ours is."""
    return f"{peer['best_us'] / ours['best_us']:.2f}x" if peer and "best_us" in peer else ""


def judged(share, wanted):
    return f"{share:.1%}" if share >= wanted else f"**{share:.1%}**"


def peers_of(rows):
    """Those with a figure in some row, in their order."""
    return list(dict.fromkeys(p for r in rows for p, f in r.items() if p not in OURS and isinstance(f, dict) and "best_us" in f))


def product_section(group, h):
    ops = 2e-3 * group["tokens"]  # us and GOP/s
    peak, named = h["peaks"]["1 thread"], peers_of(group["rows"])
    two = any("two_threads" in r for r in group["rows"])
    rows = []
    for r in group["rows"]:
        ours = r["sparta"]
        if "best_us" not in ours:
            rows.append([r["name"], f"not measured: {ours['why']}"])
            continue
        name = ours["implement"] + ("" if ours["sparse"] or r["pattern"] == "dense" else " (none takes it)")
        cells = [r["name"], name, us(ours), judged(ours["gops_real"] / peak, r["wanted"]), f"{r['wanted']:.0%}",
                 f"{group['dense_best_us'] / ours['best_us']:.2f}x"]
        cells += [times(ours, r.get(p)) for p in named]
        rows.append(cells + ([times(r["two_threads"], ours)] if two else []))
    head = ["weights", "implement", "best us (median)", "share of peak", "wanted", "best dense"] + named + (["two threads"] if two else [])
    peers = [[name, us(f), f"{ops * group['n'] * group['k'] / f['best_us'] / peak:.1%}" if "best_us" in f else f["why"]]
             for name, f in group["dense"].items()]
    said = ["The peers' columns say how many times as fast ours is; two threads: against one. Share of peak counts the weights that are there.", ""]
    return ([f"## {group['n']} x {group['k']}, {group['tokens']} tokens, one thread", ""] + (said + table(head, rows) if rows else [])
            + ["Dense products here:", ""] + table(["dense", "best us (median)", "share of peak"], peers))


def one_token_section(group, h):
    rows = []
    for r in group["rows"]:
        ours = r["sparta"]
        if "best_us" not in ours:
            rows.append([r["name"], f"not measured: {ours['why']}"])
            continue
        stored = ours.get("stored_bytes")
        rate = stored / ours["best_us"] * 1e-3 if stored else None
        rows.append([r["name"], ours["implement"], us(ours), f"{stored / 2**20:.0f}" if stored else "", f"{rate:.1f}" if rate else "",
                     judged(rate / h["bandwidth_gb_s"], r["wanted"]) if rate else "", f"{r['wanted']:.0%}",
                     f"{group['dense_best_us'] / ours['best_us']:.2f}x", times(ours, r.get("torch CSR")), times(ours, r.get("SciPy CSR"))])
    head = ["weights", "implement", "best us (median)", "MiB stored", "GB/s", "share of bandwidth", "wanted", "best dense", "torch CSR", "SciPy CSR"]
    return [f"## One token, {group['n']} x {group['k']}, one thread", "",
            "Every weight is read once, from memory: the bytes stored over the time, as a share of the read bandwidth.", ""] + table(head, rows)


def avx2_section(group, h):
    peak = h["peaks"]["1 thread, avx2"]
    rows = [[r["name"], r["sparta"]["implement"], us(r["sparta"]), judged(r["sparta"]["gops_real"] / peak, r["wanted"]), f"{r['wanted']:.0%}"]
            if "best_us" in r["sparta"] else [r["name"], f"not measured: {r['sparta']['why']}"] for r in group["rows"]]
    return [f"## AVX2, {group['n']} x {group['k']}, {group['tokens']} tokens, one thread", "", "Share of the peak of AVX2.", ""] + table(
        ["weights", "implement", "best us (median)", "share of peak", "wanted"], rows)


def speedup_table(sweep):
    lines = {**sweep["patterns"], **sweep["peers"]}
    sparsities = sorted({p["sparsity"] for points in lines.values() for p in points})
    cell = lambda points, s: next((f"{p['speedup']:.2f}" for p in points if p["sparsity"] == s), "")
    rows = [[name] + [cell(points, s) for s in sparsities] for name, points in lines.items()]
    return table(["pattern"] + [f"{100 * s:.3g} %" for s in sparsities], rows)


def break_even_table(sweep):
    def said(name, at):
        if at is None:
            return "not within the sparsities measured"
        return f"{at:.0%} or less" if at == sweep["patterns"][name][0]["sparsity"] else f"{at:.0%}"

    rows = [[name, said(name, e["sparsity"]), f"{e['wanted']:.0%}" if e["wanted"] else ""] for name, e in sweep["break_even"].items()]
    return table(["pattern", "faster than the best dense from", "wanted at"], rows)


def sweep_section(group):
    sweep = group["sweep"]
    return (["## Speed-up against sparsity", "",
             f"{sweep['n']} x {sweep['k']}, {sweep['tokens']} tokens, one thread; against the best dense product of this run, "
             f"{group['dense_best']} with {us({'best_us': sweep['dense_best_us']})} us.", ""]
            + speedup_table(sweep) + break_even_table(sweep) + [f"- {p}: not measured: {why}" for p, why in sweep["why"].items()]
            + ([""] if sweep["why"] else []))


def absent_section(found):
    why = dict(found["header"]["absent"])
    for group in found["groups"]:
        for r in [*group["rows"], group.get("dense", {})]:
            why.update({name: f["why"] for name, f in r.items() if name not in OURS and isinstance(f, dict) and f.get("why")})
    lines = [f"- {name}: {text}" for name, text in why.items()]
    lines.append("- libxsmm 1.17, sparse: `libxsmm_spmdm` takes any weight of this size, as single elements with 16-bit positions (a full "
                 "weight overflows them); its generators that put the weights into code (`xcsr_soa`, `fsspmdm`) end at 128 KiB of code or 480 different "
                 "values; the block format (BCSC) came after 1.17.")
    return ["## Where a peer has no figure", ""] + lines + [""]
