X(zmq)
#ifdef WEIR_MPI
X(mpi)
#endif
