"""Ctrl-C at random moments in every public function of the door, its modules and its drop-ins: KeyboardInterrupt or the result, never a crash; a file is whole or not there, a model still
gives its answer, and the same call works afterwards.

Rotates: 3"""

import copy
import os
import random
import signal
import sys
import threading
import time

import numpy as np
import torch
from torch import nn

from common import Tests, need

import sparta  # common.py says where it is
import sparta.dynamo
import sparta.prune
from today import SEED

tests = Tests()
os.environ["XDG_CACHE_HOME"] = os.environ["TORCHINDUCTOR_CACHE_DIR"] = tests.work.name
sparta.dynamo.register()
torch.manual_seed(0)
torch.set_grad_enabled(False)
ROUNDS = 4
MOST = 1.0  # seconds into a call that a signal is sent; those that take longer are not waited for to their end
QUICK = {"no_measure": 1, "context": {"compiler": "", "cache_dir": ""}}
rng, x = random.Random(SEED), torch.randn(16, 64)
state, total, LOST = {"armed": False, "raised": False, "unheard": False}, {"interrupted": 0}, "lost"


def on_signal(_, frame):
    """torch's compiler loses what is raised in its guards: there the signal comes a little later."""
    if state["armed"] and "/_dynamo/" in frame.f_code.co_filename:
        threading.Timer(0.002, os.kill, (os.getpid(), signal.SIGINT)).start()
    elif state["armed"]:
        state["raised"] = True
        raise KeyboardInterrupt


signal.signal(signal.SIGINT, on_signal)
sys.unraisablehook = lambda _: state.update(unheard=True)  # what is raised in a finalizer is heard by nobody


def interrupted(call, after):
    """Calls, and sends the signal so many seconds later. (whether it came back, what came back); LOST: although the signal was raised in it."""
    sender = threading.Timer(after, os.kill, (os.getpid(), signal.SIGINT))
    result, whole = None, False
    try:
        state.update(armed=True, raised=False, unheard=False)
        sender.start()
        result = call()
        if state["raised"]:  # and not heard
            time.sleep(0.3)  # a finalizer's comes once more
            whole = "in a finalizer of others" if state["unheard"] else LOST
        else:
            whole = True
        state["armed"] = False
    except KeyboardInterrupt:
        pass
    state["armed"] = False
    sender.cancel()
    sender.join()
    return whole, result


def layers(width=64):
    return sparta.sparsify_(nn.Sequential(nn.Linear(64, width), nn.GELU(), nn.Linear(width, 64)).eval(), {"0": "4x1:0.75"})


def answers(model, want):
    torch.testing.assert_close(model(x), want, rtol=1e-3, atol=1e-4)


WANT_OF = layers()
WANT = WANT_OF(x)
folder = tests.work.name
LARGE = np.where(np.random.default_rng(1).random((1500, 1500)) < 0.1, 1.0, 0.0).astype("float32")
ONNX, PACKAGE = folder + "/m.onnx", folder + "/m.sparta"
sparta.propagate(WANT_OF, ONNX, example_inputs=(x,))
sparta.compile(ONNX, PACKAGE, **QUICK)


def whole_or_gone(path, opened):
    if os.path.exists(path):
        opened(path)
        os.unlink(path)


def in_place(change):
    """Of a copy of the model; afterwards that gives the same answer."""
    return lambda: copy.deepcopy(WANT_OF), change, lambda model: answers(model, WANT)


def plain(call):
    """What changes nothing: the next call gives what the first gave."""
    return lambda: None, lambda _: call(), lambda _: call()


def often(call, times=20):
    """What takes microseconds, called often; each time it gives what it gave before."""

    def same(before):
        now = call()
        need(now == before if isinstance(now, str) else torch.testing.assert_close(now, before) is None, "another answer")

    return call, lambda _: [call() for _ in range(times)], same


def file(name, write, opened):
    path = f"{folder}/{name}"
    return lambda: None, lambda _: write(path), lambda _: whole_or_gone(path, opened)


def built():
    return sparta.build_(copy.deepcopy(WANT_OF), x)


def run_package():
    package = sparta.load(PACKAGE)
    for _ in range(200):
        package.run(x.numpy())


