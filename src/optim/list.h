X(sgd)
X(adagrad)
X(adam)
X(adamw)
