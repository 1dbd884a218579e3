"""compact_: what does nothing leaves PyTorch models, and the answer stays as torch gives it for the model with zeros."""

import copy
import doctest
import os
import sys

import torch
from torch import nn

from common import Tests, need, refused

import sparta  # common.py says where it is
from sparta import compact
from sparta._cuts import _gaps

tests = Tests()
os.environ["XDG_CACHE_HOME"] = tests.work.name
torch.manual_seed(0)


def compacted(model, inputs, named=None):
    """Compacts and compares; returns what it said."""
    call = lambda: model(**inputs) if isinstance(inputs, dict) else model(inputs)
    with torch.no_grad():
        want = compact._flat(call())
        said = compact.compact_(model, inputs)
        for got, expected in zip(compact._flat(call()), want):
            torch.testing.assert_close(got, expected, atol=1e-5, rtol=1e-4)
    if named:
        shapes = {name: list(p.shape) for name, p in model.named_parameters()}
        for name, shape in named.items():
            need(shapes[name] == shape, f"{name} is {shapes[name]}, not {shape}\n{said}")
    return said


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2, self.fc3 = nn.Linear(20, 32), nn.Linear(32, 16, bias=False), nn.Linear(16, 5)

    def forward(self, x):
        return self.fc3(torch.tanh(self.fc2(torch.relu(self.fc1(x)))))


@torch.no_grad()
def mlp():
    model = Mlp().eval()
    # Neurons that give 0, that give a constant, and whose answer nobody takes.
    model.fc1.weight[:10] = 0
    model.fc1.bias[:5], model.fc1.bias[5:10] = -1, 0.5
    model.fc2.weight[:, 30:] = 0
    model.fc3.weight[:, 4] = 0
    x = torch.randn(3, 7, 20)
    said = compacted(model, x, {"fc1.weight": [20, 20], "fc1.bias": [20], "fc2.weight": [15, 20], "fc2.bias": [15], "fc3.weight": [5, 15]})
    need(model.fc1.out_features == 20 and model.fc2.in_features == 20 and said.parameters_after < said.parameters_before, str(said))
    need("fc1.weight  32x20 -> 20x20" in str(said), str(said))
    with torch.enable_grad():
        model.train()(x).sum().backward()
    need(not compact.compact_(model, x), "nothing is left to go")


def masked():
    """Masks go along, packed layers become masked, Parameters of other dtypes stay what they are."""
    model = sparta.sparsify_(nn.Sequential(nn.Linear(16, 24), nn.ReLU(), nn.Linear(24, 8)).eval(), {"0": "rows:0.5", "2": "4x1:0.5"})
    # A neuron that is pruned to its bias is a constant.
    compacted(model, torch.randn(4, 16))
    need(tuple(model[0].weight_mask.shape) == tuple(model[0].weight.shape) and model[0].weight.shape[0] <= 12, str(model))
    need(model[2].weight_mask.shape == model[2].weight.shape and not model[2].weight[~model[2].weight_mask].any(), "the second mask")
    model = nn.Sequential(sparta.nn.SparseLinear(nn.Linear(16, 24), pattern="rows:0.5"), nn.ReLU(), nn.Linear(24, 8)).eval()
    compacted(model, torch.randn(4, 16))
    need(isinstance(model[0], nn.Linear) and model[0].out_features == 12, str(model))
    double = sparta.sparsify_(nn.Sequential(nn.Linear(16, 24), nn.ReLU(), nn.Linear(24, 8)).double().eval(), {"0": "rows:0.5"})
    compacted(double, torch.randn(4, 16, dtype=torch.float64), {"0.weight": [12, 16], "2.weight": [8, 12]})
    need(double[0].weight.dtype == torch.float64, "float64")


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1, self.b1 = nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16)
        self.c2, self.b2 = nn.Conv2d(16, 24, 3, padding=1, bias=False), nn.BatchNorm2d(24)
        self.depth = nn.Conv2d(24, 24, 3, padding=1, groups=24)
        self.c3, self.fc = nn.Conv2d(24, 16, 1), nn.Linear(16 * 16, 5)

    def forward(self, x):
        x = torch.relu(self.b1(self.c1(x)))
        y = self.depth(torch.relu(self.b2(self.c2(x))))
        return self.fc(torch.flatten(torch.nn.functional.avg_pool2d(self.c3(y) + x, 2), 1))


@torch.no_grad()
def convolutions():
    model = Residual().eval()
    for norm in (model.b1, model.b2):
        norm.running_mean.normal_()
        norm.running_var.uniform_(0.5, 2)
        norm.bias.normal_()
    dead = torch.arange(0, 24, 2)
    for t in (model.c2.weight, model.b2.weight, model.b2.bias, model.depth.bias):
        t[dead] = 0
    both = torch.arange(4)
    for t in (model.c1.weight, model.b1.weight, model.b1.bias, model.c3.weight, model.c3.bias):
        t[both] = 0
    said = compacted(
        model,
        torch.randn(2, 3, 8, 8),
        {
            "c1.weight": [12, 3, 3, 3],
            "b1.weight": [12],
            "c2.weight": [12, 12, 3, 3],
            "b2.bias": [12],
            "depth.weight": [12, 1, 3, 3],
            "c3.weight": [12, 12, 1, 1],
            "fc.weight": [5, 12 * 16],
        },
    )
    need(model.depth.groups == 12 and model.c2.in_channels == 12 and model.b2.num_features == 12, str(said))


