"""Writes programs of torch.export, a small one for every overload of src/import/aten.def and some of several nodes: what searches of the .pt2
reader begin with. Needs nothing but Python; the same files every time.

    python3 tests/fuzz/pt2_units.py DIR            DIR/NAME as tests/fuzz/pt2_program.h has them: program 0 sizes 0 config
    python3 tests/fuzz/pt2_units.py --pt2 DIR      DIR/NAME.pt2, archives

A unit is a line: NAMES = OVERLOAD ARGUMENTS : TYPES, and so on behind a semicolon. What no line makes is an
input or a weight; what no line reads is an output, unless its name begins with an underscore."""

import json
import os
import re
import struct
import sys
import zipfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DTYPES = {"u8": 1, "i8": 2, "i16": 3, "i32": 4, "i64": 5, "f16": 6, "f32": 7, "f64": 8, "bool": 12, "bf16": 13}

INPUTS = {
    "x": "f32[b,8]", "y": "f32[b,8]", "e": "f32[b,1]", "d": "f64[b,8]", "h": "f16[b,8]", "i": "i64[b,8]", "j": "i64[b,3]", "i32": "i32[b,8]", "m": "bool[b,8]",
    "o": "bool[b,8]", "z": "f32[]", "v": "f32[8]", "t": "f32[b,4,8]", "r": "f32[b,8,4]", "img": "f32[2,4,6,6]", "sig": "f32[2,4,9]", "vol": "f32[1,2,4,4,4]",
    "q": "f32[b,4,3,8]", "k": "f32[b,4,5,8]", "kv": "f32[b,2,5,8]", "mask": "bool[b,1,3,5]", "bias5": "f32[3,5]", "one": "f32[b,1,8]", "sq": "f32[4,4]",
}  # fmt: skip
# sizes and where they begin in the storage; from 960 on its numbers are positive
WEIGHTS = {
    "w": ("4,8", 0), "n": ("4", 3), "g": ("8", 16), "k1": ("4,4,3", 32), "k2": ("4,4,3,3", 96), "kg": ("4,2,3,3", 64), "kd": ("4,1,3,3", 8), "k3": ("2,2,2,2,2", 300),
    "words": ("16,8", 400), "up": ("16,8", 500), "down": ("8,16", 640), "mean": ("4", 7), "var": ("4", 960), "wt": ("8,4", 128),
}  # fmt: skip
STORAGE = 1024  # floats, as pt2_program.h fills them

SAME = "f32[b,8]"
UNITS = {}


def unit(name, text):
    assert name not in UNITS, name
    UNITS[name] = text


def family(words, arguments, types, before="", out="r0"):
    """One overload a word, called alike."""
    for word in words.split():
        unit(word, f"{before}{out} = {word} {arguments} : {types}")


def variants(overload, types, *arguments):
    for n, a in enumerate(arguments):
        kind = types[n] if isinstance(types, list) else types
        unit(f"{overload}-{n}", f"r0 = {overload} {a} : {kind}")


# ------------------------------------------------------------------ element by element
family("relu.default tanh.default sigmoid.default erf.default exp.default abs.default neg.default sin.default cos.default floor.default ceil.default round.default "
       "sign.default mish.default hardswish.default selu.default square.default silu.default gelu.default leaky_relu.default elu.default softplus.default "
       "hardsigmoid.default relu6.default hardtanh.default reciprocal.default atan.default log_sigmoid.default", "self=x", SAME)  # fmt: skip
family("log.default sqrt.default rsqrt.default", "self=r1", SAME, f"r1 = abs.default self=x : {SAME}; ")
family("logical_not.default bitwise_not.default", "self=m", "bool[b,8]")
family("isnan.default isinf.default", "self=x", "bool[b,8]")
variants("gelu.default", SAME, "self=x approximate='tanh'", "self=x approximate='none'")
variants("elu.default", SAME, "self=x alpha=0.5", "self=x alpha=2.0 scale=1.0 input_scale=1.0")
variants("hardtanh.default", SAME, "self=x min_val=-2.0 max_val=0.5", "self=x min_val=0.0 max_val=6.0")
variants("leaky_relu.default", SAME, "self=x negative_slope=0.2")
variants("softplus.default", SAME, "self=x beta=1.0 threshold=20.0")
variants("clamp.default", SAME, "self=x min=-0.5 max=0.5", "self=x min=0", "self=x min=none max=1.5")
unit("clamp.Tensor", f"r0 = clamp.Tensor self=x min=y max=none : {SAME}")
unit("clamp_min.default", f"r0 = clamp_min.default self=x min=0.0 : {SAME}")
unit("clamp_max.default", f"r0 = clamp_max.default self=x max=0.25 : {SAME}")
unit("threshold.default", f"r0 = threshold.default self=x threshold=0.25 value=-2.0 : {SAME}")
unit("prelu.default", "r0 = prelu.default self=img weight=n : f32[2,4,6,6]")
unit("prelu-one", f"r0 = prelu.default self=x weight=g : {SAME}")
unit("_prelu_kernel.default", f"r0 = _prelu_kernel.default self=x weight=e : {SAME}")
unit("glu.default", "r0 = glu.default self=x dim=-1 : f32[b,4]")
unit("glu-channels", "r0 = glu.default self=img dim=1 : f32[2,2,6,6]")
unit("relu-f16", "r0 = relu.default self=h : f16[b,8]")
unit("tanh-f64", "r0 = tanh.default self=d : f64[b,8]")
unit("neg-i64", "r0 = neg.default self=i : i64[b,8]")

# ------------------------------------------------------------------ two operands
family("add.Tensor sub.Tensor rsub.Tensor mul.Tensor maximum.default minimum.default max.other min.other", "self=x other=y", SAME)
family("add.Scalar sub.Scalar rsub.Scalar mul.Scalar div.Scalar", "self=x other=2.5", SAME)
family("div.Tensor", "self=x other=r1", SAME, f"r1 = exp.default self=y : {SAME}; ")
family("remainder.Tensor", "self=x other=r1", SAME, f"r1 = exp.default self=y : {SAME}; ")
unit("remainder.Scalar", f"r0 = remainder.Scalar self=x other=3 : {SAME}")
unit("remainder-i64", "r0 = remainder.Scalar self=i other=3 : i64[b,8]")
unit("div.Tensor_mode", f"r1 = exp.default self=y : {SAME}; r0 = div.Tensor_mode self=x other=r1 rounding_mode='floor' : {SAME}")
unit("div.Scalar_mode", f"r0 = div.Scalar_mode self=x other=0.5 rounding_mode='trunc' : {SAME}")
unit("div.Scalar_mode-i64", "r0 = div.Scalar_mode self=i other=-3 rounding_mode='floor' : i64[b,8]")
unit("floor_divide.default", f"r0 = floor_divide.default self=x other=0.75 : {SAME}")
variants("add.Tensor", [SAME, SAME, "i64[b,8]", SAME, "f32[b,4,8]", "f64[b,8]"], "self=x other=y alpha=2", "self=x other=1", "self=i other=i alpha=-1",
         "self=x other=e", "self=t other=one", "self=x other=d")  # fmt: skip
