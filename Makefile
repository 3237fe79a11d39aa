# Weir. `make demo` and `make test` do everything themselves; see README.md.
#   make [FLAVOUR=release|asan|tsan] [MPI=mpicc|mpich|no]   build/FLAVOUR/weir and libweir.a
#   make test | demo | asan | tsan | fuzz | lint | format | bench | check-long | install | clean
FLAVOUR ?= release
B := build/$(FLAVOUR)
CC ?= gcc
PREFIX ?= /usr/local
SECONDS_EACH ?= 300

comma := ,
ONEDNN := $(wildcard .deps/onednn)
DNN_CFLAGS := $(if $(ONEDNN),-isystem $(CURDIR)/.deps/onednn/include)
DNN_LIBS := $(if $(ONEDNN),-L$(CURDIR)/.deps/onednn/lib -Wl$(comma)-rpath$(comma)$(CURDIR)/.deps/onednn/lib) -ldnnl

# MPI: the mpicc that is there, if one is (MPI=no: none; MPI=mpich: Debian's second one; else the name of a compiler). Only net/mpi*.c
# are compiled against it: a second MPI shares all other objects with the first.
MPI ?= mpicc
MPICC := $(if $(filter no,$(MPI)),,$(shell command -v $(if $(filter mpich,$(MPI)),mpicc.mpich,$(MPI)) 2>/dev/null))
MPI_SHOW := $(if $(MPICC),$(shell $(MPICC) -show))
MPI_CFLAGS := $(patsubst -I%,-isystem %,$(filter -I% -D%,$(MPI_SHOW)))
MPI_LIBS := $(filter -L% -l% -Wl%,$(MPI_SHOW))
ifneq ($(filter-out mpicc,$(MPI)),)
B := build/$(FLAVOUR)-$(if $(filter no,$(MPI)),nompi,$(notdir $(MPI)))
endif
O := $(if $(and $(MPICC),$(shell command -v mpicc 2>/dev/null)),build/$(FLAVOUR),$(B))/obj

# oneDNN brings GNU's OpenMP: clang must not bring another one

OPT_release := -O2 -g
OPT_asan := -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=undefined
OPT_tsan := -O1 -g -fsanitize=thread
OPT_fuzz := -O1 -g -fno-omit-frame-pointer -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined
OPT := $(OPT_$(FLAVOUR))

CFLAGS ?=
override CFLAGS += -std=c17 -D_GNU_SOURCE -Wall -Wextra -Wno-missing-field-initializers -Werror -ffp-contract=off -fno-math-errno -pthread -fopenmp-simd -fPIC -fvisibility=hidden \
	-Iinclude -Isrc $(DNN_CFLAGS) $(OPT) -DWEIR_SOURCE_DIR='"$(CURDIR)"' -DWEIR_SHARE_DIR='"$(PREFIX)/share/weir"' $(if $(MPICC),-DWEIR_MPI) -MMD -MP
LIBS := $(DNN_LIBS) $(MPI_LIBS) -lzmq -ljansson -lz -lxxhash -lgomp -lm -pthread

