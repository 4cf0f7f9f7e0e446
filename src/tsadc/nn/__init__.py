"""Networks: state-space layers, diffusion, graphs, masks and the training loop, in torch."""
