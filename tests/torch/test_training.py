"""Training end to end: pruned while they train, models are as good as dense ones, and are then built, saved, loaded and compiled with the same
answer. And with two processes (DDP, FSDP2), under autocast and with other optimizers: the masked and the packed form."""

import io
import os
import socket
import sys
import warnings

import torch
from torch import nn

from common import Tests, need

import sparta  # common.py says where it is
from sparta.masked import Masked
from sparta.nn import SparseLinear
from sparta.nn._race import race

QUICK = {"no_measure": 1, "context": {"cache_dir": "", "compiler": ""}}
FORMS = ("masked", "packed")
RAMP = (0.2, 0.4, 0.55, 0.65, 0.72, 0.77, 0.8)  # sparsity, epoch after epoch


def train(model, x, y, epochs, pattern=None, batch=64, seed=0):
    """AdamW; with a pattern, pruned a little more at the beginning of each of the first epochs. The optimizer stays the same."""
    torch.manual_seed(seed)
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3, weight_decay=0.01)
    model.train()
    for epoch in range(epochs):
        if pattern and epoch < len(RAMP):
            sparta.sparsify_(model, {glob: f"{blocks}:{RAMP[epoch]}" for glob, blocks in pattern.items()})
        for rows in torch.randperm(len(x)).split(batch):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x[rows]), y[rows]).backward()
            optimizer.step()
    return model.eval()


@torch.no_grad()
def accuracy(model, x, y):
    return float((model(x).argmax(-1) == y).float().mean())


def zeros_hold(model, density):
    for name, m in model.named_modules():
        if isinstance(m, Masked):
            need(
                not m.weight[~m.weight_mask].any() and abs(m.density() - density) < 0.02,
                f"{name}: density {m.density()}, or a pruned weight grew back",
            )


def onwards(model, fresh, x, tests):
    """Built, saved, loaded into another model of the running and of the training form, and compiled: the same answer."""
    with torch.no_grad():
        want, pruned = model(x), [name for name, m in model.named_modules() if isinstance(m, Masked)]
        sparta.build_(model, x)
        torch.testing.assert_close(model(x), want, atol=1e-4, rtol=1e-4)
        # Whatever was faster here: the packed form is what is saved.
        packed = {name: {"block": [4, 1]} for name in pruned}
        sparta.build(model, None, packed)
        need(all(isinstance(model.get_submodule(name), SparseLinear) for name in packed), "not packed")
        torch.testing.assert_close(model(x), want, atol=1e-4, rtol=1e-4)
        file = io.BytesIO()
        torch.save(model.state_dict(), file)
        for form in (lambda m: m, lambda m: sparta.build(m, None, packed)):
            file.seek(0)
            other = form(sparta.sparsify_(fresh(), {name: "4x1:0.5" for name in pruned}))
            other.load_state_dict(torch.load(file, weights_only=True))
            torch.testing.assert_close(other.eval()(x), want, atol=1e-4, rtol=1e-4)
        path = os.path.join(tests.work.name, "model.sparta")
        package = sparta.compile(model, path, example_inputs=x, **QUICK)
        (answer,) = sparta.load(path).run({next(iter(package.inputs)): x.numpy()}).values()
        torch.testing.assert_close(torch.from_numpy(answer), want, atol=1e-3, rtol=1e-3)


# ---------------------------------------------------------------- digits
def perceptron():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))


@torch.no_grad()
def faster(built, dense, x):
    """How many times as fast: of several tries, because the machine may be busy."""
    for _ in range(10):
        ours, theirs = race([lambda: built(x), lambda: dense(x)])
        if theirs > 1.2 * ours:
            break
    need(theirs > 1.2 * ours, f"{1e6 * ours:.0f} us, dense {1e6 * theirs:.0f} us")
    return theirs / ours


def digits(tests):
    from sklearn.datasets import load_digits

    data = load_digits()
    x, y = torch.tensor(data.data, dtype=torch.float32) / 16, torch.tensor(data.target)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    fit, judge = order[:1200], order[1200:]
    whole = train(perceptron(), x[fit], y[fit], 25)
    dense = accuracy(whole, x[judge], y[judge])
    model = train(perceptron(), x[fit], y[fit], 25, {"0": "4x1", "2": "4x1"})
    sparse = accuracy(model, x[judge], y[judge])
    zeros_hold(model, 0.2)
    need(sparse >= dense - 0.01, f"{sparse:.3f}, dense {dense:.3f}")
    onwards(model, perceptron, x[judge][:64].contiguous(), tests)
    return f"accuracy {sparse:.3f}, dense {dense:.3f}; {faster(model, whole, x[judge].contiguous()):.1f} times as fast"


