X(idx)
X(synth)
