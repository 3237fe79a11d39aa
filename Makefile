# Weir. `make demo` and `make test` do everything themselves; see README.md.
#   make [FLAVOUR=release|asan|tsan|coverage|clang] [MPI=mpicc|mpich|no|COMPILER] [WERROR=1]
#                                      build/FLAVOUR/weir and libweir.a
#   make test | demo | asan | tsan | fuzz | fault | coverage | lint | format | bench | check-long
#   make install [PREFIX=/usr/local] [DESTDIR=] | compile_commands.json | clean
FLAVOUR ?= release
CC ?= gcc
PREFIX ?= /usr/local
SECONDS_EACH ?= 300
B := build/$(FLAVOUR)
O := $(B)/obj

comma := ,
space := $(subst ,, )
# the one place that has the version is the header
VERSION := $(shell sed -n 's/^.define WEIR_VERSION "\(.*\)"$$/\1/p' include/weir.h)

ONEDNN := $(wildcard .deps/onednn)
# programs find a private oneDNN from where they lie: the way up from a folder of the build tree
up = $(subst $(space),/,$(patsubst %,..,$(subst /, ,$(1))))
RPATH = $(if $(ONEDNN),-Wl$(comma)-rpath$(comma)'$$ORIGIN/$(call up,$(@D))/.deps/onednn/lib')
DNN_LIBS := $(if $(ONEDNN),-L.deps/onednn/lib) -ldnnl

# MPI: the mpicc that is there, if one is (MPI=no: none; MPI=mpich: Debian's second one; else the
# name of a compiler). Only net/mpi*.c and coll/mpi.c are compiled against it, and only the tables
# of worlds and collectives know of it: programs with another MPI share all other objects.
MPI ?= mpicc
MPI_NAME := $(if $(filter mpich,$(MPI)),mpicc.mpich,$(MPI))
MPICC := $(if $(filter no,$(MPI)),,$(shell command -v $(MPI_NAME) 2>/dev/null))
MPI_SHOW := $(if $(MPICC),$(shell $(MPICC) -show))
MPI_CFLAGS := $(patsubst -I%,-isystem %,$(filter -I% -D%,$(MPI_SHOW))) $(if $(MPICC),-DWEIR_MPI)
MPI_LIBS := $(filter -L% -l% -Wl%,$(MPI_SHOW))
ifneq ($(filter-out mpicc,$(MPI)),)
B := $(B)-$(if $(filter no,$(MPI)),nompi,$(notdir $(MPI)))
endif

# warnings are errors for developers (make tests, asan, tsan, fuzz) and CI (.ci/run): a new
# compiler's must not stop anybody else, nor whoever tries `make test`
ifneq ($(filter tests fuzzers,$(MAKECMDGOALS)),)
export WERROR ?= 1
endif

OPT_release := -O2 -g
OPT_clang := -O0 # for its warnings
OPT_asan := -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined \
	-fno-sanitize-recover=undefined
OPT_tsan := -O1 -g -fsanitize=thread
OPT_fuzz := -O1 -g -fno-omit-frame-pointer -fsanitize=fuzzer-no-link,address,undefined \
	-fno-sanitize-recover=undefined
OPT_coverage := -O1 -g --coverage -fprofile-update=atomic
OPT := $(OPT_$(FLAVOUR))

# no path of this machine in an object: includes are relative, and what is left is mapped
CFLAGS ?=
override CFLAGS += -std=c17 -D_GNU_SOURCE -Wall -Wextra -Wno-missing-field-initializers \
	$(if $(filter-out 0 no,$(WERROR)),-Werror) -ffile-prefix-map=$(CURDIR)/= \
	-ffile-prefix-map=$(CURDIR)=. -ffp-contract=off -fno-math-errno -pthread -fopenmp-simd \
	-fPIC -fvisibility=hidden -MMD -MP -Iinclude -Isrc \
	$(if $(ONEDNN),-isystem .deps/onednn/include) $(OPT)
# oneDNN brings GNU's OpenMP: clang must not bring another one
LIBS := $(DNN_LIBS) $(MPI_LIBS) -lzmq -ljansson -lz -lxxhash -lgomp -lm -pthread