def expression():
    y = sparta.expr("y(i,k) = A(i,j)*x(j,k)", A=LARGE, x=np.ones((1500, 8), "float32"), formats={"A": "csr"})
    np.testing.assert_allclose(np.asarray(y() if callable(y) else y), LARGE.sum(1, keepdims=True) * np.ones((1, 8)), rtol=1e-4)


def compiled(mode):
    def call():
        torch._dynamo.reset()
        options = {"mode": mode, "inner": "aot_eager", **({"compile": QUICK} if mode == "engine" else {})}
        answers(torch.compile(copy.deepcopy(WANT_OF), backend="sparta", options=options), WANT)

    return plain(call)


def half():
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64)).eval()


def runs(model):
    need(bool(torch.isfinite(model(x)).all()), "the model gives no numbers")


def kind(name, *arguments):
    cls = getattr(sparta, name)
    w = (LARGE if name not in ("DiaTensor", "CsfTensor", "NMTensor") else np.eye(512, dtype="float32"))[:512, :512]
    if name == "CsfTensor":
        w = w.reshape(512, 32, 16)
    return plain(lambda: cls.from_dense(w, *arguments, limit=1e6).to_dense())


def package(call):
    """Of an open package, which answers afterwards."""

    def sound(opened):
        torch.testing.assert_close(torch.from_numpy(opened(x.numpy())), WANT, rtol=1e-3, atol=1e-4)

    return lambda: sparta.load(PACKAGE), call, sound


def module(make, *inputs):
    """Of sparta.nn: made, called and tuned; whatever was tuned, its answer is the same."""
    torch.manual_seed(1)
    first = make()
    want = first(*inputs)

    def call(other):
        make()(*inputs)
        if isinstance(other, sparta.nn.OperatorBase):
            other.tune(inputs=inputs, seconds=0.05)
        other(*inputs)

    return lambda: copy.deepcopy(first), call, lambda other: torch.testing.assert_close(other(*inputs), want, rtol=1e-3, atol=1e-3)


def schedule(change):
    """The same weights go as went, so that the answer stays."""

    def call(model):
        s = sparta.create_schedule(model)
        s["0"].sparsify("magnitude(pattern=4x1, sparsity=0.75)")
        s["2"].set_format("csr")
        change(s)

    return in_place(call)


def trained(begin):
    """Pruned while it trains; what is pruned is 0 and the rest are numbers."""

    @torch.enable_grad()
    def call(model):
        optimizer = torch.optim.SGD(model.parameters(), 1e-3)
        begin(model, optimizer)
        for _ in range(8):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()

    return half, call, runs


def by_hand(model, optimizer):
    pruner = sparta.prune.Pruner(model, {**GROWS, "end_step": 5})
    pruner.on_train_begin()
    for _ in range(6):
        pruner.on_step_begin()
        model(x).square().mean().backward()
        pruner.on_before_optimizer_step()
        optimizer.step()
        pruner.on_after_optimizer_step()
    pruner.on_train_end()


