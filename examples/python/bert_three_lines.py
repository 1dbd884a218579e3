"""A transformers BERT, pruned, built and timed: what changes is three lines.

python examples/python/bert_three_lines.py            needs torch and transformers; random weights, nothing is downloaded
"""

import time

import torch
from transformers import BertConfig, BertModel

import sparta


def milliseconds(model, inputs, times=5):
    """The best of a few runs."""
    best = float("inf")
    with torch.no_grad():
        for _ in range(times):
            start = time.perf_counter()
            model(**inputs)
            best = min(best, time.perf_counter() - start)
    return best * 1e3


def main():
    torch.manual_seed(0)
    model = BertModel(BertConfig(num_hidden_layers=2, hidden_size=512, num_attention_heads=8, intermediate_size=2048)).eval()
    inputs = {"input_ids": torch.randint(0, 30000, (4, 128)), "attention_mask": torch.ones(4, 128, dtype=torch.long)}
    dense = milliseconds(model, inputs)

    sparta.sparsify_(model, {"encoder.*": "4x1:0.9"})  # 1: masks by magnitude; train on from here, nothing else changes
    with torch.no_grad():
        wanted = model(**inputs).last_hidden_state
    sparta.build_(model, inputs)  # 2: each layer as blocks or dense, whichever is faster
    print(sparta.report(model))  # 3: what runs, and why

    with torch.no_grad():
        torch.testing.assert_close(model(**inputs).last_hidden_state, wanted, atol=1e-4, rtol=1e-4)
    print(f"dense {dense:.1f} ms, built {milliseconds(model, inputs):.1f} ms; the answer is the same")


if __name__ == "__main__":
    main()