@torch.no_grad()
def resnet():
    from torchvision.models import resnet18

    model = resnet18(num_classes=10).eval()
    for layer in (model.layer1, model.layer2, model.layer3, model.layer4):
        for block in layer:
            gone = torch.randperm(block.conv1.out_channels)[: block.conv1.out_channels // 2]
            for t in (block.conv1.weight, block.bn1.weight, block.bn1.bias):
                t[gone] = 0
    said = compacted(model, torch.randn(1, 3, 32, 32), {"layer4.1.conv1.weight": [256, 512, 3, 3], "layer4.1.conv2.weight": [512, 256, 3, 3]})
    need(said.parameters_after < 0.52 * said.parameters_before, f"{said.parameters_after} of {said.parameters_before}")
    return f"{said.parameters_after} of {said.parameters_before} parameters"


@torch.no_grad()
def bert():
    from transformers import BertConfig, BertModel

    config = BertConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, vocab_size=50, max_position_embeddings=32)
    model = BertModel(config).eval()
    for p in model.parameters():
        p += 0.02 * torch.randn_like(p)
    for layer in model.encoder.layer:
        layer.intermediate.dense.weight[:20], layer.intermediate.dense.bias[:20] = 0, 0.3
        layer.attention.self.value.weight[8:16], layer.attention.self.value.bias[8:16] = 0, 0
    inputs = {"input_ids": torch.arange(12).reshape(2, 6), "attention_mask": torch.tensor([[1] * 6, [1] * 4 + [0] * 2])}
    compacted(
        model,
        inputs,
        {
            "encoder.layer.1.intermediate.dense.weight": [44, 32],
            "encoder.layer.1.attention.self.query.weight": [24, 32],
            "encoder.layer.1.attention.output.dense.weight": [32, 24],
        },
    )
    need(model.encoder.layer[0].attention.self.num_attention_heads == 3, "heads")
    need(model.config._attn_implementation == "sdpa", "the model's own attention")


class Gated(nn.Module):
    """Sizes that forward writes down: the smaller model does not run, so it stays as it is."""

    def __init__(self):
        super().__init__()
        self.fc1, self.fc2, self.fc3, self.fc4 = nn.Linear(8, 16), nn.Linear(16, 8), nn.Linear(8, 12), nn.Linear(12, 4)

    def forward(self, x):
        y = self.fc2(torch.relu(self.fc1(x)).reshape(-1, 16))
        return self.fc4(torch.relu(self.fc3(y)))


@torch.no_grad()
def left():
    model = Gated().eval()
    for layer, n in ((model.fc1, 8), (model.fc3, 6)):
        layer.weight[:n], layer.bias[:n] = 0, 0
    before = copy.deepcopy(model.state_dict())
    said = compacted(model, torch.randn(3, 8), {"fc1.weight": [16, 8], "fc2.weight": [8, 16], "fc3.weight": [6, 8], "fc4.weight": [4, 6]})
    need({r["name"] for r in said if r["reason"]} >= {"fc1.weight", "fc2.weight"} and "does not run" in str(said), str(said))
    need(torch.equal(before["fc1.weight"], model.fc1.weight), "changed")
    refused(TypeError, "Module", compact.compact_, 3, torch.ones(1))
    most, compact.LARGEST = compact.LARGEST, 10
    refused(ValueError, "ONNX files hold", compact.compact_, model, torch.randn(3, 8))
    compact.LARGEST = most
    refused(ValueError, "example_inputs", compact.compact_, model, None)


def training_in_blocks():
    """A layer that trains in blocks is cut, and goes on training in them."""
    torch.manual_seed(0)
    model = sparta.sparsify_(nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 8)), {"0": "rows:0.5", "2": "4x1:0.5"})
    for i in (0, 2):
        model[i].train_in((4, 1))
    x = torch.randn(4, 64)
    want = model.train()(x)
    compact.compact_(model, x)
    got = model.train()(x)
    need(model[2].weight.shape[1] <= 16, str(model))
    torch.testing.assert_close(got, want, atol=1e-5, rtol=1e-4)
    got.sum().backward()


def strange_numbers():
    """NaN and Inf are answers, too: only the same ones are the same."""
    nan, inf = float("nan"), float("inf")
    for a, b, alike in (
        ([nan, 1.0], [2.0, 1.0], False), ([nan, 1.0], [nan, 1.0], True), ([inf, 1.0], [inf, 1.0], True), ([inf, 1.0], [-inf, 1.0], False),
        ([1.0, 5.0], [inf, 5.0], False), ([inf, 5.0], [inf, 1.0], False), ([1, 2], [1, 3], False),
    ):
        need(compact._same(torch.tensor(a), torch.tensor(b)) == alike, f"{a} and {b}")


def gaps():
    """Lines of zeros that stayed, between those that say where they were."""
    import numpy as np

    empty = np.array([0, 1, 1, 0, 1, 0], bool)
    need(_gaps(np.array([0, -1, -1, 3, 5]), empty).tolist() == [0, 1, 2, 3, 5], "between")
    need(_gaps(np.array([0, -1, 3, 5]), empty) is None, "one of two cannot be told")
    need(_gaps(np.array([0, 3, -1, 5]), empty).tolist() == [0, 3, 4, 5], "one of one")


def documents():
    failed, tried = doctest.testmod(compact, extraglobs={"sparta": sparta})
    need(tried and not failed, f"{failed} of {tried}")


for name, function in {
    "perceptron": mlp,
    "masked and packed": masked,
    "convolutions, normalisation and a residual": convolutions,
    "torchvision's resnet18": resnet,
    "transformers' BERT": bert,
    "what cannot go is left and named": left,
    "a layer that trains in blocks": training_in_blocks,
    "NaN and Inf": strange_numbers,
    "gaps": gaps,
    "examples in documents": documents,
}.items():
    tests.check(name, function)
sys.exit(tests.finish())