NM = nn.Linear(64, 64)
NM.weight.copy_(sparta.patterns.mask(NM.weight, "2:4") * NM.weight)
GROWS = {"pattern": "4x1", "target_sparsity": 0.5, "start_step": 1, "end_step": 6, "pruning_frequency": 1}
MASK = (torch.rand(2, 48, 48) < 0.3).int()
HEADS = [torch.randn(2, 48, 16) for _ in range(3)]
DENSE, CONV, WORDS, EXPERTS = nn.Linear(64, 96), nn.Conv2d(16, 16, 3), nn.Embedding(96, 64), [nn.Linear(64, 32) for _ in range(4)]
NN = {
    "SparseLinear": module(lambda: sparta.nn.SparseLinear(copy.deepcopy(DENSE), pattern="4x1:0.75"), x),
    "SparseConv2d": module(lambda: sparta.nn.SparseConv2d(copy.deepcopy(CONV), weight_mask=CONV.weight.detach() > 0), torch.randn(2, 16, 12, 12)),
    "SparseEmbedding": module(lambda: sparta.nn.SparseEmbedding(copy.deepcopy(WORDS), weight_mask=WORDS.weight.detach() > 0), torch.randint(0, 96, (4, 9))),
    "SparseBatchMatMul": module(lambda: sparta.nn.SparseBatchMatMul(A_mask=MASK[0], compressed=False), torch.randn(2, 48, 48), torch.randn(2, 48, 16)),
    "SparseSoftmax": module(lambda: sparta.nn.SparseSoftmax(MASK[0]), torch.randn(2, 48, 48)),
    "SparseAttention": module(lambda: sparta.nn.SparseAttention(MASK[0]), *HEADS),
    "SeqlenDynamicSparseAttention": module(lambda: sparta.nn.SeqlenDynamicSparseAttention(global_mode=False), *(h[None] for h in HEADS), torch.tensor([20], dtype=torch.int32)),
    "DynamicSparseMoE": module(lambda: sparta.nn.DynamicSparseMoE(copy.deepcopy(EXPERTS)), torch.randn(50, 64), torch.randint(0, 4, (50,), dtype=torch.int32)),
}
RULES = sparta.Schedule()
RULES["*"].sparsify("magnitude(pattern=4x1, sparsity=0.9)")
HALF, LAYOUT, IMAGES = DENSE.weight.detach() > 0, torch.ones(2, 3, 3).tril(), torch.randn(2, 16, 12, 12)
MASKED = [sparta.masked.mask_(copy.deepcopy(layer), layer.weight.detach() > 0) for layer in (DENSE, CONV, WORDS)]
Q = torch.randn(2, 2, 48, 16)
ATTENTION = {  # a layout's blocks, by head; BigBird draws some of them
    f"attention.{name}": plain(lambda name=name: [need(getattr(sparta.attention, name)().mask(256).shape == (256, 256), name) for _ in range(5)])
    for name in ("BSLongformer", "BigBird", "Dense", "Fixed", "LocalSlidingWindow", "Variable")
}
MASKED_AND_PATTERNS = {
    "masked.MaskedLinear": often(lambda: MASKED[0](x)),
    "masked.MaskedConv2d": often(lambda: MASKED[1](IMAGES)),
    "masked.MaskedEmbedding": often(lambda: MASKED[2](torch.arange(96))),
    "masked.as_mask": often(lambda: sparta.masked.as_mask(HALF.numpy(), HALF.shape, "here"), 200),
    "masked.mask_": (half, lambda m: sparta.masked.mask_(m[0], m[0].weight > 0), runs),
    "masked.unmask_": in_place(lambda m: sparta.masked.unmask_(m[0])),
    "patterns.Pattern": often(lambda: sparta.patterns.Pattern.parse("2:4").mask(DENSE.weight)),
    "patterns.mask": often(lambda: sparta.patterns.mask(DENSE.weight, "4x1:0.5")),
    "patterns.needed": often(lambda: sparta.patterns.needed(1000, 0.3), 5000),
    "patterns.largest": often(lambda: sparta.patterns.largest(DENSE.weight.abs(), torch.arange(6144.0) % 3 + 1, 3000)),
    "sparsifiers.TopK": often(lambda: sparta.sparsifiers.TopK("10%").mask(DENSE.weight)),
    "sparsifiers.Threshold": often(lambda: sparta.sparsifiers.Threshold(0.1).mask(DENSE.weight), 200),
    "sparsifiers.Similarity": often(lambda: sparta.sparsifiers.Similarity(2, 8).attention_mask(*HEADS[:2])),
    "sparsifiers.Routing": often(lambda: sparta.sparsifiers.Routing(4).attention_mask(*HEADS[:2])),
}
TESTING = {
    "testing.block_mask": plain(lambda: [need(sparta.testing.block_mask((64, 64), (4, 1), 0.5).sum() == 2048, "blocks") for _ in range(50)]),
    "testing.check": plain(lambda: [sparta.testing.check(DENSE, (x,), DENSE(x)) for _ in range(20)]),
    "testing.profile": plain(lambda: sparta.testing.profile(DENSE, sparta.testing.block_mask((64, 64), (4, 1), 0.5).float())),
    "testing.sparse_softmax_forward_reference": often(lambda: sparta.testing.sparse_softmax_forward_reference(DENSE.weight, HALF), 100),
    "testing.sparse_softmax_backward_reference": often(lambda: sparta.testing.sparse_softmax_backward_reference(DENSE.weight, DENSE.weight, HALF), 100),
    "testing.sparse_multi_head_attention_reference": often(lambda: sparta.testing.sparse_multi_head_attention_reference(*HEADS, MASK), 50),
}