variants("mul.Tensor", [SAME, SAME, "f32[b,8]"], "self=x other=z", "self=x other=v", "self=x other=i")
unit("sub.Tensor-square", f"r1 = sub.Tensor self=x other=y alpha=0.5 : {SAME}; r0 = mul.Tensor self=r1 other=r1 : {SAME}")
unit("pow.Tensor_Scalar", f"r0 = pow.Tensor_Scalar self=x exponent=2 : {SAME}")
unit("pow.Tensor_Scalar-3", f"r0 = pow.Tensor_Scalar self=x exponent=3.0 : {SAME}")
unit("pow.Tensor_Tensor", f"r1 = abs.default self=x : {SAME}; r0 = pow.Tensor_Tensor self=r1 exponent=y : {SAME}")
unit("pow.Scalar", f"r0 = pow.Scalar self=1.5 exponent=x : {SAME}")
for op in "eq ne lt le gt ge".split():
    unit(f"{op}.Tensor", f"r0 = {op}.Tensor self=x other=y : bool[b,8]")
    unit(f"{op}.Scalar", f"r0 = {op}.Scalar self=i other=1 : bool[b,8]")
variants("lt.Scalar", "bool[b,8]", "self=x other=0.5", "self=m other=1", "self=i other=0.5")
variants("eq.Tensor", "bool[b,8]", "self=i other=x", "self=m other=o", "self=d other=x")
family("__and__.Tensor __or__.Tensor __xor__.Tensor bitwise_and.Tensor bitwise_or.Tensor bitwise_xor.Tensor logical_and.default logical_or.default logical_xor.default",
       "self=m other=o", "bool[b,8]")  # fmt: skip
variants("logical_and.default", "bool[b,8]", "self=x other=m", "self=i other=i32")
unit("where.self", f"r0 = where.self condition=m self=x other=y : {SAME}")
unit("where.ScalarOther", f"r0 = where.ScalarOther condition=m self=x other=0.0 : {SAME}")
unit("where.ScalarSelf", f"r0 = where.ScalarSelf condition=m self=1.0 other=x : {SAME}")
unit("where.Scalar", f"r0 = where.Scalar condition=m self=1.0 other=-1.0 : {SAME}")
unit("masked_fill.Scalar", f"r0 = masked_fill.Scalar self=x mask=m value=-1.5 : {SAME}")
unit("masked_fill.Tensor", f"r0 = masked_fill.Tensor self=x mask=m value=z : {SAME}")
unit("masked_fill-softmax", "r1 = masked_fill.Scalar self=x mask=m value='-Infinity' : f32[b,8]; r0 = softmax.int self=r1 dim=-1 : f32[b,8]")

# ------------------------------------------------------------------ reductions
family("sum.default mean.default prod.default amax.default amin.default max.default min.default", "self=x", "f32[]")
family("any.default all.default", "self=m", "bool[]")
family("sum.dim_IntList mean.dim logsumexp.default", "self=x dim=[-1] keepdim=false", "f32[b]")
unit("prod.dim_int", "r0 = prod.dim_int self=x dim=1 keepdim=true : f32[b,1]")
family("any.dim all.dim", "self=m dim=1 keepdim=false", "bool[b]")
family("any.dims all.dims", "self=m dim=[0,1] keepdim=false", "bool[]")
variants("sum.dim_IntList", ["f32[b,1]", "f32[8]", "f32[b]", "i64[b]"], "self=x dim=[1] keepdim=true", "self=x dim=[0]", "self=t dim=[1,2]", "self=i dim=[-1]")
variants("mean.dim", ["f32[b,4,1]", "f32[2,4]", "f32[]"], "self=t dim=[-1] keepdim=true", "self=img dim=[2,3]", "self=x dim=none")
variants("amax.default", ["f32[b]", "f32[b,1,8]"], "self=x dim=[-1]", "self=t dim=[1] keepdim=true")
variants("amin.default", ["f32[b]"], "self=x dim=[1]")
unit("linalg_vector_norm.default", "r0 = linalg_vector_norm.default self=x ord=2.0 dim=[-1] keepdim=true : f32[b,1]")
unit("linalg_vector_norm-1", "r0 = linalg_vector_norm.default self=x ord=1.0 dim=[1] : f32[b]")
unit("norm.ScalarOpt_dim", "r0 = norm.ScalarOpt_dim self=x p=2 dim=[1] keepdim=true : f32[b,1]")
family("var.default std.default", "self=x unbiased=true", "f32[]")
family("var.dim std.dim", "self=x dim=[1] unbiased=false keepdim=true", "f32[b,1]")
family("var.correction std.correction", "self=t dim=[1,2] correction=1", "f32[b]")
unit("var_mean.dim", "r0, r1 = var_mean.dim self=x dim=[1] unbiased=true : f32[b], f32[b]")
unit("var_mean.correction", "r0, r1 = var_mean.correction self=img dim=[2,3] correction=0.0 keepdim=true : f32[2,4,1,1], f32[2,4,1,1]")
unit("histc.default", "r0 = histc.default self=x bins=5 min=-1.0 max=1.0 : f32[5]")
unit("histc-of-data", "r0 = histc.default self=x bins=3 : f32[3]")
for op in "max min".split():
    unit(f"{op}.dim", f"r0, r1 = {op}.dim self=x dim=1 keepdim=false : f32[b], i64[b]")
    unit(f"arg{op}.default", f"r0 = arg{op}.default self=x dim=-1 keepdim=false : i64[b]")
    unit(f"arg{op}.default-all", f"r0 = arg{op}.default self=x : i64[]")
unit("max.dim-keep", "r0, r1 = max.dim self=t dim=-2 keepdim=true : f32[b,1,8], i64[b,1,8]")
unit("topk.default", "r0, r1 = topk.default self=x k=3 dim=-1 largest=true sorted=true : f32[b,3], i64[b,3]")
unit("topk.default-least", "r0, r1 = topk.default self=t k=2 dim=1 largest=false : f32[b,2,8], i64[b,2,8]")
for op in "sort.default", "sort.stable":
    unit(op, f"r0, r1 = {op} self=x dim=1 descending=true : {SAME}, i64[b,8]")
    unit("arg" + op, f"r0 = arg{op} self=t dim=-2 : i64[b,4,8]")
unit("cumsum.default", f"r0 = cumsum.default self=x dim=1 : {SAME}")
unit("cumsum-i64", "r1 = to.dtype self=m dtype=i64 : i64[b,8]; r0 = cumsum.default self=r1 dim=-1 : i64[b,8]")
family("softmax.int log_softmax.int", "self=x dim=-1", SAME)
family("_softmax.default _log_softmax.default", "self=x dim=1 half_to_float=false", SAME)
variants("softmax.int", ["f32[b,4,8]", "f32[b,8]"], "self=t dim=1", "self=x dim=0")

