X(allreduce)
X(peers)