def patched(model):
    patcher = compat.pytorch_block_sparse.BlockSparseModelPatcher()
    patcher.add_pattern("0", {"density": 0.5})
    patcher.patch_model(model)


def thinned_by_sten(model):
    builder = compat.sten.SparsityBuilder()
    builder.set_weight("0.weight", compat.sten.ScalarFractionSparsifier(0.5), out_format=compat.sten.CsrTensor)
    builder.sparsify_model_inplace(model)


def wrapped(w=None):
    return compat.sten.SparseTensorWrapper(compat.sten.FixedMaskTensor(DENSE.weight.detach(), HALF) if w is None else w)


def held_by_torch():
    model = half()
    model[0].weight = nn.Parameter((model[0].weight * (model[0].weight > 0)).to_sparse_csr(), requires_grad=False)
    return model


def registered(register, table, *arguments):
    """A function of the user's, which is there or not."""
    return plain(lambda: [(register(*arguments)(runs), table.clear()) for _ in range(500)])


def added():
    kept = compat.sten.KeepAll()
    fmt = [(kept, torch.Tensor, compat.sten.ScalarFractionSparsifier(0.6), compat.sten.FixedMaskTensor)]
    return compat.sten.sparsified_op(torch.add, fmt, fmt)(DENSE.weight, DENSE.weight).to_dense()


compat = sparta.compat
STEN, BLOCKS = compat.sten, compat.torch_blocksparse
COMPAT = {
    "deepspeed.SparseSelfAttention": often(lambda: compat.deepspeed.SparseSelfAttention(sparta.attention.Dense(num_heads=2))(Q, Q, Q), 5),
    "pytorch_block_sparse.BlockSparseLinear": plain(lambda: [runs(compat.pytorch_block_sparse.BlockSparseLinear(64, 96, density=0.5)) for _ in range(5)]),
    "pytorch_block_sparse.BlockSparseModelPatcher": (half, patched, runs),
    "sten.DenseTensor": often(lambda: STEN.DenseTensor.from_dense(x).to_dense(), 2000),
    "sten.FixedMaskTensor": often(lambda: STEN.FixedMaskTensor.from_dense(DENSE.weight.detach()).to_dense(), 200),
    "sten.KeepAll": often(lambda: STEN.KeepAll().mask(x), 2000),
    "sten.SameFormatSparsifier": often(lambda: STEN.SameFormatSparsifier().mask(x), 2000),
    "sten.ScalarFractionSparsifier": often(lambda: STEN.ScalarFractionSparsifier(0.5).mask(DENSE.weight)),
    "sten.RandomFractionSparsifier": plain(lambda: [need(STEN.RandomFractionSparsifier(0.5).mask(x).sum() == 512, "a half") for _ in range(50)]),
    "sten.SparseTensorWrapper": often(lambda: wrapped().to_dense(), 100),
    "sten.SparseParameterWrapper": often(lambda: STEN.SparseParameterWrapper(wrapped()).wrapped_tensor.to_dense(), 50),
    "sten.SparsityBuilder": (half, thinned_by_sten, runs),
    "sten.register_sparsifier_implementation": registered(STEN.register_sparsifier_implementation, STEN._SPARSIFIERS, STEN.KeepAll),
    "sten.register_fwd_op_impl": registered(STEN.register_fwd_op_impl, STEN._FORWARD, torch.add, (None,), ((STEN.KeepAll, torch.Tensor),)),
    "sten.register_bwd_op_impl": registered(STEN.register_bwd_op_impl, STEN._BACKWARD, torch.add, (None,), (None,), (None,)),
    "sten.set_dispatch_failure": plain(lambda: [STEN.set_dispatch_failure(word) for _ in range(5000) for word in ("raise", "warn")]),
    "sten.sparsified_op": often(added),
    "torch_blocksparse.MatMul": often(lambda: BLOCKS.MatMul(LAYOUT, 16, "sdd", trans_b=True)(Q, Q)),
    "torch_blocksparse.Softmax": often(lambda: BLOCKS.Softmax(LAYOUT, 16)(torch.ones(2, int(LAYOUT.sum()), 16, 16))),
    "torch_sparse.linear": often(lambda: compat.torch_sparse.linear(torch.eye(64).to_sparse_csr())(x), 5),
    "torch_sparse.convert_": (held_by_torch, compat.torch_sparse.convert_, runs),
    "torch_sparse.to_sparse_semi_structured": often(lambda: compat.torch_sparse.to_sparse_semi_structured(NM)(x), 5),
    "xformers.BlockSparseAttention": often(lambda: compat.xformers.BlockSparseAttention(LAYOUT, 16)(Q, Q, Q), 5),
    "xformers.scaled_dot_product_attention": often(lambda: compat.xformers.scaled_dot_product_attention(*HEADS, MASK > 0), 5),
}

