#!/bin/sh
# sparta kernel bench --device: what is said without a GPU, and, with a driver that is none (tests/fake), of one.
# Usage: tests/cli/gpu.sh PATH-OF-SPARTA
. "$(dirname "$0")/bed.sh"
fake=$(dirname "$S")/tests/fake/cuda.so

# says LINE NAME: the error is this line and nothing else
says() { if [ "$(cat err)" = "sparta: $1" ] && [ ! -s out ]; then good "$2"; else bad "$2"; fi; }

# ------------------------------------------------------------------ no GPU
export SPARTA_CUDA_DRIVER=/nowhere/libcuda.so.1
run 1 "no GPU" kernel bench --device cuda:0
says "kernel bench: there is no GPU 0: SPARTA_CUDA_DRIVER /nowhere/libcuda.so.1: it cannot be opened; unset it, or name a libcuda.so.1" "no GPU: says why"
run 1 "no GPU, as JSON" kernel bench --device cuda --json; json "d['error']['code'] == 'E_DEVICE'" "no GPU, as JSON: E_DEVICE"
run 2 "a device that is none" kernel bench --device gpu
says "kernel: there is no device \"gpu\"; cpu, or a GPU: cuda:0" "a device that is none: says which there are"
for device in cuda: cuda:x cuda:-1 cuda:0x cuda:123; do run 2 "device $device" kernel bench --device $device; complains "device $device"; done
run 0 "the CPU by name" kernel bench --device cpu --m 8 --n 16 --k 16 --time 0.01 --threads 1
run 4 "an operator of GPUs on the CPU" kernel bench --op sample; has err "--device cuda:0" "says what to add"
SPARTA_CUBLAS=/nowhere; export SPARTA_CUBLAS
run 4 "blocks that nobody takes" kernel bench --device cuda:0 --pattern 4x1
says "kernel bench: no GPU kernel takes blocks of 4x1; give sides of 16, 32 or a multiple of 64; others need cuBLASLt: SPARTA_CUBLAS /nowhere: it cannot be opened; unset it, or name a libcublasLt.so.13" "blocks that nobody takes: says which are"
unset SPARTA_CUBLAS
run 2 "a pattern that is no block" kernel bench --device cuda:0 --pattern rows; complains "a pattern that is no block"
run 4 "a type that nobody takes" kernel bench --device cuda:0 --dtype i8; complains "a type that nobody takes"
for flag in "--weight w.npy" "--format csr" "--target avx2"; do run 2 "$flag on a GPU" kernel bench --device cuda:0 $flag; has err "means nothing to bench on a GPU" "$flag is refused"; done
run 2 "a device for show" kernel show --nest "i*; x0: f32[i]; y0: f32[i]; y0 = exp(x0)" --device cuda:0; complains "a device for show"

run 2 "--tune on the CPU" kernel bench --tune; has err "--tune means nothing to bench on the CPU" "--tune is refused"
run 2 "-o for bench" kernel bench -o f; has err "--output means nothing to bench" "-o is refused"

# ------------------------------------------------------------------ kernels compiled ahead
run 2 "kernel pack without a file" kernel pack; has err "-o kernels.sparta-gpu" "says what to add"
run 2 "kernel pack for no chip" kernel pack --device cuda:0 -o f; has err "give sm_90a, or sm_80 and newer" "says which there are"
run 2 "kernel pack of no block" kernel pack --pattern rows -o f; has err "give the sides of a block" "says what a pattern is"
run 2 "kernel pack does not time" kernel pack --time 1 -o f; complains "kernel pack does not time"
if "$S" doctor --threads 1 --json | grep -q '"nvrtc":"1'; then
    run 4 "kernel pack of blocks that nobody takes" kernel pack --pattern 4x1 -o f; complains "kernel pack of blocks that nobody takes"
    run 0 "kernel pack" kernel pack --device sm_90a --op sample --m 64 --n 128 --k 128 -o kernels.sparta-gpu; has out "for sm_90a, 1 kind of call" "says what it packed"
fi

# ------------------------------------------------------------------ one that computes nothing: what it answers is wrong, so it is not timed
if [ -e "$fake" ]; then
    export SPARTA_CUDA_DRIVER=$fake
    run 1 "a GPU too many" kernel bench --device cuda:1; has err "there is no GPU 1" "says which is not there"
    FAKE_CUDA="major=7 minor=5"; export FAKE_CUDA
    run 4 "a GPU that is too old" kernel bench --device cuda:0; has err "sm_80 is the oldest" "says what it must be"
    unset FAKE_CUDA
    SPARTA_NVRTC=/nowhere; export SPARTA_NVRTC
    run 1 "no NVRTC" kernel bench --device cuda:0 --m 64 --n 128 --k 128; has err "SPARTA_NVRTC /nowhere" "says how to name one"
    unset SPARTA_NVRTC
    if "$S" doctor --threads 1 --json | grep -q '"nvrtc":"1'; then
        run 3 "a GPU that is wrong" kernel bench --device cuda:0 --m 64 --n 128 --k 128; has err "report it as a bug" "is not timed"
        SPARTA_CUBLAS=/nowhere; export SPARTA_CUBLAS # nothing to compare with, and no blocks: nothing to be wrong
        run 0 "kernel bench on a GPU" kernel bench --device cuda:0 --op sample --sparsity 1 --m 64 --n 128 --k 128 --time 0.001
        has out "sample of 64 tokens, 128x128, 64x64 at sparsity 1: 0 blocks stay; f16, Fake GPU 0, sm_90a" "says what it timed"
        has err "nothing to compare with: SPARTA_CUBLAS /nowhere" "says why there is no dense"
        run 0 "kernel bench on a GPU as JSON" kernel bench --device cuda:0 --op sample --sparsity 1 --m 64 --n 128 --k 128 --time 0.001 --json
        json "d['op'] == 'sample' and d['dtype'] == 'f16' and d['best_us'] > 0 and d['dense']['name'] is None and d['dense']['problem'] and d['ratio_to_dense'] is None and d['peak_gbytes_per_s'] > 0 and d['device'] == 'Fake GPU 0' and d['isa'] == 'sm_90a'" "with what is not there as null"
        run 0 "kernel bench on a GPU sweeps" kernel bench --device cuda:0 --op sample --sparsity 1 --m 64,128 --n 128 --k 128 --dtype f16,tf32 --time 0.001 --table csv
        if [ "$(wc -l < out)" = 5 ]; then good "a row for each"; else bad "a row for each"; fi
        run 0 "doctor --measure" doctor --measure --threads 1; has out "GB/s of copies (measured)" "doctor measures GPUs when asked"
        run 0 "doctor --measure --json" doctor --measure --threads 1 --json
        json "d['gpus'][0]['peak_gbytes_per_s'] > 0 and d['gpus'][0]['peak_tflops'] is None" "and in JSON"
        export SPARTA_GPU_KERNELS=kernels.sparta-gpu SPARTA_NVRTC=/nowhere
        run 0 "packed kernels without NVRTC" kernel bench --device cuda:0 --op sample --sparsity 1 --m 64 --n 128 --k 128 --time 0.001 --cache none
        head -c 1000 kernels.sparta-gpu > cut; SPARTA_GPU_KERNELS=cut
        run 1 "packed kernels that are cut off" kernel bench --device cuda:0 --m 64 --n 128 --k 128 --cache none; has err "cut off" "says so"
        unset SPARTA_CUBLAS SPARTA_GPU_KERNELS SPARTA_NVRTC
    fi
fi
finish