# ------------------------------------------------------------------ products
unit("linear.default", "r0 = linear.default input=x weight=w bias=n : f32[b,4]")
unit("linear-no-bias", "r0 = linear.default input=t weight=w : f32[b,4,4]")
unit("linear-relu-linear", "r1 = linear.default input=x weight=up : f32[b,16]; r2 = relu.default self=r1 : f32[b,16]; r0 = linear.default input=r2 weight=down bias=g : f32[b,8]")
unit("linear-gated", "r1 = linear.default input=x weight=up : f32[b,16]; r2 = silu.default self=r1 : f32[b,16]; r3 = linear.default input=x weight=up : f32[b,16]; "
     "r4 = mul.Tensor self=r2 other=r3 : f32[b,16]; r5 = linear.default input=r4 weight=down : f32[b,8]; r0 = add.Tensor self=x other=r5 : f32[b,8]")  # fmt: skip
unit("linear-norm", "r1 = linear.default input=x weight=up : f32[b,16]; r2 = linear.default input=r1 weight=down bias=g : f32[b,8]; r3 = add.Tensor self=r2 other=x : f32[b,8]; "
     "r0 = layer_norm.default input=r3 normalized_shape=[8] weight=g bias=none eps=0.001 : f32[b,8]")  # fmt: skip
unit("matmul.default", "r0 = matmul.default self=t other=r : f32[b,4,4]")
variants("matmul.default", ["f32[b,4]", "f32[b]", "f32[b,4,4]", "f32[]"], "self=x other=wt", "self=x other=v", "self=t other=wt", "self=v other=v")
unit("mm.default", "r0 = mm.default self=x mat2=wt : f32[b,4]")
unit("bmm.default", "r0 = bmm.default self=t mat2=r : f32[b,4,4]")
unit("addmm.default", "r0 = addmm.default self=n mat1=x mat2=wt : f32[b,4]")
unit("addmm-scaled", "r0 = addmm.default self=n mat1=x mat2=wt beta=0.5 alpha=2.0 : f32[b,4]")
unit("baddbmm.default", "r0 = baddbmm.default self=n batch1=t batch2=r : f32[b,4,4]")
unit("einsum.default", "r0 = einsum.default equation='bij,bjk->bik' tensors=[t,r] : f32[b,4,4]")
variants("einsum.default", ["f32[b,4]", "f32[8,b]", "f32[b]"], "equation='bi,oi->bo' tensors=[x,w]", "equation='ij->ji' tensors=[x]", "equation='ij,ij->i' tensors=[x,y]")

# ------------------------------------------------------------------ layers
ATTENTION = "scaled_dot_product_attention.default"
unit(ATTENTION, f"r0 = {ATTENTION} query=q key=k value=k : f32[b,4,3,8]")
variants(ATTENTION, "f32[b,4,3,8]", "query=q key=k value=k attn_mask=mask", "query=q key=k value=k attn_mask=bias5 scale=0.5", "query=q key=q value=q is_causal=true",
         "query=q key=kv value=kv enable_gqa=true", "query=q key=kv value=kv attn_mask=none dropout_p=0.0 is_causal=true enable_gqa=true")  # fmt: skip
unit("_scaled_dot_product_flash_attention_for_cpu.default",
     "r0, _1 = _scaled_dot_product_flash_attention_for_cpu.default query=q key=k value=k dropout_p=0.0 is_causal=false : f32[b,4,3,8], f32[b,4,3]")  # fmt: skip
unit("layer_norm.default", f"r0 = layer_norm.default input=x normalized_shape=[8] weight=g bias=g eps=1e-05 : {SAME}")
variants("layer_norm.default", [SAME, "f32[b,4,8]"], "input=x normalized_shape=[8]", "input=t normalized_shape=[4,8] weight=none bias=none eps=0.01")
unit("native_layer_norm.default", f"r0, _1, _2 = native_layer_norm.default input=x normalized_shape=[8] weight=g bias=none eps=1e-05 : {SAME}, f32[b,1], f32[b,1]")
unit("rms_norm.default", f"r0 = rms_norm.default input=x normalized_shape=[8] weight=g eps=1e-06 : {SAME}")
unit("rms_norm-plain", "r0 = rms_norm.default input=t normalized_shape=[8] : f32[b,4,8]")
unit("batch_norm.default", "r0 = batch_norm.default input=img weight=n bias=n running_mean=mean running_var=var training=false momentum=0.1 eps=1e-05 cudnn_enabled=true : f32[2,4,6,6]")
unit("batch_norm-plain", "r0 = batch_norm.default input=sig running_mean=mean running_var=var training=false : f32[2,4,9]")
unit("_native_batch_norm_legit_no_training.default",
     "r0, _1, _2 = _native_batch_norm_legit_no_training.default input=img weight=n bias=n running_mean=mean running_var=var momentum=0.1 eps=0.001 : f32[2,4,6,6], f32[0], f32[0]")  # fmt: skip
unit("group_norm.default", "r0 = group_norm.default input=img num_groups=2 weight=n bias=n eps=1e-05 : f32[2,4,6,6]")
unit("group_norm-plain", "r0 = group_norm.default input=sig num_groups=4 : f32[2,4,9]")
unit("native_group_norm.default", "r0, _1, _2 = native_group_norm.default input=img weight=n bias=n N=2 C=4 HxW=36 group=2 eps=1e-05 : f32[2,4,6,6], f32[2,2], f32[2,2]")
unit("instance_norm.default", "r0 = instance_norm.default input=img weight=n bias=n use_input_stats=true momentum=0.1 eps=1e-05 : f32[2,4,6,6]")
unit("instance_norm-running", "r0 = instance_norm.default input=img running_mean=mean running_var=var use_input_stats=false : f32[2,4,6,6]")
unit("conv1d.default", "r0 = conv1d.default input=sig weight=k1 bias=n : f32[2,4,7]")
unit("conv1d-wide", "r0 = conv1d.default input=sig weight=k1 stride=[2] padding=[2] dilation=[2] : f32[2,4,5]")
unit("conv2d.default", "r0 = conv2d.default input=img weight=k2 bias=n stride=[1,1] padding=[1,1] : f32[2,4,6,6]")
variants("conv2d.default", ["f32[2,4,3,3]", "f32[2,4,6,6]", "f32[2,4,2,4]"], "input=img weight=k2 stride=[2,2] padding=[1,1]", "input=img weight=kg bias=n padding=[1] groups=2",
         "input=img weight=kd dilation=[2,1] groups=4")  # fmt: skip
unit("conv2d-batchnorm-relu", "r1 = conv2d.default input=img weight=k2 padding=[1,1] : f32[2,4,6,6]; r2 = batch_norm.default input=r1 weight=n bias=n running_mean=mean running_var=var "
     "training=false eps=1e-05 : f32[2,4,6,6]; r0 = relu_.default self=r2 : f32[2,4,6,6]")  # fmt: skip
