X(ring)
#ifdef WEIR_MPI
X(mpi)
#endif
