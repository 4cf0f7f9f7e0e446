"""Exports: a fitted ensemble, or TSAD-C, as a scorer that runs without this package.

standalone.py         the scorer of the Python export; also usable here
sparse.py             products of a sparse matrix with numpy alone
prune.py              copies the parts of this package that a module needs, and nothing else
bundle.py             the Python export: those parts, and the arrays of a model
graph.py              builds an ONNX graph from arithmetic
onnx_views.py         the views of the ensemble as parts of a graph
onnx_network.py       the network of TSAD-C as a part of a graph
onnx_convolution.py   the convolution of its S4 layers as products of matrices
onnx_file.py          the ONNX export: normalisation, network, views and fusion as one graph
folder.py             what every export consists of: manifest, README, self-test
"""