unit("conv3d.default", "r0 = conv3d.default input=vol weight=k3 stride=[1,1,1] : f32[1,2,3,3,3]")
unit("conv1d.padding", "r0 = conv1d.padding input=sig weight=k1 bias=n padding='same' : f32[2,4,9]")
unit("conv2d.padding", "r0 = conv2d.padding input=img weight=k2 padding='valid' : f32[2,4,4,4]")
unit("convolution.default", "r0 = convolution.default input=img weight=k2 bias=n stride=[1,1] padding=[1,1] dilation=[1,1] transposed=false output_padding=[0,0] groups=1 : f32[2,4,6,6]")
unit("convolution-turned", "r0 = convolution.default input=img weight=k2 bias=none stride=[2,2] padding=[1,1] dilation=[1,1] transposed=true output_padding=[1,1] groups=1 : f32[2,4,12,12]")
unit("conv_transpose1d.default", "r0 = conv_transpose1d.default input=sig weight=k1 stride=[2] : f32[2,4,19]")
unit("conv_transpose2d.input", "r0 = conv_transpose2d.input input=img weight=k2 bias=n stride=[2,2] padding=[1,1] output_padding=[1,1] : f32[2,4,12,12]")
unit("max_pool1d.default", "r0 = max_pool1d.default self=sig kernel_size=[3] stride=[2] : f32[2,4,4]")
unit("max_pool2d.default", "r0 = max_pool2d.default self=img kernel_size=[2,2] : f32[2,4,3,3]")
unit("max_pool2d-ceil", "r0 = max_pool2d.default self=img kernel_size=[3,3] stride=[2,2] padding=[1,1] dilation=[1,1] ceil_mode=true : f32[2,4,4,4]")
unit("max_pool2d_with_indices.default", "r0, _1 = max_pool2d_with_indices.default self=img kernel_size=[3,3] stride=[3,3] : f32[2,4,2,2], i64[2,4,2,2]")
unit("avg_pool1d.default", "r0 = avg_pool1d.default self=sig kernel_size=[3] : f32[2,4,3]")
unit("avg_pool2d.default", "r0 = avg_pool2d.default self=img kernel_size=[3,3] stride=[1,1] padding=[1,1] ceil_mode=false count_include_pad=false : f32[2,4,6,6]")
unit("adaptive_avg_pool1d.default", "r0 = adaptive_avg_pool1d.default self=sig output_size=[3] : f32[2,4,3]")
family("adaptive_avg_pool2d.default _adaptive_avg_pool2d.default adaptive_max_pool2d.default", "self=img output_size=[1,1]", "f32[2,4,1,1]")
unit("adaptive_avg_pool2d-3", "r0 = adaptive_avg_pool2d.default self=img output_size=[3,2] : f32[2,4,3,2]")
unit("adaptive_avg_pool2d-uneven", "r0 = adaptive_avg_pool2d.default self=img output_size=[4,3] : f32[2,4,4,3]")
unit("adaptive_max_pool2d-uneven", "r0 = adaptive_max_pool2d.default self=img output_size=[6,5] : f32[2,4,6,5]")
unit("adaptive_avg_pool1d-uneven", "r0 = adaptive_avg_pool1d.default self=sig output_size=[4] : f32[2,4,4]")
unit("upsample_nearest2d.vec", "r0 = upsample_nearest2d.vec input=img output_size=none scale_factors=[2.0,2.0] : f32[2,4,12,12]")
unit("upsample_nearest2d-size", "r0 = upsample_nearest2d.vec input=img output_size=[9,7] scale_factors=none : f32[2,4,9,7]")
unit("upsample_bilinear2d.vec", "r0 = upsample_bilinear2d.vec input=img output_size=none align_corners=false scale_factors=[1.5,2.0] : f32[2,4,9,12]")
unit("upsample_bilinear2d-corners", "r0 = upsample_bilinear2d.vec input=img output_size=[11,5] align_corners=true scale_factors=none : f32[2,4,11,5]")
unit("pixel_shuffle.default", "r0 = pixel_shuffle.default self=img upscale_factor=2 : f32[2,1,12,12]")
unit("embedding.default", "r0 = embedding.default weight=words indices=j : f32[b,3,8]")
unit("embedding-sum", "r1 = embedding.default weight=words indices=j padding_idx=0 : f32[b,3,8]; r0 = sum.dim_IntList self=r1 dim=[1] : f32[b,8]")

AT = "r9 = zeros_like.default self=j dtype=i64 : i64[b,3]; r8 = add.Tensor self=r9 other=2 : i64[b,3]; "  # ids that are there
FLAT = AT + "r7 = flatten.using_ints self=r8 : i64[b*3]; "
OFFSETS = "r6 = sym_numel.default self=r7 : size; r5 = arange.start_step start=0 end=r6 step=3 : i64[b]; "
BAG = "embedding_bag.padding_idx weight=words indices=r7 offsets={} scale_grad_by_freq=false mode={} sparse=false per_sample_weights=none include_last_offset={} padding_idx={}"
for mode in range(3):
    unit(f"embedding_bag-{mode}", f"{FLAT}{OFFSETS}r0, _1, _2, _3 = {BAG.format('r5', mode, 'false', 'none')} : f32[b,8], i64[0], i64[b], i64[b]")
unit("embedding_bag.padding_idx", f"{FLAT}{OFFSETS}r0, _1, _2, _3 = {BAG.format('r5', 1, 'false', 2)} : f32[b,8], i64[0], i64[b], i64[b]")
unit("embedding_bag-last", f"{FLAT}r4 = arange.start_step start=0 end=2 step=1 : i64[2]; r0, _1, _2, _3 = {BAG.format('r4', 1, 'true', 'none')} : f32[1,8], i64[0], i64[1], i64[1]")
unit("embedding_bag-largest", f"{FLAT}r4 = arange.start_step start=0 end=2 step=1 : i64[2]; r0, _1, _2, _3 = {BAG.format('r4', 2, 'false', -3)} : f32[2,8], i64[0], i64[2], i64[2]")
unit("embedding_bag.default", f"{FLAT}{OFFSETS}r0, _1, _2, _3 = embedding_bag.default weight=words indices=r7 offsets=r5 : f32[b,8], i64[0], i64[b], i64[b]")
unit("_weight_norm.default", "r1 = _weight_norm.default v=w g=g dim=1 : f32[4,8]; r0 = linear.default input=x weight=r1 : f32[b,4]")
unit("_weight_norm-whole", f"r0 = _weight_norm.default v=x g=z dim=-1 : {SAME}")
unit("_weight_norm_interface.default", f"r0, r1 = _weight_norm_interface.default v=x g=e dim=0 : {SAME}, f32[b,1]")
unit("im2col.default", "r0 = im2col.default self=img kernel_size=[3,3] dilation=[1,1] padding=[0,0] stride=[1,1] : f32[2,36,16]")
unit("im2col-wide", "r0 = im2col.default self=img kernel_size=[2,3] dilation=[2,1] padding=[1,2] stride=[2,1] : f32[2,24,24]")

# ------------------------------------------------------------------ views
family("alias.default detach.default detach_.default contiguous.default clone.default lift_fresh_copy.default", "self=x", SAME)
family("dropout.default feature_dropout.default", "input=x p=0.5 train=false", SAME)
unit("to.dtype", "r0 = to.dtype self=x dtype=f64 : f64[b,8]")
unit("to.dtype_layout", "r0 = to.dtype_layout self=i dtype=f32 layout=none : f32[b,8]")
unit("to.device", "r0 = to.device self=x device=none dtype=f16 : f16[b,8]")
unit("to.other", "r0 = to.other self=x other=d : f64[b,8]")
unit("type_as.default", "r0 = type_as.default self=i other=x : f32[b,8]")
unit("_to_copy.default", "r0 = _to_copy.default self=m dtype=f32 : f32[b,8]")
variants("to.dtype", ["i64[b,8]", "bool[b,8]", "bf16[b,8]", "u8[b,8]", "f32[b,8]"], "self=x dtype=i64", "self=i dtype=bool", "self=x dtype=bf16", "self=m dtype=u8", "self=h dtype=f32")
for op, to in (("view", "size"), ("reshape", "shape"), ("_unsafe_view", "size")):
    unit(f"{op}.default", f"r0 = {op}.default self=t {to}=[-1,8] : f32[b*4,8]")
