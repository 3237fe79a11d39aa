X(zmq)
X(sim)
#ifdef WEIR_MPI
X(mpi)
#endif
