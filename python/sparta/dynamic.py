"""Sparsifiers of what a model computes: asked at every call, by hooks on the modules, differentiable where elements stay.

OutputHook      the output of a module: elements that the mask leaves out become 0
AttentionHook   the scores of an attention inside of a module, whether it calls scaled_dot_product_attention or writes product and softmax out:
                queries see the keys that attention_mask(q, k) keeps and the module's own mask allows, a query without any gets 0
"""

import inspect
import threading

import torch
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from . import _torch
from ._blocks import Blocks
from ._masks import as_bool


def _mask(given, shape, where):
    """What a sparsifier answered, as a boolean that expands to the shape."""
    if not isinstance(given, torch.Tensor):
        raise TypeError(f"{where}: its mask is a {type(given).__name__}; a tensor is needed, True where an element stays")
    try:
        return as_bool(given, where).expand(shape)
    except RuntimeError:
        raise ValueError(f"{where}: its mask has shape {tuple(given.shape)}, which does not expand to {tuple(shape)}") from None


def ask(sparsifier, x, where):
    """Which elements of x stay: of a sparta.Sparsifier, or of any function of x."""
    with torch.no_grad():
        given = sparsifier.mask(x.detach()) if hasattr(sparsifier, "mask") else sparsifier(x.detach())
    return _mask(given, x.shape, where)


def _ask_attention(sparsifier, q, k, where, allowed=None):
    """Which scores stay. allowed: those that the module's own mask leaves; an attention_mask with a third argument sees it, and a mask() of the
    scores sees 0 at the others, so that what nobody may see does not win."""
    shape = (*torch.broadcast_shapes(q.shape[:-2], k.shape[:-2]), q.shape[-2], k.shape[-2])
    allowed = None if allowed is None else allowed.detach().expand(shape)
    q, k = q.detach(), k.detach()
    with torch.no_grad():
        own = getattr(sparsifier, "attention_mask", None)
        if own is not None:
            given = own(q, k, allowed) if allowed is not None and _takes_three(own) else own(q, k)
        else:
            scores = torch.matmul(q, k.transpose(-1, -2)) * q.shape[-1] ** -0.5
            scores = scores if allowed is None else scores.masked_fill(~allowed, 0)
            given = sparsifier.mask(scores) if hasattr(sparsifier, "mask") else sparsifier(scores)
    mask = _mask(given, shape, where)
    return mask if allowed is None else mask & allowed


def _takes_three(function):
    try:
        inspect.signature(function).bind(None, None, None)
    except (TypeError, ValueError):
        return False
    return True


def _seen(added):
    """Where a mask that is added lets something through: transformers add the lowest number in place of -inf."""
    return added > torch.finfo(added.dtype).min / 2


def detach(module, kind):
    """Takes the hooks of this class off a module, whichever schedule put them there."""
    for hooks in (module._forward_hooks, module._forward_pre_hooks):
        for key in [key for key, hook in hooks.items() if isinstance(getattr(hook, "__self__", hook), kind)]:
            del hooks[key]
            module._forward_hooks_always_called.pop(key, None)


class OutputHook:
    def __init__(self, sparsifier, where):
        self.sparsifier, self.where, self.density = sparsifier, where, None

    def __call__(self, module, args, output):
        if isinstance(output, torch.Tensor):
            return self._sparse(output)
        if isinstance(output, (tuple, list)) and output and isinstance(output[0], torch.Tensor) and not hasattr(output, "_fields"):
            return type(output)((self._sparse(output[0]), *output[1:]))
        raise TypeError(f"{self.where}: its module answers with a {type(output).__name__}; a tensor, or a tuple that begins with one, is needed")

    def _sparse(self, x):
        mask = ask(self.sparsifier, x, self.where)
        self.density = float(mask.float().mean()) if mask.numel() else 1.0
        return torch.where(mask, x, 0)

    def attach(self, module):
        return [module.register_forward_hook(self)]


# ---------------------------------------------------------------- attention
_PRODUCTS = {torch.matmul, torch.Tensor.matmul, torch.Tensor.__matmul__, torch.bmm, torch.Tensor.bmm}
_BIASED_PRODUCTS = {torch.baddbmm, torch.Tensor.baddbmm}
_SOFTMAX = {torch.softmax, torch.Tensor.softmax, F.softmax}


