X(sgd)