CASES = {
    "compile": file("c.sparta", lambda path: sparta.compile(ONNX, path), sparta.load),
    "propagate": file("p.onnx", lambda path: sparta.propagate(ONNX, path), sparta.inspect),
    "save_arrays": file("a.npz", lambda path: sparta.save_arrays(path, {"w": LARGE}), lambda path: np.load(path)["w"]),
    "inspect": plain(lambda: sparta.inspect(ONNX)),
    "load": plain(lambda: sparta.load(PACKAGE)),
    "Package": plain(run_package),
    "Package.bench": package(lambda p: p.bench(x.numpy(), seconds=0.2)),
    "Package.check": package(lambda p: [p.check() for _ in range(20)]),
    "Package.inspect": package(lambda p: [p.inspect() and p.layers for _ in range(20)]),
    "Package.save": file("s.sparta", lambda path: sparta.load(PACKAGE).save(path), sparta.load),
    "compile, a module": file("c.sparta", lambda path: sparta.compile(copy.deepcopy(WANT_OF), path, example_inputs=(x,), **QUICK), sparta.load),
    "propagate, a module": file("p.onnx", lambda path: sparta.propagate(copy.deepcopy(WANT_OF), path, example_inputs=(x,)), sparta.inspect),
    "pack": plain(lambda: sparta.pack(LARGE, "csr", limit=64)),
    "Packed": plain(lambda: sparta.pack(LARGE, "csr", limit=64).to("coo", limit=64).numpy()),
    "Packed, file": file("w.npz", lambda path: sparta.Packed.open(sparta.pack(LARGE, "csr", limit=64).save(path)).arrays(), sparta.Packed.open),
    "Format": plain(lambda: [sparta.Format("bsr(4,4)", (64, 64)) for _ in range(300)]),
    "Schedule": plain(lambda: [sparta.Schedule()["a"].set_format("csr") for _ in range(300)]),
    "Schedule.parse": often(lambda: str(sparta.Schedule.parse(str(RULES))), 100),
    "compile, a schedule": file("r.sparta", lambda path: sparta.compile(ONNX, path, schedule=RULES, **QUICK), sparta.load),  # Schedule.again
    "expr": plain(expression),
    "create_schedule": in_place(lambda m: sparta.create_schedule(m)),
    "compact_": in_place(lambda m: sparta.compact_(m, x)),
    "build_": in_place(lambda m: sparta.build_(m, x)),
    "unbuild_": (built, sparta.unbuild_, lambda m: answers(m, WANT)),
    "report": (built, lambda m: str(sparta.report(m)), lambda m: answers(m, WANT)),
    "report, file": plain(lambda: str(sparta.report(ONNX))),
    "verify": plain(lambda: need(sparta.verify(PACKAGE, ONNX)["ok"], "another answer")),
    "prune, file": file("q.onnx", lambda path: sparta.prune(ONNX, path, "4x1:0.95"), sparta.inspect),
    "build": in_place(lambda m: sparta.build(m, x)),
    "sparsify_": (half, lambda m: sparta.sparsify_(m, {"0": "4x1:0.5", "2": "64x64:0.0"}), runs),
    "tune": in_place(lambda m: sparta.tune(m, x)),
    "create_schedule, apply_": schedule(lambda s: s.apply_()),
    "create_schedule, build_": schedule(lambda s: s.build_(x)),
    "prune.Pruner": trained(by_hand),
    "prune.prepare_pruning": trained(lambda m, optimizer: sparta.prune.prepare_pruning(m, GROWS, optimizer)),
    "prune.ASP": trained(lambda m, optimizer: sparta.prune.ASP.prune_trained_model(m, optimizer)),
    "prune.read": plain(lambda: [sparta.prune.read(GROWS) for _ in range(100)]),
    **ATTENTION,
    **MASKED_AND_PATTERNS,
    **TESTING,
    **{f"compat.{name}": made for name, made in COMPAT.items()},
    **{f"nn.{name}": made for name, made in NN.items()},
    "prune.one_shot": (half, lambda m: sparta.prune.one_shot(m, pattern="4x1:0.5"), runs),
    "torch.compile, default": compiled("rewrite"),
    "torch.compile, engine": compiled("engine"),
    **{n: kind(n) for n in ("BitmapTensor", "BsrTensor", "CooTensor", "CscTensor", "CsfTensor", "CsrTensor", "DcsrTensor", "DiaTensor", "EllpackTensor")},
    "NMTensor": kind("NMTensor", 4, 4),
}
# Nothing runs in them: what is raised or warned of, a result, classes to derive from, words of a loop, numbers, and what the libraries that it is for call.
NOTHING_RUNS = {
    "Error", "Note", "Expression", "Sparsifier", "SparseTensor", "iter", "attention.Layout", "compat.sten.DispatchError", "masked.Masked", "nn.OperatorBase", "prune.Config",
    "prune.trainer_callback", "prune.lightning_callback",
}  # fmt: skip