class _Scores(TorchFunctionMode):
    """Takes the attention of a module's call into its own hands."""

    def __init__(self, hook):
        super().__init__()
        self.hook, self.seen, self.product = hook, 0, None

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func is F.scaled_dot_product_attention:
            self.seen += 1
            return self.hook.attend(*args, **kwargs)
        if func is F.multi_head_attention_forward:
            self.seen += 1
            return _multi_head(self.hook, *args, **kwargs)
        if func in _SOFTMAX and self.product is not None and self._is_of_product(args, kwargs):
            self.seen += 1
            scores, rest = args[0], args[1:]
            mask = _ask_attention(self.hook.sparsifier, *self.product, self.hook.where, _seen(scores))
            self.hook.note(mask)
            self.product = None
            there = mask.any(-1, keepdim=True)
            return func(scores.masked_fill(~mask, float("-inf")).masked_fill(~there, 0), *rest, **kwargs) * there
        out = func(*args, **kwargs)
        if func in _PRODUCTS and len(args) == 2:
            self._remember(args[0], args[1], out)
        elif func in _BIASED_PRODUCTS and len(args) == 3:
            self._remember(args[1], args[2], out)
        return out

    def _remember(self, a, b, out):
        if a.dim() >= 2 and b.dim() >= 2 and out.dim() >= 3:
            self.product = a, b.transpose(-1, -2)
            self.shape = out.shape

    def _is_of_product(self, args, kwargs):
        dim = kwargs.get("dim", args[1] if len(args) > 1 else None)
        return args and isinstance(args[0], torch.Tensor) and args[0].shape == self.shape and dim in (-1, args[0].dim() - 1)


