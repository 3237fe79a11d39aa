X(allreduce)
