X(auto)
X(ring)
X(halving)
X(doubling)
X(blocks)
X(tree)
X(hier)
X(shm)
#ifdef WEIR_MPI
X(mpi)
#endif
