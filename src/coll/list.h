X(ring)
