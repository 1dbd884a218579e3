"""From a dense transformers model to a faster package: trained, pruned while it trains on, compiled. docs/training.md shows what it says."""

import sys

import torch
import transformers

import sparta

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 150
torch.manual_seed(0)
size = {"hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 512}
model = transformers.BertForSequenceClassification(transformers.BertConfig(vocab_size=200, num_labels=4, **size))  # or from_pretrained(...)
ids = torch.randint(0, 200, (1024, 16))
labels = ids[:, 0] % 4  # a word's class is to be learned


def train(optimizer):
    model.train()
    for _ in range(STEPS):
        rows = torch.randint(0, 896, (32,))
        optimizer.zero_grad()
        model(input_ids=ids[rows], labels=labels[rows]).loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        return float((model(input_ids=ids[896:]).logits.argmax(-1) == labels[896:]).float().mean())


print(f"dense: accuracy {train(torch.optim.AdamW(model.parameters(), 1e-3)):.3f}")
x = {"input_ids": ids[896:928]}
dense = sparta.compile(model, "dense.sparta", example_inputs=x, threads=1)

optimizer = torch.optim.AdamW(model.parameters(), 5e-4)
said = {"pattern": "4x1", "target_sparsity": 0.8, "end_step": STEPS // 2, "pruning_frequency": 5, "sparsity_decay_type": "cubic"}
said |= {"excluded_op_names": ["classifier", "*pooler*"], "distillation": {"alpha": 0.5, "temperature": 2}}
pruner = sparta.prune.prepare_pruning(model, said, optimizer)
accuracy = train(optimizer)  # the same loop
pruner.on_train_end()
print(f"{pruner.sparsity():.0%} of 4x1 blocks gone: accuracy {accuracy:.3f}")

sparse = sparta.compile(model, "sparse.sparta", example_inputs=x, threads=1)
times = sparse.bench({"input_ids": x["input_ids"].numpy()}, dense)  # in turns, the best of each: other programs run too
ours, theirs = times["subject"]["best_ms"], times["baseline"]["best_ms"]
print(f"{ours:.2f} ms, dense {theirs:.2f} ms: {theirs / ours:.2f} times as fast")
