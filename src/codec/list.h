X(none)