unit("view-sizes", "r1 = sym_size.int self=x dim=0 : size; r0 = view.default self=x size=[r1,2,4] : f32[b,2,4]")
unit("view-product", "r1 = sym_size.int self=x dim=0 : size; r2 = _operator.mul a=r1 b=2 : size; r0 = view.default self=x size=[r2,4] : f32[b*2,4]")
family("view_as.default reshape_as.default", "self=x other=y", SAME)
unit("flatten.using_ints", "r0 = flatten.using_ints self=t start_dim=1 : f32[b,32]")
unit("flatten-all", "r0 = flatten.using_ints self=img start_dim=0 end_dim=-1 : f32[288]")
unit("flatten-front", "r0 = flatten.using_ints self=t start_dim=0 end_dim=1 : f32[b*4,8]")
unit("unflatten.int", "r0 = unflatten.int self=x dim=-1 sizes=[2,4] : f32[b,2,4]")
unit("transpose.int", "r0 = transpose.int self=t dim0=1 dim1=-1 : f32[b,8,4]")
unit("swapaxes.default", "r0 = swapaxes.default self=t axis0=0 axis1=1 : f32[4,b,8]")
family("t.default numpy_T.default mT.default", "self=x", "f32[8,b]")
unit("mT-batches", "r0 = mT.default self=t : f32[b,8,4]")
unit("permute.default", "r0 = permute.default self=t dims=[2,0,1] : f32[8,b,4]")
unit("permute-image", "r0 = permute.default self=img dims=[0,-2,-1,1] : f32[2,6,6,4]")
unit("movedim.int", "r0 = movedim.int self=img source=1 destination=-1 : f32[2,6,6,4]")
unit("unsqueeze.default", "r0 = unsqueeze.default self=x dim=1 : f32[b,1,8]")
unit("unsqueeze-last", "r0 = unsqueeze.default self=x dim=-1 : f32[b,8,1]")
unit("squeeze.default", "r0 = squeeze.default self=one : f32[b,8]")
unit("squeeze.dim", "r0 = squeeze.dim self=one dim=1 : f32[b,8]")
unit("squeeze.dims", "r0 = squeeze.dims self=one dim=[1] : f32[b,8]")
unit("squeeze.dim-none", "r0 = squeeze.dim self=t dim=1 : f32[b,4,8]")
unit("expand.default", "r0 = expand.default self=one size=[-1,4,-1] : f32[b,4,8]")
unit("expand-sizes", "r1 = sym_size.int self=x dim=0 : size; r0 = expand.default self=v size=[r1,8] : f32[b,8]")
unit("expand_as.default", "r0 = expand_as.default self=e other=x : f32[b,8]")
unit("repeat.default", "r0 = repeat.default self=x repeats=[1,2] : f32[b,16]")
unit("repeat-more", "r0 = repeat.default self=v repeats=[3,1,2] : f32[3,1,16]")
unit("repeat_interleave.self_int", "r0 = repeat_interleave.self_int self=x repeats=2 dim=1 : f32[b,16]")
unit("repeat_interleave-heads", "r0 = repeat_interleave.self_int self=kv repeats=2 dim=1 : f32[b,4,5,8]")

# ------------------------------------------------------------------ pieces
unit("slice.Tensor", "r0 = slice.Tensor self=x dim=1 start=2 end=6 : f32[b,4]")
variants("slice.Tensor", ["f32[b,4]", SAME, "f32[b,2]", "f32[b,4]"], "self=x dim=1 start=0 end=9223372036854775807 step=2", "self=x dim=0 start=0 end=9223372036854775807",
         "self=x dim=-1 start=-2", "self=x dim=1 end=-4")  # fmt: skip
unit("narrow.default", "r0 = narrow.default self=x dim=1 start=3 length=4 : f32[b,4]")
unit("select.int", "r0 = select.int self=t dim=1 index=-1 : f32[b,8]")
unit("select-first", "r0 = select.int self=x dim=1 index=0 : f32[b]")
unit("split.Tensor", "r0, r1 = split.Tensor self=x split_size=4 dim=1 : f32[b,4], f32[b,4]")
unit("split-rest", "r0, r1, r2 = split.Tensor self=x split_size=3 dim=-1 : f32[b,3], f32[b,3], f32[b,2]")
unit("split_with_sizes.default", "r0, r1 = split_with_sizes.default self=x split_sizes=[2,6] dim=1 : f32[b,2], f32[b,6]")
unit("chunk.default", "r1, r2 = chunk.default self=x chunks=2 dim=-1 : f32[b,4], f32[b,4]; r3 = sigmoid.default self=r2 : f32[b,4]; r0 = mul.Tensor self=r1 other=r3 : f32[b,4]")
unit("unbind.int", "r0, r1, r2, r3 = unbind.int self=t dim=1 : f32[b,8], f32[b,8], f32[b,8], f32[b,8]")
family("cat.default concat.default", "tensors=[x,y] dim=1", "f32[b,16]")
variants("cat.default", ["f32[b*2,8]", "f32[b,24]", "f32[b,9]", "f32[b,8]"], "tensors=[x,y]", "tensors=[x,x,y] dim=-1", "tensors=[e,x] dim=1", "tensors=[x] dim=0")
unit("stack.default", "r0 = stack.default tensors=[x,y] dim=1 : f32[b,2,8]")
unit("stack-last", "r0 = stack.default tensors=[x,y,x] dim=-1 : f32[b,8,3]")
unit("roll.default", "r0 = roll.default self=x shifts=[3] dims=[1] : f32[b,8]")
unit("roll-two", "r0 = roll.default self=img shifts=[-1,2] dims=[2,3] : f32[2,4,6,6]")
unit("flip.default", "r0 = flip.default self=x dims=[1] : f32[b,8]")
unit("pad.default", "r0 = pad.default self=x pad=[1,2] mode='constant' value=0.5 : f32[b,11]")
unit("constant_pad_nd.default", "r0 = constant_pad_nd.default self=img pad=[1,1,0,2] value=0.0 : f32[2,4,8,8]")
for mode in "reflect replicate circular".split():
    unit(f"pad-{mode}", f"r0 = pad.default self=sig pad=[2,1] mode='{mode}' value=none : f32[2,4,12]")
