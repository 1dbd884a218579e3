"""The models of tools/validate.py, in plain torch: an MLP, a small ResNet, a character transformer of the size of bert-mini, a DLRM, and MiniLM, a
BERT that takes its weights from the arrays which tools/validate_data.py has exported."""

import torch
from torch import nn
from torch.nn import functional as F

LETTERS = 24  # of a name


def mlp(inputs):
    return nn.Sequential(nn.Flatten(), nn.Linear(inputs, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))


class Residual(nn.Module):
    def __init__(self, a, b, stride):
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(a, b, 3, stride, 1, bias=False), nn.BatchNorm2d(b)
        self.conv2, self.norm2 = nn.Conv2d(b, b, 3, 1, 1, bias=False), nn.BatchNorm2d(b)
        self.short = nn.Conv2d(a, b, 1, stride, bias=False) if a != b or stride > 1 else nn.Identity()

    def forward(self, x):
        y = self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x)))))
        return F.relu(y + self.short(x))


def resnet(stem):
    body = Residual(16, 32, 1), Residual(32, 64, 2), Residual(64, 64, 1)
    return nn.Sequential(nn.Conv2d(1, 16, 3, stem, 1), nn.ReLU(), *body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


class Block(nn.Module):
    def __init__(self, width, heads, drop):
        super().__init__()
        self.heads, self.each = heads, width // heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.drop = nn.Dropout(drop)

    def forward(self, x):
        b, n, _ = x.shape
        q, k, v = self.qkv(self.norm1(x)).reshape(b, n, 3, -1, self.each).permute(2, 0, 3, 1, 4)
        x = x + self.drop(self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)))
        return x + self.drop(self.down(F.gelu(self.up(self.norm2(x)))))


class Letters(nn.Module):
    """bert-mini's size: 4 layers, 256 wide, 4 heads."""

    def __init__(self, letters=512, width=256, layers=4, heads=4, classes=16, drop=0.1):
        super().__init__()
        self.table, self.place = nn.Embedding(letters, width), nn.Parameter(torch.randn(LETTERS, width) * 0.02)
        self.blocks = nn.Sequential(*[Block(width, heads, drop) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, ids):
        return self.head(self.norm(self.blocks(self.table(ids) + self.place).mean(1)))


class Recommender(nn.Module):
    """A small DLRM: dense features through a bottom, categories through tables, dots of all pairs, a top."""

    def __init__(self, width=64):
        super().__init__()
        self.bottom = nn.Sequential(nn.Linear(6, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, width), nn.ReLU())
        self.tables = nn.ModuleList([nn.Embedding(8, width) for _ in range(3)])
        self.top = nn.Sequential(nn.Linear(width + 6, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 2))
        self.register_buffer("pairs", torch.tril_indices(4, 4, -1))

    def forward(self, dense, places):
        x = self.bottom(dense)
        t = torch.stack([x, *(table(places[:, i]) for i, table in enumerate(self.tables))], 1)
        dots = torch.bmm(t, t.transpose(1, 2))[:, self.pairs[0], self.pairs[1]]
        return self.top(torch.cat([x, dots], 1))


# ---------------------------------------------------------------- MiniLM
class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.num_heads, self.each = heads, width // heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x, mask):
        b, n, _ = x.shape
        q, k, v = (layer(x).reshape(b, n, -1, self.each).transpose(1, 2) for layer in (self.query, self.key, self.value))
        return self.out(F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).flatten(2))


class Encoder(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.attention, self.norm1, self.norm2 = Attention(width, heads), nn.LayerNorm(width, 1e-12), nn.LayerNorm(width, 1e-12)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x, mask):
        x = self.norm1(x + self.attention(x, mask))
        return self.norm2(x + self.down(F.gelu(self.up(x))))


class Sentences(nn.Module):
    """A BERT that ends in the mean over the words, of length 1. Its table has the words that occur, and does not train."""

    def __init__(self, words, places=64, width=384, layers=6, heads=12):
        super().__init__()
        self.word, self.place = nn.Embedding(words, width), nn.Parameter(torch.zeros(places, width))
        self.norm = nn.LayerNorm(width, 1e-12)
        self.layers = nn.ModuleList([Encoder(width, heads) for _ in range(layers)])
        self.word.weight.requires_grad_(False)

    def states(self, ids, mask):
        """Of the words, after each layer."""
        x = self.norm(self.word(ids) + self.place[: ids.shape[1]])
        away = (1 - mask)[:, None, None, :] * -1e4
        found = []
        for layer in self.layers:
            x = layer(x, away)
            found.append(x)
        return found

    def pool(self, x, mask):
        mean = (x * mask[:, :, None]).sum(1) / mask.sum(1, keepdim=True)
        return F.normalize(mean, dim=1)

    def forward(self, ids, mask):
        return self.pool(self.states(ids, mask)[-1], mask)


RENAMED = {
    "attention.self.query": "attention.query",
    "attention.self.key": "attention.key",
    "attention.self.value": "attention.value",
    "attention.output.dense": "attention.out",
    "attention.output.LayerNorm": "norm1",
    "intermediate.dense": "up",
    "output.dense": "down",
    "output.LayerNorm": "norm2",
}


def renamed(weights, words, places=64):
    """transformers' names of BERT's arrays to those of Sentences; of the tables what is used: the words, the places, and the first of two kinds."""
    table = lambda name: weights[f"embeddings.{name}_embeddings.weight"]
    made = {"word.weight": table("word")[words], "place": table("position")[:places] + table("token_type")[0]}
    for name, array in weights.items():
        if name.startswith("embeddings.LayerNorm."):
            made[name.replace("embeddings.LayerNorm", "norm")] = array
        if name.startswith("encoder.layer."):
            _, _, layer, rest = name.split(".", 3)
            what, _, kind = rest.rpartition(".")
            made[f"layers.{layer}.{RENAMED[what]}.{kind}"] = array
    return made
