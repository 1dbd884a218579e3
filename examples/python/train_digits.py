"""Pruned while it trains: scikit-learn's digits, an MLP, 4x1 blocks, from dense to 80 % gone.

    python examples/python/train_digits.py                needs torch and scikit-learn

The optimizer is made once: pruning on changes neither Parameters nor their names. Afterwards the model is built, saved as a package that needs no
Python, and asked again.
"""

import torch
from sklearn.datasets import load_digits
from torch import nn

import sparta

EPOCHS = 40


def data():
    digits = load_digits()
    x = torch.tensor(digits.data, dtype=torch.float32) / 16
    y = torch.tensor(digits.target)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    return x[order[:1400]], y[order[:1400]], x[order[1400:]], y[order[1400:]]


def accuracy(model, x, y):
    model.eval()
    with torch.no_grad():
        return float((model(x).argmax(1) == y).float().mean())


def train(prune):
    torch.manual_seed(0)
    x, y, *held = data()
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for epoch in range(EPOCHS):
        if prune and epoch % 3 == 0 and epoch <= 24:
            sparta.sparsify_(model, {"0": f"4x1:{0.8 * epoch / 24}", "2": f"4x1:{0.8 * epoch / 24}"})
        model.train()
        for part in torch.randperm(len(x)).split(64):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x[part]), y[part]).backward()
            optimizer.step()
    return model, accuracy(model, *held)


def main():
    _, dense = train(prune=False)
    model, pruned = train(prune=True)
    print(f"accuracy: dense {dense:.3f}, pruned to 80 % {pruned:.3f}")
    x, y = data()[2:]
    sparta.build_(model, x)
    print(sparta.report(model))
    package = sparta.compile(model, "digits.sparta", example_inputs=(x,))
    answer = next(iter(package.run({next(iter(package.inputs)): x.numpy()}).values()))
    print(f"digits.sparta, without torch: {float((torch.from_numpy(answer).argmax(1) == y).float().mean()):.3f}")


if __name__ == "__main__":
    main()
