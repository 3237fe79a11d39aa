X(constant)
X(step)
X(cosine)
X(linear)
