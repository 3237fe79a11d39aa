X(ring)
X(shm)