SRC := $(wildcard src/*/*.c)
MPI_SRC := $(wildcard src/net/mpi*.c src/coll/mpi.c)
LIB_OBJ := $(patsubst src/%.c,$(O)/%.o,$(filter-out src/cli/% $(MPI_SRC),$(SRC))) \
	$(if $(MPICC),$(patsubst src/%.c,$(B)/with-mpi/%.o,$(MPI_SRC)))
CLI_OBJ := $(patsubst src/%.c,$(O)/%.o,$(filter src/cli/%,$(SRC)))
TESTS := $(patsubst tests/%.c,$(B)/tests/%,$(wildcard tests/test_*.c))
FUZZERS := $(patsubst tests/fuzz/%.c,build/fuzz/%,$(wildcard tests/fuzz/fuzz_*.c))
HELP_OBJ := $(patsubst tests/%.c,$(B)/tests/%.o,$(wildcard tests/help_*.c))

.PHONY: FORCE tests-mpich all deps deps-dev test demo asan tsan fuzz lint format bench check-long install clean tests
all: deps
	@$(MAKE) --no-print-directory -s -j$$(nproc) $(B)/weir $(B)/libweir.a
deps:
	@scripts/deps build
deps-dev:
	@scripts/deps dev

$(O)/%_avx2.o: CFLAGS += -mavx2 -mf16c
$(O)/%_avx512.o: CFLAGS += -mf16c -mavx512f -mavx512dq -mavx512bw -mavx512vl -mprefer-vector-width=512
$(O)/nn/kernels_%.o: CFLAGS += -ffp-contract=fast -fno-math-errno -fno-trapping-math -O3
$(O)/nn/kernels_avx2.o $(O)/nn/kernels_avx512.o: CFLAGS += -mfma
$(O)/%.o: src/%.c
	@mkdir -p $(@D)
	@echo "  cc $<"; $(CC) $(CFLAGS) -c $< -o $@
$(B)/with-mpi/%.o: src/%.c $(B)/mpi
	@mkdir -p $(@D)
	@echo "  cc $<"; $(CC) $(CFLAGS) $(MPI_CFLAGS) -c $< -o $@
# the tables are made anew when MPI comes or goes, and all of it when it is another one
$(O)/net/net.o $(O)/coll/coll.o $(B)/weir: $(B)/mpi
$(B)/mpi: FORCE
	@mkdir -p $(@D); echo '$(MPI_SHOW)' | cmp -s - $@ || echo '$(MPI_SHOW)' > $@
FORCE:
$(B)/libweir.a: $(LIB_OBJ) $(B)/mpi
	@rm -f $@
	@ar rcs $@ $(LIB_OBJ)
$(B)/weir: $(CLI_OBJ) $(B)/libweir.a
	@echo "  ld $@"; $(CC) $(CFLAGS) $(CLI_OBJ) $(B)/libweir.a -o $@ $(LIBS)

$(B)/tests/%.o: tests/%.c
	@mkdir -p $(@D)
	@echo "  cc $<"; $(CC) $(CFLAGS) -Itests -c $< -o $@
$(B)/tests/%: $(B)/tests/%.o $(HELP_OBJ) $(B)/libweir.a
	@echo "  ld $@"; $(CC) $(CFLAGS) $< $(HELP_OBJ) $(B)/libweir.a -o $@ -lcmocka $(LIBS)
# programs to be run by mpirun, by tests/test_mpi.py; and the same for the second MPI, if it is there
$(B)/tests/mpi/%: tests/mpi/%.c $(B)/libweir.a
	@mkdir -p $(@D)
	@echo "  ld $@"; $(CC) $(CFLAGS) $(MPI_CFLAGS) $< $(B)/libweir.a -o $@ $(LIBS)
tests: $(B)/weir $(TESTS) $(if $(MPICC),$(B)/tests/mpi/ranks)
ifeq ($(MPI),mpicc)
tests: $(if $(shell command -v mpicc.mpich),tests-mpich)
tests-mpich: $(B)/weir
	@$(MAKE) --no-print-directory MPI=mpich $(B)-mpich/weir $(B)-mpich/tests/mpi/ranks
endif

test: deps-dev
	@$(MAKE) --no-print-directory -s -j$$(nproc) tests
	@$(MAKE) --no-print-directory lint
	@tests/run $(FLAVOUR)
asan tsan: deps-dev
	@$(MAKE) --no-print-directory FLAVOUR=$@ -j$$(nproc) tests
	@tests/run $@
demo: all
	@scripts/demo $(B)/weir
lint:
	@scripts/lint
format: deps-dev
	clang-format -i $(SRC) $(wildcard src/*/*.h include/*.h tests/*.[ch] tests/fuzz/*.c)
	scripts/wrap *.md docs/*.md

# every fuzzer (FUZZ: those named; FUZZ=codecs: every decoder by itself) for SECONDS_EACH seconds, with ASan and UBSan
fuzz: deps-dev
	@$(MAKE) --no-print-directory FLAVOUR=fuzz CC=clang -j$$(nproc) fuzzers
	@tests/fuzz/run $(SECONDS_EACH) $(FUZZ)
fuzzers: $(FUZZERS)
build/fuzz/%: tests/fuzz/%.c build/fuzz/libweir.a
	@echo "  ld $@"; $(CC) $(CFLAGS) -fsanitize=fuzzer,address,undefined $< build/fuzz/libweir.a -o $@ $(LIBS)

bench: all
	@bench/run $(B)/weir

check-long: all
	@tests/check_long $(B)/weir

install: all
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/lib/pkgconfig $(DESTDIR)$(PREFIX)/lib/weir $(DESTDIR)$(PREFIX)/include \
		$(DESTDIR)$(PREFIX)/share/weir/models $(DESTDIR)$(PREFIX)/share/man/man1
	$(if $(ONEDNN),cp -P .deps/onednn/lib/libdnnl.so* $(DESTDIR)$(PREFIX)/lib/weir/)
	$(CC) $(CFLAGS) $(CLI_OBJ) $(B)/libweir.a -o $(DESTDIR)$(PREFIX)/bin/weir $(if $(ONEDNN),-L.deps/onednn/lib -Wl$(comma)-rpath$(comma)'$$ORIGIN/../lib/weir') \
		-ldnnl $(filter-out $(DNN_LIBS),$(LIBS))
	install -m 644 $(B)/libweir.a $(DESTDIR)$(PREFIX)/lib/
	install -m 644 include/weir.h $(DESTDIR)$(PREFIX)/include/
	install -m 644 models/*.net $(DESTDIR)$(PREFIX)/share/weir/models/
	install -m 644 man/weir.1 $(DESTDIR)$(PREFIX)/share/man/man1/
	sed -e 's|@PREFIX@|$(PREFIX)|g' -e 's|@MPI@|$(MPI_LIBS)|' scripts/weir.pc.in > $(DESTDIR)$(PREFIX)/lib/pkgconfig/weir.pc
clean:
	rm -rf build

-include $(LIB_OBJ:.o=.d) $(CLI_OBJ:.o=.d) $(HELP_OBJ:.o=.d) $(TESTS:=.d)

.SECONDARY: $(HELP_OBJ)
