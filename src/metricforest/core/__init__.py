"""Growing a forest and measuring in it: compiled kernels and the functions that call them."""
