"""What kinds of ops compute on a piece: the bases of kernels."""