unit("pad-less", "r0 = constant_pad_nd.default self=x pad=[-1,-2] : f32[b,5]")
unit("diff.default", "r0 = diff.default self=x : f32[b,7]")
unit("diff-prepend", "r0 = diff.default self=x n=1 dim=-1 prepend=e : f32[b,8]")
family("tril.default triu.default", "self=sq", "f32[4,4]")
unit("triu-1", "r0 = triu.default self=t diagonal=1 : f32[b,4,8]")
unit("tril-minus", "r0 = tril.default self=t diagonal=-2 : f32[b,4,8]")
unit("unfold.default", "r0 = unfold.default self=x dimension=1 size=3 step=2 : f32[b,3,3]")
unit("unfold-middle", "r0 = unfold.default self=t dimension=1 size=2 step=1 : f32[b,3,8,2]")
unit("index.Tensor", AT + "r0 = index.Tensor self=words indices=[r8] : f32[b,3,8]")
unit("index-two", AT + "r0 = index.Tensor self=words indices=[r8,r9] : f32[b,3]")
unit("index-second", AT + "r0 = index.Tensor self=up indices=[none,r8] : f32[16,b,3]")
unit("index-image", AT + "r0 = index.Tensor self=img indices=[none,none,r8,r9] : f32[2,4,b,3]")
unit("index_select.default", "r9 = arange.start start=1 end=5 dtype=i64 : i64[4]; r0 = index_select.default self=x dim=1 index=r9 : f32[b,4]")
unit("gather.default", AT + "r0 = gather.default self=x dim=1 index=r8 : f32[b,3]")
unit("scatter.src", AT + f"r0 = scatter.src self=x dim=1 index=r8 src=y : {SAME}")
unit("scatter.value", AT + f"r0 = scatter.value self=x dim=-1 index=r8 value=7.0 : {SAME}")
unit("scatter_add.default", AT + f"r0 = scatter_add.default self=x dim=1 index=r8 src=y : {SAME}")
unit("index_put.default", AT + "r0 = index_put.default self=up indices=[r8] values=z accumulate=true : f32[16,8]")
unit("index_put-second", AT + f"r1 = exp.default self=x : {SAME}; r0 = index_put.default self=r1 indices=[none,r8] values=z : {SAME}")
unit("index_put-apart", AT + "r0 = index_put.default self=img indices=[r9,none,r8] values=z : f32[2,4,6,6]")
unit("slice_scatter.default", f"r1 = slice.Tensor self=y dim=1 start=2 end=6 : f32[b,4]; r0 = slice_scatter.default self=x src=r1 dim=1 start=2 end=6 : {SAME}")
unit("slice_scatter-steps", f"r1 = slice.Tensor self=y dim=1 start=5 : f32[b,3]; r0 = slice_scatter.default self=x src=r1 dim=-1 start=-5 end=9223372036854775807 step=2 : {SAME}")
unit("slice_scatter-all", f"r0 = slice_scatter.default self=x src=y : {SAME}")
unit("select_scatter.default", f"r1 = select.int self=y dim=1 index=0 : f32[b]; r0 = select_scatter.default self=x src=r1 dim=1 index=-1 : {SAME}")
unit("select_scatter-first", f"r1 = select.int self=t dim=0 index=0 : f32[4,8]; r0 = select_scatter.default self=t src=r1 dim=0 index=0 : f32[b,4,8]")
unit("fill.Scalar", f"r0 = fill.Scalar self=x value=2.5 : {SAME}")
unit("fill.Tensor", f"r0 = fill.Tensor self=x value=z : {SAME}")
unit("zero.default", f"r0 = zero.default self=x : {SAME}")
unit("copy.default", f"r0 = copy.default self=x src=v non_blocking=false : {SAME}")
unit("index_put-mask", f"r0 = index_put.default self=x indices=[m] values=z : {SAME}")

# ------------------------------------------------------------------ new tensors
unit("arange.default", "r1 = arange.default end=8 dtype=f32 : f32[8]; r0 = mul.Tensor self=x other=r1 : f32[b,8]")
unit("arange.start", "r1 = arange.start start=2 end=10 : i64[8]; r0 = add.Tensor self=i other=r1 : i64[b,8]")
unit("arange.start_step", "r1 = arange.start_step start=0 end=16 step=2 dtype=f32 : f32[8]; r0 = add.Tensor self=x other=r1 : f32[b,8]")
unit("arange-size", "r1 = sym_size.int self=x dim=0 : size; r2 = arange.default end=r1 dtype=i64 : i64[b]; r3 = unsqueeze.default self=r2 dim=1 : i64[b,1]; r0 = add.Tensor self=i other=r3 : i64[b,8]")
for op in "full ones zeros".split():
    value = " fill_value=1.5" if op == "full" else ""
    unit(f"{op}.default", f"r1 = sym_size.int self=x dim=0 : size; r2 = {op}.default size=[r1,8]{value} : f32[b,8]; r0 = sub.Tensor self=r2 other=x : f32[b,8]")
    unit(f"new_{op}.default", f"r2 = new_{op}.default self=x size=[8]{value} : f32[8]; r0 = add.Tensor self=r2 other=x : f32[b,8]")
    unit(f"{op}_like.default", f"r0 = {op}_like.default self=x{value} : f32[b,8]")
unit("full-bool", "r1 = full.default size=[8] fill_value=true dtype=bool : bool[8]; r0 = logical_and.default self=m other=r1 : bool[b,8]")
unit("scalar_tensor.default", "r1 = scalar_tensor.default s=2.5 dtype=f32 : f32[]; r0 = mul.Tensor self=x other=r1 : f32[b,8]")

# ------------------------------------------------------------------ sizes
unit("sym_size.int", "r1 = sym_size.int self=t dim=-2 : size; r0 = view.default self=t size=[-1,r1,2,4] : f32[b,4,2,4]")
unit("sym_numel.default", "r1 = sym_numel.default self=x : size; r0 = view.default self=x size=[r1] : f32[b*8]")
for op, by, shape in (("add", 0, "b,8"), ("sub", 0, "b,8"), ("mul", 1, "b,8"), ("floordiv", 1, "b,8")):
    unit(f"_operator.{op}", f"r1 = sym_size.int self=x dim=0 : size; r2 = _operator.{op} a=r1 b={by} : size; r0 = view.default self=x size=[r2,8] : f32[{shape}]")
unit("_operator.mod", "r1 = sym_size.int self=x dim=1 : size; r2 = _operator.mod a=r1 b=6 : size; r0 = view.default self=x size=[-1,r2,4] : f32[b,2,4]")
unit("torch.sym_max", "r1 = sym_size.int self=x dim=1 : size; r2 = torch.sym_max a=r1 b=4 : size; r0 = view.default self=x size=[-1,r2] : f32[b,8]")
unit("torch.sym_min", "r1 = sym_size.int self=x dim=1 : size; r2 = torch.sym_min a=r1 b=4 : size; r0 = view.default self=x size=[-1,r2,2] : f32[b,4,2]")
for op in "eq ne lt le gt ge".split():
    unit(f"_operator.{op}", f"r1 = sym_size.int self=x dim=0 : size; r2 = _operator.{op} a=r1 b=4 : truth; r0 = relu.default self=x : {SAME}")
