"""Random ONNX models of images, as Paddle exports recognisers and detectors of text (PP-OCR): their operators, ranks and sizes.

    model, feeds = random_image(seed)      as random_model of random_models.py

Convolutions by depth, of odd kernels and strides that differ by axis, activations written out, squeeze and excite, pyramids that are enlarged to one
another's sizes; open heights and widths, odd ones too. Sizes behind a stride are symbols of their own, worked out for both feeds."""

import numpy as np
from onnx import helper

from random_models import Maker, Value, model_of

CHANNELS = [8, 12, 16, 24, 40, 48, 64, 96]
SMALLEST = {"batch": 1, "height": 6, "width": 6}  # at which compile looks at a model; it has to have values there


class Images(Maker):
    def __init__(self, seed):
        super().__init__(seed)
        self.sizes = [{"batch": self.pick([1, 2]), "height": self.pick([16, 31, 48]), "width": self.pick([13, 32, 49, 64])},
                      {"batch": self.pick([1, 2, 3]), "height": self.pick([32, 45, 64]), "width": self.pick([33, 71, 96, 127])}, dict(SMALLEST)]

    # ------------------------------------------------------------ sizes
    def named(self, name, dim, f):
        """The symbol of f(dim), or the number."""
        if not isinstance(dim, str):
            return f(dim)
        for sizes in self.sizes:
            sizes[name] = f(sizes[dim])
        return name

    def swept(self, dim, kernel, stride, pads, up=False):
        """What is left of a dim by a window; `up`: the last one may lie half outside."""
        more = pads - kernel + (stride - 1) * up
        if stride == 1 and more == -1:
            return dim
        return self.named(f"({dim}{more:+d})/{stride}+1", dim, lambda n: (n + more) // stride + 1)

    def least(self, dim):
        return self.number(dim, 2)

    # ------------------------------------------------------------ parts
    def conv(self, v, channels, kernel=(1, 1), stride=(1, 1), group=1, same=False):
        """With a bias, a BatchNormalization, or the bias as an Add."""
        b, c, h, w = v.dims
        x = self.weight(c // group * kernel[0] * kernel[1], channels).T.reshape(channels, c // group, *kernel)
        p = [k // 2 for k in kernel]
        how = {"auto_pad": "SAME_UPPER"} if same else {"pads": p + p}
        dims = [b, channels, h, w] if same else [b, channels] + [self.swept(d, k, s, 2 * q) for d, k, s, q in zip((h, w), kernel, stride, p, strict=True)]
        bias = self.pick(["none", "bias", "bias", "add", "norm"])
        given = [v, self.constant(np.ascontiguousarray(x))] + ([self.constant(self.floats(channels))] if bias == "bias" else [])
        y = self.node("Conv", given, dims, flat=v.flat, kernel_shape=list(kernel), strides=list(stride), dilations=[1, 1], group=group, **how)
        if bias == "add":
            y = self.node("Add", [y, self.constant(self.floats(1, channels, 1, 1))], dims, flat=v.flat)
        elif bias == "norm":
            rows = [self.constant(a) for a in (self.floats(channels), self.floats(channels), self.floats(channels), np.abs(self.floats(channels)) + 1)]
            y = self.node("BatchNormalization", [y, *rows], dims, flat=v.flat, epsilon=1e-5)
        return y

    def sixth(self, v):
        """Of a HardSwish: what x is multiplied with."""
        if self.chance(0.5):
            return self.node("HardSigmoid", [v], v.dims, flat=True, alpha=self.pick([1 / 6, 0.2]), beta=0.5)
        y = self.node("Add", [v, self.constant(np.float32(3))], v.dims, flat=v.flat)
        y = self.node("Clip", [y, self.constant(np.float32(0)), self.constant(np.float32(6))], v.dims, flat=True)
        return self.node("Div", [y, self.constant(np.float32(6))], v.dims, flat=True)

    def act(self, v):
        kind = self.pick(["none", "relu", "swish", "swish", "written", "clipped", "gelu", "silu"])
        if kind == "relu":
            return self.node("Relu", [v], v.dims, flat=v.flat)
        if kind == "swish":
            return self.node("HardSwish", [v], v.dims, flat=v.flat)
        if kind == "silu":
            return self.node("Mul", [v, self.node("Sigmoid", [v], v.dims, flat=True)], v.dims, flat=v.flat)
        if kind == "written":
            return self.node("Mul", [v, self.sixth(v)], v.dims, flat=v.flat)
        if kind == "clipped":  # the division comes last
            y = self.node("Add", [v, self.constant(np.float32(3))], v.dims, flat=v.flat)
            y = self.node("Clip", [y, self.constant(np.float32(0)), self.constant(np.float32(6))], v.dims, flat=True)
            return self.node("Div", [self.node("Mul", [v, y], v.dims, flat=v.flat), self.constant(np.float32(6))], v.dims, flat=v.flat)
        if kind == "gelu":
            y = self.node("Erf", [self.node("Div", [v, self.constant(np.float32(2**0.5))], v.dims)], v.dims, flat=True)
            y = self.node("Mul", [v, self.node("Add", [y, self.constant(np.float32(1))], v.dims, flat=True)], v.dims, flat=v.flat)
            return self.node("Mul", [y, self.constant(np.float32(0.5))], v.dims, flat=v.flat)
        return v

    def squeeze(self, v):
        """And excite; some add what went in."""
        one = [v.dims[0], v.dims[1], 1, 1]
        y = self.node("GlobalAveragePool", [v], one, flat=True) if self.chance(0.6) else \
            self.node("ReduceMean", [v, self.ints(2, 3)], one, flat=True, keepdims=1)
        y = self.node("Relu", [self.conv(y, max(v.dims[1] // 4, 2))], [v.dims[0], max(v.dims[1] // 4, 2), 1, 1], flat=True)
        y = self.conv(y, v.dims[1])
        y = self.node("Sigmoid", [y], y.dims, flat=True) if self.chance(0.2) else \
            self.node("HardSigmoid", [y], y.dims, flat=True, alpha=self.pick([0.2, 1 / 6]), beta=0.5)
        y = self.node("Mul", [v, y] if self.chance(0.7) else [y, v], v.dims, flat=v.flat)
        return self.node("Add", [v, y], v.dims, flat=v.flat) if self.chance(0.3) else y

    def block(self, v):
        """By depth, then by channel, as MobileNet does it."""
        c = v.dims[1]
        kernel, stride = self.pick([(3, 3), (5, 5), (7, 7), (1, 7), (1, 3)]), self.pick([(1, 1), (1, 1), (2, 2), (2, 1), (1, 2)])
        y = self.act(self.conv(v, c, kernel, stride, c))
        if self.chance(0.5):
            y = self.squeeze(y)
        y = self.act(self.conv(y, self.pick([c, c, *CHANNELS])))
        return self.node("Add", [y, v], v.dims, flat=v.flat) if y.dims == v.dims and self.chance(0.8) else y

    def plain(self, v):
        kernel, stride = self.pick([(1, 1), (3, 3), (1, 3), (2, 2)]), self.pick([(1, 1), (2, 2), (2, 1)])
        if kernel == (2, 2):
            return self.act(self.conv(v, self.pick(CHANNELS[:5]), kernel, same=True))
        return self.act(self.conv(v, self.pick(CHANNELS[: 7 if kernel == (1, 1) else 4]), kernel, stride))

    def pool(self, v):
        b, c, h, w = v.dims
        if self.chance(0.3):
            y = self.node("MaxPool", [v], v.dims, flat=v.flat, kernel_shape=[2, 2], strides=[1, 1], auto_pad="SAME_UPPER")
            return self.node("Concat", [v, y], [b, 2 * c, h, w], flat=v.flat, axis=1)
        if min(self.least(h), self.least(w)) < 2:
            return v
        op, up, pads = self.pick([("MaxPool", 0, 0), ("MaxPool", 1, 0), ("MaxPool", 0, 1), ("AveragePool", 0, 0), ("AveragePool", 1, 0), ("AveragePool", 0, 1)])
        kernel, stride = ([3, 3], [2, 2]) if pads else self.pick([([2, 2], [2, 2]), ([2, 1], [2, 1])])
        return self.node(op, [v], [b, c] + [self.swept(d, k, s, 2 * pads, up) for d, k, s in zip((h, w), kernel, stride, strict=True)], flat=v.flat,
                         kernel_shape=kernel, strides=stride, pads=[pads] * 4, ceil_mode=up, **({"count_include_pad": 0} if op == "AveragePool" else {}))

    # ------------------------------------------------------------ larger again
    def shape_of(self, v, begin, end):
        shape, part = self.name("shape"), self.name("part")
        self.nodes.append(helper.make_node("Shape", [v.name], [shape]))
        self.nodes.append(helper.make_node("Slice", [shape, self.ints(begin), self.ints(end), self.ints(0)], [part]))
        return part

    def resize(self, v, like=None):
        """Twice as large, or to the sizes of another value."""
        mode = self.pick([{"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}] * 3 +
                         [{"mode": "linear", "coordinate_transformation_mode": c} for c in ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel")])
        if like:
            to = self.name("to")
            self.nodes.append(helper.make_node("Concat", [self.shape_of(v, 0, 2), self.shape_of(like, 2, 4)], [to], axis=0))
            return self.node("Resize", [v, "", "", to], v.dims[:2] + like.dims[2:], flat=v.flat, **mode)
        dims = v.dims[:2] + [self.named(f"{d}*2", d, lambda n: 2 * n) for d in v.dims[2:]]
        return self.node("Resize", [v, "", self.constant(np.array([1, 1, 2, 2], np.float32))], dims, flat=v.flat, **mode)

    def transposed(self, v, channels):
        kernel, pads, out = self.pick([(2, 0, 0), (2, 0, 0), (4, 1, 0), (3, 1, 1)])
        dims = [v.dims[0], channels] + [self.named(f"{d}*2", d, lambda n: 2 * n) for d in v.dims[2:]]
        w = self.floats(v.dims[1], channels, kernel, kernel, scale=1 / np.sqrt(v.dims[1]))
        more = [self.constant(self.floats(channels))] if self.chance(0.5) else []
        y = self.node("ConvTranspose", [v, self.constant(w), *more], dims, flat=v.flat, kernel_shape=[kernel] * 2, strides=[2, 2], dilations=[1, 1],
                      pads=[pads] * 4, group=1, **({"output_padding": [out] * 2} if out else {}))
        return y if more else self.node("Add", [y, self.constant(self.floats(1, channels, 1, 1))], dims, flat=v.flat)

    # ------------------------------------------------------------ ends
    def detect(self, stages):
        """A pyramid: each stage enlarged to the one before it; a map of as many points as the first, or four times as many."""
        c = self.pick([8, 16, 24])
        y, parts = self.conv(stages[-1], c), []
        for v in stages[-2::-1][:3]:
            parts.append(y)
            y = self.node("Add", [self.conv(v, c), self.resize(y, v)], [y.dims[0], c] + v.dims[2:], flat=False)
        if parts and self.chance(0.5):
            parts = [y] + [self.resize(p, y) for p in parts]
            y = self.node("Concat", parts, [y.dims[0], c * len(parts)] + y.dims[2:], axis=1)
        y = self.act(self.conv(y, c, (3, 3)))
        y = self.transposed(y, self.pick([1, 4, c])) if self.chance(0.7) else self.resize(y)
        self.node("Sigmoid", [y], y.dims, flat=True)

    def recognise(self, v):
        """Columns of the image become tokens."""
        b, c, h, w = v.dims
        if not isinstance(h, str) and self.least(w) >= 2 and self.chance(0.5):
            v = self.node("AveragePool", [v], [b, c, 1, self.swept(w, 2, 2, 0)], flat=v.flat, kernel_shape=[h, 2], strides=[h, 2], pads=[0] * 4, count_include_pad=0)
        else:
            v = self.node("ReduceMean", [v, self.ints(2)], [b, c, 1, w], flat=v.flat, keepdims=1)
        v = self.node("Squeeze", [v, self.ints(2)], [b, c, v.dims[3]], flat=v.flat)
        self.values = [self.transpose(v, [0, 2, 1])]
        for _ in range(self.pick([0, 1, 2])):
            self.pick([self.norm, self.attention, self.linear])()
        if self.chance(0.15):
            self.head(self.values[-1])
        else:
            self.linear(self.values[-1])

    def make(self):
        v = Value("x", ["batch", self.pick([3, 3, 1]), self.pick([48, 32, "height"]), "width"], flat=True)
        self.inputs.append((v, None))
        v = self.act(self.conv(v, self.pick([8, 16]), (3, 3), self.pick([(2, 2), (2, 2), (2, 1)])))
        stages = [v]
        for _ in range(self.pick([1, 2, 3, 4])):
            v = self.pick([self.block, self.block, self.block, self.plain, self.pool])(v)
            stages.append(v)
        self.detect(stages) if self.chance(0.5) else self.recognise(v)
        return self.outputs()


def random_image(seed):
    return model_of(Images(seed))