def case(name):
    before, call, sound = CASES[name]
    call(before())  # what is remembered afterwards
    given = before()
    begin = time.monotonic()
    call(given)
    took = time.monotonic() - begin
    sound(given)
    stopped = 0
    for number in range(ROUNDS):
        given = before()
        whole, _ = interrupted(lambda: call(given), rng.uniform(0, min(1.2 * took, MOST)))
        need(whole != LOST, f"TEST_SEED={SEED}, round {number}: the signal came while it ran, and the call came back")
        stopped += not whole
        total["interrupted"] += not whole
        try:
            sound(given)
        except Exception as error:
            raise AssertionError(f"TEST_SEED={SEED}, round {number}, {'whole' if whole else 'interrupted'}: {type(error).__name__}: {error}") from error
    given = before()
    call(given)
    sound(given)
    return f"{stopped} of {ROUNDS} interrupted, {took * 1e3:.0f} ms"


def public(module):
    """What a module says is public, else what it defines: functions and classes by name."""
    names = getattr(module, "__all__", None) or [n for n, v in vars(module).items() if n[0] != "_" and getattr(v, "__module__", "") == module.__name__]
    return {name: getattr(module, name) for name in names if callable(getattr(module, name))}


def all_of_them():
    modules = {name: getattr(sparta, name) for name in sparta._MODULES} | {f"compat.{name}": getattr(sparta.compat, name) for name in sparta.compat.__all__}
    asked, seen = list(public(sparta)), set(map(id, public(sparta).values()))
    for where, module in modules.items():
        for name, value in public(module).items():
            if id(value) not in seen:  # else another name of the same
                asked.append(f"{where}.{name}")
                seen.add(id(value))
    missing = set(asked) - set(CASES) - NOTHING_RUNS
    need(not missing, f"no case: {sorted(missing)}")
    return f"{len(asked)} names"


tests.check("every public function has a case", all_of_them)
for name in CASES:
    tests.check(name, case, name)
tests.check("signals came", lambda: need(total["interrupted"] >= 10, f"only {total['interrupted']} calls were interrupted"))
raise SystemExit(tests.finish())