# ---------------------------------------------------------------- a transformer
class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, n, w = x.shape
        q, k, v = self.qkv(self.norm1(x)).reshape(b, n, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(q, k, v)
        x = x + self.out(y.transpose(1, 2).reshape(b, n, w))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


class Transformer(nn.Module):
    """Its first token says of which place it is to repeat the token."""

    def __init__(self, tokens=12, length=8, width=32):
        super().__init__()
        self.table, self.place = nn.Embedding(tokens, width), nn.Parameter(torch.randn(length, width) * 0.1)
        self.blocks = nn.Sequential(Block(width, 4), Block(width, 4))
        self.head = nn.Linear(width, tokens)

    def forward(self, ids):
        return self.head(self.blocks(self.table(ids) + self.place)[:, 0])


def repeat_after(count, tokens=12, length=8):
    ids = torch.randint(0, tokens, (count, length), generator=torch.Generator().manual_seed(0))
    return ids, torch.where(ids[:, 0] % 2 == 0, ids[:, 3], ids[:, 5])


def transformer(tests):
    def fresh():
        torch.manual_seed(0)
        return Transformer()

    ids, answers = repeat_after(2000)
    fit, judge = slice(0, 1500), slice(1500, None)
    epochs = 18
    dense = accuracy(train(fresh(), ids[fit], answers[fit], epochs), ids[judge], answers[judge])
    pattern = {"blocks.*.qkv": "4x1", "blocks.*.out": "4x1", "blocks.*.up": "4x1", "blocks.*.down": "4x1"}
    model = train(fresh(), ids[fit], answers[fit], epochs, pattern)
    sparse = accuracy(model, ids[judge], answers[judge])
    zeros_hold(model, 0.2)
    need(dense > 0.9 and sparse >= dense - 0.01, f"{sparse:.3f}, dense {dense:.3f}")
    onwards(model, fresh, ids[judge][:32].contiguous(), tests)
    return f"accuracy {sparse:.3f}, dense {dense:.3f}"


# ---------------------------------------------------------------- two processes
def small(form):
    torch.manual_seed(0)
    model = sparta.sparsify_(nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 8)), "4x1:0.75")
    return sparta.build(model, None, {name: {"block": [4, 1]} for name in "02"}) if form == "packed" else model


def steps(model, x, make=lambda p: torch.optim.AdamW(p, 1e-2, weight_decay=0.1), amp=False):
    optimizer = make(model.parameters())
    for _ in range(4):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=amp):
            loss = model(x).float().square().mean()
        loss.backward()
        optimizer.step()
    return loss.item()


def wrapped(model, which):
    if which == "DDP":
        return nn.parallel.DistributedDataParallel(model)
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    return fully_shard(model, mesh=init_device_mesh("cpu", (2,)))


def one_of_two(rank, which, port, queue):
    import torch.distributed as dist

    warnings.simplefilter("ignore")
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=2)
    try:
        for form in FORMS:
            model = small(form)
            steps(wrapped(model, which), torch.randn(16, 32, generator=torch.Generator().manual_seed(1)).chunk(2)[rank])
            whole = [(p.full_tensor() if hasattr(p, "full_tensor") else p).detach() for p in model.parameters()]
            # NumPy's: a tensor goes by a file that ends with this process.
            queue.put((rank, form, [p.numpy() for p in whole]))
    except Exception as error:
        queue.put((rank, f"{type(error).__name__}: {str(error).splitlines()[0]}", None))
    queue.close()
    queue.join_thread()
    dist.destroy_process_group()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def two(which):
    """As one process with the whole batch: the mean of the gradients of two halves is that of the whole."""
    port = free_port()
    context = torch.multiprocessing.get_context("spawn")
    queue = context.Queue()
    both = [context.Process(target=one_of_two, args=(rank, which, port, queue)) for rank in range(2)]
    for process in both:
        process.start()
    try:
        said = [queue.get(timeout=300) for _ in both for _ in FORMS]
    finally:
        for process in both:
            process.join(10)
            if process.is_alive():
                process.kill()
    for rank, form, parameters in said:
        need(parameters is not None, f"rank {rank}: {form}")
        alone = small(form)
        steps(alone, torch.randn(16, 32, generator=torch.Generator().manual_seed(1)))
        for got, want in zip(parameters, alone.parameters(), strict=True):
            torch.testing.assert_close(torch.from_numpy(got), want.detach(), atol=1e-4, rtol=1e-3)
            need(form == "packed" or want.dim() == 1 or not got[(want == 0).numpy()].any(), "a pruned weight grew back")


def optimizers():
    """The masked and the packed form take the same steps."""
    x = torch.randn(16, 32, generator=torch.Generator().manual_seed(1))
    makers = {
        "adamw": lambda p: torch.optim.AdamW(p, 1e-2, weight_decay=0.1),
        "foreach": lambda p: torch.optim.AdamW(p, 1e-2, foreach=True),
        "fused": lambda p: torch.optim.AdamW(p, 1e-2, fused=True),
        "sgd": lambda p: torch.optim.SGD(p, 1e-2, momentum=0.9, nesterov=True, weight_decay=0.1),
        "rmsprop": lambda p: torch.optim.RMSprop(p, 1e-3),
    }
    for name, make in makers.items():
        losses = [steps(small(form), x, make) for form in FORMS]
        need(abs(losses[0] - losses[1]) <= 1e-4 * abs(losses[0]), f"{name}: {losses}")
    losses = [steps(small(form), x, amp=True) for form in FORMS]
    need(abs(losses[0] - losses[1]) <= 2e-2 * abs(losses[0]), f"autocast: {losses}")
    clipped = small("packed")
    clipped(x).sum().backward()
    need(nn.utils.clip_grad_norm_(clipped.parameters(), 1.0) > 0, "clipping")


def main():
    tests = Tests()
    os.environ["XDG_CACHE_HOME"] = tests.work.name
    tests.check("digits, pruned to 4x1 80 % while training", digits, tests)
    tests.check("a transformer, pruned to 4x1 80 % while training", transformer, tests)
    tests.check("optimizers and autocast", optimizers)
    for which in ("DDP", "FSDP2"):
        tests.check(f"{which}, 2 processes, masked and packed", two, which)
    return tests.finish()


if __name__ == "__main__":
    sys.exit(main())
