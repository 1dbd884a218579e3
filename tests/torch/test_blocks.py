"""Patterns (sparta._blocks): made of masks, chosen, prepared, copied, moved to other masks; and the ways a linear layer reaches its kernel."""

import copy
import pickle
import sys
import warnings
import weakref

from common import Tests, need, refused  # says where sparta is, before it is imported

import torch

from sparta import _blocks, masked
from sparta import _operators as ops
from sparta import _torch as door
from sparta._blocks import Blocks
from sparta._masks import as_bool
from sparta.nn import SparseLinear, _bits, _mask, _packed, _repack

tests = Tests()
torch.manual_seed(0)
torch.set_num_threads(1)


def squares(rows, cols, side, density=0.3):
    grid = torch.rand(-(-rows // side), -(-cols // side)) < density
    grid[0, 0] = True
    return grid.repeat_interleave(side, 0).repeat_interleave(side, 1)[:rows, :cols]


# ---------------------------------------------------------------- of masks
def plain(mask, block):
    """pos, crd and keep of one matrix, by loops."""
    (rows, cols), (h, w) = mask.shape, block
    pos, crd, keep = [0], [], []
    for i in range(0, rows, h):
        for j in range(0, cols, w):
            tile = torch.zeros(h, w, dtype=torch.bool)
            part = mask[i : i + h, j : j + w]
            tile[: part.shape[0], : part.shape[1]] = part
            if part.any():
                crd.append(j // w)
                keep.append((tile, bool(part.all())))
        pos.append(len(crd))
    return pos, crd, None if all(whole for _, whole in keep) else torch.stack([tile for tile, _ in keep])


MASKS = {
    "even": lambda: squares(96, 128, 16),
    "past the edge": lambda: squares(90, 121, 16),
    "ragged": lambda: squares(96, 128, 16) & (torch.rand(96, 128) < 0.9),
    "turned": lambda: squares(128, 96, 16).t(),
    "a part that begins at an odd byte": lambda: squares(97, 136, 16)[1:, 3:131],
    "bytes from outside": lambda: torch.frombuffer(bytearray(b"\0" + bytes(squares(96, 128, 16).flatten().tolist())), dtype=torch.bool, offset=1).view(96, 128),
    "expanded": lambda: squares(1, 128, 16).expand(96, 128),
    "few columns": lambda: squares(96, 12, 4),
    "tall": lambda: squares(600, 16, 300),
    "all": lambda: torch.ones(96, 128, dtype=torch.bool),
    "none": lambda: torch.zeros(96, 128, dtype=torch.bool),
    "no rows": lambda: torch.zeros(0, 128, dtype=torch.bool),
    "no columns": lambda: torch.zeros(96, 0, dtype=torch.bool),
    "numbers": lambda: squares(96, 128, 16).float(),
}


def made(name):
    for block in ((16, 16), (64, 64), (8, 32), (4, 1), (1, 1), (3, 5), (256, 16), (300, 8), (128, 128)):
        mask = MASKS[name]()
        blocks = Blocks.from_mask(mask, block)
        pos, crd, keep = plain(mask.bool(), block) if mask.numel() else ([0] * (-(-mask.shape[0] // block[0]) + 1), [], None)
        need((blocks.pos.tolist(), blocks.crd.tolist()) == (pos, crd), f"{block}: {blocks.pos.tolist()} {blocks.crd.tolist()}, not {pos} {crd}")
        need((blocks.keep is None) == (keep is None) and (keep is None or torch.equal(blocks.keep, keep)), f"{block}: keep")
        need(blocks.keep is None or blocks.keep.is_contiguous(), f"{block}: keep is not contiguous")
        need(blocks.pos.dtype == blocks.crd.dtype == torch.int32, f"{block}: types")
        if mask.numel():
            need(torch.equal(blocks.mask(), mask.bool()) and torch.equal(blocks.unpack(blocks.pack(mask.float())), mask.float()), f"{block}: another mask")
            rows = [row for row in range(len(pos) - 1) for _ in range(pos[row], pos[row + 1])]
            need(blocks.rows().tolist() == rows and blocks.places().tolist() == [r * blocks.grid[1] + c for r, c in zip(rows, crd)], f"{block}: places")


def several():
    """Patterns one after the other."""
    masks = torch.stack([squares(90, 120, 16), torch.zeros(90, 120, dtype=torch.bool), squares(90, 120, 16) & (torch.rand(90, 120) < 0.9)])
    for block in ((16, 16), (8, 8), (1, 1), (7, 11)):
        all, each = Blocks.from_mask(masks, block), [Blocks.from_mask(mask, block) for mask in masks]
        need(torch.equal(all.mask(), masks) and all.patterns == 3, block)
        need(torch.equal(all.crd, torch.cat([one.crd for one in each])), f"{block}: crd")
        need(int(all.pos[-1]) == sum(one.crd.numel() for one in each), f"{block}: pos")


def counted():
    """The ways to count agree: words of eight, and one by one."""
    for shape in ((64, 64), (90, 121), (3, 32, 48), (512, 24), (520, 8)):
        mask = torch.rand(shape) < 0.7
        for block in ((16, 16), (1, 8), (4, 1), (255, 8), (256, 8), (260, 8), (512, 512), (5, 3)):
            want = _blocks._tiles(mask, *block).long().sum((-1, -2))
            got = _blocks._counts(mask, *block)
            need(torch.equal(got.long(), want), f"{shape} {block}")
    full = torch.ones(1024, 1024, dtype=torch.bool)
    need(_blocks._counts(full, 1024, 1024).tolist() == [[1 << 20]] and _blocks._counts(full, 255, 8)[0, 0] == 255 * 8, "a byte that overflows")
    there = torch.rand(40, 30) < 0.2
    found = torch.repeat_interleave(there.flatten().long(), output_size=int(there.sum()))  # what a GPU runs
    need(torch.equal(_blocks._found(there, int(there.sum())), found), "places")


for name in MASKS:
    tests.check(f"of a mask, {name}", made, name)
tests.check("several patterns", several)
tests.check("counts", counted)


# ---------------------------------------------------------------- chosen
def chosen():
    """What a GPU would take, which is a function of the mask alone."""
    for side in (128, 64, 32, 16):
        need(_blocks._choose_square(squares(512, 512, side, 0.2)) == (side, side), side)
    loose = squares(512, 512, 64, 0.2) & (torch.rand(512, 512) < 0.95)
    need(_blocks._choose_square(loose) == (64, 64), "a block that is filled to 95 %")
    need(_blocks._choose_square(torch.rand(512, 512) < 0.1) == (512, 512), "no square: the whole matrix")
    need(_blocks._choose_square(squares(96, 192, 32)) == (32, 32), "no larger than the matrix")
    need(_blocks.choose(squares(512, 512, 64, 0.2)) == (64, 64), "the CPU's choice")
    sides, limits = zip(*_mask.GPU_BREAK_EVEN)
    need(list(sides) == sorted(sides, reverse=True) and list(limits) == sorted(limits, reverse=True) and sides[-1] == 0, "limits fall with the side")
    need(set(_blocks.GPU_SIDES) <= set(sides), "a limit for each square")
    need(all(_mask.takes((side, side)) for side in _blocks.GPU_SIDES) and not any(map(_mask.takes, ((4, 1), (48, 48), (8, 8), (16, 1)))), "what kernels take")


def said():
    blocks = Blocks.from_mask(squares(128, 128, 64), (64, 64))
    need(_mask.said_of(blocks, "blocks of 64x64 as asked") == "blocks of 64x64 as asked", "on the CPU nothing is added")
    need(_mask.said_of(blocks, f"blocks of 64x64{_mask.ON_GPU} dense: no kernel") == "blocks of 64x64", "what was said of a GPU goes")


class There:
    """As a pattern on a GPU looks to said_of."""

    is_cuda = True

    def __init__(self, block, index):
        self.pos, self.block, self.index = self, block, index

    def prepare(self):
        return self


def said_there():
    """What is said of a GPU, and why nothing runs on it."""
    reason, real = "as asked", ops.problem
    no = f"{reason}{_mask.ON_GPU} dense: no kernel there takes "
    need(_mask.said_of(There((64, 64), 1), reason) == reason + _mask.ON_GPU, "it has a kernel")
    need(_mask.said_of(There((64, 64), 1), reason, torch.float64) == no + "float64", "float64")
    need(_mask.said_of(There((64, 64), 1), reason, None, True) == no + "batches", "batches")
    need(real() is None, "a problem without a GPU")
    try:
        ops.problem = lambda: "no NVRTC"
        need(_mask.said_of(There((64, 64), None), reason) == f"{reason}{_mask.ON_GPU} dense: no NVRTC", "nothing compiles")
        need(_mask.said_of(There((4, 1), None), reason) == no + "blocks of 4x1", "no kernel in any case")
        with warnings.catch_warnings(record=True) as given:
            warnings.simplefilter("always")
            torch.ops.sparta.tell()
        need(len(given) == 1 and "dense products run instead: no NVRTC" in str(given[0].message), given)
    finally:
        ops.problem = real


def covered():
    """What a GPU takes by rule: the squares that are fastest, filled or not; where some elements lie scattered, the reason says what they cost."""
    torch.manual_seed(1)
    for side, share in ((128, 0.2), (64, 0.2), (32, 0.1)):
        block, reason = _mask.cover(squares(1024, 1024, side, share))
        need(block == (side, side) and reason.startswith(f"blocks of {side}x{side} store ") and "filled" not in reason, (side, block, reason))
    loose = squares(1024, 1024, 64, 0.1) & (torch.rand(1024, 1024) < 0.3)
    block, reason = _mask.cover(loose)
    need(block == (64, 64) and "30% of it filled; not timed" in reason, (block, reason))
    there = squares(2048, 2048, 64, 0.1)
    some = there | (torch.rand(2048, 2048) < 3e-5)
    block, reason = _mask.cover(some)
    alone = _mask.by_time(there)[0]
    need(block == (64, 64) and "of the blocks, which are less than half full" in reason and _mask.by_time(some)[0][0] > 1.4 * alone[0], (block, reason))
    many = there | (torch.rand(2048, 2048) < 1e-3)
    block, reason = _mask.cover(many)
    need(block == (2048, 2048) and reason.startswith("dense: blocks of ") and "less than half full" in reason and "pay up to about" in reason, (block, reason))
    for mask in (torch.rand(256, 256) < 0.1, torch.ones(64, 64, dtype=torch.bool), torch.rand(8, 4096) < 0.01, torch.ones(0, 64, dtype=torch.bool)):
        block, reason = _mask.cover(mask)
        need(block == tuple(mask.shape) and reason.startswith("dense"), (tuple(mask.shape), block, reason))
    need(_mask.cover(torch.zeros(256, 256, dtype=torch.bool))[0] == (128, 128), "nothing is there")
    need(_mask.cover(squares(96, 192, 32, 0.1))[0] == (32, 32), "no larger than the matrix")
    ways = _mask.by_time(some)
    need([way[0] for way in ways] == sorted(way[0] for way in ways) and {way[1] for way in ways} == set(_blocks.GPU_SIDES), ways)
    elements, counted = _blocks.covers(some)
    need(elements == int(some.sum()), "elements")
    for side, (blocks, half, few) in counted.items():
        tiles = _blocks._tiles(some, side, side).sum((-1, -2))
        thin = (tiles > 0) & (tiles < side * side / 2)
        need((blocks, half, few) == (int((tiles > 0).sum()), int(thin.sum()), int(tiles[thin].sum())), side)


tests.check("which blocks", chosen)
tests.check("which blocks cover", covered)
tests.check("reasons", said)
tests.check("reasons on a GPU", said_there)


# ---------------------------------------------------------------- the index
def no_index():
    """On the CPU there is none, and one that is given is not looked at."""
    blocks = Blocks.from_mask(squares(128, 192, 64), (64, 64))
    words = torch.ops.sparta.make_index(blocks.pos, blocks.crd, *blocks.sizes)
    need(words.shape == (0,) and words.dtype == torch.int32 and words.device.type == "cpu", words)
    need(blocks.prepare() is blocks and blocks.index is None and not blocks.prepared, "prepared on the CPU")
    x, values = torch.randn(5, 192), torch.randn(blocks.crd.numel(), 64, 64)
    want = door.linear(x, values, blocks)
    for index in (words, torch.full((1000,), -1, dtype=torch.int32), torch.ones(3)):
        given = (blocks.pos, blocks.crd, None, index)
        need(torch.equal(ops.linear_run(x, values, *given, None, *blocks.sizes), want), "linear")
        need(torch.equal(ops.sample(want.t()[None], x.t()[None], *given, *blocks.sizes, 1, 1.0), door.sample(want.t(), x.t(), blocks)[None]), "sample")
    refused(RuntimeError, "is none", torch.ops.sparta.make_index, blocks.pos, blocks.crd, -1, 192, 64, 64)
    refused(RuntimeError, "pos", torch.ops.sparta.make_index, blocks.pos.long(), blocks.crd, *blocks.sizes)


def followed():
    """What was prepared goes on with the same tensors alone, and never into a copy or a file."""
    blocks = Blocks.from_mask(squares(128, 192, 64), (64, 64))
    index = torch.zeros(8, dtype=torch.int32)

    def ready():
        blocks.index, blocks.prepared, blocks._versions = index, True, _blocks._versions(blocks.pos, blocks.crd)
        return blocks

    def again(pos=blocks.pos, crd=blocks.crd):
        return Blocks(pos, crd, None, blocks.shape, blocks.block).follow(ready())

    need(again().index is index and again().prepared, "the same tensors")
    need(again(pos=blocks.pos.clone()).index is None and not again(crd=blocks.crd.clone()).prepared, "other tensors")
    later = Blocks(blocks.pos, blocks.crd, None, blocks.shape, blocks.block)
    ready()
    blocks.crd.add_(0)
    need(later.follow(blocks).index is None, "written to in between")
    need(Blocks(blocks.pos, blocks.crd, None, blocks.shape, blocks.block).follow(Blocks.from_mask(blocks.mask(), (64, 64))).index is None, "of one that has none")
    for other in (copy.deepcopy(ready()), pickle.loads(pickle.dumps(ready()))):
        need(other.index is None and not other.prepared and not other._sound, "copied")
        need(torch.equal(other.mask(), blocks.mask()) and other.sizes == blocks.sizes, "another pattern")
    with torch.inference_mode():
        inside = Blocks.from_mask(squares(128, 192, 64), (64, 64))
        need(Blocks(inside.pos, inside.crd, None, inside.shape, inside.block).follow(inside).index is None, "tensors without versions")


def written():
    """pos and crd are written in place: the index is made again, in its place, once."""
    blocks = Blocks.from_mask(squares(128, 192, 64), (64, 64))
    index, calls, capturing = torch.zeros(8, dtype=torch.int32), [], torch.cuda.is_current_stream_capturing
    blocks.index, blocks.prepared, blocks._versions = index, True, _blocks._versions(blocks.pos, blocks.crd)
    blocks._words = lambda: calls.append(1) or torch.full((8,), len(calls), dtype=torch.int32)
    torch.cuda.is_current_stream_capturing = lambda: False
    try:
        need(blocks.indexed() is index and not calls, "nothing was written")
        for k, written_to in enumerate((blocks.pos, blocks.crd), 1):
            written_to.copy_(written_to.clone())
            need(blocks.indexed() is index and blocks.indexed()[0] == k and len(calls) == k and not blocks._sound, f"write {k}: {calls}")
        blocks.crd.add_(0)
        torch.cuda.is_current_stream_capturing = lambda: True
        need(blocks.indexed() is None and len(calls) == 2, "while a graph is captured, the call makes it")
        torch.cuda.is_current_stream_capturing = lambda: False
        need(blocks.indexed() is index and len(calls) == 3, "after it")
        asked = lambda: torch.compile(lambda x: x if blocks.indexed() is None else x + 1, backend="eager", fullgraph=True)(torch.zeros(1))  # noqa: E731
        need(asked() == 1, "compiled")
        blocks.crd.add_(0)
        torch._dynamo.reset()
        need(asked() == 0 and len(calls) == 3, "compiled after a write")
        with torch.inference_mode():
            blocks.index = torch.zeros(8, dtype=torch.int32)
        blocks.crd.add_(0)
        need(blocks.indexed()[0] == 4 and not blocks.index.is_inference(), "one that cannot be written to")
        blocks._words = lambda: torch.empty(0, dtype=torch.int32)
        blocks.crd.add_(0)
        need(blocks.indexed() is None, "no kernel any more")
    finally:
        torch.cuda.is_current_stream_capturing = capturing


def elsewhere():
    """Where no kernel of ours is registered, as on ROCm, there is no index."""
    blocks = Blocks.from_mask(squares(128, 192, 64), (64, 64))
    words = torch.ops.sparta.make_index(blocks.pos.to("meta"), blocks.crd.to("meta"), *blocks.sizes)
    need(words.shape == (0,) and words.dtype == torch.int32 and words.device.type == "meta", words)


def no_gradients():
    """A product with a packed weight has none, and says so instead of losing them."""
    packed = torch.zeros(8, dtype=torch.int32)
    x, bias = torch.randn(4, 16), torch.randn(8)
    for name, run, plain in (("half_linear", ops.half_linear, ops.half_linear_run), ("bits_linear", ops.bits_linear, ops.bits_linear_run)):
        for learns in ((x.clone().requires_grad_(), None), (x, bias.clone().requires_grad_())):
            refused(RuntimeError, "it has no gradients", _first_line, run, learns[0], packed, learns[1], 8, 16)
            with torch.no_grad():
                error = refused(RuntimeError, f"sparta::{name}", _first_line, run, learns[0], packed, learns[1], 8, 16)
            need("gradients" not in str(error), error)
        error = refused(RuntimeError, f"sparta::{name}", _first_line, plain, x, packed, None, 8, 16)
        need("gradients" not in str(error), error)


def pairs():
    """An unstructured weight: what is counted, what the operator refuses, and that fakes have the library's size."""
    for rows, cols in ((7, 16), (5, 9), (1, 1), (3, 2)):
        mask = torch.rand(rows, cols) < 0.3
        want = sum(bool(mask[i, k : k + 2].any()) for i in range(rows) for k in range(0, cols, 2))
        need(_bits.count_pairs(mask) == want, f"{rows}x{cols}: {_bits.count_pairs(mask)} pairs, not {want}")
    weight = torch.zeros(64, 128, dtype=torch.float16)
    refused(RuntimeError, "0 to 4096", _first_line, ops.bits_pack, weight, 4097)
    refused(RuntimeError, "0 to 4096", _first_line, ops.bits_pack, weight, -1)
    refused(RuntimeError, "not on a GPU", _first_line, ops.bits_pack, weight, 100)
    refused(RuntimeError, "f16 and bf16", _first_line, ops.bits_pack, weight.float(), 100)
    made = ops.bits_pack(weight.to("meta"), 100)
    need(made.dtype == torch.int32 and made.numel() * 4 == _bits.packed_bytes(torch.float16, weight.shape, 100), made)
    need(ops.bits_linear(weight.to("meta"), made, None, 64, 128).shape == (64, 64), "the size of the result")


class Counted(_packed.Packed):
    """A packed weight that is the dense one."""

    def __init__(self, shape, values):
        super().__init__(shape, values)
        self.packs = 0

    def _takes(self, x):
        return True

    def _pack(self, weight):
        self.packs += 1
        return torch.cat([weight.flatten(), weight.new_zeros(1)])

    def _run(self, x, packed, bias):
        return torch.nn.functional.linear(x, packed[:-1].view(self.shape), bias)


def freshness():
    """A copy is made once for each change of the values, and never used where it may be stale."""
    capturing = torch.cuda.is_current_stream_capturing
    torch.cuda.is_current_stream_capturing = lambda: False
    try:
        values = torch.nn.Parameter(torch.randn(8, 16))
        x, copies = torch.randn(3, 16), Counted((8, 16), values)

        def run(given=None):
            given = values if given is None else given
            return copies.linear(x, given, None, lambda: given)

        need(run() is None, "with gradients it ran")
        with torch.no_grad():
            need(torch.allclose(run(), x @ values.t(), atol=1e-5) and run() is not None and copies.packs == 1, "once")
            values.mul_(2)
            need(torch.allclose(run(), x @ values.t(), atol=1e-5) and copies.packs == 2, "changed in place")
            need(run(torch.nn.Parameter(torch.randn(8, 16))) is None, "a parameter that nobody gave")
            need(copies.linear(x.double(), values, None, lambda: values) is None, "another type")
            need(copies.linear(x[:, :8], values, None, lambda: values) is None, "other features")
            torch.cuda.is_current_stream_capturing = lambda: True
            need(run() is None, "while a graph is captured")
        need(type(copies.of(values)) is Counted and copies.of(values).made is None, "another parameter")
    finally:
        torch.cuda.is_current_stream_capturing = capturing


def _first_line(function, *arguments):
    try:
        function(*arguments)
    except RuntimeError as error:
        raise RuntimeError(str(error).partition("\n")[0]) from None


def dropped():
    """What was made of the values, when somebody says that they were written, or switches modes."""
    layer = SparseLinear(torch.nn.Linear(64, 64), weight_mask=torch.rand(64, 64) < 0.5, format="dense").requires_grad_(False)
    layer._copy = type("Packed", (), {"made": None})()
    for drop in (layer.repack, layer.train, layer.eval):
        layer._whole_weight()
        layer._copy.made = 1
        drop()
        need(layer._seen is None and layer._copy.made is None, drop.__name__)
    layer._copy = None
    layer._whole_weight()
    layer.values.data.fill_(1)
    layer.repack()
    need(torch.allclose(layer(torch.ones(64)), layer._blocks.mask().sum(1) + layer.bias), "written through .data")


tests.check("no index on the CPU", no_index)
tests.check("an index of what was written in place", written)
tests.check("no index elsewhere", elsewhere)
tests.check("packed weights without gradients", no_gradients)
tests.check("pairs of an unstructured weight", pairs)
tests.check("a packed copy is fresh", freshness)
tests.check("writes through .data", dropped)
tests.check("what follows a pattern", followed)


# ---------------------------------------------------------------- other masks
def moved():
    for old_keep in (1.0, 0.8):
        for new_keep in (1.0, 0.8):
            masks = [squares(96, 160, 16, 0.4) & (torch.rand(96, 160) <= keep) for keep in (old_keep, new_keep)]
            for one, two in (((16, 16), (16, 16)), ((16, 16), (8, 8)), ((4, 1), (4, 1)), ((96, 160), (16, 16))):
                old, new = Blocks.from_mask(masks[0], one), Blocks.from_mask(masks[1], two)
                dense = torch.randn(96, 160)
                got = new.unpack(_repack.mover(old, new)(old.pack(dense)))
                need(torch.equal(got, torch.where(masks[0] & masks[1], dense, 0)), f"{one} to {two}")


def light():
    """A new mask is read once, and the rest works on blocks."""
    layer = SparseLinear(torch.nn.Linear(256, 256), weight_mask=squares(256, 256, 64), format=(64, 64))
    count, mask = Counting(), squares(256, 256, 64)
    with count:
        layer.update_mask(mask)
    need(count.seen["large"] <= 1, f"{count.seen['large']} passes over the mask")
    need(count.seen["kernels"] <= 36, f"{count.seen['kernels']} kernels")
    return count.seen


class Counting(torch.utils._python_dispatch.TorchDispatchMode):
    VIEWS = {"view", "unsqueeze", "squeeze", "transpose", "slice", "select", "expand", "detach", "alias", "t", "permute", "empty", "_unsafe_view"}

    def __init__(self):
        super().__init__()
        self.seen = {"kernels": 0, "large": 0}

    def __torch_dispatch__(self, function, types, arguments=(), named=None):
        if function._schema.name.partition("::")[2] not in self.VIEWS:
            self.seen["kernels"] += 1
            self.seen["large"] += any(isinstance(a, torch.Tensor) and a.nbytes >= 256 * 256 and a.dtype != torch.float32 for a in arguments)
        return function(*arguments, **(named or {}))


def not_shared():
    """A mask that is a boolean already is not copied to be read, but where it is kept."""
    mask = squares(32, 32, 16)
    need(as_bool(mask, "mask") is not None and as_bool(mask, "mask").data_ptr() == mask.data_ptr(), "copied to be read")
    layer = masked.mask_(torch.nn.Linear(32, 32), mask)
    before = layer.weight_mask.clone()
    mask.logical_not_()
    need(torch.equal(layer.weight_mask, before), "the layer's mask is the caller's")
    array = before.numpy().copy()
    layer = masked.mask_(torch.nn.Linear(32, 32), array)
    array[:] = True
    need(torch.equal(layer.weight_mask, before), "the layer's mask is the caller's array")
    layer.update_mask(mask)
    mask.fill_(True)
    need(torch.equal(layer.weight_mask, ~before), "update_mask")
    sparse = SparseLinear(torch.nn.Linear(32, 32), weight_mask=(given := squares(32, 32, 16) & (torch.rand(32, 32) < 0.9)), format="dense")
    kept = sparse._blocks.mask()
    given.fill_(True)
    need(torch.equal(sparse._blocks.mask(), kept), "SparseLinear's")


tests.check("values that move", moved)
tests.check("a new mask, counted", light)
tests.check("masks are the module's own", not_shared)


# ---------------------------------------------------------------- the ways to the kernel
def sparse_layer():
    return SparseLinear(torch.nn.Linear(128, 128), weight_mask=squares(128, 128, 64, 0.5), format=(64, 64))


def gradients(function, layer, x):
    return torch.autograd.grad(function(x).square().sum(), (x, layer.values, layer.bias))


def ways():
    """Straight to the autograd.Function, and as the operator where anyone looks for it: the same gradients."""
    layer, x, taken = sparse_layer(), torch.randn(5, 128, requires_grad=True), []
    want = gradients(lambda x: torch.nn.functional.linear(x, layer.weight, layer.bias), layer, x)
    bare = door._bare

    def noted(*tensors):
        taken.append(bare(*tensors))
        return taken[-1]

    def same(name, expected, function=layer, context=None):
        taken.clear()
        if context is None:
            got = gradients(function, layer, x)
        else:
            with context:
                got = gradients(function, layer, x)
        need(all(torch.allclose(a, b, atol=1e-3) for a, b in zip(got, want)), f"{name}: other gradients")
        need(set(taken) <= {expected}, f"{name}: {taken}")
        need(taken or name == "compiled", name)

    checkpoint = torch.utils.checkpoint.checkpoint
    door._bare = noted
    try:
        same("bare", True)
        same("a checkpoint", True, lambda x: checkpoint(layer, x, use_reentrant=False))
        same("saved elsewhere", True, context=torch.autograd.graph.save_on_cpu())
        same("a dispatch mode", False, context=Counting())
        same("a function mode", False, context=torch.device("cpu"))
    finally:
        door._bare = bare
    same("compiled", False, torch.compile(layer, fullgraph=True, backend="aot_eager"))
    with torch._dynamo.compiled_autograd._enable(torch.compile(backend="aot_eager")):
        same("compiled", True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        need(not bare(x, layer.values, layer.bias) and layer(x).dtype == torch.bfloat16, "autocast")
    need(not bare(x.as_subclass(Other), layer.values, None), "a tensor of another kind")


class Other(torch.Tensor):
    pass


def lean():
    """Nothing is kept for gradients that nobody wants, and nothing lives on after them."""
    layer = sparse_layer()

    def lives(frozen, kept):
        layer.values.requires_grad_(not frozen)
        x = torch.randn(5, 128, requires_grad=True) * 1
        seen = weakref.ref(x)
        y = layer(x)
        del x
        need((seen() is not None) == kept, f"values {'frozen' if frozen else 'learn'}: x is {'gone' if kept else 'kept'}")
        y.sum().backward()
        need(seen() is None, "x lives on")

    lives(frozen=True, kept=False)
    lives(frozen=False, kept=True)
    y = layer(torch.randn(5, 128))
    with torch.no_grad():
        layer.values.mul_(2)
    y.sum().backward()  # the values are in no gradient that is wanted
    y = layer(torch.randn(5, 128, requires_grad=True))
    with torch.no_grad():
        layer.values.mul_(2)
    refused(RuntimeError, "modified by an inplace operation", _one_line, y.sum().backward)
    y = layer(torch.randn(5, 128, requires_grad=True)).sum()
    y.backward()
    refused(RuntimeError, "a second time", _one_line, y.backward)


def _one_line(function):
    try:
        function()
    except RuntimeError as error:
        raise RuntimeError(str(error).replace("\n", " ")) from None


tests.check("ways to the kernel", ways)
tests.check("what is kept for gradients", lean)

if __name__ == "__main__":
    sys.exit(tests.finish())
