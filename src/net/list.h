X(zmq)
X(sim)