unit("_assert_tensor_metadata.default", f"_assert_tensor_metadata.default a=x dtype=f32; r0 = relu.default self=x : {SAME}")
unit("_assert_scalar.default", f"r1 = sym_size.int self=x dim=0 : size; r2 = _operator.ge a=r1 b=1 : truth; _assert_scalar.default self=r2 assert_msg='so'; r0 = relu.default self=x : {SAME}")
for op in "sym_constrain_range sym_constrain_range_for_size".split():
    unit(f"{op}.default", f"r1 = sym_size.int self=x dim=0 : size; {op}.default size=r1 min=1 max=64; r0 = relu.default self=x : {SAME}")
unit("higher_order.wrap_with_set_grad_enabled", f"r0 = higher_order.wrap_with_set_grad_enabled enabled=false graph={{a1 = mul.Tensor self=a0 other=2.0 : {SAME}}} a0=x : {SAME}")

# ------------------------------------------------------------------ in place
unit("in-place-add", f"r1 = mul.Tensor self=x other=y : {SAME}; r2 = add_.Tensor self=r1 other=1 : {SAME}; r0 = relu_.default self=r2 : {SAME}")
unit("in-place-view", "r1 = mul.Tensor self=x other=2.0 : f32[b,8]; _2 = view.default self=r1 size=[-1,4] : f32[b*2,4]; r3 = mul_.Tensor self=r1 other=y : f32[b,8]; r0 = sigmoid_.default self=r3 : f32[b,8]")
unit("in-place-clamp", f"r1 = exp.default self=x : {SAME}; r0 = clamp_.default self=r1 min=0.5 max=2.0 : {SAME}")
unit("in-place-masked", f"r1 = neg.default self=x : {SAME}; r0 = masked_fill_.Scalar self=r1 mask=m value=0.0 : {SAME}")

# ------------------------------------------------------------------ several nodes
unit("block-encoder", "r1 = linear.default input=t weight=up : f32[b,4,16]; r2 = gelu.default self=r1 : f32[b,4,16]; r3 = linear.default input=r2 weight=down bias=g : f32[b,4,8]; "
     "r4 = add.Tensor self=t other=r3 : f32[b,4,8]; r5 = layer_norm.default input=r4 normalized_shape=[8] weight=g bias=g eps=0.01 : f32[b,4,8]; r0 = mean.dim self=r5 dim=[1] : f32[b,8]")  # fmt: skip
unit("block-attention", "r1 = view.default self=t size=[-1,4,2,4] : f32[b,4,2,4]; r2 = transpose.int self=r1 dim0=1 dim1=2 : f32[b,2,4,4]; "
     f"r3 = {ATTENTION} query=r2 key=r2 value=r2 is_causal=true : f32[b,2,4,4]; r4 = transpose.int self=r3 dim0=1 dim1=2 : f32[b,4,2,4]; "
     "r5 = reshape.default self=r4 shape=[-1,4,8] : f32[b,4,8]; r0 = linear.default input=r5 weight=w bias=n : f32[b,4,4]")  # fmt: skip
unit("block-rotary", "r1 = slice.Tensor self=q dim=3 start=0 end=4 : f32[b,4,3,4]; r2 = slice.Tensor self=q dim=3 start=4 end=9223372036854775807 : f32[b,4,3,4]; r3 = neg.default self=r2 : f32[b,4,3,4]; "
     "r4 = cat.default tensors=[r3,r1] dim=-1 : f32[b,4,3,8]; r5 = mul.Tensor self=r4 other=g : f32[b,4,3,8]; r0 = add.Tensor self=q other=r5 : f32[b,4,3,8]")  # fmt: skip
unit("block-rms", "r1 = pow.Tensor_Scalar self=x exponent=2 : f32[b,8]; r2 = mean.dim self=r1 dim=[-1] keepdim=true : f32[b,1]; r3 = add.Tensor self=r2 other=0.001 : f32[b,1]; "
     "r4 = rsqrt.default self=r3 : f32[b,1]; r5 = mul.Tensor self=x other=r4 : f32[b,8]; r0 = mul.Tensor self=g other=r5 : f32[b,8]")  # fmt: skip
unit("block-image", "r1 = conv2d.default input=img weight=k2 bias=n padding=[1,1] : f32[2,4,6,6]; r2 = relu.default self=r1 : f32[2,4,6,6]; r3 = max_pool2d.default self=r2 kernel_size=[2,2] : f32[2,4,3,3]; "
     "r4 = conv2d.default input=r3 weight=kg padding=[1,1] groups=2 : f32[2,4,3,3]; r5 = adaptive_avg_pool2d.default self=r4 output_size=[1,1] : f32[2,4,1,1]; "
     "r0 = flatten.using_ints self=r5 start_dim=1 : f32[2,4]")  # fmt: skip
unit("block-embedding", "r1 = embedding.default weight=words indices=j : f32[b,3,8]; r2 = linear.default input=r1 weight=up : f32[b,3,16]; r3 = silu.default self=r2 : f32[b,3,16]; "
     "r0 = linear.default input=r3 weight=down bias=g : f32[b,3,8]")  # fmt: skip
unit("block-routes", "r1 = linear.default input=x weight=w : f32[b,4]; r2 = softmax.int self=r1 dim=-1 : f32[b,4]; r3, r4 = topk.default self=r2 k=2 : f32[b,2], i64[b,2]; "
     "r5 = sum.dim_IntList self=r3 dim=[-1] keepdim=true : f32[b,1]; r0 = div.Tensor self=r3 other=r5 : f32[b,2]")  # fmt: skip
unit("outputs-two", f"r0 = relu.default self=x : {SAME}; r1 = sum.default self=x : f32[]")
unit("outputs-input", f"r0 = alias.default self=x : {SAME}; r1 = neg.default self=y : {SAME}")

# ------------------------------------------------------------------ the text of a unit as a program


def split_outside(text, by):
    """Split where no bracket is open."""
    parts, depth, start = [], 0, 0
    for at, c in enumerate(text):
        depth += c in "[{(" and 1 or c in "]})" and -1 or 0
        if c == by and not depth:
            parts.append(text[start:at])
            start = at + 1
    return [p.strip() for p in parts + [text[start:]] if p.strip()]


def size(word):
    if word.lstrip("-").isdigit():
        return {"as_int": int(word)}
    symbol, by = "Symbol('s77', positive=True, integer=True)", word.partition("*")[2]
    return {"as_expr": {"expr_str": f"Mul(Integer({by}), {symbol})" if by else symbol}}


def meta(kind):
    dtype, sizes = re.fullmatch(r"(\w+)\[(.*)\]", kind).groups()
    return {"dtype": DTYPES[dtype], "sizes": [size(s) for s in sizes.split(",") if s]}


