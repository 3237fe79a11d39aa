X(zmq)
