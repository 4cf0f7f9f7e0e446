"""How networks are run: threads, BLAS, memory and processes."""