def _multi_head(
    hook,
    query,
    key,
    value,
    width,
    heads,
    weight,
    bias,
    bias_k,
    bias_v,
    add_zero_attn,
    dropout_p,
    out_weight,
    out_bias,
    training=True,
    key_padding_mask=None,
    need_weights=True,
    attn_mask=None,
    use_separate_proj_weight=False,
    q_proj_weight=None,
    k_proj_weight=None,
    v_proj_weight=None,
    static_k=None,
    static_v=None,
    average_attn_weights=True,
    is_causal=False,
):
    """torch's multi_head_attention_forward, whose inside no mode sees, over hook.attend: (tokens, batch, width), masks True where nothing is seen."""
    if any(x is not None for x in (bias_k, bias_v, static_k, static_v)) or add_zero_attn:
        raise ValueError(f"{hook.where}: bias_k, static_k and add_zero_attn of nn.MultiheadAttention are not known to sparsifiers; leave them out")
    batched = query.dim() == 3
    if not batched:
        query, key, value = (x.unsqueeze(1) for x in (query, key, value))
        key_padding_mask = key_padding_mask if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    weights = (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else weight.chunk(3)
    biases = (None,) * 3 if bias is None else bias.chunk(3)
    tokens, batch = query.shape[:2]
    q, k, v = (F.linear(x, w, b).unflatten(-1, (heads, -1)).permute(1, 2, 0, 3) for x, w, b in zip((query, key, value), weights, biases))
    seen = None
    for given, shape in (
        (attn_mask, (-1, heads, tokens, k.shape[2]) if attn_mask is not None and attn_mask.dim() == 3 else None),
        (key_padding_mask, (batch, 1, 1, k.shape[2])),
    ):
        if given is not None:
            given = given if shape is None else given.reshape(shape)
            added = torch.zeros(given.shape, dtype=q.dtype).masked_fill(given, float("-inf")) if given.dtype == torch.bool else given.to(q.dtype)
            seen = added if seen is None else seen + added
    dropout = dropout_p if training else 0.0
    shares = None
    if need_weights:
        shares = F.dropout(hook.shares(q, k, seen), dropout)
        out = torch.matmul(shares, v)
        shares = shares.mean(1) if average_attn_weights else shares
        shares = shares if batched else shares.squeeze(0)
    else:
        out = hook.attend(q, k, v, seen, dropout)
    out = F.linear(out.permute(2, 0, 1, 3).flatten(2), out_weight, out_bias)
    return out if batched else out.squeeze(1), shares


class AttentionHook:
    def __init__(self, sparsifier, where, block=None):
        self.sparsifier, self.where, self.block, self.density = sparsifier, where, block, None
        self._entered: dict[int, list] = {}  # by thread: a module may be called by several

    def attach(self, module):
        return [module.register_forward_pre_hook(self.before), module.register_forward_hook(self.after, always_call=True)]

    def before(self, module, args):
        mode = _Scores(self)
        mode.__enter__()
        self._entered.setdefault(threading.get_ident(), []).append(mode)

    def after(self, module, args, output):
        mode = self._entered[threading.get_ident()].pop()
        if not self._entered[threading.get_ident()]:
            del self._entered[threading.get_ident()]
        mode.__exit__(None, None, None)
        if not mode.seen and output is not None:
            raise ValueError(f"{self.where}: its module computed no attention (no softmax of a product); name the one that does, or say :output")

    def note(self, mask):
        self.density = float(mask.float().mean()) if mask.numel() else 1.0

    def attend(self, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
        """scaled_dot_product_attention over the scores that stay."""
        if enable_gqa and query.dim() > 2:
            key, value = (x.repeat_interleave(query.shape[-3] // x.shape[-3], -3) for x in (key, value))
        usual = query.shape[-1] ** -0.5
        # attention_mask sees scores as they are: a scale of the caller's is put into the queries.
        asked = query if scale is None or scale == usual else query * (scale / usual)
        allowed = None
        if is_causal:
            allowed = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool, device=query.device).tril()
        if attn_mask is not None:
            seen = attn_mask if attn_mask.dtype == torch.bool else _seen(attn_mask)
            allowed = seen if allowed is None else seen & allowed
            attn_mask = None if attn_mask.dtype == torch.bool else attn_mask
        mask = _ask_attention(self.sparsifier, asked, key, self.where, allowed)
        self.note(mask)
        run = self._blocks if self.block else self._dense
        return run(query, key, value, mask, attn_mask, dropout_p, usual if scale is None else scale)

    def shares(self, q, k, bias):
        """The softmax of the scores that stay, written out."""
        mask = _ask_attention(self.sparsifier, q, k, self.where, None if bias is None else _seen(bias))
        self.note(mask)
        scores = torch.matmul(q, k.transpose(-1, -2)) * q.shape[-1] ** -0.5
        scores = (scores if bias is None else scores + bias).masked_fill(~mask, float("-inf"))
        there = (scores > float("-inf")).any(-1, keepdim=True)
        return torch.softmax(scores.masked_fill(~there, 0), -1) * there

    @staticmethod
    def _dense(q, k, v, mask, bias, dropout, scale):
        if bias is not None:
            mask = mask & (bias > float("-inf"))
        there = mask.any(-1, keepdim=True)
        seen = mask | ~there
        if bias is not None:
            seen = torch.where(there, bias.to(q.dtype), 0).masked_fill(~seen, float("-inf"))
        return torch.where(there, F.scaled_dot_product_attention(q, k, v, seen, dropout, scale=scale), 0)

    def _blocks(self, q, k, v, mask, bias, dropout, scale):
        if bias is not None:
            # What is seen by no one is no element; the rest can be added.
            mask = mask & (bias > float("-inf"))
            bias = bias.clamp_min(torch.finfo(bias.dtype).min)
        lead = mask.shape[:-2]
        flat = [x.expand(*lead, *x.shape[-2:]).reshape(-1, *x.shape[-2:]) for x in (q, k, v, mask)]
        blocks = Blocks.from_mask(flat[3], self.block)
        if blocks.patterns == 1:
            blocks = Blocks.from_mask(flat[3][0], self.block)
        scores = _torch.sample(flat[0], flat[1], blocks, scale)
        if bias is not None:
            scores = scores + blocks.pack(bias.to(q.dtype).expand(mask.shape).reshape(-1, *mask.shape[-2:]))
        shares = _torch.softmax(scores, blocks)
        if dropout:
            shares = F.dropout(shares, dropout)
        return _torch.multiply(shares, blocks, flat[2]).reshape(*lead, *v.shape[-2:]) if lead else _torch.multiply(shares, blocks, flat[2])[0]