class Program:
    def __init__(self, text, inputs=None, types=None):
        self.types = {} if types is None else types
        self.kinds = {}  # name -> "tensor", "size" or "truth"
        self.used, self.read, self.inner = [], set(), inputs
        self.nodes = [self.node(line) for line in split_outside(text, ";")]

    def tensor(self, name):
        if name not in self.kinds:
            assert self.inner is None or name in self.inner, name
            self.kinds[name] = "tensor"
            self.used.append(name)
            if self.inner is None:
                sizes = INPUTS.get(name) or f"f32[{WEIGHTS[name][0]}]"
                self.types[name] = meta(sizes)
        self.read.add(name)
        return {"name": name}

    def known(self, word):
        return word in self.kinds or word in (self.inner or ()) or (self.inner is None and (word in INPUTS or word in WEIGHTS))

    def value(self, key, word):
        if word[0] == "{":
            inner = Program(word[1:-1], ["a0"])
            inner.types["a0"] = meta(SAME)
            return {"as_graph": {"name": "inner", "graph": inner.graph(["a0"])}}
        if word[0] == "'":
            return {"as_float": "-Infinity"} if word == "'-Infinity'" else {"as_string": word[1:-1]}
        if word in ("true", "false"):
            return {"as_bool": word == "true"}
        if word == "none":
            return {"as_none": True}
        if key == "dtype":
            return {"as_scalar_type": DTYPES[word]}
        if word[0] == "[":
            return self.values(split_outside(word[1:-1], ","))
        if self.known(word):
            if self.kinds.get(word, "tensor") == "tensor":
                return {"as_tensor": self.tensor(word)}
            self.read.add(word)
            return {"as_sym_int": {"as_name": word}} if self.kinds[word] == "size" else {"as_sym_bool": {"as_name": word}}
        return {"as_int": int(word)} if word.lstrip("-").isdigit() else {"as_float": float(word)}

    def values(self, words):
        each = [self.value("", w) for w in words]
        kinds = {next(iter(v)) for v in each}
        if kinds <= {"as_int"}:
            return {"as_ints": [v["as_int"] for v in each]}
        if kinds <= {"as_float"}:
            return {"as_floats": [v["as_float"] for v in each]}
        if kinds == {"as_tensor"}:
            return {"as_tensors": [v["as_tensor"] for v in each]}
        if kinds <= {"as_tensor", "as_none"}:
            return {"as_optional_tensors": each}
        return {"as_sym_ints": [v.get("as_sym_int", v) for v in each]}

    def node(self, line):
        names, equals, call = line.partition(" = ")
        call, _, kinds = (call if equals else line).rpartition(" : ") if " : " in line else (line, "", "")
        overload, *arguments = re.findall(r"\w+=\{.*?\}|\w+='[^']*'|\w+=\[[^]]*\]|\S+", call)
        inputs = [{"name": k, "arg": self.value(k, v)} for k, v in (a.split("=", 1) for a in arguments)]
        outputs, called = [], [n.strip() for n in names.split(",")] if equals else []
        for name, kind in zip(called, split_outside(kinds, ","), strict=True):
            self.kinds[name] = {"size": "size", "truth": "truth"}.get(kind, "tensor")
            if self.kinds[name] == "tensor":
                self.types[name] = meta(kind)
            outputs.append({"as_tensor": {"name": name}} if self.kinds[name] == "tensor" else {f"as_sym_{'int' if kind == 'size' else 'bool'}": {"as_name": name}})
        if len(outputs) > 1 and overload.split(".")[0] in ("split", "split_with_sizes", "chunk", "unbind"):
            outputs = [{"as_tensors": [o["as_tensor"] for o in outputs]}]
        return {"target": target(overload), "inputs": inputs, "outputs": outputs, "metadata": {}, "name": called[0] if called else "said"}

    def results(self):
        made = [n for node in self.nodes for o in node["outputs"] for v in [next(iter(o.values()))] for n in ([x["name"] for x in v] if isinstance(v, list) else [v.get("name")])]
        return [n for n in made if n and n[0] != "_" and n not in self.read]

    def graph(self, inputs):
        tensors = lambda names: [{"as_tensor": {"name": n}} for n in names]
        return {"inputs": tensors(inputs), "outputs": tensors(self.results()), "nodes": self.nodes, "tensor_values": self.types}


def target(overload):
    if overload.startswith(("_operator.", "torch.")):
        return overload
    return "torch.ops." + (overload if overload.startswith("higher_order.") else "aten." + overload)


def program(text):
    """(the program's JSON, the config of its weights)"""
    p = Program(text)
    weights = [n for n in p.used if n in WEIGHTS]
    inputs = [n for n in p.used if n not in WEIGHTS]
    specs = [{"parameter": {"arg": {"name": n}, "parameter_name": n}} for n in weights] + [{"user_input": {"arg": {"as_tensor": {"name": n}}}} for n in inputs]
    whole = {
        "graph_module": {
            "graph": p.graph(weights + inputs),
            "signature": {"input_specs": specs, "output_specs": [{"user_output": {"arg": {"as_tensor": {"name": n}}}} for n in p.results()]},
            "module_call_graph": [],
        },
        "range_constraints": {"s77": {"min_val": 1, "max_val": 64}},
        "schema_version": {"major": 8, "minor": 20},
        "torch_version": "2.15.0",
    }
    config = {}
    for n in weights:
        sizes = [int(s) for s in WEIGHTS[n][0].split(",")]
        strides = [1] * len(sizes)
        for d in range(len(sizes) - 2, -1, -1):
            strides[d] = strides[d + 1] * sizes[d + 1]
        config[n] = {
            "path_name": "weight_0",
            "use_pickle": False,
            "tensor_meta": {"dtype": 7, "sizes": [{"as_int": s} for s in sizes], "strides": [{"as_int": s} for s in strides], "storage_offset": {"as_int": WEIGHTS[n][1]}},
        }
    return whole, {"config": config}


def storage():
    return [(i % 7 + 1) / 4 if i >= 960 else 0 if i // 8 % 4 == 3 or i % 16 == 5 else (i * 37 % 64 - 31) / 16 for i in range(STORAGE)]


def overloads():
    """Those of aten.def, in units' words."""
    with open(os.path.join(ROOT, "src", "import", "aten.def")) as f:
        return [w.removeprefix("aten.") for w in re.findall(r'^SP_ATEN(?:_VIEW)?\("([^"]+)"', f.read(), re.M)]


def all_units():
    """name -> text. An overload that has none of its own is called with one operand."""
    called = " ".join(UNITS.values())
    missing = [o for o in overloads() if o not in called.split()]
    return UNITS | {f"other-{o}": f"r0 = {o} self=x : {SAME}" for o in missing}, missing


def text_of(value):
    return json.dumps(value, separators=(",", ":")).encode()


def write_archive(path, name, whole, config):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as z:
        members = {
            "archive_format": b"pt2", "byteorder": b"little", f"models/{name}.json": text_of(whole), f"data/weights/{name}_weights_config.json": text_of(config),
            "data/weights/weight_0": struct.pack(f"<{STORAGE}f", *storage()),
        }  # fmt: skip
        for member, data in members.items():
            z.writestr(zipfile.ZipInfo(f"{name}/{member}"), data)


def main(arguments):
    archives, folder = arguments[0] == "--pt2", arguments[-1]
    os.makedirs(folder, exist_ok=True)
    for name, text in all_units()[0].items():
        whole, config = program(text)
        if archives:
            write_archive(os.path.join(folder, name + ".pt2"), "m", whole, config)
            continue
        with open(os.path.join(folder, name), "wb") as f:
            f.write(text_of(whole) + b"\0" + (b'{"%s_0":"batch"}' % name[:1].encode() if "size" in name else b"") + b"\0" + text_of(config))


if __name__ == "__main__":
    main(sys.argv[1:])