SRC := $(wildcard src/*/*.c)
MPI_SRC := $(wildcard src/net/mpi*.c src/coll/mpi.c)
TABLE_SRC := src/net/net.c src/coll/coll.c
LIB_OBJ := $(patsubst src/%.c,$(O)/%.o,$(filter-out src/cli/% $(MPI_SRC) $(TABLE_SRC),$(SRC))) \
	$(patsubst src/%.c,$(B)/with-mpi/%.o,$(TABLE_SRC) $(if $(MPICC),$(MPI_SRC)))
CLI_OBJ := $(patsubst src/%.c,$(O)/%.o,$(filter src/cli/%,$(SRC)))
TESTS := $(patsubst tests/%.c,$(B)/tests/%,$(wildcard tests/test_*.c))
FUZZERS := $(patsubst tests/fuzz/%.c,build/fuzz/%,$(wildcard tests/fuzz/fuzz_*.c))
FAULT_TESTS := test_elastic test_faults test_launch test_stop test_membership test_net_loss \
	test_sim_faults test_coll_faults test_shm_faults test_peers_faults test_checkpoint_faults \
	test_elastic_peers test_lost test_generations test_saver test_storm
HELP_OBJ := $(patsubst tests/%.c,$(B)/tests/%.o,$(wildcard tests/help_*.c))

.PHONY: FORCE all deps deps-dev tests tests-mpich tests-nompi test demo asan tsan fuzz fuzzers \
	fault storm-bugs \
	coverage lint format bench check-long compile_commands.json install clean
all: deps
	@$(MAKE) --no-print-directory -s -j$$(nproc) $(B)/weir $(B)/libweir.a
deps:
	@scripts/deps build
deps-dev:
	@scripts/deps dev

# ---- objects and programs ----

COMPILE = @mkdir -p $(@D); echo "  cc $<"; $(CC) $(CPPFLAGS) $(CFLAGS)
LINK = @echo "  ld $@"; $(CC) $(CFLAGS) $(LDFLAGS)

# a loop of few instructions is up to half as fast where it falls badly in memory
KERNELS := $(O)/core/vec_%.o $(O)/codec/quant_%.o
$(KERNELS): CFLAGS += -falign-functions=64 -falign-loops=64
$(O)/%_avx2.o: CFLAGS += -mavx2 -mf16c
$(O)/%_avx512.o: CFLAGS += -mf16c -mavx512f -mavx512dq -mavx512bw -mavx512vl \
	-mprefer-vector-width=512
$(O)/nn/kernels_%.o: CFLAGS += -ffp-contract=fast -fno-math-errno -fno-trapping-math -O3
$(O)/nn/kernels_avx2.o $(O)/nn/kernels_avx512.o: CFLAGS += -mfma
$(O)/%.o: src/%.c
	$(COMPILE) -c $< -o $@
$(B)/with-mpi/%.o: src/%.c $(B)/mpi-flags
	$(COMPILE) $(MPI_CFLAGS) -c $< -o $@
# what knows of MPI is made anew when it comes or goes, or is another one
$(B)/mpi-flags: FORCE
	@mkdir -p $(@D); echo '$(MPI_SHOW)' | cmp -s - $@ || echo '$(MPI_SHOW)' > $@
FORCE:
$(B)/libweir.a: $(LIB_OBJ) $(B)/mpi-flags
	@rm -f $@
	@$(AR) rcs $@ $(LIB_OBJ)
$(B)/weir: $(CLI_OBJ) $(B)/libweir.a
	$(LINK) $^ -o $@ $(RPATH) $(LIBS)

# ---- tests ----

$(B)/tests/%.o: tests/%.c
	$(COMPILE) -DWEIR_SOURCE_DIR='"$(CURDIR)"' -Itests -c $< -o $@
$(B)/tests/%: $(B)/tests/%.o $(HELP_OBJ) $(B)/libweir.a
	$(LINK) $^ -o $@ -lcmocka $(RPATH) $(LIBS)
# programs with a mistake that was put in on purpose, which storms have to find (tests/check_storm):
# one file of each is compiled with it
BUGS := stale bucket sample quorum residual
BUG_stale := net/match
BUG_bucket := train/step
BUG_sample := train/groups
BUG_quorum := net/membership
BUG_residual := exchange/allreduce
BUGGY := $(BUGS:%=$(B)/bugs/weir-%)
storm-bugs: $(BUGGY)
.SECONDEXPANSION:
$(BUGS:%=$(B)/bugs/%.o): $(B)/bugs/%.o: src/$$(BUG_%).c
	$(COMPILE) -DWEIR_BUG_$(shell echo $* | tr a-z A-Z) -c $< -o $@
$(BUGGY): $(B)/bugs/weir-%: $(B)/bugs/%.o $(CLI_OBJ) $(B)/libweir.a
	$(LINK) $^ -o $@ $(RPATH) $(LIBS)
# programs to be run by mpirun, by tests/test_mpi.py
$(B)/tests/mpi/%: tests/mpi/%.c $(B)/libweir.a
	@mkdir -p $(@D)
	$(LINK) $(MPI_CFLAGS) $^ -o $@ $(RPATH) $(LIBS)
tests: $(B)/weir $(TESTS) $(if $(MPICC),$(B)/tests/mpi/ranks)
ifeq ($(FLAVOUR)$(MPI),releasempicc)
tests: $(BUGGY)
endif
# the same for the second MPI, if it is there, and a program without any
ifeq ($(MPI),mpicc)
tests: $(if $(shell command -v mpicc.mpich),tests-mpich) tests-nompi
tests-mpich: $(B)/weir
	@$(MAKE) --no-print-directory MPI=mpich $(B)-mpich/weir $(B)-mpich/tests/mpi/ranks
tests-nompi: $(B)/weir
	@$(MAKE) --no-print-directory MPI=no $(B)-nompi/weir
endif

test: deps-dev
	@$(MAKE) --no-print-directory -s -j$$(nproc) WERROR=$(or $(WERROR),0) tests
	@$(MAKE) --no-print-directory lint
	@tests/run $(FLAVOUR)
asan tsan: deps-dev
	@$(MAKE) --no-print-directory FLAVOUR=$@ -j$$(nproc) tests
	@tests/run $@
# which lines the tests of the sanitizers' flavours run (NAMED: those named), a folder
# a row
coverage: deps-dev
	@$(MAKE) --no-print-directory -s FLAVOUR=coverage -j$$(nproc) tests
	@find build/coverage -name '*.gcda' -delete
	@tests/run coverage $(NAMED)
	@scripts/coverage build/coverage

# every fuzzer (FUZZ: those named; FUZZ=codecs: every decoder by itself) for SECONDS_EACH seconds,
# with ASan and UBSan
fuzz: deps-dev
	@$(MAKE) --no-print-directory FLAVOUR=fuzz CC=clang -j$$(nproc) fuzzers
	@tests/fuzz/run $(SECONDS_EACH) $(FUZZ)
fuzzers: $(FUZZERS)
build/fuzz/%: tests/fuzz/%.c build/fuzz/libweir.a
	$(LINK) -fsanitize=fuzzer,address,undefined $^ -o $@ $(RPATH) $(LIBS)

# ---- the rest ----

demo: all
	@scripts/demo $(B)/weir
lint:
	@scripts/lint
format: deps-dev
	@scripts/format
bench: all
	@bench/run $(B)/weir
# some minutes of storms, and of all tests in which something is made to fail
fault: deps-dev
	@$(MAKE) --no-print-directory -s -j$$(nproc) tests
	@tests/check_storm $(B)
	@EVERY_CASE=1 tests/run $(FLAVOUR) $(FAULT_TESTS)
	@tests/check_faults --weir $(B)/weir --kills 20 --minutes 1 kills storm
check-long: all
	@$(MAKE) --no-print-directory -s storm-bugs
	@tests/check_long $(B)/weir
# what editors and analysers read; make itself says how each file is compiled
compile_commands.json:
	@$(MAKE) --no-print-directory --always-make --dry-run tests | scripts/compile_commands > $@

# The installed library also looks for models under PREFIX, for programs that embed it.
I := $(B)/installed
PLACE := $(DESTDIR)$(PREFIX)
PC_ONEDNN := -L$${libdir}/weir -Wl,-rpath,$${libdir}/weir
install: all
	@rm -rf $(I) && mkdir -p $(I)
	$(CC) $(CPPFLAGS) $(CFLAGS) -DWEIR_SHARE_DIR='"$(PREFIX)/share/weir"' \
		-c src/nn/zoo.c -o $(I)/zoo.o
	$(AR) rcs $(I)/libweir.a $(filter-out %/nn/zoo.o,$(LIB_OBJ)) $(I)/zoo.o
	$(CC) $(CFLAGS) $(LDFLAGS) $(CLI_OBJ) $(I)/libweir.a -o $(I)/weir \
		$(if $(ONEDNN),-Wl$(comma)-rpath$(comma)'$$ORIGIN/../lib/weir') $(LIBS)
	sed 's|@VERSION@|$(VERSION)|' man/weir.1 > $(I)/weir.1
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@VERSION@|$(VERSION)|' -e 's|@MPI@|$(MPI_LIBS)|' \
		-e 's|@ONEDNN@|$(if $(ONEDNN),$(PC_ONEDNN) )|' \
		scripts/weir.pc.in > $(I)/weir.pc
	install -d '$(PLACE)/bin' '$(PLACE)/lib/pkgconfig' '$(PLACE)/lib/weir' \
		'$(PLACE)/include' '$(PLACE)/share/weir/models' '$(PLACE)/share/man/man1'
	$(if $(ONEDNN),cp -P .deps/onednn/lib/libdnnl.so* '$(PLACE)/lib/weir/')
	install $(I)/weir '$(PLACE)/bin/'
	install -m 644 $(I)/libweir.a '$(PLACE)/lib/'
	install -m 644 $(I)/weir.pc '$(PLACE)/lib/pkgconfig/'
	install -m 644 include/weir.h '$(PLACE)/include/'
	install -m 644 models/*.net '$(PLACE)/share/weir/models/'
	install -m 644 $(I)/weir.1 '$(PLACE)/share/man/man1/'
clean:
	rm -rf build compile_commands.json

-include $(LIB_OBJ:.o=.d) $(CLI_OBJ:.o=.d) $(HELP_OBJ:.o=.d) $(TESTS:=.d) \
	$(BUGS:%=$(B)/bugs/%.d)

.SECONDARY: $(HELP_OBJ)
